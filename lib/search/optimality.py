"""How good is a search? Against the true optimum, known where every reply of two or three tokens was scored.

An instance is a model, a prompt, an alphabet and a direction, over ids or over the replies that survive as text. On it
every method starts from the same random replies and spends the same budget; what counts is how often, and after how
many replies scored, it stands at the optimum.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from filelock import FileLock
from scipy.stats import binomtest, spearmanr
from tqdm.auto import tqdm

from lib import ROOT, InputError, resampling, scoring
from lib.cores import each
from lib.files import hash_of_code, replacing
from lib.models import checkpoints, conversations, reward_models
from lib.models.reward_models import RewardModel
from lib.prompts import read_prompts
from lib.search import as_text, gcg, objective, searches
from lib.search.objective import DIRECTIONS, REPLY_MODES, Objective, Reply, allowed_ids, as_reply

ALPHABETS = {2: 512, 3: 64}  # tokens of a reply -> ids that it is made of, so 262,144 replies either way
BUDGETS = (*range(128, 1024, 128), *range(1024, 2048, 256), *range(2048, 4097, 512))  # replies scored
CACHE = ROOT / "data" / "cache" / "optimality"
COMMITTED = ROOT / "data" / "search"  # what benchmarks/optimality.py measured, which the notebook reads
INSTANCE = ["model", "prompt", "tokens", "reply_mode", "direction"]
LANDSCAPE = ["gradient_spearman", "rank_of_best", "additive_r2", "optima", "survivors"]


def alphabet(model: RewardModel, size: int = ALPHABETS[2], seed: int = 0) -> np.ndarray:
    """So many printable token ids, drawn at random from a seed, ascending."""
    allowed = allowed_ids(model, "printable")
    if not 2 <= size <= len(allowed):
        raise InputError(f"an alphabet of {model.name} has 2 to {len(allowed)} printable tokens, not {size}")
    return np.sort(np.random.default_rng(seed).choice(allowed, size, replace=False))


def all_replies(ids: np.ndarray, n: int = 2) -> np.ndarray:
    """Every reply of n of these ids, (len(ids) ** n, n), the last token running fastest."""
    return np.stack(np.meshgrid(*[ids] * n, indexing="ij"), axis=-1).reshape(-1, n)


class Exhausted(Objective):
    """An objective over replies of two or three tokens of which every one was scored, so that its optimum is known.

    truth: the reward of each, (allowed,) * n, first token by second and so on, on the model's own scale; survives:
    which of them come back as text, of the same shape, every one put through template and tokenizer. A search is served
    from there, and takes its gradients from the model.
    """

    def __init__(
        self, model: RewardModel, prompt: str, direction: str, allowed_ids: np.ndarray,
        truth: np.ndarray | None = None, *, n: int = 2, reply_mode: str = "text", survives: np.ndarray | None = None,
    ):  # fmt: skip
        super().__init__(model, prompt, direction, allowed_ids, reply_mode=reply_mode)
        self.gains_so_far: dict[tuple[Reply, bool], np.ndarray] = {}
        shape = (len(self.allowed),) * (n if truth is None else truth.ndim)
        replies = all_replies(self.allowed, len(shape))
        self.truth = (self.sign * super().values(replies)).reshape(shape) if truth is None else truth
        if survives is None:
            whole = self.round_trip if reply_mode == "text" else lambda replies: np.ones(len(replies), bool)
            survives = whole(replies).reshape(shape)
        self.survives: np.ndarray = survives
        self.conditions = [self.survivors] if reply_mode == "text" else []

    @property
    def optimum(self) -> float:
        """The reward of the best reply for this direction, of those that survive if it is about text."""
        return float(self.sign * np.where(self.survives, self.sign * self.truth, -np.inf).max())

    def values(self, replies: np.ndarray) -> np.ndarray:
        """As of Objective, looked up. InputError for replies of another length than was scored."""
        if replies.shape[1] != self.truth.ndim:
            told = f"only replies of {self.truth.ndim} tokens were scored, not of {replies.shape[1]}"
            raise InputError(f"{told}; start from {self.truth.ndim}")
        return self.sign * self.truth[self._places(replies)]

    def survivors(self, replies: np.ndarray) -> np.ndarray:
        """Whether each reply survives as text, (replies,) bool, looked up."""
        return self.survives[self._places(replies)]

    def may_survive(self, replies: np.ndarray) -> np.ndarray:
        """Whether each reply survives as text, which is known here."""
        return self.survivors(replies)

    def draw(self, n: int, rng: np.random.Generator) -> Reply:
        """A random reply, of all that survive alike if it is about text; () if none does."""
        if self.reply_mode == "ids":
            return super().draw(n, rng)
        surviving = self.surviving
        return as_reply(self.allowed[surviving[rng.integers(len(surviving))]]) if len(surviving) else ()

    @cached_property
    def surviving(self) -> np.ndarray:
        """Where the replies that survive are in `truth`, (survivors, n)."""
        return np.argwhere(self.survives)

    def _places(self, replies: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.searchsorted(self.allowed, replies).T)

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
    instances: Sequence[tuple[str, str]] = INSTANCES, *, seeds: int = 5, alphabets: Mapping[int, int] | None = None,
    folder: Path | None = CACHE, processes: int | None = None, progress: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """How near to the optimum every method is after every budget: a row per instance, method and budget.

    Columns: model, prompt, tokens (of a reply), reply_mode, direction, method, budget (replies scored), searches,
    at_optimum (the share of them that stands there), gap (their mean; the optimum less the best so far, in standard
    deviations of all rewards), scored and gradients (their mean by the whole search, which stops at the optimum), and
    what `landscape` says of the instance. alphabets: tokens of a reply -> ids that it is made of; None for ALPHABETS.
    folder: where finished instances are kept and found again, None keeps nothing. processes: instances at once, None
    for one per core.
    """
    prompts = read_prompts(None)
    if unknown := {name for _, name in instances} - set(prompts):
        raise InputError(f"no prompt '{min(unknown)}' in data/prompts.csv; choose of {', '.join(prompts)}")
    jobs = [
        Instance(nickname, name, prompts[name], number, seeds, tokens, size, folder)
        for tokens, size in (alphabets or ALPHABETS).items()
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
    """A model and a prompt, for searches in both directions, over ids and as text, of replies of so many tokens.

    number: the seed of its alphabet, of `size` ids.
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
        """Where the table of its searches is kept, under a name for all that it depends on; None if it is not kept."""
        if self.folder is None:
            return None
        entry = reward_models.find(self.model)
        _, revision = checkpoints.fetch(entry["hub_id"], entry["revision"])
        settings = [revision, torch.__version__, self.prompt, self.number, self.seeds, self.tokens, self.size]
        made_by = hashlib.sha256((json.dumps(settings) + _code()).encode()).hexdigest()[:16]
        return self.folder / f"{entry['nickname']}-{self.name}-{self.tokens}-{made_by}.parquet"


@cache
def _code() -> str:
    """A hash of the code on which a search and its truth depend."""
    modules = (as_text, gcg, objective, searches, scoring, conversations)
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
    ids = alphabet(model, instance.size, instance.number)
    whole = Exhausted(model, instance.prompt, "optimal", ids, n=instance.tokens)
    rows: list[dict] = []
    for reply_mode in REPLY_MODES:
        survives = whole.survives if reply_mode == "text" else np.ones_like(whole.survives)
        for direction in DIRECTIONS if survives.any() else ():
            searched = Exhausted(
                model, instance.prompt, direction, ids, whole.truth, reply_mode=reply_mode, survives=survives
            )
            rows += _searches(searched, instance.seeds)
    return pd.DataFrame(rows).assign(model=instance.model, prompt=instance.name, tokens=instance.tokens)


def _searches(exhausted: Exhausted, seeds: int) -> Iterator[dict]:
    shape, tokens = landscape(exhausted), exhausted.truth.ndim
    starts = [exhausted.draw(tokens, np.random.default_rng(seed)) for seed in range(seeds)]
    for method, settings in COMPARED.items():
        of_seeds = [replace(settings, seed=seed, budget=max(BUDGETS)) for seed in range(seeds)]
        results = [
            searches.search(exhausted, start, of_seed, goal=exhausted.optimum)
            for start, of_seed in zip(starts, of_seeds, strict=True)
        ]
        for budget in BUDGETS:
            best = [[reward for scored, reward in one.trace if scored <= budget][-1] for one in results]
            yield {
                "reply_mode": exhausted.reply_mode, "direction": exhausted.direction, "method": method,
                "budget": budget, "searches": seeds,
                "at_optimum": np.mean([reward == exhausted.optimum for reward in best]),
                "gap": np.mean(np.abs(exhausted.optimum - np.array(best))) / exhausted.truth.std(),
                "scored": np.mean([one.evaluations for one in results]),
                "gradients": np.mean([one.gradients for one in results]),
            } | shape  # fmt: skip


def summarise(compared: pd.DataFrame, by: Sequence[str] = ("method", "budget"), resamples: int = 2000) -> pd.DataFrame:
    """The share of searches at the optimum, with a 95% interval over instances, and their mean gap in sd.

    Columns: share, ci_low, ci_high, gap, n (searches). The interval is a bootstrap over models and prompts, because
    searches of one instance from several starts are not independent. compared: as of compare, all of as many searches.
    """
    by = list(by)
    means = compared.groupby(by, sort=False)[["at_optimum", "gap"]].mean().rename(columns={"at_optimum": "share"})
    instance = compared["model"] + " " + compared["prompt"]
    shares = compared.pivot_table("at_optimum", by, instance).reindex(means.index).to_numpy(dtype=float)
    draws = resampling.bootstrap(lambda drawn: shares[:, drawn].mean(axis=1), shares.shape[1], resamples)
    ci_low, ci_high = resampling.interval(draws)
    means.insert(1, "ci_low", ci_low)
    means.insert(2, "ci_high", ci_high)
    return means.assign(n=compared.groupby(by, sort=False)["searches"].sum())


def write(compared: pd.DataFrame, folder: Path = COMMITTED) -> None:
    """Put a comparison down as two tables, the searches and the landscape of each instance. compared: as of compare."""
    folder.mkdir(parents=True, exist_ok=True)
    landscapes = compared.drop_duplicates(INSTANCE)[INSTANCE + LANDSCAPE]
    landscapes.to_csv(folder / "landscapes.csv", index=False, float_format="%.4g")
    compared.drop(columns=LANDSCAPE).to_csv(folder / "optimality.csv", index=False, float_format="%.4g")


def read(folder: Path = COMMITTED) -> pd.DataFrame:
    """The committed comparison, as of compare. InputError if there is none."""
    if not (folder / "optimality.csv").is_file():
        raise InputError(f"no comparison of searches in {folder}; run: python benchmarks/optimality.py")
    searched, landscapes = (pd.read_csv(folder / f"{name}.csv") for name in ("optimality", "landscapes"))
    return searched.merge(landscapes, on=INSTANCE, validate="many_to_one")


def wins(compared: pd.DataFrame, ours: str = OURS) -> pd.DataFrame:
    """In how many instances ours has a smaller mean gap than each other method, over all budgets: won, level, lost.

    One verdict per instance (model, prompt, tokens, reply mode and direction), not per budget: the budgets of a search
    are one curve. Columns: won, level, lost, and p (two-sided sign test over the instances that differ).
    """
    gaps = compared.pivot_table("gap", INSTANCE, "method")
    better = gaps.drop(columns=ours).sub(gaps[ours], axis=0)  # above 0 where ours is nearer
    counts = {"won": (better > 1e-9).sum(), "level": (better.abs() <= 1e-9).sum(), "lost": (better < -1e-9).sum()}
    table = pd.DataFrame(counts).rename_axis("method")
    differ = zip(table["won"], table["won"] + table["lost"], strict=True)
    return table.assign(p=[binomtest(int(won), int(of)).pvalue if of else 1.0 for won, of in differ])


def landscape(exhausted: Exhausted, replies: int = 50, seed: int = 0) -> dict[str, float]:
    """How hard an instance is for a search that follows gradients.

    gradient_spearman: correlation of first-order gains with the true change, over all swaps of `replies` random
    replies; rank_of_best: median rank of the truly best swap by gain (1: the gradient names it); additive_r2: share of
    the variance of rewards that a sum of one term per token explains; optima: replies that no swap improves. survivors:
    share of all replies that survive. As text, all but additive_r2 is about replies and swaps that survive.
    """
    values, rng = np.where(exhausted.survives, exhausted.sign * exhausted.truth, -np.inf), np.random.default_rng(seed)
    correlations, ranks = [], []
    surviving = exhausted.surviving
    for places in surviving[rng.integers(len(surviving), size=replies)]:
        gains = exhausted.gains(as_reply(exhausted.allowed[places])).ravel()
        swaps = [values[(*places[:at], slice(None), *places[at + 1 :])] for at in range(len(places))]
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
        "gradient_spearman": correlation, "rank_of_best": float(np.median(ranks)),
        "additive_r2": additive_r2(exhausted.truth), "optima": int(optima.sum()),
        "survivors": float(exhausted.survives.mean()),
    }  # fmt: skip


def additive_r2(truth: np.ndarray) -> float:
    """The share of the variance of rewards that a sum of one term per token explains, in [0, 1]."""
    axes = range(truth.ndim)
    terms = [truth.mean(tuple(other for other in axes if other != axis), keepdims=True) for axis in axes]
    total = truth - truth.mean()
    unexplained = total - sum(term - truth.mean() for term in terms)
    return float(1 - (unexplained**2).sum() / (total**2).sum())
