"""Shares of variance that were planted, and resampling by whole stems."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import human_ratings


def test_shares_of_variance_are_those_that_were_planted():
    rng = np.random.default_rng(0)
    words, bases, labels = 4000, ["a", "b"], ["x", "y"]
    common, of_base = rng.standard_normal((2, words))
    ranks = pd.DataFrame(
        {
            (base, label, head): common + (1 if base == "a" else -1) * of_base
            for base in bases
            for label in labels
            for head in range(3)
        }
    )
    shares = human_ratings.variance_shares(ranks).iloc[0]
    assert shares.sum() == pytest.approx(1)
    assert shares["common"] == pytest.approx(0.5, abs=0.02) and shares[
        "base"
    ] == pytest.approx(0.5, abs=0.02)
    assert shares[["labels", "both", "training"]].abs().max() < 1e-9


def test_stems_are_resampled_whole():
    # joy has rows 0 and 2
    shown = pd.DataFrame({"stem": ["joy", "love", "joy", "hate"]})
    drawn = human_ratings.resample(shown, np.random.default_rng(0))
    assert (drawn == 0).sum() == (drawn == 2).sum()


def test_balanced_words_are_half_positive_in_each_fifth_of_frequency():
    rng = np.random.default_rng(0)
    zipf = rng.uniform(2, 7, 500)
    shown = pd.DataFrame(
        {
            "zipf": zipf,
            "sentiment": np.where(rng.uniform(size=500) < zipf / 8, 1.0, -1.0),
        }
    )
    kept = human_ratings.balanced(shown)
    fifths = pd.qcut(shown["zipf"], 5, labels=False)[kept.index]
    assert ((kept["sentiment"] > 0).groupby(fifths).mean() == 0.5).all()
