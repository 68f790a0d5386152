"""The claims of section 2.2, judged by what was found: moments, agreement, the map of models, and its regression.

A bound that the paper prints (`< .001`) is held against p as published and, corrected, against .05 or the bound
itself, whichever is wider: a corrected test has less to say, and is not asked for more than significance. Numbers agree
if they round to what is printed. Claims about the paper's models are judged only where the collection holds them;
numbers of the vocabulary only where the texts are a vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib import resampling
from lib.claims import Claim, judge, paper_table
from lib.similarity import agreement, rsa

VOCABULARY = 10_000  # fewer shared texts are somebody's selection, not a vocabulary
PAPERS_MODELS = 10
PRINTED = "Fig 2A as printed"
PROMPT = "greatest"  # what Fig 2A and Table 3 are about
KINDS = {"published-words": "words", "published-items": "items that people ranked"}


@dataclass(frozen=True)
class Scope:
    """What a collection can say: its prompt, how many texts its models share, whether they are the paper's ten.

    kind: what the texts are, in the plural.
    """

    prompt: str
    texts: int
    papers_models: bool
    kind: str = "texts"

    @property
    def asks_as_the_paper(self) -> bool:
        """Whether numbers of the paper's own figures belong beside those of this collection."""
        return self.prompt == PROMPT

    def note(self, told: str = "") -> str:
        """The note, and over what its number was found if that is no vocabulary, as the paper's sentences are."""
        over = f"over {self.texts:,} {self.kind}, not over a vocabulary" if self.texts < VOCABULARY else ""
        return "; ".join(filter(None, [told, over]))

    @property
    def papers_texts(self) -> bool:
        """Whether numbers of the vocabulary can be compared with the paper's."""
        return self.papers_models and self.texts >= VOCABULARY


def scope(models: pd.DataFrame, prompt: str, texts: int, collection: str = "") -> Scope:
    """The scope of a collection; models: its rows of the registry."""
    papers_models = bool((models["group"] == "paper").sum() == PAPERS_MODELS)
    return Scope(prompt, texts, papers_models, KINDS.get(collection, "texts"))


def judge_bound(bound: str, as_published: float | None, corrected: float | None) -> str:
    """The verdict on a printed bound such as `< .10`, held against p as published and corrected (see above)."""

    def holds(p: float | None, limit: float) -> bool:
        return p is not None and (p < limit if bound.startswith("<") else p > limit)

    limit = float(bound[1:])
    if as_published is not None and not holds(as_published, limit):
        return "not reproduced"
    if holds(corrected, max(limit, 0.05) if bound.startswith("<") else limit):
        return "reproduced"
    return "only as published" if as_published is not None else "not reproduced"


def of_moments(published: pd.DataFrame, corrected: pd.DataFrame, where: Scope) -> list[Claim]:
    """S2.skew and S2.moments; published, corrected: as from rankings.moments, of one set of models."""
    table = paper_table("table_3").set_index("nickname")
    above = corrected["skewness_low"] > 0
    told = f"{len(corrected)} models; interval not above 0: {', '.join(corrected.index[~above]) or 'none'}"
    counts = int((published["skewness"] > 0).sum()), int(above.sum())
    verdict = judge(PAPERS_MODELS, *counts, within=0) if where.papers_models else "not testable here"
    claims = [Claim("S2.skew", "n_positive", where.prompt, "", str(PAPERS_MODELS), *counts, n=where.texts,
                    verdict=verdict, note=where.note(told))]  # fmt: skip
    for moment in ("mean", "variance", "skewness"):
        for name, row in corrected.iterrows():
            paper = float(table.loc[name, moment]) if name in table.index else None
            ours = float(published.loc[name, moment])
            verdict = judge(paper, ours, within=0.0015) if paper and where.papers_texts else "not testable here"
            interval = row[moment], row[f"{moment}_low"], row[f"{moment}_high"]
            claims.append(Claim("S2.moments", moment, where.prompt, name, paper, ours, *map(float, interval),
                                n=int(row["n"]), verdict=verdict, note=where.note()))  # fmt: skip
    return claims


def of_tau(published: pd.DataFrame, pairs: pd.DataFrame, draws: pd.DataFrame, where: Scope) -> list[Claim]:
    """S2.tau: mean, min and max over pairs. published: matrix; pairs, draws: as from rankings.tau_resamples."""
    printed, ours = (one.to_numpy()[np.triu_indices(len(one), 1)] for one in (figure_2a(), published))
    ends = pairs.loc[[pairs["tau"].idxmin(), pairs["tau"].idxmax()], ["tau", "low", "high"]].to_numpy(dtype=float)
    mean = [pairs["tau"].mean(), *np.quantile(draws.mean(axis=1), resampling.INTERVAL)]
    found = {"mean": mean, "min": ends[0], "max": ends[1]}
    claims = []
    for name, (value, low, high) in found.items():
        paper, here = (float(getattr(one, name)()) for one in (printed, ours))
        verdict = judge(round(paper, 3), here, within=0.005) if where.papers_texts else "not testable here"
        if name == "min" and where.papers_models:  # "all positive" is what the text claims
            verdict = judge_bound("> 0", here, low)
        claims.append(Claim("S2.tau", name, where.prompt, "", round(paper, 3), here, float(value), float(low),
                            float(high), len(pairs), verdict=verdict, note=where.note(TOLD_OF_TAU[name])))  # fmt: skip
    return claims


TOLD_OF_TAU = {
    "mean": "of the 45 pairs of Fig 2A",
    "min": "of the 45 pairs of Fig 2A; the claim is that all are positive",
    "max": "of the 45 pairs of Fig 2A",
}


def of_measures(
    printed: Mapping[str, float], here: Mapping[str, float], p: Mapping[str, float], n: int, where: Scope
) -> list[Claim]:
    """A1.correlations: over pairs, the correlation of another measure with tau, as printed and in this collection.

    printed, here, p: by measure (spearman, rbo); p of the printed one. Consistent means a correlation above .9.
    """
    told = "correlation with tau over pairs of models: printed in Figs 2A and A1; corrected: this collection"
    return [
        Claim("A1.correlations", f"r_{name}_tau", where.prompt, "", "consistent", r, here[name], n=n, p=p[name],
              verdict="reproduced" if r > 0.9 else "not reproduced", note=where.note(told))
        for name, r in printed.items()
    ]  # fmt: skip


def of_map(
    name: str, found: agreement.ModelMap, traits: Mapping[str, pd.DataFrame], where: Scope, permutations: int
) -> list[Claim]:
    """S2.mds: the stress of a map, and whether models that share base, developer, size are nearer on it (Mantel)."""
    models = len(found.positions)
    note = _noted(name, where)
    claims = [Claim("S2.mds", "stress", where.prompt, as_published=found.stress, n=models,
                    note=note("the paper gives none; above .2 is poor"))]  # fmt: skip
    for trait in [one for one in ("base", "developer", "parameters") if one in traits]:
        p = float(rsa.mrqap(found.closeness, {trait: traits[trait]}, permutations)[trait])
        verdict = judge_bound("< .05", None, p) if name == PRINTED or where.papers_models else "not testable here"
        claims.append(Claim("S2.mds", f"p_{trait}", where.prompt, "", "nearer", None, p, n=_pairs(models), p=p,
                            verdict=verdict, note=note("Mantel test of distances on the map")))  # fmt: skip
    return claims


def of_rsa(name: str, summary: pd.DataFrame, models: int, where: Scope) -> list[Claim]:
    """S2.rsa.*: each number of rankings.rsa_summary of the matrix `name`, beside what the paper prints."""
    printed = paper_table("rsa").set_index(["analysis", "quantity"])["printed"]
    note = _noted(name, where)(f"as published over all {models**2} entries")
    claims = []
    for row in summary.itertuples():
        paper = printed.get((row.analysis, row.quantity.removesuffix("_mantel").removesuffix("_mrqap")))
        numbers = [None if pd.isna(x) else float(x) for x in (row.as_published, row.corrected, row.low, row.high)]
        judged = name == PRINTED or (where.papers_models and (where.papers_texts or row.quantity.startswith("p_")))
        verdict = _of_rsa(paper, *numbers[:2]) if paper and judged else "not testable here"
        claims.append(Claim(f"S2.rsa.{row.analysis}", row.quantity, where.prompt, "", paper, *numbers, n=_pairs(models),
                            p=None if pd.isna(row.p) else float(row.p), verdict=verdict, note=note))  # fmt: skip
    return claims


def _noted(name: str, where: Scope) -> Callable[[str], str]:
    """Notes that begin with the matrix's name; what is printed in the paper is about a vocabulary."""
    return lambda told: f"{name}; {told}" if name == PRINTED else where.note(f"{name}; {told}")


def _of_rsa(paper: str, as_published: float | None, corrected: float | None) -> str:
    if paper[0] in "<>":
        return judge_bound(paper, as_published, corrected)
    # R² is .806, adjusted .802: the two decimals that Fig 2A prints leave it between .802 and .810.
    return judge(float(paper), as_published, corrected, within=0.01)


def figure_2a() -> pd.DataFrame:
    """Kendall's tau between the paper's ten models as printed in Fig 2A, to two decimals."""
    return printed_matrix("fig2a_tau")


def printed_matrix(name: str) -> pd.DataFrame:
    """A models x models matrix of data/paper, ones on its diagonal."""
    return paper_table(name).set_index("nickname").rename_axis(None)


def _pairs(models: int) -> int:
    return models * (models - 1) // 2
