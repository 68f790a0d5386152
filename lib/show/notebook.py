"""What a notebook says of its own run: wrong parameters, errors in one line, and an early end where
it needs more scores.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from IPython import get_ipython

from .. import InputError
from ..tables import registry, scores
from ..tables.collection import Collection
from . import figures


def begin(names: Mapping[str, object], **legal: type | tuple) -> Collection:
    """Check a notebook's parameters and return its collection. From here on, an InputError is shown
    as one line, and figures have the project's style.

    - names: the globals of the notebook
    - legal: for parameters but `collection`, the type, or a tuple of the values
    """
    if shell := get_ipython():
        shell.set_custom_exc((InputError,), _show_line)
    _refuse_other_copy()
    for name, kind in ({"collection": str} | legal).items():
        _refuse_illegal(name, names[name], kind)
    study = Collection(names["collection"])
    if "model" in legal:
        _refuse_elsewhere(str(names["model"]), study)
    figures.style()
    return study


def _show_line(shell, kind, error: InputError, traceback, tb_offset=None) -> None:
    """Let the kernel show an error without a traceback. The cell fails nevertheless."""
    shell._showtraceback(kind, error, [f"error: {' '.join(str(error).split())}"])


def _refuse_other_copy() -> None:
    """Raise InputError if the notebook runs in another copy of the project than the library's."""
    library = Path(__file__).resolve().parents[2]
    place = Path(__file__).resolve().relative_to(library)
    here = Path.cwd().resolve()
    copies = [folder for folder in (here, *here.parents) if (folder / place).is_file()]
    if copies and copies[0] != library:
        raise InputError(
            f"this notebook is in {copies[0]}, but this environment's library is in {library}; "
            f"run make install in {copies[0]}, and choose the environment that it makes"
        )


def _refuse_illegal(name: str, value: object, kind: type | tuple) -> None:
    """Raise InputError unless a parameter has this type, or is one of these values."""
    if isinstance(kind, tuple):
        is_legal = value in kind
        values = f"one of: {', '.join(map(repr, kind))}"
    elif kind is float:
        is_legal = type(value) in (int, float) and math.isfinite(value)
        values = "a finite number"
    else:
        is_legal = type(value) is kind  # True is no number
        values = f"of type {kind.__name__}"
    if not is_legal:
        # papermill's -p reads 2026 as a number
        remedy = f", which -r {name} {value} gives" if kind is str else ""
        raise InputError(
            f"the parameter {name} is {value!r}; it has to be {values}{remedy}"
        )


def _refuse_elsewhere(model: str, collection: Collection) -> None:
    """Raise InputError if a model of this project would go into another collection than its own, or
    any other model into one of this project's.
    """
    registry.study_of(registry.find_models([model]), collection.name)
    group = registry.reward_models()["group"].get(model, "")
    made_here = group in ("embedded", "human_ratings")
    if made_here and not collection.name.startswith(group):
        raise InputError(
            f"{model} belongs to the collection '{group}' and not to '{collection}'; "
            "name your model: -p model FOLDER (or a hub id, or a nickname)"
        )


def check_prompts(
    names: Sequence[str], tables: Mapping[str, pd.DataFrame]
) -> list[str]:
    """Return those of the prompts that all these score tables hold, and print which are not
    scored. InputError if none of them is.
    """
    held = scores.shared_prompts(tables)
    wanted = [name.strip() for name in names]
    there = [name for name in wanted if name in held]
    missing = ", ".join(name for name in wanted if name not in held)
    if not there:
        raise InputError(
            f"these scores hold no prompt '{missing}'; choose from: {', '.join(held)}"
        )
    if missing:
        print(
            f"These scores hold no prompt {missing}, so it is left out; they hold "
            f"{', '.join(held)}."
        )
    return there


def needs(condition: bool, what: str) -> None:
    """End the notebook here if it lacks something, without an error: papermill takes SystemExit for
    the end of a notebook. what: such as "two reward models".
    """
    if not condition:
        print(f"The rest of this notebook needs {what}. It ends here.")
        raise SystemExit
