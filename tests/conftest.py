"""What several tests need: small score tables and small notebooks. No test uses the network."""

import contextlib
import functools
import json
import os
import shutil

# tests of scoring also run on a machine that has torch and little else
with contextlib.suppress(ImportError):
    import wordfreq  # noqa: F401  # first, because it looks at each module that is imported by then

import lib.apps.runner  # noqa: F401  # before nbformat is imported, which it makes quick

# before huggingface_hub is imported, which reads it once
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# else messages name options as make does, where make runs the tests
os.environ.pop("MAKELEVEL", None)
os.environ.pop("MAKEFLAGS", None)  # else what tests make takes part in its jobs

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest

with contextlib.suppress(ImportError):
    import nbformat

# The same examples on every run and machine, and none too slow where other work is going on.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")


pytest_plugins = ["pages_in_browser"]  # for tests/course


def pytest_collection_modifyitems(items):
    """Mark as slow the tests that tests/slow.txt lists (see tests/times.py), and those that need a
    cluster, a browser or a kernel.
    """
    import times

    slow = times.listed()
    for item in items:
        fixtures, name = {*item.fixturenames}, f"{item.path.name}::{item.originalname}"
        on_cluster = item.path.stem == "test_cluster"
        if on_cluster and fixtures & {"project", "models"}:
            item.add_marker("nightly")  # nodes of Ray are started, and killed
        if on_cluster or fixtures & {"site", "open_page", "kernels"} or name in slow:
            item.add_marker("slow")


AWKWARD = [
    "null",
    "None",
    "NA",
    "nan",
    "NaN",
    "NULL",
    "",
    " ",
    "\n",
    "\ufffd",
    "\x1c",
    "a\u202eb",
    '"',
    ",",
    "love",
]


@pytest.fixture
def score_table() -> Callable[..., pd.DataFrame]:
    """Makes a score table of these texts; token ids count up, and so do rewards unless given by
    prompt.
    """

    def make(texts=AWKWARD, groups=None, **rewards) -> pd.DataFrame:
        n = len(texts)
        rewards = rewards or {"greatest": np.arange(n)}
        columns = {
            "token_id": np.arange(n, dtype=np.int32),
            "token": pd.Series([f"Ġ{text}" for text in texts], dtype="str"),
            "text": pd.Series(texts, dtype="str"),
            "reply_ids": [np.array([i, i + 1], dtype=np.int32) for i in range(n)],
            "input_group": np.array(
                range(n) if groups is None else groups, dtype=np.int32
            ),
        }
        return pd.DataFrame(
            columns
            | {
                name: np.array(values, dtype=np.float32)
                for name, values in rewards.items()
            }
        )

    return make


@pytest.fixture
def write_notebook() -> Callable[..., Path]:
    """Writes a notebook: an opening cell with a title and a question, a parameters cell, then these
    code cells.

    A notebook with the parameter `model` declares that it runs for each model. run: more that it
    declares.
    """

    def write(
        path: Path, *cells: str, parameters: str = 'collection = "embedded"', **run
    ) -> Path:
        new, each = nbformat.v4, {"needs": [], "first_run": [{"model": "A-Gem-96"}]}
        tagged = new.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        opening = new.new_markdown_cell(
            f"# Title of {path.stem}\n\n**What is <asked> in {path.stem}?** Nothing else."
        )
        notebook = new.new_notebook(
            cells=[opening, tagged, *map(new.new_code_cell, cells)]
        )
        notebook.metadata["run"] = (each if "model =" in parameters else {}) | run
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    return write


# as the tests begin
SCORED = len([*Path(__file__).parents[1].glob("data/scores/embedded/*.parquet")])


@pytest.fixture(scope="session")
def small_models() -> None:
    """Skips what reads small models or their scores, unless all ten are there: another test may
    be making them.
    """
    if SCORED < 10:
        pytest.skip("the small models are not scored yet: make reproduce")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Callable[..., Path]:
    """The folder of a tiny checkpoint (tests/tiny.py), made once for each set of options; not to
    be changed.
    """
    made: dict[str, Path] = {}

    def folder_of(kind: str, **options) -> Path:
        import tiny

        key = json.dumps([kind, options])
        if key not in made:
            made[key] = tiny.make_checkpoint(
                tmp_path_factory.mktemp(kind), kind, **options
            )
        return made[key]

    return folder_of


@pytest.fixture(scope="session")
def folder(checkpoint) -> Path:
    """The folder of a tiny Llama with a linear head; not to be changed."""
    return checkpoint("linear_llama")


@pytest.fixture(scope="session")
def model_of(checkpoint) -> Callable:
    """Loads a tiny checkpoint of a kind, once; not to be changed."""
    from audit.opening import open_model as load

    return functools.cache(lambda kind: load(str(checkpoint(kind)), device="cpu"))


@pytest.fixture
def copy_of(checkpoint, tmp_path) -> Callable[..., Path]:
    """Makes a copy of such a folder, to be changed."""
    return lambda kind, **options: shutil.copytree(
        checkpoint(kind, **options), tmp_path / "model"
    )


def refusal_of(call: Callable, *words: str) -> str:
    """The one line with which the call refuses, checked to hold these words."""
    from lib import InputError

    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400, message
    assert all(word in message for word in words), message
    return message


def with_tag(notebook, tag: str) -> list:
    """The cells of a notebook (an nbformat node) with this tag."""
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def recorded(notebook) -> dict:
    """The named numbers that an executed notebook (an nbformat node) recorded; of one name, the
    last.
    """
    # here, because who only hands out tests does not wait for lib
    from lib.show.display import RECORD_TYPE

    outputs = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    return {
        name: value
        for data in outputs
        for name, value in data.get(RECORD_TYPE, {}).items()
    }


# --- projects of their own ------------------------------------------------------------------------


def place_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the project's: here, and for the kernels of its notebooks, which import its
    copy of lib.
    """
    for module in (
        "",
        ".tables.collection",
        ".tables.downloads",
        ".apps.runner.jobs",
        ".apps.runner.runs",
        ".io",
    ):
        monkeypatch.setattr(f"lib{module}.ROOT", folder)
    for module in ("", ".claims.claims", ".tables.downloads", ".tables.prompts"):
        monkeypatch.setattr(f"lib{module}.DATA", folder / "data")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture
def place_project_in(monkeypatch) -> Callable[[Path], None]:
    """Makes a folder the project's for one test; see place_project."""
    return lambda folder: place_project(folder, monkeypatch)


def link_or_copy(source: str, target: str) -> None:
    """Link a file of weights (1.6 GB in all), which is replaced and never changed in place; copy
    all else.
    """
    if source.endswith(".safetensors"):
        with contextlib.suppress(OSError):  # another file system
            os.link(source, target)
            return
    shutil.copy2(source, target)


def copy_project(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """Copy what notebooks read and write into a folder, but for some folders of data/, and
    return the folder.
    """
    from lib import ROOT

    for name in ("lib", "notebooks", "data", "figures"):
        absent = without if name == "data" else ()
        ignored = shutil.ignore_patterns("__pycache__", *absent)
        shutil.copytree(
            ROOT / name, folder / name, ignore=ignored, copy_function=link_or_copy
        )
    shutil.copy(ROOT / "requirements.lock", folder)
    return folder


@pytest.fixture
def kernels() -> None:
    """Asked for by tests that execute notebooks for real, each in a kernel of its own."""


@pytest.fixture
def executed(monkeypatch) -> Callable[[], list[str]]:
    """Jobs are carried out in this process, and the cells of their notebooks without kernels; says
    which were since it was last asked, sorted.
    """
    from lib.apps.runner import runs

    log: list[str] = []

    class Here:
        """An executor whose jobs have ended when they are submitted."""

        def __init__(self, *given):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def submit(self, function, job):
            log.append(job.name)
            future = Future()
            try:
                future.set_result(carry_out(job))
            except Exception as error:
                future.set_exception(error)
            return future

    def carry_out(job):
        job.executed.parent.mkdir(parents=True, exist_ok=True)
        node = nbformat.read(job.notebook, 4)
        nbformat.write(node, job.executed)
        job.page.parent.mkdir(parents=True, exist_ok=True)
        job.page.write_text(job.name)
        names: dict = {}
        exec(node.cells[1].source, names)
        names |= job.parameters
        for cell in node.cells[2:]:
            source = cell.source.replace("display.record", "dict")
            exec(source, names)

    def since() -> list[str]:
        names = sorted(log)
        log.clear()
        return names

    monkeypatch.setattr(runs, "ProcessPoolExecutor", Here)
    return since
