"""Heads trained on ratings: the loss by hand, planted ratings that are recovered, words held out
by stem.
"""

from math import log

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from lib.human_ratings import training, words
from lib.models import reward_models
from lib.planted.saving import TRAINED, report_of
from lib.scoring.engine import score_replies
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


@pytest.mark.parametrize("units", [0, 32])
def test_a_head_finds_planted_ratings_of_one_prompt(planted, units):
    states, ratings, _ = planted
    head = training.fit(states[:1, :300, 1:], ratings[None, :300], units)
    assert training.accuracy(head(states[0, 300:, 1:]), ratings[300:]) > 0.95


def test_only_a_head_of_two_layers_turns_a_sign_by_the_prompt(planted):
    states, ratings, signed = planted
    rho = {}
    for units in (0, 32):
        head = training.fit(states[:, :300], signed[:, :300], units)
        rho[units] = [
            training.accuracy(head(of_prompt[300:]), ratings[300:])
            for of_prompt in states
        ]
    assert rho[32][0] > 0.9 and rho[32][1] < -0.9
    # one direction orders replies alike after both prompts
    assert rho[0][0] == pytest.approx(rho[0][1], abs=0.01)


def test_a_head_is_the_same_again_and_does_not_depend_on_the_states_unit(planted):
    states, _, signed = planted
    head, again = (training.fit(states, signed, 32) for _ in range(2))
    assert all(
        torch.equal(a, b)
        for a, b in zip(head.parameters(), again.parameters(), strict=True)
    )
    moved = training.fit(5 * states - 1, signed, 32)
    assert torch.allclose(moved(5 * states - 1), head(states), atol=1e-3)


# --- the trained models ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def trained():
    """The folder of V-Smol-135M; the test is skipped where it was not trained, as training takes
    a minute.
    """
    if report_of(training.NICKNAME) is None:
        pytest.skip("V-Smol-135M is not trained: python -m lib.run human_ratings")
    return TRAINED / training.NICKNAME


def test_it_orders_words_that_it_never_saw(trained):
    rho = report_of(training.NICKNAME)["spearman_held_out"]
    assert rho["greatest"] > 0.7 and rho["worst"] < -0.65
    assert rho["best"] > 0.4  # no wording of it was trained


def test_it_scores_like_a_plain_forward_and_bfloat16_keeps_the_order(trained):
    replies = list(words.rated_words()["word"][::40])
    model = reward_models.load(training.NICKNAME)
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


def test_transformers_own_class_reads_the_linear_head(tmp_path):
    if report_of("V-Smol-135M-linear") is None:
        pytest.skip("V-Smol-135M-linear is not trained")
    model = reward_models.load("V-Smol-135M-linear")
    rewards = score_replies(model, GREATEST, [" love", " hate"])
    theirs = AutoModelForSequenceClassification.from_pretrained(
        TRAINED / "V-Smol-135M-linear"
    )
    for reward, whole in zip(
        rewards,
        model.encode(model.conversation(GREATEST), [" love", " hate"]),
        strict=True,
    ):
        assert theirs(torch.tensor([whole])).logits.item() == pytest.approx(
            reward, abs=1e-3
        )


def test_every_prompt_of_the_training_has_a_polarity_and_none_asks_for_the_best():
    import pandas as pd

    prompts = pd.read_csv(training.PROMPTS)
    assert set(prompts["polarity"]) == {-1, 1} and prompts["polarity"].sum() == 0
    assert not prompts["text"].str.contains("best").any()
    assert np.isin(list(read_prompts("greatest,worst").values()), prompts["text"]).all()
