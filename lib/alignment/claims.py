"""The claims of section 4: agreement of models with people and with each other, and what models undervalue.

What the paper prints is asked of its own items alone, EloEverything's; on others the numbers are about something else,
and nothing is said of single items. Intervals are for items and models like these, both drawn at random (lib.crossed);
of a single item, which nobody drew, for models like these.
"""

from collections.abc import Mapping, Set

import pandas as pd

from lib import resampling
from lib.alignment import concordance, human
from lib.alignment import kinds as kinds_
from lib.alignment.concordance import Agreement
from lib.alignment.matched import Matched
from lib.alignment.profiles import Lean, between_two
from lib.claims import Claim, declared, papers_own, quantities, state
from lib.collection import Collection
from lib.crossed import Crossed

AFFECTIVE = ("Unconditional love", "Imagination", "Hope", "Happiness")
THIRD, HOLOCAUST, LOWEST = "Black people", "The Holocaust", 100
NEAR = 100  # items at each end: the plain cut whose taus come nearest to the paper's


def alignment_claims(
    study: Collection,
    *,
    agreed: Agreement,
    rewards: Mapping[str, pd.DataFrame],
    people: pd.Series,
    summaries: pd.DataFrame,
    at_ends: pd.DataFrame,
    matched: Mapping[str, Matched],
    kinds: Mapping[str, pd.DataFrame],
    raw: Mapping[str, pd.Series],
) -> list[Claim]:
    """The claims of section 4 that can be asked of any items; the first prompt of `rewards` is the main one.

    agreed: of concordance.together. rewards: prompt -> items x models. summaries: prompts x human.summary. at_ends: of
    the main prompt. matched: prompt -> matched. kinds: prompt -> kinds.by_kind; raw: prompt -> kinds.raw_kinds.
    """
    own, models = papers_own(study), list(next(iter(rewards.values())))
    claims = people_claims(summaries, len(people), own) + model_claims(agreed, list(rewards), models, own)
    claims += prompt_claims(agreed, list(rewards), models, own)
    claims += end_claims(at_ends, next(iter(rewards)), own) + matched_claims(matched, own)
    claims += [claim for prompt, table in kinds.items() for claim in kind_claims(table, raw[prompt], prompt, own)]
    return asked(claims)


def item_claims(
    study: Collection, *, ratings: pd.DataFrame, rewards: Mapping[str, pd.DataFrame], among: pd.Index,
    places: pd.DataFrame,
) -> list[Claim]:  # fmt: skip
    """The claims about the paper's own items: the data, favourites, The Holocaust, and the nine that it names.

    ratings: by item, with elo and matches. among: items of no kind. places: places_of_third.
    """
    own, main = papers_own(study), next(iter(rewards))
    people, first = ratings["elo"], rewards[main]
    claims = data_claims(ratings, own) + top_claims(first, main, own) + holocaust_claims(people, first, main, own)
    claims += named_claims(people, first, among, main, own) + place_claims(places, len(people), own)
    claims += affective_claims(people, first, main, own)
    return asked(claims)


def asked(claims: list[Claim]) -> list[Claim]:
    """Those of the claims that numbers.csv declares: the paper says something of this quantity and prompt."""
    return [one for one in claims if declared(one.claim, one.quantity, one.prompt, one.model) is not None]


def _ends(found: Crossed) -> dict:
    """The interval and the p of a crossed mean, as `state` takes them."""
    return {"ci_low": found.ci_low, "ci_high": found.ci_high, "p": found.p}


# --- agreement ----------------------------------------------------------------------------------------------------


def people_claims(summaries: pd.DataFrame, n: int, own: Set[str]) -> list[Claim]:
    """S4.tau.human: mean, sd, min and max of the models' taus with people; summaries: prompts x human.summary."""
    claims = []
    for prompt, row in summaries.iterrows():
        note = "the prompt that the paper's text names" if prompt == "GE" else ""
        for name in ("mean", "sd", "min", "max"):
            interval = {"ci_low": row["ci_low"], "ci_high": row["ci_high"]} if name == "mean" else {}
            numbers = {"as_published": row[name], "n": n} | interval
            claims.append(state("S4.tau.human", name, prompt, own=own, note=note, **numbers))
    return claims


def model_claims(agreed: Agreement, prompts: list[str], models: list[str], own: Set[str]) -> list[Claim]:
    """S4.tau.models: the mean tau of two different models, and as published, with each model's tau with itself."""
    claims = []
    for prompt in prompts:
        columns = [concordance.column(prompt, name) for name in models]
        found = concordance.mean_between(agreed, columns)
        whole = human.matrix_means(agreed.taus.loc[columns, columns])["whole"]
        pairs = len(models) * (len(models) - 1) // 2
        claims.append(state("S4.tau.models", "mean", prompt, own=own, as_published=whole, corrected=found.estimate,
                            ci_low=found.ci_low, ci_high=found.ci_high, n=pairs,
                            note="as published: the whole matrix, its diagonal included"))  # fmt: skip
    return claims


def prompt_claims(agreed: Agreement, prompts: list[str], models: list[str], own: Set[str]) -> list[Claim]:
    """S4.prompts: how much more a model agrees with itself under another prompt than with other models.

    The mean over all pairs of prompts, and each pair.
    """
    across, claims = human.across_prompts(agreed, models, prompts), []
    for quantity, some in {"beyond models": prompts, **{f"beyond models: {p}": p.split(", ") for p in across}}.items():
        found = concordance.beyond_models(agreed, models, some)
        itself = across[quantity.split(": ")[1]] if ": " in quantity else across.mean(axis=1)
        note = f"a model with itself under another prompt: tau {itself.mean():.2f}, from {itself.min():.2f} to " \
               f"{itself.max():.2f}; less the mean tau of two models"  # fmt: skip
        claims.append(state("S4.prompts", quantity, own=own, corrected=found.estimate, n=found.models, note=note,
                            **_ends(found)))  # fmt: skip
    return claims


# --- two ends -----------------------------------------------------------------------------------------------------


def end_claims(at_ends: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.asymmetry: tau at both ends for the cut that is NEAR the paper's numbers; their difference for every cut."""
    claims = []
    for row in at_ends[at_ends["cut"] == NEAR].to_dict("records"):
        note = f"{NEAR} items at each end: of plain cuts the one that comes nearest to the paper, which states none"
        for end in ("high", "low"):
            claims.append(state("S4.asymmetry", end, prompt, own=own, as_published=row[f"{end}_tau"],
                                ci_low=row[f"{end}_ci_low"], ci_high=row[f"{end}_ci_high"],
                                n=int(row[f"{end}_items"]), note=note))  # fmt: skip
    for row in at_ends.to_dict("records"):
        claims.append(state("S4.asymmetry", f"difference_{row['cut']}", prompt, own=own, corrected=row["difference"],
                            ci_low=row["difference_ci_low"], ci_high=row["difference_ci_high"], n=int(row["cut"]),
                            note="tau among so many items at either end, high less low"))  # fmt: skip
    return claims


def matched_claims(by_prompt: Mapping[str, Matched], own: Set[str]) -> list[Claim]:
    """S4.asymmetry: share of pairs ordered as people do, upper less lower half, pairs matched; prompt -> Matched."""
    claims = []
    for prompt, matched in by_prompt.items():
        found = matched.mean
        note = (f"pairs at equal distance and on equally many matches; these very models: {found.estimate:.3f} "
                f"[{found.these_low:.3f}, {found.these_high:.3f}]")  # fmt: skip
        claims.append(state("S4.asymmetry", "matched", prompt, own=own, corrected=found.estimate, n=found.n, note=note,
                            **_ends(found)))  # fmt: skip
    return claims


# --- undervalued --------------------------------------------------------------------------------------------------

KINDS = ("identity", "nature", "technology", "sexual content")
CLAIM_OF = {kind: f"S4.undervalued.{kind.split()[0]}" for kind in KINDS}


def kind_claims(table: pd.DataFrame, raw: pd.Series, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.undervalued of each kind under one prompt. table: kinds.by_kind; raw: kinds.raw_kinds of its discrepancies."""
    claims = []
    for row in table[table["kind"].isin(CLAIM_OF)].itertuples():
        note = "share of items that people rank alike and models above one of the kind; as published: by raw " \
               "discrepancy from items of no kind (both .5 by chance)"  # fmt: skip
        claims.append(state(CLAIM_OF[row.kind], "above", prompt, own=own, as_published=raw[row.kind],
                            corrected=row.above, ci_low=row.ci_low, ci_high=row.ci_high, p=row.p, n=row.items,
                            note=note))  # fmt: skip
        claims.append(state(CLAIM_OF[row.kind], "models", prompt, own=own, corrected=row.models,
                            ci_low=row.count_low, ci_high=row.count_high, n=row.of_models,
                            note="models that undervalue the kind; exact interval for models like these"))  # fmt: skip
    return claims


def named_claims(people: pd.Series, rewards: pd.DataFrame, among: pd.Index, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.items: the nine items that section 4.2 names, together and each. among: items of no kind."""
    values = kinds_.undervalued(people, rewards, list(kinds_.NAMED), among)
    places = human.discrepancies(people, rewards, human.AGGREGATES[0])
    chosen = "named for their discrepancy, so no sample of anything"
    claims = [_named("above", values.mean(), None, len(values), prompt, own, chosen)]
    for item, row in values.iterrows():
        place = places.loc[item]
        note = (f"people rank it {place['people_rank']:.0f}, models {place['models_rank']:.0f} of {len(people)}: "
                f"{place['position']:.0f}. among the most undervalued, {place['surprise_position']:.0f}. beyond "
                "regression to the mean")  # fmt: skip
        claims.append(_named(f"above: {item}", row, place["difference"], len(row), prompt, own, note))
    return claims


def _named(
    quantity: str, of_models: pd.Series, difference: float | None, n: int, prompt: str, own: Set[str], note: str
) -> Claim:
    mean, low, high = kinds_.mean_over_models(of_models)
    return state("S4.items", quantity, prompt, own=own, as_published=difference, corrected=mean, ci_low=low,
                 ci_high=high, n=n, note=note)  # fmt: skip


def places_of_third(people: pd.Series, rewards: Mapping[str, pd.DataFrame], resamples: int = 200) -> pd.DataFrame:
    """The place among the most undervalued of the item that the paper finds third, for every prompt and aggregate.

    Columns: prompt, aggregate, position, ci_low, ci_high (95%, over models drawn with replacement), by surprise (its
    position by surprise).
    """
    rows = []
    for prompt, of_prompt in rewards.items():
        for aggregate in human.AGGREGATES:
            place = human.discrepancies(people, of_prompt, aggregate).loc[THIRD]
            draws = human.positions_over_models(people, of_prompt, THIRD, aggregate, resamples)
            ci_low, ci_high = resampling.interval(draws)
            rows.append({"prompt": prompt, "aggregate": aggregate, "position": place["position"], "ci_low": ci_low,
                         "ci_high": ci_high, "by surprise": place["surprise_position"]})  # fmt: skip
    return pd.DataFrame(rows)


def place_claims(places: pd.DataFrame, n: int, own: Set[str]) -> list[Claim]:
    """S4.undervalued.identity: the place of one item, as from places_of_third; the first aggregate is the paper's."""
    claims = []
    for row in places.to_dict("records"):
        ours = "as_published" if row["aggregate"] == human.AGGREGATES[0] else "corrected"
        note = f"aggregate: {row['aggregate']}; beyond regression to the mean {row['by surprise']:.0f}."
        numbers = {ours: int(row["position"]), "ci_low": row["ci_low"], "ci_high": row["ci_high"], "n": n}
        quantity = f"position_{THIRD.lower().replace(' ', '_')}"
        claims.append(state("S4.undervalued.identity", quantity, row["prompt"], own=own, note=note, **numbers))
    return claims


# --- the paper's items --------------------------------------------------------------------------------------------


def data_claims(ratings: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S4.data: how many items, comparisons, their matches and words; ratings: by item, with `matches`."""
    words = pd.Series(ratings.index.str.split().str.len().to_numpy())
    facts = {"items": len(ratings), "comparisons": ratings["matches"].sum() / 2,
             "matches_mean": ratings["matches"].mean(), "matches_sd": ratings["matches"].std(),
             "words_mean": words.mean(), "words_sd": words.std()}  # fmt: skip
    return [state("S4.data", name, own=own, as_published=fact, n=len(ratings)) for name, fact in facts.items()]


def top_claims(rewards: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.tops: how many models put the paper's item first, and the place of two models' own; ties are told."""
    claims, best = [], human.ranks(rewards).min()
    for row in quantities().query("claim == 'S4.tops'").itertuples():
        if row.model not in ("", *rewards):
            continue
        is_first = rewards.loc[row.item] == rewards.max()
        if row.model:
            above = int((rewards[row.model] > rewards.loc[row.item, row.model]).sum())
            tied = int((rewards[row.model] == rewards.loc[row.item, row.model]).sum()) - 1
            numbers = {"as_published": 1 + above, "n": len(rewards)}
            note = f"{row.item}: {_tied(tied) if is_first[row.model] else 'not first'}"
        else:
            numbers = {"as_published": int(is_first.sum()), "n": rewards.shape[1]}
            note = f"{int((is_first & (best == 1)).sum())} of them rank it first alone, the others tied for first"
        claims.append(state("S4.tops", row.quantity, prompt, row.model, own=own, note=note, **numbers))
    return claims


def affective_claims(people: pd.Series, rewards: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.affective: of the four items that the paper names as models' highest, those in the top 1% by the median."""
    named = [item for item in AFFECTIVE if item in rewards.index]
    places = human.ranks(-human.models_rank(people, rewards, human.AGGREGATES[1]))[named]
    above = int((places <= len(rewards) / 100).sum())
    low, high = kinds_.count_interval(above, len(named))
    told = ", ".join(f"{item} {place:.0f}." for item, place in places.items())
    return [
        state("S4.affective", "named_among_the_top", prompt, own=own, corrected=above, ci_low=low, ci_high=high,
              n=len(named), note=f"places by the models' median of {len(rewards)}: {told}; four named items are few")
    ]  # fmt: skip


def _tied(others: int) -> str:
    return f"tied for first with {others} other{'s' if others > 1 else ''}" if others else "first alone"


def holocaust_claims(people: pd.Series, rewards: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.holocaust: its rank by people, and how many models rank it above the median of the LOWEST items."""
    rank, places = human.ranks(people)[HOLOCAUST], kinds_.place_among_lowest(people, rewards, HOLOCAUST, LOWEST)
    above, models = int((places < (LOWEST + 1) / 2).sum()), len(places)
    low, high = kinds_.count_interval(above, models)
    note = (f"of the {LOWEST} items that people rate lowest, models rank it {places.min():.0f}. to "
            f"{places.max():.0f}., median {places.median():.0f}.; exact interval for models like these")  # fmt: skip
    return [
        state("S4.holocaust", "people_rank", prompt, own=own, as_published=int(rank), n=len(people)),
        state("S4.holocaust", "models_above_the_lowest", prompt, own=own, corrected=above, ci_low=low, ci_high=high,
              n=models, note=note),
    ]  # fmt: skip


# --- words --------------------------------------------------------------------------------------------------------


def profile_claims(study: Collection, leans: Mapping[str, Lean]) -> list[Claim]:
    """S2.individualistic: how much more R-Lla-3B leans to agency, against communion, than R-Gem-2B; interval by words.

    leans: prompt -> profiles.against of both lists. No claim where a model is missing.
    """
    own, claims = papers_own(study), []
    for prompt, one in leans.items():
        if not {"R-Lla-3B", "R-Gem-2B"} <= set(one.by_model.index):
            continue
        difference, low, high = between_two(one, "R-Lla-3B", "R-Gem-2B")
        note = ("nouns of agency less nouns of communion, in standard deviations of reward, at equal frequency, length "
                "and sentiment; R-Lla-3B less R-Gem-2B")  # fmt: skip
        claims.append(state("S2.individualistic", "agency_over_communion", prompt, own=own, corrected=difference,
                            ci_low=low, ci_high=high, n=len(one.influence), note=note))  # fmt: skip
    return asked(claims)
