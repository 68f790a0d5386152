"""Notebooks 02 to 05 on collections that cannot be compared: claims are undecided with the reason, no crash."""

import numpy as np
import pandas as pd
import pytest
import same

from lib import ROOT, InputError
from lib.claims import claims
from lib.tables import lexicons, scores
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


def graded_words(count, skip=0):
    """Words that both graded lexicons and the list of frequencies hold."""
    listed = set(lexicons.load("vader").corrected["word"]) & set(lexicons.load("wordfreq").corrected["word"])
    listed &= set(lexicons.load("afinn").corrected.query("sentiment != 0")["word"])
    return sorted(word for word in listed if word.isalpha())[skip : skip + count]


OF_WORDS = {
    "one model": ([(graded_words(450), RANDOM.gamma(2, size=450))], "1 model gives no mean over models"),
    "constant": ([(graded_words(450), np.ones(450))] * 2, "gives all words one reward under 'greatest'"),
    "no words": ([(words(450), RANDOM.gamma(2, size=450))] * 3, "is among these 450 tokens"),
}


@pytest.mark.parametrize("kind", OF_WORDS)
@pytest.mark.parametrize("number", ["04", "04b", "05"])
def test_what_has_no_test_in_section_3_is_undecided_with_the_reason(number, kind, write_tables):
    tables, reason = OF_WORDS[kind]
    write_tables(dict(zip(NAMES, tables, strict=False)))
    [notebook] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    with pytest.raises(InputError, match=f"{reason}.* are kept as undecided"):
        same.computed(notebook, MINE.name, None)
    stated = pd.read_csv(MINE.claims / f"{number}.csv", keep_default_na=False)
    claim = {"04": "S3.framing.interaction", "04b": "S3.slope.worst", "05": "S3.freq.change"}[number]
    assert claim in set(stated["claim"])
    assert set(stated["side"]) == {"undecided"} and stated["note"].str.contains(reason, regex=False).all()


@pytest.mark.parametrize("number", ["04", "05"])
def test_section_3_runs_on_two_models_without_a_common_token(number, write_tables):
    write_tables({name: (graded_words(450, 450 * i), RANDOM.gamma(2, size=450)) for i, name in enumerate(NAMES[:2])})
    [notebook] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    same.computed(notebook, MINE.name, None)
    stated = pd.read_csv(MINE.claims / f"{number}.csv", keep_default_na=False)
    assert (stated["corrected"] != "").any() and len(stated)
