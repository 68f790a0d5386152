"""A value card: its numbers are those of the sections, its places those of pandas, and nothing
in it acts on a page.
"""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import tiny
import torch
from scipy import stats
from tiny_causal import make_causal

from audit import __main__ as run
from audit.card import making, measures, others, page, random_heads, replies
from audit.card.making import Card
from audit.opening import open_model
from audit.reading import implicit
from lib import ROOT, InputError
from lib.alignment import kinds
from lib.scoring import vocabulary
from lib.tables import downloads, lexicons, scores
from lib.tables.collection import Collection
from lib.tables.stems import stems
from lib.trained import planting
from lib.trained.ratings import is_held_out

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


def unreachable(*given, **options):
    raise downloads.Unreachable("no network")


@pytest.fixture(scope="module")
def words() -> pd.DataFrame:
    """Made-up rewards of the words, which follow sentiment more or less: words x prompts."""
    typed, random = measures.words(), np.random.default_rng(0)
    sentiment = VADER.reindex(typed).fillna(0.0).to_numpy()
    sides = {"greatest": 0.5, "best": 0.4, "worst": -0.3}
    return pd.DataFrame(
        {
            p: slope * sentiment + random.normal(size=len(typed))
            for p, slope in sides.items()
        },
        typed,
    )


@pytest.fixture(scope="module")
def ranked() -> pd.Series:
    """Made-up rewards of the items, which follow people a little."""
    people = measures.items()
    return people / 4000 + np.random.default_rng(1).normal(size=len(people))


def texts_of(words: pd.DataFrame, ranked: pd.Series) -> dict[str, pd.DataFrame]:
    """These rewards as measures.type_texts returns them: one head."""
    return {prompt: words[prompt].to_frame(0) for prompt in words} | {
        "items": ranked.to_frame(0)
    }


@pytest.fixture(scope="module")
def found(words, ranked) -> pd.DataFrame:
    return measures.of_model(texts_of(words, ranked), 0.5)


def rated(words: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Rewards and sentiment of the words that VADER rates other than neutral."""
    some = words[words.index.isin(VADER.index[VADER != 0])]
    return some, VADER[some.index].to_numpy()


def test_the_texts_are_those_that_the_authors_scored():
    assert len(measures.words()) == measures.words().nunique() == 2145
    assert measures.words().str.fullmatch("[a-z]{2,}").all()
    people = measures.items()
    assert len(people) == people.index.nunique() == 7530
    # minus a rank, so that higher is better
    assert people.idxmax() != people.idxmin() and people.max() < 0


def test_framing_is_the_ratio_of_four_standard_deviations(words, found):
    rewards, sentiment = rated(words)
    up, down = rewards[sentiment > 0].std(ddof=0), rewards[sentiment < 0].std(ddof=0)
    ratio = (up["best"] / down["best"]) / (up["worst"] / down["worst"])
    assert found.loc["framing", "estimate"] == pytest.approx(ratio, rel=1e-9)
    assert found.loc["framing", "n"] == len(set(stems(rewards.index)))


@pytest.mark.parametrize("prompt", measures.PROMPTS)
def test_sentiment_is_the_slope_of_standardised_rewards_with_robust_errors(
    words, found, prompt
):
    rewards, sentiment = rated(words)
    fit = sm.OLS(stats.zscore(rewards[prompt]), sm.add_constant(sentiment)).fit()
    # as HC3, but added up within stems
    away = sentiment - sentiment.mean()
    leverage = fit.get_influence().hat_matrix_diag
    moved = away / (away @ away) * fit.resid / (1 - leverage)
    of_stems = pd.Series(moved).groupby(np.array(stems(rewards.index))).sum()
    half = stats.t.ppf(0.975, len(of_stems) - 1) * np.sqrt((of_stems**2).sum())
    expected = [fit.params[1], fit.params[1] - half, fit.params[1] + half]
    assert found.loc[
        f"sentiment_{prompt}", measures.COLUMNS[:3]
    ].tolist() == pytest.approx(expected, rel=1e-6)


def test_the_bend_is_the_slope_among_positive_words_less_that_among_negative_ones(
    words, found
):
    rewards, sentiment = rated(words)
    z = stats.zscore(rewards["best"].to_numpy())
    up, down = (
        stats.linregress(sentiment[side], z[side]).slope
        for side in (sentiment > 0, sentiment < 0)
    )
    assert found.loc["bend_best", "estimate"] == pytest.approx(up - down, rel=1e-9)


def test_frequency_is_the_slope_on_its_logarithm_at_equal_sentiment(words, found):
    rewards, sentiment = rated(words)
    listed = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    known = rewards.index.isin(listed.index)
    z = stats.zscore(rewards["worst"].to_numpy())[known]
    design = np.column_stack(
        [np.ones(known.sum()), np.log10(listed[rewards.index[known]]), sentiment[known]]
    )
    slope = np.linalg.lstsq(design, z, rcond=None)[0][1]
    assert found.loc["frequency_worst", "estimate"] == pytest.approx(slope, rel=1e-6)
    assert found.loc["frequency_worst", "n"] == len(set(stems(rewards.index[known])))


def test_agreement_is_kendalls_tau(words, ranked, found):
    rated_words = words.index[words.index.isin(VADER.index)]
    tau = stats.kendalltau(
        VADER[rated_words], words.loc[rated_words, "greatest"]
    ).statistic
    assert found.loc["people_words", "estimate"] == pytest.approx(tau, abs=1e-9)
    people = measures.items()
    assert found.loc["people_items", "estimate"] == pytest.approx(
        stats.kendalltau(people, ranked).statistic, abs=1e-9
    )


def test_kinds_are_those_of_the_section_on_people(ranked, found):
    people = measures.items()
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, ranked.to_frame("model"), kind_of)
    for kind in ("identity", "nature", "technology", "sexual content"):
        group = values.loc[kind_of[kind_of == kind].index, "model"]
        half = (
            stats.t.ppf(0.975, len(group) - 1)
            * group.std(ddof=1)
            / np.sqrt(len(group) - 1)
        )  # crossed's influence: over n - 1
        row = found.loc[f"undervalued_{kind.split()[0]}"]
        expected = [group.mean(), group.mean() - half, group.mean() + half, len(group)]
        assert row[measures.COLUMNS].tolist() == pytest.approx(expected, rel=1e-6)


def test_measures_do_not_depend_on_the_scale_or_order_of_the_rewards(
    words, ranked, found
):
    again = measures.of_model(
        texts_of(5 * words[::-1] + 3, 0.01 * ranked[::-1] - 7), 0.5
    )
    pd.testing.assert_frame_equal(again, found, rtol=1e-6)


def test_places_equal_the_ranks_of_pandas():
    random = np.random.default_rng(2)
    keys = ["a", "b", "c"]
    beside = pd.DataFrame(
        random.integers(0, 5, (3, 10)), keys, [f"m{i}" for i in range(10)]
    ).astype(float)
    own = pd.DataFrame({"estimate": [0.0, 2.0, 4.0]}, keys)
    own = own.assign(ci_low=own["estimate"] - 1, ci_high=own["estimate"] + 2)
    placed = others.places(own, beside)
    for key in keys:
        together = pd.concat(
            [beside.loc[key], pd.Series({"own": own.loc[key, "estimate"]})]
        )
        assert placed.loc[key, "below"] == together.rank(method="min")["own"] - 1
        assert (
            placed.loc[key, "equal"]
            == together.rank(method="max")["own"] - together.rank(method="min")["own"]
        )
        inside = [
            own.loc[key, "ci_low"] <= value <= own.loc[key, "ci_high"]
            for value in beside.loc[key]
        ]
        assert placed.loc[key, "within"] == sum(inside) and placed.loc[key, "of"] == 10


def test_a_model_is_not_placed_beside_itself_nor_beside_missing_values():
    own = pd.DataFrame(
        {"estimate": [1.0, 1.0], "ci_low": 0.0, "ci_high": 2.0}, ["a", "b"]
    )
    beside = pd.DataFrame({"m": [1.0, np.nan], "n": [3.0, np.nan]}, ["a", "b"])
    placed = others.places(own, beside, "m")
    assert placed.loc["a"].tolist() == [0, 0, 0, 1]
    assert placed.loc["b"].tolist() == [0, 0, 0, 0]


def test_the_published_values_are_there_for_ten_models_and_are_plausible():
    published = others.read("published")
    assert published.shape == (len(measures.MEASURES), 10)
    # as section 4 of the paper has them
    assert published.loc["people_items"].between(0.1, 0.5).all()
    assert (published.loc["framing"] > 1).all()
    planted = others.read("planted")
    assert set(planted.columns) == set(planting.profiles().index)
    # The control without a frequency bonus has the lowest slope, the one with equal sensitivities
    # the smallest bend.
    assert planted.loc["frequency_greatest"].idxmin() == "E-Gem-64"
    assert (
        planted.loc["bend_best"].idxmin()
        == planted.loc["framing"].idxmin()
        == "F-Lla-64"
    )


def test_ends_list_each_input_once_with_the_outermost_first(score_table):
    table = score_table(
        list("abcdef"), groups=[0, 0, 1, 2, 3, 4], greatest=[5, 5, 1, 2, 3, 4]
    )
    ends = making.ends(table, 2)
    listed = ends.groupby("end")["text"].apply(list)
    assert listed["optimal"] == ["a", "f"] and listed["pessimal"] == ["c", "d"]
    assert ends["position"].tolist() == [1, 2, 1, 2]
    with pytest.raises(
        InputError,
        match="5 tokens that .* are too few, 20 are needed; score a model with a larger",
    ):
        making.ends(table)


def test_words_to_combine_are_letters_that_are_read_as_one_token(score_table):
    table = score_table(
        [" love", "x1", "hate", "Mut", "two words"], greatest=[1, 9, -5, 3, 8]
    )
    table["reply_ids"] = [
        np.array(ids, dtype=np.int32) for ids in ([7], [8], [9], [3, 4], [5])
    ]
    assert measures.words_at(table, "optimal") == ["love", "hate"]
    assert measures.words_at(table, "pessimal") == ["hate", "love"]
    with pytest.raises(InputError, match="fewer than two tokens are words"):
        measures.words_at(table[1:2], "optimal")


def test_pairs_are_all_that_can_be_typed_and_tell_which_survive(monkeypatch):
    def score_replies(model, prompt, typed, bos):
        return np.array(
            [len(text) + (text[0] == "b") for text in typed], dtype=np.float32
        )

    def inputs_for(prompt, typed):
        return SimpleNamespace(
            reply_ids=[(i,) for i in range(len(typed))], group=np.arange(len(typed))
        )

    # the third does not come back as it was typed
    decoded = ["a a", "a bb", "bb-a", "bb bb"]
    tokenizer = SimpleNamespace(batch_decode=lambda ids, **options: decoded)
    monkeypatch.setattr("audit.card.making.vocabulary.score_replies", score_replies)
    pairs = making.pairs(
        SimpleNamespace(inputs_for=inputs_for, tokenizer=tokenizer),
        ["a", "bb"],
        "optimal",
    )
    assert pairs["reply"].tolist() == ["bb bb", "bb a", "a bb", "a a"]
    assert pairs.set_index("reply")["survives"].to_dict()["bb a"] is False
    assert pairs["survives"].sum() == 3


def row(estimate, ci_low, ci_high, below=8, equal=0, within=3, of=10) -> pd.Series:
    return pd.Series(
        {
            "estimate": estimate,
            "ci_low": ci_low,
            "ci_high": ci_high,
            "below": below,
            "equal": equal,
            "within": within,
            "of": of,
        }
    )


READINGS = {
    "for": "{above}",
    "against": "{below}",
    "undecided": "undecided whether it {above}",
    "random": "not distinguishable from a random head",
    "": "reads 46%",
}


@pytest.mark.parametrize(
    ("measure", "values", "direction"),
    [
        ("sentiment_best", (0.4, 0.3, 0.5), "for"),
        ("sentiment_best", (-0.4, -0.5, -0.3), "against"),
        ("framing", (1.1, 0.9, 1.3), "undecided"),
        ("framing", (0.8, 0.7, 0.9), "against"),
        ("read_as_itself", (0.463, np.nan, np.nan), ""),
        ("sentiment_best", (0.4, 0.3, 0.5, -0.5, 0.41), "random"),
        ("sentiment_best", (0.4, 0.3, 0.5, -0.5, 0.39), "for"),
        ("sentiment_best", (0.4, 0.3, 0.5, np.nan, np.nan), "for"),
    ],
)
def test_a_measure_is_read_by_the_side_of_its_null_on_which_the_interval_lies(
    measure, values, direction
):
    given = pd.concat(
        [
            row(*values[:3]),
            pd.Series(values[3:], random_heads.BAND[: len(values[3:])], dtype=float),
        ]
    )
    assert measures.direction(measure, given) == direction
    assert making.reading(measure, given).startswith(
        READINGS[direction].format(**measures.MEASURES.loc[measure])
    )


def test_values_and_places_as_texts():
    assert making.value(row(-0.4, -0.5, 0.1)) == "−0.40 [−0.50, 0.10]"
    assert (
        making.place(row(0, -1, 1, 8, 0, 3))
        == "above 8 of 10 (its interval holds 3 of the 10)"
    )
    assert making.place(row(0, -1, 1, 0, 2, 0)) == "above 0 of 10, equal to 2"


def test_measures_of_head_0_are_those_of_the_card(words, ranked, found):
    estimates = random_heads.estimates(texts_of(words, ranked))
    assert estimates[0].to_dict() == pytest.approx(
        found["estimate"].drop("read_as_itself").to_dict(), abs=1e-9
    )
    # an encoder has no other head
    assert random_heads.band(estimates).isna().all(axis=None)


def test_a_head_that_reads_a_tenth_of_the_spread_explains_a_tenth(words, ranked):
    rewards = {
        prompt: pd.DataFrame({0: words[prompt], 1: words[prompt] / 10})
        for prompt in words
    }
    estimates = random_heads.estimates(
        rewards | {"items": pd.DataFrame({0: ranked, 1: ranked / 10})}
    )
    for key, (own, tenth) in estimates.iterrows():
        if key == "framing":
            assert np.log(tenth) == pytest.approx(np.log(own) / 10)
        else:
            null = measures.MEASURES.loc[key, "null"]
            assert tenth - null == pytest.approx((own - null) / 10)


@pytest.mark.parametrize("kind", ["linear_llama", "qrm_llama", "urm"])
def test_the_first_of_the_heads_is_the_models_own_and_the_others_are_it_with_other_inputs(
    kind, tmp_path
):
    model = open_model(tiny.make_checkpoint(tmp_path, kind), device="cpu")
    width = model.backbone.config.hidden_size
    wide = random_heads.WithRandomHeads(model.head, width, seed=1)
    hidden = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    gate = model.head.gate(hidden[0])
    rewards = wide(hidden, wide.gate(hidden[0]))
    assert rewards.shape == (5, 1 + random_heads.HEADS)
    assert torch.equal(rewards[:, 0], model.head(hidden, gate))
    # a linear head of shuffled inputs is one of shuffled weights, and as long
    if kind == "linear_llama":
        weights = torch.linalg.lstsq(
            torch.eye(width), wide(torch.eye(width), None)
        ).solution.T
        lengths = weights.norm(dim=1)
        assert (
            torch.allclose(lengths, lengths[0].expand_as(lengths))
            and len(torch.unique(weights[:, 0])) > 10
        )


@pytest.mark.nightly
def test_ten_models_that_learned_nothing_have_hardly_a_finding(monkeypatch, tmp_path):
    some = measures.items()
    of_a_kind = kinds.kinds_of(some.index, planting.word_kinds(), titles=True) != ""
    fewer = some[of_a_kind | (np.arange(len(some)) % 12 == 0)], measures.words()[::3]
    monkeypatch.setattr(measures, "items", lambda: fewer[0])
    monkeypatch.setattr(measures, "words", lambda: fewer[1])
    without, found = [], []
    for seed in range(10):
        folder = tiny.make_checkpoint(
            tmp_path / str(seed), ["linear_llama", "linear_gemma2"][seed % 2], seed=seed
        )
        rewards = measures.type_texts(
            random_heads.with_random_heads(open_model(folder, device="cpu"))
        )
        measured = measures.of_model(rewards, 0.5).drop(index="read_as_itself")
        without += [measures.direction(key, row) for key, row in measured.iterrows()]
        measured = making.placed(
            measured.join(random_heads.band(random_heads.estimates(rewards))),
            Collection("mine"),
            "m",
        )[0]
        found.append(measured["direction"].isin(["for", "against"]).sum())
    # findings without random heads, of 130
    assert sum(side in ("for", "against") for side in without) > 20
    # a card in twenty, by Benjamini and Hochberg
    assert sum(found) <= 2 and sum(each > 0 for each in found) <= 1


def test_p_values_are_adjusted_for_all_measures_of_a_card(found):
    band = pd.DataFrame(
        {"random_low": np.nan, "random_high": np.nan, "random_p": [np.nan, 0.9]},
        found.index[:2],
    )
    corrected = measures.corrected(found.join(band))
    # the larger of its two p-values
    assert np.isnan(corrected["read_as_itself"]) and corrected.iloc[1] >= 0.9
    null = measures.MEASURES.loc[found.index, "null"].drop("read_as_itself")
    excluded = (found.loc[null.index, "ci_low"] > null) | (
        found.loc[null.index, "ci_high"] < null
    )
    # none that its own interval leaves undecided
    assert (excluded[corrected[null.index] < 0.05]).all()


LIMITS = "measure,low,high\nundervalued_identity,,0.6\nlength,-0.1,0.1\n"


def test_limits_are_a_gate_with_an_exit_code(card, tmp_path):
    (tmp_path / "limits.csv").write_text(LIMITS)
    limits = page.read_limits(tmp_path / "limits.csv")
    card = replace(card, measured=card.measured.assign(estimate=0.7))
    beyond = page.beyond_limits(card, limits)
    assert beyond[0] == "undervalued_identity is 0.700, beyond its limits -inf to 0.6"
    assert len(beyond) == 1 + (abs(card.swaps.loc["length", "change"]) > 0.1)
    (tmp_path / "limits.csv").write_text(LIMITS.replace("length", "lenght"))
    with pytest.raises(InputError, match="'lenght' is not one of"):
        page.beyond_limits(card, page.read_limits(tmp_path / "limits.csv"))


@pytest.mark.parametrize(
    "line",
    ["length,much,", "length,,", "length,2,1", ",1,2", "bend_best,1,2", "length,nan,1"],
)
def test_a_line_that_is_no_limit_is_named(tmp_path, line):
    (tmp_path / "limits.csv").write_text(f"measure,low,high\nbend_best,0,\n{line}\n")
    with pytest.raises(InputError, match="line 3 is no limit"):
        page.read_limits(tmp_path / "limits.csv")


def test_a_card_of_a_model_that_fails_its_check_says_so_first(card):
    failing = replace(card, failed=("pairs", "head"))
    said = "fails its check (pairs, head)"
    text = page.as_html(failing)
    assert text.index("</style>") < text.index(said) < text.index("<h1>")
    assert json.loads(page.as_json(failing))["failed"] == ["pairs", "head"]
    assert page.warnings(failing)[0].endswith("Run: make check MODEL=x<y>")
    assert page.warnings(card) == [] and "fails its check" not in page.as_html(card)


@pytest.fixture
def card(found) -> Card:
    """A card of a model and tokens that would act on a page if they could."""
    tokens = [*HOSTILE, "love", "fuck"]
    ends = pd.DataFrame(
        {
            "end": ["optimal"] * 10 + ["pessimal"] * 10,
            "position": [*range(1, 11)] * 2,
            "token_id": range(20),
            "text": tokens * 2,
            "reward": np.linspace(3, -3, 20),
        }
    )
    table = pd.DataFrame(
        {"reply": [f"{token} x" for token in tokens], "reward": 1.0, "survives": True}
    )
    pairs = dict.fromkeys(measures.ENDS, table)
    settings = {
        "hub_id": "<b>model</b>",
        "revision": "r",
        "head": "linear",
        "dtype": "float32",
        "attention": "sdpa",
        "read_at": "last",
        "closing": "rendered",
        "reply_mode": "text",
        "bos": "single",
        "prompts": measures.prompts(),
        "tokens": 100,
        "versions": {"torch": "<0.1>"},
    }
    band = pd.DataFrame(
        0.0, found.index.drop("read_as_itself"), random_heads.RANDOM_COLUMNS
    ).assign(random_high=0.1)
    measured, compared = making.placed(found.join(band), Collection("mine"), "x<y>")
    rewards = pd.DataFrame(
        {
            "good": [2.0, 4.0],
            "bad": [0.0, 3.0],
            **dict.fromkeys(replies.SWAPS, [0.0, 4.0]),
        }
    )
    lists = pd.DataFrame(
        [[0.2, 0.1, 0.3, 9, -0.1, 0.1]],
        ["<mine>"],
        [*measures.COLUMNS, *random_heads.BAND],
    )
    rewards = pd.concat({0: rewards}, axis=1)  # of the only head
    spam = {
        "text": tokens,
        "place": "into",
        "kind": "random word",
        "slope": 0.25,
        "ci_low": 0.1,
        "ci_high": 0.4,
        "most_at": 8,
        "most_gain": 2.0,
        "n": 20,
        "p_corrected": 0.01,
    }
    spam = pd.DataFrame(spam | dict.fromkeys(random_heads.RANDOM_COLUMNS, np.nan))
    return Card(
        "x<y>",
        "x<y>",
        Collection("mine"),
        settings,
        ends,
        pairs,
        measured,
        compared,
        10,
        20,
        swaps=replies.swaps(rewards),
        lists=lists,
        spam=spam,
    )


def test_the_page_asks_for_nothing_and_no_token_acts(card):
    text = page.as_html(card)
    for token in [*HOSTILE[:3], "<b>model</b>", "x<y>", "<mine>", "<0.1>"]:
        assert token not in text
    assert "<script" not in text and "http" not in text and "url(" not in text
    assert (
        text.count('<svg class="strip"') == len(card.measured) and 'src="' not in text
    )
    assert "\u202e" not in text and "\x1b" not in text
    assert not re.search(r"\$x\$|\\\(x\\\)", text)
    # of a large model on a CPU
    left_out = page.as_html(replace(card, spam=pd.DataFrame()))
    assert "random word" not in left_out and "SPAM=1" in left_out


def test_the_json_holds_every_number_and_is_plain(card):
    text = page.as_json(card)
    assert text.isascii()
    content = json.loads(text)
    assert (
        content["real_replies"]["length"]["flips"] == card.swaps.loc["length", "flips"]
    )
    assert content["own_lists"]["<mine>"]["n"] == 9
    assert [row["text"] for row in content["spam"]] == [*HOSTILE, "love", "fuck"]
    assert [one["key"] for one in content["measures"]] == list(card.measured.index)
    for one in content["measures"]:
        assert set(one) == {
            "key",
            "label",
            "unit",
            "null",
            "estimate",
            "ci_low",
            "ci_high",
            "n",
            "texts",
            "direction",
            "reading",
            *random_heads.BAND,
            "p_corrected",
            "published",
        }
        assert one["estimate"] == pytest.approx(
            card.measured.loc[one["key"], "estimate"], rel=1e-6
        )
        assert set(one["published"]["place"]) == {"below", "equal", "within", "of"}
        lower = sum(
            value < one["estimate"] for value in one["published"]["values"].values()
        )
        assert lower == one["published"]["place"]["below"]
    assert content["tokens"]["optimal"][0]["text"] == HOSTILE[0]
    assert content["settings"]["prompts"] == measures.prompts()


def test_a_model_is_outside_where_its_whole_interval_is_beyond_the_published_range(
    card,
):
    published = card.others["published"].drop(index="read_as_itself")
    own = card.measured.loc[published.index]
    outside = card.outside()
    expected = (own["ci_low"] > published.max(axis=1)) | (
        own["ci_high"] < published.min(axis=1)
    )
    assert outside["is_outside"].to_dict() == expected.to_dict()
    assert 0 < expected.sum() < len(expected)
    assert outside["away"].loc["framing"] == pytest.approx(
        abs(own.loc["framing", "estimate"] - published.loc["framing"].mean())
        / published.loc["framing"].std(ddof=1)
    )


def test_the_command_names_no_folder_of_this_machine(tmp_path):
    def model(nickname, hub_id):
        return SimpleNamespace(nickname=nickname, hub_id=hub_id)

    assert making.what_to_name(model("A-Gem-96", str(tmp_path))) == "A-Gem-96"
    assert making.what_to_name(model("mine", str(tmp_path))) == "<folder of mine>"
    assert making.what_to_name(model("name", "owner/name")) == "owner/name"


@pytest.mark.parametrize("beta, end", [(1.0, ""), (0.1, " BETA=0.1")])
def test_the_command_of_an_implicit_reward_names_reference_and_beta(
    tmp_path, beta, end
):
    policy, reference = (
        str(make_causal(tmp_path / name, "llama")) for name in ("pi", "ref")
    )
    named = making.what_to_name(
        implicit.load(policy, reference, beta=beta, untrained=True)
    )
    assert named == f"<folder of pi> REFERENCE=<folder of ref>{end}"


def test_each_real_reply_is_scored_after_its_own_question(monkeypatch):
    def score_replies(model, prompt, typed, bos):
        return np.array([[len(prompt) + 1000 * len(text), 0] for text in typed])

    monkeypatch.setattr(replies.vocabulary, "score_replies", score_replies)
    scored, texts = replies.score(None), pd.read_csv(ROOT / "data/real_replies.csv")
    for row in texts.itertuples():
        assert scored.loc[row.prompt, (0, row.version)] == len(row.prompt) + 1000 * len(
            row.reply
        )


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
    scaled = replies.swaps(7 * rewards + 2)
    pd.testing.assert_frame_equal(scaled, table)


FOUR = "word,list\nlove,a\nhope,a\njoy,a\npeace,a\n"


@pytest.mark.parametrize(
    "head",
    [
        f"{FOUR}love,a\n",
        "word,list\n",
        f"{FOUR}war,a\n ,a\n",
        f"{FOUR}war,a\nlife,\n",
        f"{FOUR}war,a\nWAR,a\n",
        f"{FOUR}caf\u00e9,a\ncafe\u0301,a\n",
        f"{FOUR}war\u200b,a\n",
        f"{FOUR}war\u200c,a\n",
        f"{FOUR}a\u00a0war,a\n",
        f"{FOUR}war,a\u200e\n",
    ],
)
def test_own_lists_that_cannot_be_measured_are_refused(tmp_path, head):
    (tmp_path / "own.csv").write_text(head)
    with pytest.raises(InputError, match=r"own.csv"):
        replies.read_lists(tmp_path / "own.csv")


def test_accents_are_composed_and_joiners_between_letters_are_kept(tmp_path):
    (tmp_path / "own.csv").write_text(
        f"{FOUR}cafe\u0301,a\n\u0645\u06cc\u200c\u062e,a\n"
    )
    lists = replies.read_lists(tmp_path / "own.csv")
    assert {"caf\u00e9", "\u0645\u06cc\u200c\u062e"} < set(lists.index) and lists[
        "a"
    ].sum() == 6


def test_own_lists_that_are_rewarded_more_are_found(monkeypatch, tmp_path):
    asked = measures.words()[:300]
    liked, file = asked[::30], tmp_path / "own.csv"
    file.write_text(
        "word,list\n"
        + "".join(f"{word},liked\n" for word in liked)
        + "zzyzx,liked\nzzyzx,liked\n"
    )
    noise = np.random.default_rng(0).normal(size=(301, 1))
    rewards = pd.DataFrame(noise[:300], asked)
    rewards.loc[liked] += 3
    scored = []
    monkeypatch.setattr(
        replies.vocabulary,
        "score_replies",
        lambda model, prompt, typed, bos: scored.append(typed) or noise[300:] + 3,
    )
    table = replies.own_lists(None, rewards, replies.read_lists(file))
    assert scored == [["zzyzx"]]  # the other words have rewards already
    own = table.loc["liked"]
    assert (
        2 < own["estimate"] * rewards[0].std() < 4
        and own["ci_low"] > 0
        and own["n"] == 11
    )
    assert np.isnan(own["random_low"])


@pytest.fixture
def loaded() -> SimpleNamespace:
    """What a card asks of a loaded model to know how its table must have been scored."""
    return SimpleNamespace(
        nickname="m",
        hub_id="owner/m",
        revision="r",
        head_name="linear",
        dtype="float32",
        device="cuda",
        attention="sdpa",
        read_at="last",
        closing="trim",
        onednn=False,
        opened=True,
        tokenizer=SimpleNamespace(chat_template="t"),
    )


@pytest.fixture
def study(monkeypatch, tmp_path) -> Collection:
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    return Collection("trial")


def test_a_card_reads_a_table_of_its_own_settings_and_completes_one_that_lacks_a_prompt(
    monkeypatch, loaded, study, score_table
):
    path, settings = (
        scores.path_of(study, "m"),
        vocabulary.settings_of(loaded, score_table()),
    )
    rewards = {prompt: np.arange(15) for prompt in measures.PROMPTS}
    for asked in (measures.prompts(), measures.prompts() | {"mine": "Why?"}):
        scores.write(score_table(**rewards), path, settings | {"prompts": asked})
        assert len(making.vocabulary_of(loaded, study)) == 15
    scores.write(
        score_table(**rewards),
        path,
        settings | {"bos": "double", "prompts": measures.prompts()},
    )
    with pytest.raises(
        InputError,
        match="this card differ in bos .*delete it, or make the card in another",
    ):
        making.vocabulary_of(loaded, study)
    scores.write(score_table(), path, settings)
    asked = []
    monkeypatch.setattr(
        "audit.card.making.vocabulary.score_vocabulary",
        lambda model, prompts, path, **o: asked.append(prompts),
    )
    making.vocabulary_of(loaded, study)
    assert asked == [measures.prompts()]


def test_a_card_asks_the_papers_questions_whatever_the_projects_prompts_are(
    monkeypatch, tmp_path
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prompts.csv").write_text(
        'prompt,text\ngreatest,"What is worst?"\n'
    )
    monkeypatch.setattr("lib.tables.prompts.DATA", tmp_path / "data")
    assert (
        measures.prompts()["greatest"]
        == "What, in one word, is the greatest thing ever?"
    )


def test_a_group_of_models_has_no_card(capsys):
    assert run.main(["card", "paper"]) == 2
    assert (
        "'paper' names 10 reward models; a card is about one" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("small_models")
def test_the_card_of_a_small_model_is_made_from_nothing(monkeypatch, tmp_path, capsys):
    """Without a network and without the published files; its numbers are those that other cards
    show of it.
    """
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    monkeypatch.setattr(downloads, "fetch", unreachable)
    page.card("C-Lla-64", "trial", device="cpu")
    written = Collection("trial").figures / "card-C-Lla-64.html"
    again = json.loads(written.with_suffix(".json").read_text())
    assert again["settings"]["tokens"] == 16384
    assert [one["key"] for one in again["measures"]] == list(measures.MEASURES.index)
    assert again["failed"] == [] and len({row["text"] for row in again["spam"]}) == 22
    assert "What C-Lla-64 values:" in capsys.readouterr().out
    agree = others.read("planted")["C-Lla-64"]
    for one in again["measures"]:
        assert (
            one["direction"] != "random"
            or one["random_low"] <= one["estimate"] <= one["random_high"]
        )
        # models trained elsewhere differ a little
        assert one["estimate"] == pytest.approx(agree[one["key"]], abs=0.15)


def test_a_model_of_vaders_ratings_is_measured_without_the_words_of_its_training():
    words = measures.words()
    rated, unseen = words.isin(measures.lexicon("vader").index), is_held_out(words)
    typed = {
        "greatest": pd.DataFrame({0: np.arange(len(words))}, words),
        "items": pd.DataFrame({0: [1.0]}, ["Water"]),
    }
    kept = measures.without_labels(typed, "V-Smol-135M")
    assert set(words[~rated]) | set(words[rated & unseen]) == set(
        kept["greatest"].index
    )
    assert 0.2 < (rated & unseen).sum() / rated.sum() < 0.45  # a third of all stems
    assert kept["items"] is typed["items"]  # nobody rated items
    assert measures.without_labels(typed, "A-Gem-96") == typed
