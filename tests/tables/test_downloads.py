"""Pinned files: the mirror first, then the cache, then the network; never a file with other
content.
"""

from pathlib import Path

import pytest
from pinned import COMMIT, Mirror

from lib import InputError
from lib.tables import downloads

REPOSITORY, PATH = "owner/name", "data/a file, with a comma.csv"
CONTENT = b"word,value\nlove,1\n"


@pytest.fixture
def mirror(tmp_path, monkeypatch) -> Mirror:
    return Mirror(tmp_path, monkeypatch)


def cached(mirror: Mirror) -> Path:
    return mirror.project / "data" / "cache" / "downloads" / REPOSITORY / COMMIT / PATH


def test_a_blob_id_is_the_sha1_of_a_header_and_the_content():
    # git's well-known empty file
    assert downloads.git_blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert (
        downloads.git_blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    )


def test_the_mirror_is_read_first(mirror):
    file = mirror.put(REPOSITORY, PATH, CONTENT)
    cached(mirror).parent.mkdir(parents=True)
    cached(mirror).write_bytes(b"never looked at")
    assert downloads.fetch(REPOSITORY, PATH) == file


class Answer:
    """What GitHub answers."""

    headers = {"content-length": str(len(CONTENT))}

    def raise_for_status(self) -> None:
        pass

    def iter_content(self, chunk_size: int):
        yield CONTENT


def test_what_neither_holds_is_downloaded_once_into_the_cache(mirror, monkeypatch):
    mirror.pin(REPOSITORY, PATH, CONTENT)
    asked = []

    def answer(url: str, **options) -> Answer:
        asked.append(url)
        return Answer()

    monkeypatch.setattr("requests.get", answer)
    assert downloads.fetch(REPOSITORY, PATH) == cached(mirror)
    assert downloads.fetch(REPOSITORY, PATH).read_bytes() == CONTENT
    name = "data/a%20file%2C%20with%20a%20comma.csv"
    base = "https://raw.githubusercontent.com"
    assert asked == [f"{base}/{REPOSITORY}/{COMMIT}/{name}"]


def test_a_corrupt_file_is_named_and_not_replaced(mirror):
    file = mirror.put(REPOSITORY, PATH, CONTENT)
    file.write_bytes(CONTENT.replace(b"\n", b"\r\n"))
    with pytest.raises(InputError, match="mirror/.*comma.csv is corrupt .*; delete it"):
        downloads.fetch(REPOSITORY, PATH)
    assert file.read_bytes() != CONTENT


def test_what_cannot_be_had_is_one_line_that_says_how_to_get_it(mirror):
    mirror.pin(REPOSITORY, PATH, CONTENT)
    with pytest.raises(
        downloads.Unreachable,
        match=f"download https://.* to data/cache/downloads/{REPOSITORY}/",
    ):
        downloads.fetch(REPOSITORY, PATH)
    with pytest.raises(InputError, match="other.csv of owner/name is not pinned"):
        downloads.fetch(REPOSITORY, "other.csv")


def test_every_file_is_pinned_by_commit_and_blob_id():
    files = downloads.registry()
    for column in ("commit", "git_blob_id"):
        assert files[column].str.fullmatch("[0-9a-f]{40}").all()
    assert not files.duplicated(["repository", "path"]).any()
    assert files.groupby("repository")["commit"].nunique().eq(1).all()
    assert files["bytes"].map(lambda size: size == "" or int(size) > 0).all()
