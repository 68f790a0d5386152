"""What Ray costs and what it brings: start-up, overhead, one and two workers; a schedule simulated, a cost plan.

`python benchmarks/cluster.py` measures on two embedded models with random weights, on two of this machine's cores, and
writes benchmarks/cluster.md. The schedule of 100 models is simulated from what was measured here and from the
arithmetic of the models; the cost plan is arithmetic alone.
"""

import asyncio
import contextlib
import heapq
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib import ROOT, scores, scoring
from lib.cluster import engine, ray, tables
from lib.cluster.tables import Cluster, Scored
from lib.embedded import planting
from lib.embedded import reward_models as small_models
from lib.models import reward_models
from lib.prompts import grid

PAGE = ROOT / "benchmarks" / "cluster.md"
PROMPTS = 3  # that are measured
MEASURED = ("A-Gem-48", "E-Gem-64")  # whose profiles the measured models have
CALLS = 1000
# Of the plan: the paper's ten models ten times over, billions of parameters, and the vocabulary.
SIZES = (27, 27, 27, 8, 8, 8, 8, 3, 8, 2)
MODELS, PLANNED_PROMPTS, TOKENS = 100, 54, 128_256
SUFFIX = 3.2  # tokens that follow the prefix for each reply, assumed: 1.6 of its own, 1.6 that close the turn
H200 = 0.4 * 989e12  # FLOP/s: 40 % of what the data sheet says for bf16, dense
READ = 2e9  # bytes/s at which a node reads weights
START = 30  # seconds until a process has its libraries
CARDS = (1, 8, 64, 256, 512, 1024, 2048, 4096)


# --- measured -----------------------------------------------------------------------------------------------------


def make_models(folder: Path) -> dict[str, str]:
    """Two embedded models before they are trained: nickname -> folder."""
    made = {}
    for seed, name in enumerate(MEASURED):
        profile = planting.profile(name)
        model = small_models.new_model(profile, seed)
        place = folder / f"{name}-random"
        reward_models.save(place, model.backbone, model.head, profile.head, model.tokenizer)
        made[place.name] = str(place)
    return made


def in_one_process(models: dict[str, str], prompts: dict[str, str], folder: Path) -> float:
    """Seconds to load and score the models one after the other, each on one thread."""
    started = time.monotonic()
    for name, load in models.items():
        model = reward_models.load(load, device="cpu")
        scoring.score_vocabulary(model, prompts, folder / f"{name}.parquet", progress=False)
    return time.monotonic() - started


@contextlib.contextmanager
def workers(cpus: int) -> Iterator[float]:
    """A Ray of so many cores; seconds until a process of it has answered."""
    started = time.monotonic()
    ray.init("local", num_cpus=cpus, object_store_memory=engine.OBJECT_STORE, include_dashboard=False,
             log_to_driver=False, logging_level="ERROR")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        engine.nodes_of(folder)
    try:
        yield time.monotonic() - started
    finally:
        ray.shutdown()


def by_ray(models: dict[str, str], prompts: dict[str, str], folder: Path) -> float:
    """Seconds to score the models by Ray, which runs already."""
    started = time.monotonic()
    cluster = Cluster(engine.nodes_of(str(folder)), len(models), overview=False)

    async def all_of_them() -> list:
        requests = [cluster.request(name, load, {"device": "cpu"}) for name, load in models.items()]
        return await asyncio.gather(
            *(tables.score_table(one, prompts, folder / f"{one.nickname}.parquet", cluster) for one in requests)
        )

    asyncio.run(all_of_them())
    return time.monotonic() - started


class Idle:
    """An actor that answers at once."""

    def score(self, prompt: str, number: int) -> Scored:
        return Scored(8192, 0.0, {"device": prompt, "number": number}, ())


def seconds_per_call(actors: int) -> float:
    """Seconds of this process for each shard that it hands out and counts, with so many actors that answer at once."""

    async def ask(actor, calls: int) -> None:
        for number in range(calls):
            await engine.answer_of(actor.score.remote("a prompt of usual length, for example", number), "idle")

    async def ask_all() -> float:
        idle = [ray.remote(Idle).options(num_cpus=0).remote() for _ in range(actors)]
        await asyncio.gather(*(ask(actor, 5) for actor in idle))
        started = time.process_time()
        await asyncio.gather(*(ask(actor, CALLS // actors) for actor in idle))
        return (time.process_time() - started) / CALLS

    return asyncio.run(ask_all())


def measured() -> tuple[pd.DataFrame, float]:
    """What was measured, a row each, and the seconds per call."""
    whole = grid()
    prompts = dict(zip(whole["prompt"][:PROMPTS], whole["text"][:PROMPTS], strict=True))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models = make_models(folder)
        alone = in_one_process(models, prompts, folder / "alone")
        seconds = {}
        for cpus in (1, 2):
            with workers(cpus) as started:
                seconds[cpus] = by_ray(models, prompts, folder / f"ray-{cpus}")
                again = by_ray(models, prompts, folder / f"ray-{cpus}")
                call = seconds_per_call(4)
        tables_of = [{name: scores.read(folder / way / f"{name}.parquet") for name in models}
                     for way in ("alone", "ray-1", "ray-2")]  # fmt: skip
        same = all(tables_of[0][name].equals(other[name]) for other in tables_of[1:] for name in models)
    rows = {
        "one process, s": alone,
        "start of Ray, until a process of it has answered, s": started,
        "Ray, 1 worker, s": seconds[1],
        "Ray, 2 workers, s": seconds[2],
        "1 worker / one process": seconds[1] / alone,
        "1 worker / 2 workers": seconds[1] / seconds[2],
        "the same run again, s": again,
        "processor time of the driver per shard, ms": 1000 * call,
        "tables identical": same,
    }
    return pd.DataFrame({"quantity": rows.keys(), "value": rows.values()}), call


# --- simulated ----------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """A model of the simulation: shards left, seconds of each on a card, seconds until an actor holds the model."""

    shards: int
    seconds: float
    to_start: float
    actors: int = 0


def planned(models: int = MODELS, prompts: int = PLANNED_PROMPTS, tokens: int = TOKENS) -> list[Work]:
    """The models of the plan, the largest first, as they are begun."""
    in_prompt = -(-tokens // scoring.REPLIES_PER_SHARD)
    sizes = sorted((SIZES * models)[:models], reverse=True)
    work = []
    for size in sizes:
        flop = 2e9 * size * SUFFIX * tokens / in_prompt
        work.append(Work(prompts * in_prompt, flop / H200, START + 2e9 * size / READ))
    return work


class Simulation:
    """How the work goes on so many cards, an actor on each: as tables._Run has it, with one driver for all.

    call: seconds of the driver for each shard; shards are handed out one after the other.
    """

    def __init__(self, work: Sequence[Work], cards: int, call: float):
        self.waiting, self.idle, self.call = list(work), cards, call
        self.clock = self.driver = 0.0
        self.events: list[tuple[float, int, Work]] = []  # when an actor is free, in which order, of which model
        self.loads = self.calls = 0

    def run(self) -> None:
        """Until everything is scored."""
        while self.waiting or self.events:
            while self.idle and self.waiting:
                self._start(self.waiting.pop(0))
            self.clock, _, one = heapq.heappop(self.events)
            self._next(one)

    def _next(self, one: Work) -> None:
        """An actor of this model is free: it scores the next shard, or ends; a card with nothing to do may join."""
        rest = one.shards * one.seconds
        if self.idle and not self.waiting and rest / one.actors - rest / (one.actors + 1) > one.to_start:
            self._start(one)
        if one.shards:
            one.shards, self.calls = one.shards - 1, self.calls + 1
            self.driver = max(self.driver, self.clock) + self.call
            heapq.heappush(self.events, (self.driver + one.seconds, self.calls, one))
        else:
            one.actors, self.idle = one.actors - 1, self.idle + 1

    def _start(self, one: Work) -> None:
        one.actors, self.idle, self.loads = one.actors + 1, self.idle - 1, self.loads + 1
        heapq.heappush(self.events, (self.clock + one.to_start, -self.loads, one))


def simulated(cards: int, call: float) -> dict:
    """The plan on so many cards: hours, the shares of time in use, models loaded, tables per hour."""
    work = planned()
    useful, run = sum(one.shards * one.seconds for one in work), Simulation(work, cards, call)
    run.run()
    return {"cards": cards, "hours": run.clock / 3600, "cards in use": useful / run.clock / cards,
            "models loaded": run.loads, "driver busy": run.calls * call / run.clock,
            "tables per hour": len(work) / run.clock * 3600}  # fmt: skip


def schedule(call: float) -> pd.DataFrame:
    return pd.DataFrame([simulated(cards, call) for cards in CARDS])


# --- on paper -----------------------------------------------------------------------------------------------------


def costs() -> pd.DataFrame:
    """FLOP, hours of a card, storage and network of the plan, a row per size of model and one for all."""
    in_prompt, rows = -(-TOKENS // scoring.REPLIES_PER_SHARD), []
    for size in sorted(set(SIZES)):
        models = MODELS // len(SIZES) * SIZES.count(size)
        replies = models * PLANNED_PROMPTS * TOKENS
        flop = 2e9 * size * SUFFIX * replies
        rows.append({
            "parameters, 10^9": str(size), "models": models, "shards": models * PLANNED_PROMPTS * in_prompt,
            "FLOP": flop, "H200 hours at 40 %": flop / H200 / 3600,
            "weights read, GB": 2 * size * models,
            "inputs, GB": replies * 4 * (SUFFIX + 2 + 1.6) / 1e9,
            "shards and tables, GB": 2 * 4 * replies / 1e9,
        })  # fmt: skip
    table = pd.DataFrame(rows)
    total = table.drop(columns="parameters, 10^9").sum().to_dict() | {"parameters, 10^9": "all"}
    return pd.concat([table, pd.DataFrame([total])], ignore_index=True)


# --- the page -----------------------------------------------------------------------------------------------------

TEXT = """# Beyond one machine: `python benchmarks/cluster.py`

## Measured

Two embedded models with random weights, {prompts} prompts each, on a machine on which others computed too ({machine}).
One process: loading and scoring one model after the other. By Ray: from its first task to the tables, with Ray running
already; its workers import the libraries first, which is most of what they take on models this small.

{measured}

## Simulated: {models} models x {planned_prompts} prompts x {tokens:,} tokens

The paper's ten sizes ten times over, {shards:,} shards. A shard takes 2 x parameters x {suffix} tokens x 8,016 replies
at 40 % of an H200; an actor holds its model after {start} s and the time in which its weights are read in bf16 at
{read:.0f} GB/s; the driver takes {call:.2f} ms for each shard, as measured above. One actor has one card. **Cards in
use** is the share of their time in which they score; **driver busy** that in which the driver hands out shards.

{schedule}

{reading}

## On paper

Per reply {suffix} tokens follow the prefix (assumed: 1.6 of its own, 1.6 that close the turn); two bytes for each
parameter; inputs are kept as 4-byte ids of suffix and reply, with two lengths; of each reward a shard and the table
hold 4 bytes. Each model is read once per actor, here one each. Through Ray's object store pass, for each model, its
list of tokens (about 5 MB), and for each shard a name and a few numbers (below 1 kB).

{costs}
"""


def reading(table: pd.DataFrame) -> str:
    """What the schedule shows, in words."""
    best = table.loc[table["hours"].idxmin()]
    half = table[table["cards in use"] >= 0.5]["cards"].max()
    return (
        f"It is shortest with {best['cards']:.0f} cards, {best['hours']:.2g} hours: what is left is to load models and "
        f"to hand out shards one after the other. Up to {half:.0f} cards they score in at least half of their time."
    )


def markdown(table: pd.DataFrame) -> str:
    cells = [list(table.columns), ["---"] * table.shape[1]]
    cells += [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def main() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    table, call = measured()
    simulated_table = schedule(call)
    shards = sum(one.shards for one in planned())
    PAGE.write_text(
        TEXT.format(
            prompts=PROMPTS,
            machine=f"{platform.machine()}, {os.cpu_count()} cores",
            measured=markdown(table),
            models=MODELS,
            planned_prompts=PLANNED_PROMPTS,
            tokens=TOKENS,
            shards=shards,
            suffix=SUFFIX,
            start=START,
            read=READ / 1e9,
            call=1000 * call,
            schedule=markdown(simulated_table),
            reading=reading(simulated_table),
            costs=markdown(costs()),
        )  # fmt: skip
    )
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
