"""What a notebook says of its own run: wrong parameters, errors in one line, and sections that need
more scores.

All of it works in any kernel: under papermill, nbconvert, and in JupyterLab. Where code runs
without a kernel, as in a test, a section that lacks something raises InputError.
"""

import ast
import itertools
from collections.abc import Iterable, Mapping

import pandas as pd
from IPython import get_ipython

from .. import InputError
from ..tables import registry, scores
from ..tables.collection import Collection

KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "True or False"}
INJECTED = "# Parameters"  # how the cell begins that papermill injects
SKIPPED_UNTIL = "needs("  # the call that begins the next section


def begin(names: Mapping[str, object], **legal: type | tuple) -> Collection:
    """Check a notebook's parameters and return its collection. From here on, an InputError is shown
    as one line.

    Raise InputError, which lists what is legal, for a parameter with an unknown name, a missing
    name or a wrong value.

    - names: the globals of the notebook
    - legal: for every parameter but `collection` and `collections`, its type, or a tuple of its
      values
    """
    show_errors_in_one_line()
    declared = {"collection": str, "collections": str} | legal
    listed = ", ".join(name for name in declared if name != "collections")
    for name in itertools.chain(*map(_literals_in, _parameter_cells())):
        if name not in declared:
            near = registry.did_you_mean(name, declared)
            raise InputError(
                f"unknown parameter '{name}'{near}; this notebook has {listed}"
            )
    for name, kind in declared.items():
        if name == "collections" and name not in names:
            continue
        if name not in names or not _is_legal(names[name], kind):
            value = repr(names[name]) if name in names else "not set"
            values = (
                KINDS[kind]
                if isinstance(kind, type)
                else f"one of: {', '.join(map(repr, kind))}"
            )
            raise InputError(f"the parameter {name} is {value}; it has to be {values}")
    return Collection(str(names["collection"]))


def _is_legal(value: object, kind: type | tuple) -> bool:
    if isinstance(kind, tuple):
        return value in kind
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _parameter_cells() -> list[str]:
    """Return the cells right before the current one that hold nothing but literals; [] without a
    kernel.

    They are the `parameters` cell and, under papermill, the cell that it injects.
    """
    shell = get_ipython()
    executed = shell.user_ns.get("In", [])[:-1] if shell else []
    last_first = [*itertools.takewhile(_literals_in, reversed(executed))]
    return list(reversed(last_first))


def _literals_in(source: str) -> list[str]:
    """Return the names that a cell sets, if it does nothing but set names to literals; else []."""
    try:
        lines = ast.parse(source).body
        for line in lines:
            ast.literal_eval(line.value)
        return [line.targets[0].id for line in lines]
    except (SyntaxError, ValueError, AttributeError):
        return []


def show_errors_in_one_line() -> None:
    """Let the kernel show an InputError as one line, without a traceback. The cell fails
    nevertheless.
    """
    if shell := get_ipython():
        shell.set_custom_exc((InputError,), _show_line)


def _show_line(
    shell,
    kind: type,
    error: InputError,
    traceback,
    tb_offset: int | None = None,
) -> None:
    shell._showtraceback(kind, error, [f"error: {' '.join(str(error).split())}"])


def refuse_default_model(model: str, collection: Collection) -> None:
    """Raise InputError if a model of this project would go into another collection and the reader
    did not name it.

    A model is named if papermill got it as a parameter. Call this in the cell right after the
    parameters.
    """
    injected = [source for source in _parameter_cells() if source.startswith(INJECTED)]
    named = itertools.chain(*map(_literals_in, injected))
    group = registry.reward_models()["group"].get(model, "")
    own = {
        "embedded": collection.is_embedded,
        "human_ratings": collection.name.startswith("human_ratings"),
    }
    if not own.get(group, True) and "model" not in named:
        raise InputError(
            f"{model} belongs to the collection '{group}' and not to '{collection}'; "
            "name your model: -p model FOLDER (or a hub id, or a nickname)"
        )


def check_prompts(
    named: str | Iterable[str],
    tables: Mapping[str, pd.DataFrame],
) -> list[str]:
    """Return those of the named prompts that all these score tables hold, and print which are not
    scored.

    named: names separated by commas, or a list. Raise InputError, which lists what is scored, if
    none of them is.
    """
    wanted = named.split(",") if isinstance(named, str) else list(named)
    held = scores.shared_prompts(tables)
    there = [prompt for prompt in wanted if prompt in held]
    missing = ", ".join(prompt for prompt in wanted if prompt not in held)
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
    """Begin a section that needs something. If it is missing, print a line; the section's cells
    then do nothing.

    The next call of this function begins the next section. what: such as "two reward models".
    """
    shell = get_ipython()
    if shell:
        transformers = shell.input_transformers_cleanup
        transformers[:] = [each for each in transformers if each is not _skip]
    if condition:
        return
    if not shell:
        raise InputError(f"this section needs {what}")
    shell.input_transformers_cleanup.append(_skip)
    print(f"This section needs {what}. Its cells are not executed.")


def _skip(lines: list[str]) -> list[str]:
    """Return the lines of a cell of a section that lacks something: none, unless they begin the
    next section.
    """
    if any(SKIPPED_UNTIL in line for line in lines):
        return lines
    return ["None\n"]
