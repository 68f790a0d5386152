"""What a check tells a student: which mistake, in which order, and that a right answer passes."""

import re
import string

import numpy as np
import pytest

from lib import ROOT
from lib.apps.classroom.course import checks
from lib.apps.classroom.course.exercises import read_section
from lib.apps.runner.files import EXERCISES, find_notebooks

SAYS = {
    "none": "nothing",
    "shape": "{shape} for {right}",
    "half": "half of it",
    "large": "{value} is too much",
    "right": "{right:.2f}, not {value:.2f}",
    "other": "the other part",
}


@pytest.fixture(autouse=True)
def one_exercise(monkeypatch):
    monkeypatch.setitem(checks.MESSAGES, "one", SAYS)
    no_shape = {name: SAYS[name] for name in ("none", "right")}
    monkeypatch.setitem(checks.MESSAGES, "lists", no_shape)


def told(value, right, exercise="one", **named):
    with pytest.raises(AssertionError) as error:
        checks.check(exercise, value, right, **named)
    return str(error.value)


def named_in(text: str) -> list[str]:
    """Return what is filled in, without index and attribute."""
    parts = string.Formatter().parse(text)
    return [re.split(r"[.[]", field)[0] for _, field, _, _ in parts if field]


def test_a_right_value_passes_within_the_tolerance():
    checks.check("one", 0.5, 0.5 + 9e-7, half=0.25)
    checks.check("one", (1, 0.5), [1.0, 0.5])
    checks.check("one", "text", "text", half=lambda word: word == "tex")
    checks.check("one", np.True_, True)
    assert told(0.5, 0.5 + 2e-6) == "0.50, not 0.50"
    checks.check("one", 0.5, 0.6, atol=0.11)


def test_nothing_is_named_first_and_then_another_shape():
    assert told(None, 2) == told(..., 2) == told((1, None), (1, 2)) == "nothing"
    assert told(np.zeros(3), 2, half=0) == "(3,) for 2"
    assert told([1, 2], [1, 2, 3], "lists", fails="none") == "nothing"


def test_the_first_mistake_that_fits_is_named_with_the_value():
    wrong = {"half": 1, "large": lambda value: value >= 1}
    assert told(1.0, 2, **wrong) == "half of it"
    assert told(7, 2, **wrong) == "7 is too much"
    assert told(0.5, 2, **wrong) == "2.00, not 0.50"
    assert told(0.5, 2, half=True) == told(0.5, 2, half=np.True_) == "half of it"
    assert told(0.5, 2, fails="other", half=False) == "the other part"
    # a number is no text, and a list of other length no list of numbers
    assert told(0.3, "text", fails="other") == "the other part"


def test_every_message_belongs_to_an_exercise_that_can_give_it():
    sources = {}
    for path in find_notebooks(ROOT / "notebooks" / EXERCISES):
        section = read_section(path)
        for one in section.exercises:
            sources[one.name] = section.setup + one.check
    del checks.MESSAGES["one"], checks.MESSAGES["lists"]
    assert set(checks.MESSAGES) == set(sources)
    for name, says in checks.MESSAGES.items():
        words = set(re.findall(r"\w+", sources[name])) | {"none", "shape", "right"}
        assert set(says) <= words, (name, set(says) - words)
        fields = {field for text in says.values() for field in named_in(text)}
        assert fields <= {"value", "right", "shape"}, (name, fields)
