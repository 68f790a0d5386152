"""The claims of section 4: agreement of models with people and with each other, and what models undervalue.

Every function returns rows of lib.claims.claims. The paper's numbers are about its own items (EloEverything). Items and
models are both samples (lib.stats.crossed); for a single item, only models are.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ..claims import cells
from ..claims.claims import declared, published_table, quantities, row
from ..stats import resampling
from ..stats.crossed import Crossed, Measured, mean_influence
from ..stats.factors import ThreeFactors, share_intervals, three_factors
from ..tables import downloads
from . import concordance, human
from . import kinds as kinds_
from .concordance import Agreement
from .profiles import between_two

AFFECTIVE = ("Unconditional love", "Imagination", "Hope", "Happiness")
THIRD, PLACE = "Black people", 3  # its place among the most undervalued in the paper
HOLOCAUST, LOWEST = "The Holocaust", 100
NEAR = 100  # items at each end: of plain cuts, its taus are nearest to those of the paper
CLAIM_OF = {
    kind: f"S4.undervalued.{kind.split()[0]}" for kind in ("identity", "nature", "technology", "sexual content")
}
FIRST = {"Unconditional love": "best for 5 models", "Sports bra": "best for R-Lla-8B",
         "Gödel, Escher, Bach": "best for F-Lla-8B-v0.1"}  # fmt: skip  # favourites that section 4.1 names
PRINTED_RANKS = FIRST | {THIRD: "third most undervalued", HOLOCAUST: "ranked worst by people"}


def asked(rows: list[dict]) -> list[dict]:
    """Return the rows whose quantity and prompt numbers.csv declares."""
    return [each for each in rows if declared(each["claim"], each["quantity"], each["prompt"], each["model"])]


def rows_of(claim: str, table: pd.DataFrame) -> list[dict]:
    """Return a claim's row for each row of a table, whose columns are fields of claims.row; NaN is left out."""
    records = table.to_dict("records")
    return [row(claim, **{name: value for name, value in each.items() if not pd.isna(value)}) for each in records]


def _mean(mean: Crossed | ThreeFactors | human.Together) -> dict:
    """Return a mean over models and items as fields of a row."""
    return {"corrected": mean.estimate, "ci_low": mean.ci_low, "ci_high": mean.ci_high, "p": mean.p}


# --- agreement ----------------------------------------------------------------------------------------------------


def people_claims(summaries: pd.DataFrame, n: int) -> list[dict]:
    """Return S4.tau.human, the mean, sd, min and max of the models' taus with people (from concordance.summaries).

    The paper's text names the prompt GE, but prints the numbers of GW. So the number as published for GE is the number
    of GW.
    """
    rows = []
    for prompt, summary in summaries.iterrows():
        recipe = _recipe(prompt, summaries)
        note = f"as published: under {recipe}, whose numbers these are" if recipe != prompt else ""
        interval = summary[["ci_low", "ci_high", "p"]].to_dict()
        rows += [row("S4.tau.human", name, prompt, n=n, note=note, as_published=summaries.loc[recipe, name],
                     corrected=summary[name], **(interval if name == "mean" else {}))
                 for name in ("mean", "sd", "min", "max")]  # fmt: skip
    return rows


def _recipe(prompt: str, prompts: pd.DataFrame) -> str:
    """Return the prompt whose numbers the paper prints for this one."""
    return "GW" if prompt == "GE" and "GW" in prompts.index else prompt


def model_claims(between: pd.DataFrame, models: int) -> list[dict]:
    """Return S4.tau.models, the mean tau of two different models (from concordance.between_models)."""
    return [
        row("S4.tau.models", "mean", prompt, as_published=between.loc[recipe, "whole"], corrected=means["pairs"],
            ci_low=means["ci_low"], ci_high=means["ci_high"], p=means["p"], n=models * (models - 1) // 2,
            note=f"as published: the whole matrix under {recipe}, its diagonal included")
        for prompt, means in between.iterrows() for recipe in [_recipe(prompt, between)]
    ]  # fmt: skip


def prompt_claims(agreed: Agreement, models: list[str], prompts: list[str]) -> list[dict]:
    """Return S4.prompts: concordance.beyond_models over all pairs of prompts, and for each pair."""
    across = concordance.across_prompts(agreed, models, prompts)
    itself = {"beyond models": (prompts, across.mean(axis=1))}
    itself |= {f"beyond models: {pair}": (pair.split(", "), taus) for pair, taus in across.items()}
    rows = []
    for quantity, (some, taus) in itself.items():
        note = (f"a model with itself under another prompt: tau {taus.mean():.2f}, from {taus.min():.2f} to "
                f"{taus.max():.2f}; less the mean tau of two models")  # fmt: skip
        beyond = _mean(concordance.beyond_models(agreed, models, some))
        rows.append(row("S4.prompts", quantity, n=len(models), note=note, **beyond))
    return rows


def end_claims(at_ends: pd.DataFrame, prompt: str) -> list[dict]:
    """Return S4.asymmetry: tau at both ends with the cut NEAR, and the difference at every cut of human.at_ends."""
    note = f"{NEAR} items at each end: of plain cuts the one that comes nearest to the paper, which states none"
    rows = [row("S4.asymmetry", end, prompt, as_published=cut[f"{end}_tau"], ci_low=cut[f"{end}_ci_low"],
                ci_high=cut[f"{end}_ci_high"], n=int(cut[f"{end}_items"]), note=note)
            for cut in at_ends[at_ends["cut"] == NEAR].to_dict("records") for end in ("high", "low")]  # fmt: skip
    note = "tau among the highest and among the lowest items, high minus low"
    return rows + [row("S4.asymmetry", f"difference_{cut['cut']}", prompt, corrected=cut["difference"],
                       ci_low=cut["difference_ci_low"], ci_high=cut["difference_ci_high"], p=cut["difference_p"],
                       n=int(cut["cut"]), note=note) for cut in at_ends.to_dict("records")]  # fmt: skip


def matched_claims(by_prompt: Mapping[str, Measured]) -> list[dict]:
    """Return S4.asymmetry by matched pairs. `by_prompt`: prompt -> as from matched.matched."""
    rows = []
    for prompt, difference in by_prompt.items():
        mean = difference.mean
        note = (f"pairs at equal distance and on equally many matches; these very models: {mean.estimate:.3f} "
                f"[{mean.these_low:.3f}, {mean.these_high:.3f}]")  # fmt: skip
        rows.append(row("S4.asymmetry", "matched", prompt, n=mean.n, note=note, **_mean(mean)))
    return rows


def reliability_claims(ratings: pd.DataFrame) -> list[dict]:
    """Return S4.reliability of people's Elo ratings: of all items, and of human.groups_of_matches."""
    note = "at best: the error variance is the smallest possible for so many matches"
    parts = {"all items": ratings.index} | human.groups_of_matches(ratings["matches"])
    rows = []
    for part, items in parts.items():
        share, low, high = human.elo_reliability(ratings.loc[items, "elo"], ratings.loc[items, "matches"])
        rows.append(row("S4.reliability", part, corrected=share, ci_low=low, ci_high=high, n=len(items), note=note))
    return rows


def together_claims(people: pd.Series, rewards: Mapping[str, pd.DataFrame]) -> list[dict]:
    """Return S4.together: agreement of people with the models' mean ranking, and Kendall's W of the models."""
    chance = 1 / len(next(iter(rewards.values())).columns)
    statistics = {"people with the mean ranking": (human.tau_with_mean_rank, 0.0),
                  "Kendall's W": (human.kendalls_w, chance)}  # fmt: skip
    return [row("S4.together", name, prompt, n=len(people), **_mean(together))
            for prompt, table in rewards.items() for name, (statistic, null) in statistics.items()
            for together in [human.of_all_models(statistic, people, table, null)]]  # fmt: skip


# --- undervalued --------------------------------------------------------------------------------------------------


def kind_claims(by_kind: Mapping[str, pd.DataFrame], raw: Mapping[str, pd.Series]) -> list[dict]:
    """Return S4.undervalued of each kind and prompt. by_kind, raw: prompt -> as from kinds.by_kind, kinds.raw_kinds."""
    note = ("share of items that people rank alike and models above one of the kind; as published: by raw "
            "discrepancy from items of no kind (both .5 by chance)")  # fmt: skip
    rows = []
    for prompt, table in by_kind.items():
        for kind in table[table["kind"].isin(CLAIM_OF)].itertuples():
            claim, as_published = CLAIM_OF[kind.kind], raw[prompt][kind.kind]
            rows.append(row(claim, "above", prompt, as_published=as_published, corrected=kind.above, n=kind.items,
                            ci_low=kind.ci_low, ci_high=kind.ci_high, p=kind.p, note=note))  # fmt: skip
            rows.append(row(claim, "models", prompt, corrected=kind.models, ci_low=kind.count_low,
                            ci_high=kind.count_high, n=kind.of_models,
                            note="models that undervalue the kind; exact interval for models like these"))  # fmt: skip
    return rows


def minority_claims(values: Mapping[str, pd.DataFrame], kinds: pd.Series) -> list[dict]:
    """Return S4.minorities: identity terms of marginalised groups less the others, by two published lists.

    `values`: prompt -> kinds.undervalued_kinds. `kinds`: item -> kind. Each list has a row per prompt, one for the mean
    over prompts, and one for the mean in which prompts are a sample, too.
    """
    rows = []
    identity = {prompt: table[kinds.loc[table.index] == "identity"] for prompt, table in values.items()}
    for column in ("minority", "protected"):
        gaps = {prompt: kinds_.between_groups(some, kinds_.in_list(some.index, column))
                for prompt, some in identity.items()}  # fmt: skip
        means: dict[str, Crossed | ThreeFactors] = {prompt: gap.mean for prompt, gap in gaps.items()}
        means["mean"] = Measured(sum(gap.values for gap in gaps.values()) / len(gaps),
                                 sum(gap.influence for gap in gaps.values()) / len(gaps)).mean  # fmt: skip
        if len(gaps) > 1:
            means["mean, prompts a sample"] = three_factors(
                np.stack([gap.values for gap in gaps.values()], -1),
                np.stack([gap.influence for gap in gaps.values()], -1),
            )
        for name, mean in means.items():
            prompt = name if name in values else ""
            quantity = f"difference by {column}" + ("" if prompt else f", {name}")
            rows.append(row("S4.minorities", quantity, prompt, n=mean.n, **_mean(mean)))
    return rows


def factor_claims(values: Mapping[str, pd.DataFrame], kinds: pd.Series) -> list[dict]:
    """Return S4.factors of each kind: the share above with prompts as a sample, and the factors' shares of variance."""
    rows = []
    for kind in sorted(set(kinds) & set(CLAIM_OF)) if len(values) > 1 else ():
        scores = np.stack([table[kinds.loc[table.index] == kind] for table in values.values()], -1)
        if len(scores) < 2 or scores.shape[1] < 2:
            continue
        parts = scores.mean(axis=0), mean_influence(scores)
        mean, (low, high) = three_factors(*parts, null=0.5), share_intervals(*parts)
        alone = ", ".join(f"{name} {share:.2f}" for name, share in mean.of_score.items())
        note = f"shares of a single value: {alone}"
        rows.append(row("S4.factors", f"above: {kind}", n=mean.n, note=note, **_mean(mean)))
        rows += [row("S4.factors", f"share of {name}: {kind}", corrected=share, ci_low=low[name], ci_high=high[name],
                     n=mean.n, note="of the variance of the mean; interval over items and models")
                 for name, share in mean.of_mean[low.index].items()]  # fmt: skip
    return rows


def places_of_third(people: pd.Series, rewards: Mapping[str, pd.DataFrame], resamples: int = 200) -> pd.DataFrame:
    """Return the place of the paper's third item among the most undervalued, per prompt and aggregate: for rows_of.

    The first aggregate is the paper's, so its position is as_published. The 95% interval is over models drawn with
    replacement. The same draws give the two-sided p of a position beyond PLACE.
    """
    rows, quantity = [], f"position_{THIRD.lower().replace(' ', '_')}"
    for prompt, of_prompt in rewards.items():
        for aggregate in human.AGGREGATES:
            place = human.discrepancies(people, of_prompt, aggregate).loc[THIRD]
            draws = human.positions_over_models(people, of_prompt, THIRD, aggregate, resamples)
            ci_low, ci_high = resampling.interval(draws)
            beyond, within = (draws > PLACE).sum(), (draws <= PLACE).sum()
            number = "as_published" if aggregate == human.AGGREGATES[0] else "corrected"
            note = f"aggregate: {aggregate}; beyond regression to the mean {place['surprise_position']:.0f}."
            rows.append({"quantity": quantity, "prompt": prompt, "note": note, number: int(place["position"]),
                         "ci_low": ci_low, "ci_high": ci_high, "n": len(people),
                         "p": min(1.0, 2 * (1 + min(beyond, within)) / (1 + len(draws)))})  # fmt: skip
    return pd.DataFrame(rows)


# --- the paper's items --------------------------------------------------------------------------------------------


def data_claims(ratings: pd.DataFrame) -> list[dict]:
    """Return S4.data from ratings by item: the numbers of items, comparisons, matches and words."""
    words, matches = pd.Series(ratings.index.str.split().str.len().to_numpy()), ratings["matches"]
    facts = {"items": len(ratings), "comparisons": matches.sum() / 2, "matches_mean": matches.mean(),
             "matches_sd": matches.std(), "words_mean": words.mean(), "words_sd": words.std(),
             "matches_most": matches.max(), "matches_fewest": matches.min()}  # fmt: skip
    notes = {
        f"matches_{end}": ", ".join(ratings.index[matches == facts[f"matches_{end}"]]) for end in ("most", "fewest")
    }
    return [row("S4.data", name, as_published=fact, n=len(ratings), note=notes.get(name, ""))
            for name, fact in facts.items()]  # fmt: skip


def file_claims() -> list[dict]:
    """Return S4.files: how many of the authors' files repeat another file byte for byte."""
    files = downloads.registry()
    files = files[files["repository"].str.startswith("brchristian/")]
    repeated = files[files.duplicated("git_blob_id", keep=False)]
    same = [" = ".join(Path(path).name for path in paths) for _, paths in repeated.groupby("git_blob_id")["path"]]
    return [row("S4.files", "files that repeat another", corrected=len(repeated) - len(same), n=len(files),
                note="equal git blob ids: " + "; ".join(same))]  # fmt: skip


def named_claims(people: pd.Series, rewards: pd.DataFrame, among: pd.Index, prompt: str) -> list[dict]:
    """Return S4.items: the items that section 4.2 names (kinds.NAMED), together and each. `among`: items of no kind."""
    values = kinds_.undervalued(people, rewards, list(kinds_.NAMED), among)
    places = human.discrepancies(people, rewards, human.AGGREGATES[0])
    together = {"n": len(values), "note": "named for their discrepancy, so no sample of anything"}
    fields = [("above", values.mean(), together)]
    for item, of_models in values.iterrows():
        place = places.loc[item]
        note = (f"people rank it {place['people_rank']:.0f}, models {place['models_rank']:.0f} of {len(people)}: "
                f"{place['position']:.0f}. among the most undervalued, {place['surprise_position']:.0f}. beyond "
                "regression to the mean")  # fmt: skip
        each = {"n": len(of_models), "note": note, "as_published": place["difference"]}
        fields.append((f"above: {item}", of_models, each))
    rows = []
    for quantity, of_models, others in fields:
        mean, low, high = kinds_.mean_over_models(of_models)
        rows.append(row("S4.items", quantity, prompt, corrected=mean, ci_low=low, ci_high=high, **others))
    return rows


def top_claims(rewards: pd.DataFrame, prompt: str) -> list[dict]:
    """Return S4.tops: how many models rank an item first, and the places of two models' favourites, with ties noted."""
    rows, best = [], human.ranks(rewards).min()
    for quantity in quantities().query("claim == 'S4.tops'").itertuples():
        if quantity.model not in ("", *rewards):
            continue
        item = rewards.loc[quantity.item]
        is_first = item == rewards.max()
        if quantity.model:
            of_model = rewards[quantity.model]
            number, n = 1 + int((of_model > item[quantity.model]).sum()), len(rewards)
            tied = int((of_model == item[quantity.model]).sum()) - 1
            note = f"tied for first with {tied} other{'s' if tied > 1 else ''}" if tied else "first alone"
            note = f"{quantity.item}: {note if is_first[quantity.model] else 'not first'}"
        else:
            number, n = int(is_first.sum()), rewards.shape[1]
            note = f"{int((is_first & (best == 1)).sum())} of them rank it first alone, the others tied for first"
        rows.append(row("S4.tops", quantity.quantity, prompt, quantity.model, as_published=number, n=n, note=note))
    return rows


def affective_claims(people: pd.Series, rewards: pd.DataFrame, prompt: str) -> list[dict]:
    """Return S4.affective: how many of the items that the paper names are in the top 1% by the models' median."""
    named = [item for item in AFFECTIVE if item in rewards.index]
    places = human.ranks(-human.models_rank(people, rewards, human.AGGREGATES[1]))[named]
    above = int((places <= len(rewards) / 100).sum())
    listed = ", ".join(f"{item} {place:.0f}." for item, place in places.items())
    note = f"places by the models' median of {len(rewards)}: {listed}; named because they are high, so no sample"
    return [row("S4.affective", "named_among_the_top", prompt, corrected=above, n=len(named), note=note)]


def holocaust_claims(people: pd.Series, rewards: pd.DataFrame, prompt: str) -> list[dict]:
    """Return S4.holocaust: its rank by people, and how many models rank it above the median of the LOWEST items."""
    rank, places = human.ranks(people)[HOLOCAUST], kinds_.place_among_lowest(people, rewards, HOLOCAUST, LOWEST)
    above = int((places < (LOWEST + 1) / 2).sum())
    low, high = kinds_.count_interval(above, len(places))
    note = (f"of the {LOWEST} items that people rate lowest, models rank it {places.min():.0f}. to "
            f"{places.max():.0f}., median {places.median():.0f}.; exact interval for models like these")  # fmt: skip
    return [
        row("S4.holocaust", "people_rank", prompt, as_published=int(rank), n=len(people)),
        row("S4.holocaust", "models_above_the_lowest", prompt, corrected=above, ci_low=low, ci_high=high,
            n=len(places), note=note),
    ]  # fmt: skip


def profile_claims(leans: Mapping[str, Measured]) -> list[dict]:
    """Return S2.individualistic: how much more R-Lla-3B favours agency over communion than R-Gem-2B.

    `leans`: prompt -> profiles.against of both lists. There is no claim where a model is missing.
    """
    rows = []
    for prompt, lean in leans.items():
        if {"R-Lla-3B", "R-Gem-2B"} <= set(lean.values.index):
            gap = between_two(lean, "R-Lla-3B", "R-Gem-2B")
            note = ("nouns of agency minus nouns of communion, in standard deviations of reward, at equal frequency, "
                    "length and sentiment; R-Lla-3B less R-Gem-2B")  # fmt: skip
            rows.append(row("S2.individualistic", "agency_over_communion", prompt, corrected=gap.estimate,
                            ci_low=gap.ci_low, ci_high=gap.ci_high, n=int(gap.n), note=note))  # fmt: skip
    return rows


# --- paper | published | ours -------------------------------------------------------------------------------------


def printed_taus(judged: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """Return agreement in the paper, on the published scores and here.

    Columns: `claim, quantity, paper, published GE, published GW, ours`. `judged`: the claims of this notebook. Its
    claims under `prompt` are ours.
    """
    asked_for = [("S4.tau.human", name) for name in ("mean", "sd", "min", "max")] + [("S4.tau.models", "mean")]
    asked_for += [("S4.asymmetry", "high"), ("S4.asymmetry", "low")]
    table = pd.DataFrame(asked_for, columns=["claim", "quantity"])
    table["paper"] = [declared(*names, "GE").printed for names in asked_for]
    published = published_table("claims")
    for name, claims, of_prompt in (("published GE", published, "GE"), ("published GW", published, "GW"),
                                    ("ours", judged, prompt)):  # fmt: skip
        if len(claims):  # else nothing was published here
            same = claims[claims["prompt"] == of_prompt].drop_duplicates(["claim", "quantity"])
            numbers = same.set_index(["claim", "quantity"])[["corrected", "as_published"]].astype(float)
            numbers = numbers["corrected"].fillna(numbers["as_published"]).reindex(asked_for)
            table[name] = ["" if np.isnan(number) else f"{number:.2f}" for number in numbers]
    return table


def named_ranks(ours: pd.DataFrame, unrated: pd.Index) -> pd.DataFrame:
    """Return the items that section 4 names, with their ranks by people and models on the published scores and here.

    `ours`: human.discrepancies, whose items may be words of small letters. `unrated`: items that people did not rate,
    which are left out. Position 1 is the most undervalued. Missing items are blank.
    """
    mine = ours.drop(index=unrated, errors="ignore").rename(str.lower)
    sources = {"published": (published_table("items/06b_discrepancies", "item"), str), "ours": (mine, str.lower)}
    columns = {"people": "people_rank", "models": "models_rank", "position": "position"}
    rows = []
    for item in [*kinds_.NAMED, HOLOCAUST, *FIRST]:
        printed = PRINTED_RANKS.get(item, "a rank (number not transcribed)")
        cells = {"item": item, "named for": kinds_.NAMED.get(item, "its place"), "the paper prints": printed}
        for source, (table, spelled) in sources.items():
            ranks = table.loc[spelled(item)] if spelled(item) in table.index else None
            cells |= {f"{source}: {name}": "" if ranks is None else f"{ranks[column]:,.0f}"
                      for name, column in columns.items()}  # fmt: skip
        rows.append(cells)
    return pd.DataFrame(rows)


def cell_claims(judged: pd.DataFrame, part: str) -> list[dict]:
    """Return S4.cells, the share of the section's printed numbers that the paper's recipe gives, in one row or none.

    `judged`: as from claims.judged. `part`: what these numbers are about.
    """
    printed = judged[judged["paper"].notna() & judged["as_published"].notna() & judged["prompt"].isin(["", "GE"])]
    rows = []
    for each in printed.itertuples():
        how = declared(each.claim, each.quantity, each.prompt, each.model)
        within = how.within if how.within == how.within else 0  # a bound has none
        agrees = abs(each.as_published - float(each.paper)) <= within * (1 + 1e-9)
        named = ", ".join(filter(None, [each.quantity, each.model]))
        rows.append({"row": each.claim, "column": named, "paper": str(how.printed), "agrees": agrees,
                     "as_published": f"{each.as_published:.8g}"})  # fmt: skip
    return cells.cell_claims("S4.cells", {part: pd.DataFrame(rows)} if rows else {}, "GE", ["items"])
