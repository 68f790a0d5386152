"""What a card measures of one model, each number with its 95% interval over words or items.

Every function takes rewards of typed texts (lib.card.texts) and leaves the arithmetic to the sections' own functions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lib import lexicons
from lib.alignment import concordance, kinds, profiles
from lib.card.texts import PROMPTS, items
from lib.embedded import planting
from lib.framing import effects, frequency
from lib.framing import interaction as framing

COLUMNS = ["estimate", "ci_low", "ci_high", "n"]
SHARES = ("read_as_itself",)  # counts of a whole vocabulary: nothing was drawn, so there is no interval


@dataclass(frozen=True)
class Measure:
    """One row of a card. null: the value that decides nothing, None for a share that is only counted.

    above, below: what a model does whose value lies above or below it, behind the word "it". texts: what it is about.
    """

    key: str
    label: str
    unit: str
    null: float | None
    above: str
    below: str
    texts: str


WORDS, ITEMS, TOKENS = "words", "items", "tokens"


def _kind(kind: str, plural: str) -> Measure:
    label = f"{kind.capitalize()} against expectation"
    return Measure(f"undervalued_{kind.split()[0]}", label, "share of what people rank alike that it ranks above", 0.5,
                   f"undervalues {plural} against what people rank alike",
                   f"overvalues {plural} against what people rank alike", ITEMS)  # fmt: skip


MEASURES = (
    Measure("framing", "Framing interaction", "ratio of spreads, best over worst", 1,
            "spreads positive words wider, against negative ones, when asked for the best than for the worst",
            "spreads positive words less, against negative ones, when asked for the best than for the worst", WORDS),
    *(
        Measure(f"sentiment_{prompt}", f"Sentiment ({prompt})", "SD of reward per point of VADER", 0,
                f"rewards words more the more positive they are ({prompt})",
                f"rewards words more the more negative they are ({prompt})", WORDS)
        for prompt in PROMPTS
    ),
    *(
        Measure(f"bend_{prompt}", f"Positive less negative slope ({prompt})", "SD of reward per point of VADER", 0,
                f"tells grades apart better among positive words ({prompt})",
                f"tells grades apart better among negative words ({prompt})", WORDS)
        for prompt in ("best",)
    ),
    *(
        Measure(f"frequency_{prompt}", f"Frequency ({prompt})", "SD of reward per tenfold frequency", 0,
                f"rewards frequent words more at equal sentiment ({prompt})",
                f"rewards rare words more at equal sentiment ({prompt})", WORDS)
        for prompt in ("greatest", "worst")
    ),
    _kind("identity", "names of identity groups"),
    _kind("nature", "nature"),
    _kind("technology", "technology"),
    _kind("sexual content", "sexual content"),
    Measure("people_items", "Agreement with people about items", "Kendall's tau with EloEverything", 0,
            "orders items as people do", "orders items against people", ITEMS),
    Measure("people_words", "Agreement with people about words", "Kendall's tau with VADER's raters", 0,
            "orders words as raters do", "orders words against raters", WORDS),
    Measure("agency", "Agency less communion", "SD of reward, all else equal", 0,
            "rewards nouns of agency more than nouns of communion",
            "rewards nouns of communion more than nouns of agency", WORDS),
    Measure("read_as_itself", "Tokens read as themselves", "share of the vocabulary", None,
            "reads a token as itself", "", TOKENS),
)  # fmt: skip
BY_KEY = {measure.key: measure for measure in MEASURES}


def of_model(words: pd.DataFrame, ranked: pd.Series, itself: float, nouns: pd.DataFrame | None = None) -> pd.DataFrame:
    """All measures of one model: measure's key -> estimate, ci_low, ci_high (95%, over words or items), n.

    words: words x prompts. ranked: item -> reward under greatest. itself: share of tokens read as themselves. nouns:
    words x (Agency, Communion), as from lexicons.word_lists("big two"); without them that row is missing.
    """
    rows = of_words(words) | of_items(ranked) | {"people_words": agreement_on_words(words)}
    if nouns is not None:
        rows["agency"] = agency(words, nouns)
    rows["read_as_itself"] = [itself, np.nan, np.nan, np.nan]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS).rename_axis("measure")
    return table.loc[[measure.key for measure in MEASURES if measure.key in table.index]]


# --- words --------------------------------------------------------------------------------------------------------


def rated(words: pd.DataFrame) -> pd.DataFrame:
    """Observations, as of lib.framing, of the words that VADER rated other than neutral; one model, three prompts."""
    ratings = lexicons.load("vader").corrected
    joined = words.rename_axis("word").reset_index().merge(ratings, on="word", validate="one_to_one")
    return effects.observations({"model": joined[joined["sentiment"] != 0]}, list(words))


def of_words(words: pd.DataFrame) -> dict[str, list[float]]:
    """Framing interaction, slopes of sentiment and their bend, and slopes of frequency: key -> a row of COLUMNS."""
    rows = rated(words)
    spreads = framing.spreads(rows)
    ratio = _row(framing.interaction({prompt: spreads[prompt] for prompt in ("best", "worst")}), np.exp)
    alike = effects.standardised(rows)
    slopes, bends = (effects.measured(alike, kind) for kind in (effects.whole_slope, effects.slope_gap))
    common = frequency.measured(with_frequency(alike), "sentiment")
    found = {"sentiment": slopes, "bend": bends, "frequency": common}
    return {"framing": ratio} | {
        f"{name}_{prompt}": _row(one)
        for name, of_prompt in found.items()
        for prompt, one in of_prompt.items()
        if f"{name}_{prompt}" in BY_KEY
    }


def with_frequency(rows: pd.DataFrame) -> pd.DataFrame:
    """The observations with log10 of the words' frequency (wordfreq); words that it does not list are left out."""
    return frequency.log_frequency(rows.merge(lexicons.load("wordfreq").corrected, on="word"), base=10)


def agreement_on_words(words: pd.DataFrame) -> list[float]:
    """Kendall's tau of rewards under greatest with the mean of VADER's raters."""
    ratings = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    both = words.index[words.index.isin(ratings.index)]
    return _agreement(ratings.loc[both], words.loc[both, PROMPTS[0]])


def agency(words: pd.DataFrame, nouns: pd.DataFrame) -> list[float]:
    """How much more agency's nouns are rewarded than communion's at equal frequency, length and sentiment."""
    rewards = profiles.standardised(words[[PROMPTS[0]]])
    lists = nouns.loc[nouns.index.isin(words.index), ["Agency", "Communion"]]
    found = profiles.against(rewards, lists, profiles.controls(words.index))
    return [*found.by_itself().iloc[0], len(found.influence)]


# --- items --------------------------------------------------------------------------------------------------------


def of_items(ranked: pd.Series) -> dict[str, list[float]]:
    """Agreement with people, and kinds against what people rank alike: key -> a row of COLUMNS."""
    people = items()
    rewards = ranked.loc[people.index].rename("model")
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, rewards.to_frame(), kind_of)
    rows = {"people_items": _agreement(people, rewards)}
    for kind, group in values.groupby(kind_of.loc[values.index]):
        found = kinds.mean_over_items(group)
        rows[f"undervalued_{str(kind).split()[0]}"] = [found.estimate, found.these_low, found.these_high, len(group)]
    return rows


def _agreement(people: pd.Series, rewards: pd.Series) -> list[float]:
    table = pd.DataFrame({concordance.PEOPLE: people, "model": rewards})
    found = concordance.agreement(table)
    influence = found.influence(concordance.PEOPLE, ["model"])
    return _interval(float(found.taus.loc["model", concordance.PEOPLE]), influence["model"])


# --- intervals ----------------------------------------------------------------------------------------------------


def _row(one: effects.Measured, scale: Callable = lambda value: value) -> list[float]:
    """A row of COLUMNS for the only model, on another scale if its numbers are logarithms."""
    row = effects.in_rows(one).iloc[0]
    return [*(float(scale(row[column])) for column in COLUMNS[:3]), int(row["n"])]


def _interval(estimate: float, influence: pd.Series) -> list[float]:
    half = stats.t.ppf(0.975, len(influence) - 1) * np.sqrt((influence**2).sum())
    return [estimate, estimate - half, estimate + half, len(influence)]
