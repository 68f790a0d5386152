"""What the paper's own figures and tables say: its test from the slopes of Fig 3C, and the words of Table A8.

Some marks of Fig 3C are hidden behind others: data/paper/fig3c_slopes.csv has each slope with the halfwidth of its
reading; for a hidden mark, of all places where it could be hidden. So t is no number but a range; it decides only where
all of it does.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from lib.prompts import polarity

# Best plus worst on the shared vocabulary, as the authors released it: 20 optimal texts per model, dots, 20 pessimal.
TABLE_A8 = "brchristian/reward_model_optimal_pessimal_tokens", "tables/output/table_a8_shared_vocab_best_plus_worst.csv"
CORNER = ("depends", "impossible", "sonder")  # the words that section 3.2 finds among the best of both
PLACES = (-1, 0, 1)  # where in its range each gap is tried, in halfwidths from the middle


def figure_test(slopes: pd.DataFrame, *, absolute: bool = False) -> pd.DataFrame:
    """The paired t-test over models for every combination of gaps within their ranges: one row per prompt.

    slopes: columns prompt, sign, model, slope, halfwidth, read (`seen` or `hidden`). Columns: prompt, models, hidden
    (how many slopes are), t and p (two-sided; every slope in the middle of its range), t_low, t_high, p_low, p_high,
    n_low, n_high (models with gap > 0). absolute: sizes of slopes, as in effects.gaps. Each gap is tried at both
    ends and in the middle of its range: 3 ^ models combinations.
    """
    return pd.DataFrame([_tested(prompt, rows, absolute) for prompt, rows in slopes.groupby("prompt", sort=False)])


def _tested(prompt: str, rows: pd.DataFrame, absolute: bool) -> dict:
    low, high = _gap_ranges(rows, polarity(prompt) if absolute else 0)
    middle, half = (low + high) / 2, (high - low) / 2
    gaps = middle + half * np.array(list(itertools.product(PLACES, repeat=len(middle))))
    models = len(middle)
    t = gaps.mean(axis=1) / gaps.std(axis=1, ddof=1) * np.sqrt(models)
    p = 2 * stats.t.sf(np.abs(t), models - 1)
    at_middle = len(gaps) // 2  # the combination in the middle of all
    return {"prompt": prompt, "models": models, "hidden": int((rows["read"] == "hidden").sum()),
            "t": t[at_middle], "t_low": t.min(), "t_high": t.max(),
            "p": p[at_middle], "p_low": p.min(), "p_high": p.max(),
            "n_low": int((low > 0).sum()), "n_high": int((high > 0).sum())}  # fmt: skip


def _gap_ranges(rows: pd.DataFrame, asked: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest gap of each model; asked: the polarity of the prompt for sizes, 0 for signed ones."""
    ends = {}
    for sign, side in rows.groupby("sign"):
        slope, half = (side.set_index("model")[column] for column in ("slope", "halfwidth"))
        low, high = slope - half, slope + half
        if asked:
            nearest = np.maximum(low, -high).clip(lower=0)  # of a range that holds 0, a slope of size 0
            low, high = nearest, np.maximum(low.abs(), high.abs())
        ends[sign] = low, high
    (up_low, up_high), (down_low, down_high) = ends["positive"], ends["negative"]
    low, high = up_low - down_high, up_high - down_low
    low, high = (low, high) if asked >= 0 else (-high, -low)
    return low.to_numpy(), high.to_numpy()


def listed_models(path: Path, words: Sequence[str] = CORNER) -> pd.Series:
    """In how many models' 20 optimal texts of a released table each word is, whatever its case: word -> count."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    dots = table.index[(table == "...").all(axis=1)][0]
    optimal = table[:dots].apply(lambda column: column.str.strip().str.casefold())
    return pd.Series({word: int((optimal == word).any().sum()) for word in words}, name="models")
