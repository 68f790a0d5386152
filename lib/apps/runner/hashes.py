"""Hashes of files, kept until a file changes."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...io import replacing


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
