"""The registry: what is known of reward and language models before any is loaded, without torch
and without weights.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import starmap
from pathlib import Path

import pandas as pd

from .. import DATA, ROOT, InputError
from ..io import checked
from .collection import EMBEDDED, OWN, Collection

MADE_HERE = "data/models/"  # how the registry's places of models begin that runs make
REPORT = "training.json"  # in the folder of a small model, once it is trained


@cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(
        DATA / f"{name}.csv", keep_default_na=False, index_col="nickname"
    )


def is_served(name: str) -> bool:
    """Return whether this names a server of a reward model, and not a nickname, hub id or
    folder.
    """
    return name.startswith(("http://", "https://"))


def find_in(models: pd.DataFrame, name: str, kind: str) -> dict:
    """Return the row of a nickname or hub id in the registry of models of this kind; InputError for
    any other name.

    A hub id or a folder that is not in the registry has group `other` and '' in all other columns.
    """
    if is_served(name):
        name = name.rstrip("/").removesuffix("/v1")  # which clients of OpenAI add
    models = models.reset_index()
    rows = models[(models["nickname"] == name) | (models["hub_id"] == name)]
    if len(rows):
        entry = rows.iloc[0].to_dict()
        if entry["hub_id"].startswith(MADE_HERE):
            entry["hub_id"] = str(ROOT / entry["hub_id"])
        return entry
    if "," in name and not Path(name).is_dir():
        raise InputError(f"'{name}' is no {kind}; separate names by blanks")
    if Path(name).is_dir() or "/" in name:
        last = os.path.basename(os.path.abspath(name))  # of the folder `.` too
        given = {"nickname": re.sub(r"[^\w.-]+", "-", last), "hub_id": name}
        return dict.fromkeys(models.columns, "") | given | {"group": "other"}
    hint = did_you_mean(name, models["nickname"])
    raise InputError(
        f"unknown {kind} '{name}'{hint}; give a nickname of data/{kind.replace(' ', '_')}s.csv, a "
        "hub id (owner/name) or a folder"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the most similar known name, or '' if none is similar."""
    near = get_close_matches(name, known, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def reward_models(nicknames: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the paper's ten reward models, current models, and those that are trained here,
    indexed by nickname; or the rows of these nicknames, '' or NaN for a model that it lacks.

    The columns are those of data/reward_models.csv; '' where nothing is known. group: paper,
    current, embedded (planted values) or human_ratings. parameters_b: billions. lineage: the line
    of reward models that this one descends from, as grouped after the paper's data were known.
    """
    rows = _read("reward_models").copy()
    if nicknames is None:
        return rows
    rows = rows.reindex(list(nicknames))
    return rows.fillna(dict.fromkeys(rows.select_dtypes("str"), ""))


def _ships(nickname: str, load: str) -> bool:
    """Return whether the loaded model is a small model of this project, and not only has the
    nickname of one.
    """
    places = _read("reward_models").query("group == @EMBEDDED.name")["hub_id"]
    return nickname in places and load in (nickname, str(ROOT / places[nickname]))


def find_models(names: Sequence[str]) -> dict[str, str]:
    """Return nickname -> what to load, for nicknames, hub ids, folders and groups such as `paper`;
    without, `embedded`.

    Raise InputError for an unknown name, and for two models of one nickname.
    """
    known = _read("reward_models")
    models: dict[str, str] = {}
    for given in names or [EMBEDDED.name]:
        for name in known.index[known["group"] == given].tolist() or [given]:
            nickname = checked(
                find_in(known, name, "reward model")["nickname"], "a model"
            )
            local = name not in known.index and Path(name).is_dir()
            load = str(Path(name).resolve()) if local else name
            if models.setdefault(nickname, load) != load:
                raise InputError(
                    f"two models are called {nickname}; score them into two collections"
                )
    return models


def study_of(models: Mapping[str, str], collection: str | None = None) -> Collection:
    """Return the named collection, else `embedded` or `mine`, for models: nickname -> what to load.

    InputError if one of them does not belong into it.
    """
    are_small = all(starmap(_ships, models.items()))
    study = EMBEDDED if are_small else OWN
    if collection:
        study = Collection(collection)
    if study.is_published or study.is_embedded and not are_small:
        raise InputError(
            f"'{study}' holds the scores that the authors published, or models with planted "
            f"values, and no others; choose another: --collection {OWN}"
        )
    return study


def language_models() -> pd.DataFrame:
    """Return the models of Tables A1-A5 and the bases of reward models, indexed by nickname.

    The columns are those of data/language_models.csv; '' where nothing is known. group: paper,
    base or packaged (from the package index). tuned: instruction-tuned, and not pretrained.
    reward_models: nicknames, separated by blanks, of the reward models made from it.
    """
    models = _read("language_models")
    return models.assign(tuned=models["tuned"] == "instruction-tuned")


def base_of(reward_model: str) -> str:
    """Return the nickname of the language model that a reward model was made from; '' where none
    is known.
    """
    made_from = _read("language_models")["reward_models"]
    return next(
        (base for base, models in made_from.items() if reward_model in models.split()),
        "",
    )
