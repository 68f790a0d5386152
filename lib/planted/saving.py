"""Trained models as folders: what each was made from, how it is saved, and how missing models
are trained.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from filelock import FileLock
from tqdm.auto import tqdm

from .. import ROOT
from ..io import hash_of_code
from ..models.hardware import each
from ..tables.registry import EARLY, REPORT

TRAINED = ROOT / "data" / "models"  # the trained models

# Code that decides the weights of every embedded model. Of what else they are computed with,
# lib.scoring and the bodies of transformers are left out: they give what any implementation of the
# architecture gives, up to the order of sums, and tests hold them to each other; faster scoring is
# no reason to train anew.
CODE = tuple(
    ROOT / "lib" / name
    for name in (
        "tables/words.py",
        *(f"planted/{name}.py" for name in ("planting", "bases", "training")),
    )
)


@dataclass(frozen=True)
class Job:
    """Models that one training makes: their nicknames, what decides their weights, and how they
    are made.
    """

    nicknames: tuple[str, ...]
    fingerprint: str
    folder: Path
    train: Callable[[], None]  # trains and saves them, in another process if need be
    size: int = 1  # how long it takes in comparison with other trainings, in any unit

    def is_done(self) -> bool:
        """Return whether the folder holds all these models, made from what the fingerprint
        stands for.
        """
        reports = [
            report_of(nickname, self.folder) or {} for nickname in self.nicknames
        ]
        return all(report.get("fingerprint") == self.fingerprint for report in reports)

    def run(self) -> None:
        """Train and save the models, if no other process did so meanwhile; wait for one that is
        at it.
        """
        with FileLock(self.folder / f".{self.nicknames[0]}.lock"):
            if not self.is_done():
                self.train()


def fingerprint(
    settings: Sequence,
    code: Iterable[Path],
    shipped: Iterable[Path],
) -> str:
    """Return a hash of what decides the weights of models, 16 hex digits.

    `settings` is anything that json can hold. `code` names Python files, to which CODE is added;
    docstrings and comments do not count. `shipped` names files of data/small_models, which count
    byte for byte.
    """
    written = json.dumps(settings, sort_keys=True)
    digest = hashlib.sha256(written.encode())
    digest.update(hash_of_code([*CODE, *code]).encode())
    for path in shipped:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def save(
    report: dict,
    made_from: str,
    folder: Path,
    write: Callable[[Path], object],
) -> Path:
    """Save a model and the report of its training in `folder`/nickname, and return that folder.

    `made_from` is its fingerprint. `write` writes the model into a folder, which is then moved to
    the model's place, so that no half-written model is ever seen. It replaces an older model of
    that nickname.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / report["nickname"]
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{place.name}.") as temporary:
        part = Path(temporary) / place.name
        write(part)
        (part / REPORT).write_text(
            json.dumps(report | {"fingerprint": made_from}, indent=2) + "\n"
        )
        shutil.rmtree(place, ignore_errors=True)
        part.rename(place)
    return place


def report_of(nickname: str, folder: Path = TRAINED) -> dict | None:
    """Return how the training of a saved model went; None if there is no such model, or its
    report is damaged.
    """
    try:
        report = json.loads((folder / nickname / REPORT).read_bytes())
    # it is not there, cut short, or not what was written
    except (OSError, ValueError, RecursionError):
        return None
    return (
        report
        if isinstance(report, dict) and report.get("nickname") == nickname
        else None
    )


def train_missing(
    jobs: Sequence[Job],
    *,
    processes: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Train the models that are not there yet; return how every training went, one row per
    nickname.

    `processes` is how many jobs run at once, None for one per core. Columns: those of the models'
    reports, and `trained`, whether it was missing before. InputError if a model did not learn. A
    script that calls this needs `if __name__ == "__main__":`, because each process imports it anew.
    """
    # The largest first, so that no core is left at the end with a long training of its own.
    missing = [job for job in jobs if not job.is_done()]
    missing.sort(key=lambda job: ({*EARLY}.isdisjoint(job.nicknames), -job.size))
    for path in (
        job.folder / nickname / REPORT for job in missing for nickname in job.nicknames
    ):
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        nickname = path.parent.name
        if path.exists() and report_of(nickname, path.parent.parent) is None:
            tqdm.write(f"{path} is damaged, so {nickname} is trained again")
    with tqdm(
        total=len(missing),
        unit=" trainings",
        disable=not (progress and missing),
    ) as bar:
        at_once = processes or os.cpu_count() or 1
        for _ in each(Job.run, missing, at_once):
            bar.update()
    table = pd.DataFrame(
        [report_of(name, job.folder) for job in jobs for name in job.nicknames]
    ).set_index("nickname")
    return table.assign(
        trained=table.index.isin(
            [nickname for job in missing for nickname in job.nicknames]
        )
    )
