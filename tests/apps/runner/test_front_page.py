"""The front page: one card per notebook, with its answer and picture, and every file linked."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from lib.apps.runner.jobs import Job, Result
from lib.apps.runner.pages import Highlights, highlights_of, write_index
from lib.show.display import ANSWER_TYPE
from lib.tables.collection import EMBEDDED, OWN


def executed(job: Job, answer: str, *pictures: tuple[str, str, bool]) -> None:
    """Write the executed notebook of a job, with an answer and pictures as (file, text, whether
    the cell is `hero`).
    """
    cells = [
        v4.new_code_cell(
            "answer", outputs=[v4.new_output("display_data", {ANSWER_TYPE: answer})]
        )
    ]
    for file, alt, hero in pictures:
        metadata = {"image/png": {"alt": alt, "file": file}}
        output = v4.new_output(
            "display_data", {"image/png": "", "text/plain": ""}, metadata=metadata
        )
        cells.append(
            v4.new_code_cell(
                "figure", outputs=[output], metadata={"tags": ["hero"] if hero else []}
            )
        )
        (job.collection.figures / file).write_bytes(b"png")
    job.executed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(v4.new_notebook(cells=cells), job.executed)
    job.page.write_text("page")


@pytest.fixture
def page(tmp_path, monkeypatch, write_notebook) -> str:
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    OWN.figures.mkdir(parents=True)
    paths = [
        write_notebook(tmp_path / f"{name}.ipynb")
        for name in ("01_score", "02_tokens", "11_scorecard")
    ]
    jobs = [Job(paths[0], OWN, model, {}, ()) for model in ("a", "b")] + [
        Job(path, OWN, "", {}, ()) for path in paths[1:]
    ]
    executed(
        jobs[0],
        "a is <b>best</b>",
        ("01_x_a.png", "first", False),
        ("01_y_a.png", 'the "finding"', True),
    )
    executed(jobs[1], "b is best")
    executed(jobs[2], "tokens differ", ("02_x.png", "ten lists", False))
    write_index(
        OWN,
        [(job, Result("run")) for job in jobs[:3]]
        + [(jobs[3], Result("failed", cause="<no> scores"))],
    )
    return (OWN.figures / "index.html").read_text()


def test_a_card_for_each_notebook_and_the_tokens_first(page):
    assert re.findall('<article[^>]* id="(\\w+)"', page) == ["02", "01", "11"]
    assert "failed: &lt;no&gt; scores" in page and page.count('class="question"') == 3


def test_a_card_has_the_answer_the_hero_and_its_models_in_a_row(page):
    card = page[page.index('id="01"') : page.index("</article>", page.index('id="01"'))]
    assert (
        "a: a is &lt;b&gt;best&lt;/b&gt;" in card
        and "the other answers (1)" in card
        and "b: b is best" in card
    )
    assert re.findall('href="([^"]*)"', card) == [
        "01_score-a.html",
        "01_score-b.html",
        "01_y_a.png",
    ]
    assert 'alt="the &#34;finding&#34;"' in card and "01_x_a.png" not in card


def test_the_page_on_small_models_says_what_was_done_and_what_comes_next(
    tmp_path, monkeypatch, write_notebook
):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    EMBEDDED.figures.mkdir(parents=True)
    jobs = [
        Job(write_notebook(tmp_path / f"{name}.ipynb"), EMBEDDED, "", {})
        for name in ("02_tokens", "00_train")
    ]
    for job in jobs:
        executed(job, "it is found", (f"{job.number}.png", "planted and found", True))
    write_index(EMBEDDED, [(job, Result("run")) for job in jobs])
    text = (EMBEDDED.figures / "index.html").read_text()
    places = [
        text.index(part)
        for part in ("trained ten small", "00.png", "02.png", "make published")
    ]
    assert places == sorted(places) and "corecard" not in text


def test_every_file_is_linked_with_its_text_and_nothing_is_fetched(page):
    listed = page[page.index("All figures") :]
    assert [
        f'href="{name}"' in listed for name in ("01_x_a.png", "01_y_a.png", "02_x.png")
    ] == [True] * 3
    assert "02_x.png</a>: ten lists" in listed and not re.search(
        "https?:|<script", page
    )


def test_half_a_notebook_keeps_nothing(tmp_path):
    (tmp_path / "a.ipynb").write_text('{"cells": [')
    assert (
        highlights_of(tmp_path / "a.ipynb")
        == highlights_of(Path("absent"))
        == Highlights()
    )
