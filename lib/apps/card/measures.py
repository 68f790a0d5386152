"""What a card measures of one model, each number with its 95% interval over words or items.

Every card scores the same texts: 2,145 words (moral words, and nouns of agency and communion) and 7,530 items that
people ranked on EloEverything. The ten published models were scored on them too. A card types them as replies under the
prompts of the paper, whatever the vocabulary of the model is. The texts are kept in data/card/, so that a card needs no
network. The measures are computed by the functions of the paper's sections.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ... import ROOT, InputError
from ...alignment import concordance, kinds
from ...framing import effects
from ...framing import interaction as framing
from ...models.reward_models import RewardModel
from ...planted import planting
from ...scoring import engine
from ...stats import resampling
from ...stats.crossed import Measured, mean_influence
from ...tables import lexicons
from ...tables.prompts import grid

PROMPTS = ("greatest", "best", "worst")  # of words; items are asked about under the first
FOLDER = ROOT / "data" / "card"  # words.csv, items.csv, and the numbers of other models
COLUMNS = ["estimate", "ci_low", "ci_high", "n"]
RANDOM = "random"  # the direction of a measure that a random head gives as well
LOGARITHMS = ("framing",)  # measures that are ratios, computed as logarithms
MODEL = "model"  # what the only model is called where there is one
# One row per measure, in a card's order: label, unit, null (no effect; missing for a share that is only counted),
# above and below (what a model does whose value lies above or below the null, behind the word "it"), texts.
MEASURES = pd.read_csv(Path(__file__).with_name("measures.csv"), keep_default_na=False, na_values={"null": ""})
MEASURES = MEASURES.set_index("measure")


# --- texts --------------------------------------------------------------------------------------------------------


def read_table(name: str) -> pd.DataFrame:
    """Return the table data/card/<name>.csv. InputError if it is missing."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        raise InputError(f"data/card/{path.name} is missing, which cards need; run: make published")
    return pd.read_csv(path, keep_default_na=False, na_values={column: [""] for column in COLUMNS})


def words() -> pd.Index:
    """Return the words, in alphabetical order."""
    return pd.Index(read_table("words")["word"])


def items() -> pd.Series:
    """Return item -> people's opinion, higher is better: minus its rank. Equally ranked items share their mean rank."""
    return -read_table("items").set_index("item")["people_rank"].astype(float).rename("people")


def prompts() -> dict[str, str]:
    """Return name -> text of the three prompts of a card: the paper's own, whatever data/prompts.csv asks."""
    return grid().set_index("prompt")["text"].loc[list(PROMPTS)].to_dict()


def type_texts(model: RewardModel, bos: str = "single") -> dict[str, pd.DataFrame]:
    """Return rewards of a card's texts as typed replies, on the model's own scale, each text read once.

    The keys are the prompts (words x heads), and "items" (items x heads, under `greatest`). Column 0 is the model's own
    head, and the other columns are random heads, see random_heads.
    """
    asked = {prompt: (prompt, words()) for prompt in PROMPTS} | {"items": (PROMPTS[0], items().index)}
    texts, rewards = prompts(), {}
    for name, (prompt, typed) in asked.items():
        scored = engine.score_replies(model, texts[prompt], list(typed), bos=bos).astype(float)
        rewards[name] = pd.DataFrame(scored.reshape(len(typed), -1), typed)
    return rewards


def of_own_head(rewards: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.Series]:
    """Return the model's own rewards, words x prompts and item -> reward, from the result of `type_texts`."""
    return pd.DataFrame({prompt: rewards[prompt][0] for prompt in PROMPTS}), rewards["items"][0]


# --- measures -----------------------------------------------------------------------------------------------------


def of_model(words: pd.DataFrame, ranked: pd.Series, itself: float) -> pd.DataFrame:
    """Return all measures of one model: measure -> COLUMNS, with 95% intervals over words or items.

    - words: rewards, words x prompts
    - ranked: item -> reward under greatest
    - itself: the share of tokens read as themselves
    """
    rewards = {prompt: words[[prompt]].set_axis([MODEL], axis=1) for prompt in PROMPTS}
    measured = of_models(rewards | {"items": ranked.to_frame(MODEL)})
    rows = {key: with_interval(key, measure, MODEL) for key, measure in measured.items()}
    rows["read_as_itself"] = [itself, np.nan, np.nan, np.nan]  # the whole vocabulary was counted: no interval
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS).rename_axis("measure")
    return table.loc[MEASURES.index[MEASURES.index.isin(table.index)]]


def with_interval(key: str, measured: Measured, model: str) -> list[float]:
    """Return COLUMNS of one model: the value with its 95% interval over words or items, and their number.

    Measures of LOGARITHMS are given as ratios.
    """
    value, influence = measured.values[model], measured.influence[model]
    half = stats.t.ppf(0.975, len(influence) - 1) * np.sqrt((influence**2).sum())
    scale = np.exp if key in LOGARITHMS else float
    return [*(float(scale(end)) for end in (value, value - half, value + half)), len(influence)]


def corrected(measured: pd.DataFrame) -> pd.Series:
    """Return the p-value of each measure, adjusted for all of them (Benjamini and Hochberg); NaN for a share.

    It is the larger of two: that there is no effect, and that the model's head is a random one.
    """
    null, logs = MEASURES.loc[measured.index, "null"], measured.index.isin(LOGARITHMS)
    ends = measured[["estimate", "ci_low", "ci_high"]].astype(float)
    ends[logs], null = np.log(ends[logs]), null.mask(logs, 0.0)
    freedom = measured["n"] - 1
    error = (ends["ci_high"] - ends["ci_low"]) / 2 / stats.t.ppf(0.975, freedom)
    p = pd.Series(2 * stats.t.sf((ends["estimate"] - null).abs() / error, freedom), measured.index)
    p = np.maximum(p, measured["random_p"].fillna(0.0))[p.notna()]
    return pd.Series(stats.false_discovery_control(p), p.index).reindex(measured.index)


def direction(measure: str, row: pd.Series) -> str:
    """Return where the interval is: for (above the null), against (below the null), undecided, or "" for a share.

    Return RANDOM if a random head can give such an estimate too; see random_heads. A row whose p_corrected is .05 or
    more is undecided, or RANDOM if the random heads explain it better than no effect does.
    """
    null = MEASURES.loc[measure, "null"]
    side = "" if np.isnan(null) else resampling.side(row["ci_low"], row["ci_high"], null)
    if row.get("random_low", np.nan) <= row["estimate"] <= row.get("random_high", np.nan):
        return RANDOM
    if side and row.get("p_corrected", 0.0) >= 0.05:
        return RANDOM if row["random_p"] >= 0.05 / len(MEASURES) else "undecided"
    return side


def of_models(rewards: Mapping[str, pd.DataFrame], agreement=concordance.with_people) -> dict[str, Measured]:
    """Return each measure's value for each model, and the influence of each word or item. Framing is a logarithm.

    Rewards are as from `type_texts`, with any models as columns. `agreement` computes Kendall's tau with people.
    Sentiment and frequency use the words that VADER does not rate neutral. InputError for constant rewards.
    """
    asked, people = rewards[PROMPTS[0]], items()
    opinion = lexicon("vader").reindex(asked.index).dropna()
    sentiment = opinion[opinion != 0]
    frequency = lexicon("wordfreq").reindex(sentiment.index)
    frequency = frequency[frequency > 0]
    with_frequency = np.column_stack([np.log10(frequency), sentiment[frequency.index]])
    measured, spreads = {}, {}
    for prompt in PROMPTS:
        rated = rewards[prompt].loc[sentiment.index]
        spreads[prompt] = _measured(effects.log_spread_ratio, sentiment, rated)
        z = (rated - rated.mean()) / rated.std(ddof=0)
        if constant := list(z.columns[z.isna().any()]):
            raise InputError(f"all rewards of {constant[0]} are equal ({prompt}), so they have no spread; leave it out")
        measured[f"sentiment_{prompt}"] = _measured(effects.whole_slope, sentiment, z)
        measured[f"bend_{prompt}"] = _measured(effects.slope_gap, sentiment, z)
        measured[f"frequency_{prompt}"] = _measured(effects.whole_slope, with_frequency, z.loc[frequency.index])
    measured["framing"] = framing.interaction({prompt: spreads[prompt] for prompt in ("best", "worst")})
    measured["people_words"] = agreement(opinion, asked)
    measured["people_items"] = agreement(people, rewards["items"])
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, rewards["items"].loc[people.index], kind_of)
    for kind, group in values.groupby(kind_of.loc[values.index]):
        measured[f"undervalued_{str(kind).split()[0]}"] = Measured(group.mean(), mean_influence(group))
    return {key: measured[key] for key in MEASURES.index if key in measured}


def lexicon(name: str) -> pd.Series:
    """Return word -> the number that a lexicon gives it, such as sentiment or frequency."""
    listed = lexicons.load(name)
    return listed.corrected.set_index("word")[listed.quantity]


def _measured(statistic: effects.Statistic, x: pd.Series | np.ndarray, rewards: pd.DataFrame) -> Measured:
    values, moved = statistic(np.asarray(x), rewards.to_numpy())
    return Measured(pd.Series(values, rewards.columns), pd.DataFrame(moved, rewards.index, rewards.columns))
