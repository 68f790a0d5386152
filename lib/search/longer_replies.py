"""Section 5: optimal and pessimal replies of several tokens, and what they are made of."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from lib import display
from lib.models.reward_models import RewardModel
from lib.search import searches
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, Objective
from lib.search.searches import SearchResult
from lib.words import is_nonword

# The prompts of Table 5 leave out "in one word".
LONG_PROMPTS = {f"{which} ever": f"What is the {which} thing ever?" for which in ("best", "worst")}
SENTENCE = "There is no objectively {which} thing ever. It's subjective. Everyone has their own preferences."
PUBLISHED_METHODS = {"optimal": "Faster-GCG", "pessimal": "Faster-GCG, wrong sign"}  # what the published code does
EMOJI = r"[\u2600-\u27bf\U0001f300-\U0001faff]"
Results = dict[tuple[str, str, str], SearchResult]  # by the prompt's name, direction and the start's name


def objectives(
    model: RewardModel, prompts: Mapping[str, str], allowed_ids: np.ndarray, reply_mode: str = "text"
) -> dict[tuple[str, str], Objective]:
    """What there is to search: (prompt's name, direction) -> objective."""
    return {
        (name, direction): Objective(model, prompts[name], direction, allowed_ids, reply_mode=reply_mode)
        for name in prompts
        for direction in DIRECTIONS
    }


def search_all(
    objectives: Mapping[tuple, Objective], n: int, settings: Settings, table: pd.DataFrame, *, sentence: str = "",
    published: bool = False, only: Collection[str] = (),
) -> Results:  # fmt: skip
    """A search for a reply of n tokens from every start of searches.starts, for every objective.

    table: a score table of the model, whose best tokens are one of the starts. sentence: another, with {which} for the
    prompt's best or worst. published: search as the published code does, wrong sign included. only: names of starts;
    another if a model has none of them, and all if no name is given.
    """
    results: Results = {}
    for (name, direction), objective in objectives.items():
        which = name.split()[0]
        column = which if which in table else "greatest"
        best = table.sort_values(column, ascending=direction == "pessimal", kind="stable")["token_id"]
        starts = searches.starts(objective, n, winners=best, sentence=sentence.format(which=which), randoms=1)
        starts = {one: starts[one] for one in only if one in starts} or starts
        used = replace(settings, method=PUBLISHED_METHODS[direction]) if published else settings
        for start_name, start in starts.items():
            results[name, direction, start_name] = searches.search(objective, start, used, traces=searches.TRACES)
    return results


def as_table(results: Results) -> pd.DataFrame:
    """Every search, best first for each prompt and direction.

    Columns: prompt, direction, from (the start's name), reply (its tokens, a bar between two), reward, reward of text,
    survives, scored (replies).
    """
    rows = [
        {"prompt": name, "direction": direction, "from": start, "reply": "¦".join(result.tokens),
         "reward": result.reward, "reward of text": result.reward_of_text, "survives": result.survives,
         "scored": result.evaluations}
        for (name, direction, start), result in results.items()
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    worth = table["reward"] * table["direction"].map(DIRECTIONS)
    order = table.assign(worth=-worth).sort_values(["prompt", "direction", "worth"], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def as_html(results: Results, blur: bool, caption: str, width: int = 60) -> display.Table:
    """The table of as_table as a notebook shows it; a reply is blurred if one of its tokens is offensive."""
    return display.table_html(as_table(results), ["reply"], blur, caption, width)


def best_of(results: Results) -> dict[tuple[str, str], SearchResult]:
    """(prompt's name, direction) -> the search that found most."""
    best: dict[tuple[str, str], SearchResult] = {}
    for (name, direction, _), result in results.items():
        sign, best_so_far = DIRECTIONS[direction], best.get((name, direction))
        if best_so_far is None or sign * result.reward > sign * best_so_far.reward:
            best[name, direction] = result
    return best


def typed_and_fed(by_mode: Mapping[str, Results]) -> pd.DataFrame:
    """What a person could type beside what the model could be fed: the best reply of each prompt and direction.

    Columns: tokens, prompt, direction, searched (over text or ids), reply, reward, reward of text, survives. by_mode:
    reply mode -> searches.
    """
    rows = [
        {"tokens": len(best.ids), "prompt": name, "direction": direction, "searched": f"over {mode}",
         "reply": "¦".join(best.tokens), "reward": best.reward, "reward of text": best.reward_of_text,
         "survives": best.survives}
        for mode, results in by_mode.items() for (name, direction), best in best_of(results).items()
    ]  # fmt: skip
    order = ["tokens", "prompt", "direction"]
    return pd.DataFrame(rows).sort_values(order, kind="stable").reset_index(drop=True)


def beside_paper(paper: pd.DataFrame, published: Iterable[Results], ours: Iterable[Results]) -> pd.DataFrame:
    """The paper's strings beside the best that its search, and ours, find for the same prompt and direction.

    Columns: prompt, direction, paper (on R-Gem-2B; no scores were printed), published search, its reward, ours, our
    reward. paper: its Table 4 or 5; published, ours: searches of one model, for replies of one length or several.
    """
    old, new = (best_of(_together(results)) for results in (published, ours))
    keys = list(zip(paper["prompt"], paper["direction"], strict=True))
    columns = {"prompt": paper["prompt"], "direction": paper["direction"], "paper": paper["result"]}
    for name, reward, best in (("published search", "its reward", old), ("ours", "our reward", new)):
        columns[name] = ["¦".join(best[key].tokens) if key in best else "" for key in keys]
        columns[reward] = [best[key].reward if key in best else np.nan for key in keys]
    return pd.DataFrame(columns)


def _together(results: Iterable[Results]) -> Results:
    """The searches for replies of several lengths under keys that differ."""
    return {
        (name, direction, f"{start}, {number}"): result
        for number, some in enumerate(results)
        for (name, direction, start), result in some.items()
    }


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


def kind_shares(groups: Mapping[str, Iterable[str]]) -> pd.DataFrame:
    """The share of each kind of token in each group of tokens: groups x kinds, rows add up to 1."""
    shares = {name: pd.Series([kind_of(token) for token in tokens]).value_counts(normalize=True)
              for name, tokens in groups.items()}  # fmt: skip
    return pd.DataFrame(shares).T.fillna(0.0)


def published_beside_ours(published: Results, ours: Results) -> pd.DataFrame:
    """The best reward of the published search and of ours, for each prompt and direction, and how far it falls short.

    Columns: published, ours, shortfall (on the model's own scale; below 0 where the published search found more).
    """
    old, new = best_of(published), best_of(ours)
    rows = {key: {"published": old[key].reward, "ours": new[key].reward} for key in new}
    table = pd.DataFrame(rows).T.rename_axis(["prompt", "direction"])
    sign = table.index.get_level_values("direction").map(DIRECTIONS)
    return table.assign(shortfall=(table["ours"] - table["published"]) * sign)


def round_trips(results: Mapping[int, Results]) -> pd.DataFrame:
    """What becomes of replies of so many tokens when they are written out as text and read again.

    Columns: survive (share that come back as the same ids), change (mean absolute change of reward), searches.
    """
    rows = [
        {"tokens": n, "survive": result.survives, "change": abs(result.reward - result.reward_of_text), "searches": 1}
        for n, of_length in results.items() for result in of_length.values()
    ]  # fmt: skip
    return pd.DataFrame(rows).groupby("tokens").agg({"survive": "mean", "change": "mean", "searches": "sum"})


def tokens_of(results: Iterable[Results], direction: str) -> list[str]:
    """All tokens of all replies found in this direction."""
    return [
        token
        for some in results
        for (_, searched, _), result in some.items()
        if searched == direction
        for token in result.tokens
    ]
