"""Shortage: one line where the disk or the memory is full, with what was being done, what it takes and what is left."""

import errno
import shutil
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path

from lib import InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
MEMINFO = Path("/proc/meminfo")  # of Linux
MB, GB = 1e6, 1e9


def is_of_disk(error: BaseException) -> bool:
    """Whether it is for want of room on a disk."""
    return isinstance(error, OSError) and error.errno in DISK_FULL


def is_of_memory(error: BaseException) -> bool:
    """Whether it is for want of memory; torch has an error of its own for a GPU, and a plain one for a CPU."""
    if isinstance(error, RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or "memory" in str(error).lower()
    return isinstance(error, MemoryError) or isinstance(error, OSError) and error.errno == errno.ENOMEM


def disk_full(what: str, place: Path, size: float | None = None) -> str:
    """The line for a full disk. what: was not written. place: of it, or beside it. size: about what it takes, bytes."""
    there = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    takes = f"it takes about {size / MB:.1f} MB, and " if size else ""
    left = f"{takes}{shutil.disk_usage(there).free / MB:.1f} MB are left"
    return f"the disk is full, so {what} was not written: {left}; free some space and run the same command again"


def told(error: BaseException, command: str) -> str | None:
    """The line for an error that ended a command for want of disk or memory; None for others, and where it says so."""
    if isinstance(error, InputError):
        return None
    causes = list(_causes(error))
    if full := next(filter(is_of_disk, causes), None):
        name = getattr(full, "filename", None)
        return disk_full(str(name or f"what `{command}` made"), Path(name).parent if name else Path.cwd())
    if full := next((cause for cause in causes if is_of_memory(cause) or isinstance(cause, BrokenExecutor)), None):
        said = (str(full).strip().splitlines() or ["no more could be had"])[0][:200]
        left = f", {left / GB:.1f} GB are left" if (left := memory_left()) is not None else ""
        return (
            f"there is too little memory for `{command}` ({said}){left}; close other programs or use a larger machine, "
            "and run the same command again: it goes on from what is done"
        )
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def memory_left() -> int | None:
    """Bytes of memory that programs can still have; None where the system does not say."""
    with suppress(OSError, ValueError, KeyError, IndexError):
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    return None
