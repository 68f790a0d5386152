"""The library as other projects use it: a few names, and one package in a wheel that needs
nothing of this folder.
"""

import doctest

import numpy as np
import pytest
from conftest import refusal_of

import audit
from audit import api
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"


def test_replies_come_back_with_their_reward_and_what_was_read(folder):
    model, replies = audit.load(folder), [" love ", "war", "love"]
    table = audit.score(model, PROMPT, replies)
    assert table["reply"].tolist() == replies
    alone = vocabulary.score_replies(model, PROMPT, replies)
    assert table["reward"].to_numpy() == pytest.approx(alone, abs=1e-5)
    assert list(table["read"]) == ["love", "w ar", "love"]  # the tokens that were read


def test_rows_are_scored_each_by_itself(folder):
    model = audit.load(folder, device="cpu")
    prompts, replies = [PROMPT, "Why?", PROMPT], ["love", "love", "war"]
    rows = audit.score(model, prompts, replies)
    pairs = zip(prompts, replies, strict=True)
    alone = [audit.score(model, asked, [reply])["reward"][0] for asked, reply in pairs]
    assert rows["reply"].tolist() == replies
    assert rows["reward"].to_numpy() == pytest.approx(np.array(alone), abs=1e-5)


def test_the_examples_in_docstrings_run(folder, monkeypatch, tmp_path):
    (tmp_path / "path" / "to").mkdir(parents=True)
    (tmp_path / "path" / "to" / "model").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    examples = [test for test in doctest.DocTestFinder().find(api) if test.examples]
    names, runner = {"load": audit.load, "score": audit.score}, doctest.DocTestRunner()
    for test in examples:  # first load, then score, which uses its model
        test.globs = names
        assert runner.run(test, clear_globs=False).failed == 0
    assert [test.name.rpartition(".")[2] for test in examples] == ["load", "score"]


def test_what_is_misspelt_or_no_list_of_texts_is_one_line(folder):
    model = audit.load(folder, device="cpu")
    for call, line in (
        (lambda: audit.load(folder, devise="cpu"), "use attention"),
        (lambda: model.score(PROMPT, "love"), "lists of one length"),
        (lambda: model.score(PROMPT, ["a"], batch_size=0), "batch_size"),
    ):
        refusal_of(call, line)
