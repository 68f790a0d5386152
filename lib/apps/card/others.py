"""The models that a card's model is placed among: the ten published ones, and the small ones with planted values.

Their numbers are kept in data/card/published.csv and planted.csv. The same functions made them from rewards of the same
texts.
"""

from pathlib import Path

import pandas as pd

from ... import ROOT
from ...models import checkpoints, reward_models
from ...models.conversations import vocabulary
from ...scoring import tokenizers
from ...tables import registry, score_files, scores
from ...tables.collection import EMBEDDED, ITEMS, WORDS
from ...tables.exports import write_csv
from ...tables.words import is_word
from . import measures

ITEM_PROMPT = "GW"  # what published-items calls `greatest`, word for word
GROUPS = ("published", "planted")


def read(group: str) -> pd.DataFrame:
    """Return the numbers of one group of GROUPS: measures x models."""
    return measures.read_table(group).pivot_table("estimate", "measure", "model", "first")


def places(measured: pd.DataFrame, others: pd.DataFrame, leave_out: str = "") -> pd.DataFrame:
    """Return the place of each measure among other models (measures x models), without the one to leave out.

    Columns count models: `below` those with a lower value, `equal` those with the same value, and `within` those in the
    interval. `of` is the number of all models.
    """
    others = others.drop(columns=leave_out, errors="ignore").reindex(measured.index)
    columns = {
        "below": others.lt(measured["estimate"], axis=0),
        "equal": others.eq(measured["estimate"], axis=0),
        "within": others.ge(measured["ci_low"], axis=0) & others.le(measured["ci_high"], axis=0),
        "of": others.notna(),
    }
    return pd.DataFrame({name: counted.sum(axis=1) for name, counted in columns.items()})


# --- published ----------------------------------------------------------------------------------------------------


def publish() -> Path:
    """Write the texts of all cards, and measure the ten published models on them; return the path of their numbers.

    This needs the collections published-words and published-items. InputError for a file that cannot be downloaded.
    """
    typed = scores.read(scores.path_of(WORDS, WORDS.models[0]))["text"]
    words = pd.DataFrame({"word": sorted(typed[typed.map(is_word)])})
    write_csv(words, measures.FOLDER / "words.csv")
    elo = score_files.human_ratings().set_index("item")["elo"]
    ranks = elo.rank(ascending=False).rename("people_rank")
    scored = scores.read(scores.path_of(ITEMS, ITEMS.models[0]))["text"]
    write_csv(ranks[ranks.index.isin(scored)].sort_index().to_frame(), measures.FOLDER / "items.csv")
    shares = tokenizers.kept_counts().set_index("nickname").eval("itself / tokens")
    rows = []
    for name in WORDS.models:
        of_words = scores.read(scores.path_of(WORDS, name)).set_index("text").loc[words["word"], list(measures.PROMPTS)]
        of_items = scores.read(scores.path_of(ITEMS, name)).set_index("text")[ITEM_PROMPT]
        table = measures.of_model(of_words.astype(float), of_items.astype(float), shares[name])
        rows.append(table.assign(model=name, revision="").reset_index())
    return _write_measured("published", rows)


# --- planted ------------------------------------------------------------------------------------------------------


def plant() -> Path:
    """Measure the small models that were trained again; return the path of the table of all small models.

    The committed numbers of models that are not trained here stay.
    """
    held = measures.read_table("planted")
    rows, changed = [], False
    models = registry.reward_models()
    for name in models.index[models["group"] == EMBEDDED.name]:
        table = held[held["model"] == name]
        if not _is_current(table, name):
            model, changed = reward_models.load(name), True
            words, ranked = measures.of_own_head(measures.type_texts(model))
            measured = measures.of_model(words, ranked, share_read_as_itself(model))
            table = measured.assign(model=name, revision=model.revision).reset_index()
        rows.append(table)
    return _write_measured("planted", rows) if changed else measures.FOLDER / "planted.csv"


def _is_current(held: pd.DataFrame, name: str) -> bool:
    """Return whether these rows describe the model as it is here. A model that is not here has not changed."""
    if held.empty or not (ROOT / registry.reward_models().loc[name, "hub_id"]).is_dir():
        return not held.empty
    entry = reward_models.find(name)
    return set(held["revision"]) == {checkpoints.open_files(entry["hub_id"], entry["revision"]).revision}


def share_read_as_itself(model: reward_models.RewardModel) -> float:
    """Return the share of the model's vocabulary that is read as itself when it is typed; see scores.what_was_fed."""
    tokens = vocabulary(model.tokenizer)
    read = model.inputs_for(measures.prompts()[measures.PROMPTS[0]], tokens["text"].tolist())
    itself = [read.reply_ids[group] == (i,) for group, i in zip(read.group, tokens["token_id"], strict=True)]
    return float(sum(itself) / len(tokens))


def _write_measured(name: str, rows: list[pd.DataFrame]) -> Path:
    table = pd.concat(rows, ignore_index=True)[["model", "revision", "measure", *measures.COLUMNS]]
    return write_csv(table, measures.FOLDER / f"{name}.csv")
