"""The chart of the calibration: planted against recovered, with the null band and the power."""

import textwrap

import numpy as np
import pandas as pd

from benchmarks.calibration.estimators import ESTIMATORS
from benchmarks.calibration.method import BAND
from lib.show.figures import GREY, Chart, new_chart, styled

BY_NAME = {estimator.name: estimator for estimator in ESTIMATORS}
BASES = {
    "gem": ("Gemma-2-like", "#d94801"),
    "lla": ("Llama-like", "#2171b5"),
}
# one of each kind
MAIN = (
    "gap VADER greatest",
    "framing VADER",
    "frequency sentiment",
    "identity frequency",
)


@styled
def draw_null_bands(estimates: pd.DataFrame) -> Chart:
    """Draw what four estimators found over what was planted: a point per model, the null band, and
    the power.

    estimates: as from method.estimates.
    """
    title = (
        "What estimators find in models with known values\nin percent: share of models beyond "
        "the null band"
    )
    figure = new_chart(4.3 * len(MAIN), 5.4, title)
    for panel, name in zip(figure.subplots(1, len(MAIN)), MAIN, strict=True):
        rows = estimates[
            (estimates["estimator"] == name) & (estimates["control"] == "")
        ]
        low, high = rows.loc[rows["level"] == 0, "estimate"].quantile(BAND)
        panel.axhspan(
            low,
            high,
            color="#d9d9d9",
            zorder=0,
            label="null band: 95% of models without the effect",
        )
        for base, (label, colour) in BASES.items():
            some = rows[rows["base"] == base]
            panel.plot(
                some["planted"],
                some["estimate"],
                ".",
                color=colour,
                markersize=7,
                alpha=0.7,
                label=label,
            )
        ends = np.array([rows["planted"].min(), rows["planted"].max()])
        panel.plot(
            ends,
            ends,
            color=GREY,
            linestyle="--",
            linewidth=1,
            label="recovered = planted",
        )
        top = max(rows["estimate"].max(), ends[1])
        for level, some in rows[rows["level"] != 0].groupby("level"):
            beyond = some["estimate"] > high if level > 0 else some["estimate"] < low
            panel.text(
                some["planted"].mean(),
                top * 1.08,
                f"{beyond.mean():.0%}",
                ha="center",
                va="bottom",
            )
        panel.set_ylim(top=top + 0.18 * (top - rows["estimate"].min()))
        of = BY_NAME[name]
        says = "\n".join(textwrap.wrap(of.says, 32, break_on_hyphens=False))
        panel.set(
            title=says, xlabel=f"planted, {of.unit}", ylabel=f"recovered, {of.unit}"
        )
    figure.legend(
        *panel.get_legend_handles_labels(), loc="outside lower center", ncols=4
    )
    return figure
