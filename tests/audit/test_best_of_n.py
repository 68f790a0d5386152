"""What the best of n is like: exact chances, what is counted, planted biases, and the command."""

import itertools

import numpy as np
import pandas as pd
import pytest
import tiny

from audit import __main__ as run
from audit.card import best_of_n

PROMPTS, POOL = 20, 16
SIZES = [1, 2, 4, 8, 16]


@pytest.mark.parametrize("n", [1, 3, 5])
def test_chances_are_those_of_all_draws(n):
    rewards = np.array([0.1, 0.5, 0.3, 0.3, 2.0])
    expected = np.zeros(5)
    draws = list(itertools.combinations(range(5), n))
    for draw in draws:
        best = max(rewards[i] for i in draw)
        winners = [i for i in draw if rewards[i] == best]
        expected[winners] += 1 / len(winners) / len(draws)
    np.testing.assert_allclose(best_of_n.chances(rewards, [n])[0], expected)


def test_what_is_counted_in_a_reply():
    replies = [
        "I love it!! My tables, indeed: old.",
        "- one\n- two\n**three**?",
        "tables, and chairs: awful",
    ]
    counted = best_of_n.features(pd.Series(replies))
    expected = {
        "words": [7, 3, 4],
        "list items": [0, 2, 0],
        "bold or headings": [0, 2, 0],
        "exclamation marks": [2, 0, 0],
        "question marks": [0, 1, 0],
        "I or my": [2, 0, 0],
    }
    assert counted[list(expected)].to_dict("list") == expected
    # the middle reply has no rated word, so it has the mean of the others
    assert counted["sentiment"][1] == pytest.approx(counted["sentiment"][[0, 2]].mean())


def pools(random: np.random.Generator) -> pd.DataFrame:
    """Return replies of 20 to 60 words, some with a question mark."""
    words = np.array(
        ["table", "chair", "window", "paper", "stone", "river", "garden", "bottle"]
    )
    rows = []
    for prompt in range(PROMPTS):
        for _ in range(POOL):
            typed = list(random.choice(words, random.integers(20, 61)))
            if random.random() < 0.4:
                typed[3] = "why?"
            rows.append([f"prompt {prompt}", " ".join(typed)])
    return pd.DataFrame(rows, columns=["context", "reply"])


def found(bias: str, random: np.random.Generator) -> pd.Series:
    """Return which features are found at n = 16, in pools whose reward is noise and a bias."""
    given = pools(random)
    counted = best_of_n.features(given["reply"])
    planted = counted[bias] / counted[bias].std()
    rewards = pd.DataFrame({0: planted + random.normal(size=len(given))})
    of_n = best_of_n.means(rewards, counted, given["context"])
    table = best_of_n.measured(of_n).xs(POOL, level="n")
    return (table["p_corrected"] < 0.05) & (table["change"] > 0)


BIASES = ["words", "question marks"]


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("tries", [4, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_planted_bias_is_found_and_others_are_not(bias, tries):
    random = np.random.default_rng(len(bias))
    shares = pd.DataFrame([found(bias, random) for _ in range(tries)]).mean()
    assert shares[bias] >= 0.95
    for control in {*BIASES, "sentiment"} & set(shares.index) - {bias}:
        assert shares[control] <= max(0.05, 1 / tries), control


def test_two_models_are_compared_on_the_same_pools():
    """The second model is the first with its bias for length taken out."""
    random = np.random.default_rng(0)
    given = pools(random)
    counted = best_of_n.features(given["reply"])
    noise = random.normal(size=len(given))
    length = counted["words"] / counted["words"].std()
    first, second = (
        best_of_n.means(pd.DataFrame({0: reward}), counted, given["context"])
        for reward in (noise + 2 * length, noise)
    )
    assert list(first.index.get_level_values("n").unique()) == SIZES
    apart = best_of_n.between(first, second).loc[("words", POOL)]
    of_each = [best_of_n.measured(each)["change"] for each in (first, second)]
    assert apart["change"] == pytest.approx((of_each[1] - of_each[0])["words", POOL])
    assert apart["ci_high"] < 0 and apart["p_corrected"] < 0.01


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.make_checkpoint(tmp_path_factory.mktemp("model"), "linear_llama")


def test_the_command_prints_and_writes_both_models(model, tmp_path, capsys):
    file = tmp_path / "pool.csv"
    rows = [
        (f"prompt {prompt}?", f"{'word ' * reply}love")
        for prompt in range(6)
        for reply in range(4)
    ]
    pd.DataFrame(rows, columns=["prompt", "reply"]).to_csv(file, index=False)
    other = tiny.make_checkpoint(tmp_path / "other", "linear_llama", seed=1)
    assert run.main(["bestofn", str(model), str(file), "--against", str(other)]) == 0
    assert "best of 4" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "pool.best_of_n.csv")
    of_one = table[(table["n"] == 1) & (table["feature"] == "words")]
    assert (of_one["mean"].dropna() == 2.5).all()  # words 1 to 4, equally likely
    assert table["random_low"].notna().any()
    assert list(table["model"].unique()) == [
        str(model),
        str(other),
        f"{other} minus {model}",
    ]


def test_too_few_are_refused(model, tmp_path, capsys):
    file = tmp_path / "pool.csv"
    rows = [(f"{i}?", f"{j} words") for i in range(4) for j in range(3)]
    pd.DataFrame(rows, columns=["prompt", "reply"]).to_csv(file, index=False)
    assert run.main(["bestofn", str(model), str(file)]) == 2
    assert "5 prompts at least" in capsys.readouterr().err
