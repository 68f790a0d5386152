"""Does our search find better replies with gains that are averaged over its steps? And how good are
later rivals?

Twenty seeds, each a random start, on three small models, in both directions, over ids and as text,
for replies of 3 to 10 tokens. Both ways start from the same replies with the same seeds. The
difference is in standard deviations of the rewards of random replies, and the interval is over
seeds: a seed counts once, with its mean over everything else.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks.scoring import table, write_report
from benchmarks.search import cost, rivals
from benchmarks.search.cost import Metered
from benchmarks.search.exhaustive import Exhausted, alphabet
from benchmarks.search.optimality import PAGE
from lib.models import reward_models
from lib.search.gcg import Settings
from lib.search.objective import (
    DIRECTIONS,
    REPLY_MODES,
    Objective,
    allowed_ids,
    as_reply,
)
from lib.search.searches import search, search_together
from lib.tables.prompts import read_prompts

FOUND = PAGE.parent / "search_momentum.csv"
MODELS = (("A-Gem-48", "best"), ("C-Lla-64", "best"), ("D-Lla-48", "worst"))
# a head on a real language model, searched at one length because it takes long
REAL, LENGTH_OF_REAL = ("V-Smol-135M", "greatest"), 3
LENGTHS = (5, 3, 10, 8)
SEEDS = 20
MOMENTA = (0.0, 0.5)
BUDGETS = (128, 256, 512)
FOUND_RIVALS, TOKENS, SEEDS_OF_RIVALS = PAGE.parent / "search_later.csv", 5, 6
INSTANCE_OF_RIVALS = ["model", "reply_mode", "direction"]
FOUND_EXHAUSTED, SMALL_ALPHABET, EXHAUSTED_BUDGET = (
    PAGE.parent / "search_exhausted.csv",
    32,
    512,
)
RANDOM = 256  # random replies, whose rewards give the unit
load = cache(lambda name: reward_models.load(name, device="cpu"))
JOB = ["model", "reply_mode", "length", "momentum"]


def search_all(
    model: str, prompt: str, reply_mode: str, length: int, momentum: float
) -> pd.DataFrame:
    """Return the best reward within each budget, a row per direction, seed and budget.

    `unit` is the standard deviation of the rewards of random replies.
    """
    loaded = load(model)
    best = Objective(
        loaded,
        read_prompts(None)[prompt],
        "optimal",
        allowed_ids(loaded),
        reply_mode=reply_mode,
    )
    replies = best.take(best.draws(length, np.random.default_rng(0)), set(), RANDOM)
    starts, unit = replies[:SEEDS], float(best.values(replies).std())
    objectives = {"optimal": best, "pessimal": best.reversed()}
    keys = [
        (direction, seed) for direction in DIRECTIONS for seed in range(len(starts))
    ]
    results = search_together(
        [objectives[direction] for direction, _ in keys],
        [starts[seed] for _, seed in keys],
        [
            Settings(budget=max(BUDGETS), momentum=momentum, seed=seed)
            for _, seed in keys
        ],
    )
    rows = [
        {
            "direction": direction,
            "seed": seed,
            "budget": budget,
            "unit": unit,
            "reward": [reward for scored, reward in result.trace if scored <= budget][
                -1
            ],
        }
        for (direction, seed), result in zip(keys, results, strict=True)
        for budget in BUDGETS
    ]
    return pd.DataFrame(rows).assign(
        model=model, reply_mode=reply_mode, length=length, momentum=momentum
    )


def differences(searched: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how much better momentum is: mean difference, 95% interval over seeds, and the number
    of seeds.

    models, pairs of searches: how many were compared.
    by: columns that a row of the result stands for.
    The differences are in standard deviations of random replies.
    """
    sign = searched["direction"].map(DIRECTIONS)
    searched = searched.assign(value=sign * searched["reward"] / searched["unit"])
    axes = ["model", "reply_mode", "length", "direction", "seed", "budget"]
    wide = searched.pivot_table("value", axes, "momentum").dropna()
    better = (wide[MOMENTA[1]] - wide[MOMENTA[0]]).rename("better").reset_index()
    of_seeds = better.groupby([*by, "seed"])["better"].mean().groupby(by)
    summary = of_seeds.agg(better="mean", spread="std", seeds="size").reset_index()
    summary.insert(len(by), "models", better.groupby(by)["model"].nunique().to_numpy())
    summary.insert(
        len(by) + 1, "pairs of searches", better.groupby(by).size().to_numpy()
    )
    margin = (
        student.ppf(0.975, summary["seeds"] - 1)
        * summary["spread"]
        / np.sqrt(summary["seeds"])
    )
    return summary.assign(
        ci_low=summary["better"] - margin, ci_high=summary["better"] + margin
    ).drop(columns="spread")


def tables(searched: pd.DataFrame) -> str:
    """Return the table of search.md: a row per length, reply mode and budget."""
    part = differences(searched, ["length", "reply_mode", "budget"])
    interval = [
        f"{low:.3f} to {high:.3f}"
        for low, high in zip(part["ci_low"], part["ci_high"], strict=True)
    ]
    shown = part.drop(columns=["ci_low", "ci_high"]).assign(
        better=part["better"].map("{:.3f}".format)
    )
    names = {
        "length": "tokens",
        "reply_mode": "replies",
        "budget": "replies scored",
        "better": "better by",
    }
    return table(shown.assign(**{"95% interval": interval}).rename(columns=names))


# --- where the optimum is known -------------------------------------------------------------------


def search_exhausted(model: str, prompt: str, reply_mode: str) -> pd.DataFrame:
    """Return after how many evaluations each search stands at the true optimum, a row per
    direction, seed, momentum.

    All replies of three tokens over SMALL_ALPHABET ids are scored. `evaluations` is NaN for a
    search that does not find the optimum within EXHAUSTED_BUDGET.
    """
    loaded, rows = load(model), []
    ids = alphabet(loaded, SMALL_ALPHABET)
    best = Exhausted(
        loaded, read_prompts(None)[prompt], "optimal", ids, n=3, reply_mode=reply_mode
    )
    worst = Exhausted(
        loaded,
        best.prompt,
        "pessimal",
        ids,
        best.truth,
        reply_mode=reply_mode,
        survives=best.survives,
    )
    for objective in (best, worst):
        for seed in range(SEEDS):
            start = objective.draw(3, np.random.default_rng(seed))
            for momentum in MOMENTA:
                settings = Settings(
                    budget=EXHAUSTED_BUDGET, momentum=momentum, seed=seed
                )
                found = search(objective, start, settings, goal=objective.optimum)
                at = found.trace[-1][0] if found.reward == objective.optimum else np.nan
                rows.append(
                    {
                        "direction": objective.direction,
                        "seed": seed,
                        "momentum": momentum,
                        "evaluations": at,
                    }
                )
    return pd.DataFrame(rows).assign(model=model, reply_mode=reply_mode)


def exhausted_table(searched: pd.DataFrame) -> str:
    """Return the shares of searches at the optimum, and the seeds' mean difference with its 95%
    interval.
    """
    rows = []
    for (reply_mode, budget), group in (
        ((mode, budget), searched[searched["reply_mode"] == mode])
        for mode in REPLY_MODES
        for budget in BUDGETS
    ):
        at = group.assign(found=group["evaluations"] <= budget).pivot_table(
            "found", "seed", "momentum"
        )
        better = at[MOMENTA[1]] - at[MOMENTA[0]]
        margin = (
            student.ppf(0.975, len(better) - 1) * better.std() / np.sqrt(len(better))
        )
        rows.append(
            {
                "replies": reply_mode,
                "budget": budget,
                "searches": len(group) // 2,
                "at the optimum, %": 100 * at[MOMENTA[0]].mean(),
                "with momentum, %": 100 * at[MOMENTA[1]].mean(),
                "difference": f"{100 * better.mean():.1f} ± {100 * margin:.1f}",
            }
        )
    return table(pd.DataFrame(rows))


# --- rivals that came later -----------------------------------------------------------------------


def search_with_rivals(
    model: str, prompt: str, reply_mode: str, direction: str
) -> pd.DataFrame:
    """Return the best value of each rival of rivals.LATER within each budget, a row per seed and
    budget.
    """
    loaded = load(model)
    allowed = allowed_ids(loaded)
    objective = Metered(
        loaded, read_prompts(None)[prompt], direction, allowed, reply_mode=reply_mode
    )
    replies = objective.take(
        objective.draws(TOKENS, np.random.default_rng(0)), set(), RANDOM
    )
    unit, rows = float(objective.values(replies).std()), []
    for seed, start in enumerate(map(as_reply, replies[:SEEDS_OF_RIVALS])):
        for name, (method, settings) in rivals.LATER.items():
            most = max(BUDGETS) * objective.tokens_of(TOKENS)
            found = cost.run(
                objective, method, start, replace(settings, seed=seed), most
            )
            for budget in BUDGETS:
                value = objective.sign * found.best_within(budget, "scored") / unit
                rows.append(
                    {"method": name, "seed": seed, "budget": budget, "value": value}
                )
    instance = {"model": model, "reply_mode": reply_mode, "direction": direction}
    return pd.DataFrame(rows).assign(**instance)


def rivals_table(searched: pd.DataFrame) -> str:
    """Return how far each method ends from the best of all methods, with a 95% interval over seeds.

    The shortfall is in standard deviations of random replies, at the same number of evaluations.
    """
    of_start = [*INSTANCE_OF_RIVALS, "seed", "budget"]
    best = searched.groupby(of_start)["value"].transform("max")
    short = searched.assign(shortfall=best - searched["value"])
    means = short.groupby(["method", "budget", "seed"], sort=False)["shortfall"].mean()
    summary = means.groupby(["method", "budget"], sort=False).agg(
        ["mean", "std", "size"]
    )
    margin = (
        student.ppf(0.975, summary["size"] - 1)
        * summary["std"]
        / np.sqrt(summary["size"])
    )
    cells = [
        f"{mean:.3f} ± {by:.3f}"
        for mean, by in zip(summary["mean"], margin, strict=True)
    ]
    wide = pd.Series(cells, summary.index).unstack("budget")  # noqa: PD010
    wide.columns = [f"{budget} replies scored" for budget in wide.columns]
    return table(wide.reset_index())


# --- what is missing ------------------------------------------------------------------------------


def search_missing(
    path: Path,
    jobs: list[tuple],
    axes: list[str],
    function: Callable[..., pd.DataFrame],
) -> None:
    """Append what the function returns for each job to the file, unless it is there. So a stopped
    study goes on.

    axes: the columns that tell jobs apart. A job's first two arguments are the model and its
    prompt, which it implies.
    """
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=axes)
    finished = set(done[axes].drop_duplicates().itertuples(index=False, name=None))
    for model, prompt, *others in jobs:
        if (model, *others) not in finished:
            rows = function(model, prompt, *others)
            rows.to_csv(
                path,
                mode="a",
                header=not path.exists(),
                index=False,
                float_format="%.6g",
            )
            print(model, *others, flush=True)


def report() -> None:
    """Search what is missing in the three tables, and write their sections of search.md."""
    of_model = list(product(MODELS, REPLY_MODES))
    jobs = [
        (*model, mode, length, momentum)
        for length in LENGTHS
        for model, mode in of_model
        for momentum in MOMENTA
    ]
    jobs += [
        (*REAL, mode, LENGTH_OF_REAL, momentum)
        for mode in REPLY_MODES
        for momentum in MOMENTA
    ]
    search_missing(FOUND, jobs, JOB, search_all)
    search_missing(
        FOUND_EXHAUSTED,
        [(*model, mode) for model, mode in of_model],
        ["model", "reply_mode"],
        search_exhausted,
    )
    search_missing(
        FOUND_RIVALS,
        [
            (*model, mode, direction)
            for model, mode in of_model
            for direction in DIRECTIONS
        ],
        INSTANCE_OF_RIVALS,
        search_with_rivals,
    )
    write_tables()


def write_tables() -> None:
    """Write the sections of search.md from the committed results."""
    found = pd.read_csv(FOUND)
    is_real = found["model"] == REAL[0]
    parts = [tables(found[~is_real])]
    if is_real.any():
        parts += [f"The same on {REAL[0]}:", tables(found[is_real])]
    if FOUND_EXHAUSTED.exists():
        parts.append(exhausted_table(pd.read_csv(FOUND_EXHAUSTED)))
    write_report("momentum on a cpu", "\n\n".join(parts), PAGE)
    if FOUND_RIVALS.exists():
        write_report(
            "later rivals on a cpu", rivals_table(pd.read_csv(FOUND_RIVALS)), PAGE
        )
