"""Where the time of `make reproduce` goes, from the run's own record. Run after it: python -m
benchmarks.first_run
"""

import json
from pathlib import Path
from timeit import timeit

import pandas as pd

from benchmarks.scoring import machine, table
from lib import ROOT, InputError
from lib.apps.runner import jobs
from lib.io import replacing
from lib.tables.collection import EMBEDDED, FIRST_RUN

PAGE = ROOT / "benchmarks" / "first_run.md"


def notebooks() -> pd.DataFrame:
    """Return what each notebook of the last run took, and when it began, the longest first."""
    rows = [
        {
            "notebook": name,
            "s": each.seconds,
            "core-s": each.core_seconds,
            "begun": executed_at(name) - each.seconds,
        }
        for name, each in jobs.read_results(EMBEDDED).items()
        if each.status == "run"
    ]
    if not rows:
        raise InputError("there is no record of a run; run: make reproduce")
    return pd.DataFrame(rows).sort_values("core-s", ascending=False, ignore_index=True)


def executed_at(name: str) -> float:
    """Return when the executed notebook was written, in seconds since 1970."""
    places = [part.runs / f"{name}.ipynb" for part in (EMBEDDED, FIRST_RUN)]
    return next(path for path in places if path.is_file()).stat().st_mtime


def trainings(begun: float, folder: Path = ROOT / "data" / "models") -> pd.DataFrame:
    """Return the seconds of each training that has ended since `begun`, each on one core, the
    longest first.
    """
    ended = [
        path for path in folder.glob("*/training.json") if path.stat().st_mtime >= begun
    ]
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in ended]
    rows = [
        {"model": report["nickname"], "s": report["seconds"]}
        for report in reports
        if "seconds" in report
    ]
    return pd.DataFrame(rows, columns=["model", "s"]).sort_values(
        "s", ascending=False, ignore_index=True
    )


def main() -> None:
    ran = notebooks()
    begun = ran.pop("begun")
    trained, ended = trainings(begun.min()), begun + ran["s"] - begun.min()
    text = f"""# The first run

`make reproduce` in a fresh clone, written by `python -m benchmarks.first_run`. {machine("cpu")}
Ten million additions (`timeit`) take {timeit("n += 1", "n = 0", number=10_000_000):.2f} s.

From the start of the first notebook, the first page is there after {ended.min():.0f} s
and the last one after {ended.max():.0f} s.
{len(ran)} notebooks take {ran["core-s"].sum():.0f} core-seconds. The trainings of
{len(trained)} small models, each on one core, take {trained["s"].sum():.0f} s of it.

{table(ran)}

{table(trained)}
"""
    with replacing(PAGE) as part:
        part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
