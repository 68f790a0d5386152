"""Other wordings of a prompt: the gap between slopes over the grid of 54, and how much wordings matter.

The published moral words were scored under 27 prompts for good things and 27 for bad things. These are a sample of all
wordings. So the mean over them has an interval for other words, models and prompts.
"""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from ..stats.crossed import Measured
from ..stats.factors import three_factors
from ..tables.prompts import POLARITIES, cell, polarity
from .effects import by_words, mean_of, measured, slope_gap

FEWEST = 3  # wordings; a variance between two of them says nothing
PARTS = ["adjective", "superlative", "style"]  # of a prompt


def over_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gap between slopes for every prompt of the grid: a row per prompt.

    `rows`: observations with standardised rewards. Columns: `prompt, models, n_steeper, gap, ci_low, ci_high, p`, PARTS
    of the prompt, `polarity` (1 or -1) and `p_holm`. `n_steeper` counts models with gap > 0; `p_holm` is corrected over
    prompts.
    """
    of_prompts = measured(rows, slope_gap)
    over = mean_of(by_words(of_prompts)).rename(columns={"estimate": "gap"})[["gap", "ci_low", "ci_high", "p"]]
    values = pd.DataFrame({prompt: one.values for prompt, one in of_prompts.items()})
    over.insert(0, "models", values.count())
    over.insert(1, "n_steeper", (values > 0).sum())
    parts = pd.DataFrame(over.index.map(cell).tolist(), over.index, PARTS)
    over = over.join(parts).assign(polarity=parts["adjective"].map(POLARITIES))
    return over.assign(p_holm=multipletests(over["p"], method="holm")[1]).reset_index()


def what_varies(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return how much of the variance of `gap` between prompts each part of the prompt explains, and the residual.

    `prompts`: over_prompts(). Columns: `part, df, share, f, p`. Shares are of the type II sum of squares of main
    effects.
    """
    design = sm.OLS.from_formula("gap ~ " + " + ".join(f"C({part})" for part in PARTS), prompts)
    table = anova_lm(design.fit(), typ=2)
    share = (table["sum_sq"] / table["sum_sq"].sum()).to_numpy()
    return pd.DataFrame({"part": [*PARTS, "residual"], "df": table["df"].astype(int).to_numpy(), "share": share,
                         "f": table["F"].to_numpy(), "p": table["PR(>F)"].to_numpy()})  # fmt: skip


def over_wordings(of_prompts: Mapping[str, Measured]) -> pd.DataFrame:
    """Return the mean of a statistic over models and wordings, with words, models and wordings as samples.

    `of_prompts`: as from effects.measured. Rows: `good` and `bad`, if there are three wordings and two models. Columns:
    `wordings, estimate, ci_low, ci_high, p, n` (words), and the shares of the variance of the mean (lib.stats.factors).
    """
    rows = {}
    for side, sign in {"good": 1, "bad": -1}.items():
        chosen = {prompt: one for prompt, one in of_prompts.items() if polarity(prompt) == sign}
        if len(chosen) < FEWEST or min(len(one.values) for one in chosen.values()) < 2:
            continue
        estimates = np.stack([one.values.to_numpy(dtype=float) for one in chosen.values()], axis=1)
        influence = np.stack([one.influence.fillna(0.0).to_numpy() for one in chosen.values()], axis=2)
        mean = asdict(three_factors(estimates, influence))
        numbers = {name: mean[name] for name in ("estimate", "ci_low", "ci_high", "p", "n")}
        rows[side] = {"wordings": len(chosen)} | numbers | mean["of_mean"].to_dict()
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("asked for")
