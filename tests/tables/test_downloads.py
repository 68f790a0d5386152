"""Pinned files: the mirror first, then the cache, then the network; never a file with other
content.
"""

import http.server
import threading
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

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


def test_a_relative_mirror_is_relative_to_the_project(mirror, monkeypatch, tmp_path):
    mirror.put(REPOSITORY, PATH, CONTENT)
    monkeypatch.setenv(downloads.MIRROR, "../mirror")
    monkeypatch.chdir(tmp_path)  # a notebook's kernel runs somewhere else
    assert downloads.fetch(REPOSITORY, PATH).read_bytes() == CONTENT


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; breaks off after `breaks` bytes, once."""

    asked: ClassVar[list[str]] = []
    breaks: ClassVar[list[int]] = []
    content = CONTENT

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: self.breaks.pop(0) if self.breaks else None])

    def log_message(self, *given):
        pass


@pytest.fixture
def server(mirror, monkeypatch):
    """What GitHub would be: a server of this process."""
    monkeypatch.undo()
    monkeypatch.setattr(downloads, "ROOT", mirror.project)
    monkeypatch.setattr(downloads, "DATA", mirror.project / "data")
    monkeypatch.delenv(downloads.MIRROR, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirror.pin(REPOSITORY, PATH, CONTENT)
    handler = type("Handler", (Server,), {"asked": [], "breaks": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(
        target=running.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    base = f"http://127.0.0.1:{running.server_port}"
    remote = downloads.address
    monkeypatch.setattr(
        downloads, "address", lambda pin: f"{base}{urlsplit(remote(pin)).path}"
    )
    yield handler
    running.shutdown()
    thread.join()
    running.server_close()


def files_beside(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir() if file.suffix != ".lock"}


def test_what_neither_holds_is_downloaded_once_into_the_cache(
    mirror, server, monkeypatch
):
    monkeypatch.setenv(downloads.MIRROR, str(mirror.folder))
    assert downloads.fetch(REPOSITORY, PATH) == cached(mirror)
    assert downloads.fetch(REPOSITORY, PATH).read_bytes() == CONTENT
    assert server.asked == [
        f"/owner/name/{COMMIT}/data/a%20file%2C%20with%20a%20comma.csv"
    ]
    assert files_beside(cached(mirror)) == {cached(mirror).name}


def test_half_of_a_file_is_not_kept(mirror, server):
    server.breaks[:] = [5]
    with pytest.raises(
        downloads.Unreachable, match="comma.csv of owner/name cannot be had"
    ):
        downloads.fetch(REPOSITORY, PATH)
    assert files_beside(cached(mirror)) == set()
    assert downloads.fetch(REPOSITORY, PATH).read_bytes() == CONTENT


def test_another_file_than_the_pinned_one_is_refused(mirror, server):
    server.content = b"another"
    with pytest.raises(InputError, match="another file than the pinned one; delete it"):
        downloads.fetch(REPOSITORY, PATH)
    server.content = CONTENT
    cached(mirror).unlink()
    assert downloads.fetch(REPOSITORY, PATH).read_bytes() == CONTENT


def test_a_file_that_the_server_lacks_is_one_line(mirror, server):
    server.do_GET = lambda self: self.send_error(404)
    with pytest.raises(downloads.Unreachable, match=r"cannot be had \(HTTPError\)"):
        downloads.fetch(REPOSITORY, PATH)


def test_a_corrupt_file_is_named_and_not_replaced(mirror):
    file = mirror.put(REPOSITORY, PATH, CONTENT)
    file.write_bytes(CONTENT.replace(b"\n", b"\r\n"))
    with pytest.raises(InputError, match="mirror/.*comma.csv is corrupt .*; delete it"):
        downloads.fetch(REPOSITORY, PATH)
    assert file.read_bytes() != CONTENT
    file.unlink()
    cached(mirror).parent.mkdir(parents=True)
    cached(mirror).write_bytes(CONTENT[:-1])
    with pytest.raises(InputError, match="downloads/.*comma.csv is corrupt"):
        downloads.fetch(REPOSITORY, PATH)


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
    assert list(files.columns) == [
        "repository",
        "commit",
        "path",
        "model",
        "git_blob_id",
        "bytes",
    ]
    for column in ("commit", "git_blob_id"):
        assert files[column].str.fullmatch("[0-9a-f]{40}").all()
    assert not files.duplicated(["repository", "path"]).any()
    assert files.groupby("repository")["commit"].nunique().eq(1).all()
    assert files["bytes"].map(lambda size: size == "" or int(size) > 0).all()
