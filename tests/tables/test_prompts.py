"""Prompt tables, read as written or refused with the line; names that lead nowhere but into
their own folder.
"""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import InputError, io
from lib.tables.prompts import read_prompts
from lib.tables.scores import COLUMNS

NAMES = st.from_regex(r"[a-z][a-z0-9_\-]{0,30}", fullmatch=True).filter(
    lambda name: name not in COLUMNS
)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
UNSAFE = [
    "",
    "..",
    "../../x",
    "/etc/x",
    "a\\b",
    "C:x",
    "x\n",
    "x\u202e",
    "\ud800",
    "ü" * 51,
    "x.",
    "my scores",
]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("prompts") / "own.csv"


@given(
    prompts=st.dictionaries(NAMES, TEXTS, min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_prompt_table_is_read_as_it_was_written(file, prompts, end):
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
            [("prompt", "text"), *prompts.items()]
        )
    assert read_prompts(str(file)) == prompts


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("prompt,text\na,What, really?\n", "Expected 2 fields in line 2, saw 3"),
        ("prompt,text\na,x\na,y\n", "a name of its own"),
        ("prompt,text\na, \n", "give each prompt a text"),
        ("prompt;text\na;x\n", "give a csv in UTF-8 with columns prompt,text"),
    ],
)
def test_a_wrong_table_is_told(file, content, problem):
    file.write_text(content)
    with pytest.raises(InputError, match=f"own.csv.*{problem}"):
        read_prompts(str(file))


def test_a_table_that_a_spreadsheet_saved_is_read(file):
    file.write_bytes(b'\xef\xbb\xbfprompt,text\r\na,"What, really?"\r\n\r\n')
    assert read_prompts(str(file)) == {"a": "What, really?"}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_is_no_plain_name_is_refused(name):
    with pytest.raises(InputError, match="cannot name a model"):
        io.checked(name, "a model")
