"""Summarise how often searches find the true optimum, in instances where every reply was scored.

An instance is a model, a prompt, a reply mode and a direction, with an alphabet so small that every
reply of two or three tokens could be scored. `python -m benchmarks.search optimality` measures
them, and writes data/search.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from benchmarks.scoring import table
from lib import ROOT, InputError
from lib.stats import resampling

# tokens of a reply -> size of its alphabet, so 262,144 replies either way
ALPHABETS = {2: 512, 3: 64}
MEASURED, PAGE = ROOT / "data" / "search", ROOT / "benchmarks" / "search.md"
INSTANCE = ["model", "prompt", "tokens", "reply_mode", "direction"]
LANDSCAPE = ["gradient_spearman", "rank_of_best", "additive_r2", "optima", "survivors"]
OURS = "round robin (ours)"


def read(folder: Path = MEASURED) -> pd.DataFrame:
    """Return the committed comparison: a row per instance, method and budget. Raise InputError if
    there is none.

    Besides INSTANCE, method and LANDSCAPE, the columns are:

    - budget: the number of replies scored
    - searches: the number of searches
    - at_optimum: the share of searches whose best reply so far is the optimum
    - gap: mean distance of the best reward so far from the optimum, in standard deviations of all
      rewards
    - scored, gradients: means over whole searches, which stop at the optimum
    """
    if not (folder / "optimality.csv").is_file():
        raise InputError(
            f"no comparison of searches in {folder}; run: python -m benchmarks.search optimality"
        )
    searched, landscapes = (
        pd.read_csv(folder / f"{name}.csv") for name in ("optimality", "landscapes")
    )
    return searched.merge(landscapes, on=INSTANCE, validate="many_to_one")


def summarise(
    compared: pd.DataFrame,
    by: Sequence[str] = ("method", "budget"),
    resamples: int = 2000,
) -> pd.DataFrame:
    """Return the share of searches at the optimum with its 95% interval, their mean gap, and their
    number n, by group.

    The interval is a bootstrap over models and prompts, because searches of one instance are not
    independent. If all models agree on 0 or 1, the bootstrap has no width. Then the interval ends
    at the exact bound for that many models (Clopper and Pearson: .025^(1/5) = .48 for 5 of 5).
    compared: from `read`, with equally many searches per row.
    """
    by = list(by)
    means = (
        compared.groupby(by, sort=False)[["at_optimum", "gap"]]
        .mean()
        .rename(columns={"at_optimum": "share"})
    )
    instance = compared["model"] + " " + compared["prompt"]
    shares = (
        compared.pivot_table("at_optimum", by, instance)
        .reindex(means.index)
        .to_numpy(dtype=float)
    )
    draws = resampling.bootstrap(
        lambda columns: shares[:, columns].mean(axis=1), shares.shape[1], resamples
    )
    ci_low, ci_high = resampling.interval(draws)
    bound = 0.025 ** (1 / np.isfinite(shares).sum(axis=1))
    means.insert(1, "ci_low", np.where((shares == 1).all(axis=1), bound, ci_low))
    means.insert(2, "ci_high", np.where((shares == 0).all(axis=1), 1 - bound, ci_high))
    return means.assign(n=compared.groupby(by, sort=False)["searches"].sum())


def wins(compared: pd.DataFrame, ours: str = OURS) -> pd.DataFrame:
    """Return in how many instances our method has a smaller mean gap over all budgets than each
    other method.

    The budgets of one search are one curve, so an instance counts once. The column `lead` says how
    much smaller our mean gap is, in standard deviations of all rewards. The two-sided p is from a
    t-test of the models' mean leads, because instances of one model are not independent.
    """
    gaps = compared.pivot_table("gap", INSTANCE, "method")
    # above 0 where our method is nearer to the optimum
    leads = gaps.drop(columns=ours).sub(gaps[ours], axis=0)
    counts = {
        "won": (leads > 1e-9).sum(),
        "level": (leads.abs() <= 1e-9).sum(),
        "lost": (leads < -1e-9).sum(),
    }
    table = pd.DataFrame(counts).rename_axis("method")
    of_models = leads.groupby("model").mean()
    p = np.nan_to_num(ttest_1samp(of_models, 0).pvalue, nan=1.0)
    return table.assign(lead=leads.mean(), models=len(of_models), p=p)


def tables(compared: pd.DataFrame) -> str:
    """Return the tables of search.md: the landscapes, the shares of searches at the optimum, and
    the instances won.
    """
    hard = compared.groupby(["tokens", "reply_mode"])[LANDSCAPE].mean().reset_index()
    summary = summarise(
        compared[compared["budget"] == compared["budget"].max()],
        ["method", "tokens", "reply_mode"],
    )
    ends = {1: "at least {low:.0f}", 0: "at most {high:.0f}"}
    cells = [
        f"{100 * row.share:.0f} ("
        + ends.get(row.share, "{low:.0f} to {high:.0f}").format(
            low=100 * row.ci_low, high=100 * row.ci_high
        )
        + ")"
        for row in summary.itertuples()
    ]
    shares = pd.Series(cells, summary.index).unstack([1, 2])  # noqa: PD010
    shares = shares.loc[list(compared["method"].unique())]
    shares.columns = [f"{tokens} tokens, {mode}, %" for tokens, mode in shares.columns]
    won = wins(compared)
    won = won.assign(
        lead=won["lead"].map("{:.3f}".format), p=won["p"].map("{:.2g}".format)
    )
    return "\n\n".join(
        map(
            table, (hard, shares.rename_axis("method").reset_index(), won.reset_index())
        )
    )
