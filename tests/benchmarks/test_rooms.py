"""The picture of the rooms: imports are found, and a room stands above what it imports."""

import pytest

from benchmarks.rooms import floors, imports_of_rooms


def test_imports_are_read_from_modules_of_any_depth(tmp_path):
    for name in ("a", "b", "c", "a/inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "a" / "one.py").write_text(
        "from . import two\nfrom .. import b\n\ndef f():\n    from ..c.x import y\n"
    )
    (tmp_path / "a" / "inner" / "three.py").write_text(
        "from .. import one\nfrom ...c import x\n"
    )
    (tmp_path / "b" / "one.py").write_text("from ..c import x\nfrom os import path\n")
    imports = imports_of_rooms(tmp_path)
    assert imports == {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert floors(imports) == [["c"], ["b"], ["a"]]


def test_rooms_that_import_each_other_have_no_floor():
    with pytest.raises(ValueError, match="a, b"):
        floors({"a": {"b"}, "b": {"a"}, "c": set()})
