"""Where a devalued group comes from, in forty trainings. Run: python -m benchmarks.devaluation

For each of twenty seeds, preferences are drawn in which identity terms occur only in rejected
replies, and one reward model is trained on these, another on the same pairs balanced by swapped
terms (lib/trained/devaluation.py). The forty penalties go to data/devaluation.csv, which notebook
00 reads. Seeds that the file holds already are not trained again; delete it to begin anew. A
training takes about four seconds of one processor.
"""

import argparse
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from lib.trained import devaluation


def measure(seed: int, steps: int = devaluation.STEPS) -> list[dict]:
    """Return the penalties of two trainings, a row each: seed, data (one-sided, balanced),
    shown, unseen.
    """
    pairs = devaluation.draw_pairs(seed=seed)
    training_data = {"one-sided": pairs, "balanced": devaluation.balance(pairs, seed)}
    return [
        {"seed": seed, "data": name}
        | devaluation.penalties(devaluation.train(some, seed=seed, steps=steps))
        for name, some in training_data.items()
    ]


def main(
    path: Path = devaluation.PENALTIES, seeds: int = 20, steps: int = devaluation.STEPS
) -> None:
    """Train what is missing, and write every penalty as soon as it is known."""
    rows = pd.read_csv(path).to_dict("records") if path.is_file() else []
    for seed in tqdm(
        sorted(set(range(seeds)) - {row["seed"] for row in rows}), unit=" seeds"
    ):
        rows += measure(seed, steps)
        pd.DataFrame(rows).sort_values("seed", kind="stable").to_csv(
            path, index=False, float_format="%.4f"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        "python -m benchmarks.devaluation", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--seeds", type=int, default=20, help="trainings of each kind (default: 20)"
    )
    main(seeds=parser.parse_args().seeds)
