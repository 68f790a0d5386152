"""Does our search find better replies with gains that are averaged over its steps?

Twenty seeds, each a random start, on three small models, in both directions, over ids and as text, for replies of 3 to
10 tokens. Both ways start from the same replies with the same seeds. The difference is in standard deviations of the
rewards of random replies, and the interval is over seeds: a seed counts once, with its mean over everything else.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks.scoring import table, write_report
from benchmarks.search import cost, rivals
from benchmarks.search.cost import Metered
from benchmarks.search.optimality import PAGE
from lib.models import reward_models
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, REPLY_MODES, Objective, allowed_ids, as_reply
from lib.search.searches import search_together
from lib.tables.prompts import read_prompts

FOUND = PAGE.parent / "search_momentum.csv"
MODELS = (("A-Gem-48", "best"), ("C-Lla-64", "best"), ("D-Lla-48", "worst"))
LENGTHS = (5, 3, 10, 8)
SEEDS = 20
MOMENTA = (0.0, 0.5)
BUDGETS = (128, 256, 512)
FOUND_RIVALS, TOKENS, SEEDS_OF_RIVALS = PAGE.parent / "search_later.csv", 5, 6
INSTANCE_OF_RIVALS = ["model", "reply_mode", "direction"]
RANDOM = 256  # random replies, whose rewards give the unit
load = cache(lambda name: reward_models.load(name, device="cpu"))
JOB = ["model", "reply_mode", "length", "momentum"]


def search_all(model: str, prompt: str, reply_mode: str, length: int, momentum: float, seeds: int) -> pd.DataFrame:
    """Return the best reward within each budget, a row per direction, seed and budget.

    `unit` is the standard deviation of the rewards of random replies.
    """
    loaded = load(model)
    best = Objective(loaded, read_prompts(None)[prompt], "optimal", allowed_ids(loaded), reply_mode=reply_mode)
    replies = best.take(best.draws(length, np.random.default_rng(0)), set(), RANDOM)
    starts, unit = replies[:seeds], float(best.values(replies).std())
    objectives = {"optimal": best, "pessimal": best.reversed()}
    keys = [(direction, seed) for direction in DIRECTIONS for seed in range(len(starts))]
    results = search_together(
        [objectives[direction] for direction, _ in keys], [starts[seed] for _, seed in keys],
        [Settings(budget=max(BUDGETS), momentum=momentum, seed=seed) for _, seed in keys],
    )  # fmt: skip
    rows = [
        {"direction": direction, "seed": seed, "budget": budget, "unit": unit,
         "reward": [reward for scored, reward in result.trace if scored <= budget][-1]}
        for (direction, seed), result in zip(keys, results, strict=True)
        for budget in BUDGETS
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(model=model, reply_mode=reply_mode, length=length, momentum=momentum)


def differences(searched: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how much better momentum is: mean difference, 95% interval over seeds, and the number of seeds.

    by: columns that a row of the result stands for. The differences are in standard deviations of random replies.
    """
    sign = searched["direction"].map(DIRECTIONS)
    searched = searched.assign(value=sign * searched["reward"] / searched["unit"])
    axes = ["model", "reply_mode", "length", "direction", "seed", "budget"]
    wide = searched.pivot_table("value", axes, "momentum").dropna()
    better = (wide[MOMENTA[1]] - wide[MOMENTA[0]]).rename("better").reset_index()
    of_seeds = better.groupby([*by, "seed"])["better"].mean().groupby(by)
    summary = of_seeds.agg(better="mean", spread="std", seeds="size").reset_index()
    margin = student.ppf(0.975, summary["seeds"] - 1) * summary["spread"] / np.sqrt(summary["seeds"])
    return summary.assign(ci_low=summary["better"] - margin, ci_high=summary["better"] + margin).drop(columns="spread")


def tables(searched: pd.DataFrame) -> str:
    """Return the tables of search.md: by reply mode and budget, and by length at the last budget."""
    last = searched[searched["budget"] == searched["budget"].max()]
    parts = [differences(searched, ["reply_mode", "budget"]), differences(last, ["reply_mode", "length"])]
    columns = {"reply_mode": "replies", "better": "with momentum better by"}
    texts = []
    for part in parts:
        interval = [f"{low:.3f} to {high:.3f}" for low, high in zip(part["ci_low"], part["ci_high"], strict=True)]
        shown = part.drop(columns=["ci_low", "ci_high"]).assign(better=part["better"].map("{:.3f}".format))
        texts.append(table(shown.assign(**{"95% interval": interval}).rename(columns=columns)))
    return "\n\n".join(texts)


# --- rivals that came later ---------------------------------------------------------------------------------------


def search_with_rivals(model: str, prompt: str, reply_mode: str, direction: str) -> pd.DataFrame:
    """Return the best value of each rival of rivals.LATER within each budget, a row per seed and budget."""
    loaded = load(model)
    allowed = allowed_ids(loaded)
    objective = Metered(loaded, read_prompts(None)[prompt], direction, allowed, reply_mode=reply_mode)
    replies = objective.take(objective.draws(TOKENS, np.random.default_rng(0)), set(), RANDOM)
    unit, rows = float(objective.values(replies).std()), []
    for seed, start in enumerate(map(as_reply, replies[:SEEDS_OF_RIVALS])):
        for name, (method, settings) in rivals.LATER.items():
            most = max(BUDGETS) * objective.tokens_of(TOKENS)
            found = cost.run(objective, method, start, replace(settings, seed=seed), most)
            for budget in BUDGETS:
                value = objective.sign * found.best_within(budget, "scored") / unit
                rows.append({"method": name, "seed": seed, "budget": budget, "value": value})
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
    summary = means.groupby(["method", "budget"], sort=False).agg(["mean", "std", "size"])
    margin = student.ppf(0.975, summary["size"] - 1) * summary["std"] / np.sqrt(summary["size"])
    cells = [f"{mean:.3f} ± {by:.3f}" for mean, by in zip(summary["mean"], margin, strict=True)]
    wide = pd.Series(cells, summary.index).unstack("budget")  # noqa: PD010
    wide.columns = [f"{budget} replies scored" for budget in wide.columns]
    return table(wide.reset_index())


def report_rivals() -> None:
    """Search what is missing in search_later.csv, and write its table in search.md."""
    done = pd.read_csv(FOUND_RIVALS) if FOUND_RIVALS.exists() else pd.DataFrame(columns=INSTANCE_OF_RIVALS)
    finished = set(done[INSTANCE_OF_RIVALS].drop_duplicates().itertuples(index=False, name=None))
    for model, prompt in MODELS:
        for reply_mode in REPLY_MODES:
            for direction in DIRECTIONS:
                if (model, reply_mode, direction) in finished:
                    continue
                rows = search_with_rivals(model, prompt, reply_mode, direction)
                header = not FOUND_RIVALS.exists()
                rows.to_csv(FOUND_RIVALS, mode="a", header=header, index=False, float_format="%.6g")
                print(model, reply_mode, direction, flush=True)
    write_report("later rivals on a cpu", rivals_table(pd.read_csv(FOUND_RIVALS)), PAGE)


def report(seeds: int = SEEDS) -> None:
    """Search what is missing in search_momentum.csv, and write the tables of search.md.

    A job that was finished is kept, so a study that was stopped goes on.
    """
    done = pd.read_csv(FOUND) if FOUND.exists() else pd.DataFrame(columns=JOB)
    finished = {tuple(job) for job in done[JOB].drop_duplicates().itertuples(index=False)}
    for length in LENGTHS:
        for model, prompt in MODELS:
            for reply_mode in REPLY_MODES:
                for momentum in MOMENTA:
                    if (model, reply_mode, length, momentum) in finished:
                        continue
                    rows = search_all(model, prompt, reply_mode, length, momentum, seeds)
                    rows.to_csv(FOUND, mode="a", header=not FOUND.exists(), index=False, float_format="%.6g")
                    print(model, reply_mode, length, momentum, flush=True)
    write_report("momentum on a cpu", tables(pd.read_csv(FOUND)), PAGE)
