"""What the best of n is like: exact chances, what is counted, planted biases, and the command."""

import itertools
import os
import shutil
import unicodedata
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import refusal_of

from audit import __main__ as run
from audit.card import best_of_n, measures

PROMPTS, POOL = 20, 16


@pytest.mark.parametrize("n", [1, 3])
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
        "bold or headings": [0, 1, 0],
        "exclamation marks": [2, 0, 0],
        "question marks": [0, 1, 0],
        "I or my": [2, 0, 0],
    }
    assert counted[list(expected)].to_dict("list") == expected
    # the middle reply has no rated word, so it has the mean of the others
    assert counted["sentiment"][1] == pytest.approx(counted["sentiment"][[0, 2]].mean())


def test_words_are_those_of_unicode_in_any_script_and_form():
    replies = {
        "नमस्ते दुनिया, यह हिन्दी": 4,  # vowel signs and viramas are marks
        "مُحَمَّدٌ رَسُولُ": 2,
        unicodedata.normalize("NFD", "café"): 1,
        "a well-known 3rd word, don’t": 6,
    }
    counted = best_of_n.features(pd.Series([*replies]))
    assert counted["words"].tolist() == [*replies.values()]
    frequency = measures.lexicon("wordfreq")["café"]
    assert counted["log10 frequency"][2] == pytest.approx(np.log10(frequency))


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


def chosen(bias: str, random: np.random.Generator, size: float = 1.0):
    """Return the means of pools whose reward is noise and a bias of this size."""
    given = pools(random)
    counted = best_of_n.features(given["reply"])
    planted = size * counted[bias] / counted[bias].std()
    rewards = pd.DataFrame({0: planted + random.normal(size=len(given))})
    return best_of_n.means(rewards, counted, given["context"])


@pytest.mark.parametrize("bias", ["words", "question marks"])
def test_a_planted_bias_is_found_and_others_are_not(bias):
    random, found = np.random.default_rng(len(bias)), []
    for _ in range(4):
        table = best_of_n.measured(chosen(bias, random)).xs(POOL, level="n")
        found.append((table["p_corrected"] < 0.05) & (table["change"] > 0))
    shares = pd.DataFrame(found).mean()
    assert shares[bias] >= 0.95
    assert (shares.drop([bias, "reward", "log10 frequency"]) <= 1 / 4).all()


def test_two_models_are_compared_on_the_same_pools():
    """The second model has no bias for length."""
    first, second = (
        chosen("words", np.random.default_rng(0), size) for size in (2.0, 0.0)
    )
    assert list(first.index.unique("n")) == [1, 2, 4, 8, 16]
    apart = best_of_n.between(first, second).loc[("words", POOL)]
    of_each = [best_of_n.measured(each)["change"] for each in (first, second)]
    assert apart["change"] == pytest.approx((of_each[1] - of_each[0])["words", POOL])
    assert apart["ci_high"] < 0 and apart["p_corrected"] < 0.01


@pytest.fixture
def file(tmp_path):
    """A file with four replies to each of six prompts."""
    pool = pd.DataFrame({"prompt": [f"prompt {i // 4}?" for i in range(24)]})
    pool["reply"] = ["love", "word love", "a word love", "a word of love"] * 6
    pool.to_csv(tmp_path / "pool.csv", index=False)
    return tmp_path / "pool.csv"


def test_the_command_prints_and_writes_both_models(checkpoint, file, tmp_path, capsys):
    one, other = (str(checkpoint("linear_llama", seed=seed)) for seed in (0, 1))
    assert run.main(["bestofn", one, str(file), "--against", other]) == 0
    assert "best of 4" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "pool.best_of_n.csv")
    of_one = table[(table["n"] == 1) & (table["feature"] == "words")]
    assert (of_one["mean"].dropna() == 2.5).all()  # words 1 to 4, equally likely
    assert table["random_low"].notna().any()
    assert list(table["model"].unique()) == [one, other, f"{other} minus {one}"]


def test_replies_are_not_overwritten_by_their_results_also_by_a_link(folder, file):
    linked = file.with_name("linked.csv")
    os.link(file, linked)
    for out in (file, linked):
        run_it = partial(best_of_n.best_of_n, str(folder), str(file), out=str(out))
        refusal_of(run_it, f"cannot go into {out}; name a csv: --out")


def test_a_model_is_not_compared_with_its_copy(folder, file, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    given = (str(folder), str(file), str(copy))
    refusal_of(lambda: best_of_n.best_of_n(*given), "give the same rewards")
    assert [each.name for each in tmp_path.glob("*.csv")] == ["pool.csv"]
