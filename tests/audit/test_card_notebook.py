"""The notebook of the card, executed in a copy of the project, finds what was planted."""

import shutil

import nbformat
import papermill
import pytest
from conftest import copy_project, recorded

from lib import ROOT

near = pytest.approx
# Framing turns the spreads, and asked for the worst thing rewards fall with sentiment: both were
# planted.
RECORDS = {
    "tokens": 16384,
    "typed": 9675,
    "framing": near(2.7, abs=0.5),
    "sentiment_worst": near(-0.44, abs=0.05),
    "nature": near(-0.24, abs=0.1),
    "claimed": 1,
}


@pytest.mark.nightly
@pytest.mark.usefixtures("kernels", "small_models")
def test_the_notebook_of_the_card_records_what_it_should(tmp_path, place_project_in):
    folder = copy_project(tmp_path / "project")
    shutil.copytree(ROOT / "audit", folder / "audit")
    place_project_in(folder)
    papermill.execute_notebook(
        folder / "audit" / "card.ipynb",
        tmp_path / "executed.ipynb",
        {"model": "A-Gem-96", "collection": "embedded"},
        cwd=folder / "audit",
        progress_bar=False,
    )
    assert recorded(nbformat.read(tmp_path / "executed.ipynb", 4)) == RECORDS
