"""The models that a card's model is placed among: the ten published ones, and the small ones with planted values.

Their numbers stand in committed tables, figures/published/words/card.csv and figures/embedded/card.csv, made by the
same functions from rewards of the same texts.
"""

from pathlib import Path

import pandas as pd

from lib import ROOT, downloads, figures, lexicons, scores
from lib.card import measures, texts
from lib.collection import EMBEDDED, ITEMS, WORDS, Collection
from lib.models import checkpoints, registry, reward_models
from lib.models.conversations import vocabulary

TABLE = "card"
ITEM_PROMPT = "GW"  # what published-items calls `greatest`, word for word
GROUPS = {"published": WORDS, "planted": EMBEDDED}


def read(group: str) -> pd.DataFrame:
    """The numbers of one group of GROUPS: measures x models; empty where the table was never made."""
    rows = _read(GROUPS[group])
    return rows.pivot_table("estimate", "measure", "model", "first") if len(rows) else rows


def _read(study: Collection) -> pd.DataFrame:
    path = study.figures / f"{TABLE}.csv"
    return pd.read_csv(path, keep_default_na=False, na_values={c: [""] for c in measures.COLUMNS}) \
        if path.is_file() else pd.DataFrame()  # fmt: skip


def nouns() -> tuple[pd.DataFrame | None, str]:
    """The nouns of agency and communion, or None and in one line why they cannot be had."""
    try:
        return lexicons.word_lists("big two"), ""
    except downloads.Unreachable as error:
        return None, str(error)


# --- published ----------------------------------------------------------------------------------------------------


def publish() -> Path:
    """Measure the ten published models on the authors' scores; the path of the table.

    Needs the collections published-words and published-items, and the nouns. Raises InputError, or Unreachable.
    """
    listed = lexicons.word_lists("big two")
    rows = [_published(name, listed).assign(model=name, revision="") for name in WORDS.models]
    return _write(WORDS, rows)


def _published(name: str, listed: pd.DataFrame) -> pd.DataFrame:
    words = scores.read(scores.path_of(WORDS, name)).set_index("text").loc[texts.words(), list(texts.PROMPTS)]
    ranked = scores.read(scores.path_of(ITEMS, name)).set_index("text")[ITEM_PROMPT]
    return measures.of_model(words.astype(float), ranked.astype(float), _itself_of_base(name), listed)


def _itself_of_base(name: str) -> float:
    """The share of its base's vocabulary that is read as itself, by the true tokenizer: data/tokenizers/counts.csv."""
    counts = pd.read_csv(ROOT / "data" / "tokenizers" / "counts.csv").set_index("base")
    counted = counts.loc[registry.reward_models().loc[name, "base"]]
    return float(counted["itself"] / counted["tokens"])


# --- planted ------------------------------------------------------------------------------------------------------


def plant() -> Path:
    """Measure the small models that ship, those anew that were trained anew since; the path of the table.

    Of one that is not trained here the committed numbers stand. The nouns are left out, because nothing of them was
    planted.
    """
    held = _read(EMBEDDED)
    rows, changed = [], held.empty
    for name in registry.reward_models().query("group == @EMBEDDED.name").index:
        known = held[held["model"] == name] if len(held) else held
        current = _is_current(known, name)
        changed |= not current
        rows.append(known if current else _planted(name))
    return _write(EMBEDDED, rows) if changed else EMBEDDED.figures / f"{TABLE}.csv"


def _is_current(held: pd.DataFrame, name: str) -> bool:
    """Whether these rows are of the model as it is here; of one that is not here, whichever they are."""
    if held.empty or not (ROOT / registry.reward_models().loc[name, "hub_id"]).is_dir():
        return not held.empty
    entry = reward_models.find(name)
    return bool((held["revision"] == checkpoints.fetch(entry["hub_id"], entry["revision"])[1]).all())


def _planted(name: str) -> pd.DataFrame:
    model = reward_models.load(name)
    found = measures.of_model(texts.type_words(model), texts.type_items(model), itself(model))
    return found.assign(model=name, revision=model.revision)


def itself(model: reward_models.RewardModel) -> float:
    """The share of the model's vocabulary that is read as itself when it is typed; see scores.what_was_fed."""
    tokens = vocabulary(model.tokenizer)
    read = model.inputs_for(texts.prompts()[texts.PROMPTS[0]], tokens["text"].tolist())
    return float(sum(read.reply_ids[group] == (i,) for group, i in zip(read.group, tokens["token_id"], strict=True))
                 / len(tokens))  # fmt: skip


def _write(study: Collection, rows: list[pd.DataFrame]) -> Path:
    columns = ["model", "revision", "measure", *measures.COLUMNS]
    flat = [one if "measure" in one else one.reset_index() for one in rows]
    return figures.save_table(pd.concat(flat, ignore_index=True)[columns], study, TABLE)


# --- where a model lies -------------------------------------------------------------------------------------------


def places(found: pd.DataFrame, others: pd.DataFrame, leave_out: str = "") -> pd.DataFrame:
    """Where each measure lies among other models: below, equal, within, of; indexed by measure.

    found: as from measures.of_model; others: measures x models. leave_out: a model that is not counted, as itself.
    below, equal: how many of them have a lower or the same value; within: how many lie in its own interval.
    """
    rows = {}
    for key, row in found.iterrows():
        values = others.loc[key].drop(leave_out, errors="ignore").dropna() if key in others.index else pd.Series()
        inside = values.between(row["ci_low"], row["ci_high"])
        rows[key] = {"below": int((values < row["estimate"]).sum()), "equal": int((values == row["estimate"]).sum()),
                     "within": int(inside.sum()), "of": len(values)}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")
