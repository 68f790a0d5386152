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
    "quotes": b'"word","list"\n"love","a"\n',
}
REFUSED = {
    "trailing commas": (b"word,list\nlove,a,\n", "2 fields in line 2, saw 3"),
    "unquoted commas": (b"word,list\nlove,a\nlove, hate,a\n", "in line 3, saw 3"),
    "an unnamed first column": (b"word,list\n0,love,a\n", "in line 2, saw 3"),
    "two columns of one name": (b"word,list,list\nlove,a,b\n", "one name"),
    "two columns but for capitals": (b"word,list,List\nlove,a,b\n", "one name"),
    "semicolons": (b"word;list\nlove;a\n", "with columns word,list"),
    "no rows": (b"word,list\n", "no rows"),
    "empty": (b"", "with columns word,list"),
    "torn": (b'word,list\nlove,"a', "EOF inside string"),
    "a blank before a quote": (b'word,list\nlove, "a"\n', "blank before a quote"),
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
    with pytest.raises(InputError, match=rf"\A.*own.csv.*{REFUSED[name][1]}.*\Z"):
        read_columns(tmp_path / "own.csv", "word", "list")


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_columns(tmp_path, "word", "list")
