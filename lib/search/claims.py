"""The claims of section 5: what searches found, how often that is the optimum, and what the printed replies hold.

The paper measures no search, and its scores of Tables 4 and 5 are not transcribed here.
"""

from collections.abc import Callable, Iterable, Mapping, Set

import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ..claims.claims import paper_table, row  # type: ignore[attr-defined]
from .optimality import OURS, PUBLISHED_METHODS

PRINTED = "tables (printed)"
SUBJECTIVE = r"(?i:subjectiv|disqualified|never measurable|no objectively|no universal)"


def objective_claims(nickname: str, compared: Mapping[int, pd.DataFrame]) -> list[dict]:
    """Return S5.objective: the best rewards by the number of tokens of a reply, from compare_with_published."""
    note = "best reward over all starts; as published: that code's search, its pessimal gradient of the wrong sign"
    return [
        row("S5.objective", f"{direction} reward, {n} tokens", prompt, nickname, note=note,
              as_published=best["published"], corrected=best["ours"])
        for n, table in compared.items() for (prompt, direction), best in table.iterrows()
    ]  # fmt: skip


def optimality_claims(summary: pd.DataFrame, budgets: Iterable[int] = (1024, 2048, 4096)) -> list[dict]:
    """Return S5.optimality: the share of searches at the true optimum, at those budgets that were measured.

    summary: as from optimality.summarise by method, direction and budget.
    """
    note = "share of searches at the true optimum; interval over models and prompts"
    summary, rows = summary.sort_index(), []
    measured = set(summary.index.get_level_values("budget"))
    for direction, method in PUBLISHED_METHODS.items():
        for budget in sorted(measured.intersection(budgets)):
            ours, published = (summary.loc[(name, direction, budget)] for name in (OURS, method))
            rows.append(row("S5.optimality", f"{direction}, {budget} replies scored", note=note,
                              as_published=published["share"], corrected=ours["share"], ci_low=ours["ci_low"],
                              ci_high=ours["ci_high"], n=int(ours["n"])))  # fmt: skip
    return rows


def loop_claims(nickname: str, loops: pd.DataFrame) -> list[dict]:
    """Return S5.loops: the mean share of steps of the original search that loop, by the number of tokens of a reply."""
    rows = []
    for n, searches in loops.groupby("tokens"):
        mean, error = searches["loops"].mean(), stats.sem(searches["loops"])
        half = stats.t.ppf(0.975, len(searches) - 1) * error
        rows.append(row("S5.loops", f"{n} tokens", model=nickname, corrected=mean, ci_low=max(0.0, mean - half),
                        ci_high=min(1.0, mean + half), n=len(searches),
                        note="share of steps that end on an earlier reply; interval over searches"))  # fmt: skip
    return rows


def reply_claims(is_code: Callable[[str], bool]) -> list[dict]:
    """Return how many printed replies have a property (S5.code, S5.subjective, S5.extreme, S5.emoji, S5.grammar).

    `is_code` says whether a text looks like code. Where the paper calls a number of replies many, the claim has an
    exact interval, as if replies were drawn at random, and p against half of the replies.
    """
    short, long = paper_table("table_4"), paper_table("table_5")
    long = long.assign(prompt=long["prompt"].str.removesuffix(" ever"))
    both, extremes = pd.concat([short, long], ignore_index=True), ("best", "worst")
    by_search = "scores are not transcribed: pessimal and optimal by the direction of the search"
    has_emoji = short["images"].gt(0)
    pessimal_emoji = has_emoji[short["direction"] == "pessimal"].sum()
    counted = [  # claim, quantity, replies, whether each has the property, prompts, note, whether it is called many
        ("S5.code", "pessimal_with_code", both, both["result"].map(is_code), extremes,
         f"Tables 4 and 5; {by_search}", True),
        ("S5.subjective", "optimal_that_are_subjective", long, long["result"].str.contains(SUBJECTIVE), extremes,
         f"Table 5; {by_search}", False),
        ("S5.extreme", "pessimal_with_jews", short, short["result"].str.contains(r"\bJews\b"), ("greatest", "worst"),
         f"Table 4; {by_search}", False),
        ("S5.emoji", "optimal_with_emoji", short, has_emoji, ("",),
         f"Table 4, emoji as pictures; {pessimal_emoji} of as many pessimal replies have one", True),
        ("S5.grammar", "ungrammatical_optimal", long, long["grammatical"].eq("no"), ("",),
         "Table 5, read by us: could it stand in an edited text?", True),
    ]  # fmt: skip
    rows = []
    for claim, quantity, replies, has_property, prompts, note, is_many in counted:
        of_direction = replies["direction"] == ("optimal" if "optimal" in quantity else "pessimal")
        for prompt in prompts:  # "" stands for all
            chosen = of_direction & (replies["prompt"].eq(prompt) | (prompt == ""))
            hits, n = int(has_property[chosen].sum()), int(chosen.sum())
            fields = _exact(hits, n) if is_many else {"n": n}
            rows.append(row(claim, quantity, prompt, as_published=hits, population=PRINTED, note=note, **fields))
    return rows


def single_word_claims(rewards: Mapping[str, pd.DataFrame], own: Set[str], population: str = "") -> list[dict]:
    """Return S5.lower: in how many models the best word for worst scores below those for best and for greatest.

    rewards: greatest, best and worst -> words x models, in each model's own unit.
    """
    highest = pd.DataFrame({prompt: table.max() for prompt, table in rewards.items()})
    below = int(((highest["worst"] < highest["best"]) & (highest["worst"] < highest["greatest"])).sum())
    note = "single words; the scores in Tables 4 and 5 are not transcribed"
    exact = _exact(below, len(highest))
    return [row("S5.lower", "models", own=own, corrected=below, population=population, note=note, **exact)]


def _exact(count: int, n: int) -> dict:
    """Return n, the exact 95% interval of a count out of n (Clopper and Pearson), and p against half of them."""
    low, high = proportion_confint(count, n, method="beta")
    return {"n": n, "ci_low": n * float(low), "ci_high": n * float(high), "p": float(stats.binomtest(count, n).pvalue)}
