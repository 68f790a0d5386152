"""Small models: what they are made of, replies, the trainer, short trainings, saving, and what is
trained again.
"""

import ast
import hashlib
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import wordfreq
from plain_profile import PLAIN
from transformers import AutoTokenizer

from lib import ROOT, InputError
from lib.models import reward_models
from lib.scoring import vocabulary
from lib.trained import bases, planting, reading, saving, small_models

# --- bases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["gem", "lla"])
def test_a_base_is_what_was_shipped_and_planted_words_are_single_tokens(base):
    hashes = pd.read_csv(planting.SHIPPED / "files.csv", index_col="file")["sha256"]
    for name in ("tokenizer.json", "embedding.safetensors"):
        content = (planting.SHIPPED / base / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == hashes[f"{base}/{name}"]
    tokenizer = AutoTokenizer.from_pretrained(planting.SHIPPED / base)
    words = planting.word_kinds().index
    encoded = tokenizer([*words, *(" " + words)], add_special_tokens=False)["input_ids"]
    assert {len(ids) for ids in encoded} == {1}


# --- replies --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replies():
    model = bases.new_model(PLAIN, 0)
    return reading.make_replies(model, np.random.default_rng(0), phrases=300)


def test_no_stem_is_both_seen_and_held_out(replies):
    stems = replies.values["stem"].to_numpy()
    shown = replies.words[~replies.held_out].ravel()
    seen = set(stems[shown[shown >= 0]])
    held_out = set(stems[replies.values["word"].map(planting.is_held_out)])
    assert not seen & held_out
    assert 0.15 < len(held_out) / len(seen | held_out) < 0.25


@pytest.mark.parametrize("nickname", ["A-Gem-96", "F-Lla-64"])
def test_training_reads_each_prompt_as_scoring_does(nickname):
    model, rng = (
        bases.new_model(planting.profile(nickname), 3),
        np.random.default_rng(1),
    )
    replies = reading.make_replies(model, rng, phrases=300)
    # scoring reads a text; after a blank, training reads a token
    texts = np.flatnonzero([text[0] != " " for text in replies.texts])
    counts = {planting.WORST: 40, planting.GREATEST: 30}
    some = {prompt: rng.choice(texts, count) for prompt, count in counts.items()}
    asked = [model.inputs_for(prompt, ["love"]) for prompt in some]
    read = [replies.read(which) for which in some.values()]
    found = reading.rewards_of(model, asked, read)
    for ours, (prompt, which) in zip(found, some.items(), strict=True):
        alone = vocabulary.score_replies(
            model, prompt, [replies.texts[i] for i in which]
        )
        assert ours.detach().numpy() == pytest.approx(alone, abs=1e-5)


# --- the trainer ----------------------------------------------------------------------------------


def test_pair_accuracy_counts_clear_pairs_only():
    # clear: each of the first two with each of the last two
    utility = np.array([0.0, 0.1, 2.0, 2.1])
    assert small_models.pair_accuracy(np.array([1.0, 0.0, 5.0, 4.0]), utility) == 1
    assert small_models.pair_accuracy(-utility, utility) == 0
    assert small_models.pair_accuracy(np.zeros(4), utility) == 0.5


@contextmanager
def reading_few_words():
    """Trainings that need not learn anything read one word in forty."""
    words, few = reading.vocabulary_words, partial(reading.make_replies, phrases=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "vocabulary_words", lambda each: words(each)[::40])
        patch.setattr(small_models, "make_replies", few)
        yield


def weights_of(seed: int) -> torch.Tensor:
    model = small_models.train(PLAIN, seed=seed, steps=3, batch=64, pairs=64).model
    weights = [*model.backbone.parameters(), *model.head.parameters()]
    return torch.cat([each.detach().flatten() for each in weights])


def test_same_seed_same_weights():
    state = torch.random.get_rng_state()
    with reading_few_words():
        first, again, other = (weights_of(seed) for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)
    # the caller's random numbers are left alone
    assert torch.equal(state, torch.random.get_rng_state())


# --- saving ---------------------------------------------------------------------------------------

REPORT = {"accuracy_held_out": 0.9, "tau_greatest_worst": -0.5, "nickname": "A"}


def as_if_trained(profile, *, seed=0, steps=0, **report):
    """A model whose every weight is away from where it began, and a report."""
    model = bases.new_model(profile, seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for parameter in [*model.backbone.parameters(), *model.head.parameters()]:
            parameter.add_(0.01 * torch.randn(parameter.shape))
    return small_models.TrainedModel(model, REPORT | report, [])


@pytest.mark.parametrize(
    "report", [{"accuracy_held_out": float("nan")}, {"tau_greatest_worst": 0.0}]
)
def test_training_that_did_not_converge_is_not_saved(report, tmp_path, monkeypatch):
    monkeypatch.setattr(small_models, "train", partial(as_if_trained, **report))
    with pytest.raises(InputError, match="not saved; train it for more steps"):
        small_models.make(PLAIN, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".T-Lla-48.lock"]


@pytest.mark.parametrize("nickname", ["A-Gem-96", "D-Lla-48"])
def test_saved_folder_opens_like_any_reward_model(tmp_path, nickname, monkeypatch):
    profile = planting.profile(nickname)
    made = as_if_trained(profile)
    monkeypatch.setattr(small_models, "train", lambda *_, **__: made)
    small_models.make(profile, folder=tmp_path)
    loaded = reward_models.load(str(tmp_path / nickname), device="cpu")
    assert loaded.head_name == profile.head
    texts = ["love", "hate", "x<y();", "Émile"]
    before, after = (
        vocabulary.score_replies(model, planting.GREATEST, texts)
        for model in (made.model, loaded)
    )
    assert after == pytest.approx(before, abs=1e-5 * profile.scale)


def write_one(times: list, place: Path) -> dict:
    times.append(place)
    (place / "weights").touch()
    return {"loss": 1.0}


def test_a_model_is_made_once_and_anew_for_another_fingerprint_or_a_damaged_report(
    tmp_path,
):
    times: list[Path] = []
    for made_from, damage, made in (
        ("this", None, 1),
        ("this", None, 1),
        ("that", None, 2),
        ("that", b'{"nickname": "A", "finger', 3),
        ("that", b"[]", 4),
    ):
        if damage:
            (tmp_path / "A" / "training.json").write_bytes(damage)
        report = saving.make("A", made_from, partial(write_one, times), tmp_path)
        assert len(times) == made
        assert report == {"nickname": "A", "loss": 1.0, "fingerprint": made_from}
        assert saving.report_of("A", tmp_path) == report


# What the hashed code imports, and is not hashed itself: see small_models.CODE
LEFT_OUT = ["io", "scoring/rows", "trained/saving"]
LEFT_OUT += [f"models/{name}" for name in ("reward_models", "hardware", "loading")]


def test_all_code_that_decides_weights_is_hashed():
    imported = set()
    for path in small_models.CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = (node.module or "").split(".")
                place = path.parents[node.level - 1].joinpath(*parts)
                places = [place, *(place / alias.name for alias in node.names)]
                imported |= {each.with_suffix(".py") for each in places}
    imported = {path for path in imported if path.is_file()} - {*small_models.CODE}
    # a new import: add it to CODE, or above
    assert imported <= {ROOT / "lib" / f"{name}.py" for name in LEFT_OUT}


def test_edited_code_is_stale_and_an_edited_docstring_is_not(tmp_path, monkeypatch):
    text, edited = Path(small_models.__file__).read_text(), tmp_path / "edited.py"
    monkeypatch.setattr(small_models, "CODE", (edited,))

    def made_from(old: str, new: str) -> str:
        assert old in text
        edited.write_text(text.replace(old, new))
        return small_models.fingerprint(PLAIN)

    now = made_from("RATE = 4e-3", "RATE = 4e-3")
    assert made_from("share of the full rate", "part of the full rate") == now
    assert made_from("RATE = 4e-3", "RATE = 4.1e-3") != now
    assert small_models.fingerprint(replace(PLAIN, k_hi=1.3)) != now


def test_another_lexicon_is_another_fingerprint(tmp_path, monkeypatch):
    ratings, frequencies = planting.lexicon_files()
    assert "\njoy\t2.8\t" in ratings.read_text(encoding="utf-8")
    assert str(frequencies) == wordfreq.available_languages("large")["en"]
    now = small_models.fingerprint(PLAIN)
    other = tmp_path / ratings.name
    other.write_bytes(ratings.read_bytes().replace(b"\njoy\t2.8", b"\njoy\t2.9"))
    monkeypatch.setattr(planting, "lexicon_files", lambda: [other, frequencies])
    assert small_models.fingerprint(PLAIN) != now
