"""What a notebook says of its own run: wrong parameters, errors in one line, and an early end where
it needs more scores.
"""

from collections.abc import Mapping

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
    for name, kind in legal.items():
        value = names[name]
        if isinstance(kind, tuple):
            is_legal = value in kind
            values = f"one of: {', '.join(map(repr, kind))}"
        else:
            is_legal = isinstance(value, int | float if kind is float else kind)
            values = f"of type {kind.__name__}"
        if not is_legal:
            raise InputError(
                f"the parameter {name} is {value!r}; it has to be {values}"
            )
    study = Collection(str(names["collection"]))
    if "model" in legal:
        _refuse_elsewhere(str(names["model"]), study)
    figures.style()
    return study


def _show_line(shell, kind, error: InputError, traceback, tb_offset=None) -> None:
    """Let the kernel show an error without a traceback. The cell fails nevertheless."""
    shell._showtraceback(kind, error, [f"error: {' '.join(str(error).split())}"])


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


def check_prompts(named: str, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return those of the named prompts, separated by commas, that all these score tables hold, and
    print which are not scored. InputError if none of them is.
    """
    held = scores.shared_prompts(tables)
    there = [prompt for prompt in named.split(",") if prompt in held]
    missing = ", ".join(prompt for prompt in named.split(",") if prompt not in held)
    listed = ", ".join(held)
    if not there:
        raise InputError(
            f"these scores hold no prompt '{missing}'; choose from: {listed}"
        )
    if missing:
        print(
            f"These scores hold no prompt {missing}, so it is left out; they hold {listed}."
        )
    return there


def needs(condition: bool, what: str) -> None:
    """End the notebook here if it lacks something, without an error: papermill takes SystemExit for
    the end of a notebook. what: such as "two reward models".
    """
    if not condition:
        print(f"The rest of this notebook needs {what}. It ends here.")
        raise SystemExit
