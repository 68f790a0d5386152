"""What appendix A.1.2 claims, counted: function words among the first tokens, printed and computed, and leakage."""

from collections.abc import Mapping, Sequence, Set

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from lib.claims import THE_PAPER, Claim, paper_table, papers_own, state
from lib.collection import Collection
from lib.language import leakage
from lib.models import registry

CLAIM = "A1.logprobs"
PRINTED = "Tables A1-A3 as printed"
KINDS = {False: "pretrained", True: "instruction-tuned"}
REWARD_MODEL = "reward model"
COUNT, FIRST = "function_words_of_{}", "models_with_a_function_word_first"


def printed_function_words() -> pd.DataFrame:
    """Function words among the 20 first tokens of Tables A1-A3 as printed: one row per model and prompt.

    Columns: model, kind (pretrained, instruction-tuned), prompt, then as from leakage.first_words, without by_chance.
    """
    table = paper_table("tables_a1_to_a5")
    table = table[(table["end"] == "top") & table["table"].isin(["A1", "A2", "A3"])].sort_values(["table", "position"])
    table = table.assign(is_one=leakage.is_function_word(table["text"]))
    counts = table.groupby(["model", "prompt"], sort=False).agg(
        first=("text", "first"),
        first_is_function_word=("is_one", "first"),
        function_words=("is_one", "sum"),
        n=("is_one", "size"),
    )
    tuned = registry.language_models()["tuned"]  # in its order: a pretrained model and then its tuned one
    counts = counts.reset_index().assign(kind=lambda rows: rows["model"].map(tuned).map(KINDS))
    return counts.sort_values(
        "model", key=lambda names: names.map(tuned.index.get_loc), kind="stable", ignore_index=True
    )


def printed_ends(table: str, models: Sequence[str] = ("gemma-2b", "gemma-2b-it")) -> pd.DataFrame:
    """The 20 likeliest and least likely tokens of models of the paper's Table A1 to A5, a column each, `paper: name`.

    Index: end (likeliest, least likely), position (1 is the likeliest, respectively the least likely).
    """
    rows = paper_table("tables_a1_to_a5")
    rows = rows[(rows["table"] == table) & rows["model"].isin(models)]
    rows = rows.assign(end=rows["end"].map({"top": "likeliest", "bottom": "least likely"}))
    grid = rows.pivot_table("text", ["end", "position"], "model", aggfunc="first")[list(models)]
    return grid.add_prefix("paper: ")


def count_function_words(
    tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], kinds: Mapping[str, str], n: int = 20
) -> pd.DataFrame:
    """Function words among the n first tokens of score tables: one row per model and prompt.

    kinds: model -> pretrained or instruction-tuned; a model that it lacks is a reward model.
    """
    counts = {name: leakage.first_words(table, prompts, n) for name, table in tables.items()}
    rows = pd.concat(counts, names=["model", None]).reset_index("model").reset_index(drop=True)
    return rows.assign(kind=rows["model"].map(dict(kinds)).fillna(REWARD_MODEL))


def language_claims(
    study: Collection,
    *,
    of_paper: pd.DataFrame,
    of_language_models: pd.DataFrame,
    of_reward_models: pd.DataFrame,
    explained: pd.DataFrame,
    beyond: pd.DataFrame,
) -> list[Claim]:
    """All claims of appendix A.1.2: function words first, in the paper's tables and here, and leakage.

    of_paper: as from printed_function_words; of_language_models, of_reward_models: as from count_function_words.
    explained, beyond: as leakage_claims takes them.
    """
    own = papers_own(study)
    claims = function_word_claims(of_paper, PRINTED, THE_PAPER)
    claims += function_word_claims(of_language_models, f"language models of {study}", own)
    claims += function_word_claims(of_reward_models, f"reward models of {study}", own)
    return claims + leakage_claims(explained, beyond)


def function_word_claims(counts: pd.DataFrame, source: str, own: Set[str]) -> list[Claim]:
    """Two rows per kind of model and prompt: models whose first token is a function word, and the mean count of them.

    counts: as from printed_function_words or count_function_words. own: what of the paper's own they are about. The
    count of models has the exact interval of a share (Clopper and Pearson 1934), times the models.
    """
    claims = []
    number = "as_published" if source == PRINTED else "corrected"
    for (kind, prompt), rows in counts.groupby(["kind", "prompt"], sort=False):
        claim = "A1.rewards" if kind == REWARD_MODEL else "A1.logprobs"
        first, n, words = int(rows["first_is_function_word"].sum()), len(rows), rows["function_words"]
        ci_low, ci_high = (n * end for end in proportion_confint(first, n, method="beta"))
        note, population = f"{kind}, {source}", "printed tables" if source == PRINTED else ""
        claims.append(state(claim, FIRST, prompt, kind, own=own, n=n, ci_low=ci_low, ci_high=ci_high, note=note,
                            population=population, **{number: first}))  # fmt: skip
        most, same = int(rows["n"].iloc[0]), {"note": note, "population": population}
        ends = over_models(words, 0, most)
        claims.append(state(claim, COUNT.format(most), prompt, kind, **{number: words.mean()}, **ends, **same))
    return claims


def leakage_claims(explained: pd.DataFrame, beyond: pd.DataFrame) -> list[Claim]:
    """The mean rank correlation per prompt and control, and how many models are told from the control model.

    explained: rows of leakage.explained for several models. beyond: rows of leakage.beyond with `apart`, or nothing.
    The paper has no such numbers, so there is no verdict.
    """
    claims = []
    for (prompt, held), rows in explained.groupby(["prompt", "held_constant"], sort=False):
        note = f"Spearman's rho, mean over models; held constant: {held}"
        numbers = {"corrected": rows["rho"].mean()} | over_models(rows["rho"], -1, 1)
        claims.append(state(CLAIM, "rho_of_reward_and_logprob", prompt, note=note, **numbers))
    for prompt, rows in beyond.groupby("prompt", sort=False) if len(beyond) else []:
        note = "models with a planted frequency bonus, at equal sentiment"
        apart = int(rows["apart"].sum())
        claims.append(state(CLAIM, "models_told_from_the_control", prompt, corrected=apart, n=len(rows), note=note))
    return claims


def over_models(values: Sequence[float], lowest: float, highest: float) -> dict[str, float]:
    """A 95% t interval of the mean over models, as ci_low, ci_high, and n; no interval for fewer than three models.

    It ends at lowest and highest, beyond which no mean can lie: what is cut off holds nothing.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 3:
        return {"n": len(values)}
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    ci_low, ci_high = np.clip([values.mean() - half, values.mean() + half], lowest, highest)
    return {"ci_low": float(ci_low), "ci_high": float(ci_high), "n": len(values)}
