"""Files of other projects, pinned by commit and git blob id: fetched when asked for, never kept in
this project.

`data/downloads.csv` lists them. A file is looked for in the folder that DATA_MIRROR names (layout
`<owner>/<repository>/<commit>/<path>`), then in data/cache/downloads, then on GitHub.
"""

import hashlib
import os
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import requests
from filelock import FileLock
from tqdm import tqdm

from .. import DATA, ROOT, InputError
from ..io import replacing

MIRROR = "DATA_MIRROR"
# Seconds for a connection to each of GitHub's four addresses, and for silence after it. Without a
# network, a reader waits ten seconds.
SECONDS = (2.5, 20)


class Unreachable(InputError):
    """A pinned file is neither in the mirror nor in the cache, and cannot be downloaded now."""

    def __init__(self, message: str, answered: bool = False):
        super().__init__(message)
        # whether GitHub answered, so that it may have other files
        self.answered = answered


def registry() -> pd.DataFrame:
    """Return the files that can be fetched: columns repository, commit, path, git_blob_id and
    bytes ('' if unknown).
    """
    return pd.read_csv(DATA / "downloads.csv", dtype=str, keep_default_na=False)


def git_blob_id(content: bytes) -> str:
    """Return git's id of this content: the SHA-1, in hex, of `blob <bytes>`, a zero byte and the
    content.
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _verified(path: Path, blob_id: str, remedy: str) -> Path:
    """Return the path if the file has this git blob id; InputError if it has another."""
    actual_id = git_blob_id(path.read_bytes())
    if actual_id != blob_id:
        raise InputError(
            f"{path} is corrupt: its git blob id is {actual_id[:12]}, not {blob_id[:12]}; {remedy}"
        )
    return path


def fetch(repository: str, path: str, *, download: bool = True) -> Path:
    """Return the local copy of the pinned file `path` of the GitHub repository `owner/name`, its
    content verified.

    Raise InputError if data/downloads.csv does not list the file or the copy is corrupt. Raise
    Unreachable if there is no copy and GitHub cannot be reached, or is not asked (download=False).
    One line names the file and the remedy.
    """
    files = registry()
    is_file = (files["repository"] == repository) & (files["path"] == path)
    pins = files[is_file]
    if len(pins) != 1:
        raise InputError(
            f"{path} of {repository} is not pinned; add its commit and git blob id to "
            "data/downloads.csv"
        )
    pin = pins.iloc[0]
    place = Path(repository, pin["commit"], path)
    if named := os.environ.get(MIRROR):
        # an absolute folder stays as it is; notebooks run in a folder of their own
        mirror = ROOT / named
        if not mirror.is_dir():
            raise InputError(
                f"{MIRROR}={named} is no folder; name one that holds "
                "<owner>/<repository>/<commit>/<path>"
            )
        if (mirror / place).is_file():
            return _verified(
                mirror / place, pin["git_blob_id"], f"copy it again, or unset {MIRROR}"
            )
    cached = ROOT / "data" / "cache" / "downloads" / place
    if not cached.is_file():
        if not download:
            raise Unreachable(_how_to_get(pin, cached, "GitHub did not answer before"))
        _download(pin, cached)
    return _verified(
        cached, pin["git_blob_id"], "delete it and run the same command again"
    )


def address(pin: pd.Series) -> str:
    """Return where GitHub serves a pinned file (a row of the registry)."""
    place = f"{pin['repository']}/{pin['commit']}/{quote(pin['path'])}"
    return f"https://raw.githubusercontent.com/{place}"


def _download(pin: pd.Series, cached: Path) -> None:
    """Download a pinned file into the cache, with a progress bar on a terminal."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cached.with_name(f".{cached.name}.lock")):
        if cached.is_file():  # another process has just had it
            return
        try:
            with requests.get(address(pin), stream=True, timeout=SECONDS) as response:
                response.raise_for_status()
                name = f"{pin['path']} of {pin['repository']}"
                content = b"".join(
                    tqdm(
                        response.iter_content(1 << 16),
                        name,
                        unit=" pieces of 64 kB",
                        disable=None,
                    )
                )
        except requests.RequestException as error:
            answered = isinstance(error, requests.HTTPError)
            raise Unreachable(
                _how_to_get(pin, cached, type(error).__name__), answered
            ) from error
        # so nothing else is ever found in the cache
        if git_blob_id(content) != pin["git_blob_id"]:
            raise InputError(
                f"{address(pin)} sent another file than the pinned one; run the same command again"
            )
        with replacing(cached) as part:
            part.write_bytes(content)


def _how_to_get(pin: pd.Series, cached: Path, why: str) -> str:
    return (
        f"{pin['path']} of {pin['repository']} cannot be had ({why}); download {address(pin)} "
        f"to {cached.relative_to(ROOT)}, or name a folder with a copy: {MIRROR}=<folder>"
    )
