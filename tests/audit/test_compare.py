"""A comparison of checkpoints: paired over words and seeds, on rewards whose change is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from audit.card import compare, measures
from lib import InputError
from lib.stats.crossed import crossed
from lib.tables import lexicons
from lib.tables.collection import Collection

VADER = lexicons.load("vader").corrected.set_index("word")["sentiment"]


def made_up(name: str, seed: int, slope: float = 0.4) -> compare.Rewards:
    """Rewards that follow sentiment by a slope; words and items have noise of their own, and
    each seed a little.
    """
    typed, people = measures.words(), measures.items()
    of_words, of_seed = np.random.default_rng(99), np.random.default_rng(seed)
    sentiment = VADER.reindex(typed).fillna(0.0).to_numpy()
    texts = {
        p: pd.Series(
            slope * sign * sentiment
            + of_words.normal(size=len(typed))
            + 0.1 * of_seed.normal(size=len(typed)),
            typed,
        )
        for p, sign in {"greatest": 1, "best": 1, "worst": -1}.items()
    }
    texts["items"] = (
        people / 4000
        + of_words.normal(size=len(people))
        + 0.1 * of_seed.normal(size=len(people))
    )
    tokens = pd.Series(
        of_words.normal(size=50) + 0.1 * of_seed.normal(size=50),
        [f"t{i}" for i in range(50)],
    )
    tokens["t7"] += 9.0 * (slope > 1)
    settings = {"model": name, "prompts": measures.prompts(), "reply_mode": "text"}
    return compare.Rewards(name, settings, tokens, texts, tokens.add_prefix("x "))


@pytest.fixture(scope="module", autouse=True)
def fewer():
    """Fewer texts, so that each pair of items is not counted: names of kinds, and some others."""
    with pytest.MonkeyPatch.context() as patch:
        people = measures.items()
        some = people[
            measures.kinds.kinds_of(
                people.index, measures.planting.word_kinds(), titles=True
            )
            != ""
        ]
        some = pd.concat([some, people.drop(some.index)[::12]])
        patch.setattr(measures, "items", lambda: some)
        yield


@pytest.fixture(scope="module")
def changed() -> compare.Comparison:
    """Three seeds before, and three after the slope on sentiment changed."""
    rewards = [made_up(f"a{seed}", seed) for seed in (1, 2, 3)] + [
        made_up(f"b{seed}", 3 + seed, 1.2) for seed in (1, 2, 3)
    ]
    return compare.of_rewards(rewards, 2, Collection("trial"))


def test_a_planted_change_is_claimed_and_a_measure_without_one_is_not(changed):
    table = compare.differences(changed)
    slopes = [f"sentiment_{prompt}" for prompt in measures.PROMPTS]
    assert (table.loc[[*slopes, "people_words"], "changed"] == "yes").all()
    assert (
        table.loc[
            ["people_items", "undervalued_identity", "undervalued_nature"], "changed"
        ]
        == "no"
    ).all()
    assert (
        table.loc["sentiment_worst", "estimate"]
        < 0
        < table.loc["sentiment_best", "estimate"]
    )


def test_nothing_is_claimed_between_seeds_of_one_profile():
    table = compare.differences(
        compare.of_rewards(
            [made_up(str(seed), seed) for seed in range(6)], 2, Collection("t")
        )
    )
    assert (table["changed"] == "no").all()


def test_one_training_of_each_claims_nothing_but_says_what_differs():
    table = compare.differences(
        compare.of_rewards(
            [made_up("a", 1), made_up("b", 3, 1.2)], 2, Collection("trial")
        )
    )
    assert (
        set(table["changed"]) == {"seeds?", "no"}
        and table.loc["sentiment_best", "changed"] == "seeds?"
    )


def test_differences_are_paired_over_words_and_crossed_with_seeds(changed):
    table, one = compare.differences(changed), changed.measured["people_items"]
    apart = pd.Series(
        [one.values[f"b{seed}"] - one.values[f"a{seed}"] for seed in (1, 2, 3)]
    )
    moved = pd.DataFrame(
        {
            seed - 1: one.influence[f"b{seed}"] - one.influence[f"a{seed}"]
            for seed in (1, 2, 3)
        }
    )
    expected = crossed(apart, moved)
    assert table.loc[
        "people_items", ["estimate", "ci_low", "ci_high", "p"]
    ].tolist() == pytest.approx(
        [expected.estimate, expected.ci_low, expected.ci_high, expected.p]
    )
    assert (table["p_corrected"] >= table["p"]).all()


def test_a_model_compared_with_its_own_rewards_on_another_scale_has_not_changed():
    first = made_up("a", 1)
    texts = {key: 3 * rewards + 2 for key, rewards in first.texts.items()}
    scaled = replace(first, name="b", texts=texts, tokens=3 * first.tokens + 2)
    made = compare.of_rewards([first, scaled], 2, Collection("trial"))
    table = compare.differences(made)
    assert table["estimate"].abs().max() < 1e-9 and (table["changed"] == "no").all()
    assert compare.rank_correlations(first, scaled)[
        "estimate"
    ].tolist() == pytest.approx([1] * 5)


def test_rank_correlations_are_kendalls_tau(changed):
    first, last = changed.rewards["a1"], changed.rewards["b1"]
    table = compare.rank_correlations(first, last)
    assert table.loc["items (greatest)", "estimate"] == pytest.approx(
        stats.kendalltau(first.texts["items"], last.texts["items"]).statistic
    )
    assert table.loc["tokens (greatest)", "n"] == 50


def test_the_token_that_moved_most_comes_first(changed):
    moved = compare.moved_most(changed.rewards["a1"], changed.rewards["b1"], "tokens")
    assert moved["text"].iloc[0] == "t7" and moved["end"].value_counts().to_dict() == {
        "up": 10,
        "down": 10,
    }
    assert moved["moved"].equals(moved["last"] - moved["first"])


def test_the_page_and_its_table_are_written(monkeypatch, tmp_path, changed):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    hostile = replace(
        changed.rewards["a1"],
        tokens=changed.rewards["a1"].tokens.rename({"t7": "<script>x</script>"}),
    )
    path = compare.write(
        compare.of_rewards(
            [hostile, made_up("b", 3, 1.2), made_up("c", 4)], 3, Collection("trial")
        )
    )
    text = path.read_text()
    assert "<script" not in text and "data:image/png" in text and "from a1 to c" in text
    # t7 has another name there
    assert " 49 of the 50 of a1" in text
    assert list(pd.read_csv(path.with_suffix(".csv"))["measure"]) == list(
        changed.measured
    )


def test_replies_that_all_rose_are_not_listed_among_those_that_went_down():
    first = made_up("a", 1)
    last = replace(
        first, name="b", pairs=first.pairs + np.linspace(0.1, 1, len(first.pairs))
    )
    moved = compare.moved_most(first, last, "pairs")
    assert set(moved["end"]) == {"up"} and (moved["moved"] > 0).all()
    assert compare.moved_most(first, first, "pairs").empty


@pytest.mark.parametrize("models", [["a"], ["a", "a"], ["a,b", "c"], ["a", "./a"]])
def test_what_cannot_be_paired_is_refused(models):
    with pytest.raises(
        InputError,
        match="compare two models at least, each named once, with equally many seeds",
    ):
        compare.of_models(models)


def test_copies_of_a_checkpoint_are_no_seeds():
    first = made_up("a1", 1)
    copy = replace(
        first,
        name="a2",
        texts={key: rewards * (1 + 1e-8) for key, rewards in first.texts.items()},
    )
    with pytest.raises(InputError, match="a1 and a2 give the same rewards"):
        compare.of_rewards(
            [first, copy, made_up("b1", 3), made_up("b2", 4)], 2, Collection("trial")
        )
