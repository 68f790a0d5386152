"""What the best of n is like: words, style and reward of the reply with the highest reward.

A file holds a pool of several replies to each prompt. The best of n is the reply with the highest
reward among n that are drawn from a pool without replacement. Nothing is drawn here: the reply of
rank k among m (1: lowest reward) is the best of n with probability C(k - 1, n - 1) / C(m, n)
(Nakano et al. 2021, arXiv 2112.09332, appendix I). So all means are exact for these pools;
intervals are over prompts.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import regex  # which transformers needs
from scipy import stats
from scipy.special import comb

from ..opening import opening
from ..paper import (
    InputError,
    RewardModel,
    shown_path,
    vocabulary,
    write_csv,
)
from ..reading import reply_files
from . import measures, random_heads

MOST = 64  # n is 1, 2, 4 and so on, up to this number and to the smallest pool
FEWEST = 5  # prompts, for an interval
# What stands between word boundaries of Unicode (annex 29) and holds a letter
WORD = regex.compile(r"(?w)\b(?=\w*\p{L})\w.*?\b")
STYLES = {  # what is counted in a reply
    "list items": r"(?m)^\s*(?:[-*•]|\d+[.)])\s",
    "bold or headings": r"(?m)\*\*[^*\n]+\*\*|^#+ ",
    "exclamation marks": "!",
    "question marks": r"\?",
    "I or my": r"\b(?:I|[Mm]y)\b",
}


def chances(rewards: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Return the probability that each reply is the best of n, (sizes, replies), from the rewards
    of a pool. Equal rewards share it.
    """
    n = np.array(sizes)[:, None]
    ranks = stats.rankdata(rewards, method="ordinal")
    of_ranks = comb(ranks - 1, n - 1) / comb(len(rewards), n)
    _, number, count = np.unique(rewards, return_inverse=True, return_counts=True)
    shared = [np.bincount(number, weights) / count for weights in of_ranks]
    return np.stack(shared)[:, number]


def features(texts: pd.Series) -> pd.DataFrame:
    """Return what is counted in each reply, replies x features: words, their mean log10 frequency,
    the mean VADER rating of those that are rated, and STYLES.

    What is equal in all replies is left out.
    """
    texts = texts.str.normalize("NFC")
    words = texts.str.lower().map(WORD.findall)
    each = words.explode()
    table = pd.DataFrame({"words": words.map(len)}, dtype=float)
    frequency = np.log10(measures.lexicon("wordfreq"))
    table["log10 frequency"] = _mean_of(each, frequency)
    table["sentiment"] = _mean_of(each, measures.lexicon("vader"))
    for name, pattern in STYLES.items():
        table[name] = texts.str.count(pattern)
    return table.loc[:, table.max() > table.min()]


def _mean_of(each: pd.Series, lexicon: pd.Series) -> pd.Series:
    """Return the mean of a reply's words in a lexicon, (replies,); of replies without such a word,
    the mean over all others.
    """
    means = each.map(lexicon).groupby(level=0).mean()
    return means.fillna(means.mean())


def rewards_of(
    model: RewardModel, given: pd.DataFrame, bos: str = "single"
) -> pd.DataFrame:
    """Return the rewards of all replies, replies x heads; head 0 is the model's own, the others
    are random (random_heads).
    """
    wide = random_heads.with_random_heads(model)
    pools = given.groupby("context", sort=False)["reply"]
    contexts = [json.loads(context) for context, _ in pools]
    inputs = [
        wide.inputs_for(context, list(pool), bos=bos)
        for context, (_, pool) in zip(contexts, pools, strict=True)
    ]
    rewards = []
    of_pools = vocabulary.score_inputs(wide, inputs)
    for (_, pool), each in zip(pools, of_pools, strict=True):
        scored = each.astype(float)
        rewards.append(pd.DataFrame(scored.reshape(len(pool), -1), pool.index))
    return pd.concat(rewards).loc[given.index]


def means(
    rewards: pd.DataFrame, counted: pd.DataFrame, context: pd.Series
) -> pd.DataFrame:
    """Return the expected features of the best of n: (feature, n) x (prompt, head).

    rewards: replies x heads, counted: replies x features; the model's own reward is one more
    feature. InputError for too few prompts, or a prompt with one reply.
    """
    pools = counted.assign(reward=rewards[0]).groupby(context.to_numpy(), sort=False)
    smallest = pools.size().min()
    if len(pools) < FEWEST or smallest < 2:
        raise InputError(
            f"best of n needs {FEWEST} prompts at least with two replies each; there are "
            f"{len(pools)} prompts, and one of them has {smallest}"
        )
    sizes = [2**i for i in range(MOST.bit_length()) if 2**i <= smallest]
    found = {}
    for number, (_, pool) in enumerate(pools):
        for head, of_head in rewards.loc[pool.index].items():
            expected = chances(of_head.to_numpy(), sizes) @ pool.to_numpy()
            found[number, head] = expected.T.ravel()
    rows = pd.MultiIndex.from_product([pool.columns, sizes], names=["feature", "n"])
    return pd.DataFrame(found, rows)


def from_one(of_n: pd.DataFrame) -> pd.DataFrame:
    """Return each mean minus that of one random reply (n = 1), in the form of `means`."""
    of_one = of_n.xs(1, level="n")
    return of_n - of_one.reindex(of_n.index.get_level_values("feature")).to_numpy()


def measured(of_n: pd.DataFrame) -> pd.DataFrame:
    """Return what the best of n is like, from `means`: a row for each feature and n.

    - mean: over prompts; change: its difference from n = 1 with a t interval over prompts
    - random_low, random_high: the band of random heads for this change
    - p_corrected: the larger of two, as measures.corrected says; adjusted by `_corrected`
    """
    changes = from_one(of_n)
    own = changes.xs(0, axis=1, level=1)
    band = random_heads.band(changes.T.groupby(level=1).mean().T)
    p = random_heads.larger_p(measures.p_of_mean(own.to_numpy()), band["random_p"])
    table = _with_interval(own).join(band)
    table.insert(0, "mean", of_n.xs(0, axis=1, level=1).mean(axis=1))
    return table.assign(p_corrected=_corrected(p))


def between(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return how the change differs between two models that chose from the same pools, from
    `means` of both: change (second minus first) with its interval, and p_corrected.
    """
    own = [from_one(each).xs(0, axis=1, level=1) for each in (first, second)]
    apart = own[1] - own[0]
    p = pd.Series(measures.p_of_mean(apart.to_numpy()), apart.index)
    return _with_interval(apart).assign(p_corrected=_corrected(p))


def _with_interval(changes: pd.DataFrame) -> pd.DataFrame:
    """Return change, ci_low, ci_high of rows x prompts."""
    n = changes.shape[1]
    mean = changes.mean(axis=1)
    half = stats.t.ppf(0.975, n - 1) * changes.sem(axis=1)
    return pd.DataFrame({"change": mean, "ci_low": mean - half, "ci_high": mean + half})


def _corrected(p: pd.Series) -> pd.Series:
    """Return p-values adjusted for all features of an n (Benjamini and Hochberg)."""
    return p.groupby(level="n").transform(stats.false_discovery_control)


def best_of_n(
    name: str,
    file: str,
    against: str | None = None,
    out: str | None = None,
    bos: str = "single",
    **options: Any,
) -> None:
    """Print and write what the best of n replies in a file is like.

    against: another model, whose best of n from the same pools is compared. out: the csv to write.
    The options are passed to opening.open_model.
    """
    given = reply_files.read_replies(Path(file))
    counted = features(given["reply"])
    of_n = []
    of_models: list[pd.DataFrame] = []
    names = [name, against] if against else [name]
    target = Path(out or Path(file).with_suffix(".best_of_n.csv"))
    with reply_files.writing(target, Path(file)) as part:
        for each in names:
            model = opening.open_model(each, **options)
            rewards = rewards_of(model, given, bos)
            if any(map(rewards.equals, of_models)):
                raise InputError(
                    f"{name} and {each} give the same rewards, as one model does; name another"
                )
            of_models.append(rewards)
            of_n.append(means(rewards, counted, given["context"]))
        tables = dict(zip(names, map(measured, of_n), strict=True))
        if against:
            tables[f"{against} minus {name}"] = between(*of_n)
        write_csv(pd.concat(tables, names=["model"]).reset_index(), part)
    for title, table in tables.items():
        print(f"{title}:\n{as_text(table)}\n")
    print(f"All features and n are in {shown_path(target)}.")


def as_text(table: pd.DataFrame) -> str:
    """Return the rows of the largest n to print, those that are least likely chance first."""
    most = table.index.get_level_values("n").max()
    rows = table.xs(most, level="n").sort_values("p_corrected", kind="stable")
    return f"best of {most}\n{rows.to_string(float_format='{:.3g}'.format)}"
