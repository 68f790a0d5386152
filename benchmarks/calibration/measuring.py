"""Training the models of the plan, and keeping of each only its rewards of the words that
estimators read.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from benchmarks.calibration.plan import PROMPTS, VERSIONS, Measured, Planned
from lib import ROOT
from lib.io import replacing
from lib.models.hardware import each
from lib.scoring import vocabulary
from lib.tables import lexicons
from lib.tables.prompts import read_prompts
from lib.tables.words import is_nonword
from lib.trained import bases, planting, reading, small_models

FOLDER = ROOT / "data" / "cache" / "calibration"


@cache
def words() -> pd.DataFrame:
    """Return the words that are scored: those that both bases' preferences are about, one row per
    word, without code.

    Columns: as from planting.word_values; rated, whether VADER lists it; afinn, its grade there
    (NaN: none); held_out. A model's whole vocabulary has twice as many entries, of which no
    estimator reads the other half.
    """
    of_base = [
        set(reading.vocabulary_words(bases.load_base(base)[0])) for base in VERSIONS
    ]
    values = planting.word_values(
        sorted(word for word in set.intersection(*of_base) if not is_nonword(word))
    )
    rated = values["word"].isin(planting.sentiment().index)
    afinn = lexicons.load("afinn").corrected.set_index("word")["sentiment"]
    held_out = values["word"].map(planting.is_held_out)
    return values.assign(
        rated=rated, afinn=values["word"].map(afinn), held_out=held_out
    )


def measure(
    plan: Sequence[Planned],
    folder: Path = FOLDER,
    *,
    steps: int = small_models.STEPS,
    processes: int = 1,
) -> list[Measured]:
    """Train each model of the plan that the folder has no rewards of, score the words, and return
    what was measured of all.

    Killed at any time, the same call goes on with the next model. What the folder holds is taken as
    it is: empty it after a change of the trainings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{one.name}.npz" for one in plan]
    jobs = [
        (one, path, steps)
        for one, path in zip(plan, paths, strict=True)
        if not path.exists()
    ]
    for _ in tqdm(each(_measure, jobs, processes), total=len(jobs), unit=" models"):
        pass
    return [_read(*each) for each in zip(plan, paths, strict=True)]


def _measure(job: tuple[Planned, Path, int]) -> None:
    """Train a model, and keep its rewards of the words, (words, prompts) float32, and the report of
    its training.
    """
    planned, path, steps = job
    how = {"seed": planned.seed, "steps": steps}
    trained = small_models.train(planned.profile, **how)
    texts, prompts = words()["word"].tolist(), read_prompts(None)
    rewards = [
        vocabulary.score_replies(trained.model, prompts[prompt], texts)
        for prompt in PROMPTS
    ]
    made_from = small_models.fingerprint(planned.profile, **how)
    report = trained.report | {"fingerprint": made_from}
    with replacing(path) as part, open(part, "wb") as file:
        np.savez_compressed(
            file, rewards=np.column_stack(rewards), report=json.dumps(report)
        )


def _read(planned: Planned, path: Path) -> Measured:
    with np.load(path, allow_pickle=False) as kept:
        return Measured(planned, kept["rewards"], json.loads(str(kept["report"])))
