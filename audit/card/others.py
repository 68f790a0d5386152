"""The models that a card's model is placed among, the ten published and the small ones:
data/card/<group>.csv.
"""

from pathlib import Path

import pandas as pd

from ..paper import (
    DATA,
    collection,
    registry,
    score_files,
    scores,
    tables_words,
    write_csv,
)
from . import measures

ITEM_PROMPT = "GW"  # what published-items calls `greatest`, word for word
ENDINGS = {"published": "", "planted": "_planted"}  # of the columns of a place
GROUPS = tuple(ENDINGS)
PLACES = ("below", "equal", "within", "of")


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
    estimate = measured["estimate"]
    is_above = others.ge(measured["ci_low"], axis=0)
    is_within = is_above & others.le(measured["ci_high"], axis=0)
    columns = [
        others.lt(estimate, axis=0),
        others.eq(estimate, axis=0),
        is_within,
        others.notna(),
    ]
    return pd.concat([each.sum(axis=1) for each in columns], axis=1, keys=PLACES)


def publish() -> Path:
    """Write the texts of all cards, and measure the ten published models on them; return the path
    of their numbers.

    This needs the collections published-words and published-items. InputError for a file that
    cannot be downloaded.
    """
    of_words, of_items = (
        {
            name: table.set_index("text")
            for name, table in scores.read_all(study).items()
        }
        for study in (collection.WORDS, collection.ITEMS)
    )
    [first, *_] = of_words
    words = sorted(filter(tables_words.is_word, of_words[first].index))
    write_csv(pd.DataFrame({"word": words}), measures.FOLDER / "words.csv")
    elo = score_files.human_ratings().set_index("item")["elo"]
    ranks = elo.rank(ascending=False).rename("people_rank")
    ranked = ranks[ranks.index.isin(of_items[first].index)].sort_index()
    write_csv(ranked.to_frame(), measures.FOLDER / "items.csv")
    # of the tokens that are read as themselves
    counts = pd.read_csv(DATA / "tokenizers" / "counts.csv").set_index("base")
    shares = counts.eval("itself / tokens")
    bases = registry.reward_models()["base"]
    tables = []
    for name, table in of_words.items():
        rewards = {prompt: table.loc[words, prompt] for prompt in measures.PROMPTS}
        rewards["items"] = of_items[name][ITEM_PROMPT]
        own = {key: each.astype(float).to_frame(0) for key, each in rewards.items()}
        measured = measures.of_model(own, shares[bases[name]]).reset_index()
        tables.append(measured.assign(model=name, revision=""))
    columns = ["model", "revision", "measure", *measures.COLUMNS]
    table = pd.concat(tables, ignore_index=True)[columns]
    return write_csv(table, measures.FOLDER / "published.csv")
