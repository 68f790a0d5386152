"""Kinds of items: by hand on few items, against regression to the mean, and intervals by
simulation.
"""

import numpy as np
import pandas as pd
import pytest

from lib import DATA, InputError
from lib.alignment import kinds
from lib.stats.crossed import crossed, mean_influence

SEXUAL, NONE = "sexual content", ""


def people_of(*ratings, items="abcdefghij"):
    return pd.Series(ratings, index=list(items[: len(ratings)]), dtype=float)


# --- which kind -----------------------------------------------------------------------------------


def test_identity_terms_are_a_list_with_a_source():
    terms = pd.read_csv(DATA / "identity_terms.csv", keep_default_na=False)
    assert terms["title"].is_unique
    # ToxiGen has thirteen groups; most terms are of none
    assert terms["minority"].nunique() == 13 + 1
    assert terms["protected"].nunique() == 6 + 1  # immigrants: no term
    # the narrower list is part of the wider one
    assert (terms.loc[terms["protected"] != "", "minority"] != "").all()
    assert set(terms["source"]) == {"Dixon et al. 2018", "Smith et al. 2022"}
    of_dixon = terms.loc[terms["source"] == "Dixon et al. 2018", "term"]
    assert of_dixon.nunique() == 50  # their list has fifty


def test_words_and_titles_have_kinds_of_their_own():
    words = pd.Series({"muslim": "identity", "tree": "nature"})
    items = pd.Index(
        [
            "Muslim",
            "Tree",
            "Black people",
            "Judaism",
            "Homosexuality",
            "Sex",
            "Essex",
            "Computer",
        ]
    )
    assert kinds.kinds_of(items, words).tolist() == ["identity", "nature", *[NONE] * 6]
    titles = kinds.kinds_of(items, words, titles=True)
    assert titles.to_dict() == {
        "Muslim": "identity",
        "Tree": "nature",
        "Black people": "identity",
        "Judaism": NONE,
        "Homosexuality": NONE,
        "Sex": SEXUAL,
        "Essex": NONE,
        "Computer": NONE,
    }


# --- beyond regression to the mean ----------------------------------------------------------------


def test_an_item_is_compared_with_those_that_people_rank_next_to_it():
    people = people_of(9, 8, 7, 6, 5, 4)
    rewards = pd.DataFrame(
        {"M": [1, 6, 0, 5, 9, 0], "N": [1, 1, 1, 1, 1, 1]}, people.index
    )

    def shares(item, neighbours):
        return (
            kinds.undervalued_kinds(people, rewards, pd.Series({item: "k"}), neighbours)
            .loc[item]
            .tolist()
        )

    # b and d, both of which M ranks above c; N ties with both
    assert shares("c", 2) == [1, 0.5]
    assert shares("c", 4)[0] == 1  # a, b, d, e
    # a and e are as near: of three neighbours the third is one of them, so both count
    assert shares("c", 3)[0] == 1
    assert shares("d", 2)[0] == 0.5


def test_neighbours_are_of_no_kind_and_never_the_item_itself():
    people = people_of(9, 8, 7, 6, 5, 4)
    rewards = pd.DataFrame({"M": [1.0, 2, 3, 4, 5, 6]}, people.index)
    of_kind = pd.Series(["", "k", "k", "", "", ""], people.index)
    found = kinds.undervalued_kinds(people, rewards, of_kind, neighbours=1)
    # b: a, which M ranks lower; c: d, which it ranks higher
    assert found["M"].to_dict() == {"b": 0, "c": 1}
    with pytest.raises(InputError, match="4 items are too few to find 5 like each"):
        kinds.undervalued_kinds(people, rewards, of_kind, neighbours=5)


def moderate(random, items=900, models=6, of_kind=25):
    """Models that agree with people moderately; a kind that people rate high and models as
    anything else so rated.
    """
    people = pd.Series(random.normal(size=items), [f"i{n}" for n in range(items)])
    kind = pd.Series("", people.index)
    chosen = random.choice(people.index[people > 0.5], of_kind, replace=False)
    kind[chosen] = "k"
    shared = random.normal(size=(items, 1))
    knows = random.uniform(0.3, 1.3, size=models)
    rewards = (
        knows * people.to_numpy()[:, None]
        + shared
        + random.normal(size=(items, models))
    )
    return (
        people,
        pd.DataFrame(rewards, people.index, [f"m{m}" for m in range(models)]),
        kind,
    )


def test_a_kind_that_people_like_looks_undervalued_raw_and_does_not_among_its_neighbours():
    people, rewards, kind = moderate(np.random.default_rng(3))
    raw = rewards.rank(ascending=False).mean(axis=1) - people.rank(ascending=False)
    assert (raw[kind == "k"].mean() > raw[kind == ""]).mean() > 0.7
    values = kinds.undervalued_kinds(people, rewards, kind)
    mean = crossed(values.mean(), mean_influence(values), 0.5)
    assert mean.ci_low < 0.5 < mean.ci_high
    hurt = rewards.where(kind == "", rewards - 1.5)
    values = kinds.undervalued_kinds(people, hurt, kind)
    mean = crossed(values.mean(), mean_influence(values), 0.5)
    assert mean.ci_low > 0.6 and (values.mean() > 0.5).all()
