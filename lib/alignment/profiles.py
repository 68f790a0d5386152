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

from .. import ROOT, InputError
from ..stats.crossed import Crossed, crossed, slope, slope_influence
from ..tables import lexicons


@dataclass(frozen=True)
class Lean:
    """How much more each model rewards some words than others. by_model: model -> difference, in standard deviations
    of its rewards. influence: words x models."""

    by_model: pd.Series
    influence: pd.DataFrame

    @property
    def mean(self) -> Crossed:
        """Return the mean over models; words and models are both samples."""
        return crossed(self.by_model, self.influence)

    def by_itself(self) -> pd.DataFrame:
        """Return each model's difference with its interval over words (95%): model -> lean, ci_low, ci_high."""
        half = _half(self.influence)
        return pd.DataFrame({"lean": self.by_model, "ci_low": self.by_model - half, "ci_high": self.by_model + half})


def _half(influence: pd.DataFrame | pd.Series):
    """Return half the width of the 95% interval over words; influence: words, or words x models."""
    return stats.t.ppf(0.975, len(influence) - 1) * np.sqrt((influence**2).sum())


def standardised(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return rewards of words x models, each model's with mean 0 and standard deviation 1 over all its words."""
    return (rewards - rewards.mean()) / rewards.std(ddof=1)


def controls(words: pd.Index) -> pd.DataFrame:
    """Return what is held constant of each word: frequency (log10 per million, wordfreq; if unlisted, as the rarest),
    letters, sentiment (VADER, 0 where nobody rated the word), rated (whether somebody did)."""
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    sentiment = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    return pd.DataFrame({
        "frequency": np.log10(frequency.reindex(words).fillna(frequency.min())), "letters": words.str.len(),
        "sentiment": sentiment.reindex(words).fillna(0.0), "rated": words.isin(sentiment.index),
    }, index=words).astype(float)  # fmt: skip


def lean(rewards: pd.DataFrame, is_listed: pd.Series, held: pd.DataFrame | None = None) -> Lean:
    """Return how much more models reward the words for which is_listed holds than its other words.

    rewards: standardised, words x models. is_listed: word -> bool; other words are left out. held: words x what is held
    constant, as from `controls`, or None. Raise InputError if a group has fewer than five words.
    """
    words = rewards.index[rewards.index.isin(is_listed.index)]
    listed = is_listed.loc[words].to_numpy(dtype=float)
    if min(listed.sum(), (1 - listed).sum()) < 5:
        raise InputError(f"{listed.sum():.0f} words against {(1 - listed).sum():.0f}: give five on each side at least")
    others = None if held is None else held.loc[words].to_numpy()
    values = rewards.loc[words].to_numpy(dtype=float)
    moved = pd.DataFrame(slope_influence(listed, values, others), words, rewards.columns)
    return Lean(pd.Series(slope(listed, values, others), rewards.columns), moved)


def profile(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> dict[str, Lean]:
    """Return the `lean` of each list against the words that are not in it: list -> Lean; lists: words x lists."""
    known = lists.reindex(rewards.index).fillna(False).astype(bool)
    return {name: lean(rewards, known[name], held) for name in known if known[name].sum() >= 5}


def against(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> Lean:
    """Return the first list less the second, over the words that are of one of them only; lists: words x two lists."""
    first, second = (lists[name] for name in lists)
    return lean(rewards, first[first != second], held)


def in_table(leans: dict[str, Lean]) -> pd.DataFrame:
    """Return a row per list: kind (its name), above (mean over models), and the fields of a Crossed."""
    means = {name: vars(of_list.mean) for name, of_list in leans.items()}
    return pd.DataFrame.from_dict(means, orient="index").rename_axis("kind").reset_index().assign(
        above=lambda table: table["estimate"])  # fmt: skip


def between_two(of_models: Lean, first: str, second: str) -> tuple[float, float, float]:
    """Return the lean of one model less that of another, and its 95% interval over words."""
    half = _half(of_models.influence[first] - of_models.influence[second])
    difference = float(of_models.by_model[first] - of_models.by_model[second])
    return difference, difference - half, difference + half


# --- by the base model --------------------------------------------------------------------------------------------


def bases(models: Sequence[str]) -> pd.Series:
    """Return the family of the base of each model, as the registry has it without its number: Gemma, Llama."""
    registry = pd.read_csv(ROOT / "data" / "reward_models.csv", keep_default_na=False).set_index("nickname")
    return registry.loc[list(models), "base"].str.split().str[0].rename("base")


def by_base(of_models: Lean, is_first: pd.Series) -> pd.Series:
    """Return the mean lean of the models for which is_first holds, less the mean of the others; two of each at least.

    estimate, its 95% interval ci_low and ci_high (words and models are both samples), and p: of all ways to choose as
    many models for the first group, the share whose difference is as large (exact, two-sided; ways: how many).
    """
    first = is_first.loc[of_models.by_model.index].to_numpy(dtype=bool)
    if min(first.sum(), (~first).sum()) < 2:
        raise InputError("a difference between bases needs two models of each; score another one")
    values, moved = of_models.by_model.to_numpy(), of_models.influence.to_numpy()
    weight = first / first.sum() - ~first / (~first).sum()
    of_words = ((moved @ weight) ** 2).sum()
    parts = [values[side].var(ddof=1) / side.sum() for side in (first, ~first)]
    both = (moved**2 @ weight**2).sum()
    variance = max(of_words + sum(parts) - both, of_words, sum(parts))
    spread = sum(part**2 / (side.sum() - 1) for part, side in zip(parts, (first, ~first), strict=True))
    df = variance**2 / (of_words**2 / (len(moved) - 1) + spread)
    estimate, half = float(values @ weight), stats.t.ppf(0.975, df) * np.sqrt(variance)
    choices = list(itertools.combinations(range(len(values)), int(first.sum())))
    inside = values[np.array(choices)].sum(axis=1)
    differences = inside / first.sum() - (values.sum() - inside) / (~first).sum()
    p = float((np.abs(differences) >= abs(estimate) * (1 - 1e-9)).mean())
    result = {"estimate": estimate, "ci_low": estimate - half, "ci_high": estimate + half, "p": p}
    return pd.Series(result | {"ways": len(choices)})
