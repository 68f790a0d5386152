"""What each estimator finds in models with known values, and what follows for a sentence: null
band and power.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from benchmarks.calibration.estimators import ESTIMATORS, estimate, planted, utilities
from benchmarks.calibration.plan import Measured

BAND = (0.025, 0.975)  # quantiles of the estimates of models without the effect
SIZES = ("small", "medium", "large")
SIGNS = "sd per point of sentiment"
GAPS = tuple(
    f"gap {lexicon} {prompt}"
    for lexicon in ("AFINN", "VADER")
    for prompt in ("greatest", "worst")
)
SPREADS = "positive over negative words"
FREQUENCY = "sd per tenfold frequency"
# claim, quantity, prompt, estimator, remark. A ratio is estimated as its logarithm.
SENTENCES = (
    ("S3.slope.greatest", "gap", "greatest", "gap VADER greatest", f"{SIGNS}, VADER"),
    (
        "S3.slope.greatest",
        "gap_other_lexicon",
        "greatest",
        "gap AFINN greatest",
        f"{SIGNS}, AFINN",
    ),
    ("S3.slope.worst", "gap", "worst", "gap VADER worst", f"{SIGNS}, VADER"),
    (
        "S3.slope.worst",
        "gap_other_lexicon",
        "worst",
        "gap AFINN worst",
        f"{SIGNS}, AFINN",
    ),
    ("S3.spread", "ratio", "greatest", "spread VADER", f"{SPREADS}, VADER"),
    (
        "S3.spread",
        "ratio_other_lexicon",
        "greatest",
        "spread AFINN",
        f"{SPREADS}, AFINN",
    ),
    (
        "S3.framing.interaction",
        "ratio",
        "",
        "framing VADER",
        f"{SPREADS}, best over worst, VADER",
    ),
    (
        "S3.framing.interaction",
        "ratio_other_lexicon",
        "",
        "framing AFINN",
        f"{SPREADS}, best over worst, AFINN",
    ),
    ("S3.freq.raw", "slope", "greatest", "frequency raw", FREQUENCY),
    (
        "S3.freq.controlled",
        "slope",
        "greatest",
        "frequency sentiment",
        f"{FREQUENCY}, at equal sentiment",
    ),
    (
        "S4.undervalued.identity",
        "mean",
        "greatest",
        "identity frequency",
        "sd, groups of people minus other words of equal frequency; not the share of neighbours of "
        "notebook 07",
    ),
)


def estimates(measured: Sequence[Measured], words: pd.DataFrame) -> pd.DataFrame:
    """Return what every estimator finds in every model: one row per estimator and model.

    Columns: estimator, model, control ('' for a model of the plan), base, level (planted, in
    utility), planted (in the estimator's unit), estimate, standard_error (over words alone), n
    (words).
    """
    profiles = [one.planned.profile for one in measured]
    about = {
        "model": [one.planned.name for one in measured],
        "control": [one.planned.control for one in measured],
        "base": [profile.base for profile in profiles],
    }
    rewards, utility, tables = (
        np.stack([one.rewards for one in measured], axis=-1),
        utilities(words, profiles),
        [],
    )
    for estimator in ESTIMATORS:
        found, moved = estimate(estimator, words, rewards)
        columns = {
            "level": [estimator.level(profile) for profile in profiles],
            "estimate": found,
            "planted": planted(estimator, words, profiles, utility),
            "standard_error": np.sqrt((moved**2).sum(axis=0)),
            "n": len(moved),
        }
        tables.append(pd.DataFrame({"estimator": estimator.name} | about | columns))
    return pd.concat(tables, ignore_index=True)


def by_sentence(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence and quantity, from the result of `estimates`.

    `planted`, `found`: means over the models that the effect was planted in. `null_low`,
    `null_high`: 2.5% and 97.5% of the estimates of the `null_models` single models without it.
    `size_*`: the planted sizes; `power_*`: share of single models of this size whose estimate lies
    beyond the null band, on the planted side. A frequency weight and a penalty were planted at two
    sizes, small and large.
    """
    rows = []
    for claim, quantity, prompt, estimator, remark in SENTENCES:
        models = estimates[
            (estimates["estimator"] == estimator) & (estimates["control"] == "")
        ]
        row = _row(models, np.exp if quantity.startswith("ratio") else float)
        rows.append(
            {"claim": claim, "quantity": quantity, "prompt": prompt}
            | row
            | {"remark": remark}
        )
    return pd.DataFrame(rows)


def _row(models: pd.DataFrame, in_unit: Callable[[float], float]) -> dict:
    null, others = (
        models.loc[models["level"] == 0, "estimate"],
        models[models["level"] != 0],
    )
    low, high = null.quantile(BAND)
    is_above = others["planted"].mean() > 0
    others = others.assign(
        beyond=others["estimate"] > high if is_above else others["estimate"] < low
    )
    of_size = others.groupby(others["level"].abs())[["planted", "beyond"]].mean()
    of_size.index = SIZES if len(of_size) == len(SIZES) else SIZES[::2]
    of_size = of_size.reindex(SIZES)
    row = {
        "planted": others["planted"].mean(),
        "found": others["estimate"].mean(),
        "null_low": low,
        "null_high": high,
    }
    row = {name: in_unit(value) for name, value in row.items()} | {
        "null_models": len(null)
    }
    row |= {f"power_{size}": power for size, power in of_size["beyond"].items()}
    return row | {
        f"size_{size}": in_unit(planted) for size, planted in of_size["planted"].items()
    }


def by_estimator(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return what each estimator finds where nothing was planted, and the line recovered = a + b
    planted.

    Columns: null_models, null_mean, null_sd, a, b, seed_ratio (sd between seeds of one control over
    the standard error over words).
    """
    rows = {}
    for name, some in estimates.groupby("estimator", sort=False):
        plan, controls = some[some["control"] == ""], some[some["control"] != ""]
        null = plan.loc[plan["level"] == 0, "estimate"]
        b, a = np.polyfit(plan["planted"], plan["estimate"], 1)
        of_seeds = controls.groupby("control")["estimate"].var(ddof=1).mean()
        ratio = np.sqrt(of_seeds / (controls["standard_error"] ** 2).mean())
        rows[name] = [len(null), null.mean(), null.std(ddof=1), a, b, ratio]
    columns = ["null_models", "null_mean", "null_sd", "a", "b", "seed_ratio"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(
        "estimator"
    )


def turned_signs(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return how often a planted slope gap above 0 came back below 0: a row per estimator and
    planted level.
    """
    gaps = estimates[estimates["estimator"].isin(GAPS) & estimates["control"].eq("")]
    gaps = gaps.assign(level=gaps["level"].astype(float)).query(
        "level > 0 and planted > 0"
    )
    below = (
        gaps["estimate"]
        .lt(0)
        .groupby([gaps["estimator"], gaps["level"]])
        .agg(["sum", "size", "mean"])
    )
    named = {"sum": "below 0", "size": "models", "mean": "share"}
    return below.rename(columns=named).reset_index()
