"""What appendix A.1.2 claims, counted: function words among the first tokens, printed and computed, and leakage."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from lib.claims import VERDICTS, Claim, paper_table
from lib.language import leakage
from lib.models import language_models

CLAIM = "A1.logprobs"
KINDS = {False: "pretrained", True: "instruction-tuned"}
REWARD_MODEL = "reward model"
COUNT, FIRST = "function_words_of_{}", "models_with_a_function_word_first"


def printed() -> pd.DataFrame:
    """Function words among the 20 first tokens of Tables A1-A3 as printed: one row per model and prompt.

    Columns: model, kind (pretrained, instruction-tuned), prompt, then as from leakage.first_words, without by_chance.
    """
    table = paper_table("tables_a1_to_a5")
    table = table[(table["end"] == "top") & table["table"].isin(["A1", "A2", "A3"])].sort_values(["table", "position"])
    table = table.assign(is_one=leakage.is_function_word(table["text"]))
    found = table.groupby(["model", "prompt"], sort=False).agg(
        first=("text", "first"),
        first_is_function_word=("is_one", "first"),
        function_words=("is_one", "sum"),
        n=("is_one", "size"),
    )
    tuned = language_models.registry()["tuned"]  # in its order: a pretrained model and then its tuned one
    found = found.reset_index().assign(kind=lambda rows: rows["model"].map(tuned).map(KINDS))
    return found.sort_values(
        "model", key=lambda names: names.map(tuned.index.get_loc), kind="stable", ignore_index=True
    )


def counted(
    tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], kinds: Mapping[str, str], n: int = 20
) -> pd.DataFrame:
    """Function words among the n first tokens of score tables: one row per model and prompt.

    kinds: model -> pretrained or instruction-tuned; a model that it lacks is a reward model.
    """
    found = {name: leakage.first_words(table, prompts, n) for name, table in tables.items()}
    rows = pd.concat(found, names=["model", None]).reset_index("model").reset_index(drop=True)
    return rows.assign(kind=rows["model"].map(dict(kinds)).fillna(REWARD_MODEL))


def of_function_words(found: pd.DataFrame, source: str, tested: bool) -> list[Claim]:
    """Two rows per kind of model and prompt: models whose first token is a function word, and the mean count of them.

    found: as from `printed` or `counted`. tested: whether the models can speak about the paper's claim. The claim is
    that function words come first in language models, so their rows are reproduced where more than half of the models
    have one first; reward models' are where at most half do.
    """
    stated = []
    for (kind, prompt), rows in found.groupby(["kind", "prompt"], sort=False):
        first = int(rows["first_is_function_word"].sum())
        holds = (first > len(rows) / 2) != (kind == REWARD_MODEL)
        verdict = VERDICTS[3 if not tested else 0 if holds else 2]
        number = "as_published" if source.startswith("Tables") else "corrected"
        note = {"note": f"{kind}, {source}", "verdict": verdict}
        stated.append(Claim(CLAIM, FIRST, prompt, n=len(rows), **{number: first}, **note))
        quantity, counts = COUNT.format(rows["n"].iloc[0]), rows["function_words"]
        stated.append(Claim(CLAIM, quantity, prompt, **{number: counts.mean()}, **over_models(counts), **note))
    return stated


def of_leakage(found: pd.DataFrame, beyond: pd.DataFrame) -> list[Claim]:
    """The mean rank correlation per prompt and control, and how many models are told from the control model.

    found: rows of leakage.explained for several models. beyond: rows of leakage.beyond with `apart`, or nothing. The
    paper has no such numbers, so there is no verdict.
    """
    stated = []
    for (prompt, held), rows in found.groupby(["prompt", "held_constant"], sort=False):
        note = f"Spearman's rho, mean over models; held constant: {held}"
        numbers = {"corrected": rows["rho"].mean()} | over_models(rows["rho"])
        stated.append(Claim(CLAIM, "rho_of_reward_and_logprob", prompt, note=note, **numbers))
    for prompt, rows in beyond.groupby("prompt", sort=False) if len(beyond) else []:
        note = "models with a planted frequency bonus, at equal sentiment"
        apart = int(rows["apart"].sum())
        stated.append(Claim(CLAIM, "models_told_from_the_control", prompt, corrected=apart, n=len(rows), note=note))
    return stated


def over_models(values: Sequence[float]) -> dict[str, float]:
    """A 95% t interval of the mean over models, as ci_low, ci_high, and n; no interval for fewer than three models."""
    values = np.asarray(values, dtype=float)
    if len(values) < 3:
        return {"n": len(values)}
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return {"ci_low": values.mean() - half, "ci_high": values.mean() + half, "n": len(values)}
