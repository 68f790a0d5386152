"""The report of a calibration: tables made once from what was measured, and read by notebooks ever after."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from lib import ROOT, InputError
from lib.calibration import performance
from lib.calibration.plan import Measured
from lib.files import replacing

TABLES = ROOT / "data" / "calibration"  # of the committed report, which notebooks read
GROUPS = 1000  # studies drawn, half of them with nothing planted
TEXTS = (
    "estimator",
    "interval",
    "method",
    "model",
    "control",
    "base",
    "nickname",
    "fingerprint",
)  # columns; else numbers


@dataclass(frozen=True)
class Report:
    """What a calibration found, a table each: see the functions of lib.calibration.performance.

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
        """Models of the plan that it rests on; the controls are not counted."""
        return int((self.trainings["control"] == "").sum())


def of(measured: Sequence[Measured], words: pd.DataFrame, *, groups: int = GROUPS) -> Report:
    """The report on these models, not written yet. words: that they scored, as of measuring.words."""
    table = performance.estimates(measured, words)
    drawn = performance.groups(measured, words, number=groups)
    trainings = pd.DataFrame([one.report | {"control": one.planned.control} for one in measured])
    of_groups, ranks = performance.of_groups(drawn), performance.ranks(drawn)
    return Report(table, performance.single_models(table), of_groups, ranks, trainings)


def write(made: Report, folder: Path) -> None:
    """Write the report's tables into the folder, one csv each."""
    for field in fields(Report):
        with replacing(folder / f"{field.name}.csv") as part:
            getattr(made, field.name).to_csv(part, index=False, float_format="%.6g", lineterminator="\n")


def read(folder: Path | None = None) -> Report:
    """The report in the folder, None for the committed one. InputError if there is none, or not a whole one."""
    folder = folder or TABLES
    try:
        texts = {name: str for name in TEXTS}
        tables = {field.name: pd.read_csv(folder / f"{field.name}.csv", dtype=texts) for field in fields(Report)}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} holds no report of a calibration ({error}); run: make calibrate MODELS=40"
        ) from error
    for name in ("estimates", "trainings"):
        tables[name]["control"] = tables[name]["control"].fillna("")
    return Report(**tables)
