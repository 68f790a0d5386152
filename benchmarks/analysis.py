"""How long the analysis takes at the size of real vocabularies. Run: python -m benchmarks.analysis

Random rewards of ten models, published files as large as the real ones, and all two-token replies
over an alphabet.
"""

import csv
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.scoring import (
    REPEATS,
    machine,
    peak_kilobytes,
    peak_memory,
    seconds,
    table,
    write_report,
)
from benchmarks.search import exhaustive
from lib.models import reward_models
from lib.planted import planting, saving
from lib.planted import reward_models as small_models
from lib.stats import rankings, relabelling
from lib.tables import score_files
from lib.tables.prompts import read_prompts

MODELS = [f"model {i}" for i in range(10)]
# tokens: four of the paper's models are Gemma, six Llama
VOCABULARIES = (256_000,) * 4 + (128_256,) * 6
INSTANCE = ("A-Gem-96", "greatest")  # the widest of the small models


def rewards(texts: int) -> pd.DataFrame:
    """Random rewards of ten models that have something in common, at the half precision of real
    tables.
    """
    random = np.random.default_rng(0)
    noise = random.normal(size=(texts, 1)) + random.normal(size=(texts, len(MODELS)))
    return pd.DataFrame(noise, columns=MODELS).astype(np.float16)


def similarity_and_traits() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """A matrix of ten models and four more that could explain it, random and symmetric."""
    drawn = np.random.default_rng(0).random((5, len(MODELS), len(MODELS)))
    similarity, *traits = [
        pd.DataFrame(square + square.T, MODELS, MODELS) for square in drawn
    ]
    return similarity, {f"trait {i}": trait for i, trait in enumerate(traits)}


def write_vocabulary(path: Path, tokens: int) -> Path:
    """A file in the format of the published vocabularies."""
    random = (
        np.random.default_rng(0).normal(size=(tokens, 3)).astype(np.float32).tolist()
    )
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(score_files.VOCABULARY_COLUMNS)
        writer.writerows(
            [i, f"Ġtoken{i}", f" token{i}", *three] for i, three in enumerate(random)
        )
    return path


def _reading(vocabularies: tuple[int, ...], report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            write_vocabulary(Path(folder) / f"{i}.csv", n)
            for i, n in enumerate(vocabularies)
        ]
        # forget the peak of writing (Linux)
        Path("/proc/self/clear_refs").write_text("5")
        took, tables = seconds(
            lambda: [score_files.read_vocabulary(path) for path in paths]
        )
    rows = sum(map(len, tables))
    report.put(
        {
            "rows": rows,
            "reading all ten, s": took,
            "peak memory, GB": peak_kilobytes() / 2**20,
        }
    )


def all_replies() -> None:
    """The rewards of all 262,144 replies of two tokens, as notebook 07 takes them for its truth."""
    nickname, prompt = INSTANCE
    model = reward_models.load(nickname, device="cpu")
    exhaustive.Exhausted(
        model, read_prompts(None)[prompt], "optimal", exhaustive.alphabet(model)
    )


def durations() -> pd.DataFrame:
    saving.train_missing(
        small_models.jobs([planting.profile(INSTANCE[0])]), progress=False
    )
    many, (matrix, traits) = rewards(85_000), similarity_and_traits()
    works: dict[str, Callable] = {
        "tau of 10 models x 85,000 texts": lambda: rankings.tau_matrix(many),
        "MRQAP, 4 predictors, all relabellings of 10 models": lambda: [
            relabelling.p_of(matrix, traits, name) for name in traits
        ],
        f"all two-token replies over 512 ids, {INSTANCE[0]}": all_replies,
    }
    rows = [
        {"work": name, "s": np.median([seconds(work)[0] for _ in range(REPEATS)])}
        for name, work in works.items()
    ]
    return pd.DataFrame(rows)


def main() -> None:
    parts = [
        machine("cpu"),
        table(durations()),
        table(peak_memory(_reading, [VOCABULARIES])),
    ]
    write_report("analysis on a cpu", "\n\n".join(parts))


if __name__ == "__main__":
    main()
