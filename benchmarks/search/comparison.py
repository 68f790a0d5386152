"""Methods of search at equal cost: ours and its rivals, on small models.

Ten instances, three starts, replies of 2, 5 and 20 tokens. Each method gets the floating-point
operations that BUDGET replies cost. Finished instances are kept in data/cache/rivals and found
again; tables and charts go to benchmarks/.
"""

import io
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.scoring import table, write_report
from benchmarks.search import cost, rivals, standings
from benchmarks.search.cost import Metered, certify
from benchmarks.search.exhaustive import all_replies, alphabet
from benchmarks.search.optimality import PAGE
from benchmarks.search.standings import INSTANCE
from lib import ROOT
from lib.io import hash_of_code, replacing
from lib.models import reward_models
from lib.search import gcg
from lib.search.objective import DIRECTIONS, Reply
from lib.show.figures import smaller
from lib.tables.prompts import read_prompts

HERE, CACHE = Path(__file__).parent.parent, ROOT / "data" / "cache" / "rivals"
MODELS = (
    ("A-Gem-48", "best"),
    ("B-Gem-64", "greatest"),
    ("C-Lla-64", "best"),
    ("D-Lla-48", "worst"),
    ("F-Lla-64", "greatest"),
)
LENGTHS = (2, 5, 20)
STARTS = 3
BUDGET = 1024  # replies that cost what each method may spend
BUDGETS = tuple(range(64, BUDGET + 1, 64))
RANDOM = 512  # random replies, whose mean reward is a share of 0
CODE = hash_of_code([Path(str(module.__file__)) for module in (cost, gcg, rivals)])[:12]
load = cache(lambda name: reward_models.load(name, device="cpu"))


def objective_of(instance: dict) -> Metered:
    """Return what is searched, over an alphabet drawn from the printable tokens."""
    model, number = (
        load(instance["model"]),
        [name for name, _ in MODELS].index(instance["model"]),
    )
    prompt = read_prompts(None)[instance["prompt"]]
    return Metered(
        model,
        prompt,
        instance["direction"],
        alphabet(model, seed=number),
        reply_mode=instance["reply_mode"],
    )


def drawn(objective: Metered, n: int, count: int, seed: int) -> np.ndarray:
    """Return random replies of n tokens that the objective allows, (count, n) ids."""
    return objective.take(objective.draws(n, np.random.default_rng(seed)), set(), count)


def searches(objective: Metered, length: int) -> Iterator[tuple[dict, Reply]]:
    """Yield the reward that every method has from every start after every budget, and the best
    reply of its search.
    """
    tokens = objective.tokens_of(length)
    for seed, start in enumerate(drawn(objective, length, STARTS, seed=1).tolist()):
        for name, (method, settings) in rivals.COMPARED.items():
            found = cost.run(
                objective,
                method,
                tuple(start),
                replace(settings, seed=seed),
                BUDGET * tokens,
            )
            for of, budget in [
                (of, budget) for of in ("read", "scored") for budget in BUDGETS
            ]:
                spent = budget * tokens if of == "read" else budget
                reached = spent <= (found.read if of == "read" else found.scored)
                reward = found.best_within(spent, of) if reached else np.nan
                yield (
                    {
                        "method": name,
                        "seed": seed,
                        "of": of,
                        "budget": budget,
                        "reward": reward,
                    },
                    found.ids,
                )


def best_known(objective: Metered, length: int, found: list[Reply]) -> dict:
    """The best reply of all that could be, if all can be scored, or of all found and what swaps
    lead to from there.
    """
    random = objective.sign * float(
        objective.values(drawn(objective, length, RANDOM, seed=2)).mean()
    )
    if length == 2:
        pairs = all_replies(objective.allowed)
        pairs = pairs[objective.satisfied(pairs)]
        best = objective.sign * float(objective.values(pairs).max())
        return {"random": random, "best": best, "scored": len(pairs)}
    replies = np.unique(np.array(found), axis=0)
    values = objective.values(replies)
    certificate = certify(objective, tuple(replies[values.argmax()].tolist()))
    best = {
        "random": random,
        "best": certificate.reward,
        "found": objective.sign * float(values.max()),
    }
    return best | {
        key: value
        for key, value in asdict(certificate).items()
        if key not in ("ids", "reward")
    }


def paths_of(instance: dict) -> list[Path]:
    """Return where an instance's rewards and best known reply are kept, under a name for all
    that they depend on.
    """
    name = "-".join(str(instance[key]) for key in INSTANCE) + f"-{BUDGET}-{CODE}"
    return [CACHE / f"{name}-{part}.parquet" for part in ("rewards", "best")]


def measured(instance: dict) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rewards and best known reply of an instance, as standings.shares takes them; from the
    cache if they are there.
    """
    paths = paths_of(instance)
    if not all(path.exists() for path in paths):
        objective = objective_of(instance)
        rows, replies = zip(*searches(objective, instance["length"]), strict=True)
        best = best_known(objective, instance["length"], list(replies))
        CACHE.mkdir(parents=True, exist_ok=True)
        for path, frame in zip(
            paths, (pd.DataFrame(rows), pd.DataFrame([best])), strict=True
        ):
            with replacing(path) as part:
                frame.assign(**instance).to_parquet(part)
        print(*instance.values(), flush=True)
    return pd.read_parquet(paths[0]), pd.read_parquet(paths[1])


def instances(modes: list[str], lengths: list[int]) -> list[dict]:
    """Return ten instances for each mode and length."""
    return [
        {
            "reply_mode": mode,
            "length": length,
            "model": model,
            "prompt": prompt,
            "direction": direction,
        }
        for length in lengths
        for mode in modes
        for model, prompt in MODELS
        for direction in DIRECTIONS
    ]


def write(shares: pd.DataFrame, best: pd.DataFrame) -> None:
    """Write the tables and charts in benchmarks/, and their section of search.md."""
    curves, won = standings.curves(shares), standings.won(shares)
    shares[shares["budget"].isin([256, BUDGET])].to_csv(
        HERE / "search_instances.csv", index=False, float_format="%.5g"
    )
    for name, frame, digits in (
        ("curves", curves, 5),
        ("won", won, 5),
        ("best", best, 7),
    ):
        frame.to_csv(
            HERE / f"search_{name}.csv", index=False, float_format=f"%.{digits}g"
        )
    for mode, of in [
        (mode, of)
        for mode in curves["reply_mode"].unique()
        for of in ("read", "scored")
    ]:
        rows = (curves["reply_mode"] == mode) & (curves["of"] == of)
        figure = standings.draw_against_rivals(
            curves[rows], won[(won["reply_mode"] == mode) & (won["of"] == of)]
        )
        picture = io.BytesIO()
        figure.savefig(picture, dpi=80, metadata={"Software": None})
        (HERE / f"search_{mode}_{of}.png").write_bytes(smaller(picture.getvalue()))
    write_tables()


def write_tables() -> None:
    """Write the section of search.md from the committed tables."""
    curves, won, best = (
        pd.read_csv(HERE / f"search_{name}.csv") for name in ("curves", "won", "best")
    )
    # of two tokens every reply is known
    longer = [table(certified(best))] if (best["length"] > 2).any() else []
    write_report(
        "search at equal cost",
        "\n\n".join([table(standing(curves, won)), *longer]),
        PAGE,
    )


def standing(curves: pd.DataFrame, won: pd.DataFrame) -> pd.DataFrame:
    """Return what search.md shows: shares after the whole budget of operations, and instances
    won.
    """
    curves = curves[(curves["of"] == "read") & (curves["budget"] == BUDGET)]
    final = won[(won["of"] == "read") & (won["budget"] == BUDGET)]
    rows = curves.merge(
        final.drop(columns=["ci_low", "ci_high", "n"]),
        "left",
        [*standings.AXIS, "method"],
    )
    interval = [
        f"{low:.2f} to {high:.2f}"
        for low, high in zip(rows["ci_low"], rows["ci_high"], strict=True)
    ]
    counts = [
        "" if np.isnan(better) else f"{better:.0f} / {level:.0f} / {worse:.0f}"
        for better, level, worse in rows[["better", "level", "worse"]].itertuples(
            index=False
        )
    ]
    columns = {
        key: rows[name]
        for key, name in (
            ("replies", "reply_mode"),
            ("tokens", "length"),
            ("instances", "n"),
        )
    }
    columns["method"] = rows["method"]
    share = [f"{share:.3f}" for share in rows["share"]]
    return pd.DataFrame(
        columns
        | {
            "share": share,
            "95% interval": interval,
            "ours better / level / worse": counts,
        }
    )


def certified(best: pd.DataFrame) -> pd.DataFrame:
    """Return how many instances' best found reply no swap improves, and how far the others rose."""
    rows = best[best["length"] > 2].copy()
    rows["rose"] = (rows["best"] - rows["found"]) / (rows["best"] - rows["random"])
    grouped = rows.groupby(["reply_mode", "length"], sort=False)
    return (
        pd.DataFrame(
            {
                "instances": grouped.size(),
                "pairs tried too": grouped["pairs"]
                .all()
                .map({True: "yes", False: "no"}),
                "not improved by any swap": grouped["moves"].agg(
                    lambda moves: int((moves == 0).sum())
                ),
                "largest rise of the others, in shares": grouped["rose"].max(),
                "replies scored for it, median": grouped["scored"].median().astype(int),
            }
        )
        .reset_index()
        .rename(columns={"reply_mode": "replies", "length": "tokens"})
    )


def report(modes: list[str], lengths: list[int], finished: bool) -> None:
    """Search the instances of these reply modes and lengths and report on them; finished: search
    nothing.
    """
    wanted = instances(modes, lengths)
    if finished:
        wanted = [
            instance
            for instance in wanted
            if all(path.exists() for path in paths_of(instance))
        ]
    rewards, best = zip(*map(measured, wanted), strict=True)
    best_of_all = pd.concat(best, ignore_index=True)
    shares = standings.shares(
        pd.concat(rewards, ignore_index=True),
        best_of_all[[*INSTANCE, "random", "best"]],
    )
    write(shares, best_of_all)
