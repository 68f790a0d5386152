"""Students' copies show no answer, in any way; the answer key has them all; a class has in its
folder what it needs.
"""

import html
import json
import re

import nbformat
import pytest

from lib import ROOT, run
from lib.apps.classroom.__main__ import COMMANDS
from lib.apps.classroom.course import making
from lib.apps.classroom.course.exercises import read_section, stub_of
from lib.apps.runner.files import EXERCISES, find_notebooks, highlights_of, opening

NOTEBOOKS = find_notebooks(ROOT / "notebooks")
WITH_EXERCISES = find_notebooks(ROOT / "notebooks" / EXERCISES)
LONG = 25  # characters; shorter lines, as `return found`, stand in many places


@pytest.fixture(params=WITH_EXERCISES, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def source_of(cells) -> str:
    return "\n".join(cell.source for cell in cells)


def test_a_students_copy_has_stubs_and_no_outputs(notebook):
    copy, section = making.student_copy(notebook), read_section(notebook)
    nbformat.validate(copy)
    assert not any(
        cell.outputs or cell.execution_count
        for cell in copy.cells
        if cell.cell_type == "code"
    )
    stubs = [
        cell.source
        for cell in copy.cells
        if making.STUB in cell.metadata.get("tags", [])
    ]
    assert stubs == [stub_of(one.solution) for one in section.exercises]
    assert all("...  # your turn" in stub for stub in stubs)


def test_a_students_copy_has_no_trace_of_an_answer(notebook):
    copy, section = making.student_copy(notebook), read_section(notebook)
    cells = [cell for cell in copy.cells if "exercise" in cell.metadata]
    written, shown = json.dumps(copy, ensure_ascii=False), source_of(cells)
    assert '"wrong"' not in written and "solution" not in {
        tag for cell in cells for tag in cell.metadata["tags"]
    }
    assert "<summary>Answer</summary>" not in written
    for one in section.exercises:
        kept = set(stub_of(one.solution).splitlines()) | {""}
        for source in (one.solution, *(wrong.answer for wrong in one.wrong)):
            assert json.dumps(source, ensure_ascii=False)[1:-1] not in written
        hidden = [
            line.strip() for line in one.solution.splitlines() if line not in kept
        ]
        assert [line for line in hidden if len(line) >= LONG and line in shown] == [], (
            one.name
        )


def test_the_answer_key_has_every_solution_answer_and_mistake(notebook):
    section = read_section(notebook)
    key = making.answer_key(notebook)
    nbformat.validate(key)
    code = "\n".join(cell.source for cell in key.cells if cell.cell_type == "code")
    prose = source_of(cell for cell in key.cells if cell.cell_type == "markdown")
    for one in section.exercises:
        assert one.check in code and one.title in prose and "### " not in code
        assert all(wrong.answer in prose and wrong.says in prose for wrong in one.wrong)
    assert (
        "<details open><summary>Answer" in prose and making.answer_key(notebook) == key
    )


def test_copies_and_key_lie_in_folders_of_their_own_and_a_teachers_files_stay(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(making, "fill_class", lambda folder, notebooks, copies: None)
    monkeypatch.setattr(making, "write_slides", lambda notebooks, path: None)
    folder = tmp_path / making.STUDENTS
    folder.mkdir()
    for name in ("99_gone.ipynb", "my_notes.ipynb"):
        (folder / name).write_text("{}")
    assert run.main(["course", str(tmp_path)], COMMANDS, "lib.apps.classroom") == 0
    names = {path.name for path in WITH_EXERCISES}
    assert {path.name for path in folder.iterdir()} == names | {"my_notes.ipynb"}
    assert {path.name for path in (tmp_path / making.ANSWERS).iterdir()} == names
    assert str(folder) in capsys.readouterr().out


def test_each_notebook_has_a_slide_with_its_question_picture_and_answer(tmp_path):
    making.write_slides(NOTEBOOKS, tmp_path / "slides.html")
    page = (tmp_path / "slides.html").read_text(encoding="utf-8")
    shown = page.split('<section class="slide">')[1:]
    assert len(shown) == len(NOTEBOOKS)
    for slide, path in zip(shown, NOTEBOOKS, strict=True):
        title, (answer, picture) = opening(path)[0], highlights_of(path)
        assert title in html.unescape(slide) and answer in html.unescape(slide)
        assert (
            slide.count("<img")
            == slide.count('src="data:image/png;base64,')
            == bool(picture)
        )
    assert not re.findall(r"<script|(?:src|href)=.http", page)
