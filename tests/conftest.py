"""What several tests need: small score tables and small notebooks. No test uses the network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported, which reads it once

from collections.abc import Callable
from pathlib import Path

import hypothesis
import nbformat
import numpy as np
import pandas as pd
import pytest

# The same examples on every run and machine, and none too slow where other work is going on.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")


# Left out by `make quick`: what executes notebooks, trains or searches, and what waits for another process or draws
# many samples. A test that asks for the fixture `kernels` is slow too.
SLOW_FILES = {
    "notebooks",
    "checkpoints",
    "checks",
    "classroom",
    "cluster",
    "cores",
    "embedded_language_models",
    "embedded_reward_models",
    "fluency",
    "gcg",
    "optimality",
    "read_at",
    "rivals",
    "streaming",
    "templates",
    "true_tokenizers",
    "without_ray",
}
SLOW_TESTS = {
    "test_whole_awkward_vocabulary_equals_the_oracle",
    "test_a_damaged_shard_is_dropped_told_and_scored_again",
    "test_every_want_of_memory_makes_smaller_batches_or_is_one_line",
    "test_whatever_the_file_holds_what_is_read_are_results",
    "test_rewards_equal_the_oracle_for_every_prompt",
    "test_two_runs_of_the_authors_own_are_within_the_tolerance_and_two_prompts_are_not",
    "test_a_command_loads_only_what_it_needs",
    "test_a_run_refuses_a_second_writer_and_once_killed_goes_on_to_the_same_table",
    "test_make_published_runs_each_notebook_on_the_collections_that_it_names",
    "test_intervals_of_b_cover_the_truth",
    "test_intervals_hold_the_truth_for_new_items_and_new_models",
    "test_intervals_of_aggregates_hold_one_half_where_a_kind_is_like_any_other",
    "test_the_interval_of_a_place_holds_that_of_many_models",
    "test_four_models_are_trained_measured_and_reported_and_the_next_run_trains_none",
    "test_crossed_intervals_of_groups_hold_the_truth_and_those_over_models_do_not",
    "test_the_page_holds_every_estimator_and_the_finding",
    "test_a_report_on_fewer_models_does_not_replace_the_committed_one",
    "test_shuffled_names_are_significant_as_published_and_not_when_corrected",
    "test_published_words_are_2260",
    "test_golden_rows_of_the_published_items",
    "test_the_card_of_a_small_model_is_made_from_nothing",
    "test_a_book_of_two_notebooks_is_built_without_a_warning_and_without_executing",
    "test_a_page_that_cannot_be_built_is_an_error_that_names_it_and_the_book_of_before_stays",
}


WITH_MODELS = ("00_", "01_", "07_", "10_")  # notebooks whose exercises load models


def pytest_collection_modifyitems(items):
    """Mark the slow tests, and take the longest files first, so that none of them is still running at the end."""
    for item in items:
        in_file = item.path.stem.removeprefix("test_") in SLOW_FILES
        of_notebook = getattr(item, "callspec", None) and str(item.callspec.params.get("notebook", ""))
        loads_models = item.path.stem == "test_exercises" and of_notebook and of_notebook.startswith(WITH_MODELS)
        if in_file or item.originalname in SLOW_TESTS or "kernels" in item.fixturenames or loads_models:
            item.add_marker("slow")
    first = ("cluster", "true_tokenizers", "notebooks", "gcg", "reward_models", "run", "scoring")
    items.sort(key=lambda item: first.index(name) if (name := item.path.stem.removeprefix("test_")) in first else 9)


AWKWARD = ["null", "None", "NA", "nan", "NaN", "NULL", "", " ", "\n", "\ufffd", "\x1c", "a\u202eb", '"', ",", "love"]


def _score_table(texts=AWKWARD, groups=None, **rewards) -> pd.DataFrame:
    n = len(texts)
    rewards = rewards or {"greatest": np.arange(n)}
    table = pd.DataFrame(
        {
            "token_id": np.arange(n, dtype=np.int32),
            "token": pd.Series([f"Ġ{text}" for text in texts], dtype="str"),
            "text": pd.Series(texts, dtype="str"),
            "reply_ids": [np.array([i, i + 1], dtype=np.int32) for i in range(n)],
            "input_group": np.array(range(n) if groups is None else groups, dtype=np.int32),
        }
    )
    return table.assign(**{name: np.array(values, dtype=np.float32) for name, values in rewards.items()})


@pytest.fixture
def score_table() -> Callable[..., pd.DataFrame]:
    """Makes a score table of these texts; token ids count up, and so do rewards unless given by prompt."""
    return _score_table


def _write_notebook(path: Path, *cells: str, parameters: str = 'collection = "embedded"') -> Path:
    new = nbformat.v4
    tagged = new.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    opening = new.new_markdown_cell(f"# Title of {path.stem}\n\nWhat is <asked> in {path.stem}? Nothing else.")
    notebook = new.new_notebook(cells=[opening, tagged, *map(new.new_code_cell, cells)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def write_notebook() -> Callable[..., Path]:
    """Writes a notebook: an opening cell with a title and a question, a parameters cell, then these code cells."""
    return _write_notebook


def recorded(notebook) -> dict:
    """The named numbers that an executed notebook (an nbformat node) recorded; of one name, the last."""
    from lib.display import RECORD_TYPE  # here, so that the process that only hands out tests does not wait for lib

    outputs = [output["data"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    return {name: value for data in outputs for name, value in data.get(RECORD_TYPE, {}).items()}


# --- projects of their own ----------------------------------------------------------------------------------------


@pytest.fixture
def place_project_in(monkeypatch) -> Callable[[Path], None]:
    """Makes a folder the project's: here, and for the kernels of its notebooks, which import its copy of lib."""

    def place(folder: Path) -> None:
        for module in ("collection", "claims", "downloads", "figures", "prompts"):
            monkeypatch.setattr(f"lib.{module}.ROOT", folder)
        for module in ("jobs", "record", "pages", "committed", "documents", "listings", "runs"):
            monkeypatch.setattr(f"lib.reproduce.{module}.ROOT", folder)
        monkeypatch.setattr("lib.ROOT", folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setattr("lib.reproduce.side_by_side.START", "fork")  # a fork knows what is replaced here

    return place


@pytest.fixture
def kernels() -> None:
    """Asked for by tests that execute notebooks for real, each in a kernel of its own."""


@pytest.fixture
def executing_in_forks(monkeypatch, tmp_path) -> Callable[[], list[str]]:
    """Jobs run the cells of their notebooks without kernels; says which did since it was last asked."""
    log = tmp_path / "executed.txt"

    def execute(notebook, output, parameters, progress=False):
        with log.open("a") as file:
            file.write(f"{output.stem}\n")
        output.parent.mkdir(parents=True, exist_ok=True)
        node = nbformat.read(notebook, 4)
        node.cells[2].outputs = [nbformat.v4.new_output("stream", text=str(parameters))]
        node.metadata["papermill"] = {"duration": 1}
        nbformat.write(node, output)
        names = dict(parameters)
        for cell in node.cells[2:]:
            exec(cell.source.replace("scores.record", "dict").replace("display.record", "dict"), names)

    def executed() -> list[str]:
        names = log.read_text().split() if log.is_file() else []
        log.unlink(missing_ok=True)
        return names

    def write_page(executed, page, title):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<title>{title}</title>")

    for module in ("notebooks", "committed"):
        monkeypatch.setattr(f"lib.reproduce.{module}.execute", execute)
    monkeypatch.setattr("lib.reproduce.documents.write_page", write_page)
    return executed
