"""The one bootstrap, interval and permutation test, by hand, against scipy, and against exact
distributions.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from lib.stats import resampling


def test_each_resample_draws_n_of_n_with_replacement():
    drawn = resampling.bootstrap(lambda numbers: numbers, 5, 2000)
    assert drawn.shape == (2000, 5) and set(np.unique(drawn)) == set(range(5))
    # from the seed
    assert (drawn == resampling.bootstrap(lambda numbers: numbers, 5, 2000)).all()
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


def test_the_first_order_is_the_observed_one_and_all_orders_are_as_likely():
    orders = resampling.orders(3, 6000)
    assert orders.shape == (6001, 3) and orders[0].tolist() == [0, 1, 2]
    counts = [
        (orders[1:] == order).all(axis=1).sum()
        for order in itertools.permutations(range(3))
    ]
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(
    "interval, limit, decided",
    [
        ((0.1, 2.0), 0, "for"),
        # an interval that begins at 0 does not lie above it
        ((0.0, 2.0), 0, "undecided"),
        ((-2.0, -0.1), 0, "against"),
        ((-2.0, 0.0), 0, "undecided"),
        ((0.4, 0.6), 0.5, "undecided"),
        ((0.6, 0.7), 0.5, "for"),
        ((np.nan, np.nan), 0, "undecided"),
    ],
)
def test_an_interval_decides_only_where_all_of_it_lies_on_one_side_of_the_limit(
    interval, limit, decided
):
    assert resampling.side(*interval, limit) == decided
