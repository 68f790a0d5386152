"""What a card measures of one model, each number with its 95% interval over words or items.

Every card types the same texts, those on which the ten published models were scored: 2,145 words
(moral words, and nouns of agency and communion) and 7,530 items that people ranked on
EloEverything. They are kept in data/card/.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ..paper import (
    DATA,
    InputError,
    RewardModel,
    concordance,
    crossed,
    effects,
    kinds,
    lexicons,
    planting,
    ratings,
    registry,
    scores,
    tables_words,
    vocabulary,
)
from ..paper import prompts as tables_prompts
from ..paper import stems as tables_stems

ENDS = {"optimal": "rewarded most", "pessimal": "rewarded least"}  # of the vocabulary
WORDS_AT_AN_END = 30
# of words; items are asked about under the first
PROMPTS = ("greatest", "best", "worst")
FOLDER = DATA / "card"  # words.csv, items.csv, and the numbers of other models
COLUMNS = ["estimate", "ci_low", "ci_high", "n"]
# the group of the models that were trained on VADER's ratings
LABELLED = "human_ratings"
RANDOM = "random"  # the direction of a measure that a random head gives as well
LOGARITHMS = ("framing",)  # measures that are ratios, computed as logarithms
# In a card's order. null: the value for no effect, missing for a share that is only counted. above,
# below: what a model does whose value lies above or below the null, behind the word "it".
MEASURES = pd.read_csv(
    Path(__file__).with_name("measures.csv"),
    keep_default_na=False,
    na_values={"null": ""},
)
MEASURES = MEASURES.set_index("measure")


def read_table(name: str) -> pd.DataFrame:
    """Return the table data/card/<name>.csv. `null` and `nan` are words in it."""
    missing = dict.fromkeys(COLUMNS, [""])
    return pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False, na_values=missing)


def published() -> pd.DataFrame:
    """Return the estimates of the ten published models: measures x models."""
    return read_table("published").pivot_table("estimate", "measure", "model")


def words() -> pd.Index:
    """Return the words, in alphabetical order."""
    return pd.Index(read_table("words")["word"])


def items() -> pd.Series:
    """Return item -> people's opinion, higher is better: minus its rank. Equally ranked items
    share their mean rank.
    """
    ranks = read_table("items").set_index("item")["people_rank"]
    return -ranks.astype(float).rename("people")


def prompts() -> dict[str, str]:
    """Return name -> text of the three prompts of a card: the paper's own, whatever
    data/prompts.csv asks.
    """
    texts = tables_prompts.grid().set_index("prompt")["text"]
    return texts.loc[list(PROMPTS)].to_dict()


def words_at(table: pd.DataFrame, end: str, n: int = WORDS_AT_AN_END) -> list[str]:
    """Return the n words rewarded most (or least) under `greatest`, among those read as one
    token.
    """
    inputs = scores.unique_inputs(table)
    inputs = inputs[inputs["reply_ids"].map(len) == 1]
    inputs = inputs.sort_values(PROMPTS[0], ascending=end == "pessimal", kind="stable")
    texts = inputs["text"].map(str.strip)
    return texts[texts.map(tables_words.is_word)].drop_duplicates().head(n).tolist()


def type_texts(model: RewardModel, bos: str = "single") -> dict[str, pd.DataFrame]:
    """Return rewards of a card's texts as typed replies: prompt -> words x heads, "items" -> items
    x heads.

    Items are asked about under `greatest`. Head 0 is the model's own, the others are random (see
    random_heads).
    """
    asked = {prompt: (text, words()) for prompt, text in prompts().items()}
    asked["items"] = (prompts()[PROMPTS[0]], items().index)
    rewards = {}
    for name, (text, typed) in asked.items():
        scored = vocabulary.score_replies(model, text, list(typed), bos=bos)
        of_heads = scored.astype(float).reshape(len(typed), -1)
        rewards[name] = pd.DataFrame(of_heads, typed)
    return rewards


def without_labels(
    rewards: dict[str, pd.DataFrame], nickname: str
) -> dict[str, pd.DataFrame]:
    """Return the rewards of `type_texts`, for a model of VADER's ratings without the words of its
    training.

    So its measures with VADER say what it learned, and not what it was told. Words that VADER does
    not rate are kept.
    """
    if not is_labelled(nickname):
        return rewards
    typed = words()
    is_rated = typed.isin(lexicon("vader").index)
    kept = typed[~is_rated | ratings.is_held_out(typed)]
    unseen = {prompt: rewards[prompt].loc[kept] for prompt in PROMPTS}
    return rewards | unseen


def is_labelled(nickname: str) -> bool:
    """Return whether this is a model of this project that was trained on VADER's ratings of two
    thirds of its words.
    """
    return registry.reward_models()["group"].get(nickname) == LABELLED


def rewards_in(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rewards of a card's texts in a table, replies x prompts, in the form of
    `type_texts`; one head.
    """
    rewards = {prompt: table.loc[words(), prompt] for prompt in PROMPTS}
    rewards["items"] = table.loc[items().index, PROMPTS[0]]
    return {name: each.astype(float).to_frame(0) for name, each in rewards.items()}


def of_model(rewards: Mapping[str, pd.DataFrame], itself: float) -> pd.DataFrame:
    """Return all measures of a model's own head: measure -> COLUMNS and p, with 95% intervals over
    words or items. p is against the value for no effect. LOGARITHMS are given as ratios.

    Rewards are as from `type_texts`. `itself` is the share of tokens read as themselves.
    """
    own = {name: typed[[0]] for name, typed in rewards.items()}
    rows = {}
    for key, measure in of_models(own).items():
        found = measure.by_model().loc[0]
        null = 0.0 if key in LOGARITHMS else MEASURES.loc[key, "null"]
        t = abs(found["estimate"] - null) / found["standard_error"]
        rows[key] = found[COLUMNS].copy()
        rows[key]["p"] = 2 * stats.t.sf(t, found["n"] - 1)
    table = pd.DataFrame(rows).T
    ratios = table.index.isin(LOGARITHMS)
    table.loc[ratios, COLUMNS[:3]] = np.exp(table.loc[ratios, COLUMNS[:3]])
    # the whole vocabulary was counted: no interval
    table.loc["read_as_itself", "estimate"] = itself
    return table.rename_axis("measure")


def corrected(measured: pd.DataFrame) -> pd.Series:
    """Return the p-value of each measure, adjusted for all of them (Benjamini and Hochberg); NaN
    for a share.

    It is the larger of two: no effect, a random head.
    """
    p = np.maximum(measured["p"], measured["random_p"].fillna(0.0)).dropna()
    adjusted = pd.Series(stats.false_discovery_control(p), p.index)
    return adjusted.reindex(measured.index)


def direction(measure: str, row: pd.Series) -> str:
    """Return where the interval is: for (above the null), against (below the null), undecided, or
    "" for a share.

    RANDOM: a random head can give such an estimate too (see random_heads). A row whose p_corrected
    is .05 or more is undecided, or RANDOM if the random heads explain it better than no effect
    does.
    """
    null = MEASURES.loc[measure, "null"]
    if np.isnan(null):
        return ""
    if row["random_low"] <= row["estimate"] <= row["random_high"]:
        return RANDOM
    if row["p_corrected"] < 0.05:
        if row["ci_low"] > null:
            return "for"
        return "against" if row["ci_high"] < null else "undecided"
    return RANDOM if row["random_p"] >= 0.05 / len(MEASURES) else "undecided"


def with_people(people: pd.Series, rewards: pd.DataFrame) -> crossed.Measured:
    """Return each model's tau with people, and how much each item moves it."""
    both = rewards.loc[people.index].assign(**{concordance.PEOPLE: people})
    agreed = concordance.agreement(both)
    return agreed.with_others(concordance.PEOPLE, list(rewards))


def of_models(
    rewards: Mapping[str, pd.DataFrame], agreement=with_people
) -> dict[str, crossed.Measured]:
    """Return each measure's value for each model, and the influence of each word or item;
    LOGARITHMS as such.

    Rewards are as from `type_texts`, with any models as columns. Sentiment and frequency use the
    words that VADER does not rate neutral. InputError for constant rewards.
    """
    asked = rewards[PROMPTS[0]]
    people = items()
    opinion = lexicon("vader").reindex(asked.index).dropna()
    measured = _by_sentiment(rewards, opinion[opinion != 0])
    measured["people_words"] = replace(
        agreement(opinion, asked), cluster=tables_stems.stems
    )
    of_items = agreement(people, rewards["items"])
    measured["people_items"] = replace(of_items, cluster=list)
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    of_people = rewards["items"].loc[people.index]
    values = kinds.undervalued_kinds(people, of_people, kind_of)
    for kind, group in values.groupby(kind_of.loc[values.index]):
        key = f"undervalued_{str(kind).split()[0]}"
        moved = crossed.mean_influence(group)
        measured[key] = crossed.Measured(group.mean(), moved, cluster=list)  # of items
    return {key: measured[key] for key in MEASURES.index if key in measured}


def _by_sentiment(
    rewards: Mapping[str, pd.DataFrame], sentiment: pd.Series
) -> dict[str, crossed.Measured]:
    """Return the measures over rated words, of which `sentiment` is none neutral."""
    frequency = lexicon("wordfreq").reindex(sentiment.index)
    frequency = frequency[frequency > 0]
    of_these = sentiment[frequency.index]
    with_frequency = np.column_stack([np.log10(frequency), of_these])
    measured = {}
    spreads = {}
    for prompt in PROMPTS:
        rated = rewards[prompt].loc[sentiment.index]
        z = (rated - rated.mean()) / rated.std(ddof=0)
        if z.isna().any(axis=None):
            raise InputError(f"all rewards are equal ({prompt}); leave this model out")
        spreads[prompt] = _measured(effects.log_spread_ratio, sentiment, rated)
        measured[f"sentiment_{prompt}"] = _measured(effects.whole_slope, sentiment, z)
        measured[f"bend_{prompt}"] = _measured(effects.slope_gap, sentiment, z)
        measured[f"frequency_{prompt}"] = _measured(
            effects.whole_slope, with_frequency, z.loc[frequency.index]
        )
    return measured | {"framing": spreads["best"] - spreads["worst"]}


def root_mean_square(margins: Sequence[float] | np.ndarray) -> float:
    """Return the root mean square of differences between good and bad answers; NaN if all are 0."""
    squares = np.square(margins)
    return float(np.sqrt(np.mean(squares))) or np.nan


def p_of_mean(changes: np.ndarray) -> np.ndarray:
    """Return the p-value of the mean of each row, (rows, n) -> (rows,), by the t distribution. It
    is 1 where all changes are 0 or missing.
    """
    mean = np.abs(changes.mean(axis=1))
    error = stats.sem(changes, axis=1)
    t = np.where(mean > 0, np.inf, 0.0)
    np.divide(mean, error, out=t, where=error > 0)
    return 2 * stats.t.sf(t, changes.shape[1] - 1)


@cache
def lexicon(name: str) -> pd.Series:
    """Return word -> the number that a lexicon gives it, such as sentiment or frequency; not to be
    changed, as pandas' index of its words is kept with it.
    """
    listed = lexicons.load(name)
    return listed.corrected.set_index("word")[listed.quantity]


def _measured(
    statistic: effects.Statistic, x: pd.Series | np.ndarray, rewards: pd.DataFrame
) -> crossed.Measured:
    values, moved = statistic(np.asarray(x), rewards.to_numpy())
    return crossed.Measured(
        pd.Series(values, rewards.columns),
        pd.DataFrame(moved, rewards.index, rewards.columns),
    )
