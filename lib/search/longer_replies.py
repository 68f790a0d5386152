"""Section 5: optimal and pessimal replies of several tokens as tables, and what they are made of."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ..models.reward_models import RewardModel
from ..tables.words import is_nonword
from . import gcg, searches
from .gcg import Settings
from .objective import DIRECTIONS, Objective, as_reply
from .optimality import PUBLISHED_METHODS
from .searches import SearchResult

# The prompts of Table 5 leave out "in one word".
LONG_PROMPTS = {f"{which} ever": f"What is the {which} thing ever?" for which in ("best", "worst")}
SENTENCE = "There is no objectively {which} thing ever. It's subjective. Everyone has their own preferences."
EMOJI = r"[\u2600-\u27bf\U0001f300-\U0001faff]"
Results = dict[tuple[str, str, str], SearchResult]  # by the prompt's name, direction and the start's name


def objectives(
    model: RewardModel, prompts: Mapping[str, str], allowed_ids: np.ndarray, reply_mode: str = "text"
) -> dict[tuple[str, str], Objective]:
    """Return an objective for each prompt's name and direction."""
    return {
        (name, direction): Objective(model, prompt, direction, allowed_ids, reply_mode=reply_mode)
        for name, prompt in prompts.items()
        for direction in DIRECTIONS
    }


def search_all(
    objectives: Mapping[tuple, Objective], n: int, settings: Settings, table: pd.DataFrame, *, sentence: str = "",
    published: bool = False, only: Collection[str] = (),
) -> Results:  # fmt: skip
    """Return the results of a search for a reply of n tokens, for every objective and from every start.

    - table: a score table of the model, for the start from its best tokens
    - sentence: for the start of this name, with {which} for the prompt's best or worst
    - published: search as the published code does, with its wrong sign
    - only: names of starts. If a model has none of them, all starts are used.
    """
    results: Results = {}
    for (name, direction), objective in objectives.items():
        which = name.split()[0]
        column = which if which in table else "greatest"
        best = table.sort_values(column, ascending=direction == "pessimal", kind="stable")["token_id"]
        starts = searches.starts(objective, n, winners=best, sentence=sentence.format(which=which), randoms=1)
        chosen = {start: starts[start] for start in only if start in starts} or starts
        used = replace(settings, method=PUBLISHED_METHODS[direction]) if published else settings
        for start, reply in chosen.items():
            results[name, direction, start] = searches.search(objective, reply, used, traces=searches.TRACES)
    return results


# --- tables -------------------------------------------------------------------------------------------------------


def as_table(results: Results) -> pd.DataFrame:
    """Return a row per search, the best first for each prompt and direction.

    The column `from` names the start, `reply` has a bar between two tokens, and `scored` counts replies.
    """
    rows = [
        {"prompt": name, "direction": direction, "from": start} | _shown(result) | {"scored": result.evaluations}
        for (name, direction, start), result in results.items()
    ]
    table = pd.DataFrame(rows)
    value = table["reward"] * table["direction"].map(DIRECTIONS)
    order = table.assign(value=-value).sort_values(["prompt", "direction", "value"], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _shown(result: SearchResult) -> dict:
    return {"reply": "¦".join(result.tokens), "reward": result.reward, "reward of text": result.reward_of_text,
            "survives": result.survives}  # fmt: skip


def best_of(results: Iterable[Results]) -> dict[tuple[str, str], SearchResult]:
    """Return the best search of each prompt's name and direction, over all results; the first of equal ones."""
    best: dict[tuple[str, str], SearchResult] = {}
    for (name, direction, _), result in (item for several in results for item in several.items()):
        sign, best_so_far = DIRECTIONS[direction], best.get((name, direction))
        if best_so_far is None or sign * result.reward > sign * best_so_far.reward:
            best[name, direction] = result
    return best


def typed_and_fed(by_mode: Mapping[str, Results]) -> pd.DataFrame:
    """Return the best reply that a person could type and the best that the model could be fed, for each prompt.

    The column `searched` says whether the search ran over text or ids. by_mode: the searches of each reply mode.
    """
    rows = [
        {"tokens": len(best.ids), "prompt": name, "direction": direction, "searched": f"over {mode}"} | _shown(best)
        for mode, results in by_mode.items()
        for (name, direction), best in best_of([results]).items()
    ]
    return pd.DataFrame(rows).sort_values(["tokens", "prompt", "direction"], kind="stable").reset_index(drop=True)


def compare_with_paper(paper: pd.DataFrame, published: Iterable[Results], ours: Iterable[Results]) -> pd.DataFrame:
    """Return the paper's strings with the best that its search, and ours, find for the same prompt and direction.

    `paper` is its Table 4 or 5, about R-Gem-2B and without scores. `published` and `ours` are searches of one model.
    """
    columns = {"prompt": paper["prompt"], "direction": paper["direction"], "paper": paper["result"]}
    for name, reward, results in (("published search", "its reward", published), ("ours", "our reward", ours)):
        best_by_key = best_of(results)
        best = [best_by_key.get(key) for key in zip(paper["prompt"], paper["direction"], strict=True)]
        columns[name] = ["¦".join(result.tokens) if result else "" for result in best]
        columns[reward] = [result.reward if result else np.nan for result in best]
    return pd.DataFrame(columns)


def compare_with_published(published: Results, ours: Results) -> pd.DataFrame:
    """Return the best reward of the published search and of ours, for each prompt and direction.

    Columns: published, ours, shortfall of the published search (on the model's own scale; below 0 where it found more).
    """
    old, new = best_of([published]), best_of([ours])
    rows = {key: {"published": old[key].reward, "ours": new[key].reward} for key in new}
    table = pd.DataFrame(rows).T.rename_axis(["prompt", "direction"])
    sign = table.index.get_level_values("direction").map(DIRECTIONS)
    return table.assign(shortfall=(table["ours"] - table["published"]) * sign)


# --- loops --------------------------------------------------------------------------------------------------------


def loops(
    objectives: Mapping[tuple[str, str], Objective], lengths: Iterable[int], settings: Settings, steps: int = 20
) -> pd.DataFrame:
    """Return how often the original GCG returns to an earlier reply or stays at one, a row per search.

    Each search starts from a random reply. The column `steps` counts its steps, and `loops` is the share of them that
    ended on an earlier reply, in [0, 1].
    """
    rows = []
    for n, ((name, direction), objective) in itertools.product(lengths, objectives.items()):
        rng = np.random.default_rng(settings.seed)
        start = objective.draw(n, rng)
        method = gcg.gcg(objective, start, float(objective.values(np.array([start]))[0]), settings, rng)
        stood_on, returned = {start}, list[bool]()
        replies = next(method, None)
        while replies is not None and len(returned) < steps:
            values = objective.values(replies)
            reply = as_reply(replies[values.argmax()])  # as GCG moves on, even to a worse one
            returned.append(reply in stood_on)
            stood_on.add(reply)
            replies = gcg.send(method, values)
        rows.append({"tokens": n, "prompt": name, "direction": direction, "steps": len(returned),
                     "loops": float(np.mean(returned)) if returned else 0.0})  # fmt: skip
    return pd.DataFrame(rows)


# --- kinds of tokens ----------------------------------------------------------------------------------------------


def kind_of(token: str) -> str:
    """Return the kind of a token by its looks, such as "emoji" or "code"."""
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
    """Return the share of each kind of token in each group of tokens: groups x kinds, rows add up to 1."""
    shares = {name: pd.Series(map(kind_of, tokens)).value_counts(normalize=True) for name, tokens in groups.items()}
    return pd.DataFrame(shares).T.fillna(0.0)
