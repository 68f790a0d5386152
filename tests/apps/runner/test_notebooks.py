"""Every notebook runs from a fresh kernel on the ten small models, and records the numbers that it
should.

What `make reproduce` executed, and of which nothing has changed since, is read; all else is
executed as it would be, in a copy of the project.
"""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import copy_project, recorded

from lib import ROOT

near = pytest.approx
GOOD = ("greatest", "best")

# The values of these models were planted: every tolerance is smaller than the effect that it is
# about.
RECORDS: dict[str, dict] = {
    # the head of the notebook's own twelve lines is as good as the committed one
    "00_a_small_reward_model": {
        "rho": 0.81,
        "ours": near(0.74, abs=0.03),
        "spread": near(0.58, abs=0.03),
        "spread_alone": near(0.7, abs=0.03),
    },
    "01_score_vocabulary-A-Gem-96": {"tokens": 16384, "distinct_inputs": 10527},
    "02_optimal_and_pessimal_tokens": {"shared_texts": 10040, "n_positive": 10},
    "03_similarity": {
        "mean_tau": near(0.583, abs=0.01),
        # Base and developer were planted and are found; size was not, and is not.
        "p_base": near(0.0079, abs=0.003),
        "p_developer": near(0.012, abs=0.004),
        "p_parameters": near(0.65, abs=0.35),
    },
    "04_framing_effects": {
        "words": 2453,
        "framing_ratio": near(2.66, abs=0.3),
        "gap_worst": near(0.2, abs=0.08),
        **{f"gap_{prompt}": near(0.03, abs=0.05) for prompt in GOOD},
    },
    # the bonus was planted; at equal sentiment it is about as large as without
    "05_frequency_bias": {
        "held_worst": near(0.13, abs=0.04),
        **{f"held_{prompt}": near(0.17, abs=0.05) for prompt in GOOD},
    },
    # raters were planted who tell apart what they like better than what they dislike
    "06_human_alignment": {"items": 7213, "tau_human": near(0.52, abs=0.01)},
    # share of words rated alike that models rank above a planted one; by chance 0.5
    "07_undervalued_items": {
        "above_identity": near(0.89, abs=0.04),
        "above_nature": near(0.78, abs=0.04),
        "above_technology": near(0.78, abs=0.04),
    },
    # ours finds the known optimum; more tokens reach further on average
    "08_longer_replies_with_gcg-A-Gem-48": {
        "swap_spearman": near(0.48, abs=0.05),
        "found_of_10": near(8, abs=2),
        "gain_optimal": near(0.16, abs=0.05),
        "gain_pessimal": near(1.57, abs=0.2),
    },
    "09_language_model_logprobs": {
        # lists that begin with a function word, of 15 each, and of 3 of SmolLM2
        "printed_pretrained": 13,
        "printed_instruction": 3,
        "here_instruction": 3,
        # All nine models with a planted frequency bonus are told from the one without.
        **{f"apart_{prompt}": 9 for prompt in (*GOOD, "worst")},
        **{f"rho_{prompt}": near(0.11, abs=0.03) for prompt in GOOD},
        **{f"control_{prompt}": near(-0.042, abs=0.03) for prompt in GOOD},
    },
    # A bonus for frequent words and a penalty on identity terms were planted; without them both
    # would be 0 and 1.
    "10_what_training_would_change": {
        "collapse": near(2.3, abs=0.5),
        "devalued": near(0.019, abs=0.019),
    },
    "12_known_values": {
        "held_out": near(0.84, abs=0.04),
        "models": 10,
        "signs_right": 8,
        "larger": 162,
        "size": near(0.57, abs=0.03),
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The folder of the notebooks that are executed in a copy of the project."""
    folder = copy_project(tmp_path_factory.mktemp("executed") / "project")
    command = [sys.executable, "-m", "lib.run", "reproduce"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL)
    return folder / "data" / "cache" / "runs"


def test_every_notebook_is_listed_and_every_listed_one_exists():
    listed = {name.partition("-")[0] for name in RECORDS}
    there = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    # it runs on published scores only
    assert {name for name in there if not name.startswith("11")} == listed
    assert all(RECORDS.values())


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_notebook_records_what_it_should(runs, name):
    folder = runs / ("human_ratings-first-run" if name.startswith("00") else "embedded")
    found = recorded(nbformat.read(folder / f"{name}.ipynb", 4))
    assert {number: found.get(number) for number in RECORDS[name]} == RECORDS[name]
