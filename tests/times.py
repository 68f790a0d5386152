"""Measure the tests, and write the list of the slow ones (tests/slow.txt), which `make quick` leaves out.

    python tests/times.py          all tests
    python tests/times.py --new    only those that are not on the list yet; the slow ones among them are added

A test's time is that of the processor, its own and that of the processes it started, so that other work on the machine
does not count. Of a test with parameters, the slowest case counts. What a fixture of a module or a session takes counts
for every test that uses it.
"""

import argparse
import os
from collections import Counter
from pathlib import Path

import pytest

SLOW = Path(__file__).with_name("slow.txt")
LIMIT = 0.5  # seconds of a processor


def name_of(item: pytest.Item) -> str:
    """Return a test's name on the list: its file and function, wherever the file lies and whatever the parameters."""
    return f"{item.path.name}::{item.originalname}"


def listed() -> set[str]:
    """Return the names of the slow tests."""
    return set(SLOW.read_text(encoding="utf-8").splitlines()) if SLOW.is_file() else set()


class Times:
    """A plugin of pytest that measures tests and the fixtures that several tests share."""

    def __init__(self):
        self.tests, self.fixtures, self.users = Counter(), Counter(), {}

    @staticmethod
    def _now() -> float:
        return sum(os.times()[:4])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        start, shared = self._now(), sum(self.fixtures.values())
        result = yield
        own = self._now() - start - (sum(self.fixtures.values()) - shared)
        self.tests[name_of(item)] = max(self.tests[name_of(item)], own)
        self.users[name_of(item)] = [(fixture, item.path) for fixture in item.fixturenames]
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        start = self._now()
        result = yield
        if fixturedef.scope != "function":
            self.fixtures[fixturedef.argname, request.node.path] += self._now() - start
        return result

    def seconds(self) -> dict[str, float]:
        return {name: own + sum(self.fixtures[use] for use in self.users[name]) for name, own in self.tests.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--new", action="store_true", help="only tests that are not on the list yet")
    options, others = parser.parse_known_args()
    times = Times()
    code = pytest.main(["-q", "-p", "no:cacheprovider", *(["-m", "not slow"] if options.new else []), *others], [times])
    slow = {name for name, seconds in times.seconds().items() if seconds > LIMIT}
    kept = listed() if options.new or others else set()
    SLOW.write_text("".join(f"{name}\n" for name in sorted(slow | kept)), encoding="utf-8")
    print(f"{len(slow)} of {len(times.tests)} tests take more than {LIMIT} s; {SLOW.name} lists {len(slow | kept)}.")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
