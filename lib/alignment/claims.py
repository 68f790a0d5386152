"""The claims of section 4: agreement of models with people and with each other, and what models undervalue.

Our numbers are held against the paper's only where the items are its own, EloEverything's; on others they are about
something else. What the paper says of single items is asked only there.
"""

from collections.abc import Mapping, Set

import pandas as pd

from lib import rankings, resampling
from lib.alignment import human
from lib.claims import Claim, papers_own, quantities, state
from lib.collection import Collection

THIRD, HOLOCAUST = "Black people", "The Holocaust"


def alignment_claims(
    study: Collection,
    *,
    ratings: pd.DataFrame,
    rewards: Mapping[str, pd.DataFrame],
    summaries: pd.DataFrame,
    means: pd.DataFrame,
    across: pd.DataFrame,
    at_ends: Mapping[str, pd.DataFrame],
    kinds: tuple[pd.DataFrame, pd.DataFrame],
    places: pd.DataFrame,
    ranked: pd.DataFrame,
    resamples: int = 50,
) -> list[Claim]:
    """All claims of section 4; the first prompt of `rewards` is that of the claims about one prompt.

    ratings: by item, with `matches`. rewards: prompt -> items x models. summaries: prompts x human.summary. means:
    prompts x human.matrix_means. across: human.across_prompts. at_ends: prompt -> human.at_ends. kinds: human.by_kind
    of differences and of surprises. places: places_of_third. ranked: items x (people, models). resamples: for the
    interval of the mean tau of models. Without the paper's items nothing is claimed of single items.
    """
    own, main = papers_own(study), next(iter(rewards))
    claims = people_claims(summaries, len(ratings), own) + model_claims(rewards, means, own, resamples)
    claims += prompt_claims(across) + end_claims(at_ends, len(ratings), own) + kind_claims(*kinds, main, own)
    if "items" in own:
        claims += data_claims(ratings, own) + top_claims(rewards[main], main, own)
        claims += place_claims(places, len(ratings), own) + holocaust_claims(ranked, main, own)
    return claims


def data_claims(ratings: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S4.data: how many items, their matches and words; ratings: by item, with `matches`."""
    words = pd.Series(ratings.index.str.split().str.len().to_numpy())
    facts = {"items": len(ratings), "matches_mean": ratings["matches"].mean(), "matches_sd": ratings["matches"].std(),
             "words_mean": words.mean(), "words_sd": words.std()}  # fmt: skip
    return [state("S4.data", name, own=own, as_published=fact, n=len(ratings)) for name, fact in facts.items()]


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


def model_claims(
    rewards: Mapping[str, pd.DataFrame], means: pd.DataFrame, own: Set[str], resamples: int = 50
) -> list[Claim]:
    """S4.tau.models: the mean tau of models, its interval by items; means: prompts x human.matrix_means."""
    claims = []
    for prompt, row in means.iterrows():
        draws = rankings.tau_resamples(rewards[prompt], resamples)[1]
        ci_low, ci_high = resampling.interval(draws.mean(axis=1))
        claims.append(state("S4.tau.models", "mean", prompt, own=own, as_published=row["whole"], corrected=row["pairs"],
                            ci_low=ci_low, ci_high=ci_high, n=draws.shape[1],
                            note="as published: the whole matrix, its diagonal included"))  # fmt: skip
    return claims


def prompt_claims(across: pd.DataFrame) -> list[Claim]:
    """S4.prompts: each model with itself under another prompt, as from human.across_prompts; not testable."""
    note = "mean over models, from {:.2f} to {:.2f}; the numbers of Fig A6 are not at hand"
    return [
        state("S4.prompts", f"tau {pair}", corrected=taus.mean(), n=len(taus), note=note.format(taus.min(), taus.max()))
        for pair, taus in across.items()
    ]


def top_claims(rewards: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.tops: how many models put the paper's item first, and whether two models do so with theirs."""
    first, claims = human.tops(rewards), []
    for row in quantities().query("claim == 'S4.tops'").itertuples():
        its_models = first[first["item"] == row.item].set_index("model")["tied"]
        if row.model:
            tied, note = its_models.get(row.model, 0), "0: it is not first; 2: one other item has the same reward"
            counts = {"as_published": int(tied), "n": len(rewards), "note": f"{row.item}; {note}"}
        else:
            counts = {"as_published": len(its_models), "n": rewards.shape[1]}
        claims.append(state("S4.tops", row.quantity, prompt, row.model, own=own, **counts))
    return claims


def end_claims(at_ends: Mapping[str, pd.DataFrame], n: int, own: Set[str]) -> list[Claim]:
    """S4.asymmetry: tau at both ends for every cut of the first prompt; their difference for every prompt.

    at_ends: prompt -> human.at_ends, the last cut being the two halves, the second the one nearest to the paper.
    """
    main = next(iter(at_ends))
    claims, halves = [], at_ends[main].iloc[-1]
    for row in at_ends[main].to_dict("records"):
        note = f"cut: {row['cut']} items at each end (its interval); corrected: the two halves"
        for end in ("high", "low"):
            claims.append(state("S4.asymmetry", end, main, own=own, as_published=row[f"{end}_tau"],
                                corrected=halves[f"{end}_tau"], ci_low=row[f"{end}_ci_low"],
                                ci_high=row[f"{end}_ci_high"], n=int(row[f"{end}_items"]), note=note))  # fmt: skip
    return claims + [_difference(prompt, rows, n, own) for prompt, rows in at_ends.items()]


def _difference(prompt: str, rows: pd.DataFrame, n: int, own: Set[str]) -> Claim:
    near, halves = rows.iloc[1], rows.iloc[-1]
    return state("S4.asymmetry", "difference", prompt, own=own, as_published=near["difference"],
                 corrected=halves["difference"], ci_low=halves["difference_ci_low"],
                 ci_high=halves["difference_ci_high"], n=n,
                 note=f"high less low; as published: {near['cut']:.0f} items at each end, the plain cut that comes "
                 "nearest to the paper; corrected: the two halves")  # fmt: skip


def kind_claims(raw: pd.DataFrame, beyond: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.undervalued by kind: human.by_kind of differences (raw) and of surprises (beyond), the same kinds."""
    note = ("probability that an item of the kind is undervalued more than one of no kind (.5 by chance); corrected: "
            "beyond regression to the mean")  # fmt: skip
    return [
        state("S4.undervalued", f"above_{row.kind.replace(' ', '_')}", prompt, own=own, as_published=unadjusted.above,
              corrected=row.above, judged=(unadjusted.ci_low, row.ci_low), ci_low=row.ci_low, ci_high=row.ci_high,
              n=row.items, note=note)
        for row, unadjusted in zip(beyond.itertuples(), raw.itertuples(), strict=True)
    ]  # fmt: skip


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
    """S4.undervalued: the place of one item, as from places_of_third; the first aggregate is the paper's code's."""
    quantity, claims = f"position_{THIRD.lower().replace(' ', '_')}", []
    for prompt, rows in places.groupby("prompt", sort=False):
        published = rows["position"].iloc[0]
        for row in rows.to_dict("records"):
            ours = "as_published" if row["aggregate"] == human.AGGREGATES[0] else "corrected"
            note = f"aggregate: {row['aggregate']}; by surprise {row['by surprise']:.0f}; interval over models"
            numbers = {ours: int(row["position"]), "ci_low": row["ci_low"], "ci_high": row["ci_high"], "n": n}
            judged = published, row["position"]
            claims.append(state("S4.undervalued", quantity, prompt, own=own, judged=judged, note=note, **numbers))
    return claims


def holocaust_claims(ranked: pd.DataFrame, prompt: str, own: Set[str]) -> list[Claim]:
    """S4.holocaust: its rank by people, and how many models do not have it in the worst tenth.

    ranked: items x (people, then models), all items.
    """
    by_people, items = int(ranked.loc[HOLOCAUST, human.PEOPLE]), len(ranked)
    by_models = ranked.loc[HOLOCAUST].drop(human.PEOPLE)
    outside = int((by_models < 0.9 * items).sum())
    return [
        state("S4.holocaust", "people_rank", prompt, own=own, as_published=by_people, n=items),
        state("S4.holocaust", "n_models_outside_worst_tenth", prompt, own=own, as_published=outside, n=len(by_models),
              note=f"models' ranks {by_models.min():.0f} to {by_models.max():.0f}"),
    ]  # fmt: skip
