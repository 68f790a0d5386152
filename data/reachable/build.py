"""Predict people's ratings of items from SmolLM2's states: python data/reachable/build.py

It writes predictions.csv (each rating is predicted by a ridge that was trained on other items),
learning.csv (how well ridges order items that were trained on few), and in made_from.json a hash of
what these were made from. The states of the items are kept in data/cache/states. All takes about 20
minutes on one core.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file, save_file
from scipy import stats
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from transformers import AutoModelForCausalLM

from lib.alignment import reachable
from lib.io import hash_of_code, replacing
from lib.scoring.vocabulary import score_replies
from lib.tables import downloads, score_files
from lib.tables.stems import stems
from lib.trained import smollm2
from lib.trained.saving import fingerprint
from lib.trained.states import States, with_head

LEARNING = reachable.PREDICTIONS.with_name("learning.csv")
CLUSTERS = 60
SIZES = (200, 500, 1000, 2000, 4000, 6000)  # numbers of items to train on
DRAWS, TESTED = 5, 1200  # trainings of each size, and items that are then predicted
# a word of more names than this says little about what its items have in common
MOST_NAMES = 25


def words_of(name: str) -> list[str]:
    """Return the stems of the words of a name that have three letters or more."""
    return stems(re.findall(r"[^\W\d_]{3,}", name))


def word_groups(names: pd.Series) -> np.ndarray:
    """Return the group of each name: names that share a word are in one group, and so are all names
    that are linked by such pairs.
    """
    counted = CountVectorizer(analyzer=words_of, max_df=MOST_NAMES)
    names_by_words = counted.fit_transform(names)
    return connected_components(names_by_words @ names_by_words.T)[1]


def state_clusters(states: np.ndarray) -> np.ndarray:
    """Return the cluster of each item's state, 0 to CLUSTERS - 1."""
    standard = (states - states.mean(axis=0)) / states.std(axis=0)
    components = PCA(50, random_state=0).fit_transform(standard)
    return KMeans(CLUSTERS, n_init=2, random_state=0).fit_predict(components)


def untrained(language_model):
    """Return a model of the same shape, tokenizer and template, with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(language_model.model.config)
    name = f"untrained {language_model.name}"
    return replace(language_model, name=name, model=model.float().eval())


def made_from() -> dict[str, str]:
    """Return hashes of what decides the states (items, model and prompts), and of what decides all
    (these and the code), beside the command that makes all.
    """
    pins = downloads.registry()
    items = pins.loc[pins["path"] == score_files.item_file("GE"), "git_blob_id"].item()
    model = smollm2.PACKAGES.read_text(), smollm2.CONFIG.read_bytes()
    states = fingerprint(items, *model, score_files.ITEM_PROMPTS)
    code = hash_of_code([Path(__file__), Path(reachable.__file__)])
    made = {"command": "python data/reachable/build.py", "states": states}
    return made | {"all": fingerprint(states, code)}


def predictions(rated, weights, states_of) -> pd.DataFrame:
    """Return a row for each item: its group by shared words, its cluster, and its predicted rating
    by prompt and kind of folds: of `items`, of `words` (no word is shared between folds) and of
    `topics` (no cluster is). `untrained`: from states of a model with random weights. `with
    models`: from states and the ranks by the ten reward models. Folds of both are of items.
    """
    names, ratings = rated["item"], rated["elo"].to_numpy()
    table = pd.DataFrame({"item": names, "word_group": word_groups(names)})
    table["cluster"] = state_clusters(states_of("GE"))
    groups = {
        "items": names,
        "words": table["word_group"],
        "topics": table["cluster"],
    }
    for prompt in score_files.ITEM_PROMPTS:
        states = states_of(prompt)
        for kind, group in groups.items():
            folds = reachable.fold_of(group)
            given = states, ratings, weights, folds
            table[f"{prompt} {kind}"] = reachable.out_of_fold(*given)
    folds = reachable.fold_of(names)
    models = list(score_files.papers_models().values())
    ranks = score_files.read_items("GE")[models].rank().to_numpy()
    others = {"GE untrained": states_of("GE", trained=False)}
    others["GE with models"] = np.column_stack([states_of("GE"), ranks])
    for name, features in others.items():
        table[name] = reachable.out_of_fold(features, ratings, weights, folds)
    return table


def learning_curve(states, ratings, weights) -> pd.DataFrame:
    """Return tau with people on TESTED items, by the number of other items in the training."""
    rows = []
    for size in SIZES:
        for draw in range(DRAWS):
            order = np.random.default_rng(draw).permutation(len(ratings))
            train, tested = order[:size], order[-TESTED:]
            ridge = reachable.fit(states[train], ratings[train], weights[train])
            predicted = ridge.predict(states[tested])
            tau = stats.kendalltau(predicted, ratings[tested]).statistic
            rows.append({"items": size, "draw": draw, "tau": tau})
    return pd.DataFrame(rows)


def inputs(keep: bool = True):
    """Return people's ratings, the items' weights, and a function that returns the states of the
    items by the name of a prompt. keep: whether states are kept in files, and read from there.
    """
    rated = score_files.human_ratings()
    language_model = smollm2.load(dtype="float32")

    def states_of(prompt: str, trained: bool = True) -> np.ndarray:
        name = prompt if trained else f"{prompt}-untrained"
        file = reachable.states_file(name, made_from()["states"])
        if keep and file.is_file():
            return load_file(file)["states"].astype(float)
        model = language_model if trained else untrained(language_model)
        text = score_files.ITEM_PROMPTS[prompt]
        items = list(rated["item"])
        states = score_replies(with_head(model, States()), text, items)
        if keep:
            with replacing(file) as part:
                save_file({"states": states}, part)
        return states.astype(float)

    return rated, reachable.weights_of(rated["matches"]), states_of


def main() -> None:
    rated, weights, states_of = inputs()
    table = predictions(rated, weights, states_of)
    with replacing(reachable.PREDICTIONS) as part:
        table.to_csv(part, index=False, float_format="%.1f")
    table = learning_curve(states_of("GE"), rated["elo"].to_numpy(), weights)
    with replacing(LEARNING) as part:
        table.to_csv(part, index=False, float_format="%.3f")
    with replacing(reachable.MADE_FROM) as part:
        part.write_text(json.dumps(made_from(), indent=2) + "\n")


if __name__ == "__main__":
    main()
