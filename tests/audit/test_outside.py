"""Rewards from outside: what is exported and scored comes back as a score table, and as a card;
bad rows are named.
"""

import json

import numpy as np
import pandas as pd
import pytest

from audit import __main__ as run
from audit.card import measures, outside
from lib import InputError
from lib.tables import lexicons, scores
from lib.tables.collection import Collection

STUDY = Collection("mine")


@pytest.fixture
def few(monkeypatch, tmp_path) -> pd.DataFrame:
    """Three words and two items to ask about, and a folder for scores; the exported texts."""
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    monkeypatch.setattr(measures, "words", lambda: pd.Index(["love", "war", "null"]))
    monkeypatch.setattr(
        measures, "items", lambda: pd.Series({"Love": -1.0, "war": -2.0})
    )
    file = tmp_path / "texts.csv"
    assert run.main(["export", str(file)]) == 0
    return pd.read_csv(file, keep_default_na=False)


def rewards_of(texts: pd.DataFrame) -> pd.DataFrame:
    lengths = texts["reply"].str.len() + 10.0 * texts["prompt_name"].eq("worst") + 0.5
    return pd.DataFrame({"id": texts["id"], "reward": lengths})


def test_every_text_is_exported_once_with_the_papers_questions(few):
    assert len(few) == 3 * 4 and few["id"].is_unique  # `war` is a word and an item
    assert few.loc[few["prompt_name"] == "best", "prompt"].unique().tolist() == [
        measures.prompts()["best"]
    ]
    assert set(few["reply"]) == {"love", "war", "null", "Love"}


def test_rewards_come_back_as_a_score_table_in_whatever_order_they_are(few, tmp_path):
    file = tmp_path / "rewards.csv"
    rewards_of(few)[::-1].assign(note="x").to_csv(file, index=False)
    assert run.main(["import", str(file), "--name", "judge"]) == 0
    table = scores.read_all(STUDY)["judge"].set_index("text")
    assert table.loc["null", list(measures.PROMPTS)].tolist() == [4.5, 4.5, 14.5]
    assert table.loc["war", list(measures.PROMPTS)].tolist() == [3.5, 3.5, 13.5]
    assert (
        outside.table_of("judge", None) is not None
        and outside.table_of("other", None) is None
    )


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda rows: pd.concat([rows, rows[:1]]), "line 14: id '.*' is on line 2 too"),
        (
            lambda rows: rows[1:],
            "lacks 1 of 12 rewards, the first of them .*'love' as the reply to",
        ),
        (
            lambda rows: rows.assign(reward=["high", *rows["reward"][1:]]),
            "line 2: 'high' is no finite number",
        ),
        (
            lambda rows: rows.assign(reward=[*rows["reward"][:-1], np.inf]),
            "line 13: 'inf' is no finite number",
        ),
        (
            lambda rows: rows.assign(reward=[1e39, *rows["reward"][1:]]),
            "line 2: '1e[+]39' is no finite number",
        ),
        (
            lambda rows: rows.assign(reward=[np.nan, *rows["reward"][1:]]),
            "line 2: '' is no finite number",
        ),
        (
            lambda rows: rows.assign(id=["abc", *rows["id"][1:]]),
            "line 2: id 'abc' is none of ours",
        ),
        (
            lambda rows: rows.rename(columns={"reward": "score"}),
            "with columns id,reward",
        ),
    ],
)
def test_rows_that_are_wrong_are_named_and_nothing_is_written(
    few, tmp_path, spoil, problem
):
    file = tmp_path / "rewards.csv"
    spoil(rewards_of(few)).to_csv(file, index=False)
    with pytest.raises(InputError, match=problem):
        outside.import_rewards(str(file), "judge")
    assert STUDY.models == ()


@pytest.mark.parametrize("collection", ["embedded", "published-words"])
def test_imported_rewards_go_into_a_collection_of_ones_own(few, tmp_path, collection):
    with pytest.raises(InputError, match="choose another"):
        outside.import_rewards(str(tmp_path / "none.csv"), "judge", collection)


def test_a_card_of_imported_rewards_has_the_measures_of_its_rewards_and_says_what_it_lacks(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    asked, vader = (
        outside.texts(),
        lexicons.load("vader").corrected.set_index("word")["sentiment"],
    )
    noise = np.random.default_rng(0).normal(size=len(asked))
    scored = asked.assign(reward=asked["reply"].map(vader).fillna(0) + noise)
    scored.to_csv(tmp_path / "rewards.csv", index=False)
    assert run.main(["import", str(tmp_path / "rewards.csv"), "--name", "judge"]) == 0
    assert run.main(["card", "judge"]) == 0
    printed = capsys.readouterr().out
    assert measures.MEASURES.loc["sentiment_greatest", "above"] in printed
    content = json.loads((STUDY.figures / "card-judge.json").read_text())
    rewards = measures.rewards_in(scored.pivot_table("reward", "reply", "prompt_name"))
    expected = measures.of_model(rewards, 0.5)["estimate"].drop("read_as_itself")
    found = {row["key"]: row["estimate"] for row in content["measures"]}
    assert found == pytest.approx(expected.to_dict(), rel=1e-4)
    assert {row["random_low"] for row in content["measures"]} == {None}
    page = (STUDY.figures / "card-judge.html").read_text()
    assert "No random heads were tried" in page and "No model" in page
