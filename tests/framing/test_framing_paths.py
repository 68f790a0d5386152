"""Specifications of framing: slopes against other libraries, rules, the paper's own specification among them."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from lib.framing import effects, specifications
from lib.stats import crossed, multiverse
from lib.tables import lexicons
from lib.tables.lexicons import Lexicon
from lib.tables.prompts import grid

FITS = pytest.mark.parametrize("fit", list(specifications.SLOPES.values()), ids=list(specifications.SLOPES))
GRADES = pd.DataFrame({"word": ["joy", "war", "tea", "mud"], "sentiment": [3.0, -3.0, 1.0, -1.0]})


def words(n=400, models=10, slope=0.5, seed=0, df=5):
    """Grades 1 to 5, and rewards of models whose slopes vary about `slope`; words have an error that models share."""
    random = np.random.default_rng(seed)
    x = random.integers(1, 6, n).astype(float)
    of_models = slope + random.normal(0, 0.1, models)
    errors = random.standard_t(df, (n, 1)) + random.standard_t(df, (n, models))
    return x, x[:, None] * of_models + errors


# --- slopes -------------------------------------------------------------------------------------------------------


@FITS
def test_a_slope_without_error_is_found_and_moves_with_the_scale_only(fit):
    x, y = words()
    assert fit(x, 2 * x[:, None] + 7)[0] == pytest.approx([2.0])
    slope, influence = fit(x, y)
    moved = fit(x, 3 * y - 4)
    assert moved[0] == pytest.approx(3 * slope) and moved[1] == pytest.approx(3 * influence, abs=1e-9)


def test_hubers_slope_is_that_of_statsmodels():
    x, y = words()
    slope, _ = specifications.huber(x, y)
    for column, found in enumerate(slope):
        other = sm.RLM(y[:, column], sm.add_constant(x), sm.robust.norms.HuberT()).fit()
        assert found == pytest.approx(other.params[1], abs=1e-5)


def test_the_slope_of_grades_by_hand():
    x = np.array([1.0, 1, 1, 2, 2, 2, 3, 3])  # the two words of grade 3 are too few
    y = np.array([[0.0], [1], [2], [4], [5], [6], [90], [99]])
    slope, influence = specifications.of_grades(x, y)
    assert slope == pytest.approx([4])  # from the mean 1 to the mean 5, one grade further
    # Each grade moves the slope as its mean does, by variance 1 over n = 3 words: 1/3 + 1/3.
    assert (influence**2).sum() == pytest.approx(2 / 3)
    vader = np.array([0.1, 0.5, 1.0, 1.1, 1.5, 2.0])  # rounded away from zero: three of 1, three of 2
    assert specifications.of_grades(vader, y[:6])[0] == pytest.approx([4])


@FITS
def test_the_variance_from_influence_is_that_of_drawing_words_again(fit):
    x, y = words(n=300, models=2)
    random = np.random.default_rng(1)
    draws = [fit(x[drawn], y[drawn])[0] for drawn in random.integers(0, len(x), (400, len(x)))]
    error = np.sqrt((fit(x, y)[1] ** 2).sum(axis=0))
    assert error == pytest.approx(np.std(draws, axis=0), rel=0.12)  # 400 draws know an SD to 4%


@FITS
def test_the_crossed_interval_of_every_slope_holds_the_truth(fit):
    """200 studies of 10 models and 400 words: 95% of intervals, give or take 3 standard errors of 1.5%."""
    held = 0
    for seed in range(200):
        slope, influence = fit(*words(seed=seed))
        found = crossed.crossed(pd.Series(slope), pd.DataFrame(influence))
        held += found.ci_low <= 0.5 <= found.ci_high
    assert 0.905 <= held / 200 <= 0.995


def test_models_that_lack_words_are_fitted_on_their_own():
    x, y = words(n=100, models=3)
    y[:30, 1] = np.nan
    words_of = pd.Series(range(100))
    slope, influence = effects.fitted(words_of, x, y[:, :, None], effects.whole_slope)
    slope, influence = slope[:, 0], influence[:, :, 0]
    assert slope == pytest.approx([crossed.slope(x, y[:, 0]), crossed.slope(x[30:], y[30:, 1]),
                                   crossed.slope(x, y[:, 2])])  # fmt: skip
    assert (influence[:30, 1] == 0).all() and influence[30:, 1] == pytest.approx(
        crossed.slope_influence(x[30:], y[30:, 1])
    )


def test_a_model_that_stands_still_ends_where_all_rounds_would_take_it(monkeypatch):
    x, y = words(n=300)
    slope, influence = specifications.huber(x, y)
    monkeypatch.setattr(specifications, "STILL", -1.0)  # all rounds for all models
    every = specifications.huber(x, y)
    assert slope == pytest.approx(every[0], abs=1e-11) and influence == pytest.approx(every[1], abs=1e-11)


def test_words_are_joined_once_for_models_that_read_the_same_and_by_name_for_others():
    def table(*texts):
        return pd.DataFrame({"token_id": range(len(texts)), "text": texts})

    tables = {"M": table("tea", " joy", "Joy"), "N": table("tea", " joy", "Joy"), "O": table("mud", "joy", "x")}
    tables = {name: table.assign(best=[10.0, 11, 12]) for name, table in tables.items()}
    assert specifications.readers(tables) == {"M": "M", "N": "M", "O": "O"}
    lexicon = Lexicon("made", "sentiment", GRADES, GRADES)
    pool = specifications.Pool({name: table.assign(best=table["best"] + 100 * number)
                                for number, (name, table) in enumerate(tables.items())}, ["best"])  # fmt: skip
    listed, places = pool.joined(lexicon, "corrected", None)
    # The first spelling like the lexicon's stands for a word; -1 where a model lacks it.
    assert dict(zip(listed["word"], places.tolist(), strict=True)) == {
        "tea": [0, 0, -1], "joy": [1, 1, 1], "mud": [-1, -1, 0],
    }  # fmt: skip
    pool.scaled = lambda option: [table[["best"]].to_numpy() for table in pool.tables.values()]
    _, rewards = pool.words(lexicon, "corrected", specifications.ONE, specifications.RAW)
    assert dict(zip(listed["word"], rewards[:, 2, 0], strict=True))["joy"] == 211
    assert np.isnan(rewards[list(listed["word"]).index("mud"), 0, 0])


# --- words, rules, wordings ---------------------------------------------------------------------------------------


def test_grades_have_one_range_and_bing_agrees_by_sign(monkeypatch):
    made = {"afinn": GRADES, "vader": GRADES.assign(sentiment=[4, -4, 0.8, 0.8]),
            "bing": GRADES.assign(sentiment=[1.0, 1.0, 1.0, -1.0])}  # fmt: skip
    monkeypatch.setattr(lexicons, "load", lambda name: Lexicon(name, "sentiment", made[name], made[name]))
    found = {name: list(lexicon.corrected["sentiment"]) for name, lexicon in specifications.grades().items()}
    assert found["VADER"] == [5, -5, 1, 1]  # 4 of 4 is 5 of 5
    assert found["mean of both"] == [4, -4, 1, 0]
    assert specifications.grades()["VADER where Bing agrees"].corrected["word"].tolist() == ["joy", "tea"]
    assert "VADER where Bing agrees" not in specifications.grades(bing=False)


def test_raw_rewards_are_for_the_papers_own_test_only():
    assert (
        specifications.excluded(specifications.PAPERS) is None and specifications.excluded(specifications.OURS) is None
    )
    assert "one model's scale" in specifications.excluded(specifications.PAPERS | {"inference": specifications.CROSSED})


def test_wordings_are_those_of_the_adjective_and_of_the_side():
    everything = tuple(grid()["prompt"])
    for prompt in ("greatest", "worst"):
        nine, side = (
            specifications._wordings(prompt, option, everything)
            for option in (specifications.ADJECTIVE, specifications.SIDE)
        )
        assert (len(nine), len(side)) == (9, 27) and set(nine) < set(side) and prompt in nine
    assert specifications._wordings("best", specifications.SIDE, ("greatest", "best", "worst")) == ("best", "greatest")


# --- the whole ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    """Three models of 600 words of AFINN and VADER that bend upwards at neutral words by half their slope."""
    random = np.random.default_rng(0)
    listed = lexicons.load("afinn").corrected.merge(lexicons.load("vader").corrected, on="word", suffixes=("", "_2"))
    listed = listed[listed["word"].str.fullmatch("[a-z]+")].sample(600, random_state=0)
    x = listed["sentiment"].to_numpy()
    keys = {"token_id": range(600), "token": listed["word"], "text": listed["word"]}
    made = {}
    for name, scale in {"M": 1.0, "N": 50.0, "O": 0.02}.items():
        prompts = {p: scale * (x + 0.5 * abs(x) + random.normal(0, 1, 600)) for p in ("greatest", "worst")}
        made[name] = pd.DataFrame(keys | prompts).assign(reply_ids="", input_group=range(600))
    return made


def test_the_papers_specification_is_the_papers_test(tables):
    gaps = specifications.Gaps(tables, ["greatest"], bing=False)
    assert gaps.choices["wordings"] == [specifications.ONE_PROMPT]
    assert specifications.AUTHORS not in gaps.choices["words"]
    found = gaps.run()["greatest"]
    row = multiverse.chosen(found, gaps.papers).iloc[0]
    joined = {name: lexicons.join(table, lexicons.load("afinn"), "published") for name, table in tables.items()}
    raw = effects.compare(effects.gaps(effects.slopes_by_sign(effects.observations(joined, ["greatest"])))).iloc[0]
    # One number for all models turns raw rewards into standard deviations, and leaves t alone.
    assert row["estimate"] / row["ci_low"] == pytest.approx(raw["gap"] / raw["ci_low"])
    ours = multiverse.chosen(found, gaps.ours).iloc[0]
    same = effects.standardised(effects.observations(joined, ["greatest"]))
    assert ours["estimate"] == pytest.approx(effects.gaps(effects.slopes_by_sign(same))["gap"].mean())
    assert ours["side"] == "for" and len(found) == 3 * 3 * 3 * 2 * (4 * 3 - 2)


def test_a_planted_bend_is_found_by_most_specifications_and_its_unit_is_shared(tables):
    gaps = specifications.Gaps(tables, ["greatest", "worst"], bing=False)
    found = gaps.run()
    one = found["greatest"].iloc[0]
    by_model = gaps.by_model("greatest", one)
    assert by_model.mean() == pytest.approx(one["estimate"]) and len(by_model) == len(tables)
    joint = gaps.summaries(found).set_index("claim")["joint_p"]
    # Each model's gap has the planted sign, and no other signs give as large a median.
    assert joint["S3.slope.greatest"] == 2.0 ** -len(tables)
    scaled = found["greatest"].query("scale != 'ranks' and definition == 'signed' and lexicon == 'AFINN'")
    assert (scaled["side"] == "for").mean() > 0.8
    assert scaled.groupby("scale")["estimate"].median().max() < 2 * scaled.groupby("scale")["estimate"].median().min()
    # Under the prompt for bad things the planted slopes are larger among positive words: not what magnitudes claim.
    worst = found["worst"].query("scale != 'ranks' and lexicon == 'AFINN' and inference != 'models (t)'")
    assert (worst.query("definition == 'magnitude'")["side"] == "against").all()
    assert (worst.query("definition == 'signed'")["side"] == "for").all()
