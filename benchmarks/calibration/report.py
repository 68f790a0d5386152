"""The calibration as a whole: its tables, its page, its chart, and the command that makes them."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.calibration import charts, method
from lib import ROOT
from lib.io import replacing
from lib.show import figures
from lib.tables.collection import Collection

STUDY = Collection("calibration")  # whose chart this is
PAGE = ROOT / "benchmarks" / "calibration.md"
TABLES = ROOT / "data" / "calibration"  # the committed tables, which notebooks read
INTRODUCTION = """# Calibration

What do our estimators find where nothing is there, and how large must an effect be to be found?
Small reward models of width 48 are trained on planted values, exactly as the ten of the notebooks,
measured and thrown away. A plan of 400 varies what is planted: the slope gap `k_hi - k_lo` (0, .25,
.5, 1), the weight of frequency (half 0, else .2 or .4), the penalty on groups of people (half 0,
else 1.25 or 2.5) and the base. Every model has raters, a taste and a seed of its own, and every
eight in a row are balanced. Beside them two controls are trained with five seeds each. Each model
scores the 8,443 words that estimators read, under three prompts.

Made by `python -m benchmarks.calibration`. Chart: `figures/calibration`. Tables:
[estimates.csv](../data/calibration/estimates.csv),
[trainings.csv](../data/calibration/trainings.csv), [method.csv](../data/calibration/method.csv).
"""
BANDS = """## Null band and power

`null_low` and `null_high` are the 2.5% and the 97.5% quantile of the estimates of `null_models`
single models without the effect. An estimate within this band can come from a model without the
effect, whatever its interval over words says. `power_*` is the share of single models beyond the
band where an effect of `size_*` was planted.
"""
ATTENUATION = """## Attenuation

A trained model gives back less than what was planted in its raters. The slope b of the line
recovered = a + b planted is below 1 for every estimator. Each model learns from a finite number of
noisy choices, and shrinks what it is unsure of towards the mean. The words of the lexicon also
differ in taste and frequency, which raises the standard deviation in which rewards are measured. So
an estimate says what a *trained model* rewards, not what its raters value.

`null_mean` and `null_sd` describe the estimates of models without the effect. `seed_ratio` is the
standard deviation between seeds of one control, divided by the standard error of one model's
estimate over words.
"""
SIGNS = """## Signs

Attenuation shrinks an estimate, and a line with a negative a moves it below zero. So a small
planted effect can come back with the other sign. The table shows in how many models a planted gap
above 0 came back below 0, by the level of the plan.
"""


@dataclass(frozen=True)
class Report:
    """The tables of a calibration: a row per model and estimator, and how each model's training
    went.
    """

    estimates: pd.DataFrame
    trainings: pd.DataFrame

    @property
    def n_models(self) -> int:
        """Return the number of models of the plan; the controls are not counted."""
        return int((self.trainings["control"] == "").sum())


def write(report: Report, folder: Path) -> None:
    """Write estimates.csv and trainings.csv into the folder, and method.csv, which follows from
    the estimates.
    """
    tables = {"estimates": report.estimates, "trainings": report.trainings}
    tables |= {"method": method.by_sentence(report.estimates)}
    for name, frame in tables.items():
        with replacing(folder / f"{name}.csv") as part:
            digits = "%.4g" if name == "method" else "%.6g"
            frame.to_csv(part, index=False, float_format=digits, lineterminator="\n")


def read(folder: Path = TABLES) -> Report:
    """Return the report in the folder."""
    return Report(
        *(
            pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
            for name in ("estimates", "trainings")
        )
    )


def page(report: Report) -> str:
    """Return the report as Markdown: what was done, null band and power by sentence, and
    attenuation by estimator.
    """
    counted = (
        f"{report.n_models} models of the plan and {len(report.trainings) - report.n_models} "
        "of the controls."
    )
    sentences = method.by_sentence(report.estimates)
    parts = [
        INTRODUCTION + "\n" + counted,
        BANDS,
        _markdown(sentences.drop(columns=["prompt"])),
        ATTENUATION,
        _markdown(method.by_estimator(report.estimates).reset_index()),
        SIGNS,
        _markdown(method.turned_signs(report.estimates)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _markdown(table: pd.DataFrame) -> str:
    cells = table.map(
        lambda value: f"{value:.3g}" if isinstance(value, float) else str(value)
    ).replace("nan", "")
    rows = [list(cells), ["---"] * cells.shape[1], *cells.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def publish(report: Report) -> None:
    """Make it the committed report: data/calibration, the chart in figures/calibration, and
    benchmarks/calibration.md.
    """
    write(report, TABLES)
    chart = charts.draw_null_bands(report.estimates)
    figures.save(chart, STUDY, "planted_and_recovered")
    PAGE.write_text(page(report), encoding="utf-8")
