"""Measure the tests, and write the list of the slow ones (tests/slow.txt), which `make quick`
leaves out.

    python tests/times.py                  all tests
    python tests/times.py tests/stats      only these; the slow ones among them are added

A test's time is that of the processor, its own and that of the processes it started, so that other
work on the machine does not count. Of a test with parameters, the slowest case counts. What a
fixture of a module or a session takes counts for every test that uses it.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

SLOW = Path(__file__).with_name("slow.txt")
LIMIT = 0.5  # seconds of a processor


def name_of(item: pytest.Item) -> str:
    """Return a test's name on the list: its file and function, wherever the file lies and
    whatever the parameters.
    """
    return f"{item.path.name}::{item.originalname}"


def listed() -> set[str]:
    """Return the names of the slow tests."""
    return (
        set(SLOW.read_text(encoding="utf-8").splitlines()) if SLOW.is_file() else set()
    )


def now() -> float:
    """Return the seconds of the processor so far."""
    return sum(os.times()[:4])


class Times:
    """A plugin of pytest that measures tests and the fixtures that several tests share."""

    def __init__(self):
        self.tests, self.fixtures, self.users = Counter(), Counter(), {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        start, shared = now(), sum(self.fixtures.values())
        result = yield
        own = now() - start - (sum(self.fixtures.values()) - shared)
        self.tests[name_of(item)] = max(self.tests[name_of(item)], own)
        self.users[name_of(item)] = [
            (fixture, item.path) for fixture in item.fixturenames
        ]
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        start = now()
        result = yield
        if fixturedef.scope != "function":
            self.fixtures[fixturedef.argname, request.node.path] += now() - start
        return result

    def seconds(self) -> dict[str, float]:
        return {
            name: own + sum(self.fixtures[use] for use in self.users[name])
            for name, own in self.tests.items()
        }


def main() -> int:
    times, chosen = Times(), sys.argv[1:]
    code = pytest.main(["-q", "-p", "no:cacheprovider", *chosen], [times])
    slow = {name for name, seconds in times.seconds().items() if seconds > LIMIT}
    slow |= listed() if chosen else set()
    SLOW.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")
    print(
        f"Measured {len(times.tests)} tests; {SLOW.name} lists {len(slow)} that take more than "
        f"{LIMIT} s."
    )
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
