"""Rewards under two prompts: do best and greatest agree, and is best the inverse of worst (Fig 4, Tables A8 and A9)?"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from ..claims.cells import printed_lists
from ..stats.crossed import Measured
from .effects import ALL, in_rows

TAIL = 0.05  # the share of words that count as the top, or the bottom, of a prompt
CORNER = ("depends", "impossible", "sonder")  # the words that section 3.2 finds among the best of both


# --- correlations -------------------------------------------------------------------------------------------------


def prompt_agreement(tables: Mapping[str, pd.DataFrame], first: str, second: str) -> pd.DataFrame:
    """Return how far rewards for two prompts agree: in_rows() of Pearson's r, and Kendall's tau-b (Fig A2).

    `tables`: score tables with one row per distinct input, since identical inputs agree by construction.
    """
    rows = in_rows(correlations(tables, first, second)).rename(columns={"estimate": "pearson"})
    taus = {name: float(stats.kendalltau(table[first], table[second]).statistic) for name, table in tables.items()}
    return rows.assign(tau=rows["model"].map(taus | {ALL: np.mean(list(taus.values()))}))


def correlations(tables: Mapping[str, pd.DataFrame], first: str, second: str) -> Measured:
    """Return Pearson's r between each model's rewards for two prompts, and how much each text moves it."""
    values, influence = {}, {}
    for name, table in tables.items():
        x, y = (stats.zscore(table[prompt].to_numpy(dtype=float)) for prompt in (first, second))
        values[name] = r = float((x * y).mean())
        moved = (x * y - r * (x**2 + y**2) / 2) / (len(x) - 1)
        influence[name] = pd.Series(moved).groupby(table["text"].to_numpy()).sum()
    return Measured(pd.Series(values), pd.DataFrame(influence))


def not_the_inverse(tables: Mapping[str, pd.DataFrame], alike: tuple[str, str], opposed: tuple[str, str]) -> Measured:
    """Return r of two prompts that ask for the same plus r of two that ask for opposites, in [-2, 2].

    The sum is 0 for an exact inverse. If rewards for worst were minus the rewards for best, their correlations with a
    third prompt would have opposite signs and the same size.
    """
    first, second = (correlations(tables, *prompts) for prompts in (alike, opposed))
    return Measured(first.values + second.values, first.influence + second.influence)


# --- both and either ----------------------------------------------------------------------------------------------


def both_and_either(table: pd.DataFrame, good: str, bad: str) -> pd.DataFrame:
    """Return the score table with two more columns: `both` = good + bad, `either` = good - bad (Tables A8, A9).

    Rewards are not standardised, so the prompt with the larger spread decides.
    """
    x, y = (table[prompt].astype(float) for prompt in (good, bad))
    return table.assign(both=(x + y).astype(np.float32), either=(x - y).astype(np.float32))


def corners(table: pd.DataFrame, good: str, bad: str, n: int = 3) -> pd.DataFrame:
    """Return the n most extreme tokens of each corner of Fig 4 (both, neither, good only, bad only), in order.

    A token must be extreme under both prompts: what counts is the smaller of its two distances from the mean, in
    standard deviations. Ties are in order of token_id; one row per distinct text.
    """
    ordered = table.sort_values("token_id")
    ordered = ordered[~ordered["text"].str.strip().duplicated()]
    x, y = ((ordered[p] - ordered[p].mean()) / ordered[p].std(ddof=0) for p in (good, bad))
    ways = {"both": (x, y), "neither": (-x, -y), "good only": (x, -y), "bad only": (-x, y)}
    extreme = {corner: np.minimum(*way).sort_values(ascending=False, kind="stable") for corner, way in ways.items()}
    return pd.concat(
        [ordered.loc[way.index[:n]].assign(corner=corner) for corner, way in extreme.items()], ignore_index=True
    )


def corner_places(
    tables: Mapping[str, pd.DataFrame], good: str, bad: str, words: Sequence[str] = CORNER
) -> pd.DataFrame:
    """Return where these words stand: a row per word, whatever its capitals and blanks.

    Columns: models (how many have it as a token), both (how many of these reward it above their mean under both
    prompts), good and bad (the share of tokens below it, in [0, 1], mean over models).
    """
    rows = []
    for table in tables.values():
        rewards = table[[good, bad]]
        below = rewards.rank(pct=True).assign(models=1, both=(rewards > rewards.mean()).all(axis=1).astype(int))
        rows.append(below.groupby(table["text"].str.strip().str.casefold()).max())
    of_words = pd.concat(rows).groupby(level=0)
    table = of_words.agg({"models": "sum", "both": "sum", good: "mean", bad: "mean"})
    table = table.reindex(list(words)).rename_axis("word").fillna({"models": 0, "both": 0})
    return table.astype({"models": int, "both": int})


def listed_models(words: Sequence[str] = CORNER) -> pd.Series:
    """Return word -> how many models have it, in any case, among their 20 optimal texts of the paper's Table A8."""
    optimal = printed_lists("A8").loc["optimal"].apply(lambda column: column.str.strip().str.casefold())
    return pd.Series({word: int((optimal == word).any().sum()) for word in words}, name="models")


# --- the funnel ---------------------------------------------------------------------------------------------------


def in_both(best: pd.DataFrame, worst: pd.DataFrame, end: str) -> pd.DataFrame:
    """Return words x models: 1 / TAIL where a word is at that end (low or high) for both prompts, otherwise 0.

    The mean of a column is the share of words at that end which the two prompts have in common.
    """
    ranks = [rewards.loc[best.index, best.columns].rank(pct=True) for rewards in (best, worst)]
    chosen = [rank <= TAIL if end == "low" else rank > 1 - TAIL for rank in ranks]
    return (chosen[0] & chosen[1]).astype(float) / TAIL
