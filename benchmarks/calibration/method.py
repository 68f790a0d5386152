"""What the planted models say about the estimator of a sentence: data/calibration/method.csv, from estimates.csv."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from lib import ROOT
from lib.io import replacing

TABLES = ROOT / "data" / "calibration"
BAND = (0.025, 0.975)  # quantiles of the estimates of models without the effect
SIZES = ("small", "medium", "large")
SIGNS = "sd per point of sentiment"
SPREADS = "positive over negative words"
FREQUENCY = "sd per tenfold frequency"
# claim, quantity, prompt, estimator, remark. A ratio is estimated as its logarithm.
SENTENCES = (
    ("S3.slope.greatest", "gap", "greatest", "gap VADER greatest", f"{SIGNS}, VADER"),
    ("S3.slope.greatest", "gap_other_lexicon", "greatest", "gap AFINN greatest", f"{SIGNS}, AFINN"),
    ("S3.slope.worst", "gap", "worst", "gap VADER worst", f"{SIGNS}, VADER"),
    ("S3.slope.worst", "gap_other_lexicon", "worst", "gap AFINN worst", f"{SIGNS}, AFINN"),
    ("S3.spread", "ratio", "greatest", "spread VADER", f"{SPREADS}, VADER"),
    ("S3.spread", "ratio_other_lexicon", "greatest", "spread AFINN", f"{SPREADS}, AFINN"),
    ("S3.framing.interaction", "ratio", "", "framing VADER", f"{SPREADS}, best over worst, VADER"),
    ("S3.framing.interaction", "ratio_other_lexicon", "", "framing AFINN", f"{SPREADS}, best over worst, AFINN"),
    ("S3.freq.raw", "slope", "greatest", "frequency raw", FREQUENCY),
    ("S3.freq.controlled", "slope", "greatest", "frequency sentiment", f"{FREQUENCY}, at equal sentiment"),
    ("S4.undervalued.identity", "mean", "greatest", "identity frequency",
     "sd, groups of people minus other words of equal frequency; not the share of neighbours of notebook 07"),
)  # fmt: skip


def table(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence and quantity, from estimates as performance.estimates returns them.

    `planted`, `found`: means over the models that the effect was planted in. `null_low`, `null_high`: 2.5% and 97.5%
    of the estimates of the `null_models` single models without it. `size_*`: the planted sizes; `power_*`: share of
    single models of this size whose estimate lies beyond the null band, on the planted side. A frequency weight and a
    penalty were planted at two sizes, small and large.
    """
    rows = []
    for claim, quantity, prompt, estimator, remark in SENTENCES:
        models = estimates[(estimates["estimator"] == estimator) & (estimates["control"] == "")]
        row = _row(models, np.exp if quantity.startswith("ratio") else float)
        rows.append({"claim": claim, "quantity": quantity, "prompt": prompt} | row | {"remark": remark})
    return pd.DataFrame(rows)


def _row(models: pd.DataFrame, in_unit: Callable[[float], float]) -> dict:
    null, others = models.loc[models["level"] == 0, "estimate"], models[models["level"] != 0]
    low, high = null.quantile(BAND)
    is_above = others["planted"].mean() > 0
    others = others.assign(beyond=others["estimate"] > high if is_above else others["estimate"] < low)
    of_size = others.groupby(others["level"].abs())[["planted", "beyond"]].mean()
    of_size.index = SIZES if len(of_size) == len(SIZES) else SIZES[::2]
    of_size = of_size.reindex(SIZES)
    row = {"planted": others["planted"].mean(), "found": others["estimate"].mean(), "null_low": low, "null_high": high}
    row = {name: in_unit(value) for name, value in row.items()} | {"null_models": len(null)}
    row |= {f"power_{size}": power for size, power in of_size["beyond"].items()}
    return row | {f"size_{size}": in_unit(planted) for size, planted in of_size["planted"].items()}


def write() -> None:
    """Write data/calibration/method.csv from the committed estimates."""
    estimates = pd.read_csv(TABLES / "estimates.csv", keep_default_na=False)
    with replacing(TABLES / "method.csv") as part:
        table(estimates).to_csv(part, index=False, float_format="%.4g", lineterminator="\n")
