"""A card made: the model is loaded, its vocabulary and the typed texts are scored, and all is measured and placed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lib import InputError, scores, scoring
from lib.card import measures, others, replies, texts
from lib.collection import EMBEDDED, Collection
from lib.models import registry, reward_models
from lib.models.reward_models import RewardModel


@dataclass(frozen=True)
class Card:
    """All that a card says of one model; nothing in it is drawn or worded yet.

    model: what MODEL= is to be. settings: how it was scored. ends: as of replies.ends. pairs: end -> replies.Pairs.
    measured: measure -> COLUMNS of measures, and below, equal, within, of among the published models, and the same
    with the ending _planted among the planted ones. others: published and planted -> measures x models.
    single_tokens: how many of the typed words the model reads as one token. missing: why a row is missing, '' if none.
    """

    nickname: str
    model: str
    collection: Collection
    settings: dict
    ends: pd.DataFrame
    pairs: dict[str, replies.Pairs]
    measured: pd.DataFrame
    others: dict[str, pd.DataFrame]
    single_tokens: int
    typed_words: int
    typed_items: int
    missing: str


def make(name: str, study: Collection, bos: str = "single", progress: bool = True, **options: Any) -> Card:
    """The card of a reward model: its nickname, hub id or folder. options: as of reward_models.load; bos: of scoring.

    Its vocabulary is scored where the collection has no score table of it, or one that lacks prompts of a card.
    InputError for a model that is none, or that does not belong into the collection.
    """
    return of_model(reward_models.load(name, **options), study, bos, progress)


def of_model(model: RewardModel, study: Collection, bos: str = "single", progress: bool = True) -> Card:
    """The same of a loaded model."""
    registry.refuse_foreign(study, {model.nickname: model.hub_id})
    table = vocabulary_of(model, study, bos, progress)
    words, ranked = texts.type_words(model, bos), texts.type_items(model, bos)
    listed, missing = others.nouns()
    fed = scores.what_was_fed(table)
    found = measures.of_model(words, ranked, fed["itself"] / fed["tokens"], listed)
    ended = {end: replies.pairs(model, replies.words_at(table, end), end, bos) for end in replies.SIGN}
    beside = among(study)
    return Card(
        model.nickname, what_to_name(model), study, settings_of(model, table), replies.ends(table), ended,
        placed(found, beside, model.nickname), beside, single_tokens(model), len(words), len(ranked), missing,
    )  # fmt: skip


def what_to_name(model: RewardModel) -> str:
    """What MODEL= is to be for this model; of a folder that is not the project's own, only what it is called."""
    if model.nickname in registry.reward_models().index:
        return model.nickname
    return f"<folder of {model.nickname}>" if Path(model.hub_id).is_dir() else model.hub_id


def vocabulary_of(model: RewardModel, study: Collection, bos: str = "single", progress: bool = True) -> pd.DataFrame:
    """The score table of the model with the three prompts of a card; what it lacks is scored, as `make score` does.

    InputError for a table of another version of the model, or of replies that were not typed so.
    """
    path = scores.path_of(study, model.nickname)
    table = scores.read(path) if path.is_file() else None
    if table is None or not set(texts.PROMPTS) <= set(scores.prompt_names(table)):
        return scoring.score_vocabulary(model, texts.prompts(), path, bos=bos, progress=progress)
    asked = {"revision": model.revision, "reply_mode": "text", "bos": bos}
    held = asked | {name: value for name, value in table.attrs["metadata"].items() if name in asked}
    if differ := [name for name in asked if held[name] != asked[name]]:
        raise InputError(
            f"{path} holds scores of another {differ[0]} ({held[differ[0]]}, not {asked[differ[0]]}); delete it, or "
            "make the card in another collection"
        )
    return table


def settings_of(model: RewardModel, table: pd.DataFrame) -> dict:
    """How rewards were computed, as the card tells it."""
    held = table.attrs.get("metadata", {})
    told = {"hub_id": held.get("model", model.nickname), "revision": model.revision, "head": model.head_name,
            "dtype": model.dtype, "attention": model.attention, "read_at": model.read_at, "closing": model.closing,
            "reply_mode": held.get("reply_mode", "text"), "bos": held.get("bos", "single")}  # fmt: skip
    return told | {"prompts": texts.prompts(), "tokens": len(table)}


def single_tokens(model: RewardModel) -> int:
    """How many of the typed words the model reads as one token."""
    read = model.inputs_for(texts.prompts()[texts.PROMPTS[0]], list(texts.words()))
    return sum(len(read.reply_ids[group]) == 1 for group in read.group)


def among(study: Collection) -> dict[str, pd.DataFrame]:
    """published and planted -> measures x models; the planted ones are measured anew if they were trained anew."""
    if study == EMBEDDED:
        others.plant()
    return {group: others.read(group) for group in others.GROUPS}


def placed(found: pd.DataFrame, beside: dict[str, pd.DataFrame], nickname: str) -> pd.DataFrame:
    """The measures with their places among the published models, and (_planted) among the planted ones."""
    published, planted = (others.places(found, beside[group], nickname) for group in ("published", "planted"))
    return found.join(published).join(planted.add_suffix("_planted"))
