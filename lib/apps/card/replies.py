"""What a card measures beyond its own words: swaps in ordinary answers, and a reader's own lists of words.

data/real_replies.csv holds twenty questions, each with a good answer, a bad answer, and the good answer with one thing
changed (SWAPS). All texts were written for this project.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ... import ROOT, InputError
from ...models.reward_models import RewardModel
from ...scoring import engine
from ...stats import resampling
from ...stats.crossed import Measured, slope, slope_influence
from . import measures, random_heads

SWAPS = {"identity": "an identity term is added", "dialect": "written in African American English",
         "sentiment": "a positive word becomes negative", "length": "an empty sentence is added"}  # fmt: skip
FEWEST = 5  # words of a list


def score(model: RewardModel, bos: str = "single") -> pd.DataFrame:
    """Return the rewards of all real replies: question x (head, version); head 0 is the model's own (random_heads)."""
    texts = pd.read_csv(ROOT / "data" / "real_replies.csv")
    scored = [engine.score_replies(model, asked, list(rows["reply"]), bos=bos)
              for asked, rows in texts.groupby("prompt", sort=False)]  # fmt: skip
    heads = pd.DataFrame(np.concatenate(scored).astype(float).reshape(len(texts), -1))
    return texts.join(heads).pivot_table(list(heads), "prompt", "version")


def swaps(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return what each swap does, from the rewards of `score`: a row for each of SWAPS.

    `change` is the mean change in reward with its t interval over questions, and with the band of random heads. Its
    unit is the root mean square difference between the good and the bad answer. `p_corrected` is adjusted for all
    swaps, as measures.corrected does. `flips` is a probability: the change in one random question reverses the
    preference between the two answers to another question. Its interval is a bootstrap over questions.
    """
    own, rows, heads = rewards[0], {}, {}
    margins = (own["good"] - own["bad"]).to_numpy()
    unit = np.sqrt((margins**2).mean()) or np.nan

    for name in SWAPS:
        change = (own[name] - own["good"]).to_numpy()
        flipped = np.sign(margins) != np.sign(margins + change[:, None])  # (swapped, preferred)

        def share(sample: np.ndarray, flipped: np.ndarray = flipped) -> float:
            return flipped[np.ix_(sample, sample)].mean()

        half, test = stats.t.ppf(0.975, len(change) - 1) * stats.sem(change), stats.ttest_1samp(change, 0)
        bounds = resampling.interval(resampling.bootstrap(share, len(change), 1000))
        ends = (change.mean() / unit, (change.mean() - half) / unit, (change.mean() + half) / unit)
        rows[name] = (*ends, flipped.mean(), *map(float, bounds), len(change), test.pvalue)
        by_head = (rewards.xs(name, axis=1, level=1) - rewards.xs("good", axis=1, level=1)).mean()
        heads[name] = by_head / unit
    columns = ["change", "ci_low", "ci_high", "flips", "flips_low", "flips_high", "n", "p"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).join(
        random_heads.band_of(pd.DataFrame(heads).T)
    )
    p = np.maximum(table.pop("p").fillna(1.0), table["random_p"].fillna(0.0))
    return table.assign(p_corrected=stats.false_discovery_control(p))


# --- lists of words -----------------------------------------------------------------------------------------------


def read_lists(file: str | Path) -> pd.DataFrame:
    """Return the lists of words of a csv with columns word and list: words x lists, True where a word is in a list.

    InputError for a file without these columns, and for a list of fewer than five different words.
    """
    try:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False)[["word", "list"]].drop_duplicates()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} cannot be read ({error}); give a csv with the columns word,list") from error
    lists = pd.crosstab(rows["word"].str.strip(), rows["list"]).astype(bool)
    if len(short := lists.columns[lists.sum() < FEWEST]) or lists.empty:
        raise InputError(f"{file}: list {'' if lists.empty else short[0]!r} needs at least {FEWEST} different words")
    return lists


def own_lists(model: RewardModel, asked: pd.DataFrame, lists: pd.DataFrame, bos: str = "single") -> pd.DataFrame:
    """Return how much more a model rewards each list than the other words, at equal frequency, length and sentiment.

    The model has its random heads. `asked` is words of a card x heads, under `greatest`. `lists` comes from
    `read_lists`. Each estimate is in standard deviations of reward, with its interval over words and the BAND of random
    heads.
    """
    further = lists.index.difference(asked.index)
    prompt, typed = measures.prompts()[measures.PROMPTS[0]], asked.iloc[:0]
    if len(further):
        scored = engine.score_replies(model, prompt, list(further), bos=bos)
        typed = pd.DataFrame(scored.astype(float).reshape(-1, asked.shape[1]), further)
    every = pd.concat([asked, typed])
    standardised = (every - every.mean()) / every[0].std()  # random heads in the units of the model's own
    held, rows, of_heads = controls(every.index).to_numpy(), {}, {}
    for name in lists:
        listed, values = every.index.isin(lists.index[lists[name]]).astype(float), standardised.to_numpy()
        of_heads[name] = slope(listed, values, held)
        moved = pd.DataFrame(slope_influence(listed, values[:, :1], held))
        own = Measured(pd.Series(of_heads[name][:1]), moved).by_model().loc[0, ["estimate", "ci_low", "ci_high"]]
        rows[name] = (*own, int(listed.sum()))
    table = pd.DataFrame.from_dict(rows, orient="index", columns=measures.COLUMNS)
    return table.join(random_heads.band_of(pd.DataFrame(of_heads).T))


def controls(words: pd.Index) -> pd.DataFrame:
    """Return what is held constant: log10 of frequency, letters, sentiment (0 if not rated) and whether it is rated."""
    frequency, sentiment = measures.lexicon("wordfreq"), measures.lexicon("vader")
    return pd.DataFrame({
        "frequency": np.log10(frequency.reindex(words).fillna(frequency.min())), "letters": words.str.len(),
        "sentiment": sentiment.reindex(words).fillna(0.0), "rated": words.isin(sentiment.index),
    }, index=words).astype(float)  # fmt: skip
