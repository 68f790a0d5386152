"""Run the notebooks' code on the score tables that are kept here, and compare every number with
tests/same.csv.

    python tests/same.py            # all notebooks that read score tables, on all collections here
    python tests/same.py 03 05      # only these
    python tests/same.py 03 --keep  # make what they compute now the new standard

A number is compared to five significant digits. Compared are the columns of numbers of every table
and every list of claims, and each recorded number. Texts and pictures may change. Nothing in
figures/ is written. The score tables come from `make reproduce` and `make published`; small models
that are there are taken as they are, whatever code they were trained by.
"""

import argparse
import contextlib
import hashlib
import io
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat
import numpy as np
import pandas as pd

from lib.apps.runner.jobs import Job, declared_by, plan
from lib.claims import claims
from lib.show import display, figures
from lib.tables.collection import Collection
from lib.trained import saving

STANDARD = Path(__file__).with_suffix(".csv")
KEY = ["collection", "notebook", "name", "part"]


def digest(values) -> str:
    """Return a short hash of numbers, each to five significant digits; NaN and -0.0 are as NaN
    and 0.
    """
    numbers = np.asarray(values, dtype=float).ravel()
    text = " ".join("nan" if np.isnan(x) else f"{x + 0.0:.4e}" for x in numbers)
    return hashlib.sha256(
        text.replace("-0.0000e+00", "0.0000e+00").encode()
    ).hexdigest()[:12]


def columns(frame: pd.DataFrame) -> dict[str, str]:
    """Return a digest per column of numbers, in the table's order of rows."""
    numeric = frame.select_dtypes("number")
    return {str(name): digest(numeric[name]) for name in numeric} | {
        "rows": str(len(frame))
    }


def computed(job: Job) -> list[dict]:
    """Execute a notebook's code in this process; return a row per number or column that it
    computes.
    """
    rows: list[dict] = []

    def keep(name: str, parts: dict[str, str]) -> None:
        place = {
            "collection": job.collection.name,
            "notebook": job.notebook.name[:2],
            "name": name,
        }
        rows.extend(
            place | {"part": part, "digest": value} for part, value in parts.items()
        )

    def save(figure, study, name, alt=""):
        return Path(f"{name}.png")

    def save_table(frame, study, name):
        keep(f"{name}.csv", columns(frame))
        return Path(f"{name}.csv")

    def state(study, stem, estimates):
        given = (
            estimates.to_dict("records")
            if isinstance(estimates, pd.DataFrame)
            else list(estimates)
        )
        table = claims.with_words(claims.answers(claims.stated(study, given)))
        order = table.sort_values(
            ["claim", "quantity", "prompt", "model"], kind="stable"
        )
        words = order[["claim", "quantity", "prompt", "model", "word"]].to_csv(
            index=False
        )
        keep(
            "claims",
            columns(order[claims.COLUMNS])
            | {"words": hashlib.sha256(words.encode()).hexdigest()[:12]},
        )
        return claims.scorecard(table)

    def record(**numbers):
        keep(
            "recorded",
            {
                name: digest([value])
                for name, value in numbers.items()
                if not isinstance(value, str)
            },
        )

    def is_kept(nickname, made_from, folder=saving.TRAINED):
        return bool(saving.report_of(nickname, folder))

    replaced = {
        (figures, "save"): save,
        (figures, "save_table"): save_table,
        (claims, "state"): state,
        (display, "record"): record,
        (saving, "is_made"): is_kept,
    }
    with contextlib.ExitStack() as undo, contextlib.chdir(tempfile.gettempdir()):
        undo.enter_context(contextlib.redirect_stdout(io.StringIO()))
        for (module, name), instead in replaced.items():
            undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, instead)
        names: dict = {"__name__": "__main__"}
        for cell in nbformat.read(job.notebook, 4).cells:
            if cell.cell_type != "code":
                continue
            try:
                exec(compile(cell.source, job.notebook.name, "exec"), names)
            except SystemExit:  # the notebook ends early
                break
            if "parameters" in cell.metadata.get("tags", []):
                names.update(job.parameters)
    return rows


def jobs(numbers: list[str]) -> list[Job]:
    """Return the jobs of notebooks that read score tables, on the collections that are here."""
    kept = [
        name
        for name in ("embedded", "published-words", "published-items")
        if Collection(name).models
    ]
    chosen = []
    for name in [*kept, *["published"] * (len(kept) > 1)]:
        planned = plan(Collection(name), {})
        chosen += [
            job
            for job in planned
            if job.notebook
            and declared_by(job.notebook).get("collections") != ["embedded"]
            and (not numbers or job.notebook.name[:2] in numbers)
        ]
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "numbers", nargs="*", help="numbers of notebooks, such as 03 (default: all)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="make these numbers the new standard"
    )
    options = parser.parse_args()
    differ = 0
    for job in jobs(options.numbers):
        differ += compare(
            computed(job), f"{job.name} on {job.collection}", options.keep
        )
    return int(differ > 0 and not options.keep)


def compare(rows: list[dict], what: str, keep: bool) -> int:
    """Print what differs from the standard; return how many numbers and columns do. keep: make
    these the standard.
    """
    now = (
        pd.DataFrame(rows, columns=[*KEY, "digest"])
        .drop_duplicates(KEY, keep="last")
        .set_index(KEY)["digest"]
    )
    old = pd.read_csv(STANDARD, dtype=str, keep_default_na=False).set_index(KEY)[
        "digest"
    ]
    expected = old[
        old.index.droplevel(["name", "part"]).isin(
            now.index.droplevel(["name", "part"])
        )
    ]
    both = pd.concat([expected.rename("before"), now.rename("now")], axis=1).fillna("-")
    changed = both[both["before"] != both["now"]]
    print(changed.to_string() if len(changed) else "", end="\n" if len(changed) else "")
    print(
        f"{what}: {len(both) - len(changed)} of {len(both)} numbers and columns are the same.",
        flush=True,
    )
    if keep:
        pd.concat([old.drop(expected.index), now]).sort_index().to_csv(STANDARD)
    return len(changed)


if __name__ == "__main__":
    sys.exit(main())
