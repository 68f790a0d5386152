"""Tables that a reader gives: what is clear is read, whatever wrote it, and anything else is one
line.
"""

import pytest

from lib import InputError
from lib.tables.imports import read_columns

READ = {
    "as it is": b"word,list\nlove,a\n",
    "capitals, blanks and another column": b"note, Word ,LIST\nx,love,a\n",
    "mark of utf-8 and CRLF": b"\xef\xbb\xbfword,list\r\n\r\nlove,a\r\n",
    "utf-16": "word,list\nlove,a\n".encode("utf-16"),
    "quotes": b'"word","list"\n"love","a"\n',
}
REFUSED = {
    "trailing commas": (b"word,list\nlove,a,\n", "line 2: 3 fields instead of 2"),
    "unquoted commas": (b"word,list\nlove,a\nlove, hate,a\n", "line 3: 3 fields"),
    "an unnamed first column": (b"word,list\n0,love,a\n", "line 2: 3 fields"),
    "a short row": (b"word,list,note\n\nlove,a\n", "line 3: 2 fields instead of 3"),
    "two columns of one name": (
        b"word,list,list\nlove,a,b\n",
        "two columns have one name",
    ),
    "two columns but for capitals": (
        b"word,list,List\nlove,a,b\n",
        "has no columns word,list, once each",
    ),
    "semicolons": (b"word;list\nlove;a\n", "has no columns word,list"),
    "empty": (b"", "has no columns word,list"),
    "torn": (b'word,list\nlove,"a', "line 2: unexpected end of data"),
    "latin": (b"word,list\ncaf\xe9,a\n", "cannot be read"),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_clear_is_read(tmp_path, name):
    (tmp_path / "own.csv").write_bytes(READ[name])
    assert read_columns(tmp_path / "own.csv", "word", "list").to_numpy().tolist() == [
        ["love", "a"]
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_is_one_line(tmp_path, name):
    (tmp_path / "own.csv").write_bytes(REFUSED[name][0])
    with pytest.raises(InputError, match=f"own.csv.*{REFUSED[name][1]}"):
        read_columns(tmp_path / "own.csv", "word", "list")


def test_a_folder_and_a_file_beyond_all_memory_are_no_tables(tmp_path):
    with pytest.raises(InputError, match="cannot be read .there is no such file"):
        read_columns(tmp_path, "word", "list")
    with (tmp_path / "own.csv").open("wb") as file:
        file.truncate(3 * 10**9)  # a hole, which takes no space
    with pytest.raises(InputError, match="more than 2 GB"):
        read_columns(tmp_path / "own.csv", "word", "list")
