"""The terminal: nothing that is printed acts on it, whoever wrote it; bars move, and nothing
else does.
"""

import io
import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from lib import InputError, run
from lib.apps.runner import runs
from lib.io import Visible, visible

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b1A\u202eevil\u2066\u200b\x08\x00\ud800\r"


def acting(text: str) -> list[str]:
    """Characters that act on a terminal or on the direction of a line, or that an encoder
    refuses.
    """
    return [
        c
        for c in text
        if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


@given(
    text=st.text(st.characters(categories=None)) | st.text("\x1b[]A\r\n\x9b0;m\u202e")
)
def test_nothing_in_a_text_acts_and_what_is_seen_stays(text):
    shown = visible(text)
    assert not acting(shown)
    if "⟨" not in text:
        assert "".join(
            filter(str.isprintable, re.sub("⟨U[^⟩]*⟩", "", shown))
        ) == "".join(filter(str.isprintable, text))
    assert visible("café נפת 爱 <b>") == "café נפת 爱 <b>"


def test_bars_may_move_and_other_escapes_may_not():
    out = io.StringIO()
    for _ in tqdm(range(3), file=Visible(out, bars=True), position=1, mininterval=0):
        pass
    assert (
        "\r" in out.getvalue()
        and "\x1b[A" in out.getvalue()
        and "⟨" not in out.getvalue()
    )
    Visible(out, bars=True).write("\x1b[2J")
    assert out.getvalue().endswith("⟨U+001B⟩[2J")


def test_what_nobody_reads_does_not_end_the_work():
    reader, writer = os.pipe()
    os.close(reader)
    gone = open(writer, "w")  # noqa: SIM115 - what it holds can never be written
    for stream in (Visible(gone), Visible(None)):  # behind `| head`, and closed
        print("love", file=stream, flush=True)
        print("war", file=stream, flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), writer)
    gone.close()


def test_characters_that_an_encoding_lacks_are_escaped():
    for encoding, expected in {
        "ascii": r"caf\xe9 \u7231",
        "cp1252": r"café \u7231",
    }.items():
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        print("café 爱", file=Visible(out), flush=True)
        assert out.buffer.getvalue().decode(encoding).strip() == expected


@pytest.mark.parametrize(
    "error",
    [InputError(HOSTILE), OSError(HOSTILE), RuntimeError(HOSTILE), KeyError(HOSTILE)],
)
def test_no_message_of_a_command_acts_on_the_terminal(monkeypatch, capsys, error):
    def command(**options):
        print(f"failed: {HOSTILE}")
        raise error

    monkeypatch.setattr(runs, "reproduce", command)
    assert run.main(["reproduce"]) == (
        2 if isinstance(error, InputError | OSError) else 1
    )
    told = capsys.readouterr()
    assert (
        not acting(told.out + told.err) and "owned" in told.out and "owned" in told.err
    )


def test_an_argument_that_is_refused_does_not_act_either(capsys):
    with pytest.raises(SystemExit):
        run.main(["reproduce", f"--{HOSTILE}"])
    assert not acting(capsys.readouterr().err)
