"""Rated items of a collection: ratings and rewards of one item stand in one row."""

import pytest

from lib import InputError
from lib.alignment.rated_items import read_rated_items
from lib.tables import lexicons, scores
from lib.tables.collection import Collection

STUDY = Collection("rated")
PROMPTS = {
    "greatest": "What is greatest?",
    "worst": "What is worst?",
    "odd": "What is odd?",
}


@pytest.fixture
def write(tmp_path, monkeypatch, score_table):
    """Return a function that writes a score table: VADER's first 110 words backwards, and one word
    that nobody rated. A reward is the word's rating times a factor by prompt.
    """
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    rated = lexicons.vader_ratings().set_index("word")["sentiment"]
    rated = rated[rated.index.str.isalpha()].head(110)
    texts = [*rated.index[::-1], "zzyzx"]

    def make(name: str, **factors: float) -> None:
        rewards = {prompt: [*(rated[::-1] * by), 0.5] for prompt, by in factors.items()}
        table = score_table(texts, **rewards)
        scores.write(
            table, scores.path_of(STUDY, name), {"model": name, "prompts": PROMPTS}
        )

    return make


def test_each_item_has_its_own_rating_and_rewards(write):
    write("A", greatest=1, worst=-1, odd=2)
    write("B", greatest=3, worst=-3, odd=4)
    rated = read_rated_items(STUDY)
    assert rated.models == ["A", "B"] and rated.prompts == ["greatest", "worst", "odd"]
    assert rated.good == ["greatest", "odd"]  # all but the prompt for something bad
    assert rated.texts == PROMPTS and rated.matches is None
    assert len(rated.people) == 110 and "zzyzx" not in rated.people
    assert "zzyzx" in rated.scored["worst"].index
    for prompt, factor in {"greatest": 3, "worst": -3, "odd": 4}.items():
        rewards = rated.rewards[prompt]["B"]
        assert rewards.to_dict() == pytest.approx(
            (factor * rated.people).to_dict(), abs=1e-6
        )


def test_what_cannot_be_tested_is_told(write):
    write("A", greatest=1)
    write("B", greatest=0)
    with pytest.raises(InputError, match="the values of 'B' are missing or all equal"):
        read_rated_items(STUDY)
