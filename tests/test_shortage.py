"""Want of disk or memory, wherever it is met: one line with what was being done."""

import errno
from concurrent.futures.process import BrokenProcessPool

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
    # how much is needed, where that is known
    assert "4000000000000000 bytes" in line or name != "torch"


@pytest.mark.parametrize("name", DISK)
def test_a_full_disk_is_one_line(name, monkeypatch, capsys):
    line = told_by_main(DISK[name], monkeypatch, capsys)
    what = "what `reproduce` made" if name == "unnamed" else "figures/x.png"
    assert line.startswith(f"error: the disk is full, so {what} was not written; ")


def test_a_better_line_and_other_errors_are_left_alone():
    assert io.describe_shortage(ValueError("memory"), "score") is None
    assert io.describe_shortage(RuntimeError("shapes differ"), "score") is None
    better = InputError("buy a disk")
    better.__cause__ = DISK["unnamed"]
    assert io.describe_shortage(better, "score") is None


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    with (
        pytest.raises(InputError, match="t.parquet was not written .No space left"),
        replacing(tmp_path / "deep" / "t.parquet") as part,
    ):
        part.touch()
        raise DISK["unnamed"]
    assert list((tmp_path / "deep").iterdir()) == []
