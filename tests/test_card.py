"""A value card: its numbers are those of the sections, its places those of pandas, and nothing in it acts on a page."""

import json
import re
import shutil
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from lib import ROOT, InputError, lexicons, run, scores
from lib.alignment import kinds, profiles
from lib.card import charts, making, measures, others, page, replies, sentences, strips, texts
from lib.card.making import Card
from lib.collection import EMBEDDED, ITEMS, WORDS, Collection
from lib.embedded import planting
from lib.reproduce import value_cards

HOSTILE = [
    "<script>alert(1)</script>",
    "$x$",
    "</td></table>",
    "a\u202eb",
    "\x1b[31m",
    "&lt;",
    '"onload="',
    "\\(x\\)",
]
VADER = lexicons.load("vader").corrected.set_index("word")["sentiment"]


@pytest.fixture(scope="module")
def words() -> pd.DataFrame:
    """Made-up rewards of the words, which follow sentiment more or less: words x prompts."""
    typed, random = texts.words(), np.random.default_rng(0)
    sentiment = VADER.reindex(typed).fillna(0.0).to_numpy()
    sides = {"greatest": 0.5, "best": 0.4, "worst": -0.3}
    return pd.DataFrame({p: slope * sentiment + random.normal(size=len(typed)) for p, slope in sides.items()}, typed)


@pytest.fixture(scope="module")
def ranked() -> pd.Series:
    """Made-up rewards of the items, which follow people a little."""
    people = texts.items()
    return people / 4000 + np.random.default_rng(1).normal(size=len(people))


@pytest.fixture(scope="module")
def nouns() -> pd.DataFrame:
    """Two made-up lists of words."""
    some = texts.words()[:60]
    return pd.DataFrame({"Agency": np.arange(60) < 30, "Communion": np.arange(60) >= 30}, some)


@pytest.fixture(scope="module")
def found(words, ranked, nouns) -> pd.DataFrame:
    return measures.of_model(words, ranked, 0.5, nouns)


def rated(words: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Rewards and sentiment of the words that VADER rates other than neutral."""
    some = words[words.index.isin(VADER.index[VADER != 0])]
    return some, VADER[some.index].to_numpy()


# --- texts --------------------------------------------------------------------------------------------------------


def test_the_texts_are_those_that_the_authors_scored():
    assert len(texts.words()) == texts.words().nunique() == 2145
    assert texts.words().str.fullmatch("[a-z]{2,}").all()
    people = texts.items()
    assert len(people) == people.index.nunique() == 7530
    assert people.idxmax() != people.idxmin() and people.max() < 0  # minus a rank, so that higher is better


def test_texts_that_are_not_there_are_told_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    monkeypatch.setattr("lib.card.texts.ROOT", tmp_path)
    with pytest.raises(InputError, match=r"06_discrepancies.csv is missing.*; run: make published"):
        texts.words()


# --- numbers are those of the sections ----------------------------------------------------------------------------


def test_every_measure_is_there_with_an_interval_around_it(found):
    assert list(found.index) == [measure.key for measure in measures.MEASURES]
    drawn = found.drop(index=list(measures.SHARES))
    assert (drawn["ci_low"] < drawn["estimate"]).all() and (drawn["estimate"] < drawn["ci_high"]).all()
    assert found.loc["read_as_itself", ["ci_low", "ci_high", "n"]].isna().all()


def test_framing_is_the_ratio_of_four_standard_deviations(words, found):
    rewards, sentiment = rated(words)
    up, down = rewards[sentiment > 0].std(ddof=0), rewards[sentiment < 0].std(ddof=0)
    ratio = (up["best"] / down["best"]) / (up["worst"] / down["worst"])
    assert found.loc["framing", "estimate"] == pytest.approx(ratio, rel=1e-9)
    assert found.loc["framing", "n"] == len(rewards)


@pytest.mark.parametrize("prompt", texts.PROMPTS)
def test_sentiment_is_the_slope_of_standardised_rewards_with_robust_errors(words, found, prompt):
    rewards, sentiment = rated(words)
    fit = sm.OLS(stats.zscore(rewards[prompt]), sm.add_constant(sentiment)).fit(cov_type="HC3")
    half = stats.t.ppf(0.975, len(sentiment) - 1) * fit.bse[1]
    expected = [fit.params[1], fit.params[1] - half, fit.params[1] + half]
    assert found.loc[f"sentiment_{prompt}", measures.COLUMNS[:3]].tolist() == pytest.approx(expected, rel=1e-6)


def test_the_bend_is_the_slope_among_positive_words_less_that_among_negative_ones(words, found):
    rewards, sentiment = rated(words)
    z = stats.zscore(rewards["best"].to_numpy())
    up, down = (stats.linregress(sentiment[side], z[side]).slope for side in (sentiment > 0, sentiment < 0))
    assert found.loc["bend_best", "estimate"] == pytest.approx(up - down, rel=1e-9)


def test_frequency_is_the_slope_on_its_logarithm_at_equal_sentiment(words, found):
    rewards, sentiment = rated(words)
    listed = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    known = rewards.index.isin(listed.index)
    z = stats.zscore(rewards["worst"].to_numpy())[known]
    design = np.column_stack([np.ones(known.sum()), np.log10(listed[rewards.index[known]]), sentiment[known]])
    slope = np.linalg.lstsq(design, z, rcond=None)[0][1]
    assert found.loc["frequency_worst", "estimate"] == pytest.approx(slope, rel=1e-6)
    assert found.loc["frequency_worst", "n"] == known.sum()


def test_agreement_is_kendalls_tau(words, ranked, found):
    rated_words = words.index[words.index.isin(VADER.index)]
    tau = stats.kendalltau(VADER[rated_words], words.loc[rated_words, "greatest"]).statistic
    assert found.loc["people_words", "estimate"] == pytest.approx(tau, abs=1e-9)
    people = texts.items()
    assert found.loc["people_items", "estimate"] == pytest.approx(stats.kendalltau(people, ranked).statistic, abs=1e-9)


def test_kinds_are_those_of_the_section_on_people(ranked, found):
    people = texts.items()
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, ranked.to_frame("model"), kind_of)
    for kind in ("identity", "nature", "technology", "sexual content"):
        group = values.loc[kind_of[kind_of == kind].index, "model"]
        half = (
            stats.t.ppf(0.975, len(group) - 1) * group.std(ddof=1) / np.sqrt(len(group) - 1)
        )  # crossed's influence: over n - 1
        row = found.loc[f"undervalued_{kind.split()[0]}"]
        expected = [group.mean(), group.mean() - half, group.mean() + half, len(group)]
        assert row.tolist() == pytest.approx(expected, rel=1e-6)


def test_agency_is_that_of_the_section_and_is_missing_without_its_words(words, ranked, nouns, found):
    rewards = profiles.standardised(words[["greatest"]])
    one = profiles.against(rewards, nouns, profiles.controls(words.index)).by_itself().iloc[0]
    assert found.loc["agency", measures.COLUMNS[:3]].tolist() == pytest.approx(one.tolist())
    assert "agency" not in measures.of_model(words, ranked, 0.5).index


def test_measures_do_not_depend_on_the_scale_or_order_of_the_rewards(words, ranked, nouns, found):
    again = measures.of_model(5 * words[::-1] + 3, 0.01 * ranked[::-1] - 7, 0.5, nouns)
    pd.testing.assert_frame_equal(again, found, rtol=1e-6)


# --- places -------------------------------------------------------------------------------------------------------


def test_places_equal_the_ranks_of_pandas():
    random = np.random.default_rng(2)
    keys = ["a", "b", "c"]
    beside = pd.DataFrame(random.integers(0, 5, (3, 10)), keys, [f"m{i}" for i in range(10)]).astype(float)
    own = pd.DataFrame({"estimate": [0.0, 2.0, 4.0]}, keys)
    own = own.assign(ci_low=own["estimate"] - 1, ci_high=own["estimate"] + 2)
    placed = others.places(own, beside)
    for key in keys:
        together = pd.concat([beside.loc[key], pd.Series({"own": own.loc[key, "estimate"]})])
        assert placed.loc[key, "below"] == together.rank(method="min")["own"] - 1
        assert placed.loc[key, "equal"] == together.rank(method="max")["own"] - together.rank(method="min")["own"]
        inside = [own.loc[key, "ci_low"] <= value <= own.loc[key, "ci_high"] for value in beside.loc[key]]
        assert placed.loc[key, "within"] == sum(inside) and placed.loc[key, "of"] == 10


def test_a_model_is_not_placed_beside_itself_nor_beside_missing_values():
    own = pd.DataFrame({"estimate": [1.0, 1.0], "ci_low": 0.0, "ci_high": 2.0}, ["a", "b"])
    beside = pd.DataFrame({"m": [1.0, np.nan], "n": [3.0, np.nan]}, ["a", "b"])
    placed = others.places(own, beside, "m")
    assert placed.loc["a"].tolist() == [0, 0, 0, 1]
    assert placed.loc["b"].tolist() == [0, 0, 0, 0]


def test_the_published_values_are_there_for_ten_models_and_are_plausible():
    published = others.read("published")
    assert published.shape == (len(measures.MEASURES), 10)
    assert published.loc["people_items"].between(0.1, 0.5).all()  # as section 4 of the paper has them
    assert (published.loc["framing"] > 1).all()
    planted = others.read("planted")
    assert set(planted.columns) == set(planting.profiles().index) and "agency" not in planted.index
    # The control without a frequency bonus has the lowest slope, the one with equal sensitivities the smallest bend.
    assert planted.loc["frequency_greatest"].idxmin() == "E-Gem-64"
    assert planted.loc["bend_best"].idxmin() == planted.loc["framing"].idxmin() == "F-Lla-64"


def test_without_the_table_of_a_group_there_is_nobody_to_compare_with(monkeypatch, tmp_path, found):
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    assert others.read("published").empty
    placed = making.placed(found, {"published": others.read("published"), "planted": others.read("planted")}, "x")
    assert sentences.place(placed.iloc[0]) == "no published model to compare with"


def test_small_models_are_measured_again_once_they_are_trained_again(monkeypatch, tmp_path):
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    monkeypatch.setattr(others, "ROOT", tmp_path)
    names, measured = list(planting.profiles().index), []

    def planted(name):
        measured.append(name)
        row = dict.fromkeys(measures.COLUMNS, 1.0) | {"measure": "framing", "model": name, "revision": f"{name}-1"}
        return pd.DataFrame([row])

    monkeypatch.setattr(others, "_planted", planted)
    others.plant()
    assert sorted(measured) == sorted(names) and others.read("planted").shape == (1, 10)
    others.plant()
    assert len(measured) == 10  # none is here, so the committed numbers stand
    for name in names:
        (tmp_path / "data" / "models" / name).mkdir(parents=True)
    version = {name: f"{name}-1" for name in names} | {"B-Gem-64": "another"}
    monkeypatch.setattr(others.checkpoints, "fetch", lambda place, revision: (place, version[place.split("/")[-1]]))
    others.plant()
    assert measured[10:] == ["B-Gem-64"]


# --- replies ------------------------------------------------------------------------------------------------------


def test_ends_list_each_input_once_with_the_outermost_first(score_table):
    table = score_table(list("abcdef"), groups=[0, 0, 1, 2, 3, 4], greatest=[5, 5, 1, 2, 3, 4])
    ends = replies.ends(table, 2)
    listed = ends.groupby("end")["text"].apply(list)
    assert listed["optimal"] == ["a", "f"] and listed["pessimal"] == ["c", "d"]
    assert ends["position"].tolist() == [1, 2, 1, 2]


def test_words_to_combine_are_letters_that_are_read_as_one_token(score_table):
    table = score_table([" love", "x1", "hate", "Mut", "two words"], greatest=[1, 9, -5, 3, 8])
    table["reply_ids"] = [np.array(ids, dtype=np.int32) for ids in ([7], [8], [9], [3, 4], [5])]
    assert replies.words_at(table, "optimal") == ["love", "hate"]
    assert replies.words_at(table, "pessimal") == ["hate", "love"]
    with pytest.raises(InputError, match="fewer than two tokens are words"):
        replies.words_at(table[1:2], "optimal")


def test_pairs_are_all_that_can_be_typed_and_tell_which_survive(monkeypatch):
    def score_replies(model, prompt, typed, bos):
        return np.array([len(text) + (text[0] == "b") for text in typed], dtype=np.float32)

    def inputs_for(prompt, typed):
        return SimpleNamespace(reply_ids=[(i,) for i in range(len(typed))], group=np.arange(len(typed)))

    decoded = ["a a", "a bb", "bb-a", "bb bb"]  # the third does not come back as it was typed
    tokenizer = SimpleNamespace(batch_decode=lambda ids, **options: decoded)
    monkeypatch.setattr("lib.card.replies.scoring.score_replies", score_replies)
    pairs = replies.pairs(SimpleNamespace(inputs_for=inputs_for, tokenizer=tokenizer), ["a", "bb"], "optimal")
    assert pairs.table["reply"].tolist() == ["bb bb", "bb a", "a bb", "a a"]
    assert pairs.table.set_index("reply")["survives"].to_dict()["bb a"] is False
    assert pairs.table["survives"].sum() == 3


# --- words --------------------------------------------------------------------------------------------------------


def row(estimate, ci_low, ci_high, below=8, equal=0, within=3, of=10) -> pd.Series:
    return pd.Series({"estimate": estimate, "ci_low": ci_low, "ci_high": ci_high, "below": below, "equal": equal,
                      "within": within, "of": of})  # fmt: skip


def test_sentences_say_the_side_or_that_it_is_undecided():
    above = sentences.sentence("sentiment_best", row(0.4, 0.3, 0.5))
    assert above == (
        "It rewards words more the more positive they are (best) (0.40 [0.30, 0.50]): higher than 8 of the ten "
        "published models (3 of them within its interval)."
    )
    assert "more negative" in sentences.sentence("sentiment_best", row(-0.4, -0.5, -0.3))
    assert sentences.sentence("framing", row(1.1, 0.9, 1.3)).startswith("Undecided: whether it spreads")
    assert "−0.40 [−0.50, 0.10]" in sentences.sentence("agency", row(-0.4, -0.5, 0.1))
    share = sentences.sentence("read_as_itself", row(0.463, np.nan, np.nan, 0, 2, 0))
    assert share == (
        "It reads a token as itself in 46% of its vocabulary: higher than 0 of the ten published models, as high as 2."
    )


@pytest.mark.parametrize(
    ("below", "equal", "said"),
    [(10, 0, "higher than all ten"), (0, 0, "lower than all ten"), (9, 1, "higher than 9 of the ten")],
)
def test_ends_of_a_place_are_words(below, equal, said):
    assert sentences.place(row(0, -1, 1, below, equal, 0)).startswith(said)


# --- the page -----------------------------------------------------------------------------------------------------


@pytest.fixture
def card(found) -> Card:
    """A card of a model and tokens that would act on a page if they could."""
    tokens = [*HOSTILE, "love", "fuck"]
    ends = pd.DataFrame({"end": ["optimal"] * 10 + ["pessimal"] * 10, "position": [*range(1, 11)] * 2,
                         "token_id": range(20), "text": tokens * 2, "reward": np.linspace(3, -3, 20)})  # fmt: skip
    table = pd.DataFrame({"reply": [f"{token} x" for token in tokens], "reward": 1.0, "survives": True})
    pairs = {end: replies.Pairs(table, ("love", "hate")) for end in replies.SIGN}
    beside = {group: others.read(group) for group in others.GROUPS}
    settings = {"hub_id": "<b>model</b>", "revision": "r", "head": "linear", "dtype": "float32", "attention": "sdpa",
                "read_at": "last", "closing": "rendered", "reply_mode": "text", "bos": "single",
                "prompts": texts.prompts(), "tokens": 100}  # fmt: skip
    measured = making.placed(found, beside, "x<y>")
    return Card("x<y>", "x<y>", Collection("mine"), settings, ends, pairs, measured, beside, 5, 10, 20, "not <there>")


def test_the_page_asks_for_nothing_and_no_token_acts(card):
    text = page.as_html(card)
    for token in [*HOSTILE[:3], "<b>model</b>", "x<y>", "not <there>"]:
        assert token not in text
    assert "<script" not in text and "http" not in text and "src=" not in text and "url(" not in text
    assert "\u202e" not in text and "\x1b" not in text
    assert not re.search(r"\$x\$|\\\(x\\\)", text)


def test_offensive_tokens_are_folded_away_unless_asked_for(card):
    assert "<details" in page.tokens_html(card, "optimal") or "offensive" in page.tokens_html(card, "optimal")
    hidden, shown = page.as_html(card), page.as_html(card, blur=False)
    assert len(hidden) != len(shown) and "not folded away" in shown


def test_every_measure_has_its_row_and_its_strip(card):
    text = page.as_html(card)
    assert text.count("<svg") == text.count("</svg>") == len(card.measured)
    for measure in measures.MEASURES:
        assert measure.label in text


def test_marks_of_a_strip_are_where_the_values_are(card):
    key = "sentiment_best"
    drawn = strips.strip(measures.BY_KEY[key], card.measured.loc[key], card.others, card.nickname)
    root = ElementTree.fromstring(drawn)
    rings = [(float(ring.get("cx")), ring.find("title").text) for ring in root.iter("circle")]
    expected = card.others["published"].loc[key].sort_values()
    assert [title.partition(":")[0] for _, title in sorted(rings)] == list(expected.index)
    places = [place for place, _ in sorted(rings)]
    assert np.corrcoef(places, expected)[0, 1] == pytest.approx(1, abs=1e-4)  # one axis, linear but for rounding
    assert len(list(root.iter("polygon"))) == 1 and len(list(root.iter("path"))) == 10
    assert all(0 <= place <= strips.WIDTH for place in places)


def test_a_strip_where_all_are_equal_is_drawn(card):
    same = {"published": pd.DataFrame({"a": [0.5], "b": [0.5]}, ["read_as_itself"])}
    drawn = strips.strip(measures.BY_KEY["read_as_itself"], row(0.5, np.nan, np.nan), same, "x")
    assert {ring.get("cx") for ring in ElementTree.fromstring(drawn).iter("circle")} == {"130.0"}  # in the middle


def test_the_json_holds_every_number_and_is_plain(card):
    text = page.as_json(card)
    assert text.isascii()
    content = json.loads(text)
    assert set(content) == {"model", "collection", "command", "settings", "words", "tokens", "two_words", "measures",
                            "texts", "missing"}  # fmt: skip
    assert [one["key"] for one in content["measures"]] == list(card.measured.index)
    for one in content["measures"]:
        assert set(one) == {"key", "label", "unit", "null", "estimate", "ci_low", "ci_high", "n", "texts", "side",
                            "published", "planted"}  # fmt: skip
        assert one["estimate"] == pytest.approx(card.measured.loc[one["key"], "estimate"], rel=1e-6)
        assert set(one["published"]["place"]) == {"below", "equal", "within", "of"}
        lower = sum(value < one["estimate"] for value in one["published"]["values"].values())
        assert lower == one["published"]["place"]["below"]
    assert content["tokens"]["optimal"][0]["text"] == HOSTILE[0]
    assert content["settings"]["prompts"] == texts.prompts()


def test_one_card_is_the_same_bytes_each_time(card):
    assert page.as_html(card) == page.as_html(card) and page.as_json(card) == page.as_json(card)


def test_the_summary_counts_what_lies_outside(card):
    published = card.others["published"]
    low, high = published.min(axis=1), published.max(axis=1)
    drawn = card.measured.drop(index="read_as_itself")
    count = ((drawn["ci_low"] > high[drawn.index]) | (drawn["ci_high"] < low[drawn.index])).sum()
    assert f"on {count} of {len(drawn)} measures" in sentences.summary(card)


def test_the_picture_holds_every_value_in_standard_deviations_of_the_published(card):
    rows = charts.standardised(card)
    published = rows[rows["group"] == "published"].groupby("measure")["place"]
    assert published.mean().abs().max() < 1e-9 and published.std(ddof=1).tolist() == pytest.approx([1] * len(published))
    assert charts.draw_places(card, title="A title")._repr_png_()


def test_the_command_names_no_folder_of_this_machine(tmp_path):
    def model(nickname, hub_id):
        return SimpleNamespace(nickname=nickname, hub_id=hub_id)

    assert making.what_to_name(model("A-Gem-96", str(tmp_path))) == "A-Gem-96"
    assert making.what_to_name(model("mine", str(tmp_path))) == "<folder of mine>"
    assert making.what_to_name(model("name", "owner/name")) == "owner/name"


# --- bad input ----------------------------------------------------------------------------------------------------


def test_a_table_of_other_settings_is_refused_and_one_that_lacks_a_prompt_is_completed(
    monkeypatch, tmp_path, score_table
):
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    study, model = Collection("trial"), SimpleNamespace(nickname="m", revision="r")
    path = scores.path_of(study, "m")
    rewards = {prompt: np.arange(15) for prompt in texts.PROMPTS}
    scores.write(score_table(**rewards), path, {"revision": "r", "reply_mode": "ids", "bos": "single"})
    with pytest.raises(
        InputError, match=r"another reply_mode \(ids, not text\); delete it, or make the card in another"
    ):
        making.vocabulary_of(model, study)
    scores.write(score_table(**rewards), path, {"revision": "r", "reply_mode": "text", "bos": "single"})
    assert len(making.vocabulary_of(model, study)) == 15
    scores.write(score_table(), path, {"revision": "r", "reply_mode": "text", "bos": "single"})
    asked = []
    monkeypatch.setattr(
        "lib.card.making.scoring.score_vocabulary", lambda model, prompts, path, **o: asked.append(prompts)
    )
    making.vocabulary_of(model, study)
    assert asked == [texts.prompts()]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["no-such-model"], "no-such-model"),
        (["paper"], "'paper' names 10 reward models; a card is about one"),
        (["A-Gem-96", "--collection", "published-words"], "holds the scores that the authors published"),
    ],
)
def test_what_has_no_card_is_told_in_one_line(arguments, problem, capsys):
    assert run.main(["card", *arguments]) == 2
    told = capsys.readouterr().err.strip()
    assert problem in told and told.startswith("error: ") and "\n" not in told


# --- the whole ----------------------------------------------------------------------------------------------------


def test_the_card_of_a_small_model_is_made_from_nothing(monkeypatch, tmp_path, capsys):
    for study in (WORDS, ITEMS, EMBEDDED):
        kept = (tmp_path / study.figures.relative_to(ROOT)).joinpath
        kept().mkdir(parents=True)
        for table in (texts.TABLE, "card.csv"):
            if (study.figures / table).is_file():
                shutil.copy(study.figures / table, kept(table))
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    monkeypatch.setattr(others, "nouns", lambda: (None, "no network"))
    written = value_cards.make("A-Gem-96", "trial", device="cpu")
    content = json.loads(written.with_suffix(".json").read_text())
    assert content["missing"] == "no network" and "no network" in written.read_text()
    assert content["settings"]["tokens"] == 16384
    assert content["measures"][0]["key"] == "framing" and content["measures"][0]["estimate"] > 1.5
    assert "What A-Gem-96 values:" in capsys.readouterr().out
    again = json.loads(replace_command(written.with_suffix(".json").read_text()))
    committed = json.loads(replace_command((ROOT / "figures/embedded/card-A-Gem-96.json").read_text()))
    agree = {one["key"]: one["estimate"] for one in committed["measures"]}
    for one in again["measures"]:
        assert one["estimate"] == pytest.approx(agree[one["key"]], abs=0.15)  # models trained elsewhere differ a little


def replace_command(text: str) -> str:
    return text.replace("COLLECTION=trial", "COLLECTION=embedded")
