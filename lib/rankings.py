"""Rankings of tokens by reward: the optimal and the pessimal ones, side by side, and how far models agree on them."""

import itertools

import numpy as np
import pandas as pd

from lib import InputError


def ranked(table: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """The score table from optimal to pessimal, with a column `rank`: 1 = highest reward, ties share the average.

    Ties are listed in order of token_id, so the order is the same on every machine.
    """
    rank = table[prompt].rank(ascending=False, method="average")
    return table.assign(rank=rank).sort_values([prompt, "token_id"], ascending=[False, True], ignore_index=True)


def ends(table: pd.DataFrame, prompt: str, n: int = 22) -> pd.DataFrame:
    """The n optimal and the n pessimal tokens, in order, with `end` = optimal or pessimal (Table 2 has n = 22)."""
    if not 0 < 2 * n <= len(table):
        raise InputError(
            f"{len(table)} tokens have no {n} optimal and {n} pessimal ones; choose n up to {len(table) // 2}"
        )
    order = ranked(table, prompt)
    return pd.concat([order.head(n).assign(end="optimal"), order.tail(n).assign(end="pessimal")], ignore_index=True)


def side_by_side(tables: dict[str, pd.DataFrame], prompt: str, n: int = 22) -> pd.DataFrame:
    """The n optimal and n pessimal texts of every model, one column per model, on its own vocabulary (Table A6).

    Index: (end, position); position 1 is the most optimal, respectively the most pessimal.
    """
    return pd.DataFrame({name: _texts_at_ends(table, prompt, n) for name, table in tables.items()})


def side_by_side_shared(rewards: pd.DataFrame, n: int = 22) -> pd.DataFrame:
    """The same on the texts that all models share (Table A7). rewards: texts x models, as from shared_vocabulary."""
    ids = np.arange(len(rewards))
    tables = {
        name: pd.DataFrame({"token_id": ids, "text": rewards.index, "reward": rewards[name].to_numpy()})
        for name in rewards
    }
    return side_by_side(tables, "reward", n)


def _texts_at_ends(table: pd.DataFrame, prompt: str, n: int) -> pd.Series:
    texts = ends(table, prompt, n)["text"]
    positions = [*range(1, n + 1), *range(n, 0, -1)]
    index = pd.MultiIndex.from_arrays([["optimal"] * n + ["pessimal"] * n, positions], names=["end", "position"])
    return pd.Series(texts.to_numpy(), index=index)


def overlap(rewards: pd.DataFrame, n: int = 22, end: str = "optimal") -> pd.DataFrame:
    """Share of the n optimal (or pessimal) texts that two models have in common, models x models, in [0, 1].

    rewards: texts x models, as from shared_vocabulary. By chance two models share n / len(rewards).
    """
    listed = side_by_side_shared(rewards, n).loc[end]
    sets = {name: set(listed[name]) for name in listed}
    return pd.DataFrame({a: {b: len(sets[a] & sets[b]) / n for b in sets} for a in sets})


def pairs(matrix: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of different models: the matrix's entry, and whether they share base, developer, parameters.

    The diagonal and the mirrored triangle are not observations, so they are left out. models: a registry that holds
    the matrix's names.
    """
    rows = []
    for a, b in itertools.combinations(matrix.index, 2):
        same = {f"same_{trait}": models.loc[a, trait] == models.loc[b, trait] for trait in TRAITS}
        rows.append({"model_a": a, "model_b": b, "value": matrix.loc[a, b]} | same)
    return pd.DataFrame(rows)


TRAITS = ("base", "developer", "parameters_b")


def what_sharing_brings(
    matrix: pd.DataFrame, models: pd.DataFrame, permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """How much more alike models are that share a base, a developer or a size: one row per trait.

    Columns: pairs (that share it), others, mean_sharing, mean_others, difference, p. p is one-sided, by permuting the
    models' names (Mantel), because pairs that have a model in common are not independent.
    """
    rows = []
    for trait in TRAITS:
        found = pairs(matrix, models)
        same = found[f"same_{trait}"].to_numpy(dtype=bool)
        if not 0 < same.sum() < len(same):
            continue
        means = found["value"][same].mean(), found["value"][~same].mean()
        p = _permutation_p(matrix, models[trait].loc[matrix.index].to_numpy(), permutations, seed)
        rows.append({"trait": trait, "pairs": same.sum(), "others": (~same).sum(), "mean_sharing": means[0],
                     "mean_others": means[1], "difference": means[0] - means[1], "p": p})  # fmt: skip
    return pd.DataFrame(rows)


def _permutation_p(matrix: pd.DataFrame, labels: np.ndarray, permutations: int, seed: int) -> float:
    upper = np.triu_indices(len(labels), 1)
    values = matrix.to_numpy()[upper]
    random = np.random.default_rng(seed)

    def difference(names: np.ndarray) -> float:
        same = (names[:, None] == names[None, :])[upper]
        return values[same].mean() - values[~same].mean()

    observed = difference(labels)
    # A shuffle that only swaps equal labels reproduces the observed value but for rounding, hence the slack.
    reached = sum(difference(random.permutation(labels)) >= observed - 1e-12 for _ in range(permutations))
    return (reached + 1) / (permutations + 1)
