"""Files: written whole or not at all, one writer at a time, and under names that are safe."""

import ast
import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from lib import InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


# --- files --------------------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    if not name or name.startswith(".") or any(c in '/\\:*?"<>|' or not c.isprintable() for c in name):
        raise InputError(f"{name!r} cannot name a collection or a model's file; use letters, digits, '-', '.' and '_'")
    return name


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: write a file there, and it takes the place of `path` once it is on disk.

    If the block fails, `path` stays as it was and nothing is left beside it. A full disk or an unwritable folder is
    an InputError. A process that is killed leaves at most `.<name>.part`, which the next writer overwrites.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and (told := _remedy(error, path)):
            raise InputError(told) from error
        raise


def _remedy(error: OSError, path: Path) -> str | None:
    """One line for the failures to write that the reader can mend; None for the others."""
    if error.errno in DISK_FULL:
        return f"the disk is full, so {path} was not written; free some space and run the same command again"
    if error.errno in UNWRITABLE:
        return f"{path.parent} cannot be written ({error.strerror}); make it a writable folder, or choose another"
    return None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the sole right to write `path`; a second writer gets an InputError that names the process holding it.

    The lock is the operating system's, on `<path>.lock`, so it ends with the process, however that ends.
    """
    path = Path(path)
    name = path.with_name(f"{path.name}.lock")
    try:
        name.parent.mkdir(parents=True, exist_ok=True)
        file = open(name, "a+")  # noqa: SIM115 - closed by the `with` below
    except OSError as error:
        raise InputError(_remedy(error, path) or f"{name} cannot be opened: {error.strerror}") from error
    # The file stays when the lock ends: removing it could pull it from under a process that has just opened it.
    with file:
        if "fcntl" in globals():
            _take(file, path)
        yield


def _take(file, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        raise InputError(f"process {pid} is writing {path}; wait until it ends, or stop it, then run again") from error
    with contextlib.suppress(OSError):  # on a full disk the number stays unknown; the lock itself needs no space
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


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
