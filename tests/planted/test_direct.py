"""A language model trained on planted preferences: planted values come back from its implicit reward."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from lib import InputError, run
from lib.apps.card import measures
from lib.models import conversations, reward_models
from lib.models import language_models as loading
from lib.planted import bases, direct, language_models, planting, recovery, saving
from lib.scoring import engine
from lib.tables.prompts import read_prompts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a reference that has read nothing, and of the model trained from it; that model, and its report."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer, untrained = language_models.new_model("gem")
    tokenizer.chat_template = bases.template(language_models.TEMPLATES["gem"]).read_text()
    for part in (untrained, tokenizer):
        part.save_pretrained(folder / direct.REFERENCE)
    model, report = direct.train(str(folder / direct.REFERENCE), steps=120)
    model.policy.model.save_pretrained(folder / direct.NICKNAME)
    model.tokenizer.save_pretrained(folder / direct.NICKNAME)
    return folder, model, report


def test_planted_values_come_back_from_the_implicit_reward(folder):
    _, model, report = folder
    words, token_ids = direct.one_token_words(model)
    table = pd.DataFrame({"text": words, "input_group": range(len(words))})
    with torch.no_grad():
        for name, prompt in read_prompts("greatest,worst").items():
            table[name] = direct.rewards_of(model, token_ids, model.inputs_for(prompt, ["love"])).numpy()
    values = recovery.recover(table, planting.profile(direct.RATERS)).drop(index=["skew", "gap"], level="value")
    assert (np.sign(values["recovered"]) == np.sign(values["planted"])).all()
    assert (values["recovered"] > 0.2 * values["planted"]).all()
    assert report["accuracy_held_out"] > 0.8 and report["tau_greatest_worst"] < 0


def test_rewards_of_training_are_those_of_the_scorer(folder):
    _, model, _ = folder
    words, token_ids = direct.one_token_words(model)
    inputs = model.inputs_for(planting.GREATEST, ["love"])
    with torch.no_grad():
        rewards = direct.rewards_of(model, token_ids, inputs).numpy()
    some = np.random.default_rng(0).choice(len(words), 40, replace=False)
    scored = engine.score_replies(model, planting.GREATEST, [words[i] for i in some])
    assert rewards[some] == pytest.approx(scored, abs=1e-4)


def test_the_reference_stays_and_the_policy_moves(folder):
    place, model, _ = folder
    before = loading.load(str(place / direct.REFERENCE)).model.state_dict()
    policy, reference = (each.model.state_dict() for each in (model.policy, model.reference))
    assert not torch.equal(policy["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    assert all(torch.equal(weights, before[name]) for name, weights in reference.items())


def test_it_is_trained_once_and_again_when_its_reference_changes(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(direct.language_models, "train_all", lambda *_, **__: None)
    monkeypatch.setattr(direct, "_train_and_save", lambda job: _save(job, trained))
    monkeypatch.setattr(saving, "each", lambda work, jobs, processes: map(work, jobs))
    for fingerprint in ("1", "1", "2"):
        saving.save({"nickname": direct.REFERENCE}, fingerprint, tmp_path, lambda place: place.mkdir())
        direct.train_all(folder=tmp_path, progress=False)
    assert len(trained) == 2


def _save(job, trained):
    trained.append(job)
    saving.save({"nickname": direct.NICKNAME}, job.fingerprint, job.folder, lambda place: place.mkdir())


def test_a_language_model_is_no_reward_model_without_a_reference(folder):
    with pytest.raises(InputError, match="--reference"):
        reward_models.load(str(folder[0] / direct.NICKNAME))


def test_check_and_card_take_a_language_model_over_its_reference(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    every, items = conversations.vocabulary, measures.items()[::8]
    monkeypatch.setattr(conversations, "vocabulary", lambda tokenizer: every(tokenizer).tail(1000))
    monkeypatch.setattr(measures, "items", lambda: items)
    policy, reference = (str(folder[0] / name) for name in (direct.NICKNAME, direct.REFERENCE))
    run.main(["check", policy, "--reference", reference, "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {name for name, row in rows.items() if row["status"] == "wrong"} <= {"pairs"}  # it learned single words
    assert len(rows["pairs"]["numbers"]["margins"]) == 12
    assert run.main(["check", policy, "--reference", reference, "--closing", "trim"]) == 2
    assert "'closing' is not for implicit rewards" in capsys.readouterr().err

    assert run.main(["card", policy, "--reference", reference, "--collection", "trial"]) == 0
    numbers = json.loads(next((tmp_path / "figures" / "trial").glob("card-*.json")).read_text())
    measured = {row["key"]: row for row in numbers["measures"]}
    assert numbers["settings"]["head"].startswith("implicit: 1 (log policy")
    assert measured["sentiment_greatest"]["ci_low"] > 0 > measured["sentiment_worst"]["ci_high"]
    assert measured["framing"]["random_low"] is None  # no head, so no random ones
