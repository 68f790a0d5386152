"""What several tests need: small score tables and small notebooks. No test uses the network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported, which reads it once

from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

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
