"""Models that are made here, as folders of data/models: each is made once, and again only if what
decides its weights has changed.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from .. import ROOT
from ..tables.registry import REPORT

TRAINED = ROOT / "data" / "models"


def fingerprint(*decides: object) -> str:
    """Return a hash of what decides the weights of a model: 16 hex digits."""
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]


def report_of(nickname: str, folder: Path = TRAINED) -> dict:
    """Return how a model was made; {} if there is no such model, or its report is damaged."""
    try:
        return dict(json.loads((folder / nickname / REPORT).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def is_made(nickname: str, made_from: str, folder: Path = TRAINED) -> bool:
    """Return whether the folder holds this model, made from what the fingerprint stands for."""
    return report_of(nickname, folder).get("fingerprint") == made_from


def make(
    nickname: str,
    made_from: str,
    write: Callable[[Path], dict],
    folder: Path = TRAINED,
) -> dict:
    """Return the report of a model in `folder`/nickname, which is made first unless it is there.

    `write` writes the model into a folder and returns a report. This folder is then moved to the
    model's place, so that no half-written model is ever seen. A second process waits for the first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / nickname
    with FileLock(folder / f".{nickname}.lock"):
        if is_made(nickname, made_from, folder):
            return report_of(nickname, folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{nickname}.") as made:
            part = Path(made) / nickname
            part.mkdir()
            report = {"nickname": nickname} | write(part) | {"fingerprint": made_from}
            (part / REPORT).write_text(json.dumps(report, indent=2) + "\n")
            shutil.rmtree(place, ignore_errors=True)
            part.rename(place)
    return report
