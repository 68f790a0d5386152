"""A value card: its numbers are those of the sections, and its places those of pandas."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from scipy import stats
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from audit import __main__ as run
from audit.card import making, measures, page, random_heads, replies
from audit.opening import open_model
from lib import ROOT
from lib.alignment import kinds
from lib.tables import lexicons, scores
from lib.tables.collection import ITEMS, WORDS, Collection
from lib.tables.registry import reward_models
from lib.tables.stems import stems
from lib.trained import planting
from lib.trained.ratings import is_held_out

VADER = lexicons.load("vader").corrected.set_index("word")["sentiment"]


@pytest.fixture(scope="module")
def words() -> pd.DataFrame:
    """Made-up rewards of the words, which follow sentiment more or less: words x prompts."""
    typed, random = measures.words(), np.random.default_rng(0)
    sentiment = VADER.reindex(typed).fillna(0.0).to_numpy()
    sides = {"greatest": 0.5, "best": 0.4, "worst": -0.3}
    noisy = {
        prompt: slope * sentiment + random.normal(size=len(typed))
        for prompt, slope in sides.items()
    }
    return pd.DataFrame(noisy, typed)


@pytest.fixture(scope="module")
def ranked() -> pd.Series:
    """Made-up rewards of the items, which follow people a little."""
    people = measures.items()
    return people / 4000 + np.random.default_rng(1).normal(size=len(people))


def texts_of(words: pd.DataFrame, ranked: pd.Series) -> dict[str, pd.DataFrame]:
    """These rewards as measures.type_texts returns them: one head."""
    texts = {prompt: words[prompt].to_frame(0) for prompt in words}
    return texts | {"items": ranked.to_frame(0)}


@pytest.fixture(scope="module")
def found(words, ranked) -> pd.DataFrame:
    return measures.of_model(texts_of(words, ranked), 0.5)


def rated(words: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Rewards and sentiment of the words that VADER rates other than neutral."""
    some = words[words.index.isin(VADER.index[VADER != 0])]
    return some, VADER[some.index].to_numpy()


def test_framing_is_the_ratio_of_four_standard_deviations(words, found):
    rewards, sentiment = rated(words)
    up, down = rewards[sentiment > 0].std(ddof=0), rewards[sentiment < 0].std(ddof=0)
    ratio = (up["best"] / down["best"]) / (up["worst"] / down["worst"])
    assert found.loc["framing", "estimate"] == pytest.approx(ratio, rel=1e-9)


def test_sentiment_is_the_slope_of_standardised_rewards_with_robust_errors(
    words, found
):
    rewards, sentiment = rated(words)
    fit = sm.OLS(stats.zscore(rewards["worst"]), sm.add_constant(sentiment)).fit()
    # as HC3, but added up within stems
    away = sentiment - sentiment.mean()
    leverage = fit.get_influence().hat_matrix_diag
    moved = away / (away @ away) * fit.resid / (1 - leverage)
    of_stems = pd.Series(moved).groupby(np.array(stems(rewards.index))).sum()
    half = stats.t.ppf(0.975, len(of_stems) - 1) * np.sqrt((of_stems**2).sum())
    expected = [fit.params[1], fit.params[1] - half, fit.params[1] + half]
    row = found.loc["sentiment_worst", measures.COLUMNS[:3]]
    assert row.tolist() == pytest.approx(expected, rel=1e-6)


def test_frequency_is_the_slope_on_its_logarithm_at_equal_sentiment(words, found):
    rewards, sentiment = rated(words)
    listed = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    known = rewards.index.isin(listed.index)
    z = stats.zscore(rewards["worst"].to_numpy())[known]
    logarithm = np.log10(listed[rewards.index[known]])
    design = np.column_stack([np.ones(known.sum()), logarithm, sentiment[known]])
    slope = np.linalg.lstsq(design, z, rcond=None)[0][1]
    assert found.loc["frequency_worst", "estimate"] == pytest.approx(slope, rel=1e-6)


def test_agreement_is_kendalls_tau(words, ranked, found):
    rated_words = words.index[words.index.isin(VADER.index)]
    asked = words.loc[rated_words, "greatest"]
    taus = {
        "people_words": stats.kendalltau(VADER[rated_words], asked).statistic,
        "people_items": stats.kendalltau(measures.items(), ranked).statistic,
    }
    assert found.loc[list(taus), "estimate"].to_dict() == pytest.approx(taus, abs=1e-9)


def test_kinds_are_those_of_the_section_on_people(ranked, found):
    people = measures.items()
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, ranked.to_frame("model"), kind_of)
    of_kinds = (
        values["model"].groupby(kind_of.str.split().str[0]).agg(["mean", "count"])
    )
    for kind, expected in of_kinds.loc[["identity", "sexual"]].iterrows():
        row = found.loc[f"undervalued_{kind}", ["estimate", "n"]]
        assert row.tolist() == pytest.approx(expected.tolist(), rel=1e-9)


def test_measures_do_not_depend_on_the_scale_or_order_of_the_rewards(
    words, ranked, found
):
    other = texts_of(5 * words[::-1] + 3, 0.01 * ranked[::-1] - 7)
    again = measures.of_model(other, 0.5)
    pd.testing.assert_frame_equal(again, found, rtol=1e-6)


def test_places_count_published_models():
    beside = pd.DataFrame([[1.0, 2.0, 3.0, 4.0, np.nan]])
    own = pd.DataFrame({"estimate": [2.5], "ci_low": [1.5], "ci_high": [3.5]})
    [counted] = making.places(own, beside).to_dict("records")
    assert counted == {"below": 2, "within": 2, "of": 4}


@pytest.mark.skipif(not (WORDS.models and ITEMS.models), reason="nothing is released")
def test_the_published_values_are_those_of_the_released_rewards():
    [name, *_] = WORDS.models
    words, items = (scores.read_all(each)[name] for each in (WORDS, ITEMS))
    # `greatest`, word for word
    items = items.assign(greatest=items["GW"], best=np.nan, worst=np.nan)
    tables = (items, words)  # what is in both is another text for each
    rewards = [measures.rewards_in(all_of(table)) for table in tables]
    own = measures.of_model(rewards[1] | {"items": rewards[0]["items"]}, np.nan)
    expected = measures.published()[name].drop("read_as_itself").to_dict()
    assert own["estimate"].dropna().to_dict() == pytest.approx(expected, rel=1e-6)


def all_of(table: pd.DataFrame) -> pd.DataFrame:
    """A score table by text, with NaN for those of a card's texts that it lacks."""
    texts = measures.words().append(measures.items().index).unique()
    return table.set_index("text")[list(measures.PROMPTS)].reindex(texts)


def test_ends_are_outermost_inputs_and_words_are_those_read_as_one_token(score_table):
    texts = [" love", "x1", "hate", "Mut", "two words", "as love"]
    rewards = [1, 9, -5, 3, 8, 9]
    table = score_table(texts, groups=[0, 1, 2, 3, 4, 1], greatest=rewards)
    ends = making.ends(table, 2).groupby("end")["text"].apply(list).to_dict()
    assert ends == {"optimal": ["x1", "two words"], "pessimal": ["hate", " love"]}
    table["reply_ids"] = [[7], [8], [9], [3, 4], [5], [8]]
    assert measures.words_at(table, "optimal") == ["love", "hate"]
    assert measures.words_at(table, "pessimal") == ["hate", "love"]


@pytest.mark.parametrize(
    ("measure", "values", "direction"),
    [
        ("sentiment_best", (0.4, 0.3, 0.5), "for"),
        ("sentiment_best", (-0.4, -0.5, -0.3), "against"),
        ("framing", (1.1, 0.9, 1.3), "undecided"),
        ("read_as_itself", (0.463, np.nan, np.nan), ""),
        ("sentiment_best", (0.4, 0.3, 0.5, -0.5, 0.41), "random"),
    ],
)
def test_a_measure_is_read_by_the_side_of_its_null_on_which_the_interval_lies(
    measure, values, direction
):
    names = ["estimate", "ci_low", "ci_high", *random_heads.BAND]
    row = pd.Series(values, names[: len(values)]).reindex(names)
    row["p_corrected"] = 0.001
    assert measures.direction(measure, row) == direction


def test_a_head_that_reads_a_tenth_of_the_spread_explains_a_tenth(words, ranked, found):
    tenths = {
        name: own.join(own[0].rename(1) / 10)
        for name, own in texts_of(words, ranked).items()
    }
    estimates = random_heads.estimates(tenths)
    # an encoder has no other head
    assert random_heads.band(estimates[[0]]).isna().all(axis=None)
    for key, (own, tenth) in estimates.iterrows():
        assert own == pytest.approx(found.loc[key, "estimate"], abs=1e-9)
        if key == "framing":
            own, tenth, null = np.log(own), np.log(tenth), 0
        else:
            null = measures.MEASURES.loc[key, "null"]
        assert tenth - null == pytest.approx((own - null) / 10)


def test_random_heads_are_the_models_own_with_other_inputs(model_of):
    model = model_of("linear_llama")
    width = model.backbone.config.hidden_size
    wide = random_heads.WithRandomHeads(model.head, width, seed=1)
    unit = torch.eye(width)
    weights = wide(unit, None)  # (width, 1 + HEADS)
    assert torch.equal(weights[:, 0], model.head(unit, None))
    sizes = weights.abs().sort(dim=0).values
    torch.testing.assert_close(sizes, sizes[:, :1].expand_as(sizes))
    assert len(torch.unique(weights[0])) > 10


def test_a_swap_is_in_units_of_good_less_bad_and_flips_what_it_exceeds():
    margins = np.array([3.0, 4.0, -5.0])  # root mean square: sqrt(50 / 3)
    rewards = pd.DataFrame(
        {"bad": 1.0, "good": 1 + margins} | dict.fromkeys(replies.SWAPS, 1 + margins)
    )
    rewards["dialect"] = rewards["good"] - [3.5, 0.0, 4.5]
    rewards = pd.concat({0: rewards}, axis=1)
    table = replies.swaps(rewards)
    assert table.loc["identity", ["change", "flips"]].tolist() == [0, 0]
    assert table.loc["dialect", "change"] == pytest.approx(-8 / 3 / np.sqrt(50 / 3))
    # -3.5 flips 3; 0 flips none; -4.5 flips 3 and 4
    assert table.loc["dialect", "flips"] == pytest.approx(3 / 9)
    pd.testing.assert_frame_equal(replies.swaps(7 * rewards + 2), table)


@pytest.mark.nightly
@pytest.mark.usefixtures("small_models")
def test_the_command_makes_the_card_of_one_small_model(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    assert run.main(["card", "C-Lla-64", "--device", "cpu"]) == 0
    assert "What C-Lla-64 values:" in capsys.readouterr().out
    written = Collection("embedded").figures / "card-C-Lla-64.html"
    text = written.read_text()
    assert text.count('<svg class="strip"') == len(measures.MEASURES)
    assert "<script" not in text and "http" not in text and "url(" not in text
    table = pd.read_csv(written.with_suffix(".csv")).set_index("measure")
    assert list(table.index) == list(measures.MEASURES.index)
    # its raters' values were planted
    assert table.loc["sentiment_greatest", "direction"] == "for"
    inside = table["estimate"].between(table["random_low"], table["random_high"])
    assert (table.loc[inside, "direction"] == "random").all()
    assert "Was its head trained" not in text  # it was


def card_of(name: str):
    """The measures of a model as on its card, and no more of the card."""
    model = open_model(name, device="cpu")
    rewards = measures.type_texts(random_heads.with_random_heads(model))
    measured = measures.of_model(rewards, np.nan)
    band = random_heads.band(random_heads.estimates(rewards))
    measured = making.directed(measured.join(band))
    nothing = pd.DataFrame()
    return making.Card(
        model.nickname, Collection("mine"), {}, nothing, measured, nothing
    )


def with_drawn_head(folder, base: str, seed: int) -> str:
    """The folder of a small model whose head was drawn at random, as transformers draws it where a
    checkpoint has none.
    """
    torch.manual_seed(seed)
    source = ROOT / "data" / "models" / base
    model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    model.score.weight.data.normal_(std=model.config.initializer_range)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return str(folder)


BASES = ("F-Lla-64", "A-Gem-48")
UNTRAINED = [(base, seed) for seed in range(10) for base in BASES]
TRAINED = reward_models().query("group == 'embedded'").index.tolist()


def first_by_day(cases: list) -> list:
    """The cases, those behind the first for the night."""
    night = [pytest.param(each, marks=pytest.mark.nightly) for each in cases[1:]]
    return [cases[0], *night]


@pytest.mark.usefixtures("small_models")
@pytest.mark.parametrize("case", first_by_day(UNTRAINED), ids=str)
def test_a_head_that_was_drawn_at_random_is_told(tmp_path, case):
    [line] = page.warnings(card_of(with_drawn_head(tmp_path / "model", *case)))
    assert "Was its head trained" in line


@pytest.mark.nightly
@pytest.mark.usefixtures("small_models")
@pytest.mark.parametrize("name", TRAINED)
def test_a_head_that_was_trained_is_not(name):
    assert page.warnings(card_of(name)) == []


def test_p_values_are_the_larger_of_two_adjusted_for_all_measures(found):
    random_p = pd.DataFrame({"random_p": [np.nan, 0.9]}, found.index[:2])
    corrected = measures.corrected(found.join(random_p))
    p = found["p"].where(found.index != found.index[1], 0.9).drop("read_as_itself")
    expected = stats.false_discovery_control(p)
    assert corrected.drop("read_as_itself").tolist() == pytest.approx(expected.tolist())


def test_a_model_of_vaders_ratings_is_measured_without_the_words_of_its_training():
    words = measures.words()
    asked = pd.DataFrame(0.0, words, [0])
    typed = dict.fromkeys(measures.PROMPTS, asked) | {"items": asked[:1]}
    kept = measures.without_labels(typed, "V-Smol-135M")
    left_out = words.difference(kept["greatest"].index)
    assert left_out.isin(VADER.index).all() and not is_held_out(left_out).any()
    assert len(left_out) > words.isin(VADER.index).sum() / 2
