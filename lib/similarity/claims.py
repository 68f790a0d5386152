"""The claims of section 2.2: moments, agreement, the map of models, and its regression; and Fig 2A as printed.

What is made of the paper's printed figures and released tables is about its vocabularies, and is judged wherever the
collection holds the paper's models and asks as the paper does. Everything else is about the collection's own texts.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from lib import downloads, prompts
from lib.claims import A_VOCABULARY, THE_PAPER, Claim, paper_table, papers_own, state
from lib.collection import Collection
from lib.crossed import Crossed
from lib.similarity import agreement, pair_model, rsa

PAPER = "brchristian/reward_model_optimal_pessimal_tokens"  # the authors' repository
PRINTED = "Fig 2A as printed"
FIGURES, TABLES = "figures (printed)", "vocabulary (released table)"  # populations
PROMPTS = ("greatest", "GW")  # the paper's wording of section 2, by its names in the collections
TABLE_3 = "tables/output/table_3_distribution_moments.csv"
MOMENTS = ("mean", "variance", "skewness")
SKEW_CLAIMS = {"greatest": "S2.skew", "GW": "S2.skew", "best": "S3.skew.best", "worst": "S3.skew.worst"}
NEAR = ("base", "developer", "parameters")  # what models near each other on the map are said to share


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
        return self.prompt == PROMPTS[0] and "models" in self.own

    @property
    def is_asked_about(self) -> bool:
        """Whether section 2 says anything about answers to this prompt."""
        return self.prompt in PROMPTS

    def note(self, remark: str = "") -> str:
        """The remark, and over what its number was found if that is no vocabulary, as the paper's sentences are."""
        over = f"over {self.texts:,} {self.kind}, not over a vocabulary" if self.texts < A_VOCABULARY else ""
        return "; ".join(filter(None, [remark, over]))


def scope(study: Collection, prompt: str, texts: int) -> Scope:
    """The scope of a collection whose models share so many texts."""
    return Scope(prompt, texts, papers_own(study, texts), study.texts)


@dataclass(frozen=True)
class Agreement:
    """A matrix of agreement between models with all that section 2.2 makes of it.

    traits: what the models share, as from factors.theoretical. found: as from rsa.analyses.
    """

    matrix: pd.DataFrame
    model_map: agreement.ModelMap
    traits: Mapping[str, pd.DataFrame]
    found: rsa.Analyses


def similarity_claims(
    here: Scope, *, skews: Mapping[str, agreement.Skews], wordings: Mapping[str, Crossed],
    taus: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame | None],
    matrices: Mapping[str, Agreement],
) -> list[Claim]:  # fmt: skip
    """All claims of section 2.2; none where the prompt is one about which the section says nothing.

    skews: prompt -> as from agreement.skews. wordings: wording of the published grid -> mean skewness; may be empty.
    taus: the arguments of `tau_claims`. matrices: by name; that of PRINTED is left out where the collection is not the
    paper's, or asks otherwise.
    """
    if not here.is_asked_about:
        return []
    stated = [one for prompt, found in skews.items() if prompt in SKEW_CLAIMS
              for one in skew_claims(SKEW_CLAIMS[prompt], replace(here, prompt=prompt), found)]  # fmt: skip
    stated += wording_claims(wordings, here) if wordings else []
    stated += tau_claims(*taus, here)
    if here.asks_as_the_paper:
        stated += released_claims() + printed_tau_claims()
        printed = {name: printed_matrix(f"figa1_{name}") for name in ("spearman", "rbo")}
        stated += measure_claims(printed, matrices[PRINTED].traits, here.prompt)
    for name, one in matrices.items():
        if name != PRINTED or here.asks_as_the_paper:
            stated += map_claims(name, one.model_map, one.traits, here)
            stated += rsa_claims(name, one.found, len(one.matrix), here)
            stated += developer_claims(name, one.matrix, one.traits, here)
    return stated


@dataclass(frozen=True)
class Source:
    """Where a matrix of agreement comes from: what of the paper's own it rests on, its population, and its note."""

    own: Set[str]
    population: str
    note: str


def source(name: str, here: Scope) -> Source:
    """The source of the matrix `name`: PRINTED is the paper's own figure, any other is this collection's."""
    return Source(THE_PAPER, FIGURES, name) if name == PRINTED else Source(here.own, "", here.note(name))


# --- skewness and moments -----------------------------------------------------------------------------------------


def skew_claims(claim: str, here: Scope, skews: agreement.Skews) -> list[Claim]:
    """S2.skew and S3.skew.*: how many models' rewards lean to the right, and by how much on average."""
    mean, without = skews.mean, skews.skewness.index[skews.skewness <= 0]
    note = here.note(f"of {mean.models} models; not to the right: {', '.join(without) or 'none'}")
    how_many = _once(skews.as_published, skews.n_positive) | {"ci_low": skews.ci_low, "ci_high": skews.ci_high}
    how_much = {"corrected": mean.estimate, "ci_low": mean.ci_low, "ci_high": mean.ci_high, "n": mean.n, "p": mean.p}
    of_a_new = f"crossed over texts and models; a new model: {mean.new_low:.2f} to {mean.new_high:.2f}"
    return [
        state(claim, "n_positive", here.prompt, own=here.own, n=mean.models, note=note, **how_many),
        state(claim, "mean_skewness", here.prompt, own=here.own, note=here.note(of_a_new), **how_much),
    ]


def wording_claims(means: Mapping[str, Crossed], here: Scope) -> list[Claim]:
    """S3.skew.*: in how many wordings of a question rewards lean to the right, models and texts crossed.

    means: wording -> the mean of agreement.skews.
    """
    stated = []
    for claim, polarity in {"S3.skew.best": 1, "S3.skew.worst": -1}.items():
        asked = [mean for wording, mean in means.items() if prompts.polarity(wording) == polarity]
        above = sum(mean.ci_low > 0 for mean in asked)
        least = min((mean.estimate for mean in asked), default=float("nan"))
        note = here.note(f"of {len(asked)} wordings, interval included; least mean {least:.2f}")
        numbers = {"corrected": above, "n": len(asked), "note": note}
        stated.append(state(claim, "wordings_positive", own=here.own, **numbers))
    return stated


def released_moments() -> pd.DataFrame:
    """Table 3 as the authors released it: model -> mean, variance, skewness, each of three decimals."""
    table = pd.read_csv(downloads.fetch(PAPER, TABLE_3), keep_default_na=False).set_index("Model")
    return table.rename(columns=str.lower)[list(MOMENTS)].astype(float)


def moment_claims(moments: pd.DataFrame, prompt: str, own: Set[str], population: str = "") -> list[Claim]:
    """S2.moments: each number of Table 3 beside that of a vocabulary, or of the table that the authors released.

    moments: as from agreement.moments, or `released_moments`; models that Table 3 does not have are left out.
    """
    printed = paper_table("table_3").set_index("nickname")
    told = "the bound that the paper prints" if population else ""
    return [
        state("S2.moments", moment, prompt, name, own=own, population=population, as_published=float(row[moment]),
              paper=float(printed.loc[name, moment]), n=int(row["n"]) if "n" in row else None,
              note=told if moment == "variance" and printed.loc[name, "variance_relation"] == "<" else "")
        for name, row in moments.iterrows() if name in printed.index
        for moment in MOMENTS
    ]  # fmt: skip


def released_claims(prompt: str = PROMPTS[0]) -> list[Claim]:
    """S2.skew and S2.moments by the table that the authors released, which is about the vocabulary itself."""
    moments = released_moments()
    count, least = int((moments["skewness"] > 0).sum()), moments["skewness"].idxmin()
    note = f"the authors' own Table 3; least: {least}, {moments.loc[least, 'skewness']:.3f}"
    skew = state("S2.skew", "n_positive", prompt, own=THE_PAPER, population=TABLES, as_published=count, n=len(moments),
                 note=note)  # fmt: skip
    return [skew, *moment_claims(moments, prompt, THE_PAPER, TABLES)]


# --- agreement ----------------------------------------------------------------------------------------------------


def tau_claims(
    published: pd.DataFrame, tau: pd.DataFrame, pairs: pd.DataFrame, draws: pd.DataFrame,
    wordings: pd.DataFrame | None, here: Scope,
) -> list[Claim]:  # fmt: skip
    """S2.tau over pairs of models: mean, min, max, a new pair, and another wording against another model.

    published, tau: the matrix as published and corrected; pairs, draws: as from rankings.tau_resamples; wordings: as
    from agreement.wordings_against_models, None without a second wording.
    """
    ours = pd.Series(published.to_numpy()[np.triu_indices(len(published), 1)])
    common = {"own": here.own, "n": len(pairs)}
    claims = []
    for quantity, which in {"min": "idxmin", "max": "idxmax"}.items():
        row = pairs.loc[pairs["tau"].agg(which)]
        numbers = _once(ours.agg(quantity), row["tau"]) | row[["ci_low", "ci_high"]].astype(float).to_dict()
        note = here.note(f"{row['model_a']} and {row['model_b']}; over texts")
        claims.append(state("S2.tau", quantity, here.prompt, note=note, **numbers, **common))
    mean = _once(ours.mean(), pairs["tau"].mean())
    if len(pairs) < 3:
        return [state("S2.tau", "mean", here.prompt, note=here.note(), **mean, **common), *claims]
    model, note = pair_model.fit(tau, {}), here.note("for other texts and models")
    mean |= _interval_of_mean(model, len(tau), float(draws.mean(axis=1).std()))
    new = {"corrected": model.mean, "ci_low": model.new_low, "ci_high": model.new_high}
    told = here.note("a prediction interval for two new models")
    claims = [state("S2.tau", "mean", here.prompt, note=note, **mean, **common), *claims,
              state("S2.tau", "new_pair", here.prompt, note=told, **new, **common)]  # fmt: skip
    return claims + ([] if wordings is None else [_wordings_claim(wordings, here)])


def _interval_of_mean(model: pair_model.PairModel, models: int, of_texts: float) -> dict[str, float]:
    """ci_low, ci_high of the mean: the variance of models by REML and that of texts, a standard error, added."""
    reach = np.hypot(model.mean_high - model.mean, stats.t.ppf(0.975, models - 1) * of_texts)
    return {"ci_low": float(model.mean - reach), "ci_high": float(model.mean + reach)}


def _wordings_claim(wordings: pd.DataFrame, here: Scope) -> Claim:
    tau, ci_low, ci_high = map(float, wordings.loc["difference", ["tau", "ci_low", "ci_high"]])
    told = ", ".join(f"{name} {value:.2f}" for name, value in wordings["tau"].drop("difference").items())
    return state("S2.tau", "other_wording_minus_other_model", here.prompt, own=here.own, corrected=tau, ci_low=ci_low,
                 ci_high=ci_high, n=here.texts, note=here.note(f"mean tau: {told}"))  # fmt: skip


def printed_tau_claims(prompt: str = PROMPTS[0]) -> list[Claim]:
    """S2.tau by Fig 2A as printed; the interval of the lowest tau is that of its rounding."""
    values = figure_2a().to_numpy()[np.triu_indices(len(figure_2a()), 1)]
    common = {"own": THE_PAPER, "population": FIGURES, "n": len(values)}
    least = values.min()
    return [
        state("S2.tau", "mean", prompt, as_published=float(values.mean()), note=PRINTED, **common),
        state("S2.tau", "min", prompt, as_published=float(least), judged=(least - 0.005, least + 0.005), **common,
              note=f"{PRINTED}; judged by its rounding: over a vocabulary texts move it less"),
        state("S2.tau", "max", prompt, as_published=float(values.max()), note=PRINTED, **common),
    ]  # fmt: skip


def map_claims(
    name: str, model_map: agreement.ModelMap, traits: Mapping[str, pd.DataFrame], here: Scope
) -> list[Claim]:
    """S2.mds: how much nearer models are on a map that share base, developer, size.

    The coefficients are those of pair_model.fit, each factor alone: the sentence says it of each.
    """
    where, closeness = source(name, here), model_map.closeness
    common = {"own": where.own, "population": where.population}
    claims = []
    for trait in [trait for trait in NEAR if trait in traits]:
        numbers = _coefficient(pair_model.fit(closeness, {trait: traits[trait]}).table.loc[trait])
        claims.append(state("S2.mds", f"b_{trait}", here.prompt, note=where.note, n=_pairs(len(closeness)),
                            **numbers, **common))  # fmt: skip
    return claims


# --- regression ---------------------------------------------------------------------------------------------------


def rsa_claims(name: str, found: rsa.Analyses, models: int, here: Scope) -> list[Claim]:
    """S2.rsa.*: each factor alone, all together, base and rank, and what each of these two adds to the other.

    b: by REML over pairs, with its interval and p. p: as published over all entries; corrected, the exact permutation
    test. The shares of R² are left out: the paper says nothing of them.
    """
    where = source(name, here)
    common = {"own": where.own, "population": where.population, "n": _pairs(models), "note": where.note}
    stated = []
    for analysis, table in {"simple": found.simple, "multiple": found.multiple}.items():
        for factor, row in table.iterrows():
            claim, old = f"S2.rsa.{analysis}", float(row["b_published"])
            if analysis == "simple" or factor in rsa.FINAL:  # of the others the sentence says p > .10, no more
                stated.append(state(claim, f"b_{factor}", here.prompt, as_published=old, **_coefficient(row), **common))
            p = {"as_published": float(row["p_published"]), "corrected": float(row["p"])}
            stated.append(state(claim, f"p_{factor}", here.prompt, **p, **common))
    return stated + (_final_claims(found, here, common) if set(found.final.index) == set(rsa.FINAL) else [])


def _final_claims(found: rsa.Analyses, here: Scope, common: Mapping) -> list[Claim]:
    """S2.rsa.final and S2.rsa.beyond: base and rank together, and what each adds to the other."""
    r2 = {"as_published": found.published.r2, "corrected": found.corrected.r2}
    stated = [state("S2.rsa.final", "r2", here.prompt, **r2, **common)]
    for factor, row in found.final.iterrows():
        old, b = float(row["b_published"]), _coefficient(row)
        stated.append(state("S2.rsa.final", f"b_{factor}", here.prompt, as_published=old, **b, **common))
        told = {"note": f"{common['note']}; exact permutation p {row['p']:.4f}"}
        stated.append(state("S2.rsa.beyond", f"b_{factor}", here.prompt, **b, **(common | told)))
    return stated


def developer_claims(name: str, matrix: pd.DataFrame, traits: Mapping[str, pd.DataFrame], here: Scope) -> list[Claim]:
    """S2.developer: what sharing a developer adds to agreement, and what sharing a base adds more than that."""
    if not {"base", "developer"} <= set(traits):
        return []
    where = source(name, here)
    common = {"own": where.own, "population": where.population, "n": _pairs(len(matrix)), "note": where.note}
    alone = pair_model.fit(matrix, {"developer": traits["developer"]}).table.loc["developer"]
    both = pair_model.fit(matrix, {trait: traits[trait] for trait in ("base", "developer")})
    more, ci_low, ci_high, p = pair_model.contrast(both, "base", "developer")
    numbers = {"corrected": more, "ci_low": ci_low, "ci_high": ci_high, "p": p}
    return [
        state("S2.developer", "base_minus_developer", here.prompt, **numbers, **common),
        state("S2.developer", "b_developer", here.prompt, **_coefficient(alone), **common),
    ]


def measure_claims(printed: Mapping[str, pd.DataFrame], traits: Mapping[str, pd.DataFrame], prompt: str) -> list[Claim]:
    """A1.correlations: do the printed matrices of other measures (spearman, rbo) say what tau says of base and rank?

    Also how each goes with tau over pairs: the standardised coefficient, which is the correlation, with its interval.
    """
    tau, factors = figure_2a(), {name: traits[name] for name in rsa.FINAL}
    common = {"own": THE_PAPER, "population": FIGURES, "n": _pairs(len(tau))}
    claims = []
    for name, matrix in printed.items():
        note = f"{name} as printed in Fig A1"
        for factor, row in pair_model.fit(matrix, factors).table.iterrows():
            claims.append(
                state("A1.correlations", f"{name}_b_{factor}", prompt, **_coefficient(row), note=note, **common)
            )
        row = pair_model.fit(_standardised(tau), {name: _standardised(matrix)}).table.loc[name]
        r = agreement.correlation(tau, matrix)
        claims.append(state("A1.correlations", f"r_{name}_tau", prompt, as_published=r, note=f"{note}, with Fig 2A",
                            **_coefficient(row) | {"corrected": None}, **common))  # fmt: skip
    return claims


def _coefficient(row: pd.Series) -> dict[str, float]:
    """The numbers of a coefficient of pair_model.fit or rsa.rsa; there its p is p_reml."""
    p = row["p_reml"] if "p_reml" in row else row["p"]
    return {
        "corrected": float(row["b"]),
        "ci_low": float(row["ci_low"]),
        "ci_high": float(row["ci_high"]),
        "p": float(p),
    }


def _once(as_published: float, corrected: float) -> dict[str, float]:
    """Both numbers, or the published recipe's alone where there was nothing to correct."""
    same = np.isclose(as_published, corrected, rtol=1e-12)
    return {"as_published": float(as_published)} | ({} if same else {"corrected": float(corrected)})


def _standardised(matrix: pd.DataFrame) -> pd.DataFrame:
    values = matrix.to_numpy()[np.triu_indices(len(matrix), 1)]
    return (matrix - values.mean()) / values.std()


def figure_2a() -> pd.DataFrame:
    """Kendall's tau between the paper's ten models as printed in Fig 2A, to two decimals."""
    return printed_matrix("fig2a_tau")


def printed_matrix(name: str) -> pd.DataFrame:
    """A models x models matrix of data/paper, ones on its diagonal."""
    return paper_table(name).set_index("nickname").rename_axis(None)


def _pairs(models: int) -> int:
    return models * (models - 1) // 2
