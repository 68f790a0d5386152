"""How methods of search stand at equal cost: shares of the way to the best known reply, curves, and instances won.

An instance is a model, a prompt and a direction. A share of 0 is what a random reply is worth on average there, 1 the
best reply known: of all replies where each was scored, else of all methods and starts together. Searches of one
instance from several starts are averaged before anything is counted, since they are not independent.
"""

import numpy as np
import pandas as pd

from lib import resampling
from lib.search.rivals import OURS

INSTANCE = ["reply_mode", "length", "model", "prompt", "direction"]
AXIS = ["reply_mode", "length", "of", "budget"]
LEVEL = 0.005  # shares that differ by no more are level
RESAMPLES = 2000


def shares(rewards: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """The share of the way to the best known reply, a row per instance, method and budget: the mean over starts.

    rewards: INSTANCE, method, seed, of ("scored" or "read"), budget, reward. best: INSTANCE, random (the mean reward of
    random replies), best. Columns: INSTANCE, method, of, budget, share, at_best (share of starts that stand at the
    best). Budgets before a start's first, or after the end of a method's searches, are left out.
    """
    table = rewards.dropna(subset="reward").merge(best, on=INSTANCE, validate="many_to_one")
    table["share"] = (table["reward"] - table["random"]) / (table["best"] - table["random"])
    table["at_best"] = np.isclose(table["share"], 1, atol=1e-6)
    return table.groupby([*INSTANCE, "method", "of", "budget"], sort=False)[["share", "at_best"]].mean().reset_index()


def curves(shares: pd.DataFrame) -> pd.DataFrame:
    """The mean share over instances, with its 95% interval over them: AXIS, method, share, ci_low, ci_high, n."""
    rows = []
    for key, group in shares.groupby([*AXIS, "method"], sort=False):
        share, (ci_low, ci_high) = group["share"].mean(), _interval(group["share"].to_numpy())
        rows.append([*key, share, ci_low, ci_high, len(group)])
    return pd.DataFrame(rows, columns=[*AXIS, "method", "share", "ci_low", "ci_high", "n"])


def won(shares: pd.DataFrame) -> pd.DataFrame:
    """In how many instances ours stands better than, level with (to LEVEL) and worse than every other method.

    Columns: AXIS, method, better, level, worse (instances), lead (ours less the other, mean share), ci_low, ci_high
    (its 95% interval over instances), n. A budget that one of the two did not reach in an instance is left out there.
    """
    wide = shares.pivot_table("share", [*AXIS, "model", "prompt", "direction"], "method", sort=False)
    rows = []
    for key, group in wide.groupby(AXIS, sort=False):
        for method in group.columns.drop(OURS):
            leads = (group[OURS] - group[method]).dropna().to_numpy()
            if len(leads):
                counts = [(leads > LEVEL).sum(), (abs(leads) <= LEVEL).sum(), (leads < -LEVEL).sum()]
                rows.append([*key, method, *counts, leads.mean(), *_interval(leads), len(leads)])
    columns = [*AXIS, "method", "better", "level", "worse", "lead", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns)


def _interval(values: np.ndarray) -> tuple[float, float]:
    draws = resampling.bootstrap(lambda drawn: values[drawn].mean(), len(values), RESAMPLES)
    ci_low, ci_high = resampling.interval(draws)
    return float(ci_low), float(ci_high)
