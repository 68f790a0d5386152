"""The report of a calibration: tables, charts and a page, made once from what was measured.

Notebooks read the tables of the committed report from data/calibration, and its charts from figures/calibration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from benchmarks.calibration import charts, measuring, performance, plan
from benchmarks.calibration.estimators import ESTIMATORS
from benchmarks.calibration.performance import TARGETS, meets
from benchmarks.calibration.plan import Measured
from benchmarks.scoring import table
from lib import ROOT, InputError
from lib.io import replacing
from lib.models.hardware import each
from lib.planted.reward_models import STEPS
from lib.show import figures
from lib.tables.collection import Collection

STUDY = Collection("calibration")  # whose charts these are
PAGE = ROOT / "benchmarks" / "calibration.md"
TABLES = ROOT / "data" / "calibration"  # of the committed report, which notebooks read
GROUPS = 1000  # studies drawn, half of them with nothing planted
TEXTS = ("estimator", "interval", "method", "model", "control", "base", "nickname", "fingerprint")  # columns of text
BEFORE, AFTER = "crossed", "crossed, control off"
FRAMING = ("gap", "spread", "framing")  # estimators of what is 0 where raters are as sensitive to both sides
INTRODUCTION = """# Calibration: `python -m benchmarks.calibration`

Do the intervals mean what they say? Small reward models of width 48 are trained on planted values, exactly as the ten
of the notebooks, measured and thrown away. A plan of 400 varies what is planted: the slope gap `k_hi - k_lo` (0, .25,
.5, 1), the weight of frequency (half 0, else .2 or .4), the penalty on groups of people (half 0, else 1.25 or 2.5) and
the base; every model has raters, a taste and a seed of its own, and every eight in a row are balanced. Beside them two
controls are trained with five seeds each. What is scored are the 8,443 words that estimators read, under three prompts,
not the whole vocabulary.

- **bias**: the mean estimate of models in which nothing was planted (`n_null` of them). **a, b**: of the line
  recovered = a + b planted. **covers_planted**: the share of single models whose interval over words holds the planted
  value itself.
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
MULTIVERSES = """## Analyses of the multiverses: `python -m benchmarks.calibration --specifications`

How often an analysis reports an effect where there is none (`size`, of `n` cases). In section 2.2, names of the paper's
ten models were shuffled, and each test was asked of Fig 2A as printed. Of section 3, the sizes are those of the studies
above, by lexicon, prompt and inference; other choices were not varied there and share these rates. Of S3.freq.change,
the frequencies of the published moral words were dealt out to other words, 200 times, under three prompts for bad
things; the length of words and offensive words were not varied. Of S4.undervalued, the items of a kind were replaced
200 times by items of no kind that people rank next to them, on the published rewards. With raw ranks, placebos of
nature and technology nearly always seem undervalued, because models and people agree imperfectly and items that people
rank high have further to fall. Of S4.asymmetry, 200 studies were simulated in which ten models know people's ratings
equally well at both ends. Only specifications with a size between .02 and .08 are counted in notebooks 03c, 04b, 05, 06
and 06b.
"""
ATTENUATION = """## Attenuation

A trained model gives back less than what was planted in its raters. The slope b of the line recovered = a + b planted
is below 1 for every estimator. Each model learns from a finite number of noisy choices, and shrinks what it is unsure
of towards the mean, and the words of the lexicon also differ in taste and frequency, which raises the standard
deviation in which rewards are measured. So the intervals on this page are right about what a *trained model* rewards,
and they are not intervals for what its raters value. A recovered gap of .10 with b = .5 points to a planted gap of
about .20. Signs and orders survive attenuation; sizes do not.
"""


@dataclass(frozen=True)
class Report:
    """The tables of a calibration, as the functions of benchmarks.calibration.performance return them.

    estimates: a row per model and estimator. models: how intervals of single models do. groups: how those of groups of
    ten do. ranks: where the truth lies in these. trainings: how each model's training went, and its control.
    """

    estimates: pd.DataFrame
    models: pd.DataFrame
    groups: pd.DataFrame
    ranks: pd.DataFrame
    trainings: pd.DataFrame

    @property
    def n_models(self) -> int:
        """Return the number of models of the plan; the controls are not counted."""
        return int((self.trainings["control"] == "").sum())


def of(measured: Sequence[Measured], words: pd.DataFrame, *, groups: int = GROUPS) -> Report:
    """Return the report on these models. words: that they scored, as from measuring.words."""
    estimates = performance.estimates(measured, words)
    drawn = performance.groups(measured, words, number=groups)
    trainings = pd.DataFrame([one.report | {"control": one.planned.control} for one in measured])
    of_groups, ranks = performance.of_groups(drawn), performance.ranks(drawn)
    return Report(estimates, performance.single_models(estimates), of_groups, ranks, trainings)


def write(report: Report, folder: Path) -> None:
    """Write the report's tables into the folder, and what follows from them: `targets` and `claims`; one csv each."""
    tables = {field.name: getattr(report, field.name) for field in fields(Report)}
    tables |= {"targets": targets(report).reset_index(), "claims": claims(report)}
    for name, frame in tables.items():
        with replacing(folder / f"{name}.csv") as part:
            frame.to_csv(part, index=False, float_format="%.6g", lineterminator="\n")


def read(folder: Path | None = None) -> Report:
    """Return the report in the folder, None for the committed one. Raise InputError if there is no whole one."""
    folder = folder or TABLES
    try:
        texts = dict.fromkeys(TEXTS, str)
        tables = {field.name: pd.read_csv(folder / f"{field.name}.csv", dtype=texts) for field in fields(Report)}
    except (OSError, ValueError) as error:
        again = "run: python -m benchmarks.calibration --models 40"
        raise InputError(f"{folder} holds no report of a calibration ({error}); {again}") from error
    for name in ("estimates", "trainings"):
        tables[name]["control"] = tables[name]["control"].fillna("")
    return Report(**tables)


# --- what follows from it -----------------------------------------------------------------------------------------


def targets(report: Report) -> pd.DataFrame:
    """Return, by estimator, size before and after the control's bias is taken off, power, coverage, and the targets.

    Columns: size_before, size, power, coverage, coverage_new, size_target, coverage_target (met, missed, undecided).
    """
    methods = report.groups["method"]
    before, after = (report.groups[methods == method].set_index("estimator") for method in (BEFORE, AFTER))
    columns = {"size_before": before["size"], "size": after["size"], "power": after["power"],
               "coverage": before["coverage"], "coverage_new": before["coverage_new"]}  # fmt: skip
    for name, rows in (("size", after), ("coverage", before)):
        ends = rows[[name, f"{name}_low", f"{name}_high"]].itertuples(index=False)
        columns[f"{name}_target"] = pd.Series([meets(*row, TARGETS[name]) for row in ends], rows.index, dtype=str)
    return pd.DataFrame(columns)


def claims(report: Report) -> pd.DataFrame:
    """Return rows of C.gap_control and C.coverage for lib.claims.

    C.gap_control: what estimators of framing find, with the interval over models, where no gap was planted. C.coverage:
    the share of studies of ten models whose crossed interval holds the truth, and of false positives before and after
    the control's bias is taken off (intervals by Wilson; n: studies).
    """
    about = {estimator.name: {"prompt": " and ".join(estimator.prompts), "population": "small models",
                              "note": f"{estimator.says}, {estimator.unit}"} for estimator in ESTIMATORS}  # fmt: skip
    single = report.models.drop_duplicates("estimator").set_index("estimator")
    shares = [("C.gap_control", "gap_control", "bias", "n_null", single[single.index.str.startswith(FRAMING)])]
    for quantity, share, method in (("coverage", "coverage", BEFORE), ("false_positives", "size", BEFORE),
                                    ("false_positives_control_off", "size", AFTER)):  # fmt: skip
        rows = report.groups[report.groups["method"] == method].set_index("estimator")
        shares.append(("C.coverage", quantity, share, "groups", rows))
    return pd.DataFrame([
        {"claim": claim, "quantity": quantity, "corrected": row[share], "ci_low": row[f"{share}_low"],
         "ci_high": row[f"{share}_high"], "n": int(row[n])} | about[name]
        for claim, quantity, share, n, rows in shares for name, row in rows.iterrows()
    ])  # fmt: skip


def summary(report: Report) -> str:
    """Return the result in a few sentences, for the page and the command line."""
    single, by_estimator = report.models.drop_duplicates("estimator").set_index("estimator"), targets(report)
    seeds, bias = single["seed_ratio"], single["bias"]
    text = (
        f"{report.n_models} models of the plan and {len(report.trainings) - report.n_models} of the controls. Between "
        f"seeds of one control, estimates vary {seeds.min():.1f} to {seeds.max():.1f} times as much as the interval of "
        f"one model over words says. Where no gap was planted, the slope gap is {bias['gap VADER greatest']:+.3f} sd "
        f"per point by VADER and {bias['gap AFINN greatest']:+.3f} by AFINN. "
    )
    if by_estimator.empty:
        return text + "Too few models to draw studies from; train 16 or more."
    least = {name: f"{values.min():.0%} to {values.max():.0%}" for name, values in by_estimator.filter(
        ["coverage", "size_before", "size"]).items()}  # fmt: skip
    met = {name: (by_estimator[f"{name}_target"] == "met").sum() for name in TARGETS}
    b, held = single["b"], single["covers_planted"]  # of the interval over words, the first of INTERVALS
    framing = b.index.str.startswith(FRAMING)
    slopes = {name: b[b.index.str.startswith(name)] for name in ("frequency", "identity")} | {"framing": b[framing]}
    ranges = {name: f"{some.min():.2f} to {some.max():.2f}" for name, some in slopes.items()}
    new = (by_estimator["coverage_new"] < TARGETS["coverage"][0]).sum()
    return text + (
        f"In studies of up to {report.groups['models'].max():.0f} models the crossed interval holds the fitted line "
        f"a + b x planted in {least['coverage']} of studies ({met['coverage']} of {len(by_estimator)} estimators meet "
        f"the target). The planted value itself is not held: b is {ranges['framing']} for gaps and spreads, "
        f"{ranges['frequency']} for frequency and {ranges['identity']} for identity, and the interval of one model "
        f"over words holds the planted value in {held[framing].min():.1%} to {held[framing].max():.1%} of models for "
        f"gaps and spreads. The prediction interval for a new model holds its value in less than "
        f"{TARGETS['coverage'][0]:.0%} of studies for {new} of {len(by_estimator)} estimators. An effect is reported "
        f"where none was planted in {least['size_before']} of studies, and in {least['size']} where the control's bias "
        f"is taken off ({met['size']} meet the target)."
    )


def page(report: Report) -> str:
    """Return the report as Markdown: what was done, the result, and a table each of single models and of studies."""
    single = report.models.pivot_table(index="estimator", columns="interval", values=["size", "coverage"], sort=False)
    single.columns = [f"{quantity}, {interval}" for quantity, interval in single.columns]
    columns = ["estimator", "n_null", "bias", "a", "b", "covers_planted", "seed_ratio"]
    about = report.models.drop_duplicates("estimator")[columns].join(single, on="estimator")
    parts = [INTRODUCTION, summary(report), ATTENUATION, "## Single models", table(about),
             "## Studies", table(targets(report).reset_index()),
             MULTIVERSES, table(pd.read_csv(TABLES / "specifications.csv"))]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


# --- the command --------------------------------------------------------------------------------------------------


def calibrate(
    models: int = plan.MODELS, seeds: int = plan.SEEDS, folder: Path = measuring.FOLDER, *, steps: int = STEPS,
    processes: int = 1, groups: int = GROUPS, each: Callable = each,
) -> Report:  # fmt: skip
    """Train and measure models of the plan and the controls, and return the report; it also goes to `folder`/report.

    What the folder holds is not trained again. each: runs the jobs, as lib.models.hardware.each does.
    """
    asked = plan.planned(models, seeds)
    measuring.measure(asked, folder, steps=steps, processes=processes, each=each)
    made = of(measuring.read(asked, folder, steps=steps), measuring.words(), groups=groups)
    write(made, folder / "report")
    return made


def publish(report: Report) -> None:
    """Make it the committed report: data/calibration, the charts in figures/calibration, and benchmarks/calibration.md.

    Raise InputError if the committed one rests on more models, or this one on too few for studies of ten.
    """
    if report.groups.empty:
        raise InputError(f"{report.n_models} models are too few for the report that notebooks read; train 16 or more")
    committed = read().n_models if (TABLES / "estimates.csv").is_file() else 0
    if report.n_models < committed:
        raise InputError(f"the committed report rests on {committed} models, this on {report.n_models}; measure more")
    write(report, TABLES)
    for name, chart in charts.of_report(report).items():
        figures.save(chart, STUDY, name)
    write_page(report)


def write_page(report: Report) -> None:
    """Write benchmarks/calibration.md."""
    with replacing(PAGE) as part:
        part.write_text(page(report), encoding="utf-8")
