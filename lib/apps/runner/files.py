"""One notebook: its parameters, what it shows in short, its page, and its committed form."""

import ast
import copy
import os
import re
import sys
from pathlib import Path

import nbformat

from ... import ROOT, InputError
from ...io import replacing
from ...show.display import ANSWER_TYPE
from ...show.pages import TEMPLATES

KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# a kernel's remarks on its own transport are not for the terminal
QUIET = ["--IPKernelApp.log_level=50"]
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
EXERCISE = "exercise"  # in a cell's metadata: which exercise it belongs to
# the folder, beside the notebooks, of a notebook's exercises, which have its name
EXERCISES = "exercises"


def find_notebooks(folder: Path) -> list[Path]:
    """Return the numbered notebooks of a folder, in order of their numbers."""
    notebooks = sorted(Path(folder).glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        raise InputError(
            f"no numbered notebooks in {folder}; run this in a whole copy of the project"
        )
    return notebooks


def read(path: Path) -> nbformat.NotebookNode:
    """Return a notebook of version 4 without validation, which would take longer than all other
    work on it.
    """
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def with_tag(executed: nbformat.NotebookNode, tag: str) -> list[nbformat.NotebookNode]:
    """Return the cells of a notebook with this tag."""
    return [cell for cell in executed.cells if tag in cell.metadata.get("tags", [])]


def parameters_of(notebook: Path) -> dict:
    """Return the parameters of a notebook and their defaults: the literals of its cell tagged
    `parameters`.
    """
    sources = [cell.source for cell in with_tag(read(notebook), "parameters")]
    lines: list = ast.parse("\n".join(sources)).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}


def declared_by(notebook: Path) -> dict:
    """Return what a notebook says under `run` in its metadata (see CONTRIBUTING.md)."""
    return read(notebook).metadata.get("run", {})


def opening(notebook: Path) -> tuple[str, str]:
    """Return the title of a notebook and its question: the first one in bold in its first cell, or
    else the first.
    """
    first, _, rest = read(notebook).cells[0].source.partition("\n")
    prose = " ".join(rest.split())
    plain = prose.replace("*", "")
    found = re.search(r"(?<=\*\*)[^*]*\?(?=\*\*)", prose) or re.search(
        r"[^.!?:]*\?", plain
    )
    return first.lstrip("# "), found[0].strip() if found else ""


def highlights_of(executed: Path) -> tuple[str, dict]:
    """Return the answer of an executed notebook, and `file` and `alt` of the first picture that it
    shows. Both are empty for a notebook that is missing or incomplete.
    """
    answer = ""
    picture: dict = {}
    try:
        cells = read(executed).cells
    except (OSError, ValueError):
        cells = []
    for output in (each for cell in cells for each in cell.get("outputs", [])):
        answer = output.get("data", {}).get(ANSWER_TYPE, answer)
        picture = picture or output.get("metadata", {}).get("image/png", {})
    return answer, picture


def execute(notebook: Path, executed: Path, parameters: dict) -> None:
    """Execute a notebook by papermill in a fresh kernel, which takes the library beside it. As far
    as it got, it is kept.
    """
    import papermill  # here, because it takes a second

    executed.parent.mkdir(parents=True, exist_ok=True)
    executed.unlink(missing_ok=True)
    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), path])
    papermill.execute_notebook(
        notebook,
        executed,
        parameters,
        kernel_name="python3",
        cwd=notebook.parent,
        progress_bar=False,
        stderr_file=sys.stderr if sys.stderr.isatty() else None,
        extra_arguments=QUIET,
    )


def write_page(executed: Path, page: Path) -> None:
    """Write an executed notebook as one HTML file, which fetches nothing and names neither the
    project's folder nor home.
    """
    import nbconvert

    exporter = nbconvert.HTMLExporter(
        extra_template_paths=[str(TEMPLATES)], template_file="notebook.html.j2"
    )
    named = {"metadata": {"name": opening(executed)[0]}}
    body, _ = exporter.from_notebook_node(nbformat.read(executed, 4), named)
    for folder in (ROOT, Path.home()):
        body = body.replace(f"{folder}/", "")
    with replacing(page) as part:
        part.write_text(body, encoding="utf-8")


def commit(executed: Path, path: Path) -> None:
    """Write a notebook that was executed with its own parameters in its place, stripped."""
    notebook = stripped(nbformat.read(executed, 4))
    with replacing(path) as part:
        nbformat.write(notebook, part)


def stripped(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook with its outputs, but without all that differs between runs or machines.

    It drops times, papermill's notes, kernel and language details, widgets and progress bars.
    Pieces of one printed text are joined, because their lengths vary.
    """
    # jupyter: whether a cell's source is hidden
    kept = ("tags", EXERCISE, "jupyter")
    plain = copy.deepcopy(notebook)
    run = {name: plain.metadata[name] for name in ("run",) if name in plain.metadata}
    plain.metadata = nbformat.from_dict(KERNEL | run)
    for cell in plain.cells:
        known = {name: cell.metadata.get(name) for name in kept}
        cell.metadata = nbformat.from_dict({n: v for n, v in known.items() if v})
        outputs: list = []
        for output in cell.get("outputs", []):
            is_bar = output.get("name") == "stderr" and "\r" in output.text
            if is_bar or WIDGET_TYPE in output.get("data", {}):
                continue
            if "name" in output and outputs and outputs[-1].get("name") == output.name:
                outputs[-1].text += output.text
            else:
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs
    return plain


# python -m lib.apps.runner.files FILE ...: strips these, as before a commit
if __name__ == "__main__":
    for name in sys.argv[1:]:
        commit(Path(name), Path(name))
