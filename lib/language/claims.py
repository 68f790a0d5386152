"""The claims on language models: function words among the first tokens, leakage, and policies after training."""

from collections.abc import Mapping, Sequence, Set

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ..claims import cells
from ..claims.claims import THE_PAPER, paper_table, papers_own, row
from ..tables import registry
from ..tables.collection import Collection
from . import leakage

CLAIM = "A1.logprobs"
PRINTED = "Tables A1-A3 as printed"
KINDS = {False: "pretrained", True: "instruction-tuned"}
REWARD_MODEL = "reward model"
# Each list of tokens in the appendix, and what it is sorted by.
LISTS = {"A1": "greatest", "A2": "best", "A3": "worst", "A4": "best + worst", "A5": "best - worst"}
COUNT, FIRST = "function_words_of_{}", "models_with_a_function_word_first"


def printed_function_words() -> pd.DataFrame:
    """Return the function words among the 20 first tokens of Tables A1-A3 as printed: one row per model and prompt.

    The columns are those of leakage.first_words, without by_chance, and the kind: pretrained or instruction-tuned.
    """
    table = paper_table("tables_a1_to_a5")
    table = table[(table["end"] == "top") & table["table"].isin(["A1", "A2", "A3"])].sort_values(["table", "position"])
    table = table.assign(is_one=leakage.is_function_word(table["text"]))
    counts = table.groupby(["model", "prompt"], sort=False).agg(
        first=("text", "first"), first_is_function_word=("is_one", "first"), function_words=("is_one", "sum"),
        n=("is_one", "size"),
    ).reset_index()  # fmt: skip
    tuned = registry.language_models()["tuned"]  # in its order: a pretrained model and then its tuned one
    order = counts["model"].map(tuned.index.get_loc).sort_values(kind="stable").index
    return counts.assign(kind=counts["model"].map(tuned).map(KINDS)).loc[order].reset_index(drop=True)


def printed_ends(table: str) -> pd.DataFrame:
    """Return the tokens of gemma-2b and gemma-2b-it in a table A1 to A5. Index: likeliest or least likely, position."""
    grid = cells.printed_lists(table)[["gemma-2b", "gemma-2b-it"]].add_prefix("paper: ")
    return grid.rename(index={"optimal": "likeliest", "pessimal": "least likely"})


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Tables A1 to A5, compared with score tables as from scores.with_contrasts."""
    compared = {}
    for number, asked in LISTS.items():
        values = {name: table.set_index("text")[asked] for name, table in tables.items()}
        compared[f"Table {number}"] = cells.compare_lists(cells.printed_lists(number), values)
    return compared


def count_function_words(
    tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], kinds: Mapping[str, str], n: int = 20
) -> pd.DataFrame:
    """Return the function words among the n first tokens of score tables: one row per model and prompt.

    kinds: model -> pretrained or instruction-tuned. A model that it lacks is a reward model.
    """
    counts = {name: leakage.first_words(table, prompts, n) for name, table in tables.items()}
    rows = pd.concat(counts, names=["model", None]).reset_index("model").reset_index(drop=True)
    return rows.assign(kind=rows["model"].map(dict(kinds)).fillna(REWARD_MODEL))


def claim_rows(
    study: Collection,
    *,
    of_paper: pd.DataFrame,
    of_language_models: pd.DataFrame,
    of_reward_models: pd.DataFrame,
    explained: pd.DataFrame,
    beyond: pd.DataFrame,
) -> list[dict]:
    """Return the rows of appendix A.1.2: function words first, printed and computed, and leakage."""
    rows, own = function_word_rows(of_paper, PRINTED, THE_PAPER), papers_own(study)
    rows += function_word_rows(of_language_models, f"language models of {study}", own)
    rows += function_word_rows(of_reward_models, f"reward models of {study}", own)
    return rows + leakage_rows(explained, beyond)


def function_word_rows(counts: pd.DataFrame, source: str, own: Set[str]) -> list[dict]:
    """Return two rows per kind of model and prompt: models with a function word first, and the mean count of them.

    The count of models has the exact interval of a share (Clopper and Pearson 1934), times the models.
    """
    rows, number = [], "as_published" if source == PRINTED else "corrected"
    for (kind, prompt), table in counts.groupby(["kind", "prompt"], sort=False):
        names = {"claim": "A1.rewards" if kind == REWARD_MODEL else "A1.logprobs", "prompt": prompt, "model": kind}
        same = {"note": f"{kind}, {source}", "population": "printed tables" if source == PRINTED else ""}
        first, n, most = int(table["first_is_function_word"].sum()), len(table), int(table["n"].iloc[0])
        ci_low, ci_high = (n * end for end in proportion_confint(first, n, method="beta"))
        p = float(stats.binomtest(first, n).pvalue)  # against half of the models
        words = table["function_words"]
        rows += [
            row(quantity=FIRST, own=own, n=n, ci_low=ci_low, ci_high=ci_high, p=p, **names, **same, **{number: first}),
            row(quantity=COUNT.format(most), own=frozenset(), **names, **same, **{number: words.mean()},
                **over_models(words, 0, most)),
        ]  # fmt: skip
    return rows


def leakage_rows(explained: pd.DataFrame, beyond: pd.DataFrame) -> list[dict]:
    """Return the mean rank correlation per prompt and control, and how many models differ from the control model.

    explained: as from leakage.explained_by_model. beyond: rows of leakage.beyond with `apart`, or an empty table.
    """
    rows = []
    for (prompt, held), table in explained.groupby(["prompt", "held_constant"], sort=False):
        note = f"Spearman's rho, mean over models; held constant: {held}"
        rows.append(row(CLAIM, "rho_of_reward_and_logprob", prompt, corrected=table["rho"].mean(), note=note,
                        **over_models(table["rho"], -1, 1)))  # fmt: skip
    for prompt, table in beyond.groupby("prompt", sort=False) if len(beyond) else []:
        note = "models with a planted frequency bonus, at equal sentiment"
        apart = int(table["apart"].sum())
        rows.append(row(CLAIM, "models_told_from_the_control", prompt, corrected=apart, n=len(table), note=note))
    return rows


def training_rows(
    prompt: str, nats: float, *, collapse: pd.Series, twice: pd.Series, devalued: pd.Series, overlaps: pd.Series
) -> list[dict]:
    """Return what training on the rewards would change, at a KL of so many nats: a row each, means over models.

    collapse has the nats at which one reply has half of the probability. twice is in log10 of frequency. devalued is
    the ratio of a typical identity term, of which the geometric mean is taken. overlaps are per pair. Pairs share
    models, so their mean has no interval.
    """
    note = f"policy at a KL of {nats:g} from the language model, in nats"
    logs = over_models(np.log(devalued))
    ratio = {name: np.exp(value) if name.startswith("ci") else value for name, value in logs.items()}
    return [
        row("S3.twice", "log10_frequency", prompt, corrected=twice.mean(), note=note, **over_models(twice)),
        row("S7.collapse", "nats", prompt, corrected=collapse.mean(), note="", **over_models(collapse, 0.0)),
        row("S7.devalued", "ratio", prompt, corrected=np.exp(np.log(devalued).mean()), note=note, **ratio),
        row("S7.overlap", "overlap", prompt, corrected=overlaps.mean(), note=note, n=len(overlaps)),
    ]  # fmt: skip


def over_models(values: Sequence[float], lowest: float = -np.inf, highest: float = np.inf) -> dict[str, float]:
    """Return the 95% t interval of the mean over models, cut at lowest and highest, and n. Below three: only n."""
    values = np.asarray(values, dtype=float)
    if len(values) < 3:
        return {"n": len(values)}
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    ci_low, ci_high = np.clip([values.mean() - half, values.mean() + half], lowest, highest)
    return {"ci_low": float(ci_low), "ci_high": float(ci_high), "n": len(values)}
