"""Measure the tests, and write the list of the slow ones (tests/slow.txt), which `make quick`
leaves out.

    python tests/times.py                  all tests
    python tests/times.py tests/stats      only these; the slow ones among them are added

Of a test with parameters, the slowest case counts.
"""

import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

SLOW = Path(__file__).with_name("slow.txt")
LIMIT = 0.5  # seconds


def listed() -> set[str]:
    """Return the slow tests: the file and the function of each, wherever the file lies."""
    return set(SLOW.read_text(encoding="utf-8").splitlines())


def main() -> int:
    chosen = sys.argv[1:]
    slow = listed() if chosen else set()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = pytest.main(["-q", f"--junitxml={report}", *chosen])
        cases = [*ElementTree.parse(report).iter("testcase")]
    for case in cases:
        if float(case.get("time")) > LIMIT:
            file = case.get("classname").rpartition(".")[2]
            slow.add(f"{file}.py::{case.get('name').partition('[')[0]}")
    SLOW.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
