"""What the notebooks need on whole published vocabularies. Run after `make published`: python -m
benchmarks.published

Each notebook runs alone, in a kernel of its own. The seconds include the start of the kernel and
its imports, and the memory the libraries. Files of the true size with other rewards give the same
times.
"""

import multiprocessing
import resource
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.scoring import machine, peak_memory, seconds, table, write_report
from lib import ROOT, InputError
from lib.apps.runner import files, jobs
from lib.tables.collection import VOCABULARY

KILOBYTES = 2**20  # in a GB


def measure(job: jobs.Job, report: multiprocessing.Queue) -> None:
    """Put a row about one notebook on the queue; nothing is written beside its tables and
    figures.
    """
    with tempfile.TemporaryDirectory() as folder:
        took, _ = seconds(
            lambda: files.execute(
                job.notebook, Path(folder) / job.notebook.name, job.parameters
            )
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report.put(
        {
            "notebook": job.name,
            "s": took,
            "processor, s": used.ru_utime + used.ru_stime,
            "peak memory, GB": used.ru_maxrss / KILOBYTES,
        }
    )


def main() -> None:
    if not VOCABULARY.scores.is_dir():
        raise InputError("the whole vocabularies are not here; run: make published")
    asked = jobs.plan(ROOT / "notebooks", VOCABULARY)
    rows: pd.DataFrame = peak_memory(measure, asked)
    write_report("published vocabularies", f"{machine('cpu')}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
