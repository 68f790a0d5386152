"""Section 5: optimal and pessimal replies of several tokens, and what they are made of."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from lib import display
from lib.models.reward_models import RewardModel
from lib.search import gcg
from lib.search.gcg import DIRECTIONS, Found, Objective, Settings
from lib.words import is_nonword

# The prompts of Table 5 leave out "in one word".
LONG_PROMPTS = {f"{which} ever": f"What is the {which} thing ever?" for which in ("best", "worst")}
SENTENCE = "There is no objectively {which} thing ever. It's subjective. Everyone has their own preferences."
PUBLISHED = {"optimal": "Faster-GCG", "pessimal": "Faster-GCG, wrong sign"}  # what the published code does
EMOJI = r"[\u2600-\u27bf\U0001f300-\U0001faff]"
Searches = dict[tuple[str, str, str], Found]  # (prompt's name, direction, start's name) -> what was found


def objectives(model: RewardModel, prompts: Mapping[str, str], allowed: np.ndarray) -> dict[tuple, Objective]:
    """What there is to search: (prompt's name, direction) -> objective."""
    pairs = [(name, direction) for name in prompts for direction in DIRECTIONS]
    return {(name, direction): Objective(model, prompts[name], direction, allowed) for name, direction in pairs}


def search_all(
    objectives: Mapping[tuple, Objective], n: int, settings: Settings, table: pd.DataFrame, *, sentence: str = "",
    published: bool = False,
) -> Searches:  # fmt: skip
    """A search for a reply of n tokens from every start of gcg.starts, for every objective.

    table: a score table of the model, whose best tokens are one of the starts. sentence: another, with {which} for the
    prompt's best or worst. published: search as the published code does, wrong sign included.
    """
    found = {}
    for (name, direction), objective in objectives.items():
        which = name.split()[0]
        column = which if which in table else "greatest"
        best = table.sort_values(column, ascending=direction == "pessimal", kind="stable")["token_id"]
        starts = gcg.starts(objective, n, winners=best, sentence=sentence.format(which=which), randoms=1)
        used = replace(settings, method=PUBLISHED[direction]) if published else settings
        for start_name, start in starts.items():
            found[name, direction, start_name] = gcg.search(objective, start, used, traces=gcg.TRACES)
    return found


def as_table(searches: Searches) -> pd.DataFrame:
    """Every search, best first for each prompt and direction.

    Columns: prompt, direction, from (the start's name), reply (its tokens, a bar between two), reward, reward of text,
    survives, scored (replies).
    """
    rows = [
        {"prompt": name, "direction": direction, "from": start, "reply": "¦".join(one.tokens), "reward": one.reward,
         "reward of text": one.reward_of_text, "survives": one.survives, "scored": one.evaluations}
        for (name, direction, start), one in searches.items()
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    worth = table["reward"] * table["direction"].map(DIRECTIONS)
    order = table.assign(worth=-worth).sort_values(["prompt", "direction", "worth"], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def shown(searches: Searches, blur: bool, caption: str, width: int = 60) -> display.Table:
    """The table of as_table as a notebook shows it; a reply is blurred if one of its tokens is offensive."""
    return display.table_html(as_table(searches), ["reply"], blur, caption, width)


def best_of(searches: Searches) -> dict[tuple[str, str], Found]:
    """(prompt's name, direction) -> the search that found most."""
    best: dict[tuple[str, str], Found] = {}
    for (name, direction, _), one in searches.items():
        sign, known = DIRECTIONS[direction], best.get((name, direction))
        if known is None or sign * one.reward > sign * known.reward:
            best[name, direction] = one
    return best


def kind_of(token: str) -> str:
    """What a token looks like: emoji, code, other script, capitals, word, or other."""
    text = token.strip()
    if re.search(EMOJI, text):
        return "emoji"
    if is_nonword(text):
        return "code"
    if not text.isascii() and any(c.isalpha() for c in text):
        return "other script"
    if text.isalpha():
        return "capitals" if text.isupper() and len(text) > 1 else "word"
    return "other"


def kinds(groups: Mapping[str, Iterable[str]]) -> pd.DataFrame:
    """The share of each kind of token in each group of tokens: groups x kinds, rows add up to 1."""
    counted = {name: pd.Series([kind_of(token) for token in tokens]).value_counts(normalize=True)
               for name, tokens in groups.items()}  # fmt: skip
    return pd.DataFrame(counted).T.fillna(0.0)


def published_beside_ours(published: Searches, ours: Searches) -> pd.DataFrame:
    """The best reward of the published search and of ours, for each prompt and direction, and how far it falls short.

    Columns: published, ours, shortfall (on the model's own scale; below 0 where the published search found more).
    """
    old, new = best_of(published), best_of(ours)
    rows = {key: {"published": old[key].reward, "ours": new[key].reward} for key in new}
    table = pd.DataFrame(rows).T.rename_axis(["prompt", "direction"])
    sign = table.index.get_level_values("direction").map(DIRECTIONS)
    return table.assign(shortfall=(table["ours"] - table["published"]) * sign)


def round_trips(searches: Mapping[int, Searches]) -> pd.DataFrame:
    """What becomes of replies of so many tokens when they are written out as text and read again.

    Columns: survive (share that come back as the same ids), change (mean absolute change of reward), searches.
    """
    rows = [
        {"tokens": n, "survive": one.survives, "change": abs(one.reward - one.reward_of_text), "searches": 1}
        for n, found in searches.items() for one in found.values()
    ]  # fmt: skip
    return pd.DataFrame(rows).groupby("tokens").agg({"survive": "mean", "change": "mean", "searches": "sum"})


def tokens_of(searches: Iterable[Searches], direction: str) -> list[str]:
    """All tokens of all replies found in this direction."""
    return [
        token
        for found in searches
        for (_, one, _), reply in found.items()
        if one == direction
        for token in reply.tokens
    ]
