"""What models value by lists of words: agency and communion, the moral foundations; and whether it goes by their base.

Rewards are standardised within each model over all its words, so that models of any scale count alike. A list is
compared with the other words of its family at equal frequency, length and sentiment: with these held constant in one
regression, whose coefficient is the list's mean beyond theirs.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lib import ROOT, InputError, lexicons
from lib.crossed import Crossed, crossed, slope, slope_influence

CONTROLS = ("frequency", "letters", "sentiment", "rated")


@dataclass(frozen=True)
class Lean:
    """How much more each model rewards some words than others. by_model: model -> difference, in standard deviations
    of its rewards. influence: words x models."""

    by_model: pd.Series
    influence: pd.DataFrame

    @property
    def mean(self) -> Crossed:
        """The mean over models; words and models are both samples."""
        return crossed(self.by_model, self.influence)

    def by_itself(self) -> pd.DataFrame:
        """Each model's difference with its interval over words (95%): model -> lean, ci_low, ci_high."""
        error = np.sqrt((self.influence**2).sum())
        half = stats.t.ppf(0.975, len(self.influence) - 1) * error
        return pd.DataFrame({"lean": self.by_model, "ci_low": self.by_model - half, "ci_high": self.by_model + half})


def standardised(rewards: pd.DataFrame) -> pd.DataFrame:
    """Rewards of words x models, each model's with mean 0 and standard deviation 1 over all its words."""
    return (rewards - rewards.mean()) / rewards.std(ddof=1)


def controls(words: pd.Index) -> pd.DataFrame:
    """What is held constant of each word: frequency (log10 per million, wordfreq; unlisted words as the rarest),
    letters, sentiment (VADER, 0 where nobody rated the word), rated (whether somebody did)."""
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    sentiment = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    log = np.log10(frequency.reindex(words).fillna(frequency.min()).to_numpy())
    rated = words.isin(sentiment.index)
    columns = (log, words.str.len(), sentiment.reindex(words).fillna(0.0).to_numpy(), rated.astype(float))
    return pd.DataFrame(dict(zip(CONTROLS, columns, strict=True)), index=words).astype(float)


def lean(rewards: pd.DataFrame, is_one: pd.Series, held: pd.DataFrame | None = None) -> Lean:
    """How much more models reward the words for which is_one holds than the other words of is_one.

    rewards: standardised, words x models; is_one: word -> bool, of the words to compare (others are left out); held:
    words x what is held constant, as from `controls`; None: nothing. InputError if a side has fewer than five words.
    """
    words = rewards.index[rewards.index.isin(is_one.index)]
    one = is_one.loc[words].to_numpy(dtype=float)
    if min(one.sum(), len(one) - one.sum()) < 5:
        raise InputError(f"{one.sum():.0f} words against {len(one) - one.sum():.0f}: give five on each side at least")
    others = None if held is None else held.loc[words].to_numpy()
    values = rewards.loc[words].to_numpy(dtype=float)
    moved = pd.DataFrame(slope_influence(one, values, others), words, rewards.columns)
    return Lean(pd.Series(slope(one, values, others), rewards.columns), moved)


def profile(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> dict[str, Lean]:
    """`lean` of each list against the words that are of none of its kind: list -> Lean; lists: words x lists."""
    known = lists.reindex(rewards.index).fillna(False).astype(bool)
    return {name: lean(rewards, known[name], held) for name in known if known[name].sum() >= 5}


def against(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> Lean:
    """The first list less the second, over the words that are of one of them only; lists: words x two lists."""
    one, other = (lists[name] for name in lists)
    return lean(rewards, one[one != other], held)


def in_table(leans: dict[str, Lean]) -> pd.DataFrame:
    """A row per list: kind, above (mean over models), ci_low, ci_high, these_low, these_high, p, words; see Crossed."""
    rows = []
    for name, one in leans.items():
        found = one.mean
        numbers = {end: getattr(found, end) for end in ("ci_low", "ci_high", "these_low", "these_high", "p")}
        rows.append({"kind": name, "above": found.estimate} | numbers | {"words": found.n})
    return pd.DataFrame(rows)


def between_two(one: Lean, first: str, second: str) -> tuple[float, float, float]:
    """The lean of one model less that of another, and its 95% interval over words."""
    moved = one.influence[first] - one.influence[second]
    half = stats.t.ppf(0.975, len(moved) - 1) * np.sqrt((moved**2).sum())
    difference = float(one.by_model[first] - one.by_model[second])
    return difference, difference - half, difference + half


# --- by the base model --------------------------------------------------------------------------------------------


def bases(models: Sequence[str]) -> pd.Series:
    """The family of the base of each model, as data/reward_models.csv has it without its number: Gemma, Llama."""
    registry = pd.read_csv(ROOT / "data" / "reward_models.csv", keep_default_na=False).set_index("nickname")
    return registry.loc[list(models), "base"].str.split().str[0].rename("base")


@dataclass(frozen=True)
class ByBase:
    """A difference between two groups of models: estimate, its 95% interval (words and models both samples), and p,
    the share of all ways to choose as many models for the first group that differ as much (exact, two-sided)."""

    estimate: float
    ci_low: float
    ci_high: float
    p: float
    ways: int


def by_base(one: Lean, is_first: pd.Series) -> ByBase:
    """The mean lean of the models for which is_first holds less that of the others; two of each at least."""
    first = is_first.loc[one.by_model.index].to_numpy(dtype=bool)
    if min(first.sum(), (~first).sum()) < 2:
        raise InputError("a difference between bases needs two models of each; score another one")
    values, moved = one.by_model.to_numpy(), one.influence.to_numpy()
    weight = first / first.sum() - ~first / (~first).sum()
    of_words = ((moved @ weight) ** 2).sum()
    parts = [values[side].var(ddof=1) / side.sum() for side in (first, ~first)]
    both = (moved**2 @ weight**2).sum()
    variance = max(of_words + sum(parts) - both, of_words, sum(parts))
    spread = sum(part**2 / (side.sum() - 1) for part, side in zip(parts, (first, ~first), strict=True))
    df = variance**2 / (of_words**2 / (len(moved) - 1) + spread)
    estimate, half = float(values @ weight), stats.t.ppf(0.975, df) * np.sqrt(variance)
    p, ways = _exact_p(values, int(first.sum()), estimate)
    return ByBase(estimate, estimate - half, estimate + half, p, ways)


def _exact_p(values: np.ndarray, count: int, observed: float) -> tuple[float, int]:
    """The share of choices of so many models whose mean differs from the others' by as much, and how many there are."""
    choices = list(itertools.combinations(range(len(values)), count))
    inside = values[np.array(choices)].sum(axis=1)
    differences = inside / count - (values.sum() - inside) / (len(values) - count)
    return float((np.abs(differences) >= abs(observed) * (1 - 1e-9)).mean()), len(choices)
