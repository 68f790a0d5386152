"""One notebook: its parameters, its execution by papermill, and its committed form."""

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat

from ... import InputError
from ...io import describe_shortage, replacing

KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
}
# a kernel's remarks on its own transport are not for the terminal
QUIET = ["--IPKernelApp.log_level=50"]
INJECTED = "injected-parameters"  # papermill's tag of the cell that it puts in
NUMBER = r"\d\d_"  # how the name of a notebook begins
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
EXERCISE = "exercise"  # in a cell's metadata: which exercise it belongs to
# the folder, beside the notebooks, of a notebook's exercises, which have its name
EXERCISES = "exercises"


def find_notebooks(folder: Path) -> list[Path]:
    """Return the numbered notebooks of a folder, in order of their numbers."""
    notebooks = sorted(
        path for path in Path(folder).glob("*.ipynb") if re.match(NUMBER, path.name)
    )
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


def parameters_of(notebook: Path) -> dict:
    """Return the parameters of a notebook and their defaults: the literals of its cell tagged
    `parameters`.
    """
    cells = with_tag(read(notebook), "parameters")
    sources = [cell.source for cell in cells]
    lines = ast.parse("\n".join(sources)).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}


def opening(notebook: Path) -> tuple[str, str]:
    """Return the title of a notebook and its question: the first one in bold in the first cell,
    or else the first.
    """
    texts = [
        cell.source for cell in read(notebook).cells if cell.cell_type == "markdown"
    ]
    first_line, _, rest = (texts or [""])[0].partition("\n")
    prose = " ".join(rest.split())
    question = re.search(r"(?<=\*\*)[^*]*\?(?=\*\*)", prose) or re.search(
        r"[^.!?:]*\?", prose.replace("*", "")
    )
    return first_line.lstrip("# ").strip() or notebook.stem, question[
        0
    ].strip() if question else ""


def pictures_of(cells: Iterable[nbformat.NotebookNode]) -> dict[str, str]:
    """Return the pictures that executed cells show, folded ones too: file name -> alternative
    text.
    """
    found = {}
    outputs = (output for cell in cells for output in cell.get("outputs", []))
    for output in outputs:
        about = output.get("metadata", {})
        picture = about.get("image/png", {})
        if picture.get("file"):
            found[picture["file"]] = picture.get("alt", "")
        found |= about.get("text/html", {}).get("pictures", {})
    return found


def with_tag(executed: nbformat.NotebookNode, tag: str) -> list[nbformat.NotebookNode]:
    """Return the cells of a notebook with this tag."""
    return [cell for cell in executed.cells if tag in cell.metadata.get("tags", [])]


def execute(
    notebook: Path, output: Path, parameters: dict, progress: bool = False, **engine
) -> nbformat.NotebookNode:
    """Execute a notebook with these parameters in a fresh kernel, in the notebook's folder; keep it
    in `output`.

    If a cell fails, papermill raises an error, and `output` holds the notebook up to this cell. The
    folder of this process changes meanwhile, so a process executes one notebook at a time.

    - progress: show the bars inside the notebook on a terminal
    - engine: options of nbclient
    """
    # here, because it takes a second, and most commands do not need it
    import papermill

    output.parent.mkdir(parents=True, exist_ok=True)
    return papermill.execute_notebook(
        notebook,
        output,
        parameters,
        kernel_name="python3",
        cwd=notebook.parent,
        progress_bar=False,
        stderr_file=sys.stderr if progress and sys.stderr.isatty() else None,
        extra_arguments=QUIET,
        **engine,
    )


def cause_of(error: BaseException) -> str:
    """Return why a notebook failed, in one line."""
    if shortage := describe_shortage(error, "the notebook"):
        return shortage
    raised = getattr(error, "ename", type(error).__name__)
    text = getattr(error, "evalue", str(error))
    lines = text.strip().splitlines()
    first = (lines or ["no message"])[0]
    return first if raised == InputError.__name__ else f"{raised}: {first}"


def commit(executed: Path, path: Path) -> None:
    """Write a notebook that was executed with its own parameters in its place, stripped.

    The parameters that papermill injects are left out: they would override whatever a reader types
    above them.
    """
    notebook = stripped(nbformat.read(executed, 4))
    notebook.cells = [
        cell for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", [])
    ]
    of_code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(of_code, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    with replacing(path) as part:
        nbformat.write(notebook, part)


def stripped(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook with its outputs, but without all that differs between runs or machines.

    It drops times, papermill's notes and random id, kernel and language details, widgets and
    progress bars. Pieces of one printed text are joined, because their lengths vary.
    """
    metadata = KERNEL | {"language_info": {"name": "python"}}
    if "run" in notebook.metadata:
        metadata |= {"run": notebook.metadata["run"]}
    plain = nbformat.from_dict({**notebook, "metadata": metadata})
    for cell in with_tag(plain, INJECTED):
        cell.id = INJECTED  # papermill draws another one each time
        cell.source = cell.source.rstrip("\n")
    for cell in plain.cells:
        kept = ("tags", EXERCISE, "jupyter")  # jupyter: whether its source is hidden
        cell.metadata = nbformat.from_dict(
            {k: cell.metadata[k] for k in kept if cell.metadata.get(k)}
        )
        merged: list[nbformat.NotebookNode] = []
        for output in cell.get("outputs", []):
            is_bar = output.get("name") == "stderr" and "\r" in output.text
            if is_bar or WIDGET_TYPE in output.get("data", {}):
                continue
            if (
                output.output_type == "stream"
                and merged
                and merged[-1].get("name") == output.name
            ):
                merged[-1].text += output.text
                continue
            output.get("metadata", {}).pop("papermill", None)
            merged.append(output)
        if cell.cell_type == "code":
            cell.outputs = merged
    return plain


# python -m lib.apps.runner.files FILE ...: strips these, as before a commit
if __name__ == "__main__":
    for name in sys.argv[1:]:
        with replacing(Path(name)) as new:
            nbformat.write(stripped(nbformat.read(name, 4)), new)
