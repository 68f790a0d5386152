"""The framing interaction by signs: by hand, planted, and where only the scale is bent; grades with error; Fig 3C."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import InputError
from lib.claims import claims
from lib.framing import effects, interaction, opposites, recomputed
from lib.tables import lexicons


def observed(wider, words=400, models=6, seed=0):
    """Rewards of words of both signs; wider: prompt -> how many times as spread its positive words are."""
    random = np.random.default_rng(seed)
    sentiment = np.where(np.arange(words) < words // 2, 1.0, -1.0)
    frames = []
    for prompt, times in wider.items():
        for m in range(models):
            reward = np.where(sentiment > 0, times, 1) * random.normal(size=words)
            columns = {"model": f"M{m}", "prompt": prompt, "word": [f"w{i}" for i in range(words)]}
            frames.append(pd.DataFrame(columns | {"sentiment": sentiment, "reward": reward}))
    return pd.concat(frames, ignore_index=True)


# --- the interaction ----------------------------------------------------------------------------------------------


def test_the_interaction_by_hand():
    words = {"word": [f"w{i}" for i in range(40)], "sentiment": [1.0] * 20 + [-1.0] * 20, "model": "M"}
    best = pd.DataFrame(words | {"prompt": "best", "reward": [0.0, 6] * 10 + [0, 2] * 10})  # SD 3 and 1
    worst = pd.DataFrame(words | {"prompt": "worst", "reward": [0.0, 2] * 10 + [0, 4] * 10})  # SD 1 and 2
    one = interaction.interaction(interaction.spreads(pd.concat([best, worst])))
    assert np.exp(one.values["M"]) == pytest.approx((3 / 1) / (1 / 2))
    with pytest.raises(InputError, match="needs a prompt for good and one for bad things, as prompts=best,worst"):
        interaction.interaction(interaction.spreads(best))


def test_the_planted_interaction_is_found_and_needs_no_scale():
    rows = observed({"best": 2.0, "worst": 0.5})
    found = effects.in_rows(interaction.interaction(interaction.spreads(rows))).set_index("model")
    mean = found.loc[effects.ALL]
    assert mean["ci_low"] < np.log(4) < mean["ci_high"] and mean["ci_low"] > 1
    scaled = rows.assign(reward=5 - 3 * rows["reward"] * np.where(rows["model"] == "M2", 1000, 1))
    other = effects.in_rows(interaction.interaction(interaction.spreads(scaled))).set_index("model")
    pd.testing.assert_frame_equal(other, found)


def test_many_wordings_are_the_mean_of_their_pairs():
    rows = observed({"best": 2.0, "worst": 0.5, "best_world_one": 3.0, "worst_world_one": 1.0})
    spreads = interaction.spreads(rows)
    pairs = interaction.pairs(list(spreads))
    assert pairs == [("best", "worst"), ("best_world_one", "worst_world_one")]
    each = [interaction.interaction({prompt: spreads[prompt] for prompt in pair}).values["M0"] for pair in pairs]
    assert interaction.interaction(spreads).values["M0"] == pytest.approx(np.mean(each))


def test_order_alone_shows_no_interaction_where_only_the_scale_is_bent():
    """Signs differ in mean only; a convex scale spreads whichever words are on top."""
    random, words = np.random.default_rng(0), 600
    sentiment = np.repeat([1.0, -1.0], words // 2)
    frames = []
    for side, prompt in ((1, "best"), (-1, "worst")):
        for m in range(8):
            latent = side * 0.8 * sentiment + random.normal(size=words)
            columns = {"model": f"M{m}", "prompt": prompt, "word": [f"w{i}" for i in range(words)]}
            frames.append(pd.DataFrame(columns | {"sentiment": sentiment, "reward": np.exp(latent)}))
    rows = pd.concat(frames)
    plain, ordered = (
        effects.in_rows(interaction.interaction(interaction.spreads(rows, scale))).set_index("model").loc[effects.ALL]
        for scale in interaction.SCALES
    )
    assert plain["ci_low"] > 1  # exp stretches what lies higher by 1.6: a factor of 5 on each side
    assert abs(ordered["estimate"]) < 0.1
    bent = interaction.spreads(rows.assign(reward=rows["reward"] ** 3), "normal scores")
    straight = interaction.spreads(rows, "normal scores")
    assert bent["best"].values.to_numpy() == pytest.approx(straight["best"].values.to_numpy())


def test_pairs_of_wordings_differ_only_in_what_they_ask_for():
    prompts = ["greatest", "best", "worst", "terrible_ever_one", "best_time_please", "bad_world_one"]
    assert interaction.pairs(prompts) == [("best", "worst"), ("greatest", "terrible_ever_one")]
    assert interaction.wordings_of(prompts) == {
        "best and worst": ["best", "worst"], "2 pairs": ["best", "worst", "greatest", "terrible_ever_one"],
    }  # fmt: skip
    assert list(interaction.wordings_of(["greatest", "best", "worst"])) == ["best and worst"]
    assert interaction.wordings_of(["greatest", "worst"]) == {"greatest and worst": ["greatest", "worst"]}
    with pytest.raises(InputError, match="an interaction needs a prompt for good and one for bad things; score both"):
        interaction.wordings_of(["greatest", "best"])


def test_every_choice_has_its_rows_and_counts():
    table = observed({"best": 2.0, "worst": 0.5}, words=200, models=3).pivot_table(
        "reward", ["model", "word", "sentiment"], "prompt"
    )
    tables = {name: group.reset_index().drop(columns="model") for name, group in table.groupby("model")}
    over = interaction.over_choices({"A": tables, "B": tables}, {"best and worst": ["best", "worst"]})
    assert len(over) == 2 * 2 * 2 * (3 + 1)  # lexicons, words, scales, models and their mean
    sides = interaction.sides(over)
    assert sides["n_clearly"].tolist() == [3] * 8 and sides["n_above"].tolist() == [3] * 8
    assert (sides["ci_low"] > 2).all() and sides["estimate"].to_numpy() == pytest.approx(4, abs=0.8)
    all_words, clean = (sides[sides["words"] == words] for words in effects.WORDS)
    assert all_words["estimate"].tolist() == clean["estimate"].tolist()  # no word of these is on the list


# --- grades with error --------------------------------------------------------------------------------------------


def noisy(reliability=0.7, words=4000, seed=0):
    """Words with exact grades 1 to 4 and -1 to -4 apart, grades with known error, and rewards on the exact ones."""
    random = np.random.default_rng(seed)
    sign = random.choice([-1.0, 1.0], words)
    exact = sign * (5 + random.normal(size=words))  # far from zero: error moves no word to the other side
    error = np.where(sign > 0, np.sqrt(1 / reliability - 1), 0.3) * random.uniform(0.5, 1.5, words)
    graded = exact + error * random.normal(size=words)
    reward = np.where(sign > 0, 0.9, 0.5) * exact + random.normal(0, 0.3, words)
    columns = {"model": "M", "prompt": "best", "word": [f"w{i}" for i in range(words)]}
    return pd.DataFrame(columns | {"sentiment": graded, "grade_error": error, "reward": reward})


def test_slopes_on_noisy_grades_are_too_small_by_their_reliability():
    rows = noisy()
    known = effects.reliability(rows)
    exact = 1 / (1 + (rows.loc[rows["sentiment"] > 0, "grade_error"] ** 2).mean())  # variance 1 and that of the error
    assert known.loc["positive", "reliability"] == pytest.approx(exact, abs=0.03)
    plain = effects.by_words(effects.measured(rows, effects.slope_gap)).iloc[0]
    mended = effects.by_words(effects.measured(rows, effects.disattenuated_gap(known["reliability"]))).iloc[0]
    assert mended["estimate"] == pytest.approx(0.9 - 0.5, abs=0.03)
    assert plain["ci_high"] < 0.3  # the noisier side hides its slope
    slope = effects.slopes_by_sign(rows).set_index("sign")["slope"]
    by_hand = slope / known["reliability"]
    assert mended["estimate"] == pytest.approx(by_hand["positive"] - by_hand["negative"])


def test_grades_of_vader_have_the_error_of_their_ten_ratings():
    words = effects.with_error(pd.DataFrame({"word": ["love", "war", "no such word"]})).set_index("word")
    ratings = lexicons.vader_ratings().set_index("word").loc["love", lexicons.RATERS].to_numpy(dtype=float)
    assert words.loc["love", "grade_error"] == pytest.approx(stats.sem(ratings))
    assert words.index.tolist() == ["love", "war"]
    every = lexicons.load("vader").corrected
    known = effects.reliability(effects.with_error(every[every["sentiment"] != 0]))
    assert known["reliability"].between(0.6, 0.9).all()


# --- Fig 3C -------------------------------------------------------------------------------------------------------


def figure(positive, negative, halfwidth=0.0, prompt="worst"):
    rows = [
        {"prompt": prompt, "sign": sign, "model": f"M{i}", "slope": slope, "halfwidth": halfwidth, "read": "seen"}
        for sign, slopes in (("positive", positive), ("negative", negative))
        for i, slope in enumerate(slopes)
    ]
    return pd.DataFrame(rows)


def test_slopes_that_are_read_exactly_give_the_paired_test():
    up, down = [0.3, -0.2, 0.5, 0.1], [-0.6, -0.1, -0.4, -0.5]
    signed = recomputed.figure_test(figure(up, down)).iloc[0]
    other = stats.ttest_rel(up, down)
    assert [signed["t_low"], signed["t"], signed["t_high"]] == pytest.approx([other.statistic] * 3)
    assert signed["p"] == pytest.approx(other.pvalue) and signed["n_low"] == signed["n_high"] == 3
    sizes = recomputed.figure_test(figure(up, down), absolute=True).iloc[0]
    expected = stats.ttest_rel(np.abs(down), np.abs(up)).statistic
    assert [sizes["t_low"], sizes["t_high"]] == pytest.approx([expected] * 2)
    good = recomputed.figure_test(figure(up, down, prompt="best"), absolute=True).iloc[0]
    assert good["t"] == pytest.approx(-expected)


def test_the_range_of_t_holds_every_slope_that_could_have_been():
    random = np.random.default_rng(0)
    up, down = random.normal(0.3, 0.5, (2, 6))
    rows = figure(up, down, halfwidth=0.2)
    for absolute in (False, True):
        found = recomputed.figure_test(rows, absolute=absolute).iloc[0]
        tried = []
        for _ in range(400):
            x, y = (side + random.uniform(-0.2, 0.2, 6) for side in (up, down))
            tried.append(stats.ttest_1samp(np.abs(y) - np.abs(x) if absolute else x - y, 0).statistic)
        assert found["t_low"] < min(tried) and max(tried) < found["t_high"]


def test_no_place_of_the_hidden_marks_makes_worst_significant_in_the_papers_own_figure():
    slopes = claims.paper_table("fig3c_slopes").astype({"slope": float, "halfwidth": float})
    found = recomputed.figure_test(slopes)
    assert found["hidden"].to_dict() == {"best": 0, "greatest": 0, "worst": 4}
    assert found.loc["worst", "p_low"] > 0.05 and found.loc["worst", "n_low"] <= 5 <= found.loc["worst", "n_high"]
    assert found.loc["greatest", "p_high"] < 0.05 and found.loc["greatest", "t_high"] < 2.55  # printed: 2.6
    # The mean of the negative slopes under worst lies on the mark of R-Lla-8B, at -.34: see data/paper/README.md.
    worst = slopes.query("prompt == 'worst' and sign == 'negative'").set_index("model")
    low, high = worst["slope"] - worst["halfwidth"], worst["slope"] + worst["halfwidth"]
    assert low.mean() < worst.loc["R-Lla-8B", "slope"] < high.mean()
    near_zero = worst["slope"].where(worst.index != "S-Gem-27B", 0.0) - worst["halfwidth"]
    assert near_zero.mean() > -0.3  # were it near zero as the others, the mean mark could not lie there


def test_words_are_counted_among_the_optimal_of_table_a8():
    table = claims.paper_table("tables_a8_a9").query("table == 'A8' and end == 'optimal'")
    has_word = table[table["text"].str.lower().isin(["depends", " depends"])]  # pessimal ones do not count
    counted = opposites.listed_models()
    assert counted["depends"] == has_word["nickname"].nunique() > 0 and counted["sonder"] == 0
