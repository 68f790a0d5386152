"""Files of other projects, pinned by commit and git blob id: fetched when asked for, never kept in
this project.

`data/downloads.csv` lists them. A file is looked for in the folder that DATA_MIRROR names (layout
`<owner>/<repository>/<commit>/<path>`), then in data/cache/downloads, then on GitHub.
"""

import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pooch
import requests

from .. import DATA, ROOT, InputError

MIRROR = "DATA_MIRROR"
# Seconds for a connection to each of GitHub's four addresses, and for silence after it. Without a
# network, a reader waits ten seconds.
SECONDS = (2.5, 20)
pooch.get_logger().setLevel("WARNING")  # else it prints hashes to pin


class Unreachable(InputError):
    """A pinned file is neither in the mirror nor in the cache, and cannot be downloaded now."""


def registry() -> pd.DataFrame:
    """Return the files that can be fetched: columns repository, commit, path, model (the
    nickname whose scores it holds, '' for other files), git_blob_id and bytes ('' if unknown).
    """
    return pd.read_csv(DATA / "downloads.csv", dtype=str, keep_default_na=False)


def git_blob_id(content: bytes) -> str:
    """Return git's id of this content: the SHA-1, in hex, of `blob <bytes>`, a zero byte and the
    content.
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def fetch(repository: str, path: str) -> Path:
    """Return the local copy of the pinned file `path` of the GitHub repository `owner/name`, its
    content verified.

    Raise InputError if data/downloads.csv does not list the file or the copy is another file. Raise
    Unreachable if there is no copy and GitHub cannot be reached. One line names the file and the
    remedy.
    """
    pins = registry().query("repository == @repository and path == @path")
    if pins.empty:
        raise InputError(f"{path} of {repository} is not pinned in data/downloads.csv")
    pin = pins.iloc[0]
    place = f"{repository}/{pin['commit']}/{path}"
    url = f"https://raw.githubusercontent.com/{quote(place)}"
    # notebooks run in a folder of their own; an absolute folder stays as it is
    file = ROOT / os.environ.get(MIRROR, "") / place
    if not file.is_file():
        file = ROOT / "data" / "cache" / "downloads" / place
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=SECONDS)
    try:  # a file that is there is not asked for
        pooch.retrieve(url, None, file.name, file.parent, downloader=get)
    except requests.RequestException as error:
        raise Unreachable(
            f"{path} of {repository} cannot be had ({type(error).__name__}); download {url} to "
            f"{file.relative_to(ROOT)}, or name a folder with a copy: {MIRROR}=<folder>"
        ) from error
    if git_blob_id(file.read_bytes()) != pin["git_blob_id"]:
        raise InputError(
            f"{file} is corrupt or another file than the pinned one; delete it and run again"
        )
    return file
