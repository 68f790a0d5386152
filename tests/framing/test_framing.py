"""Framing statistics on words few enough to reckon by hand, and against second implementations."""

import numpy as np
import pandas as pd
import pingouin as pg
import pytest
from scipy import stats

from lib import InputError
from lib.claims import claims
from lib.framing import effects


def observed(sentiment, reward):
    columns = {
        "model": "M",
        "prompt": "greatest",
        "word": [f"w{i}" for i in range(len(sentiment))],
        "sentiment": sentiment,
        "reward": reward,
    }
    return pd.DataFrame(columns).astype({"sentiment": float, "reward": float})


# slope 2 above zero, slope 1 below
SIX = observed([1, 2, 3, -1, -2, -3], [2, 4, 6, -1, -2, -3])


# --- observations ---------------------------------------------------------------------


def test_standardised_rewards_have_mean_0_and_sd_1_and_no_scale():
    rows = pd.concat(
        [SIX, SIX.assign(model="N", reward=100 - 7 * SIX["reward"])], ignore_index=True
    )
    found = effects.standardised(rows)
    m, n = (found.loc[found["model"] == name, "reward"].to_numpy() for name in "MN")
    assert n == pytest.approx(-m)  # the sign of a scale survives, its size does not
    # its squares sum to 1 + 9 + 25 + 4 + 9 + 16 = 64
    centred = np.array([2, 4, 6, -1, -2, -3]) - 1
    assert m == pytest.approx(centred / np.sqrt(64 / 6))


# --- slopes ---------------------------------------------------------------------------------------


def test_a_slope_by_hand():
    [found] = effects.slopes(observed([0, 1, 2], [0, 1, 5])).to_dict("records")
    # sum (x - 1)(y - 2) = 2 + 0 + 3, sum (x - 1)^2 = 2
    assert found["slope"] == pytest.approx(5 / 2)
    residuals = np.array([0.5, -1, 0.5])  # y - (-0.5 + 2.5 x)
    # one degree of freedom
    assert found["standard_error"] == pytest.approx(
        np.sqrt((residuals**2).sum() / 1 / 2)
    )
    assert found["r2"] == pytest.approx(1 - 1.5 / 14)  # 14 = 4 + 1 + 9
    assert found["n"] == 3
    assert (found["model"], found["prompt"], found["predictor"]) == (
        "M",
        "greatest",
        "sentiment",
    )


# --- the paired test --------------------------------------------------------------------------


def test_the_papers_test_from_the_slopes_of_its_own_figure():
    slopes = claims.paper_table("fig3c_slopes")
    gaps = slopes.pivot_table("slope", ["model", "prompt"], "sign").reset_index()
    steeper = (gaps["positive"] > gaps["negative"]).groupby(gaps["prompt"]).sum()
    # sections 3.1 and 3.2: 9/10 and 8/10
    assert steeper[["best", "greatest"]].tolist() == [9, 8]
    of_greatest = gaps[gaps["prompt"] == "greatest"]
    found = pg.ttest(
        of_greatest["positive"], of_greatest["negative"], paired=True
    ).iloc[0]
    # printed: 2.6; read off the figure: 2.48
    assert found["T"] == pytest.approx(2.48, abs=0.005) and found["dof"] == 9


# --- words and models both drawn ------------------------------------------------------------------


STATISTICS = [
    effects.whole_slope,
    effects.slope_gap,
    effects.size_gap,
    effects.log_spread_ratio,
    effects.mean_gap,
]


def by_second_implementation(statistic, x, y):
    if statistic is effects.whole_slope:
        return stats.linregress(x, y).slope
    sides = x > 0, x < 0
    if statistic in (effects.slope_gap, effects.size_gap):
        above, below = (stats.linregress(x[side], y[side]).slope for side in sides)
        if statistic is effects.size_gap:
            return abs(above) - abs(below)
        return above - below
    if statistic is effects.mean_gap:
        return y[sides[0]].mean() - y[sides[1]].mean()
    return np.log(y[sides[0]].std() / y[sides[1]].std())


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_statistic_and_how_much_each_word_moves_it(statistic):
    random = np.random.default_rng(0)
    x = random.choice([-4, -3, -2, -1, 1, 2, 3, 4], 200).astype(float)
    y = x.clip(0) + 0.5 * x.clip(max=0) + random.normal(size=200)
    found, influence = statistic(x, y[:, None])
    assert found == pytest.approx([by_second_implementation(statistic, x, y)])
    # Leaving a word out moves a statistic by minus its influence, but for the reach of one word of
    # a hundred.
    others = np.arange(200) != 7
    left_out = by_second_implementation(statistic, x[others], y[others])
    assert influence[7, 0] == pytest.approx(found[0] - left_out, rel=0.03)
    assert influence.sum() == pytest.approx(0, abs=3 * np.abs(influence).max())


def test_intervals_need_words_of_both_signs():
    with pytest.raises(
        InputError,
        match="M: 3 positive words are too few for an interval; have at least 10",
    ):
        effects.measured(SIX, effects.mean_gap)
