"""The registry: what is known of reward and language models before any is loaded, which takes no torch and no weights.

The models of Table 1 are in data/reward_models.csv, those of Tables A1-A5 in data/language_models.csv.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from lib import ROOT, InputError
from lib.collection import EMBEDDED, OWN, Collection

LOADERS = ("torch", "transformers")  # the packages that load models; the light installation comes without


def can_load_models() -> bool:
    """Whether this installation can load models, and not only read tables that were made with some."""
    return all(find_spec(name) is not None for name in LOADERS)


# --- reward models ------------------------------------------------------------------------------------------------


@cache
def _reward_models() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data" / "reward_models.csv", keep_default_na=False, index_col="nickname")


def reward_models() -> pd.DataFrame:
    """The known reward models, indexed by nickname: the paper's ten, current ones, and the project's own small ones.

    Columns: group (paper, current, embedded), hub_id, revision ('' where none is pinned), developer, base, version,
    parameters_b (billions), rewardbench_rank ('' where unranked), head, dtype, attention. Source: Table 1, model pages.
    """
    return _reward_models().copy()


def rows_of(nicknames: Iterable[str]) -> pd.DataFrame:
    """The registry's rows for these models, in this order; blank where the registry does not hold a model."""
    rows = _reward_models().reindex(list(nicknames))
    return rows.fillna({column: "" for column in rows.columns if not pd.api.types.is_numeric_dtype(rows[column])})


def ships(nickname: str, load: str) -> bool:
    """Whether what is loaded is one of the small models that ship, and not another that is called like one."""
    models = _reward_models()
    places = models.loc[models["group"] == EMBEDDED.name, "hub_id"]
    if nickname not in places.index:
        return False
    return load == nickname or Path(load).resolve() == (ROOT / places[nickname]).resolve()


def refuse_foreign(collection: Collection, models: Mapping[str, str]) -> None:
    """InputError if one of these models, nickname -> what to load, does not belong into the collection.

    A published one holds the authors' scores and no other, and `embedded` the models that ship: the values of others
    were not planted, whatever they are called.
    """
    if collection.is_published:
        raise InputError(
            f"'{collection}' holds the scores that the authors published; choose another: COLLECTION={OWN}"
        )
    foreign = [nickname for nickname, load in models.items() if not ships(nickname, load)]
    if collection.is_embedded and foreign:
        raise InputError(
            f"'{collection}' holds models with planted values, and {foreign[0]} is none of those that ship; "
            f"choose another: COLLECTION={OWN}"
        )


# --- language models ----------------------------------------------------------------------------------------------


@cache
def _language_models() -> pd.DataFrame:
    table = pd.read_csv(ROOT / "data" / "language_models.csv", keep_default_na=False, index_col="nickname")
    return table.assign(tuned=table["tuned"] == "instruction-tuned")


def language_models() -> pd.DataFrame:
    """The known language models, indexed by nickname: those of Tables A1-A5, bases of reward models, the embedded ones.

    Columns: group (paper, base, embedded), hub_id, revision ('' where none is pinned), base, parameters_b (billions),
    tuned (bool: instruction-tuned, else pretrained), attention, reward_models (the nicknames of the reward models that
    were made from it, separated by blanks; for embedded ones, of those that share its embedding table).
    """
    return _language_models().copy()


def base_of(reward_model: str) -> str:
    """The nickname of the language model that a reward model was made from; '' where none is known."""
    made_from = _language_models()["reward_models"]
    bases = made_from.index[[reward_model in names.split() for names in made_from]]
    return bases[0] if len(bases) else ""
