"""Where the time of `make reproduce` goes, from the run's own record. Run after it: python -m
benchmarks.first_run
"""

import json
import os
from datetime import datetime
from pathlib import Path
from timeit import timeit

import pandas as pd

from benchmarks.scoring import machine, table
from lib import ROOT, InputError
from lib.apps.runner import jobs
from lib.io import replacing
from lib.tables.collection import EMBEDDED, FIRST_RUN

FIRST_ANSWER = "smol-answer-shown"  # the cell of notebook 00
PAGE = ROOT / "benchmarks" / "first_run.md"


def notebooks() -> pd.DataFrame:
    """Return what each notebook of the last run took, and when it began, the longest first."""
    rows = [
        {
            "notebook": name,
            "s": each.seconds,
            "core-s": each.core_seconds,
            "GB": each.peak_gb,
            "begun": executed(name).stat().st_mtime - each.seconds,
        }
        for name, each in jobs.read_results(EMBEDDED).items()
        if each.status == "run"
    ]
    if not rows:
        raise InputError("there is no record of a run; run: make reproduce")
    return pd.DataFrame(rows).sort_values("core-s", ascending=False, ignore_index=True)


def executed(name: str) -> Path:
    """Return the file of an executed notebook."""
    places = [part.runs / f"{name}.ipynb" for part in (EMBEDDED, FIRST_RUN)]
    return next(path for path in places if path.is_file())


def first_answer_at() -> float:
    """Return when notebook 00 had its answer about the real model, in seconds since 1970."""
    notebook = json.loads(executed("00_small_reward_models").read_bytes())
    [cell] = [cell for cell in notebook["cells"] if cell["id"] == FIRST_ANSWER]
    ended = cell["metadata"]["papermill"]["end_time"]
    return datetime.fromisoformat(ended).timestamp()


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
The load of the machine is {os.getloadavg()[2]:.1f} (mean of the last 15 minutes; a run alone
makes about {os.cpu_count()}). With more, seconds are too long, and core-seconds somewhat.

From the start of the first notebook, the first page with the real model's words is there after
{first_answer_at() - begun.min():.0f} s, and the last page after {ended.max():.0f} s.
{len(ran)} notebooks take {ran["core-s"].sum():.0f} core-seconds, which is
{ran["core-s"].sum() / 60 / os.cpu_count():.1f} minutes on all {os.cpu_count()} cores.
The trainings of {len(trained)} small models, each in one process, take {trained["s"].sum():.0f} s
by the clock, at most two at once. GB: memory of a notebook's largest process, on Linux.

{table(ran)}

{table(trained)}
"""
    with replacing(PAGE) as part:
        part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
