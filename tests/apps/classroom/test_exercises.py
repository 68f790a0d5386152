"""Every exercise: its form, and that its check knows the right answer from each wrong one.

Each variant runs after the setup cells alone, as for a student who begins with it.
"""

import contextlib
import functools
import io
import re

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest

from lib import ROOT, InputError
from lib.apps.classroom.course.exercises import (
    COMPARISON,
    ORDER,
    PLAIN,
    SETUP,
    TITLE,
    Exercise,
    copy_functions,
    read_section,
    stub_of,
    with_functions,
    without_marks,
)
from lib.apps.runner.files import EXERCISES, find_notebooks, read, stripped

matplotlib.use("Agg")
NOTEBOOKS = find_notebooks(ROOT / "notebooks" / EXERCISES)
SECTIONS = {path.stem: read_section(path) for path in NOTEBOOKS}
ALL = [
    (name, one.name) for name, section in SECTIONS.items() for one in section.exercises
]


def exercise_of(notebook: str, name: str) -> Exercise:
    return next(one for one in SECTIONS[notebook].exercises if one.name == name)


def test_names_are_unique_over_all_notebooks_and_each_notebook_has_exercises():
    names = [name for _, name in ALL]
    assert sorted(set(names)) == sorted(names) and len(names) >= 25
    assert set(SECTIONS) == {path.stem for path in find_notebooks(ROOT / "notebooks")}
    assert all(section.exercises for section in SECTIONS.values())


@pytest.mark.parametrize("notebook, name", ALL)
def test_an_exercise_says_how_long_and_how_hard_it_is_and_folds_its_hint_and_answer(
    notebook, name
):
    one = exercise_of(notebook, name)
    title, time = [line for line in one.task.splitlines() if line][:2]
    assert title.startswith("## Exercise: ") and one.title
    assert one.minutes in range(2, 41) and one.difficulty in (1, 2, 3)
    assert time == f"{one.minutes} minutes · {'★' * one.difficulty}"
    assert re.search(r"(?s)<details><summary>Hint</summary>.+</details>", one.task)
    assert one.prediction.startswith("**Your prediction**")
    assert re.search(
        r"(?s)<details><summary>Answer</summary>.+</details>\s*$", one.answer
    )


@functools.cache
def names_after_setup(notebook: str) -> dict:
    names = {"__name__": "__main__"}
    exec(SECTIONS[notebook].setup, names)
    return names


def said_after(notebook: str, answer: str, check: str) -> str:
    """What the check prints after this answer; each time in names of their own, over what the
    first cell read.
    """
    names = dict(names_after_setup(notebook))
    exec(answer, names)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            exec(check, names)
        finally:
            plt.close("all")
    return said.getvalue()


def refused(notebook: str, answer: str, check: str) -> str:
    """What the check says is wrong with this answer."""
    with pytest.raises(AssertionError) as error:
        said_after(notebook, answer, check)
    return str(error.value)


@pytest.mark.usefixtures("small_models")
@pytest.mark.parametrize("notebook, name", ALL)
def test_a_check_passes_the_solution_and_refuses_the_stub_and_each_wrong_answer_in_words_of_its_own(
    notebook, name
):
    one = exercise_of(notebook, name)
    assert len(one.wrong) >= 2 and said_after(notebook, one.solution, one.check).strip()
    said = [refused(notebook, wrong.answer, one.check) for wrong in one.wrong]
    assert [
        pair
        for pair in zip([wrong.says for wrong in one.wrong], said, strict=True)
        if pair[0] not in pair[1]
    ] == []
    said.append(refused(notebook, stub_of(one.solution), one.check))
    assert len(set(said)) == len(said) and all(said)
    for function in re.findall(r"^def (\w+)", one.solution, re.MULTILINE):
        # where the check expects the other, or a text
        for form in ("0.3", "__import__('numpy').array([0.3, 0.6])"):
            refused(
                notebook,
                f"{one.solution}\ndef {function}(*given, **named):\n    return {form}",
                one.check,
            )


SOLUTION = """
START = 3


def share(tokens: list[str]) -> float:
    \"\"\"Share of the tokens that are wanted, in [0, 1].\"\"\"
    count = len(tokens)
    ### BEGIN SOLUTION

    found = [token for token in tokens
             if token == "a"]
    return len(found) / count
    ### END SOLUTION


### BEGIN SOLUTION
verdict = "a secret"
### END SOLUTION
print(verdict)
"""


def test_a_stub_keeps_all_but_the_marked_parts_and_the_names_of_marked_assignments():
    stub = stub_of(SOLUTION)
    assert stub.splitlines()[6:] == [
        "    count = len(tokens)",
        "    ...  # your turn",
        "",
        "",
        "verdict = ...  # your turn",
        "print(verdict)",
    ]
    names: dict = {}
    exec(stub, names)
    assert names["share"](["a"]) is None and names["verdict"] is ...
    exec(without_marks(SOLUTION), names)
    assert names["share"](["a", "b"]) == 1 / 2 and "###" not in without_marks(SOLUTION)


def cells_of_one(**changed) -> list:
    new, given = (
        nbformat.v4,
        {"exercise": {"minutes": 5, "difficulty": 1}, "solution": {"wrong": []}}
        | changed,
    )
    cells = [new.new_markdown_cell(f"{TITLE}of one")]
    cells.append(new.new_code_cell("n = 1", metadata={"tags": [SETUP]}))
    for kind, tag in ORDER:
        cell = getattr(new, f"new_{kind}_cell")(f'"{kind} {tag}"')
        cell.metadata = {
            "tags": [tag],
            "exercise": {"name": "one", **given.get(tag, {})},
        }
        cells.append(nbformat.from_dict(cell))
    return cells


def comparison_of_one() -> nbformat.NotebookNode:
    metadata = {"tags": [COMPARISON[1]], "exercise": {"name": "one"}}
    metadata["jupyter"] = {"source_hidden": True}
    return nbformat.v4.new_code_cell("m = 1", metadata=metadata)


def written(path, cells):
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path / "02_a.ipynb")
    return path / "02_a.ipynb"


def test_a_section_is_read_and_told_where_it_has_not_the_form_of_one(tmp_path):
    cells = cells_of_one()
    section = read_section(written(tmp_path, cells))
    assert section.setup == "n = 1" and [one.check for one in section.exercises] == [
        '"code check"'
    ]
    compared, more = comparison_of_one(), comparison_of_one()
    whole = [*cells[:5], compared, more, *cells[5:]]
    [one] = read_section(written(tmp_path, whole)).exercises
    assert one.check == 'm = 1\n\n\nm = 1\n\n\n"code check"'
    assert (one.solution, one.answer) == ('"code solution"', '"markdown solution"')
    for broken, says in [
        (cells[:3] + cells[4:], "exercise 'one' has to have the cells"),
        ([*cells[:6], compared, *cells[6:]], "has to have the cells"),
        (cells[1:], "stand a cell '# Exercises: ...'"),
        ([*cells, nbformat.v4.new_markdown_cell("more")], "without exercise metadata"),
        (cells_of_one(exercise={"minutes": 5}), "has no 'difficulty'"),
        (cells_of_one(solution={}), "has no 'wrong'"),
    ]:
        with pytest.raises(InputError, match=f"02_a.ipynb: .*{says}"):
            read_section(written(tmp_path, broken))


def test_exercises_hold_the_functions_of_their_notebook(tmp_path):
    """They are copied from its tagged cells, into the setup cells of the same id."""
    for path in NOTEBOOKS:
        assert with_functions(path) == read(path), (
            "run: python -m lib.apps.classroom course"
        )
    functions = [
        nbformat.v4.new_code_cell("n = 2", id="two", metadata={"tags": [PLAIN]})
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=functions), tmp_path / "02_a.ipynb")
    cells = cells_of_one()
    cells.insert(
        2, nbformat.v4.new_code_cell("", id="two", metadata={"tags": [SETUP, PLAIN]})
    )
    (tmp_path / EXERCISES).mkdir()
    path = written(tmp_path / EXERCISES, cells)
    copy_functions(path)
    assert (
        read(path).cells[2].source == "n = 2"
        and read_section(path).setup == "n = 1\nn = 2"
    )
    cells[2].id = "three"
    with pytest.raises(InputError, match="02_a.ipynb has no cell 'three' tagged plain"):
        read_section(written(tmp_path / EXERCISES, cells))


def test_exercises_keep_their_metadata_when_they_are_committed(tmp_path):
    cells = cells_of_one()
    cells.insert(5, comparison_of_one())
    node = nbformat.read(written(tmp_path, cells), 4)
    kept = [cell.metadata for cell in stripped(node).cells]
    assert (
        kept == [cell.metadata for cell in node.cells]
        and kept[-1]["exercise"]["name"] == "one"
    )
