"""The models that a card's model is placed among, the ten published and the small ones:
data/card/<group>.csv.
"""

from pathlib import Path

import pandas as pd

from ...scoring import tokenizers
from ...tables import score_files, scores
from ...tables.collection import ITEMS, WORDS
from ...tables.exports import write_csv
from ...tables.words import is_word
from . import measures

ITEM_PROMPT = "GW"  # what published-items calls `greatest`, word for word
GROUPS = ("published", "planted")


def read(group: str) -> pd.DataFrame:
    """Return the estimates of one group of GROUPS: measures x models."""
    return measures.read_table(group).pivot_table("estimate", "measure", "model", "first")


def places(measured: pd.DataFrame, others: pd.DataFrame, leave_out: str = "") -> pd.DataFrame:
    """Return the place of each measure among other models (measures x models), without the one to
    leave out.

    Columns count models: `below` those with a lower value, `equal` those with the same value, and
    `within` those in the interval. `of` is the number of all models.
    """
    others = others.drop(columns=leave_out, errors="ignore").reindex(measured.index)
    columns = {
        "below": others.lt(measured["estimate"], axis=0),
        "equal": others.eq(measured["estimate"], axis=0),
        "within": others.ge(measured["ci_low"], axis=0) & others.le(measured["ci_high"], axis=0),
        "of": others.notna(),
    }
    return pd.DataFrame({name: counted.sum(axis=1) for name, counted in columns.items()})


def publish() -> Path:
    """Write the texts of all cards, and measure the ten published models on them; return the path
    of their numbers.

    This needs the collections published-words and published-items. InputError for a file that
    cannot be downloaded.
    """
    typed = scores.read(scores.path_of(WORDS, WORDS.models[0]))["text"]
    words = pd.DataFrame({"word": sorted(typed[typed.map(is_word)])})
    write_csv(words, measures.FOLDER / "words.csv")
    elo = score_files.human_ratings().set_index("item")["elo"]
    ranks = elo.rank(ascending=False).rename("people_rank")
    scored = scores.read(scores.path_of(ITEMS, ITEMS.models[0]))["text"]
    write_csv(
        ranks[ranks.index.isin(scored)].sort_index().to_frame(), measures.FOLDER / "items.csv"
    )
    shares = tokenizers.kept_counts().set_index("nickname").eval("itself / tokens")
    rows = []
    for name in WORDS.models:
        of_words = scores.read(scores.path_of(WORDS, name)).set_index("text").loc[words["word"]]
        of_items = scores.read(scores.path_of(ITEMS, name)).set_index("text")[ITEM_PROMPT]
        rewards = {prompt: of_words[prompt] for prompt in measures.PROMPTS} | {"items": of_items}
        table = measures.of_model(
            {key: each.astype(float).to_frame(0) for key, each in rewards.items()}, shares[name]
        )
        rows.append(table.assign(model=name, revision="").reset_index())
    table = pd.concat(rows, ignore_index=True)[["model", "revision", "measure", *measures.COLUMNS]]
    return write_csv(table, measures.FOLDER / "published.csv")
