"""Want of disk or memory, wherever it is met: one line with what was being done, what it takes
and what is left.
"""

import errno
import re
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib import InputError, io, run
from lib.apps.runner import runs
from lib.io import replacing


def raised_by(step) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        step()
    return caught.value


def chained() -> None:
    try:
        np.empty(10**15)
    except MemoryError as error:
        raise ValueError("no table") from error


MEMORY = {
    # 4 bytes each: more than any machine has
    "torch": raised_by(lambda: torch.empty(10**15)),
    "behind another": raised_by(chained),
    "gpu": torch.OutOfMemoryError(""),
    "fork": OSError(errno.ENOMEM, "Cannot allocate memory"),
    "killed": BrokenProcessPool(
        "A process in the process pool was terminated abruptly while the future was running."
    ),
}
DISK = {
    "named": OSError(errno.ENOSPC, "No space left on device", "figures/x.png"),
    "unnamed": OSError(errno.ENOSPC, "No space left on device"),
}


def told_by_main(error: BaseException, monkeypatch, capsys) -> str:
    def command(**options):
        raise error

    monkeypatch.setattr(runs, "reproduce", command)
    assert run.main(["reproduce"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("name", MEMORY)
def test_want_of_memory_is_one_line_with_what_is_left(name, monkeypatch, capsys):
    line = told_by_main(MEMORY[name], monkeypatch, capsys)
    assert (
        line.startswith("error: there is too little memory for `reproduce` (")
        and len(line) < 450
    )
    assert line.endswith("run the same command again: it goes on from what is done")
    assert re.search(r"\), [\d.]+ GB are left; close other programs", line)
    # how much is needed, where that is known
    assert "4000000000000000 bytes" in line or name != "torch"


@pytest.fixture
def little_space(monkeypatch) -> None:
    monkeypatch.setattr(
        io.shutil, "disk_usage", lambda place: SimpleNamespace(free=1.5e6)
    )


@pytest.mark.parametrize("name", DISK)
def test_a_full_disk_is_one_line_with_what_is_left(
    name, little_space, monkeypatch, capsys
):
    line = told_by_main(DISK[name], monkeypatch, capsys)
    what = "what `reproduce` made" if name == "unnamed" else "figures/x.png"
    assert line.startswith(f"error: the disk is full, so {what} was not written: ")
    assert re.search(
        r": [\d.]+ MB are left; free some space and run the same command again$", line
    )


def test_a_disk_with_room_is_not_called_full(monkeypatch, capsys):
    monkeypatch.setattr(
        io.shutil, "disk_usage", lambda place: SimpleNamespace(free=76e9)
    )
    line = told_by_main(DISK["named"], monkeypatch, capsys)
    assert line.startswith(
        "error: figures/x.png was not written: the system gives no more space"
    )
    assert "76 GB are free" in line and "quota" in line and "is full" not in line


def test_limits_of_the_shell_are_named(tmp_path, monkeypatch, capsys):
    assert "ulimit -n" in told_by_main(
        OSError(errno.EMFILE, "Too many open files", "config.json"), monkeypatch, capsys
    )
    with (
        pytest.raises(InputError, match="t.csv would be larger.*ulimit -f"),
        replacing(tmp_path / "t.csv"),
    ):
        raise OSError(errno.EFBIG, "File too large")


def test_a_better_line_and_other_errors_are_left_alone():
    assert io.describe_shortage(ValueError("memory"), "score") is None
    assert io.describe_shortage(RuntimeError("shapes differ"), "score") is None
    better = InputError("buy a disk")
    better.__cause__ = DISK["unnamed"]
    assert io.describe_shortage(better, "score") is None


def test_what_is_written_says_how_much_it_takes(tmp_path, little_space):
    line = r"t.parquet was not written: it takes about 2\.5 MB, and 1\.5 MB are left"
    with (
        pytest.raises(InputError, match=line),
        replacing(tmp_path / "deep" / "t.parquet", size=2.5e6),
    ):
        raise DISK["unnamed"]
    assert list((tmp_path / "deep").iterdir()) == []
