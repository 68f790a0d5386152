"""How much of people's order of items can be read from the names of the items: a ridge on numbers
that describe a name, trained on people's ratings of other items (notebook 06).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import DATA, ROOT

# data/reachable/build.py writes both
PREDICTIONS = DATA / "reachable" / "predictions.csv"
MADE_FROM = PREDICTIONS.with_name("made_from.json")
FOLDS = 6
PENALTIES = (30, 100, 300, 1000, 3000, 10_000)
MOST_MATCHES = 400  # more matches give an item no more weight


def states_file(prompt: str, made_from: str) -> Path:
    """Return the file of the items' states under a prompt, which may not be there. made_from: the
    hash `states` in MADE_FROM.
    """
    return ROOT / "data" / "cache" / "states" / f"{made_from}-{prompt}.safetensors"


def weights_of(matches: pd.Series) -> ndarray:
    """Return the weight of each item in a training, by the matches of its rating; the mean is 1."""
    weights = matches.clip(upper=MOST_MATCHES)
    return (weights / weights.mean()).to_numpy()


def fold_of(groups: Sequence) -> ndarray:
    """Return the fold of each item, 0 to FOLDS - 1, drawn at random; a group is in one fold."""
    codes, names = pd.factorize(np.asarray(groups))
    return np.random.default_rng(0).integers(FOLDS, size=len(names))[codes]


def fit(features: ndarray, ratings: ndarray, weights: ndarray) -> Pipeline:
    """Return a ridge on standardised features, which predicts ratings, (items,), from features,
    (items, features). Its penalty predicts each item best from all other items.
    """
    model = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    return model.fit(features, ratings, ridgecv__sample_weight=weights)


def out_of_fold(
    features: ndarray, ratings: ndarray, weights: ndarray, folds: ndarray
) -> ndarray:
    """Return the rating of each item that a ridge predicts, trained on all other folds: (items,).
    The penalty is chosen inside the training folds.
    """
    predicted = np.empty(len(ratings))
    for fold in np.unique(folds):
        held = folds == fold
        ridge = fit(features[~held], ratings[~held], weights[~held])
        predicted[held] = ridge.predict(features[held])
    return predicted
