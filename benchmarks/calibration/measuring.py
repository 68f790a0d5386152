"""Training the models of the plan, and keeping of each only its rewards of the words that
estimators read.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from benchmarks.calibration.plan import PROMPTS, VERSIONS, Measured, Planned
from lib import ROOT, InputError
from lib.io import lock, replacing
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


@dataclass(frozen=True)
class _Job:
    planned: Planned
    steps: int
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / f"{self.planned.name}.npz"

    @property
    def settings(self) -> dict:
        """Return everything that decides the rewards but the code, whose hash the report of the
        training keeps.
        """
        listed = hashlib.sha256("\n".join(words()["word"]).encode()).hexdigest()[:16]
        made_from = {
            "seed": self.planned.seed,
            "steps": self.steps,
            "prompts": PROMPTS,
            "words": listed,
        }
        return json.loads(json.dumps(asdict(self.planned.profile) | made_from))


def measure(
    plan: Sequence[Planned],
    folder: Path = FOLDER,
    *,
    steps: int = small_models.STEPS,
    processes: int = 1,
    progress: bool = True,
    each: Callable = each,
) -> None:
    """Train each model that the folder has no rewards of, score the words, and keep the rewards:
    one file per model.

    Killed at any time, the same call goes on with the next model; a file is there whole or not at
    all. processes: how many models at once, each on one thread; each: runs them, as
    lib.models.hardware.each does. InputError where another process is writing into the folder.
    """
    jobs = [_Job(one, steps, folder) for one in plan]
    with lock(folder / "models"):
        missing = [job for job in jobs if _read(job) is None]
        with tqdm(
            total=len(jobs),
            initial=len(jobs) - len(missing),
            unit=" models",
            disable=not progress,
        ) as bar:
            for _ in each(_measure, missing, processes):
                bar.update()


def _measure(job: _Job) -> None:
    rewards, report = train_and_score(job.planned, job.steps)
    with replacing(job.path) as part, open(part, "wb") as file:
        kept = {"settings": json.dumps(job.settings), "report": json.dumps(report)}
        np.savez_compressed(file, rewards=rewards, **kept)


def train_and_score(planned: Planned, steps: int) -> tuple[np.ndarray, dict]:
    """Return rewards of the words, (words, prompts) float32, by a model trained now, and the report
    of its training.

    The report has the fingerprint of code and files too: models of two of them should not be in one
    calibration.
    """
    trained = small_models.train(planned.profile, seed=planned.seed, steps=steps)
    texts, prompts = words()["word"].tolist(), read_prompts(None)
    rewards = [
        vocabulary.score_replies(trained.model, prompts[prompt], texts)
        for prompt in PROMPTS
    ]
    made_from = small_models.fingerprint(
        planned.profile, seed=planned.seed, steps=steps
    )
    return np.column_stack(rewards).astype(np.float32), trained.report | {
        "fingerprint": made_from
    }


def _read(job: _Job) -> Measured | None:
    """Return what an earlier run measured, or None: nothing, of other settings, or damaged,
    which is measured again.
    """
    try:
        with np.load(job.path, allow_pickle=False) as kept:
            rewards, settings, report = (
                kept["rewards"],
                json.loads(str(kept["settings"])),
                json.loads(str(kept["report"])),
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return Measured(job.planned, rewards, report) if settings == job.settings else None


def read(
    plan: Sequence[Planned], folder: Path = FOLDER, *, steps: int = small_models.STEPS
) -> list[Measured]:
    """Return what has been measured of the plan, in its order. InputError if that is nothing."""
    found = [measured for one in plan if (measured := _read(_Job(one, steps, folder)))]
    if not found:
        raise InputError(
            f"{folder} holds no measured models; run: python -m benchmarks.calibration --models 40"
        )
    return found
