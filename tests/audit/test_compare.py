"""A comparison of checkpoints: paired over words and seeds, on rewards whose change is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import refusal_of
from test_callback import patch_fewer

from audit.card import compare, measures
from lib.stats.crossed import crossed
from lib.tables import lexicons
from lib.tables.collection import Collection

VADER = lexicons.load("vader").corrected.set_index("word")["sentiment"]


def made_up(name: str, seed: int, slope: float = 0.4) -> compare.Rewards:
    """Rewards that follow sentiment by a slope; words and items have noise of their own, and
    each seed a little.
    """
    of_words, of_seed = np.random.default_rng(99), np.random.default_rng(seed)

    def noise(n: int) -> np.ndarray:
        return of_words.normal(size=n) + 0.1 * of_seed.normal(size=n)

    typed, people = measures.words(), measures.items()
    sentiment = slope * VADER.reindex(typed).fillna(0.0).to_numpy()
    texts = {
        prompt: pd.Series(side * sentiment + noise(len(typed)), typed)
        for prompt, side in {"greatest": 1, "best": 1, "worst": -1}.items()
    }
    texts["items"] = people / 4000 + noise(len(people))
    tokens = pd.Series(noise(50)).add_prefix("t")
    tokens["t7"] += 9.0 * (slope > 1)
    settings = {"model": name, "prompts": measures.prompts(), "reply_mode": "text"}
    return compare.Rewards(name, settings, tokens, texts)


@pytest.fixture(scope="module", autouse=True)
def fewer():
    """Fewer texts, so that each pair of items is not counted: names of kinds, and some others."""
    with pytest.MonkeyPatch.context() as patch:
        patch_fewer(patch)
        yield


@pytest.fixture(scope="module")
def changed() -> compare.Comparison:
    """Three seeds before, and three after the slope on sentiment changed."""
    first = [made_up(f"a{seed}", seed) for seed in (1, 2, 3)]
    last = [made_up(f"b{seed}", 3 + seed, 1.2) for seed in (1, 2, 3)]
    return compare.of_rewards(first, last, Collection("trial"))


def test_a_planted_change_is_claimed_and_a_measure_without_one_is_not(changed):
    table = compare.differences(changed)
    moved = [f"sentiment_{prompt}" for prompt in measures.PROMPTS] + ["people_words"]
    same = ["people_items", "undervalued_identity", "undervalued_nature"]
    assert (table.loc[moved, "changed"] == "yes").all()
    assert (table.loc[same, "changed"] == "no").all()
    up, down = table.loc[["sentiment_best", "sentiment_worst"], "estimate"]
    assert down < 0 < up


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
    made = compare.of_rewards([first], [scaled], Collection("trial"))
    table = compare.differences(made)
    assert table["estimate"].abs().max() < 1e-9 and (table["changed"] == "no").all()
    ranks = compare.rank_correlations(first, scaled)["estimate"]
    assert ranks.tolist() == pytest.approx([1] * 5)


def test_the_token_that_moved_most_comes_first(changed):
    moved = compare.moved_most(changed.first[0], changed.last[0])
    assert moved["text"].iloc[0] == "t7"
    assert moved["end"].value_counts().to_dict() == {"up": 10, "down": 10}
    assert moved["moved"].equals(moved["last"] - moved["first"])


def test_with_one_training_of_each_nothing_is_claimed():
    first, last = made_up("a", 1), made_up("b", 3, 1.2)
    table = compare.differences(
        compare.of_rewards([first], [last], Collection("trial"))
    )
    assert set(table["changed"]) == {"seeds?", "no"}
    assert table.loc["sentiment_best", "changed"] == "seeds?"


def test_what_cannot_be_paired_is_refused():
    refusal_of(lambda: compare.of_models(["a,b", "c"]), "seeds of each")
