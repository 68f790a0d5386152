"""Rewards from outside: what is exported and scored comes back as a score table, and as a card;
bad rows are named.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import refusal_of

from audit import __main__ as run
from audit.card import measures, outside
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


def test_rewards_come_back_as_a_score_table_in_whatever_order_they_are(few, tmp_path):
    assert len(few) == 3 * 4 and few["id"].is_unique  # `war` is a word and an item
    assert set(few["prompt"]) == set(measures.prompts().values())
    file = tmp_path / "rewards.csv"
    rewards_of(few)[::-1].assign(note="x").to_csv(file, index=False)
    assert run.main(["import", str(file), "--name", "judge"]) == 0
    table = outside.table_of("judge", STUDY).set_index("text")[list(measures.PROMPTS)]
    assert table.loc["null"].tolist() == [4.5, 4.5, 14.5]
    assert table.loc["war"].tolist() == [3.5, 3.5, 13.5]
    assert outside.table_of("other", STUDY) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: pd.concat([rows, rows[:1]]),
        lambda rows: rows.assign(reward=[1e39, *rows["reward"][1:]]),
    ],
)
def test_the_first_text_without_one_finite_reward_is_named(few, tmp_path, spoil):
    file = tmp_path / "rewards.csv"
    spoil(rewards_of(few)).to_csv(file, index=False)
    problem = f"1 of 12 lack it, the first is {few['id'][0]} ('love')"
    refusal_of(lambda: outside.import_rewards(str(file), "judge"), problem)
    assert STUDY.models == ()


def test_a_card_of_imported_rewards_has_the_measures_of_its_rewards(
    monkeypatch, tmp_path
):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    asked, vader = outside.texts(), measures.lexicon("vader")
    noise = np.random.default_rng(0).normal(size=len(asked))
    scored = asked.assign(reward=asked["reply"].map(vader).fillna(0) + noise)
    scored.to_csv(tmp_path / "rewards.csv", index=False)
    assert run.main(["import", str(tmp_path / "rewards.csv"), "--name", "judge"]) == 0
    assert run.main(["card", "judge"]) == 0
    table = pd.read_csv(STUDY.figures / "card-judge.csv").set_index("measure")
    rewards = measures.rewards_in(scored.pivot_table("reward", "reply", "prompt_name"))
    expected = measures.of_model(rewards, 0.5)["estimate"].drop("read_as_itself")
    assert table["estimate"].to_dict() == pytest.approx(expected.to_dict(), rel=1e-4)
    assert table["random_low"].isna().all()
