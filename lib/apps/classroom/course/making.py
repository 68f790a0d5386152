"""What a teacher hands out: students' copies, the answer key, slides, and a folder with all that
a laptop needs.
"""

import html
import re
import shutil
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .... import ROOT, InputError
from ....io import lock, replacing
from ....show.pages import TEMPLATES
from ....tables.collection import EMBEDDED, WORDS
from ...runner.files import (
    EXERCISE,
    EXERCISES,
    KERNEL,
    find_notebooks,
    highlights_of,
    opening,
    parameters_of,
    read,
    with_tag,
)
from ...runner.jobs import MADE
from ..explorer import page as explorer
from .exercises import (
    CHECK,
    SOLUTION,
    TITLE,
    copy_functions,
    read_section,
    stub_of,
    with_functions,
    without_marks,
)

COURSE = ROOT / "data" / "course"
# in the folder of a course
STUDENTS = "students"
ANSWERS = "answers"
CLASS = "class"
SLIDES = "slides.html"
NUMBER = r"\d\d_"  # how the name of a notebook begins
BOOK = (
    ROOT / "data" / "book" / "html"
)  # where python -m lib.apps.classroom book leaves it
# packages that load models
LOADERS = (
    "gguf",
    "huggingface_hub",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
)
STUB = "your-turn"  # tag of a cell with a stub


def without_folders(text: str) -> str:
    """Return the text with paths relative to the project and to home."""
    return text.replace(f"{ROOT}/", "").replace(f"{Path.home()}/", "~/")


def make(folder: Path = COURSE, notebooks: Path = ROOT / "notebooks") -> None:
    """Write students' copies, the answer key, slides and the folder for a class, and print where
    they are.

    InputError, with nothing written, for an exercise that does not have the right form, and if
    another process writes there.
    """
    with lock(folder / CLASS):
        paths = find_notebooks(notebooks)
        exercises = find_notebooks(notebooks / EXERCISES)
        for path in exercises:
            copy_functions(path)
        copies = {path.name: student_copy(path) for path in exercises}
        keys = {path.name: answer_key(path) for path in exercises}
        _write(folder / STUDENTS, copies)
        _write(folder / ANSWERS, keys)
        print(
            f"The exercises of {len(copies)} notebooks, for students: {folder / STUDENTS}"
        )
        print(f"The answers, for the teacher: {folder / ANSWERS}")
        write_slides(paths, folder / SLIDES)
        print(f"Slides, to be opened by double click: {folder / SLIDES}")
        if EMBEDDED.models and EMBEDDED.logprobs.models:
            fill_class(folder / CLASS, paths, copies)
            print(f"All that a laptop needs in a class: {folder / CLASS}.zip")
        else:
            print(
                "No folder for a class: it needs the scores of the small models. "
                "Run: make reproduce"
            )


def _write(folder: Path, notebooks: dict[str, NotebookNode]) -> None:
    for path in folder.glob("*.ipynb"):  # other files are the teacher's own
        if re.match(NUMBER, path.name) and path.name not in notebooks:
            path.unlink()
    for name, notebook in notebooks.items():
        nbformat.validate(notebook)
        with replacing(folder / name) as part:
            nbformat.write(notebook, part)


def student_copy(exercises: Path) -> NotebookNode:
    """Return a notebook of exercises without outputs and answers, with stubs for solutions."""
    read_section(exercises)  # refuses what does not have the form of exercises
    node = _without_outputs(with_functions(exercises))
    node.cells = [
        cell
        for cell in node.cells
        if cell.cell_type == "code" or cell.metadata.get("tags") != [SOLUTION]
    ]
    for cell in with_tag(node, SOLUTION):
        del cell.metadata[EXERCISE]["wrong"]
        cell.source = stub_of(cell.source)
        cell.metadata.tags = [STUB]
    return node


def class_copy(notebook: Path) -> NotebookNode:
    """Return a notebook without outputs. If it can read the small models, which lie in the class
    folder, it does.
    """
    node = _without_outputs(read(notebook))
    if (
        EMBEDDED.name
        in parameters_of(notebook).get("collections", EMBEDDED.name).split()
    ):
        for cell in with_tag(node, "parameters"):
            assigned = re.compile(r'^collection = "[^"]*"', re.MULTILINE)
            cell.source = assigned.sub(f'collection = "{EMBEDDED}"', cell.source)
    return node


def _without_outputs(node: NotebookNode) -> NotebookNode:
    node.metadata = nbformat.from_dict(KERNEL)
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    return node


def answer_key(exercises: Path) -> NotebookNode:
    """Return the exercises with solutions, answers, and the mistakes that checks know; the
    notebook runs by itself.
    """
    section = read_section(exercises)
    new = nbformat.v4
    title = f"# {opening(exercises)[0]}".replace(TITLE, "# Answers: ")
    cells = [new.new_markdown_cell(title), new.new_code_cell(section.setup)]
    for exercise in section.exercises:
        wrong = [
            f"The check says *{case.says}* of:\n\n```python\n{case.answer}\n```"
            for case in exercise.wrong
        ]
        answer = exercise.answer.replace("<details>", "<details open>")
        cells += [
            new.new_markdown_cell(f"{exercise.task}\n\n{exercise.prediction}"),
            new.new_code_cell(
                without_marks(exercise.solution),
                metadata={"tags": [SOLUTION]},
            ),
            new.new_code_cell(exercise.check, metadata={"tags": [CHECK]}),
            new.new_markdown_cell("\n\n".join([answer, *wrong])),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"answer-{number}"  # nbformat draws another one each time
    return new.new_notebook(cells=cells, metadata=KERNEL)


def write_slides(notebooks: list[Path], path: Path) -> None:
    """Write a slide per executed notebook into one page that fetches nothing: its question,
    picture and answer.
    """
    import nbconvert  # here, because it takes a second to load

    cells = []
    for notebook in notebooks:
        title, question = opening(notebook)
        answer, picture = highlights_of(notebook)
        attachments = {}
        parts = [
            f"# {notebook.name.partition('_')[0]} {title}",
            f"**{question}**" if question else "",
        ]
        for output in [
            output
            for cell in read(notebook).cells
            for output in cell.get("outputs", [])
        ]:
            metadata = output.get("metadata", {})
            about = metadata.get("image/png", {})
            if picture and about.get("file") == picture["file"]:
                attachments = {"picture.png": {"image/png": output.data["image/png"]}}
                parts.append(
                    f"![{about['alt'].replace('[', '(').replace(']', ')')}](attachment:picture.png)"
                )
        if answer:
            parts.append(f"<p>{html.escape(without_folders(answer))}</p>")
        cells.append(
            nbformat.v4.new_markdown_cell(
                "\n\n".join(filter(None, parts)),
                attachments=attachments,
            )
        )
    exporter = nbconvert.HTMLExporter(
        extra_template_paths=[str(TEMPLATES)],
        template_file="slides.html.j2",
    )
    name = {"metadata": {"name": "What do reward models value?"}}
    slides = nbformat.v4.new_notebook(cells=cells)
    page, _ = exporter.from_notebook_node(slides, name)
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")


def fill_class(
    folder: Path,
    notebooks: Iterable[Path],
    copies: dict[str, NotebookNode],
) -> None:
    """Write the folder for a class, and a zip of it. InputError if the folder holds something else.

    copies: the students' copies of exercises, by the name of the notebook that they belong to.
    """
    if (
        folder.is_dir()
        and any(folder.iterdir())
        and not (folder / "START.md").is_file()
    ):
        raise InputError(
            f"{folder} holds something else; name another folder: "
            "python -m lib.apps.classroom course FOLDER"
        )
    shutil.rmtree(folder, ignore_errors=True)
    no_caches = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=no_caches)
    for path in _what_notebooks_read():
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    # Beside lib, so that their kernels import it without an installation.
    for notebook in notebooks:
        nbformat.write(class_copy(notebook), folder / notebook.name)
    for name, copy in copies.items():
        nbformat.write(copy, folder / f"{name.partition('_')[0]}_exercises.ipynb")
    has_book = BOOK.is_dir()
    has_explorer = bool(WORDS.models)
    if has_explorer:
        explorer.write(WORDS, folder / "explorer.html")
    if has_book:
        shutil.copytree(BOOK, folder / "book")
    _write_guide(folder, has_book, has_explorer)
    shutil.make_archive(str(folder), "zip", folder.parent, folder.name)


def _write_guide(folder: Path, has_book: bool, has_explorer: bool) -> None:
    """Write how to begin, and lists of the packages that a laptop needs."""
    for name, loads_models in (
        ("requirements.txt", False),
        ("requirements-models.txt", True),
    ):
        (folder / name).write_text(
            "\n".join([*requirements(loads_models), ""]),
            encoding="utf-8",
        )
    start = (
        resources.files("lib.apps.classroom.course")
        .joinpath("START.md")
        .read_text(encoding="utf-8")
    )
    optional = (("{book}", has_book), ("{explorer}", has_explorer))
    for name, is_there in optional:
        start = start.replace(name, "" if is_there else " (not in this copy)")
    (folder / "START.md").write_text(start, encoding="utf-8")


def _what_notebooks_read() -> set[Path]:
    """Return the project's tables, scores of the small models, and results of earlier runs."""
    scored = [
        *EMBEDDED.scores.glob("*.parquet"),
        *EMBEDDED.logprobs.scores.glob("*.parquet"),
    ]
    results = [*EMBEDDED.claims.glob("*.csv"), *(ROOT / "figures").rglob("*.csv")]
    own = [entry for entry in (ROOT / "data").iterdir() if entry.name not in MADE]
    own += [path for entry in own for path in entry.rglob("*")]
    tables = [ROOT / "requirements.lock", *filter(Path.is_file, own)]
    return {*tables, *scored, *results}


def requirements(loads_models: bool) -> list[str]:
    """Return the packages that load models, or all others that notebooks need, as
    requirements.lock pins them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    lists = project["dependencies"] + project["optional-dependencies"]["notebooks"]
    wanted = [Requirement(line).name for line in lists]
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").split()
    names = [canonicalize_name(line.partition("==")[0]) for line in lines]
    pinned = dict(zip(names, lines, strict=True))
    return [
        pinned[canonicalize_name(name)]
        for name in wanted
        if (name in LOADERS) == loads_models
    ]
