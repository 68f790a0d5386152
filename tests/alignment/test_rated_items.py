"""What people rated, as the notebooks of section 4 read it, and collections on which nothing can be tested."""

import shutil

import nbformat
import numpy as np
import pandas as pd
import pytest

from lib import ROOT, InputError
from lib.alignment import rated_items
from lib.show import figures
from lib.tables import lexicons, scores
from lib.tables.collection import Collection

MINE = Collection("mine")
NOTEBOOKS = {"06": "06_human_alignment.ipynb", "06b": "07_undervalued_items.ipynb"}


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A project of its own, which knows the models of the paper."""
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "data" / "reward_models.csv", tmp_path / "data")
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)


def write(score_table, words, **rewards):
    """Score tables of models that reward words under `greatest` and `best` so."""
    for name, values in rewards.items():
        table = score_table(words, greatest=np.asarray(values, dtype=float), best=np.asarray(values, dtype=float)[::-1])
        scores.write(table, scores.path_of(MINE, name), {})


def rated_words(n):
    return list(lexicons.vader_ratings()["word"][100 : 100 + n])


def run(notebook):
    """Execute the code of a notebook up to its exercises; return its names."""
    names: dict = {}
    for cell in nbformat.read(ROOT / "notebooks" / NOTEBOOKS[notebook], 4).cells:
        if cell.source.startswith("## Exercises"):
            break
        if cell.cell_type == "code":
            is_parameters = "parameters" in cell.metadata.get("tags", [])
            exec(cell.source + "\ncollection = 'mine'" * is_parameters, names)
    return names


def random_rewards(n, models="ab"):
    return {name: np.random.default_rng(seed).normal(size=n) for seed, name in enumerate(models)}


@pytest.mark.parametrize("notebook, fewest", [("06", 102), ("06b", 400)])
@pytest.mark.parametrize(
    "case, reason",
    [("few", "101 rated items are too few, {} are needed; score a model with a larger vocabulary"),
     ("alone", "a is the only model, so no mean has an interval; score another one"),
     ("constant", "the rewards of b are all equal, so they rank nothing; leave it out"),
     ("apart", "")],
)  # fmt: skip
def test_where_nothing_can_be_tested_sentences_are_undecided_for_a_reason(score_table, notebook, fewest, case, reason):
    words = [*rated_words(101 if case == "few" else 450), "qxzv", "zzqk"]
    rewards = random_rewards(len(words), "a" if case == "alone" else "ab")
    if case == "constant":
        rewards["b"] = np.ones(len(words))
    write(score_table, words, **rewards)
    if case == "apart":
        write(score_table, [f"{word}x" for word in words], b=rewards["b"])
    with pytest.raises(InputError) as caught:
        run(notebook)
    assert str(caught.value).startswith(reason.format(fewest)) and "\n" not in str(caught.value)
    kept = pd.read_csv(MINE.claims / f"{notebook}.csv", keep_default_na=False)
    assert set(kept["verdict"]) <= {"undecided", "not testable here"} and (kept["side"] != "for").all()
    assert kept["note"].str.startswith(reason.format(fewest)).all() and len(kept) > 4


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_two_models_and_450_words_are_enough_for_every_cell(score_table, notebook, monkeypatch, tmp_path):
    words = [*rated_words(450), "forest", "river", "muslims"]
    write(score_table, words, **random_rewards(453))
    monkeypatch.setattr(figures, "save", lambda *_, **__: None)
    names = run(notebook)
    assert len(names["people"]) == 450
    kept = pd.read_csv(MINE.claims / f"{notebook}.csv", keep_default_na=False)
    assert len(kept) and not kept["verdict"].isin(["reproduced"]).any()


def test_without_words_of_a_kind_no_kind_is_tested(score_table):
    write(score_table, rated_words(450), **random_rewards(450))
    with pytest.raises(
        InputError, match="^No two items are of a listed kind; score a larger vocabulary. The sentences"
    ):
        run("06b")
    kept = pd.read_csv(MINE.claims / "06b.csv", keep_default_na=False)
    assert set(kept["side"]) == {"undecided"} and kept["note"].str.startswith("No two items").all()


def test_words_are_rated_by_vaders_raters_and_asked_for_good_things(score_table):
    words = rated_words(450)
    write(score_table, words, **random_rewards(450))
    rated = rated_items.read(MINE, "06", ("S4.data",))
    assert (rated.models, rated.prompts, rated.good) == (["a", "b"], ["greatest", "best"], ["greatest", "best"])
    assert rated.matches is None and rated.people.index.equals(rated.rewards["best"].index)
    assert (
        rated.people["abandon"] == -1.9
        if "abandon" in words
        else rated.people[words[0]] == rated.ratings.loc[words[0], "sentiment"]
    )
