"""Ratings that ridges predict for items that they never saw: arithmetic by hand, and what the
committed predictions were made from.
"""

import json
import runpy

import numpy as np
import pandas as pd
import pytest

from lib import DATA
from lib.alignment import reachable
from lib.tables import downloads, score_files
from lib.trained import saving, smollm2

BUILD = runpy.run_path(str(DATA / "reachable" / "build.py"))
COMMITTED = pd.read_csv(reachable.PREDICTIONS, na_filter=False)


def test_each_item_is_predicted_by_least_squares_on_the_other_folds(monkeypatch):
    monkeypatch.setattr(reachable, "PENALTIES", [4])
    random = np.random.default_rng(0)
    x, weights = random.normal(size=(60, 3)), random.uniform(0.5, 2, 60)
    y = x @ [1, -2, 0] + 10 + random.normal(size=60)
    predicted = reachable.out_of_fold(x, y, weights, np.arange(60) % 3)
    held = np.arange(60) % 3 == 1
    standard = (x - x[~held].mean(axis=0)) / x[~held].std(axis=0)
    # a row per item, with an intercept, and a row per slope, which draws it to 0
    rows, root = np.column_stack([np.ones(60), standard]), np.sqrt(weights)
    left = np.vstack([(root[:, None] * rows)[~held], 2 * np.eye(4)[1:]])  # 4 is 2^2
    right = np.append((root * y)[~held], [0, 0, 0])
    slopes = np.linalg.lstsq(left, right)[0]
    assert predicted[held] == pytest.approx(rows[held] @ slopes)


def test_names_linked_by_shared_words_are_in_one_fold():
    names = ["Star Wars", "Stars", "World War II", "Jazz", "of a", "Jazz of"]
    groups = BUILD["word_groups"](pd.Series(names))
    # a word of two letters links nothing
    assert groups[0] == groups[1] == groups[2] and groups[3] == groups[5]
    assert len({*groups}) == 3
    folds = reachable.fold_of(groups)
    assert folds[0] == folds[1] == folds[2] and folds[3] == folds[5]


def test_committed_predictions_were_made_by_this_code_for_these_items():
    assert BUILD["made_from"]() == json.loads(reachable.MADE_FROM.read_text())
    rated = pd.read_csv(DATA / "card" / "items.csv", na_filter=False)
    assert sorted(COMMITTED["item"]) == sorted(rated["item"])


@pytest.mark.nightly
def test_predictions_computed_anew_are_the_committed_ones():
    """Those of one prompt and kind of folds: all states take 20 minutes."""
    if not saving.report_of(smollm2.NICKNAME):
        pytest.skip("SmolLM2-135M-Instruct is not there: python -m lib.trained.smollm2")
    try:
        score_files.human_ratings()
    except downloads.Unreachable as error:
        pytest.skip(str(error))
    rated, weights, states_of = BUILD["inputs"](keep=False)
    assert list(rated["item"]) == list(COMMITTED["item"])
    folds = reachable.fold_of(rated["item"])
    ratings = rated["elo"].to_numpy()
    anew = reachable.out_of_fold(states_of("GE"), ratings, weights, folds)
    np.testing.assert_allclose(anew, COMMITTED["GE items"], atol=0.3)
