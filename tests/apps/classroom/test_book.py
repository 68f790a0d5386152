"""The book: what becomes of a notebook's cells, which words lead to the glossary, and a build
without a warning.
"""

import re
import shutil

import nbformat
import pytest
from docutils import nodes
from nbformat import v4

from lib import ROOT, InputError
from lib.apps.classroom.book import building
from lib.apps.classroom.book.conf import anchors_of, link_first_uses
from lib.apps.classroom.book.sources import for_book
from lib.apps.runner.files import EXERCISES
from lib.show.display import ANSWER_TYPE

ADDRESSES = {
    "kendall's tau": "g#tau",
    "tau": "g#tau",
    "tau-b": "g#tau",
    "token": "g#token",
}


@pytest.fixture
def notebook():
    about = {"name": "one", "wrong": [{"answer": "a mistake", "says": "not so"}]}
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Title\n\nWhat?"),
            v4.new_code_cell("x = 1", metadata={"tags": ["injected-parameters"]}),
            v4.new_code_cell(
                "def f(): return 1", metadata={"tags": ["solution"], "exercise": about}
            ),
            v4.new_code_cell(
                "assert f()", metadata={"tags": ["check"], "exercise": {"name": "one"}}
            ),
        ]
    )


def test_wrong_answers_and_injected_parameters_are_not_in_the_book(notebook):
    page = for_book(notebook)
    assert "a mistake" not in nbformat.writes(page) and len(page.cells) == 3


def test_a_solution_is_folded_and_of_a_check_only_what_it_prints(notebook):
    solution, check = for_book(notebook).cells[1:]
    assert (
        "hide-input" in solution.metadata.tags
        and "hide-output" not in solution.metadata.tags
    )
    assert (
        "hide-output" in check.metadata.tags and "hide-input" not in check.metadata.tags
    )


def test_what_a_notebook_keeps_for_programs_is_left_out_and_pictures_have_their_texts():
    data = {"image/png": "", ANSWER_TYPE: "so", "text/plain": "figure"}
    output = v4.new_output(
        "display_data", data, metadata={"image/png": {"alt": "rewards rise"}}
    )
    made = v4.new_notebook(
        cells=[v4.new_markdown_cell("# A"), v4.new_code_cell("", outputs=[output])]
    )
    cell = for_book(made).cells[1]
    assert set(cell.outputs[0].data) == {"image/png", "text/plain"}
    assert cell.metadata.mystnb.image.alt == "rewards rise"


def test_no_page_names_a_folder_of_this_machine():
    path = str(ROOT / "figures" / "a.png")
    outputs = [
        v4.new_output("stream", text=f"wrote {path}\n"),
        v4.new_output("display_data", {"text/html": path}),
    ]
    made = v4.new_notebook(
        cells=[v4.new_markdown_cell("# A"), v4.new_code_cell("", outputs=outputs)]
    )
    told, shown = for_book(made).cells[1].outputs
    assert told.text == "wrote figures/a.png\n" and shown.data == {
        "text/html": "figures/a.png"
    }


def linked(*paragraphs: nodes.Node) -> list[tuple[str, str]]:
    """Return what is linked in these paragraphs, and to where."""
    page = nodes.section("", *paragraphs)
    before = page.astext()
    link_first_uses(page, ADDRESSES)
    assert page.astext() == before  # nothing is lost
    return [
        (link.astext(), link["refuri"])
        for link in page.findall(nodes.reference)
        if "refuri" in link
    ]


def test_terms_are_headings_and_their_other_forms():
    also = nodes.paragraph("", "", nodes.emphasis("", "Also: tau, tau-b"))
    tau = nodes.section(
        "", nodes.title("", "Kendall's tau"), also, ids=["kendall-s-tau"]
    )
    token = nodes.section(
        "",
        nodes.title("", "Token"),
        nodes.paragraph("", "Also a part of a text."),
        ids=["token"],
    )
    page = nodes.section("", nodes.title("", "Glossary"), tau, token, ids=["glossary"])
    forms = {
        "kendall's tau": "kendall-s-tau",
        "tau": "kendall-s-tau",
        "tau-b": "kendall-s-tau",
        "token": "token",
    }
    assert anchors_of(page) == forms


def test_the_first_use_of_a_term_on_a_page_is_linked_in_any_form_and_no_other():
    texts = (
        nodes.paragraph("", "Tokens and tau-b."),
        nodes.paragraph("", "A token, Kendall's tau."),
    )
    assert linked(*texts) == [("Tokens", "g#token"), ("tau-b", "g#tau")]
    bold = nodes.paragraph("", "", nodes.strong("", "tau"), nodes.Text(" of a token"))
    assert [text for text, _ in linked(bold)] == ["tau", "token"]
    assert linked(nodes.paragraph("", "Tokenise, tau-like, taut, subtoken.")) == []


@pytest.mark.parametrize(
    "kind",
    [nodes.literal, nodes.reference, nodes.title, nodes.math, nodes.raw, nodes.caption],
)
def test_code_links_headings_formulas_and_captions_are_left_alone(kind):
    assert linked(nodes.paragraph("", "", kind("tau", "tau"))) == []


def test_every_term_of_the_glossary_is_explained_once_and_leads_to_a_notebook_that_is_there():
    text = (ROOT / "docs" / "GLOSSARY.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    headings = [section.partition("\n")[0] for section in sections]
    assert (
        headings == sorted(headings, key=str.lower)
        and len(set(headings)) == len(headings) >= 40
    )
    also = [
        form
        for forms in re.findall(r"(?m)^\*Also: (.+)\*$", text)
        for form in forms.split(", ")
    ]
    forms = [form.lower() for form in headings + also]
    # one form, one term
    assert sorted({form for form in forms if forms.count(form) > 1}) == []
    for section in sections:
        links = re.findall(r"\]\(([^)#]+)\)", section)
        assert links and all((ROOT / "docs" / link).is_file() for link in links), (
            section
        )


@pytest.fixture
def two_notebooks(tmp_path):
    folder = tmp_path / "notebooks"
    (folder / EXERCISES).mkdir(parents=True)
    for number in ("02", "11"):
        [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        for place in (path.name, f"{EXERCISES}/{path.name}"):
            shutil.copyfile(ROOT / "notebooks" / place, folder / place)
    return folder


def test_a_book_of_two_notebooks_is_built_without_a_warning_and_without_executing(
    two_notebooks, tmp_path, capsys
):
    page = building.make(two_notebooks, tmp_path / "html")
    assert f"Open {page}" in capsys.readouterr().out
    of_02 = (
        tmp_path / "html" / "notebooks" / "02_optimal_and_pessimal_tokens.html"
    ).read_text()
    assert (
        '<details class="offensive"' in of_02
        and "docs/GLOSSARY.html#" in of_02
        and '<img alt="' in of_02
    )
    assert "cdn" not in " ".join(re.findall(r'(?:src|href)="([^"]+)"', of_02))
    exercises = (
        tmp_path
        / "html"
        / "notebooks"
        / EXERCISES
        / "02_optimal_and_pessimal_tokens.html"
    ).read_text()
    assert (
        "Show an answer" in exercises
        and "Exercises: " in exercises
        and "Show an answer" not in of_02
    )
    assert not list(tmp_path.glob("html/_sources/*")) and not list(
        tmp_path.glob(".building")
    )


def test_a_page_that_cannot_be_built_is_an_error_that_names_it_and_the_book_of_before_stays(
    two_notebooks, tmp_path
):
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("as before")
    path = next(two_notebooks.glob("02_*"))
    notebook = nbformat.read(path, 4)
    notebook.cells[0].source += "\n\nSee [this](nowhere.md)."
    nbformat.write(notebook, path)
    with pytest.raises(InputError, match=r"02_optimal.*nowhere\.md"):
        building.make(two_notebooks, tmp_path / "html")
    assert (tmp_path / "html" / "index.html").read_text() == "as before"
