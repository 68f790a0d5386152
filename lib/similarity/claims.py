"""The claims of section 2.2: moments, agreement, the map of models, and its regression; and Fig 2A as printed.

Numbers of the vocabulary are judged only where the texts are a vocabulary; elsewhere a note says over what they are.
What is made of the paper's own figure is judged in every collection that asks as the paper does.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib import resampling
from lib.claims import A_VOCABULARY, THE_PAPER, Claim, paper_table, papers_own, state
from lib.collection import Collection
from lib.similarity import agreement, rsa

PRINTED = "Fig 2A as printed"
PROMPT = "greatest"  # what Fig 2A and Table 3 are about
MOMENTS = ("mean", "variance", "skewness")
TRAITS = ("base", "developer", "parameters")  # what models near each other on the map are said to share


@dataclass(frozen=True)
class Scope:
    """What a collection's numbers are about: its prompt, and how many texts its models share, of what kind.

    own: what of the paper's own it holds, as from claims.papers_own. kind: what the texts are, in the plural.
    """

    prompt: str
    texts: int
    own: Set[str]
    kind: str = "texts"

    @property
    def asks_as_the_paper(self) -> bool:
        """Whether numbers of the paper's own figures belong beside those of this collection."""
        return self.prompt == PROMPT

    def note(self, remark: str = "") -> str:
        """The remark, and over what its number was found if that is no vocabulary, as the paper's sentences are."""
        over = f"over {self.texts:,} {self.kind}, not over a vocabulary" if self.texts < A_VOCABULARY else ""
        return "; ".join(filter(None, [remark, over]))


def scope(study: Collection, prompt: str, texts: int) -> Scope:
    """The scope of a collection whose models share so many texts."""
    return Scope(prompt, texts, papers_own(study, texts), study.texts)


def similarity_claims(
    study: Collection,
    prompt: str,
    texts: int,
    *,
    moments: tuple[pd.DataFrame, pd.DataFrame],
    taus: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    measures: tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float]],
    matrices: Mapping[str, tuple[pd.DataFrame, agreement.ModelMap, Mapping[str, pd.DataFrame]]],
    permutations: int,
) -> list[Claim]:
    """All claims of section 2.2, and of the appendix on its measures; texts: how many the models share.

    moments: as published and corrected, each as from agreement.moments. taus: the matrix as published, then pairs and
    draws as from rankings.tau_resamples. measures: by measure, its correlation with tau as printed and here, and the p
    of the printed one. matrices: by name, a matrix of agreement, its map, and what its models share; those whose models
    are too few to be told apart are left out, and PRINTED where the prompt is another.
    """
    here = scope(study, prompt, texts)
    claims = moment_claims(*moments, here) + tau_claims(*taus, here)
    claims += measure_claims(*measures, len(taus[1]), here)
    for name, (matrix, model_map, traits) in matrices.items():
        if (name == PRINTED and not here.asks_as_the_paper) or not rsa.can_be_told_apart(matrix, traits):
            continue
        claims += map_claims(name, model_map, traits, here, permutations)
        claims += rsa_claims(name, rsa.rsa_summary(matrix, traits, permutations), len(matrix), here)
    return claims


def moment_claims(published: pd.DataFrame, corrected: pd.DataFrame, here: Scope) -> list[Claim]:
    """S2.skew and S2.moments; published, corrected: as from agreement.moments, of one set of models."""
    is_above = corrected["skewness_ci_low"] > 0
    remark = f"{len(corrected)} models; interval not above 0: {', '.join(corrected.index[~is_above]) or 'none'}"
    counts = {"as_published": int((published["skewness"] > 0).sum()), "corrected": int(is_above.sum())}
    skew = state("S2.skew", "n_positive", here.prompt, own=here.own, n=here.texts, note=here.note(remark), **counts)
    return [
        skew,
        *(_moment(name, moment, published, corrected, here) for moment in MOMENTS for name in corrected.index),
    ]


def _moment(name: str, moment: str, published: pd.DataFrame, corrected: pd.DataFrame, here: Scope) -> Claim:
    printed, row = paper_table("table_3").set_index("nickname")[moment].get(name), corrected.loc[name]
    own, paper = (here.own, float(printed)) if printed is not None else (frozenset(), None)
    ours = float(published.loc[name, moment])
    estimate, ci_low, ci_high = row[[moment, f"{moment}_ci_low", f"{moment}_ci_high"]].astype(float).tolist()
    return state("S2.moments", moment, here.prompt, name, own=own, paper=paper, as_published=ours, corrected=estimate,
                 ci_low=ci_low, ci_high=ci_high, n=int(row["n"]), judged=(ours, None),
                 note=here.note())  # fmt: skip


def tau_claims(published: pd.DataFrame, pairs: pd.DataFrame, draws: pd.DataFrame, here: Scope) -> list[Claim]:
    """S2.tau: mean, min and max over pairs. published: matrix; pairs, draws: as from rankings.tau_resamples."""
    ours = pd.Series(published.to_numpy()[np.triu_indices(len(published), 1)])
    ends = pairs.loc[[pairs["tau"].idxmin(), pairs["tau"].idxmax()], ["tau", "ci_low", "ci_high"]].to_numpy(dtype=float)
    mean = [pairs["tau"].mean(), *resampling.interval(draws.mean(axis=1))]
    claims = []
    for quantity, numbers in {"mean": mean, "min": ends[0], "max": ends[1]}.items():
        tau, ci_low, ci_high = map(float, numbers)
        as_published, is_least = float(ours.agg(quantity)), quantity == "min"
        remark = "of the 45 pairs of Fig 2A" + ("; the claim is that all are positive" if is_least else "")
        claims.append(state("S2.tau", quantity, here.prompt, own=here.own, as_published=as_published, corrected=tau,
                            judged=(as_published, ci_low if is_least else None), ci_low=ci_low, ci_high=ci_high,
                            n=len(pairs), note=here.note(remark)))  # fmt: skip
    return claims


def measure_claims(
    printed: Mapping[str, float], found: Mapping[str, float], p: Mapping[str, float], n: int, here: Scope
) -> list[Claim]:
    """A1.correlations: over pairs, the correlation of another measure with tau, as printed and in this collection.

    printed, found, p: by measure (spearman, rbo); p of the printed one. The printed one is judged.
    """
    note = here.note("correlation with tau over pairs of models: printed in Figs 2A and A1; corrected: this collection")
    return [
        state("A1.correlations", f"r_{name}_tau", here.prompt, as_published=r, corrected=found[name], n=n, p=p[name],
              judged=(r, None), note=note)
        for name, r in printed.items()
    ]  # fmt: skip


def map_claims(
    name: str, model_map: agreement.ModelMap, traits: Mapping[str, pd.DataFrame], here: Scope, permutations: int
) -> list[Claim]:
    """S2.mds: the stress of a map, and whether models that share base, developer, size are nearer on it (Mantel)."""
    models = len(model_map.positions)
    own, note = _source(name, here)
    claims = [state("S2.mds", "stress", here.prompt, as_published=model_map.stress, n=models,
                    note=note("the paper gives none; above .2 is poor"))]  # fmt: skip
    for trait in [trait for trait in TRAITS if trait in traits]:
        p = float(rsa.mrqap(model_map.closeness, {trait: traits[trait]}, permutations)[trait])
        claims.append(state("S2.mds", f"p_{trait}", here.prompt, own=own, corrected=p, p=p, n=_pairs(models),
                            note=note("Mantel test of distances on the map")))  # fmt: skip
    return claims


def rsa_claims(name: str, summary: pd.DataFrame, models: int, here: Scope) -> list[Claim]:
    """S2.rsa.*: each number of rsa.rsa_summary of the matrix `name`, beside what the paper prints.

    The shares of R² are left out: the paper says nothing of them.
    """
    own, note = _source(name, here)
    note = note(f"as published over all {models**2} entries")
    rows = summary[~summary["quantity"].str.startswith("share_")].to_dict("records")
    return [state(f"S2.rsa.{row['analysis']}", row["quantity"], here.prompt, own=own, n=_pairs(models), note=note,
                  **{key: None if pd.isna(row[key]) else float(row[key]) for key in NUMBERS})
            for row in rows]  # fmt: skip


NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "p")


def _source(name: str, here: Scope) -> tuple[Set[str], Callable[[str], str]]:
    """What of the paper's own the matrix `name` rests on, and how its notes begin; what is printed is the paper's."""
    if name == PRINTED:
        return THE_PAPER, lambda remark: f"{name}; {remark}"
    return here.own, lambda remark: here.note(f"{name}; {remark}")


def figure_2a() -> pd.DataFrame:
    """Kendall's tau between the paper's ten models as printed in Fig 2A, to two decimals."""
    return printed_matrix("fig2a_tau")


def printed_matrix(name: str) -> pd.DataFrame:
    """A models x models matrix of data/paper, ones on its diagonal."""
    return paper_table(name).set_index("nickname").rename_axis(None)


def _pairs(models: int) -> int:
    return models * (models - 1) // 2
