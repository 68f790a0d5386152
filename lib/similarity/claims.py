"""The claims of section 2.2: rows for lib.claims, made from the tables that this folder computes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from ..claims.cells import below_diagonal, cell_claims, compare_cells, printed_lists
from ..claims.claims import paper_table
from ..stats import pair_model, resampling
from ..stats.crossed import Crossed
from ..stats.relabelling import p_of
from ..tables import downloads, prompts, registry
from . import agreement, ends, factors, lineage, rsa
from .scopes import FIGURES, GEMMA, PAGES, PROMPTS, TABLES, Scope, papers_scope

PAPER = "brchristian/reward_model_optimal_pessimal_tokens"  # the authors' repository
TABLE_3 = "tables/output/table_3_distribution_moments.csv"
PRINTED = "Fig 2A as printed"
SKEW_CLAIMS = {"greatest": "S2.skew", "GW": "S2.skew", "best": "S3.skew.best", "worst": "S3.skew.worst"}
NEAR = ("base", "developer", "parameters")  # what models near each other on the map are said to share
# What a collection that cannot be compared leaves undecided: ids of claims begin so.
SKEWNESS = ("S2.skew", "S3.skew", "S2.moments")
SIMILARITY = ("S2.tau", "S2.mds", "S2.rsa.m", "S2.rsa.f", "S2.rsa.b", "S2.rsa.si", "S2.developer")

# --- the paper's pages --------------------------------------------------------------------------------------------


def page_claims(prompt: str) -> list[dict]:
    """Return S2.sonder and S2.harm by Table 2 as printed, S2.rsa.stepwise by Fig 2A as printed."""
    listed, page = printed_lists("2")[GEMMA], papers_scope(PAGES, prompt)
    sonder = int((listed["optimal"].str.strip().str.casefold() == "sonder").sum())
    hits, low, high, of = ends.count(listed["pessimal"], ends.is_harm)
    tau = factors.printed_matrix()
    traits = factors.theoretical(registry.rows_of(tau.index))
    selected = {entries: rsa.stepwise(tau, traits, entries)[0] for entries in ("all", "pairs")}
    keeps = {entries: int(set(names) == set(rsa.FINAL)) for entries, names in selected.items()}
    note = "Fig 2A, by AIC: all 100 entries keep {}, the 45 pairs {}".format(*map(" and ".join, selected.values()))
    return [
        page.row("S2.sonder", "tokens", GEMMA, "Table 2", as_published=sonder, n=len(listed["optimal"])),
        page.row("S2.harm", "share_of_harm", GEMMA, "Table 2", as_published=hits / of, ci_low=low / of,
                 ci_high=high / of, n=of),
        papers_scope(FIGURES, prompt).row("S2.rsa.stepwise", "keeps_base_and_rank", "", note,
                                          as_published=keeps["all"], corrected=keeps["pairs"], n=tau.size),
    ]  # fmt: skip


# --- distributions ------------------------------------------------------------------------------------------------


def distribution_claims(
    here: Scope, skews: pd.DataFrame, wordings: Mapping[str, Crossed], moments: pd.DataFrame,
    table_3: pd.DataFrame | None,
) -> list[dict]:  # fmt: skip
    """Return S2.skew, S2.moments and S3.skew.*; none for a prompt about which the section says nothing.

    wordings: wording of the published grid -> mean skewness, maybe empty. moments are by the paper's recipe. table_3 is
    for the paper's own collection.
    """
    if here.prompt not in PROMPTS:
        return []
    rows = skew_claims(here, skews)
    rows += wording_claims(wordings, here) if wordings else []
    if here.is_the_papers:
        rows += moment_claims(moments, here, "recomputed from the released rewards")
        rows += cell_claims("S2.cells", {"Table 3": table_3}, here.prompt, here.own)
    elif here.asks_as_the_paper:
        rows += released_claims()
    return rows


def skew_claims(here: Scope, skews: pd.DataFrame) -> list[dict]:
    """Return S2.skew and S3.skew.*: how many models' rewards are skewed to the right, and by how much on average."""
    rows = []
    for prompt, skew in skews[skews.index.isin(list(SKEW_CLAIMS))].iterrows():
        claim, about = SKEW_CLAIMS[prompt], replace(here, prompt=prompt)
        note = f"of {skew['models']} models; not to the right: {skew['others']}"
        new = f"crossed over texts and models; a new model: {skew['new_low']:.2f} to {skew['new_high']:.2f}"
        rows += [
            about.row(claim, "n_positive", note=note, n=skew["models"], ci_low=skew["ci_low"], ci_high=skew["ci_high"],
                      **_once(skew["as_published"], skew["n_positive"])),
            about.row(claim, "mean_skewness", note=new, corrected=skew["mean"], ci_low=skew["mean_low"],
                      ci_high=skew["mean_high"], n=skew["n"], p=skew["p"]),
        ]  # fmt: skip
    return rows


def wording_claims(means: Mapping[str, Crossed], here: Scope) -> list[dict]:
    """Return S3.skew.*: for how many wordings of a question the interval of the mean skewness lies above 0."""
    rows = []
    for claim, polarity in {"S3.skew.best": 1, "S3.skew.worst": -1}.items():
        asked = [mean for wording, mean in means.items() if prompts.polarity(wording) == polarity]
        least = min((mean.estimate for mean in asked), default=float("nan"))
        note = f"of {len(asked)} wordings, interval included; least mean {least:.2f}"
        above = sum(mean.ci_low > 0 for mean in asked)
        rows.append(replace(here, prompt="").row(claim, "wordings_positive", note=note, corrected=above, n=len(asked)))
    return rows


def table_3_cells(as_published: pd.DataFrame, corrected: pd.DataFrame) -> pd.DataFrame:
    """Return Table 3 cell by cell, as from cells.compare_cells; both tables as from agreement.moments."""
    printed = paper_table("table_3").set_index("nickname")
    bounded = printed["variance_relation"] == "<"
    variance = printed["variance"].astype(object).mask(bounded, "<" + printed["variance"].astype(str))
    return compare_cells(printed.assign(variance=variance)[agreement.MOMENTS], as_published, corrected, decimals=3)


def released_moments() -> pd.DataFrame:
    """Return Table 3 as the authors released it, with three decimals."""
    table = pd.read_csv(downloads.fetch(PAPER, TABLE_3), keep_default_na=False).set_index("Model")
    return table.rename(columns=str.lower)[agreement.MOMENTS].astype(float)


def released_claims() -> list[dict]:
    """Return S2.skew and S2.moments by the table that the authors released, which is about the vocabulary itself."""
    moments, page = released_moments(), papers_scope(TABLES)
    skewness = moments["skewness"]
    note = f"the authors' own Table 3; least: {skewness.idxmin()}, {skewness.min():.3f}"
    count = page.row("S2.skew", "n_positive", note=note, as_published=int((skewness > 0).sum()), n=len(moments))
    return [count, *moment_claims(moments, page, "the authors' own Table 3")]


def moment_claims(moments: pd.DataFrame, here: Scope, note: str) -> list[dict]:
    """Return S2.moments, one row per cell of Table 3."""
    printed, rows = paper_table("table_3").set_index("nickname"), []
    bounds = printed["variance_relation"].eq("<").map({True: "; the bound that the paper prints", False: ""})
    for moment in agreement.MOMENTS:
        table = pd.DataFrame({"as_published": moments[moment], "paper": printed[moment].astype(float)}).loc[
            printed.index
        ]
        table["note"] = note + bounds if moment == "variance" else note
        rows += here.rows("S2.moments", table, moment, model="{}")
    return rows


def dimension_claims(here: Scope, table: pd.DataFrame) -> list[dict]:
    """Return S2.dimension, the share of variance that two components explain. table: as from agreement.dimension."""
    table = table.rename(columns={"explained": "corrected"})
    table["note"] = [f"{columns:.0f} columns, over texts" for columns in table["prompts"]]
    return replace(here, prompt="").rows("S2.dimension", table, "explained_by_two", model="{}", n=here.texts)


# --- agreement ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Hold a matrix of agreement between models with all that section 2.2 makes of it."""

    matrix: pd.DataFrame
    models: pd.DataFrame  # rows of the registry
    model_map: agreement.ModelMap | None  # None for fewer than three models
    traits: Mapping[str, pd.DataFrame]  # what the models share, as from factors.theoretical
    analyses: Mapping[str, pd.DataFrame]  # as from rsa.analyses; empty where the factors cannot be told apart
    lineages: Mapping[str, pd.DataFrame]  # coding of lineage -> as from lineage.lineage_effects

    @property
    def pairs(self) -> int:
        """Return the number of pairs of different models."""
        return len(self.matrix) * (len(self.matrix) - 1) // 2


def analyse(matrix: pd.DataFrame, permutations: int = 10_000) -> Agreement:
    """Return all analyses of section 2.2 of a matrix of agreement, and the effects of lineage."""
    models = registry.rows_of(matrix.index)
    traits = factors.theoretical(models)
    known = pair_model.can_be_told_apart(matrix, traits)
    codings = {coding: lineage.shared_lineage(models, coding) for coding in lineage.CODINGS}
    return Agreement(
        matrix, models, agreement.model_map(matrix) if len(matrix) > 2 else None, traits,
        rsa.analyses(matrix, traits, permutations) if known else {},
        {coding: lineage.lineage_effects(matrix, traits, same, permutations)
         for coding, same in codings.items() if same is not None},
    )  # fmt: skip


def similarity_claims(
    here: Scope,
    taus: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame | None] | None,
    matrices: Mapping[str, Agreement],
    figures: Mapping[str, pd.DataFrame],
) -> list[dict]:
    """Return the claims of section 2.2 on agreement; none for a prompt about which the section says nothing.

    taus are the first five arguments of `tau_claims`, None where the models cannot be compared. figures are for the
    paper's own collection.
    """
    if here.prompt not in PROMPTS:
        return []
    rows = tau_claims(*taus, here) if taus else []
    if here.asks_as_the_paper:
        rows += printed_tau_claims() + measure_claims(matrices[PRINTED].traits)
        rows += cell_claims("S2.cells", figures if here.is_the_papers else {}, here.prompt, here.own)
    for name, agreed in matrices.items():
        if name != PRINTED or here.asks_as_the_paper:
            where = papers_scope(FIGURES, here.prompt) if name == PRINTED else here
            rows += [row for claims_of in (map_claims, rsa_claims, developer_claims, lineage_claims)
                     for row in claims_of(name, agreed, where)]  # fmt: skip
    return rows


def figure_cells(
    as_published: Mapping[str, pd.DataFrame], corrected: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Return Figures 2A and A1 cell by cell, each pair of models once. Both map a printed matrix to ours."""
    names = {"fig2a_tau": "Figure 2A", "figa1_spearman": "Figure A1, Spearman", "figa1_rbo": "Figure A1, RBO"}
    return {
        names[name]: compare_cells(below_diagonal(factors.printed_matrix(name)), matrix, corrected[name], decimals=2)
        for name, matrix in as_published.items()
    }


def tau_claims(
    published: pd.DataFrame, tau: pd.DataFrame, pairs: pd.DataFrame, draws: pd.DataFrame,
    wordings: pd.DataFrame | None, here: Scope,
) -> list[dict]:  # fmt: skip
    """Return S2.tau: mean, lowest and highest tau of two models, their range, a new pair, and another wording.

    pairs and draws are made by rankings.tau_resamples, wordings by agreement.wordings_against_models.
    """
    ours, n, rows = _values(published), len(pairs), []
    low, high = (pairs.loc[place] for place in (pairs["tau"].idxmin(), pairs["tau"].idxmax()))
    mean = {"n": n} | _once(ours.mean(), pairs["tau"].mean())
    if n > 2:  # the variance of models by REML and that of texts, a standard error, added
        model = pair_model.fit(tau, {})
        reach = stats.t.ppf(0.975, len(tau) - 1) * float(draws.mean(axis=1).std())
        reach = float(np.hypot(model.mean_high - model.mean, reach))
        mean |= {"ci_low": model.mean - reach, "ci_high": model.mean + reach, "note": "for other texts and models"}
        rows = [here.row("S2.tau", "new_pair", note="a prediction interval for two new models", corrected=model.mean,
                         ci_low=model.new_low, ci_high=model.new_high, n=n)]  # fmt: skip
        if wordings is not None:
            each = ", ".join(f"{name} {value:.2f}" for name, value in wordings["tau"].drop("difference").items())
            difference = wordings.loc[["difference"]].rename(columns={"tau": "corrected"})
            rows += here.rows("S2.tau", difference, "other_wording_minus_other_model", note=f"mean tau: {each}",
                              n=here.texts)  # fmt: skip
    rows.append(here.row("S2.tau", "mean", **mean))
    for quantity, number, pair in (("min", ours.min(), low), ("max", ours.max(), high)):
        rows.append(here.row("S2.tau", quantity, note=f"{pair['model_a']} and {pair['model_b']}; over texts", n=n,
                             **_once(number, pair["tau"]), **pair[["ci_low", "ci_high"]]))  # fmt: skip
    spread = dict(zip(["ci_low", "ci_high"], resampling.interval(draws.max(axis=1) - draws.min(axis=1)), strict=True))
    note, spread = "highest minus lowest tau; over texts", spread | _once(np.ptp(ours), high["tau"] - low["tau"])
    return [*rows, here.row("S2.tau", "range", note=note, n=n, **spread)]


def printed_tau_claims() -> list[dict]:
    """Return S2.tau by Fig 2A as printed; the intervals of the lowest tau and of the range come from rounding."""
    values, page = _values(factors.printed_matrix()), papers_scope(FIGURES)
    low, high = float(values.min()), float(values.max())
    rounding = f"{PRINTED}; judged by its rounding"
    table = pd.DataFrame(
        {"mean": [values.mean(), None, PRINTED], "max": [high, None, PRINTED],
         "min": [low, (low - 0.005, low + 0.005), f"{rounding}: over a vocabulary texts move it less"],
         "range": [high - low, (high - low - 0.01, high - low + 0.01), rounding]},
        index=["as_published", "judged", "note"],
    )  # fmt: skip
    return page.rows("S2.tau", table.T, n=len(values))


def map_claims(name: str, agreed: Agreement, here: Scope) -> list[dict]:
    """Return S2.mds: how much nearer models are on a map that share one of NEAR."""
    if agreed.model_map is None:
        return []
    alone = [{trait: agreed.traits[trait]} for trait in NEAR if trait in agreed.traits]
    closeness = agreed.model_map.closeness
    effects = [_effects(closeness, one) for one in alone if pair_model.can_be_told_apart(closeness, one)]
    return [row for table in effects for row in here.rows("S2.mds", table, "b_{}", note=name, n=agreed.pairs)]


def rsa_claims(name: str, agreed: Agreement, here: Scope) -> list[dict]:
    """Return S2.rsa.*: each factor alone, all together, and base and rank.

    b is over pairs, with its interval by REML. As published it is over all entries. p is from the exact relabelling
    test, because the tail of REML's p is not reliable with ten models.
    """
    if not agreed.analyses:
        return []
    b = {way: table.rename(columns={"b": "corrected", "b_published": "as_published"})
         for way, table in agreed.analyses.items()}  # fmt: skip
    p = {way: table[["p", "p_published"]].set_axis(["corrected", "as_published"], axis=1)
         for way, table in agreed.analyses.items()}  # fmt: skip
    both = b["together"].loc[b["together"].index.isin(rsa.FINAL)]  # of the others the paper says p > .10 only
    tables = [("S2.rsa.simple", p["alone"], "p_{}"), ("S2.rsa.simple", b["alone"], "b_{}"),
              ("S2.rsa.multiple", p["together"], "p_{}"), ("S2.rsa.multiple", both, "b_{}")]  # fmt: skip
    same, rows = {"note": name, "n": agreed.pairs}, []
    if set(b["final"].index) == set(rsa.FINAL):
        beyond = b["final"].drop(columns="as_published")
        tables += [("S2.rsa.final", b["final"], "b_{}"), ("S2.rsa.beyond", beyond, "b_{}")]
        two = {factor: agreed.traits[factor] for factor in rsa.FINAL}
        r2 = {entries: float(rsa.regress(agreed.matrix, two, entries).rsquared) for entries in ("all", "pairs")}
        rows = [here.row("S2.rsa.final", "r2", as_published=r2["all"], corrected=r2["pairs"], **same)]
    return rows + [row for table in tables for row in here.rows(*table, **same)]


def developer_claims(name: str, agreed: Agreement, here: Scope) -> list[dict]:
    """Return S2.developer: what sharing a developer adds to agreement, and what sharing a base adds more than that.

    S2.equivalence: how large an effect of the developer the data still allow.
    """
    two = {trait: agreed.traits[trait] for trait in ("base", "developer") if trait in agreed.traits}
    if len(two) < 2 or not pair_model.can_be_told_apart(agreed.matrix, two):
        return []
    alone, same = {"developer": two["developer"]}, {"note": name, "n": agreed.pairs}
    more = pair_model.contrast(pair_model.fit(agreed.matrix, two), *two)[:3]
    # b_base x + b_developer y = (b_base - b_developer) x + b_developer (x + y), whose first p is that of the contrast.
    p = p_of(agreed.matrix, {"base": two["base"], "sum": two["base"] + two["developer"]}, "base")
    rows = [here.row("S2.developer", "base_minus_developer", p=p, **same,
                     **dict(zip(["corrected", "ci_low", "ci_high"], more, strict=True))),
            *here.rows("S2.developer", _effects(agreed.matrix, alone), "b_{}", **same)]  # fmt: skip
    for how, predictors in {"alone": alone, "with_base": two}.items():
        least = rsa.smallest_margin(agreed.matrix, predictors, "developer")
        note = f"{name}; b {least['b']:.3f}, 90% interval by relabelling {least['low']:.3f} to {least['high']:.3f}"
        rows.append(here.row("S2.equivalence", f"margin_{how}", note=note, corrected=least["margin"], n=agreed.pairs))
    return rows


def lineage_claims(name: str, agreed: Agreement, here: Scope) -> list[dict]:
    """Return S2.lineage: effects of lineage, base and rank in each regression, and the number of independent models."""
    rows = []
    for coding, table in agreed.lineages.items():
        note, end = f"{name}; {coding}", "" if coding == lineage.SKYWORK else "_every_line"
        some = table[table["factor"].isin([lineage.LINEAGE, *rsa.FINAL])].rename(columns={"b": "corrected"})
        some = some.set_index(some["factor"] + "_" + some["regression"].str.replace(" ", "_"))
        rows += here.rows("S2.lineage", some, "b_{}" + end, note=note, n=agreed.pairs)
        for how, count in lineage.effective_models(agreed.matrix, agreed.models, coding).items():
            quantity = f"effective_models_{how.replace(' ', '_')}{end}"
            rows.append(here.row("S2.lineage", quantity, note=note, corrected=count, n=len(agreed.matrix)))
    return rows


def measure_claims(traits: Mapping[str, pd.DataFrame]) -> list[dict]:
    """Return A1.correlations: effects of base and rank on other printed measures, and their correlation with tau."""
    tau, page, rows = factors.printed_matrix(), papers_scope(FIGURES), []
    both = {trait: traits[trait] for trait in rsa.FINAL}
    for name in ("spearman", "rbo"):
        matrix = factors.printed_matrix(f"figa1_{name}")
        note, n = f"{name} as printed in Fig A1", len(_values(matrix))
        rows += page.rows("A1.correlations", _effects(matrix, both), name + "_b_{}", note=note, n=n)
        scaled = [(each - _values(each).mean()) / _values(each).std() for each in (tau, matrix)]
        effect = _effects(scaled[0], {name: scaled[1]}).drop(columns="corrected")
        effect["as_published"] = agreement.correlation(tau, matrix)
        rows += page.rows("A1.correlations", effect, "r_{}_tau", note=f"{note}, with Fig 2A", n=n)
    return rows


def _effects(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return rsa.effects as fields of rows."""
    return rsa.effects(matrix, predictors).rename(columns={"b": "corrected"})


def _once(as_published: float, corrected: float) -> dict[str, float]:
    """Return both numbers, or the published recipe's alone where there was nothing to correct."""
    same = np.isclose(as_published, corrected, rtol=1e-12)
    return {"as_published": float(as_published)} | ({} if same else {"corrected": float(corrected)})


def _values(matrix: pd.DataFrame) -> np.ndarray:
    """Return the entries of a matrix for pairs of different models, each pair once."""
    return matrix.to_numpy()[np.triu_indices(len(matrix), 1)]
