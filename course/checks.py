"""The check of an exercise: one value against the right one and against known mistakes."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

# exercise -> name of a mistake -> what a student is told
MESSAGES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def check(
    exercise: str,
    value: Any,
    right: Any,
    fails: str = "right",
    atol: float = 1e-6,
    **wrong: Any,
) -> None:
    """Raise AssertionError, in the words of the exercise, unless a value is the right one.

    The words stand in checks.toml, a section per exercise; `{value}`, `{right}` and `{shape}` are
    filled in.

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
    shape = np.shape(value)
    parts = value if isinstance(value, tuple) else (value,)
    is_none = any(part is None or part is ... for part in parts)
    is_other = "shape" in says and shape != np.shape(right)
    tests: dict[str, Any] = {"none": is_none, "shape": is_other, **wrong}
    tests[fails] = lambda value: not is_same(value, right, atol)
    for name, made in tests.items():
        made = made(value) if callable(made) else made
        is_bool = isinstance(made, bool | np.bool_)
        if made if is_bool else is_same(value, made, atol):
            told = says[name].format(value=value, right=right, shape=shape)
            raise AssertionError(told)


def is_same(value: Any, other: Any, atol: float) -> bool:
    """Return whether two values of one shape are equal, numbers within atol."""
    one = np.asarray(value)
    two = np.asarray(other)
    if one.shape != two.shape:
        return False
    if {one.dtype.kind, two.dtype.kind} <= set("biuf"):
        return np.allclose(one, two, rtol=0, atol=atol)
    return bool(np.all(one == two))
