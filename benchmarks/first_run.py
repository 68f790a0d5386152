"""Where the time of `make reproduce` goes, as papermill and the trainings noted it.

Run after it, in a fresh clone: python -m benchmarks.first_run
Beside an older commit, with the seconds of make reproduce here and there, in turn on one machine:
python -m benchmarks.first_run 600 8c7fdf4 800
"""

import json
import os
import sys
from datetime import datetime
from pathlib import Path

import pandas as pd

from benchmarks.scoring import machine
from lib import ROOT, InputError
from lib.io import replacing
from lib.tables.collection import EMBEDDED, FIRST_RUN

FIRST_WORDS = "first-words"  # the cell of notebook 00
PAGE = ROOT / "benchmarks" / "first_run.md"


def ran(papermill: dict) -> tuple[float, float]:
    """Return when a notebook or a cell began and ended, in seconds since 1970."""
    times = papermill["start_time"], papermill["end_time"]
    begun, ended = (datetime.fromisoformat(time).timestamp() for time in times)
    return begun, ended


def notebooks() -> pd.DataFrame:
    """Return a row for each executed notebook, the longest first: notebook, begun, ended, s."""
    paths = [
        path for part in (EMBEDDED, FIRST_RUN) for path in part.runs.glob("*.ipynb")
    ]
    if not paths:
        raise InputError("there is no executed notebook; run: make reproduce")
    read = {path.stem: json.loads(path.read_bytes()) for path in paths}
    rows = [[name, *ran(each["metadata"]["papermill"])] for name, each in read.items()]
    found = pd.DataFrame(rows, columns=["notebook", "begun", "ended"])
    found["s"] = found["ended"] - found["begun"]
    return found.sort_values("s", ascending=False, ignore_index=True)


def first_words_at() -> float:
    """Return when notebook 00 showed the real model's words, in seconds since 1970."""
    [path] = FIRST_RUN.runs.glob("00_*.ipynb")
    cells = {cell["id"]: cell for cell in json.loads(path.read_bytes())["cells"]}
    return ran(cells[FIRST_WORDS]["metadata"]["papermill"])[1]


def trainings(folder: Path = ROOT / "data" / "models") -> pd.DataFrame:
    """Return the seconds of each training, the longest first: model, s."""
    reports = [json.loads(path.read_text()) for path in folder.glob("*/training.json")]
    rows = [
        [each["nickname"], each["seconds"]] for each in reports if "seconds" in each
    ]
    found = pd.DataFrame(rows, columns=["model", "s"])
    return found.sort_values("s", ascending=False, ignore_index=True)


def main(here: str = "", commit: str = "", there: str = "") -> None:
    found, trained = notebooks(), trainings()
    begun = found["begun"].min()
    beside = ""
    if commit:
        beside = f"""
In turn on this machine, `make reproduce` took {here} s, and {there} s at commit {commit}:
{float(here) / float(there):.2f} of the time.
"""
    text = f"""# The first run

`make reproduce` in a fresh clone, written by `python -m benchmarks.first_run`. {machine("cpu")}
The load of the machine is {os.getloadavg()[2]:.1f} (mean of the last 15 minutes; a run alone
makes about {os.cpu_count()}). With more, seconds are too long.

From the start of the first notebook, the real model's first words are there after
{first_words_at() - begun:.0f} s, and the last page after {found["ended"].max() - begun:.0f} s.
{beside}
The trainings of {len(trained)} small models, each in one process, take {trained["s"].sum():.0f} s
by the clock, at most {os.cpu_count()} at once.

{found[["notebook", "s"]].round(1).to_markdown(index=False)}

{trained.to_markdown(index=False)}
"""
    with replacing(PAGE) as part:
        part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
