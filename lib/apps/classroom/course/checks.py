"""The check of an exercise: one value against the right one and against known mistakes."""

import tomllib
from importlib import resources
from typing import Any

import numpy as np

_FILE = resources.files(__package__) / "checks.toml"
# exercise -> name of a mistake -> what a student is told
MESSAGES = tomllib.loads(_FILE.read_text(encoding="utf-8"))


def check(
    exercise: str,
    value: Any,
    right: Any,
    fails: str = "right",
    atol: float = 1e-6,
    **wrong: Any,
) -> None:
    """Raise AssertionError, in the words of the exercise, unless a value is the right one.

    The words stand in checks.toml, a section per exercise; `{value}` and `{right}` are filled in.

    value: what the student's function returned, or a tuple of results; None and ... mean that
        nothing came back (`none`)
    right: number, text, or list or array of these; another shape is refused first, if the
        exercise has words for it (`shape`)
    fails: name of the message for a value of the right shape that is not right
    atol: absolute tolerance of numbers
    wrong: name of a mistake -> the value to which it leads, or whether it was made (a bool, or a
        function of the value that returns one); the first one that fits is named
    """
    says = MESSAGES[exercise]
    parts = value if isinstance(value, tuple) else (value,)
    if any(part is None or part is ... for part in parts):
        raise AssertionError(says["none"])
    shape = np.shape(value)
    if "shape" in says and shape != np.shape(right):
        told = says["shape"].format(value=value, right=right, shape=shape)
        raise AssertionError(told)
    for name, mistake in wrong.items():
        made = mistake(value) if callable(mistake) else mistake
        if not isinstance(made, bool | np.bool_):
            made = is_same(value, made, atol)
        if made:
            raise AssertionError(says[name].format(value=value, right=right))
    if not is_same(value, right, atol):
        raise AssertionError(says[fails].format(value=value, right=right))


def is_same(value: Any, other: Any, atol: float) -> bool:
    """Return whether two values of one shape are equal, numbers within atol."""
    if np.shape(value) != np.shape(other):
        return False
    one, two = np.asarray(value), np.asarray(other)
    if one.dtype.kind in "biuf" and two.dtype.kind in "biuf":
        return np.allclose(one, two, rtol=0, atol=atol)
    return bool(np.all(one == two))
