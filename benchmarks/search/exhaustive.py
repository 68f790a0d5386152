"""The truth about searches: every reply of two or three tokens is scored, so their optimum is
known.

All 262,144 replies of two tokens over 512 ids and of three tokens over 64, over ids and as text, in
both directions, on five small models. On each instance every method starts from the same random
replies and spends the same budget. An instance that is finished is kept in data/cache. Writes
data/search, which notebook 08 reads, and a section of benchmarks/search.md.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from tqdm.auto import tqdm

from benchmarks.scoring import write_report
from benchmarks.search import optimality
from benchmarks.search.optimality import ALPHABETS, INSTANCE, LANDSCAPE, MEASURED, OURS
from lib import ROOT, InputError
from lib.io import hash_of_code, replacing
from lib.models import conversations, files, reward_models
from lib.models.hardware import each
from lib.models.reward_models import RewardModel
from lib.scoring import reader, vocabulary
from lib.search import as_text, gcg, objective, searches
from lib.search.objective import (
    DIRECTIONS,
    REPLY_MODES,
    Objective,
    Reply,
    allowed_ids,
    as_reply,
)
from lib.tables.prompts import read_prompts

# replies scored
BUDGETS = (*range(128, 1024, 128), *range(1024, 2048, 256), *range(2048, 4097, 512))
CACHE = ROOT / "data" / "cache" / "optimality"
SEEDS = 3  # random starts per method and instance
# model, prompt: five whose architectures, heads and planted values differ
INSTANCES = (
    ("A-Gem-96", "greatest"),
    ("B-Lla-96", "worst"),
    ("C-Lla-64", "best"),
    ("D-Lla-48", "worst"),
    ("F-Lla-64", "greatest"),
)
# by the names in tables and charts; GCG also with the width and top_k that nanoGCG has by default
COMPARED = {
    OURS: gcg.Settings("round robin"),
    "Faster-GCG": gcg.Settings("Faster-GCG"),
    "Faster-GCG, wrong sign": gcg.Settings("Faster-GCG, wrong sign"),
    "GCG, width 32": gcg.Settings("GCG", top_k=64),
    "GCG, width 512": gcg.Settings("GCG", width=512, top_k=256),
    "exact sweeps": gcg.Settings("sweeps"),
    "random": gcg.Settings("random"),
}


# --- the truth ------------------------------------------------------------------------------------


def alphabet(model: RewardModel, size: int = ALPHABETS[2], seed: int = 0) -> np.ndarray:
    """Return `size` printable token ids, drawn at random from a seed, ascending."""
    allowed = allowed_ids(model, "printable")
    if not 2 <= size <= len(allowed):
        raise InputError(
            f"an alphabet of {model.name} has 2 to {len(allowed)} printable tokens, not {size}"
        )
    return np.sort(np.random.default_rng(seed).choice(allowed, size, replace=False))


def all_replies(ids: np.ndarray, n: int = 2) -> np.ndarray:
    """Return every reply of n of these ids, (len(ids) ** n, n), the last token running fastest."""
    return np.stack(np.meshgrid(*[ids] * n, indexing="ij"), axis=-1).reshape(-1, n)


class Exhausted(Objective):
    """An objective over replies of two or three tokens of which every one was scored, so that its
    optimum is known.

    truth: the reward of each, (allowed,) * n, first token by second and so on, on the model's own
    scale. survives: which of them survive as text, of the same shape; every one is put through
    template and tokenizer. A search looks its values up here, and takes its gradients from the
    model.
    """

    def __init__(
        self,
        model: RewardModel,
        prompt: str,
        direction: str,
        allowed_ids: np.ndarray,
        truth: np.ndarray | None = None,
        *,
        n: int = 2,
        reply_mode: str = "text",
        survives: np.ndarray | None = None,
    ):
        super().__init__(model, prompt, direction, allowed_ids, reply_mode=reply_mode)
        self.gains_so_far: dict[tuple[Reply, bool], np.ndarray] = {}
        shape = (len(self.allowed),) * (n if truth is None else truth.ndim)
        replies = all_replies(self.allowed, len(shape))
        self.truth = (
            (self.sign * super().values(replies)).reshape(shape)
            if truth is None
            else truth
        )
        if survives is None:
            whole = (
                self.round_trip
                if reply_mode == "text"
                else lambda replies: np.ones(len(replies), bool)
            )
            survives = whole(replies).reshape(shape)
        self.survives: np.ndarray = survives
        self.conditions = [self.survivors] if reply_mode == "text" else []

    @property
    def optimum(self) -> float:
        """Return the best reward for this direction, over the replies that survive where the
        reply mode is text.
        """
        return float(
            self.sign * np.where(self.survives, self.sign * self.truth, -np.inf).max()
        )

    def values(self, replies: np.ndarray) -> np.ndarray:
        """Look the values up. Raise InputError for replies of another length than was scored."""
        if replies.shape[1] != self.truth.ndim:
            n = self.truth.ndim
            raise InputError(
                f"only replies of {n} tokens were scored, not of {replies.shape[1]}; start from {n}"
            )
        return self.sign * self.truth[self._places(replies)]

    def survivors(self, replies: np.ndarray) -> np.ndarray:
        """Return whether each reply survives as text, (replies,) bool, looked up."""
        return self.survives[self._places(replies)]

    may_survive = survivors  # what Objective guesses from neighbours is known here

    def draw(self, n: int, rng: np.random.Generator) -> Reply:
        """Return a random reply, as text one of those that survive; () if none does."""
        if self.reply_mode == "ids":
            return super().draw(n, rng)
        surviving = self.surviving
        return (
            as_reply(self.allowed[surviving[rng.integers(len(surviving))]])
            if len(surviving)
            else ()
        )

    @cached_property
    def surviving(self) -> np.ndarray:
        """Return the places in `truth` of the replies that survive, (survivors, n)."""
        return np.argwhere(self.survives)

    def _places(self, replies: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.searchsorted(self.allowed, replies).T)

    def gains(self, reply: Reply, centred: bool = True) -> np.ndarray:
        """Return the gains as Objective does; each is computed once, whichever search asks."""
        key = (reply, centred)
        if key not in self.gains_so_far:
            self.gains_so_far[key] = super().gains(reply, centred)
        else:
            self.gradients += 1
        return self.gains_so_far[key]


def landscape(
    exhausted: Exhausted, replies: int = 50, seed: int = 0
) -> dict[str, float]:
    """Return how hard an instance is for a search that follows gradients.

    gradient_spearman: correlation of first-order gains with the true change, over all swaps of
    `replies` random replies; rank_of_best: median rank of the truly best swap by gain (1: the
    gradient names it); additive_r2: share of the variance of rewards that a sum of one term per
    token explains; optima: replies that no swap improves. survivors: share of all replies that
    survive. As text, all but additive_r2 is about replies and swaps that survive.
    """
    values, rng = (
        np.where(exhausted.survives, exhausted.sign * exhausted.truth, -np.inf),
        np.random.default_rng(seed),
    )
    correlations, ranks = [], []
    surviving = exhausted.surviving
    for places in surviving[rng.integers(len(surviving), size=replies)]:
        gains = exhausted.gains(as_reply(exhausted.allowed[places])).ravel()
        swaps = [
            values[(*places[:at], slice(None), *places[at + 1 :])]
            for at in range(len(places))
        ]
        true = np.concatenate(swaps) - values[tuple(places)]
        possible = np.isfinite(true)
        if np.ptp(true[possible]) > 0:  # else no swap survives
            correlations.append(spearmanr(gains[possible], true[possible])[0])
        ranks.append(1 + (gains[possible] > gains[true.argmax()]).sum())
    optima = np.isfinite(values)
    for axis in range(values.ndim):
        optima &= values >= values.max(axis, keepdims=True)
    correlation = float(np.mean(correlations)) if correlations else np.nan
    return {
        "gradient_spearman": correlation,
        "rank_of_best": float(np.median(ranks)),
        "additive_r2": additive_r2(exhausted.truth),
        "optima": int(optima.sum()),
        "survivors": float(exhausted.survives.mean()),
    }


def additive_r2(truth: np.ndarray) -> float:
    """Return the share of the variance of rewards that a sum of one term per token explains, in
    [0, 1].
    """
    axes = range(truth.ndim)
    terms = [
        truth.mean(tuple(other for other in axes if other != axis), keepdims=True)
        for axis in axes
    ]
    total = truth - truth.mean()
    unexplained = total - sum(term - truth.mean() for term in terms)
    return float(1 - (unexplained**2).sum() / (total**2).sum())


# --- searches against the truth -------------------------------------------------------------------


def compare(
    instances: Sequence[tuple[str, str]] = INSTANCES,
    *,
    seeds: int = SEEDS,
    alphabets: Mapping[int, int] = ALPHABETS,
    folder: Path | None = CACHE,
    processes: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Return how near to the optimum every method is after every budget, as optimality.read does.

    instances: (model, prompt's name). alphabets: tokens of a reply -> size of its alphabet. folder:
    where finished instances are kept and read again, None keeps nothing. processes: instances at
    once, None for one per core.
    """
    prompts = read_prompts(None)
    if unknown := {name for _, name in instances} - set(prompts):
        raise InputError(
            f"no prompt '{min(unknown)}' in data/prompts.csv; choose of {', '.join(prompts)}"
        )
    jobs = [
        Instance(nickname, name, prompts[name], number, seeds, tokens, size, folder)
        for tokens, size in alphabets.items()
        for number, (nickname, name) in enumerate(instances)
    ]
    finished = {
        job: pd.read_parquet(job.path) for job in jobs if job.path and job.path.exists()
    }
    missing = [job for job in jobs if job not in finished]
    with tqdm(
        total=len(missing),
        unit=" instances",
        desc="comparing",
        disable=not (progress and missing),
    ) as bar:
        for job, rows in zip(
            missing,
            each(measure, missing, processes or os.cpu_count() or 1),
            strict=True,
        ):
            finished[job] = rows
            bar.update()
    return pd.concat([finished[job] for job in jobs], ignore_index=True)


@dataclass(frozen=True)
class Instance:
    """A model and a prompt, for searches in both directions, over ids and as text, of replies of
    `tokens` tokens.

    number: the seed of its alphabet of `size` ids. seeds: random starts of every method.
    """

    model: str
    name: str
    prompt: str
    number: int
    seeds: int
    tokens: int
    size: int
    folder: Path | None

    @cached_property
    def path(self) -> Path | None:
        """Return the file that keeps its searches, named for all that they depend on; None if
        they are not kept.
        """
        if self.folder is None:
            return None
        entry = reward_models.find(self.model)
        revision = files.open_files(entry["hub_id"], entry["revision"]).revision
        settings = [
            revision,
            torch.__version__,
            self.prompt,
            self.number,
            self.seeds,
            self.tokens,
            self.size,
        ]
        modules = (as_text, gcg, objective, searches, reader, vocabulary, conversations)
        code = hash_of_code(
            [Path(__file__), *(Path(str(module.__file__)) for module in modules)]
        )
        made_by = hashlib.sha256((json.dumps(settings) + code).encode()).hexdigest()[
            :16
        ]
        return (
            self.folder
            / f"{entry['nickname']}-{self.name}-{self.tokens}-{made_by}.parquet"
        )


def measure(instance: Instance) -> pd.DataFrame:
    """Return a row per reply mode, direction, method and budget of one instance; write them to
    its path, if any.
    """
    rows = search_both_ways(instance)
    if instance.path is not None:
        with replacing(instance.path) as part:
            rows.to_parquet(part)
    return rows


def search_both_ways(instance: Instance) -> pd.DataFrame:
    """Return the rows of `measure`, searched now."""
    model = reward_models.load(instance.model, device="cpu")
    ids = alphabet(model, instance.size, instance.number)
    whole = Exhausted(model, instance.prompt, "optimal", ids, n=instance.tokens)
    rows: list[dict] = []
    for reply_mode in REPLY_MODES:
        survives = (
            whole.survives if reply_mode == "text" else np.ones_like(whole.survives)
        )
        for direction in DIRECTIONS if survives.any() else ():
            known = {"reply_mode": reply_mode, "survives": survives}
            exhausted = Exhausted(
                model, instance.prompt, direction, ids, whole.truth, **known
            )
            rows += _searches(exhausted, instance.seeds)
    return pd.DataFrame(rows).assign(
        model=instance.model, prompt=instance.name, tokens=instance.tokens
    )


def _searches(exhausted: Exhausted, seeds: int) -> Iterator[dict]:
    shape, tokens = landscape(exhausted), exhausted.truth.ndim
    starts = [
        exhausted.draw(tokens, np.random.default_rng(seed)) for seed in range(seeds)
    ]
    for method, settings in COMPARED.items():
        results = [
            searches.search(
                exhausted,
                start,
                replace(settings, seed=seed, budget=max(BUDGETS)),
                goal=exhausted.optimum,
            )
            for seed, start in enumerate(starts)
        ]
        for budget in BUDGETS:
            best = [
                [reward for scored, reward in result.trace if scored <= budget][-1]
                for result in results
            ]
            yield {
                "reply_mode": exhausted.reply_mode,
                "direction": exhausted.direction,
                "method": method,
                "budget": budget,
                "searches": seeds,
                "at_optimum": np.mean([reward == exhausted.optimum for reward in best]),
                "gap": np.mean(np.abs(exhausted.optimum - np.array(best)))
                / exhausted.truth.std(),
                "scored": np.mean([result.evaluations for result in results]),
                "gradients": np.mean([result.gradients for result in results]),
            } | shape


def write(compared: pd.DataFrame, folder: Path = MEASURED) -> None:
    """Write a comparison as two tables: the searches, and the landscape of each instance."""
    folder.mkdir(parents=True, exist_ok=True)
    landscapes = compared.drop_duplicates(INSTANCE)[INSTANCE + LANDSCAPE]
    landscapes.to_csv(folder / "landscapes.csv", index=False, float_format="%.4g")
    compared.drop(columns=LANDSCAPE).to_csv(
        folder / "optimality.csv", index=False, float_format="%.4g"
    )


def report() -> None:
    """Measure what is missing; write data/search, and the tables of search.md."""
    # here, because a machine with a GPU may lack what training needs
    from lib.planted import planting, saving
    from lib.planted import reward_models as small_models

    saving.train_missing(
        small_models.jobs(planting.profile(name) for name, _ in INSTANCES),
        progress=False,
    )
    compared = compare(processes=1)
    write(compared)
    write_report("optimality on a cpu", optimality.tables(compared), optimality.PAGE)
