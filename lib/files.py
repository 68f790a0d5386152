"""Files: written whole or not at all, and one writer at a time."""

import ast
import contextlib
import errno
import glob
import hashlib
import os
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from lib import InputError, shortage

ABANDONED = 600.0  # seconds after which nobody writes a half file any more
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


@contextlib.contextmanager
def replacing(path: Path, *, size: float | None = None, durable: bool = True) -> Iterator[Path]:
    """A temporary path beside `path`: write a file there, and it takes the place of `path` once it is on disk.

    If the block fails, `path` stays as it was and nothing is left beside it. A full disk or an unwritable folder is
    an InputError. Several processes may write the same file at once; the last one's stays. A process that is killed
    leaves at most `.<name>.<pid>.part`, which a writer of the same file removes once it is ABANDONED; a link in the
    place of our own, which would lead elsewhere, is removed. size: about how many bytes it takes, told where they are
    not to be had.
    durable: False does not wait for the disk, so that a power cut may leave an empty or half file; for many small
    files that show by themselves whether they are whole.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        if durable:  # among many small files a search at each would take longer than the writing
            _clear_up(path)
        yield part
        if durable:
            with open(part, "rb+") as file:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and (remedy := _remedy(error, path, size)):
            raise InputError(remedy) from error
        raise


def _clear_up(path: Path) -> None:
    """Remove what killed writers of `path` left: whoever still writes has touched its part a moment ago."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):  # another writer may have been quicker
            if left.lstat().st_mtime < time.time() - ABANDONED:
                left.unlink()


def _remedy(error: OSError, path: Path, size: float | None = None) -> str | None:
    """One line for the failures to write that the reader can mend; None for the others."""
    if shortage.is_of_disk(error):
        return shortage.disk_full(str(path), path.parent, size)
    if error.errno in UNWRITABLE:
        return f"{path.parent} cannot be written ({error.strerror}); make it a writable folder, or choose another"
    return None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the sole right to write `path`; a second writer gets an InputError that names the process holding it.

    The lock is the operating system's, on `<name>.lock`, so it ends with the process, however that ends. `.<name>.pid`
    says which process on which host holds it: elsewhere, because Windows lets nobody read a locked file. A symbolic
    link in the place of either is not followed, so that nothing else is written.
    """
    path = Path(path)
    holder = path.with_name(f".{path.name}.pid")
    taken = FileLock(path.with_name(f"{path.name}.lock"), fallback_to_soft=False)  # a soft lock outlives its process
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if Path(taken.lock_file).is_symlink():
            raise InputError(f"{taken.lock_file} is a symbolic link, which no lock of ours is; remove it")
        taken.acquire(blocking=False)
    except Timeout as error:
        raise InputError(
            f"process {_process_in(holder)} is writing {path}; wait until it ends, or stop it, then run again"
        ) from error
    except OSError as error:
        raise InputError(_remedy(error, path) or f"{taken.lock_file} cannot be locked: {error.strerror}") from error
    try:
        with contextlib.suppress(OSError):  # on a full disk the number stays unknown; the lock itself needs no space
            holder.unlink(missing_ok=True)
            with open(holder, "x", encoding="utf-8") as file:
                file.write(f"{os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        taken.release()


def _process_in(holder: Path) -> str:
    """What the file says of the process, in printable characters; "unknown" if nothing."""
    with contextlib.suppress(OSError):
        said = holder.read_text(encoding="utf-8", errors="replace")[:100]
        return "".join(c for c in said if c.isprintable()).strip() or "unknown"
    return "unknown"


def hash_of_code(paths: Iterable[Path]) -> str:
    """A hash of what Python files do, in hex: of their syntax trees, without comments, docstrings and line breaks.

    What was made by code is stale once its code does something else, not once a sentence about it is put better.
    """
    digest = hashlib.sha256()
    for path in paths:
        tree = ast.parse(Path(path).read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()
