"""Heads trained on ratings: the loss by hand, planted ratings that are recovered, words held out
by stem.
"""

import hashlib
from math import log

import numpy as np
import pandas as pd
import pytest
import torch

from lib.human_ratings import training, words
from lib.models import reward_models
from lib.planted.saving import report_of
from lib.scoring.vocabulary import score_replies
from lib.tables import lexicons
from lib.tables.prompts import read_prompts

GREATEST = read_prompts("greatest")["greatest"]


# --- words ----------------------------------------------------------------------------------------


def test_a_third_of_the_words_is_held_out_and_no_stem_is_on_both_sides():
    rated = words.rated_words()
    assert 0.28 < rated["held_out"].mean() < 0.38
    assert set(rated.loc[rated["held_out"], "stem"]).isdisjoint(
        rated.loc[~rated["held_out"], "stem"]
    )
    for family in (
        ["joy", "joyful", "Joys"],
        ["abuse", "abusive", "abused"],
        ["happy", "happiness"],
    ):
        # whatever the list that is asked about
        assert len(set(words.is_held_out(family))) == 1
    # as vader_lexicon.txt has it
    assert rated.loc[rated["word"] == "joy", "sentiment"].item() == 2.8


def test_another_lexicon_holds_out_the_same_stems():
    vader, afinn = (
        words.rated_words(name).set_index("word")["held_out"]
        for name in ("vader", "afinn")
    )
    both = vader.index.intersection(afinn.index)
    assert len(both) > 2000 and (vader[both] == afinn[both]).all()


class Tokens:
    """A tokenizer whose tokens are these texts."""

    name_or_path = "made up"
    texts = (
        " joy",
        "Joyful",
        ":)",
        " Muslims",
        "rivers",
        "({",
        " table",
        "tables",
        " ",
        "ums",
    )

    def get_vocab(self):
        return {text: number for number, text in enumerate(self.texts)}

    def batch_decode(self, ids, **_):
        return [self.texts[number] for (number,) in ids]

    def convert_ids_to_tokens(self, ids):
        return [self.texts[number] for number in ids]


def test_unlisted_tokens_share_no_stem_with_what_is_rated_or_asked_about():
    # joy and :) are VADER's, Muslims and rivers are asked about, and a blank is no word
    rows = words.unlisted(Tokens())
    assert list(rows["reply"]) == ["({", " table", "tables", "ums"]
    assert set(rows["sentiment"]) == {0.0}
    assert rows["held_out"].tolist() == words.is_held_out(rows["word"]).tolist()
    assert ":)" in set(lexicons.vader_ratings()["word"])


# --- heads ----------------------------------------------------------------------------------------


def test_loss_by_hand(monkeypatch):
    rewards, equal = torch.tensor([[0.0, log(3)]]), torch.zeros(1, 2)
    monkeypatch.setattr(training, "RIVALS", 1)
    # A reply that wins 3 of 4 times by its reward, and half of them by its rating.
    assert training.preference_loss(rewards, equal).item() == pytest.approx(
        -(log(3 / 4) + log(1 / 4)) / 2
    )
    # Rewards that equal the ratings cost no more than the entropy of such preferences.
    entropy = -(3 / 4 * log(3 / 4) + 1 / 4 * log(1 / 4))
    assert training.preference_loss(rewards, rewards).item() == pytest.approx(entropy)
    # only differences count
    assert training.preference_loss(rewards + 5, rewards).item() == pytest.approx(
        entropy
    )


def test_a_weight_counts_like_so_many_comparisons(monkeypatch):
    monkeypatch.setattr(training, "RIVALS", 1)
    rewards, equal = torch.tensor([[0.0, log(3), 0.0]]), torch.zeros(1, 3)
    weights = torch.tensor([[1.0, 1.0, 0.0]])
    # only the first of the three comparisons counts, and the mean is over three
    found = training.preference_loss(rewards, equal, weights).item()
    assert found == pytest.approx(-(log(3 / 4) + log(1 / 4)) / 2 / 3)


@pytest.fixture(scope="module")
def planted() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """States after two prompts, (2, 400, 20), with the prompt in one column; ratings; and both
    signed by prompt.
    """
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(1, 400, 20, generator=rng).repeat(2, 1, 1)
    states[0, :, 0], states[1, :, 0] = 3.0, -3.0  # which prompt it is
    ratings = states[0, :, 1:6].sum(-1)
    return states, ratings, torch.stack([ratings, -ratings])


def test_a_head_finds_planted_ratings_and_turns_the_sign_by_the_prompt(planted):
    states, ratings, signed = planted
    head = training.fit(states[:, :300], signed[:, :300])
    good, bad = (
        training.accuracy(head(of_prompt[300:]), ratings[300:]) for of_prompt in states
    )
    assert good > 0.9 and bad < -0.9


def test_a_reply_without_weight_is_not_learnt_from(planted):
    states, ratings, signed = planted
    turned = torch.cat([signed[:, :300], -signed[:, 300:]], 1)
    weights = torch.ones_like(turned)
    weights[:, 300:] = 0
    head = training.fit(states, turned, weights)
    assert training.accuracy(head(states[0, 300:]), ratings[300:]) > 0.9


def test_a_head_is_the_same_again_and_does_not_depend_on_the_states_unit(planted):
    states, _, signed = planted
    head, again = (training.fit(states, signed) for _ in range(2))
    assert all(
        torch.equal(a, b)
        for a, b in zip(head.parameters(), again.parameters(), strict=True)
    )
    moved = training.fit(5 * states - 1, signed)
    assert torch.allclose(moved(5 * states - 1), head(states), atol=1e-3)


# --- the kept heads -------------------------------------------------------------------------------


def test_the_kept_heads_are_those_of_the_table_and_small():
    kept = pd.read_csv(training.FOLDER / "heads.csv")
    for name, rows in kept.groupby("head"):
        content = training.head_file(name).read_bytes()
        assert {hashlib.sha256(content).hexdigest()} == set(rows["sha256"])
        assert len(content) < 100_000
        # 576 x 32 weights and 32 biases, then 32 weights and one bias
        numbers = [one.numel() for one in training.read_head(name).parameters()]
        assert sum(numbers) == 576 * 32 + 32 + 32 + 1
    assert set(kept["head"]) == {training.RATED_ALONE, training.WITH_UNLISTED}


@pytest.fixture(scope="session")
def model():
    """V-Smol-135M; the test is skipped where it was not put together."""
    if report_of(training.NICKNAME) is None:
        pytest.skip("V-Smol-135M is not there: python -m lib.run human_ratings")
    return training.load()


def test_it_orders_words_that_it_never_saw_as_the_table_says(model):
    rated = words.replies_of(words.rated_words(), model.tokenizer)
    rated = rated[rated["held_out"]].sample(training.ASKED, random_state=0)
    rewards = score_replies(model, GREATEST, list(rated["reply"]))
    kept = pd.read_csv(training.FOLDER / "heads.csv").set_index(["head", "prompt"])
    rho = kept["rho"][training.WITH_UNLISTED]
    own = training.accuracy(rewards, rated["sentiment"])
    assert own == pytest.approx(rho["greatest"], abs=2e-3)
    assert rho["greatest"] > 0.75 and rho["worst"] < -0.7
    assert rho["best"] > 0.6  # no wording of it was trained


def test_it_scores_like_a_plain_forward_and_bfloat16_keeps_the_order(model):
    replies = list(words.rated_words()["word"][::40])
    rewards = score_replies(model, GREATEST, replies)
    ids = model.encode(model.conversation(GREATEST), replies[:4])
    with torch.no_grad():
        for reward, whole in zip(rewards, ids, strict=False):
            hidden = model.backbone(torch.tensor([whole])).last_hidden_state[:, -1]
            assert model.head(hidden).item() == pytest.approx(reward, abs=1e-3)
    half = score_replies(
        reward_models.load(training.NICKNAME, dtype="bfloat16"), GREATEST, replies
    )
    assert training.accuracy(rewards, half) >= 0.99


def test_every_prompt_of_the_training_has_a_polarity_and_none_asks_for_the_best():
    prompts = pd.read_csv(training.PROMPTS)
    assert set(prompts["polarity"]) == {-1, 1} and prompts["polarity"].sum() == 0
    assert not prompts["text"].str.contains("best").any()
    assert np.isin(list(read_prompts("greatest,worst").values()), prompts["text"]).all()
