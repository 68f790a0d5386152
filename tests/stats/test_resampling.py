"""The one bootstrap and its interval, by hand."""

import numpy as np
import pytest

from lib.stats import resampling


def test_each_resample_draws_n_of_n_with_replacement():
    drawn = resampling.bootstrap(lambda numbers: numbers, range(5), 2000)
    assert drawn.shape == (2000, 5) and set(np.unique(drawn)) == set(range(5))
    # from the seed
    assert (
        drawn == resampling.bootstrap(lambda numbers: numbers, range(5), 2000)
    ).all()
    assert (np.array([len(set(row)) for row in drawn]) < 5).mean() == pytest.approx(
        1 - 120 / 5**5, abs=0.02
    )


def test_observations_of_one_cluster_are_drawn_together():
    drawn = resampling.bootstrap(str, ["love", "hate", "love"], 2000)
    assert set(drawn) == {"[0 0 2 2]", "[0 1 2]", "[1 1]"}
    lengths = resampling.bootstrap(len, ["love", "hate", "love"], 2000)
    assert lengths.mean() == pytest.approx(3, abs=0.05)


def test_the_interval_holds_the_central_95_percent_and_leaves_out_what_has_no_value():
    ci_low, ci_high = resampling.interval(
        np.column_stack([np.arange(1001), np.where(np.arange(1001) % 2, np.nan, 4)])
    )
    assert ci_low.tolist() == [25, 4] and ci_high.tolist() == [975, 4]
