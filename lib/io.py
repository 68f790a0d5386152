"""Input and output: whole files, locks, hashes, names, what a terminal shows."""

import ast
import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import unicodedata
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

from . import ROOT, InputError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`: a file written there replaces `path` once it is whole
    and on disk.

    If the block fails, `path` stays as it was and nothing is left beside it. A full disk or an
    unwritable folder is an InputError, and so is what is no file, as a folder or a device. A link
    stays, and the file that it names is replaced. If several processes write the same file at once,
    the last one's stays. A process that is killed leaves at most `.<name>.<pid>.part`.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a folder or a device; name a file to write")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise InputError(
            f"{path} was not written ({error.strerror or error}); free some space, or choose a "
            "folder that can be written, and run the same command again"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the sole right to write `path`; a second writer gets an InputError.

    The operating system locks `<name>.lock`, so the lock ends with the process.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # a soft lock outlives its process
        taken = FileLock(f"{path}.lock", fallback_to_soft=False).acquire(blocking=False)
    except Timeout as error:
        raise InputError(
            f"another process is writing {path}; wait until it ends, or stop it, then run again"
        ) from error
    with taken:
        yield


def hash_of_code(paths: Iterable[Path]) -> str:
    """Return a hash, in hex, of the syntax trees of Python files, which comments and docstrings
    do not change.
    """
    digest = hashlib.sha256()
    for path in paths:
        tree = ast.parse(path.read_bytes())
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


def checked(name: str, what: str) -> str:
    """Return the name itself if a file may be called so on every system, else raise InputError.

    Refused are names that are empty, hidden, longer than 100 bytes, end with a dot, could lead out
    of their folder, or hold a blank or what cannot be printed. what: the thing that is named,
    such as `a prompt`.
    """
    plain = re.fullmatch(r'(?!\.)[^/\\:*?"<>|\s]+(?<!\.)', name)
    # Whatever is printable can be encoded; half of a surrogate pair, which cannot, is not
    # printable.
    if not (plain and name.isprintable() and len(name.encode()) <= 100):
        raise InputError(
            f"{name!r} cannot name {what}; use up to 100 letters, digits, '-', '.' and "
            "'_'"
        )
    return name


def shown_path(path: Path) -> str:
    """Return a path relative to the project, if it is inside."""
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return str(path)


def is_of_memory(error: BaseException) -> bool:
    """Return whether the error says that memory is full."""
    # torch has an error of its own for a GPU, and a plain one for a CPU.
    if isinstance(error, RuntimeError):
        return "memory" in f"{type(error)} {error}".lower()
    is_full = getattr(error, "errno", None) == errno.ENOMEM
    return isinstance(error, MemoryError) or is_full


INVISIBLE = set("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in range(0xFE00, 0xFE10)
}


def visible(text: str, kept: str = "\n\t") -> str:
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
