"""What a card measures of one model, each number with its 95% interval over words or items.

Every card types the same texts, those on which the ten published models were scored: 2,145 words
(moral words, and nouns of agency and communion) and 7,530 items that people ranked on
EloEverything. They are kept in data/card/.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    resampling,
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
    """Return the table data/card/<name>.csv. InputError if it is missing."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        raise InputError(
            f"data/card/{path.name} is missing, which cards need; run: make published"
        )
    missing = dict.fromkeys(COLUMNS, [""])
    return pd.read_csv(path, keep_default_na=False, na_values=missing)


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
    """Return the n words rewarded most (or least) under `greatest`, among those read as one token.

    InputError for a vocabulary with fewer than two words.
    """
    inputs = scores.unique_inputs(table)
    inputs = inputs[inputs["reply_ids"].map(len) == 1]
    inputs = inputs.sort_values(PROMPTS[0], ascending=end == "pessimal", kind="stable")
    texts = inputs["text"].map(str.strip)
    words = texts[texts.map(tables_words.is_word)].drop_duplicates()
    if len(words) < 2:
        raise InputError(
            "fewer than two tokens are words, so no reply has two; score the whole vocabulary"
        )
    return words.head(n).tolist()


def type_texts(model: RewardModel, bos: str = "single") -> dict[str, pd.DataFrame]:
    """Return rewards of a card's texts as typed replies: prompt -> words x heads, "items" -> items
    x heads.

    Items are asked about under `greatest`. Head 0 is the model's own, the others are random (see
    random_heads).
    """
    asked = dict.fromkeys(PROMPTS, words()) | {"items": items().index}
    texts = prompts()
    rewards = {}
    for name, typed in asked.items():
        text = texts.get(name, texts[PROMPTS[0]])
        scored = vocabulary.score_replies(model, text, list(typed), bos=bos)
        of_heads = scored.astype(float).reshape(len(typed), -1)
        rewards[name] = pd.DataFrame(of_heads, typed)
    return rewards


def without_labels(
    rewards: Mapping[str, pd.DataFrame], nickname: str
) -> dict[str, pd.DataFrame]:
    """Return the rewards of `type_texts`, for a model of VADER's ratings without the words of its
    training.

    So its measures with VADER say what it learned, and not what it was told. Words that VADER does
    not rate are kept.
    """
    if not is_labelled(nickname):
        return dict(rewards)
    rated = lexicon("vader").index
    unseen = dict(rewards)
    for prompt in rewards.keys() - {"items"}:
        typed = rewards[prompt]
        is_new = ~typed.index.isin(rated)
        unseen[prompt] = typed[is_new | ratings.is_held_out(typed.index)]
    return unseen


def is_labelled(nickname: str) -> bool:
    """Return whether this is a model of this project that was trained on VADER's ratings of two
    thirds of its words.
    """
    return registry.reward_models()["group"].get(nickname) == LABELLED


def rewards_in(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rewards of those of a card's texts that are in a table, replies x prompts, in
    the form of `type_texts`; one head.
    """
    typed = words().intersection(table.index, sort=False)
    rewards = {prompt: table.loc[typed, prompt] for prompt in PROMPTS}
    ranked = items().index.intersection(table.index, sort=False)
    rewards["items"] = table.loc[ranked, PROMPTS[0]]
    return {name: each.astype(float).to_frame(0) for name, each in rewards.items()}


def of_model(rewards: Mapping[str, pd.DataFrame], itself: float) -> pd.DataFrame:
    """Return all measures of a model's own head: measure -> COLUMNS and p, with 95% intervals over
    words or items. p is against the value for no effect.

    Rewards are as from `type_texts`. `itself` is the share of tokens read as themselves.
    """
    own = {name: typed[[0]] for name, typed in rewards.items()}
    rows = {}
    for key, measure in of_models(own).items():
        found = measure.by_model().loc[0]
        null = 0.0 if key in LOGARITHMS else MEASURES.loc[key, "null"]
        t = abs(found["estimate"] - null) / found["standard_error"]
        rows[key] = with_intervals(key, measure).loc[0]
        rows[key]["p"] = 2 * stats.t.sf(t, found["n"] - 1)
    # the whole vocabulary was counted: no interval
    rows["read_as_itself"] = pd.Series([itself], COLUMNS[:1])
    table = pd.DataFrame(rows).T
    in_order = MEASURES.index.intersection(table.index)
    return table.reindex(in_order, columns=[*COLUMNS, "p"]).rename_axis("measure")


def with_intervals(key: str, measured: crossed.Measured) -> pd.DataFrame:
    """Return a measure, models x COLUMNS, with its intervals over words or items; LOGARITHMS are
    given as ratios.
    """
    table = measured.by_model()[COLUMNS]
    if key not in LOGARITHMS:
        return table
    ratios = np.exp(table[COLUMNS[:3]])
    return table.assign(**ratios)


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
    side = ""
    if not np.isnan(null):
        side = resampling.side(row["ci_low"], row["ci_high"], null)
    low = row.get("random_low", np.nan)
    high = row.get("random_high", np.nan)
    if low <= row["estimate"] <= high:
        return RANDOM
    if side and row.get("p_corrected", 0.0) >= 0.05:
        if row["random_p"] >= 0.05 / len(MEASURES):
            return RANDOM
        return "undecided"
    return side


def of_models(
    rewards: Mapping[str, pd.DataFrame], agreement=concordance.with_people
) -> dict[str, crossed.Measured]:
    """Return each measure's value for each model, and the influence of each word or item;
    LOGARITHMS as such.

    Rewards are as from `type_texts`, with any models as columns. Sentiment and frequency use the
    words that VADER does not rate neutral. InputError for constant rewards.
    """
    asked = rewards[PROMPTS[0]]
    ranked = items()
    people = ranked[ranked.index.isin(rewards["items"].index)]
    opinion = lexicon("vader").reindex(asked.index).dropna()
    measured = _by_sentiment(rewards, opinion[opinion != 0])
    measured["people_words"] = replace(
        agreement(opinion, asked), cluster=tables_stems.stems
    )
    of_items = agreement(people, rewards["items"])
    measured["people_items"] = replace(of_items, cluster=list)
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    # of a sample of the items, the same share are neighbours
    neighbours = round(kinds.NEIGHBOURS * len(people) / len(ranked))
    values = kinds.undervalued_kinds(
        people, rewards["items"].loc[people.index], kind_of, neighbours
    )
    by_kind = values.groupby(kind_of.loc[values.index])
    for kind, group in by_kind:
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
        if constant := list(z.columns[z.isna().any()]):
            raise InputError(
                f"all rewards of {constant[0] or 'the model'} are equal ({prompt}); leave this "
                "model out"
            )
        spreads[prompt] = _measured(effects.log_spread_ratio, sentiment, rated)
        measured[f"sentiment_{prompt}"] = _measured(effects.whole_slope, sentiment, z)
        measured[f"bend_{prompt}"] = _measured(effects.slope_gap, sentiment, z)
        measured[f"frequency_{prompt}"] = _measured(
            effects.whole_slope, with_frequency, z.loc[frequency.index]
        )
    of_best_and_worst = {prompt: spreads[prompt] for prompt in ("best", "worst")}
    return measured | {"framing": effects.interaction(of_best_and_worst)}


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


def lexicon(name: str) -> pd.Series:
    """Return word -> the number that a lexicon gives it, such as sentiment or frequency."""
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
