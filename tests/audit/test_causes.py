"""Every cause of benchmarks/why.py is named on every architecture, and no unknown one is."""

import pytest

from benchmarks import why as planting


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", [*planting.CAUSES, *planting.WITH_HALF, *planting.UNKNOWN]
)
def test_what_was_planted_is_named_and_what_is_unknown_is_not(name):
    cases = [case for case in planting.planted(name) if case["planted"] == name]
    answers = [planting.ask(case) for case in cases]
    assert answers and all(answer["named"] for answer in answers), answers
