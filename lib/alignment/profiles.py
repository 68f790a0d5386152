"""What models value by lists of words (agency and communion, moral foundations), and whether their base decides it.

Rewards are standardised within each model over all its words, so that the scales of models do not matter. A list is
compared with other words in a regression that holds frequency, length and sentiment constant.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from .. import ROOT, InputError
from ..stats.crossed import Measured, satterthwaite, slope, slope_influence
from ..tables import lexicons


def standardised(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return rewards of words x models with mean 0 and standard deviation 1 within each model."""
    return (rewards - rewards.mean()) / rewards.std(ddof=1)


def controls(words: pd.Index) -> pd.DataFrame:
    """Return what is held constant: frequency, letters, sentiment and whether the word is rated.

    Frequency is log10 per million by wordfreq; unlisted words count as the rarest. Sentiment is VADER's, or 0 if not
    rated.
    """
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    sentiment = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    return pd.DataFrame({
        "frequency": np.log10(frequency.reindex(words).fillna(frequency.min())), "letters": words.str.len(),
        "sentiment": sentiment.reindex(words).fillna(0.0), "rated": words.isin(sentiment.index),
    }, index=words).astype(float)  # fmt: skip


def lean(rewards: pd.DataFrame, is_listed: pd.Series, held: pd.DataFrame | None = None) -> Measured:
    """Return how much more each model rewards the words for which is_listed is true than those for which it is false.

    `rewards`: standardised, words x models. `held`: words x what is held constant, as from `controls`, or None. Raise
    InputError if a group has fewer than five words.
    """
    words = rewards.index[rewards.index.isin(is_listed.index)]
    listed = is_listed.loc[words].to_numpy(dtype=float)
    if min(listed.sum(), (1 - listed).sum()) < 5:
        raise InputError(f"{listed.sum():.0f} words against {(1 - listed).sum():.0f}: give five on each side at least")
    others = None if held is None else held.loc[words].to_numpy()
    values = rewards.loc[words].to_numpy(dtype=float)
    moved = pd.DataFrame(slope_influence(listed, values, others), words, rewards.columns)
    return Measured(pd.Series(slope(listed, values, others), rewards.columns), moved)


def profile(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> dict[str, Measured]:
    """Return list -> its `lean` against the words that are not in it. `lists`: words x lists."""
    known = lists.reindex(rewards.index).fillna(False).astype(bool)
    return {name: lean(rewards, known[name], held) for name in known if known[name].sum() >= 5}


def against(rewards: pd.DataFrame, lists: pd.DataFrame, held: pd.DataFrame | None = None) -> Measured:
    """Return the `lean` of the first list against the second, over words of one list only. `lists`: words x 2."""
    first, second = (lists[name] for name in lists)
    return lean(rewards, first[first != second], held)


def in_table(leans: dict[str, Measured]) -> pd.DataFrame:
    """Return a row per list: kind (its name), above (mean over models), and the fields of a Crossed."""
    means = pd.DataFrame.from_dict({name: vars(each.mean) for name, each in leans.items()}, orient="index")
    return means.rename_axis("kind").reset_index().assign(above=means["estimate"].to_numpy())


def between_two(of_models: Measured, first: str, second: str) -> pd.Series:
    """Return the difference of two models as a row of Measured.by_model."""
    moved = of_models.influence[first] - of_models.influence[second]
    difference = pd.Series({"": of_models.values[first] - of_models.values[second]})
    return Measured(difference, moved.to_frame("")).by_model().iloc[0]


# --- by the base model --------------------------------------------------------------------------------------------


def bases(models: Sequence[str]) -> pd.Series:
    """Return model -> the family of its base, such as Gemma or Llama."""
    registry = pd.read_csv(ROOT / "data" / "reward_models.csv", keep_default_na=False).set_index("nickname")
    return registry.loc[list(models), "base"].str.split().str[0].rename("base")


def by_base(of_models: Measured, is_first: pd.Series) -> pd.Series:
    """Return the mean of the models for which is_first is true, less the mean of the others (two of each at least).

    The 95% interval of the estimate treats words and models as samples. The exact two-sided p is the share of all ways
    to choose as many models whose difference is as large. `ways` is their number.
    """
    first = is_first.loc[of_models.values.index].to_numpy(dtype=bool)
    if min(first.sum(), (~first).sum()) < 2:
        raise InputError("a difference between bases needs two models of each; score another one")
    values, moved = of_models.values.to_numpy(), of_models.influence.to_numpy()
    weight = first / first.sum() - ~first / (~first).sum()
    of_words = ((moved @ weight) ** 2).sum()
    parts = [values[side].var(ddof=1) / side.sum() for side in (first, ~first)]
    both = (moved**2 @ weight**2).sum()
    variance = max(of_words + sum(parts) - both, of_words, sum(parts))
    freedom = len(moved) - 1, first.sum() - 1, (~first).sum() - 1
    estimate, (half, _) = float(values @ weight), satterthwaite(variance, (of_words, *parts), freedom)
    choices = list(itertools.combinations(range(len(values)), int(first.sum())))
    inside = values[np.array(choices)].sum(axis=1)
    differences = inside / first.sum() - (values.sum() - inside) / (~first).sum()
    p = float((np.abs(differences) >= abs(estimate) * (1 - 1e-9)).mean())
    result = {"estimate": estimate, "ci_low": estimate - half, "ci_high": estimate + half, "p": p}
    return pd.Series(result | {"ways": len(choices)})
