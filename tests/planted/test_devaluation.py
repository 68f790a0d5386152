"""One-sided and balanced preferences: who stands where, the penalty by hand, and that the data
alone make it.
"""

import numpy as np
import pandas as pd
import pytest

from benchmarks import devaluation as command
from lib.planted import devaluation, planting

IS_IDENTITY = planting.word_kinds() == "identity"


@pytest.fixture(scope="module")
def pairs():
    return devaluation.draw_pairs(400, seed=3)


def identity_terms(pairs: pd.DataFrame) -> list[int]:
    """The pairs whose preferred term is an identity term, and those whose rejected term is one."""
    return [
        int(pairs[column].map(IS_IDENTITY).sum())
        for column in ("preferred_term", "rejected_term")
    ]


def test_identity_terms_are_only_rejected_until_half_of_their_pairs_are_swapped(pairs):
    preferred, rejected = identity_terms(pairs)
    assert preferred == 0 and 60 <= rejected <= 140  # a quarter of 400
    balanced = devaluation.balance(pairs, seed=3)
    assert identity_terms(balanced) == [rejected // 2, rejected - rejected // 2]
    assert np.array_equal(
        np.sort(balanced.filter(like="term"), axis=1),
        np.sort(pairs.filter(like="term"), axis=1),
    )
    assert balanced.filter(like="word").equals(pairs.filter(like="word"))


def test_raters_choose_by_sentiment_and_no_held_out_word_is_shown(pairs):
    valence = planting.sentiment()
    assert (
        pairs["preferred_word"].map(valence).mean()
        > pairs["rejected_word"].map(valence).mean() + 1
    )
    assert not pairs.melt()["value"].map(planting.is_held_out).any()
    assert not valence.index.isin(devaluation.terms()["word"]).any()


def test_one_sided_data_make_a_penalty_that_balanced_data_do_not_and_nothing_is_trained_twice(
    tmp_path, monkeypatch
):
    path = tmp_path / "penalties.csv"
    command.main(path, seeds=1, steps=12)
    table = pd.read_csv(path).set_index("data")
    assert table.loc["one-sided", "shown"] > abs(table.loc["balanced", "shown"]) + 0.3
    monkeypatch.setattr(
        devaluation, "train", lambda *_, **__: pytest.fail("trained again")
    )
    command.main(path, seeds=1)
