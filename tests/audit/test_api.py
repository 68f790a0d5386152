"""The library as other projects use it: a few names, and one package in a wheel that needs
nothing of this folder.
"""

import doctest

import jedi
import numpy as np
import pandas as pd
import pytest

import audit
from audit import api
from lib import InputError
from lib.scoring import reader, vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"


def test_replies_come_back_with_their_reward_and_what_was_read(folder):
    model = audit.load(folder)
    table = audit.score(model, PROMPT, [" love ", "war", "love"])
    assert table["reply"].tolist() == [" love ", "war", "love"]
    alone = vocabulary.score_replies(model, PROMPT, [" love ", "war", "love"])
    assert table["reward"].to_numpy() == pytest.approx(alone, abs=1e-5)
    ids = [
        model.tokenizer.convert_tokens_to_ids(read.split(" ")) for read in table["read"]
    ]
    assert [model.tokenizer.decode(some).strip() for some in ids] == [
        "love",
        "war",
        "love",
    ]


def test_rows_of_prompts_and_replies_are_scored_each_by_itself(folder):
    model, prompts, replies = (
        audit.load(folder, device="cpu"),
        [PROMPT, "Why?", PROMPT],
        ["love", "love", "war"],
    )
    rows = audit.score(model, prompts, replies)
    alone = [
        audit.score(model, *row)["reward"][0]
        for row in zip(prompts, [[reply] for reply in replies], strict=True)
    ]
    assert rows["reply"].tolist() == replies and rows[
        "reward"
    ].to_numpy() == pytest.approx(np.array(alone), abs=1e-5)
    with pytest.raises(InputError, match="2 prompts and 1 replies are no rows"):
        audit.score(model, ["a", "b"], ["c"])


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


def test_conversations_are_scored_as_their_prompts_and_replies(folder):
    model, user = audit.load(folder, device="cpu"), {"role": "user", "content": PROMPT}
    conversation = [user, {"role": "assistant", "content": "love"}]
    pd.testing.assert_frame_equal(
        model.score([conversation]), audit.score(model, PROMPT, ["love"])
    )
    with pytest.raises(InputError, match="row 2 has no texts"):
        model.score([conversation, [user]])


@pytest.mark.parametrize("prompts", [PROMPT, [PROMPT, "Why?", PROMPT, "Who?", "Why?"]])
def test_so_many_replies_are_read_together_at_most(folder, prompts, monkeypatch):
    model, replies, sizes = (
        audit.load(folder, device="cpu"),
        ["love", "war", "hate and love", "no", "hope"],
        [],
    )
    usual = model.score(prompts, replies)
    rewards = reader.Reader.rewards

    def counted(read, suffixes):
        sizes.append(len(suffixes))
        return rewards(read, suffixes)

    monkeypatch.setattr(reader.Reader, "rewards", counted)
    two = model.score(prompts, replies, batch_size=2)
    assert max(sizes) <= 2 and sum(sizes) == 5
    pd.testing.assert_frame_equal(two, usual, atol=1e-5)


def test_what_is_misspelt_or_no_list_of_texts_is_one_line(folder):
    model = audit.load(folder, device="cpu")
    for call, line in (
        (
            lambda: audit.load(folder, devise="cpu"),
            "load has no option 'devise'; write device",
        ),
        (lambda: model.score(PROMPT, "love"), "lists of one length"),
        (lambda: model.score([3], ["a"]), "row 1 has no texts"),
        (
            lambda: model.score(PROMPT, ["a"], batch_size=0),
            "batch_size must be 1 or more",
        ),
    ):
        with pytest.raises(InputError, match=line):
            call()


def test_an_editor_completes_the_names_and_the_options():
    def completed(line: str) -> set[str]:
        return {
            each.name
            for each in jedi.Script(
                f"import audit as rmv\nmodel = rmv.load('a')\n{line}"
            ).complete()
        }

    assert completed("rmv.") >= {*audit.__all__}
    assert completed("rmv.load('a', dev") == {"device="} and "score" in completed(
        "model."
    )
