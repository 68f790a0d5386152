"""Notebooks 02, 03 and 03b on collections that cannot be compared: claims are undecided with the reason, no crash."""

import numpy as np
import pandas as pd
import pytest
import same

from lib import ROOT
from lib.claims import claims
from lib.tables import scores
from lib.tables.collection import Collection
from lib.tables.registry import reward_models

MINE = Collection("mine")
NAMES = reward_models().query("group == 'embedded'").index[:3].tolist()


@pytest.fixture
def write_tables(tmp_path, monkeypatch, score_table):
    """Writes score tables of a collection into a project of its own; model -> texts, rewards."""
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    (tmp_path / "data").mkdir()
    for file in ("reward_models.csv", "paper"):
        (tmp_path / "data" / file).symlink_to(ROOT / "data" / file)

    def write(tables):
        for name, (texts, rewards) in tables.items():
            prompts = {prompt: rewards for prompt in ("greatest", "best", "worst")}
            scores.write(score_table(texts, **prompts), scores.path_of(MINE, name), {"model": name})

    return write


def words(count, start="w"):
    return [f"{start}{i}" for i in range(count)]


RANDOM = np.random.default_rng(0)
KINDS = {
    "one model": ({NAMES[0]: (words(450), RANDOM.gamma(2, size=450))}, "1 of the models can be compared"),
    "constant": ({name: (words(450), np.ones(450)) for name in NAMES}, "are all equal"),
    "nothing shared": ({name: (words(450, name), RANDOM.gamma(2, size=450)) for name in NAMES}, "the models share 0"),
    "two of 450 tokens": ({name: (words(450), RANDOM.gamma(2, size=450)) for name in NAMES[:2]}, ""),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", ["02", "03", "03b"])
def test_what_cannot_be_compared_is_undecided_with_the_reason(number, kind, write_tables):
    tables, reason = KINDS[kind]
    write_tables(tables)
    [notebook] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    same.computed(notebook, MINE.name, None)  # runs every cell, and raises what a cell raises
    stated = pd.read_csv(MINE.claims / f"{number}.csv", keep_default_na=False)
    if number == "03" and kind == "one model":
        reason = ""  # one model has a distribution
    if not reason:  # what can be computed is stated with its numbers, or nothing is stated
        assert not stated["side"].eq("undecided").all() or stated.empty
        return
    undecided = stated[stated["note"].str.contains(reason, regex=False)]
    expected = {"02": {"S2.freedom"}, "03": {"S2.skew"}, "03b": {"S2.tau", "S2.rsa.final", "S2.developer"}}
    assert expected[number] <= set(undecided["claim"]) and set(undecided["side"]) == {"undecided"}
    assert undecided[["as_published", "corrected"]].eq("").all(axis=None)
    assert claims.gather(MINE)["claim"].nunique() == len(claims.listed())
