"""Heads of resampled words: what is drawn, what an interval is, and that probes are words that
nobody rated.
"""

import numpy as np
import pandas as pd

from lib.human_ratings import resampled, words
from lib.tables.stems import stems


def test_whole_stems_are_drawn_with_replacement():
    rows_of = {"joy": np.array([0, 3]), "war": np.array([1]), "calm": np.array([2])}
    many = [
        list(resampled.draw_stems(rows_of, np.random.default_rng(seed)))
        for seed in range(50)
    ]
    assert {len(rows) for rows in many} == {4}  # as many rows as there are
    for rows in many:  # both rows of joy come together, unless the last one is cut
        assert all(rows[place + 1] == 3 for place in range(3) if rows[place] == 0)
    assert any(len(set(rows)) < 3 for rows in many) and {*np.concatenate(many)} == {
        0,
        1,
        2,
        3,
    }


def test_an_interval_is_that_of_one_more_head():
    # words x heads: mean 20 and 5
    values = pd.DataFrame([[18, 20, 22], [5, 5, 5]], index=["rivers", "phones"])
    reach = 4.3027 * 2 * (1 + 1 / 3) ** 0.5  # t with 2 degrees of freedom, sd 2
    interval = resampled.with_interval(values)
    wanted = [20, 20 - reach, 20 + reach]
    assert np.allclose(interval.loc["rivers"], wanted, atol=1e-3)
    assert interval.loc["phones"].tolist() == [5, 5, 5]


def test_ten_heads_give_an_interval_that_holds_95_percent_of_further_heads():
    drawn = np.random.default_rng(0).normal(size=(4000, 11))
    interval = resampled.with_interval(pd.DataFrame(drawn[:, :10]))
    held = (drawn[:, 10] > interval["ci_low"]) & (drawn[:, 10] < interval["ci_high"])
    assert 0.94 < held.mean() < 0.96


def test_probes_are_in_no_lexicon_not_even_by_their_stem():
    unrated = words.unrated_words()
    left_out = set(stems(unrated["word"]))
    for lexicon in ("vader", "afinn"):
        assert left_out.isdisjoint(words.rated_words(lexicon)["stem"])
    assert not unrated["word"].duplicated().any()
