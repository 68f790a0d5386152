"""Input and output: whole files, locks, names, full disks and memory, and what a terminal shows."""

import ast
import contextlib
import errno
import functools
import glob
import hashlib
import json
import os
import platform
import shutil
import socket
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import psutil
from filelock import FileLock, Timeout

from . import ROOT, InputError

PLENTY = 1e9  # bytes; with more of them free, a disk is not full
ABANDONED = 600.0  # seconds after which nobody writes a half file any more
# environment variable: a file that lists what this process and its children write
WRITTEN = "FILES_WRITTEN_TO"
UNWRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOENT,
)


@contextlib.contextmanager
def replacing(path: Path, *, size: float | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`: a file written there replaces `path` once it is whole
    and on disk.

    If the block fails, `path` stays as it was and nothing is left beside it. A full disk or an
    unwritable folder is an InputError. If several processes write the same file at once, the last
    one's stays. A process that is killed leaves at most `.<name>.<pid>.part`, which a later writer
    of the same file removes. size: about how many bytes it takes, for the message about a full
    disk.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            with contextlib.suppress(OSError):  # another writer may have been quicker
                if left.lstat().st_mtime < time.time() - ABANDONED:
                    left.unlink()
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
        if WRITTEN in os.environ:
            with open(os.environ[WRITTEN], "a", encoding="utf-8") as log:
                log.write(f"{os.path.abspath(path)}\n")
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and (remedy := _remedy(error, path, size)):
            raise InputError(remedy) from error
        raise


def _remedy(error: OSError, path: Path, size: float | None = None) -> str | None:
    """Return one line for the failures to write that the reader can mend; None for the others."""
    if is_of_disk(error):
        return disk_full(str(path), path.parent, size)
    if error.errno == errno.EFBIG:
        return (
            f"{path} would be larger than this shell lets a file be; raise the limit (ulimit "
            "-f), and run again"
        )
    if error.errno in UNWRITABLE:
        return (
            f"{path.parent} cannot be written ({error.strerror}); make it a writable folder, or "
            "choose another"
        )
    return None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the sole right to write `path`; a second writer gets an InputError that names the
    process holding it.

    The operating system locks `<name>.lock`, so the lock ends with the process. `.<name>.pid` names
    the process and its host, because Windows lets nobody read a locked file. Symbolic links in the
    place of either are not followed.
    """
    path = Path(path)
    holder = path.with_name(f".{path.name}.pid")
    # a soft lock outlives its process
    taken = FileLock(path.with_name(f"{path.name}.lock"), fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if Path(taken.lock_file).is_symlink():
            raise InputError(
                f"{taken.lock_file} is a symbolic link, which no lock of ours is; remove it"
            )
        taken.acquire(blocking=False)
    except Timeout as error:
        name = ""
        with contextlib.suppress(OSError):
            text = holder.read_text(encoding="utf-8", errors="replace")
            name = visible(text[:100], kept="").strip()
        remedy = "wait until it ends, or stop it, then run again"
        raise InputError(
            f"process {name or 'unknown'} is writing {path}; {remedy}"
        ) from error
    except OSError as error:
        raise InputError(
            _remedy(error, path)
            or f"{taken.lock_file} cannot be locked: {error.strerror}"
        ) from error
    try:
        # on a full disk the number stays unknown; the lock itself needs no space
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
            with open(holder, "x", encoding="utf-8") as file:
                file.write(f"{os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        taken.release()


def hash_of_code(paths: Iterable[Path]) -> str:
    """Return a hash, in hex, of the syntax trees of Python files, which comments and docstrings
    do not change.
    """
    digest = hashlib.sha256()
    for path in paths:
        tree = ast.parse(Path(path).read_bytes())
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                and ast.get_docstring(node) is not None
            ):
                node.body = node.body[1:]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of what numbers are computed with; a library that is not installed is
    left out.
    """
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "tokenizers", "numpy", "pandas", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def state_of(path: Path) -> list[int]:
    """Return a file's size, inode and times in nanoseconds, which change if the file does.
    OSError without a file.
    """
    status = path.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


class Hashes:
    """Results computed from files, kept in the JSON file at place(): an unchanged file is not
    read again.
    """

    # nanoseconds within which a file may change again without a later time
    JUST_NOW = 2e9

    def __init__(self, place: Callable[[], Path]):
        self.place = place
        self.new = False
        self.known: dict[str, list] | None = None

    def of(self, what: str, file: Path, compute: Callable[[Path], Any]) -> Any:
        """Return compute(file), of plain types, under the name `what`. OSError if the file
        cannot be read.
        """
        return self.with_state(what, file, compute)[1]

    def with_state(
        self, what: str, file: Path, compute: Callable[[Path], Any]
    ) -> tuple[list[int], Any]:
        """Return the file's state and the same result, computed after the state was read."""
        if self.known is None:
            try:
                known = json.loads(self.place().read_bytes())
                self.known = {
                    name: [state, value] for name, (state, value) in known.items()
                }
            except (OSError, ValueError, TypeError, AttributeError):
                self.known = {}
        name = f"{what} {file}"
        state = state_of(file)
        entry = self.known.get(name)
        if entry and entry[0] == state:
            return state, entry[1]
        value = compute(file)
        if time.time_ns() - max(state[2:]) > self.JUST_NOW:
            self.known[name] = [state, value]
            self.new = True
        return state, value

    def keep(self) -> None:
        """Write the results, of files that still exist, if any is new. InputError if they cannot
        be written.
        """
        if self.known and self.new:
            there = {
                name: entry
                for name, entry in self.known.items()
                if Path(name.partition(" ")[2]).is_file()
            }
            with replacing(self.place()) as part:
                part.write_text(json.dumps(there))
            self.new = False


def checked(name: str, what: str, longest: int = 100) -> str:
    """Return the name itself if a file may be called so on every system, else raise InputError.

    Refused are names that are empty, hidden, longer than so many bytes, end with a space or a dot,
    could lead out of their folder, or hold what cannot be printed. what: the thing that is named,
    such as `a prompt`.
    """
    plain = name.isprintable() and not any(
        character in '/\\:*?"<>|' for character in name
    )
    ends = name != "" and not name.startswith(".") and name == name.strip(" .")
    # Whatever is printable can be encoded; half of a surrogate pair, which cannot, is not
    # printable.
    if not (plain and ends and len(name.encode()) <= longest):
        shown = name if len(name) <= 40 else f"{name[:40]}..."
        raise InputError(
            f"{shown!r} cannot name {what}; use up to {longest} letters, digits, '-', '.' and '_'"
        )
    return name


def shown_path(path: Path) -> str:
    """Return a path relative to the project, if it is inside."""
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return str(path)


def command_to_install() -> str:
    """Return the command that installs what a part of the library needs besides the light
    installation.
    """
    if (ROOT / "requirements.lock").is_file():
        return f"{sys.executable} -m pip install -c requirements.lock -e '.[dev]'"
    return f'{sys.executable} -m pip install "reward-model-values[card]"'


def is_of_disk(error: BaseException) -> bool:
    """Return whether the error says that a disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_of_memory(error: BaseException) -> bool:
    """Return whether the error says that memory is full."""
    # torch has an error of its own for a GPU, and a plain one for a CPU.
    if isinstance(error, RuntimeError):
        return (
            type(error).__name__ == "OutOfMemoryError" or "memory" in str(error).lower()
        )
    return (
        isinstance(error, MemoryError)
        or isinstance(error, OSError)
        and error.errno == errno.ENOMEM
    )


def disk_full(what: str, place: Path, size: float | None = None) -> str:
    """Return the message that the disk of `place` is full, so that `what`, of about `size`
    bytes, was not written.
    """
    there = next(
        folder for folder in (place, *place.absolute().parents) if folder.is_dir()
    )
    free = shutil.disk_usage(there).free
    if free > max(2 * (size or 0), PLENTY):
        return (
            f"{what} was not written: the system gives no more space, though {free / 1e9:.0f} GB "
            f"are free at {there}; look for a quota, for too many files (df -i), or for a full "
            "folder of temporary files, and run the same command again"
        )
    takes = f"it takes about {size / 1e6:.1f} MB, and " if size else ""
    return (
        f"the disk is full, so {what} was not written: {takes}{free / 1e6:.1f} MB are left; free "
        "some space and run the same command again"
    )


def describe_shortage(error: BaseException, command: str) -> str | None:
    """Return the message for an error that ended a command because disk or memory is full; None
    for any other.
    """
    if isinstance(error, InputError):
        return None
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if full := next(filter(is_of_disk, causes), None):
        name = getattr(full, "filename", None)
        return disk_full(
            str(name or f"what `{command}` made"),
            Path(name).parent if name else Path.cwd(),
        )
    if any(
        isinstance(cause, OSError) and cause.errno == errno.EMFILE for cause in causes
    ):
        return (
            f"`{command}` may not open so many files; raise the limit (ulimit -n 1024), then "
            "run it again"
        )
    if full := next(
        (
            cause
            for cause in causes
            if is_of_memory(cause) or isinstance(cause, BrokenExecutor)
        ),
        None,
    ):
        message = str(full).strip() or "no more could be had"
        message = message.splitlines()[0][:200]
        return (
            f"there is too little memory for `{command}` ({message}), "
            f"{psutil.virtual_memory().available / 1e9:.1f} GB are left; close other programs or "
            "use a larger machine, and run the same command again: it goes on from what is done"
        )
    return None


INVISIBLE = set("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in range(0xFE00, 0xFE10)
}
LINES = "\n\t"
UP = "\x1b[A"  # to the line of the progress bar above


class Visible:
    """A stream that writes `visible` texts to another one. bars: progress bars may move in their
    lines and between. A character that the other stream's encoding lacks is written as an escape.

    If nobody reads it, because it is closed or behind `| head`, the work goes on and the texts are
    dropped.
    """

    def __init__(self, stream: TextIO | None, bars: bool = False):
        self.stream = stream or StringIO()
        self.bars = bars

    def write(self, text: str) -> int:
        parts = text.split(UP) if self.bars else [text]
        shown = UP.join(visible(part, LINES + "\r" * self.bars) for part in parts)
        # ascii or cp1252 in a pipe
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        with self._read():
            self.stream.write(
                shown.encode(encoding, "backslashreplace").decode(encoding)
            )
        return len(text)

    def flush(self) -> None:
        with self._read():
            self.stream.flush()

    @contextlib.contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def visible(text: str, kept: str = LINES) -> str:
    """Return the text with controls but those in `kept`, marks of direction and surrogates as
    `⟨U+…⟩`.
    """
    text = text.replace("\r\n", "\n")
    # A space of any width is shown, though only one of them counts as printable.
    shown = ""
    for c in text:
        if c in kept or c.isprintable() or unicodedata.category(c) == "Zs":
            shown += c
        else:
            shown += f"⟨U+{ord(c):04X}⟩"
    return shown
