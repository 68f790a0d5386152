"""False-positive rates of the analyses of section 4, for data/calibration/specifications.csv.

Kinds of items are replaced by items of no kind that people rank alike, on the published rewards; and models are
simulated that know people's ratings equally well at both ends. Other choices were not varied and share a rate.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.alignment import kinds, rated_items
from lib.alignment import specifications as alignment
from lib.planted import planting
from lib.stats import multiverse
from lib.stats.resampling import side
from lib.tables.collection import ITEMS

SHUFFLES = 200
STUDIED = 420  # items of a simulated study of two ends
# What the simulated models are made of, so that tau with people is about .29 and between models .50, as published.
RATING, SHARED, OWN = 0.44, 0.72, 0.54


def of_kinds(draws: int = SHUFFLES, seed: int = 0) -> pd.DataFrame:
    """Return the same of S4.undervalued: how often a kind seems under- or overvalued if it is made of placebos.

    Placebos are items of no kind that people rank next to the items of the kind (alignment.placebos), so only what they
    are about is gone. The rewards are the published ones, under the paper's prompt, of all items.
    """
    rated = rated_items.joined(ITEMS)
    main = rated.prompts[0]
    kind_of = kinds.kinds_of(rated.people.index, planting.word_kinds(), titles=True)
    none, shares = kind_of.index[kind_of == ""], alignment.Shares(rated.people, {main: rated.rewards[main]})
    drawn = {kind: alignment.placebos(shares, members, none, draws, seed)
             for kind, members in kind_of.groupby(kind_of).groups.items() if kind}  # fmt: skip
    rows = []
    for chosen in multiverse.combinations(shares.choices, alignment.excluded):
        of_none = shares.of(chosen, none, none).reindex(none)
        ways = f"rank of the models={chosen['rank of the models']}; undervalued={chosen['undervalued']}"
        for kind, places in drawn.items():
            results = [shares.estimate(chosen, of_none.iloc[place].dropna()) for place in places]
            is_wrong = [side(result.ci_low, result.ci_high) != "undecided" for result in results]
            rows.append([f"S4.undervalued.{kind.split()[0]}", ways, np.mean(is_wrong), draws])
    return _mean_sizes(rows)


def of_ends(studies: Sequence[int] = range(SHUFFLES)) -> pd.DataFrame:
    """Return the same of S4.asymmetry: how often ends seem to differ in models that know both ends equally well.

    studies: their seeds. A study draws STUDIED items with their published ratings and matches. Ten models reward the
    rating, plus noise that they share and noise of their own; the noise is the same everywhere.
    """
    rated, rows = rated_items.joined(ITEMS), []
    for study in studies:
        random = np.random.default_rng(study)
        people = rated.people.iloc[random.choice(len(rated.people), STUDIED, replace=False)]
        weights = random.normal(RATING, 0.08, size=len(rated.models))
        known = np.outer((people - people.mean()) / people.std(), weights)
        noise = SHARED * random.normal(size=(STUDIED, 1)) + OWN * random.normal(size=known.shape)
        rewards = pd.DataFrame(known + noise, people.index, rated.models)
        table, _ = alignment.of_ends(people, {"": rewards}, rated.matches[people.index], cuts=(100,))
        ways = "compared by=" + table["compared by"] + "; ends=" + table["ends"]
        rows += [["S4.asymmetry", way, lies != "undecided", len(studies)]
                 for way, lies in zip(ways, table["side"], strict=True)]  # fmt: skip
    return _mean_sizes(rows)


def _mean_sizes(rows: list[list]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["claim", "choices", "size", "n"])
    sizes = table.groupby(["claim", "choices"], sort=False).agg({"size": "mean", "n": "first"})
    return sizes.round(4).reset_index()
