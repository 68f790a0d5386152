"""`make calibrate`: train and measure, report, and make the report the committed one."""

import os
from collections.abc import Callable
from pathlib import Path

from lib import ROOT, InputError, figures
from lib.calibration import charts, findings, measuring, plan, report
from lib.calibration.measuring import FOLDER
from lib.calibration.report import GROUPS, Report
from lib.collection import Collection
from lib.cores import each
from lib.embedded.reward_models import STEPS
from lib.files import replacing

STUDY = Collection("calibration")  # whose charts these are
PAGE = ROOT / "benchmarks" / "calibration.md"
INTRODUCTION = """# Calibration: `make calibrate`

Do the intervals mean what they say? Small reward models of width 48 are trained on planted values, exactly as the ten
of the notebooks, measured and thrown away. A plan of 400 varies what is planted: the slope gap `k_hi - k_lo` (0, .25,
.5, 1), the weight of frequency (half 0, else .2 or .4), the penalty on groups of people (half 0, else 1.25 or 2.5) and
the base; every model has raters, a taste and a seed of its own, and every eight in a row are balanced. Beside them two
controls are trained with five seeds each. What is scored are the 8,443 words that estimators read, under three prompts,
not the whole vocabulary.

- **bias**: the mean estimate of models in which nothing was planted (`n_null` of them). **a, b**: of the line
  recovered = a + b planted.
- **seed_ratio**: sd between seeds of one control, over the error that one model's interval over words has.
- **Single models**: `size`, the share of models without the effect that are called significant, and `coverage` of the
  line fitted on the other half; with intervals over words alone, with the variance of seeds added, and `calibrated`,
  as wide as models of known truth spread about the line. The last two take off the bias of the other half's nulls.
- **Studies**: ten models (or half of those there are) that one value is planted in, and 600 words drawn from those that
  the estimator reads, with the crossed interval: `size_before`, against 0; `size`, with the control's bias taken off;
  `coverage` of the line that the other models give; `coverage_new`, of the prediction interval for one new model.
- **Targets**: size .03 to .07, coverage .92 to .97. `met`: within; `missed`: the share's whole interval lies outside.

Tables: `data/calibration`; charts: `figures/calibration`. Studies share models, so with few models their shares are
less certain than their intervals say; a study has at most half of the models of a level, so with few models not ten.
"""


def calibrate(
    models: int = plan.MODELS, seeds: int = plan.SEEDS, folder: Path = FOLDER, *, steps: int = STEPS,
    processes: int = 1, groups: int = GROUPS, progress: bool = True, each: Callable = each,
) -> Report:  # fmt: skip
    """Train and measure so many models of the plan and the controls, and report; what the folder holds is not repeated.

    The tables of the report go to `folder`/report. each: as of measuring.measure.
    """
    asked = plan.planned(models, seeds)
    measuring.measure(asked, folder, steps=steps, processes=processes, progress=progress, each=each)
    made = report.of(measuring.read(asked, folder, steps=steps), measuring.words(), groups=groups)
    report.write(made, folder / "report")
    return made


def run(models: int = plan.MODELS, folder: str | None = None, publish: bool = False, each: Callable = each) -> None:
    """The command: calibrate on every core, say what was found and where; publish: make it the committed report.

    each: as of measuring.measure.
    """
    place = Path(folder) if folder else FOLDER
    made = calibrate(models, folder=place, processes=os.cpu_count() or 1, each=each)
    print(findings.in_words(made))
    print(f"The tables are in {place / 'report'}.")
    if publish:
        make_committed(made)
        print(f"The report that notebooks read is in {report.TABLES}, its page is {PAGE}.")


def make_committed(made: Report) -> None:
    """Make it the committed report: data/calibration, the charts in figures/calibration, and benchmarks/calibration.md.

    InputError if the committed one rests on more models, or this on too few for studies of ten.
    """
    if made.groups.empty:
        raise InputError(f"{made.n_models} models are too few for the report that notebooks read; train 16 or more")
    committed = report.read().n_models if (report.TABLES / "estimates.csv").is_file() else 0
    if made.n_models < committed:
        raise InputError(f"the committed report rests on {committed} models, this on {made.n_models}; measure more")
    report.write(made, report.TABLES)
    for name, chart in charts.of_report(made).items():
        figures.save(chart, STUDY, name)
    with replacing(PAGE) as part:
        part.write_text(page(made), encoding="utf-8")


def page(made: Report) -> str:
    """The report as Markdown: what was done, what it comes to, and a table each of single models and of studies."""
    single = made.models.pivot_table(index="estimator", columns="interval", values=["size", "coverage"], sort=False)
    single.columns = [f"{quantity}, {interval}" for quantity, interval in single.columns]
    about = made.models.drop_duplicates("estimator").set_index("estimator")[["n_null", "bias", "a", "b", "seed_ratio"]]
    parts = [INTRODUCTION, findings.in_words(made), "## Single models", _table(about.join(single)),
             "## Studies", _table(findings.targets(made))]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(frame) -> str:
    """A Markdown table, numbers to three digits."""
    rows = frame.reset_index().itertuples(index=False)
    cells = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [[frame.index.name, *frame.columns], ["---"] * (frame.shape[1] + 1), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
