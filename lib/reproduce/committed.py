"""The committed notebooks executed again, or taken from the last `reproduce` where that executed the same."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

from lib import ROOT
from lib.collection import EMBEDDED
from lib.files import replacing
from lib.reproduce.jobs import GROUP, find_models, plan
from lib.reproduce.notebooks import INJECTED, cause_of, execute, find_notebooks, parameters_of, stripped
from lib.reproduce.record import is_unchanged, read_results


def refresh(names: Sequence[str] = (), folder: Path = ROOT / "notebooks") -> int:
    """Execute the committed notebooks (those whose names start so) again, in place; the number that failed.

    One that `reproduce` executed with the same parameters, and of which nothing has changed since, is taken from there.
    One that fails stays as it was.
    """
    chosen = [path for path in find_notebooks(folder) if not names or path.name.startswith(tuple(names))]
    failed = 0
    for number, path in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {path.name} ...", end=" ", flush=True)
        try:
            executed = executed_before(path, {})
            if not executed:
                executed = ROOT / "data" / "cache" / "runs" / "committed" / path.name
                execute(path, executed, {}, progress=True)
            _commit(executed, path)
            print("done", flush=True)
        except Exception as error:  # whatever stops one notebook, the others are still refreshed
            failed += 1
            print(f"failed: {cause_of(error)}", flush=True)
    return failed


def executed_before(notebook: Path, parameters: Mapping) -> Path | None:
    """The notebook as `reproduce` executed it on the embedded models with these parameters; None if it did not.

    None, too, if anything that it depends on or made has changed since.
    """
    defaults, results = parameters_of(notebook), read_results(EMBEDDED)
    for job in plan(notebook.parent, EMBEDDED, find_models([GROUP])):
        same = job.notebook == notebook and defaults | job.parameters == defaults | dict(parameters)
        if same and job.executed.is_file() and job.name in results and is_unchanged(job, results[job.name]):
            return job.executed
    return None


def _commit(executed: Path, path: Path) -> None:
    """Write an executed notebook in its place, stripped, and without the cell of parameters that papermill put in."""
    notebook = stripped(nbformat.read(executed, 4))
    notebook.cells = [cell for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", [])]
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        for counted in (cell, *(output for output in cell.outputs if output.output_type == "execute_result")):
            counted.execution_count = count
    with replacing(path) as part:
        nbformat.write(notebook, part)
