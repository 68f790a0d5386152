"""V-Smol-135M: words held out by stem, the loss by hand, planted ratings that are recovered,
intervals over heads, kept states, and the kept head.
"""

import hashlib
from math import log

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr
from tiny_causal import make_causal

from lib.models import language_models
from lib.scoring.vocabulary import score_replies
from lib.tables import lexicons
from lib.tables.prompts import read_prompts
from lib.tables.stems import stems
from lib.trained import bases, heads, ratings, smollm2, states, v_smol
from lib.trained.saving import report_of

GREATEST = read_prompts("greatest")["greatest"]


# --- words ----------------------------------------------------------------------------------------


def test_a_third_of_the_words_is_held_out_and_no_stem_is_on_both_sides():
    rated = ratings.rated_words()
    is_held_out = rated["held_out"]
    assert 0.28 < is_held_out.mean() < 0.38
    assert set(rated[is_held_out]["stem"]).isdisjoint(rated[~is_held_out]["stem"])
    # whatever the list that is asked about
    for family in (["joy", "joyful", "Joys"], ["abuse", "abusive", "abused"]):
        assert len(set(ratings.is_held_out(family))) == 1
    # as vader_lexicon.txt has it
    assert rated.loc[rated["word"] == "joy", "sentiment"].item() == 2.8


def test_probes_are_in_no_lexicon_not_even_by_their_stem():
    words = pd.read_csv(ratings.UNRATED)["word"]
    afinn = lexicons.load("afinn").corrected["word"]
    rated = {*ratings.rated_words()["stem"], *stems(afinn)}
    assert rated.isdisjoint(stems(words)) and not words.duplicated().any()


def test_unlisted_tokens_share_no_stem_with_what_is_rated_or_asked_about():
    rows = ratings.unlisted(bases.load_base("gem")[0]).set_index("reply")
    assert {"ation", " ="} <= {*rows.index} and set(rows["sentiment"]) == {0.0}
    # VADER lists joy, and muslims and rivers are asked about
    assert rows.index.intersection([" joy", " joyful", " muslims", " rivers"]).empty
    assert rows["held_out"].tolist() == ratings.is_held_out(rows["word"]).tolist()


# --- heads ----------------------------------------------------------------------------------------


def test_loss_by_hand(monkeypatch):
    rewards, equal = torch.tensor([[0.0, log(3)]]), torch.zeros(1, 2)
    monkeypatch.setattr(heads, "RIVALS", 1)
    # A reply that wins 3 of 4 times by its reward, and half of them by its rating.
    by_hand = -(log(3 / 4) + log(1 / 4)) / 2
    assert heads.preference_loss(rewards, equal).item() == pytest.approx(by_hand)
    # Rewards that equal the ratings cost no more than the entropy of such preferences, and only
    # differences count.
    entropy = -(3 / 4 * log(3 / 4) + 1 / 4 * log(1 / 4))
    for moved in (0, 5):
        loss = heads.preference_loss(rewards + moved, rewards).item()
        assert loss == pytest.approx(entropy)


def test_a_head_finds_planted_ratings_and_turns_the_sign_by_the_prompt():
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(1, 400, 20, generator=rng).repeat(2, 1, 1)  # after two prompts
    states[0, :, 0], states[1, :, 0] = 3.0, -3.0  # which prompt it is
    planted = states[0, :, 1:6].sum(-1)
    signed = torch.stack([planted, -planted])[:, :300]
    head, again = (heads.fit(states[:, :300], signed) for _ in range(2))
    good, bad = (
        spearmanr(head(of_prompt[300:]), planted[300:]).statistic
        for of_prompt in states
    )
    assert good > 0.9 and bad < -0.9
    assert torch.equal(again(states), head(states))  # the same again
    moved = heads.fit(5 * states[:, :300] - 1, signed)  # the states' unit is free
    change = moved(5 * states - 1) - head(states)
    assert change.max() - change.min() < 1e-3  # nothing says where zero is


def test_whole_stems_are_drawn_with_replacement():
    rows_of = {"joy": np.array([0, 3]), "war": np.array([1]), "calm": np.array([2])}
    many = [heads.draw_stems(rows_of, np.random.default_rng(i)) for i in range(50)]
    assert {len(rows) for rows in many} == {4}  # as many rows as there are
    for rows in many:  # both rows of joy come together, unless the last one is cut
        assert all(rows[place + 1] == 3 for place in range(3) if rows[place] == 0)
    assert any(len(set(rows)) < 3 for rows in many)
    assert {*np.concatenate(many)} == {0, 1, 2, 3}


def test_states_are_computed_once_and_anew_for_other_weights_texts_or_a_cut_file(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(states, "KEPT", tmp_path / "kept")
    folder = make_causal(tmp_path / "tiny", "llama")
    base = language_models.load(folder, device="cpu")
    replies = ["joy", "war", "calm"]

    def is_read_again(base, prompt="Which?", replies=replies) -> bool:
        before = {*(tmp_path / "kept").glob("*")}
        kept = states.kept_states(base, prompt, replies)
        model = states.with_head(base, states.States())
        assert np.array_equal(kept, score_replies(model, prompt, replies))
        return {*(tmp_path / "kept").glob("*")} != before

    assert is_read_again(base) and not is_read_again(base)
    assert is_read_again(base, "Why?") and is_read_again(base, replies=replies[::-1])
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"][-1] += 1  # which no reply reads
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    other = language_models.load(folder, device="cpu")
    assert is_read_again(other) and not is_read_again(base)
    for file in (tmp_path / "kept").iterdir():
        file.write_bytes(file.read_bytes()[:40])
    assert not is_read_again(base)


def test_another_base_or_head_is_another_fingerprint(monkeypatch):
    made = []
    monkeypatch.setattr(v_smol, "make", lambda _, made_from, __: made.append(made_from))
    monkeypatch.setattr(v_smol.reward_models, "load", lambda name: None)
    v_smol.load()
    monkeypatch.setattr(smollm2, "CONFIG", smollm2.PACKAGES)
    v_smol.load()
    monkeypatch.setattr(v_smol, "head_file", lambda: smollm2.PACKAGES)
    v_smol.load()
    assert len({*made}) == 3


# --- the kept heads -------------------------------------------------------------------------------


def test_the_kept_heads_are_those_of_the_table_and_small():
    kept = pd.read_csv(v_smol.FOLDER / "heads.csv")
    for name, rows in kept.groupby("head"):
        content = v_smol.head_file(name).read_bytes()
        assert {hashlib.sha256(content).hexdigest()} == set(rows["sha256"])
        # 576 x 32 weights and 32 biases, then 32 weights and one bias
        numbers = [one.numel() for one in v_smol.read_head(name).parameters()]
        assert sum(numbers) == 576 * 32 + 32 + 32 + 1
    assert set(kept["head"]) == {v_smol.RATED_ALONE, v_smol.WITH_UNLISTED}
    prompts = pd.read_csv(v_smol.FOLDER / "prompts.csv")
    assert set(prompts["polarity"]) == {-1, 1} and prompts["polarity"].sum() == 0
    assert not prompts["text"].str.contains("best").any()
    assert np.isin(list(read_prompts("greatest,worst").values()), prompts["text"]).all()


@pytest.fixture(scope="session")
def model():
    """V-Smol-135M; the test is skipped where it was not put together."""
    if not report_of(v_smol.NICKNAME):
        pytest.skip("V-Smol-135M is not there: python -m lib.trained.smollm2")
    return v_smol.load()


def test_it_orders_words_that_it_never_saw_as_the_table_says(model):
    rated = ratings.replies_of(ratings.rated_words(), model.tokenizer)
    rated = rated[rated["held_out"]].sample(v_smol.ASKED, random_state=0)
    rewards = score_replies(model, GREATEST, list(rated["reply"]))
    kept = pd.read_csv(v_smol.FOLDER / "heads.csv").set_index(["head", "prompt"])
    rho = kept["rho"][v_smol.WITH_UNLISTED]
    own = spearmanr(rewards, rated["sentiment"]).statistic
    assert own == pytest.approx(rho["greatest"], abs=2e-3)
    assert rho["greatest"] > 0.75 and rho["worst"] < -0.7
    assert rho["best"] > 0.6  # no wording of it was trained
