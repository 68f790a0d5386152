"""The items of a collection that people rated and models scored (section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from .. import InputError
from ..stats.crossed import Cluster
from ..stats.rankings import refuse_constant
from ..tables import lexicons, score_files, scores
from ..tables.collection import ITEMS, Collection
from ..tables.prompts import polarity, with_polarity
from ..tables.stems import stems
from . import human

FEWEST = 102  # rated items, so that the upper and the lower half have 50 and more


@dataclass(frozen=True)
class Rated:
    """People's ratings and models' rewards of the same items.

    `prompts`: at most three. `good`: prompts that do not ask for something bad. `texts`: prompt ->
    its wording. `ratings`: a row per item. `people`: one rating per item. `matches`: the number of
    matches behind it, or None. `rewards`: prompt -> items x models, in the order of people.
    `scored`: prompt -> all shared texts x models. `cluster`: as in Measured; titles of items are no
    inflections.
    """

    models: list[str]
    prompts: list[str]
    good: list[str]
    texts: Mapping[str, str]
    ratings: pd.DataFrame
    people: pd.Series
    matches: pd.Series | None
    rewards: Mapping[str, pd.DataFrame]
    scored: Mapping[str, pd.DataFrame]
    cluster: Cluster


def read_rated_items(study: Collection, fewest: int = FEWEST) -> Rated:
    """Return the rated items of a collection: items of EloEverything, or the words that VADER's
    raters judged.

    Raise InputError if nothing can be tested: fewer than two models, equal rewards, or fewer than
    `fewest` rated items.
    """
    tables = scores.read_all(study)
    first = next(iter(tables.values()))
    prompts = scores.shared_prompts(tables)[:3]
    if len(tables) < 2:
        raise InputError(
            f"{next(iter(tables))} is the only model, so no mean has an interval; score another one"
        )
    if study == ITEMS:
        ratings = score_files.human_ratings().set_index("item")
        people = ratings["elo"]
    else:
        ratings = lexicons.vader_ratings().set_index("word")
        people = ratings["sentiment"]
    scored = {}
    rewards = {}
    for prompt in prompts:
        scored[prompt] = scores.shared_vocabulary(tables, prompt)
        rewards[prompt], rated = human.join(scored[prompt], people)
        scores.refuse_few(rated, fewest, "rated items")
        refuse_constant(rewards[prompt])
    bad = [prompt for prompt in with_polarity(prompts) if polarity(prompt) <= 0]
    good = [prompt for prompt in prompts if prompt not in bad]
    wordings = first.attrs["metadata"].get("prompts", {})
    ratings = ratings.loc[rated.index]
    return Rated(
        models=list(tables),
        prompts=prompts,
        good=good or prompts[:1],
        texts={prompt: wordings.get(prompt, prompt) for prompt in prompts},
        ratings=ratings,
        people=rated,
        matches=ratings.get("matches"),
        rewards=rewards,
        scored=scored,
        cluster=list if study == ITEMS else stems,
    )
