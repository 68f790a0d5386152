"""Embedded reward models: replies, short trainings, saving, and what is trained again."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from plain_profile import PLAIN

from lib import InputError
from lib.models import reward_models
from lib.planted import planting, reading, saving
from lib.planted import reward_models as small_models
from lib.scoring import vocabulary


def test_pair_accuracy_counts_clear_pairs_only():
    # clear: each of the first two with each of the last two
    utility = np.array([0.0, 0.1, 2.0, 2.1])
    assert small_models.pair_accuracy(np.array([1.0, 0.0, 5.0, 4.0]), utility) == 1
    assert small_models.pair_accuracy(-utility, utility) == 0
    assert small_models.pair_accuracy(np.zeros(4), utility) == 0.5


@pytest.fixture(scope="module")
def replies():
    return reading.make_replies(
        small_models.new_model(PLAIN, 0), np.random.default_rng(0), phrases=300
    )


def test_no_stem_is_both_seen_and_held_out(replies):
    stems = replies.values["stem"].to_numpy()
    seen = {
        stems[row]
        for rows in replies.words[~replies.held_out]
        for row in rows
        if row >= 0
    }
    held_out = {
        stems[i]
        for i, word in enumerate(replies.values["word"])
        if planting.is_held_out(word)
    }
    assert not seen & held_out
    assert 0.15 < len(held_out) / len(seen | held_out) < 0.25
    assert planting.is_held_out("lovely") == planting.is_held_out("LOVELINESS")


def test_utility_of_a_phrase_is_the_mean_over_its_words(replies):
    of_word = dict(
        zip(
            replies.values["word"],
            planting.planted_utility(PLAIN, replies.values, 1),
            strict=True,
        )
    )
    utility = replies.utility(PLAIN, 1)
    phrases = [i for i, words in enumerate(replies.words) if (words >= 0).sum() == 3]
    assert phrases
    for i in phrases[:20]:
        words = replies.values["word"].iloc[replies.words[i]]
        assert utility[i] == pytest.approx(np.mean([of_word[word] for word in words]))
        assert replies.texts[i] == " ".join(words)


@pytest.mark.parametrize("nickname", ["A-Gem-96", "F-Lla-64"])
def test_training_reads_both_prompts_in_one_pass_as_scoring_reads_each(
    replies, nickname
):
    model, rng = (
        small_models.new_model(planting.profile(nickname), seed=3),
        np.random.default_rng(1),
    )
    replies = reading.make_replies(model, rng, phrases=300)
    without_blank = np.array(
        [i for i, text in enumerate(replies.texts) if text[0] != " "]
    )
    some = {
        planting.WORST: rng.choice(without_blank, 40),
        planting.GREATEST: rng.choice(without_blank, 30),
    }
    asked = [model.inputs_for(prompt, ["love"]) for prompt in some]
    found = reading.rewards_of(
        model, asked, [replies.read(which) for which in some.values()]
    )
    for ours, (prompt, which) in zip(found, some.items(), strict=True):
        texts = [replies.texts[i] for i in which]
        assert ours.detach().numpy() == pytest.approx(
            vocabulary.score_replies(model, prompt, texts), abs=1e-5
        )


SHORT = {"steps": 3, "batch": 64, "pairs": 64}


@contextmanager
def reading_few_words():
    """Trainings that need not learn anything read one word in forty."""
    words, make_replies = reading.vocabulary_words, reading.make_replies
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            reading, "vocabulary_words", lambda tokenizer: words(tokenizer)[::40]
        )
        patch.setattr(small_models, "make_replies", partial(make_replies, phrases=40))
        yield


@pytest.fixture(scope="module")
def unconverged():
    with reading_few_words():
        return small_models.train(PLAIN, seed=7, **SHORT)


def weights(trained) -> torch.Tensor:
    tensors = [
        *trained.model.backbone.state_dict().values(),
        *trained.model.head.state_dict().values(),
    ]
    return torch.cat([tensor.flatten().float() for tensor in tensors])


def test_same_seed_same_weights(unconverged):
    state = torch.random.get_rng_state()
    with reading_few_words():
        again = small_models.train(PLAIN, seed=7, **SHORT)
        assert torch.equal(weights(unconverged), weights(again))
        assert not torch.equal(
            weights(unconverged), weights(small_models.train(PLAIN, seed=8, **SHORT))
        )
    # the caller's random numbers are left alone
    assert torch.equal(state, torch.random.get_rng_state())


def test_short_training_learns_words_that_it_never_saw():
    trained = small_models.train(
        replace(PLAIN, frequency=0.2), seed=1, steps=80, batch=256, pairs=1024
    )
    assert trained.report["accuracy_held_out"] > 0.7  # chance is .5
    assert len(trained.losses) == 80 and np.mean(trained.losses[:5]) > 0.67 > np.mean(
        trained.losses[-20:]
    )


def test_training_that_did_not_converge_is_not_saved(unconverged, tmp_path):
    with pytest.raises(InputError, match="80% are needed; not saved"):
        small_models.save(unconverged, tmp_path)
    for changed in (
        {"accuracy_held_out": 0.9, "tau_greatest_worst": 0.0},
        {"accuracy_held_out": float("nan")},
    ):
        with pytest.raises(InputError, match="not saved"):
            small_models.save(
                replace(unconverged, report=unconverged.report | changed), tmp_path
            )
    assert not list(tmp_path.iterdir())


def as_if_converged(
    profile: planting.Profile, seed: int = 0
) -> small_models.TrainedModel:
    """A model whose every weight is away from where it began, and a report that lets it be
    saved.
    """
    model = small_models.new_model(profile, seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for parameter in [*model.backbone.parameters(), *model.head.parameters()]:
            parameter.add_(0.01 * torch.randn(parameter.shape))
    report = {"nickname": profile.nickname, "seed": seed, "steps": small_models.STEPS}
    return small_models.TrainedModel(
        profile, model, report | {"accuracy_held_out": 0.9, "tau_greatest_worst": -0.5}
    )


@pytest.mark.parametrize("nickname", ["A-Gem-96", "D-Lla-48"])
def test_saved_folder_opens_like_any_reward_model(tmp_path, nickname):
    profile = planting.profile(nickname)
    made = as_if_converged(profile)
    folder = small_models.save(made, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {nickname}
    loaded = reward_models.load(str(folder), device="cpu")
    assert loaded.head_name == profile.head
    texts = ["love", "hate", "x<y();", "Émile"]
    before, after = (
        vocabulary.score_replies(model, planting.GREATEST, texts)
        for model in (made.model, loaded)
    )
    assert after == pytest.approx(before, abs=1e-5 * profile.scale)


def test_what_is_current_is_not_trained_again(tmp_path, monkeypatch):
    calls = []

    def quick(profile, *, seed, steps):
        calls.append(profile.nickname)
        return as_if_converged(profile, seed)

    monkeypatch.setattr(small_models, "train", quick)
    wider = replace(PLAIN, nickname="U-Gem-64", base="gem", version="2", hidden=64)
    changed = replace(PLAIN, k_hi=1.3)
    for some, trained in (
        (PLAIN, [True, True]),
        (PLAIN, [False, False]),
        (changed, [True, False]),
    ):
        jobs = small_models.jobs([some, wider], folder=tmp_path)
        assert (
            saving.train_missing(jobs, processes=1, progress=False)["trained"].tolist()
            == trained
        )
    # the wider one, which takes longer, comes first
    assert calls == ["U-Gem-64", "T-Lla-48", "T-Lla-48"]
    assert saving.report_of("T-Lla-48", tmp_path)[
        "fingerprint"
    ] == small_models.fingerprint(changed)
