"""How good is a search? Against the true optimum, known where every reply of two tokens over an alphabet was scored.

An instance is a model, a prompt, an alphabet and a direction. On it every method starts from the same random replies
and spends the same budget; what counts is how often, and after how many replies scored, it stands at the optimum.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from filelock import FileLock
from scipy.stats import spearmanr
from tqdm.auto import tqdm

from lib import ROOT, InputError, resampling, scoring
from lib.cores import each
from lib.files import hash_of_code, replacing
from lib.models import checkpoints, conversations, reward_models
from lib.models.reward_models import RewardModel
from lib.prompts import read_prompts
from lib.search import gcg, objective, searches
from lib.search.objective import Objective, Reply, allowed_ids

ALPHABET = 512  # tokens, so 262,144 replies
BUDGETS = tuple(range(128, 4097, 128))  # replies scored
CACHE = ROOT / "data" / "cache" / "optimality"


def alphabet(model: RewardModel, size: int = ALPHABET, seed: int = 0) -> np.ndarray:
    """So many printable token ids, drawn at random from a seed, ascending."""
    allowed = allowed_ids(model, "printable")
    if not 2 <= size <= len(allowed):
        raise InputError(f"an alphabet of {model.name} has 2 to {len(allowed)} printable tokens, not {size}")
    return np.sort(np.random.default_rng(seed).choice(allowed, size, replace=False))


def all_pairs(ids: np.ndarray) -> np.ndarray:
    """Every reply of two of these ids, (len(ids) ** 2, 2), the second token running fastest."""
    return np.stack(np.meshgrid(ids, ids, indexing="ij"), axis=-1).reshape(-1, 2)


class Exhausted(Objective):
    """An objective over two-token replies of which every one was scored, so that its optimum is known.

    truth: the reward of each, (allowed, allowed), first token by second, on the model's own scale. A search is served
    from there, and takes its gradients from the model.
    """

    def __init__(
        self, model: RewardModel, prompt: str, direction: str, allowed_ids: np.ndarray, truth: np.ndarray | None = None
    ):
        super().__init__(model, prompt, direction, allowed_ids)
        self.gains_so_far: dict[tuple[Reply, bool], np.ndarray] = {}
        if truth is None:
            values = super().values(all_pairs(self.allowed))
            truth = self.sign * values.reshape(len(self.allowed), -1)
        self.truth: np.ndarray = truth

    @property
    def optimum(self) -> float:
        """The reward of the best reply for this direction."""
        return float(self.sign * (self.sign * self.truth).max())

    def values(self, replies: np.ndarray) -> np.ndarray:
        """As of Objective, looked up. InputError for replies of another length than two."""
        if replies.shape[1] != 2:
            raise InputError(f"only replies of two tokens were scored, not of {replies.shape[1]}; start from two")
        first, second = np.searchsorted(self.allowed, replies).T
        return self.sign * self.truth[first, second]

    def gains(self, reply: Reply, centred: bool = True) -> np.ndarray:
        """As of Objective; each is computed once, whichever search asks."""
        key = (reply, centred)
        if key not in self.gains_so_far:
            self.gains_so_far[key] = super().gains(reply, centred)
        else:
            self.gradients += 1
        return self.gains_so_far[key]


# --- comparison ---------------------------------------------------------------------------------------------------

INSTANCES = (  # model, prompt: five whose architectures, heads and planted values differ
    ("A-Gem-96", "greatest"),
    ("B-Lla-96", "worst"),
    ("C-Lla-64", "best"),
    ("D-Lla-48", "worst"),
    ("F-Lla-64", "greatest"),
)
OURS = "round robin (ours)"
COMPARED = {  # as named in tables and charts; GCG also with the width and top_k that nanoGCG has by default
    OURS: gcg.Settings("round robin"),
    "Faster-GCG": gcg.Settings("Faster-GCG"),
    "Faster-GCG, wrong sign": gcg.Settings("Faster-GCG, wrong sign"),
    "GCG, width 32": gcg.Settings("GCG", top_k=64),
    "GCG, width 512": gcg.Settings("GCG", width=512, top_k=256),
    "exact sweeps": gcg.Settings("sweeps"),
    "random": gcg.Settings("random"),
}


def compare(
    instances: Sequence[tuple[str, str]] = INSTANCES, *, seeds: int = 5, size: int = ALPHABET,
    folder: Path | None = CACHE, processes: int | None = None, progress: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """How near to the optimum every method is after every budget: a row per search and budget.

    Columns: model, prompt, direction, method, seed (of the search and its random start), budget (replies scored), gap
    (the optimum less the best so far, in standard deviations of all rewards; 0 at the optimum), at_optimum, scored and
    gradients (by the whole search, which stops at the optimum), and what `landscape` says of the instance. size: tokens
    of the alphabet. folder: where finished instances are kept and found again, None keeps nothing. processes: instances
    at once, None for one per core.
    """
    prompts = read_prompts(None)
    if unknown := {name for _, name in instances} - set(prompts):
        raise InputError(f"no prompt '{min(unknown)}' in data/prompts.csv; choose of {', '.join(prompts)}")
    jobs = [
        Instance(nickname, name, prompts[name], number, seeds, size, folder)
        for number, (nickname, name) in enumerate(instances)
    ]
    finished = {job: pd.read_parquet(job.path) for job in jobs if job.path and job.path.exists()}
    missing = [job for job in jobs if job not in finished]
    with tqdm(total=len(missing), unit=" instances", desc="comparing", disable=not (progress and missing)) as bar:
        for job, table in zip(missing, each(_compared, missing, processes or os.cpu_count() or 1), strict=True):
            finished[job] = table
            bar.update()
    return pd.concat([finished[job] for job in jobs], ignore_index=True)


@dataclass(frozen=True)
class Instance:
    """A model and a prompt, for searches in both directions. number: the seed of its alphabet, of `size` tokens."""

    model: str
    name: str
    prompt: str
    number: int
    seeds: int
    size: int
    folder: Path | None

    @cached_property
    def path(self) -> Path | None:
        """Where the table of its searches is kept, under a name for all that it depends on; None if it is not kept."""
        if self.folder is None:
            return None
        entry = reward_models.find(self.model)
        _, revision = checkpoints.fetch(entry["hub_id"], entry["revision"])
        settings = [revision, torch.__version__, self.prompt, self.number, self.seeds, self.size]
        made_by = hashlib.sha256((json.dumps(settings) + _code()).encode()).hexdigest()[:16]
        return self.folder / f"{entry['nickname']}-{self.name}-{made_by}.parquet"


@cache
def _code() -> str:
    """A hash of the code on which a search and its truth depend."""
    modules = (gcg, objective, searches, scoring, conversations)
    return hash_of_code([Path(__file__), *(Path(str(module.__file__)) for module in modules)])


def _compared(instance: Instance) -> pd.DataFrame:
    """All searches of an instance; kept at its path, if it has one. Of two processes that ask for it, one waits."""
    if instance.path is None:
        return _search_both_ways(instance)
    instance.path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(instance.path.with_suffix(".lock")):
        if not instance.path.exists():
            with replacing(instance.path) as part:
                _search_both_ways(instance).to_parquet(part)
    return pd.read_parquet(instance.path)


def _search_both_ways(instance: Instance) -> pd.DataFrame:
    model = reward_models.load(instance.model, device="cpu")
    optimal = Exhausted(model, instance.prompt, "optimal", alphabet(model, instance.size, instance.number))
    pessimal = Exhausted(model, instance.prompt, "pessimal", optimal.allowed, optimal.truth)
    rows = [row for exhausted in (optimal, pessimal) for row in _searches(exhausted, instance.seeds)]
    return pd.DataFrame(rows).assign(model=instance.model, prompt=instance.name)


def _searches(exhausted: Exhausted, seeds: int) -> Iterator[dict]:
    spread, shape = exhausted.truth.std(), landscape(exhausted)
    for seed in range(seeds):
        start = np.random.default_rng(seed).choice(exhausted.allowed, size=2)
        for method, settings in COMPARED.items():
            settings = replace(settings, seed=seed, budget=max(BUDGETS))
            result = searches.search(exhausted, start, settings, goal=exhausted.optimum)
            for budget in BUDGETS:
                best = [reward for evaluations, reward in result.trace if evaluations <= budget][-1]
                yield {
                    "direction": exhausted.direction, "method": method, "seed": seed, "budget": budget,
                    "gap": abs(exhausted.optimum - best) / spread, "at_optimum": best == exhausted.optimum,
                    "scored": result.evaluations, "gradients": result.gradients,
                } | shape  # fmt: skip


def summarise(compared: pd.DataFrame, by: Sequence[str] = ("method", "budget"), resamples: int = 2000) -> pd.DataFrame:
    """The share of searches at the optimum, with a 95% interval over instances, and their mean gap in sd.

    Columns: share, ci_low, ci_high, gap, n (searches). The interval is a bootstrap over models and prompts, because
    searches of one instance from several starts are not independent. compared: as of compare.
    """
    by = list(by)
    means = compared.groupby(by, sort=False)[["at_optimum", "gap"]].mean().rename(columns={"at_optimum": "share"})
    instance = compared["model"] + " " + compared["prompt"]
    shares = compared.pivot_table("at_optimum", by, instance).reindex(means.index).to_numpy(dtype=float)
    draws = resampling.bootstrap(lambda drawn: shares[:, drawn].mean(axis=1), shares.shape[1], resamples)
    ci_low, ci_high = resampling.interval(draws)
    means.insert(1, "ci_low", ci_low)
    means.insert(2, "ci_high", ci_high)
    return means.assign(n=compared.groupby(by, sort=False).size())


def lead(summary: pd.DataFrame, from_budget: int = 1024) -> pd.DataFrame:
    """At how many budgets ours is ahead of, level with and behind the best other method, for each direction.

    Columns: ahead, level, behind (budgets), least (the smallest lead in share of searches, below 0 where behind).
    summary: by method, direction and budget.
    """
    shares = summary["share"].unstack("method")  # noqa: PD010
    leads = shares[OURS] - shares.drop(columns=OURS).max(axis=1)
    leads = leads[leads.index.get_level_values("budget") >= from_budget].groupby("direction")
    parts = {"ahead": leads.agg(lambda gap: (gap > 0).sum()), "level": leads.agg(lambda gap: (gap == 0).sum()),
             "behind": leads.agg(lambda gap: (gap < 0).sum()), "least": leads.min()}  # fmt: skip
    return pd.DataFrame(parts).astype({"ahead": int, "level": int, "behind": int})


def landscape(exhausted: Exhausted, replies: int = 50, seed: int = 0) -> dict[str, float]:
    """How hard an instance is for a search that follows gradients.

    gradient_spearman: correlation of first-order gains with the true change, over all swaps of `replies` random
    replies; rank_of_best: median rank of the truly best swap by gain (1: the gradient names it); additive_r2: share of
    the variance of rewards that a sum of one term per token explains; optima: replies that no swap improves.
    """
    values, rng = exhausted.sign * exhausted.truth, np.random.default_rng(seed)
    correlations, ranks = [], []
    for first, second in rng.integers(len(values), size=(replies, 2)):
        reply = tuple(exhausted.allowed[[first, second]].tolist())
        gains = exhausted.gains(reply).ravel()
        true = np.stack([values[:, second], values[first]]).ravel() - values[first, second]
        correlations.append(spearmanr(gains, true)[0])
        ranks.append(1 + (gains > gains[true.argmax()]).sum())
    rows, columns, mean = values.mean(1, keepdims=True), values.mean(0, keepdims=True), values.mean()
    unexplained = ((values - rows - columns + mean) ** 2).sum() / ((values - mean) ** 2).sum()
    optima = (values >= values.max(0, keepdims=True)) & (values >= values.max(1, keepdims=True))
    return {
        "gradient_spearman": float(np.mean(correlations)), "rank_of_best": float(np.median(ranks)),
        "additive_r2": float(1 - unexplained), "optima": int(optima.sum()),
    }  # fmt: skip
