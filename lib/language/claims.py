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

    The kind is pretrained or instruction-tuned. The other columns are those of leakage.first_words, without by_chance.
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
    """Return the 20 likeliest and least likely tokens of models in a table A1 to A5, a column each (`paper: name`).

    Index: end (likeliest, least likely), position (1 is the likeliest, respectively the least likely).
    """
    rows = paper_table("tables_a1_to_a5")
    rows = rows[(rows["table"] == table) & rows["model"].isin(models)]
    rows = rows.assign(end=rows["end"].map({"top": "likeliest", "bottom": "least likely"}))
    grid = rows.pivot_table("text", ["end", "position"], "model", aggfunc="first")[list(models)]
    return grid.add_prefix("paper: ")


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Tables A1 to A5, by name, compared with score tables (see lib.claims.cells).

    tables: as from scores.with_contrasts. Only the order of the released logits counts, which the softmax keeps.
    """
    return {
        f"Table {number}": cells.compare_lists(
            cells.printed_lists(number), {name: table.set_index("text")[asked] for name, table in tables.items()}
        )
        for number, asked in LISTS.items()
    }


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
    """Return the rows of appendix A.1.2 (see claims.row): function words first, printed and computed, and leakage.

    `of_paper` is made by printed_function_words, and the other two counts by count_function_words. leakage_rows takes
    the last two tables.
    """
    rows, own = function_word_rows(of_paper, PRINTED, THE_PAPER), papers_own(study)
    rows += function_word_rows(of_language_models, f"language models of {study}", own)
    rows += function_word_rows(of_reward_models, f"reward models of {study}", own)
    return rows + leakage_rows(explained, beyond)


def function_word_rows(counts: pd.DataFrame, source: str, own: Set[str]) -> list[dict]:
    """Return two rows per kind of model and prompt: models with a function word first, and the mean count of them.

    `counts` is made by printed_function_words or count_function_words. `own` says which data of the paper it covers.
    The count of models has the exact interval of a share (Clopper and Pearson 1934), times the models.
    """
    rows, number = [], "as_published" if source == PRINTED else "corrected"
    for (kind, prompt), table in counts.groupby(["kind", "prompt"], sort=False):
        names = {"claim": "A1.rewards" if kind == REWARD_MODEL else "A1.logprobs", "prompt": prompt, "model": kind}
        same = {"note": f"{kind}, {source}", "population": "printed tables" if source == PRINTED else ""}
        first, n, most = int(table["first_is_function_word"].sum()), len(table), int(table["n"].iloc[0])
        ci_low, ci_high = (n * end for end in proportion_confint(first, n, method="beta"))
        p = float(stats.binomtest(first, n).pvalue)  # against half of the models
        rows.append(
            row(quantity=FIRST, own=own, n=n, ci_low=ci_low, ci_high=ci_high, p=p, **names, **same, **{number: first})
        )
        words = table["function_words"]
        rows.append(row(quantity=COUNT.format(most), own=frozenset(), **names, **same, **{number: words.mean()},
                        **over_models(words, 0, most)))  # fmt: skip
    return rows


def leakage_rows(explained: pd.DataFrame, beyond: pd.DataFrame) -> list[dict]:
    """Return the mean rank correlation per prompt and control, and how many models differ from the control model.

    `explained` holds rows of leakage.explained of several models, and `beyond` rows of leakage.beyond with `apart`. It
    may be empty.
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

    `collapse` is in nats, at which one reply has half of the probability. `twice` is in log10 of frequency. `devalued`
    is the ratio of a typical identity term, whose geometric mean is taken. `overlaps` has a number per pair of models.
    Pairs share models, so their mean has no interval.
    """
    note = f"policy at a KL of {nats:g} from the language model, in nats"
    logs = over_models(np.log(devalued), -np.inf, np.inf)
    ratio = {name: np.exp(value) if name.startswith("ci") else value for name, value in logs.items()}
    means = {
        "S3.twice": ("log10_frequency", twice.mean(), over_models(twice, -np.inf, np.inf)),
        "S7.collapse": ("nats", collapse.mean(), over_models(collapse, 0.0, np.inf)),
        "S7.devalued": ("ratio", np.exp(np.log(devalued).mean()), ratio),
        "S7.overlap": ("overlap", overlaps.mean(), {"n": len(overlaps)}),
    }
    return [
        row(
            claim,
            quantity,
            prompt,
            corrected=mean,
            note="" if claim == "S7.collapse" else note,
            **rest,
        )
        for claim, (quantity, mean, rest) in means.items()
    ]


def over_models(values: Sequence[float], lowest: float, highest: float) -> dict[str, float]:
    """Return the 95% t interval of the mean over models as ci_low and ci_high, with n. Below three models: only n.

    The interval is cut at lowest and highest, because no mean can be beyond these.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 3:
        return {"n": len(values)}
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    ci_low, ci_high = np.clip([values.mean() - half, values.mean() + half], lowest, highest)
    return {"ci_low": float(ci_low), "ci_high": float(ci_high), "n": len(values)}
