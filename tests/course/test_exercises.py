"""Every exercise: its form, its blank copy, and that its check knows the right answer from each
wrong one.
"""

import contextlib
import functools
import io
import itertools
import json
import re

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest

from course import blank
from lib import InputError
from lib.trained import smollm2

matplotlib.use("Agg")
PATHS = sorted(blank.EXERCISES.glob("*.ipynb"))
ORDER = ["exercise", "prediction", "solution", "check", "solution"]


def read(path) -> tuple[str, dict]:
    """Return the code of the setup, and the cells of each exercise by name."""
    cells = nbformat.read(path, 4).cells
    name_of = [cell.metadata.get("exercise", {}).get("name") for cell in cells]
    groups = itertools.groupby(zip(name_of, cells, strict=True), lambda pair: pair[0])
    groups = [(name, [cell for _, cell in group]) for name, group in groups]
    setup = [cell.source for cell in groups[0][1] if cell.cell_type == "code"]
    return "\n".join(setup), dict(groups[1:])


SECTIONS = {path.stem: read(path) for path in PATHS}
ALL = [(stem, name) for stem, (_, group) in SECTIONS.items() for name in group]
# With the real language model, whose states of thousands of words are read, by night. By day the
# checks use made-up numbers alone, as where it cannot be had.
WITH_SMOLLM2 = [
    pytest.param(*each, True, marks=pytest.mark.nightly)
    for each in ALL
    if each[0] == "00_a_small_reward_model"
]
CASES = [(*each, False) for each in ALL] + WITH_SMOLLM2


def cells_of(notebook: str, name: str) -> dict:
    """Return the sources of an exercise's cells, and its wrong answers."""
    task, prediction, solution, *checked, answer = SECTIONS[notebook][1][name]
    return {
        "about": task.metadata.exercise,
        "task": task.source,
        "solution": solution.source,
        "wrong": solution.metadata.exercise.wrong,
        "check": "\n\n\n".join(cell.source for cell in checked),
        "answer": answer.source,
    }


def test_each_notebook_has_exercises_of_one_form_and_names_are_unique():
    notebooks = sorted(blank.EXERCISES.parent.glob("*.ipynb"))
    assert [path.name for path in PATHS] == [path.name for path in notebooks]
    names = [name for _, name in ALL]
    assert len(set(names)) == len(names) >= 25
    for notebook, name in ALL:
        tags = [cell.metadata.tags for cell in SECTIONS[notebook][1][name]]
        assert [tag for [tag] in tags if tag != "comparison"] == ORDER, name
        one = cells_of(notebook, name)
        title, time = [line for line in one["task"].splitlines() if line][:2]
        assert title.startswith("## Exercise: ")
        assert (
            time == f"{one['about'].minutes} minutes · {'★' * one['about'].difficulty}"
        )
        assert "<details><summary>Hint</summary>" in one["task"]
        assert "<details><summary>Answer</summary>" in one["answer"]


def test_functions_that_exercises_continue_are_those_of_the_notebook():
    for path in PATHS:
        notebook = nbformat.read(path.parent.parent / path.name, 4)
        sources = {cell.id: cell.source for cell in notebook.cells}
        for cell in nbformat.read(path, 4).cells:
            if "plain" in cell.metadata.get("tags", []):
                assert cell.source == sources[cell.id], (path.name, cell.id)


# --- checks ---------------------------------------------------------------------------------------


def not_there(**options):
    raise InputError("left out by day")


@functools.cache
def names_after_setup(notebook: str, with_smollm2: bool) -> dict:
    names = {"__name__": "__main__"}
    try:
        with pytest.MonkeyPatch.context() as patch:
            if not with_smollm2:
                patch.setattr(smollm2, "load", not_there)
            exec(SECTIONS[notebook][0], names)
    except InputError as error:
        if "no scores" not in str(error):
            raise
        pytest.skip(str(error))
    return names


def said_after(names: dict, answer: str, check: str) -> str:
    """What the check prints after this answer, or what it says is wrong with it."""
    names = dict(names)
    exec(answer, names)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            exec(check, names)
        except AssertionError as error:
            return f"wrong: {error}"
        finally:
            plt.close("all")
    return said.getvalue()


@pytest.mark.usefixtures("small_models")
@pytest.mark.parametrize("notebook, name, with_smollm2", CASES)
def test_a_check_knows_the_solution_the_stub_and_each_wrong_answer(
    notebook, name, with_smollm2
):
    one, names = cells_of(notebook, name), names_after_setup(notebook, with_smollm2)
    solution, check = one["solution"], one["check"]
    passed = said_after(names, solution, check)
    assert passed.strip() and not passed.startswith("wrong: ")
    said = [said_after(names, blank.stub_of(solution), check)]
    for wrong in one["wrong"]:
        said.append(said_after(names, wrong.answer, check))
        assert wrong.says in said[-1]
    assert len(one["wrong"]) >= 2 and len(set(said)) == len(said)
    # where the check expects another shape, or a text
    for function in re.findall(r"^def (\w+)", solution, re.MULTILINE):
        for value in ("0.3", "__import__('numpy').array([0.3, 0.6])"):
            other = f"\ndef {function}(*given, **named):\n    return {value}"
            said.append(said_after(names, solution + other, check))
    assert all(text.startswith("wrong: ") and len(text) > 7 for text in said)


# --- blank copies ---------------------------------------------------------------------------------

SOLUTION = """
def share(tokens):
    count = len(tokens)
    ### BEGIN SOLUTION

    found = [token for token in tokens if token == "a"]
    return len(found) / count
    ### END SOLUTION


### BEGIN SOLUTION
verdict = "a secret"
### END SOLUTION
print(verdict)
"""
STUB = """
def share(tokens):
    count = len(tokens)
    ...  # your turn


verdict = ...  # your turn
print(verdict)
"""


def test_a_stub_keeps_all_but_the_marked_parts_and_the_names_of_marked_assignments():
    assert blank.stub_of(SOLUTION) == STUB


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_committed_blank_copy_is_what_the_script_makes_and_holds_no_answer(path):
    committed = (blank.EXERCISES / "blank" / path.name).read_text(encoding="utf-8")
    made = nbformat.writes(blank.blank_copy(path)) + "\n"
    assert committed == made, "run: python -m course blank"
    assert '"wrong"' not in made and "<summary>Answer</summary>" not in made
    assert "SOLUTION" not in made
    cells = nbformat.reads(made, 4).cells
    assert not any(cell.get("outputs") for cell in cells)
    for cell in read(path)[1].values():
        for wrong in cell[2].metadata.exercise.wrong:
            assert json.dumps(wrong.answer, ensure_ascii=False)[1:-1] not in made
