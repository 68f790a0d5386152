"""The models that a card's model is placed among, the ten published and the small ones:
data/card/<group>.csv.
"""

from pathlib import Path

import pandas as pd

from ..paper import collection, score_files, scores, tables_words, tokenizers, write_csv
from . import measures

ITEM_PROMPT = "GW"  # what published-items calls `greatest`, word for word
GROUPS = ("published", "planted")


def read(group: str) -> pd.DataFrame:
    """Return the estimates of one group of GROUPS: measures x models."""
    return measures.read_table(group).pivot_table(
        "estimate", "measure", "model", "first"
    )


def places(
    measured: pd.DataFrame, others: pd.DataFrame, leave_out: str = ""
) -> pd.DataFrame:
    """Return the place of each measure among other models (measures x models), without the one to
    leave out.

    Columns count models: `below` those with a lower value, `equal` those with the same value, and
    `within` those in the interval. `of` is the number of all models.
    """
    others = others.drop(columns=leave_out, errors="ignore")
    others = others.reindex(measured.index)
    columns = {
        "below": others.lt(measured["estimate"], axis=0),
        "equal": others.eq(measured["estimate"], axis=0),
        "within": others.ge(measured["ci_low"], axis=0)
        & others.le(measured["ci_high"], axis=0),
        "of": others.notna(),
    }
    return pd.DataFrame(
        {name: counted.sum(axis=1) for name, counted in columns.items()}
    )


def publish() -> Path:
    """Write the texts of all cards, and measure the ten published models on them; return the path
    of their numbers.

    This needs the collections published-words and published-items. InputError for a file that
    cannot be downloaded.
    """
    path = scores.path_of(collection.WORDS, collection.WORDS.models[0])
    of_words = scores.read(path)["text"]
    words = sorted(of_words[of_words.map(tables_words.is_word)])
    listed = pd.DataFrame({"word": words})
    write_csv(listed, measures.FOLDER / "words.csv")
    elo = score_files.human_ratings().set_index("item")["elo"]
    ranks = elo.rank(ascending=False).rename("people_rank")
    path = scores.path_of(collection.ITEMS, collection.ITEMS.models[0])
    of_items = scores.read(path)["text"]
    ranked = ranks[ranks.index.isin(of_items)].sort_index()
    write_csv(ranked.to_frame(), measures.FOLDER / "items.csv")
    counts = tokenizers.kept_counts().set_index("nickname")
    shares = counts.eval("itself / tokens")
    tables = [
        measures.of_model(published_rewards(name, words), shares[name])
        .assign(model=name, revision="")
        .reset_index()
        for name in collection.WORDS.models
    ]
    columns = ["model", "revision", "measure", *measures.COLUMNS]
    table = pd.concat(tables, ignore_index=True)[columns]
    return write_csv(table, measures.FOLDER / "published.csv")


def published_rewards(name: str, words: list[str]) -> dict[str, pd.DataFrame]:
    """Return the rewards of a published model on a card's texts, in the form of
    measures.type_texts; one head.
    """
    of_words = scores.read(scores.path_of(collection.WORDS, name))
    of_words = of_words.set_index("text").loc[words]
    of_items = scores.read(scores.path_of(collection.ITEMS, name))
    of_items = of_items.set_index("text")
    rewards = {prompt: of_words[prompt] for prompt in measures.PROMPTS}
    rewards["items"] = of_items[ITEM_PROMPT]
    return {key: each.astype(float).to_frame(0) for key, each in rewards.items()}
