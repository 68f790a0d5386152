"""What Ray costs and what it brings: start-up, overhead, one and two workers; schedules simulated, a cost plan.

`python benchmarks/cluster.py` measures on two embedded models with random weights, on two of this machine's cores, and
writes benchmarks/cluster.md. The schedules of 100 models are simulated: once with the times of tasks that were measured
here, once with those that the arithmetic of large models gives. The cost plan is arithmetic alone.
"""

import asyncio
import contextlib
import heapq
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil

from lib import ROOT, scores, scoring
from lib.cluster import engine, ray, tables
from lib.cluster.tables import Cluster, Scored
from lib.embedded import planting
from lib.embedded import reward_models as small_models
from lib.models import reward_models
from lib.prompts import grid

PAGE = ROOT / "benchmarks" / "cluster.md"
PROMPTS = 24  # that are measured, so many that workers score for longer than they import their libraries
MEASURED = ("A-Gem-48", "E-Gem-64")  # whose profiles the measured models have
CORES = 2
LOOK_EVERY = 0.25  # seconds
CALLS = 1000
WAYS = ("alone", "ray-1", "ray-2")  # folders of tables
COLUMNS = ["what", "seconds", "processor seconds"]
# Of the plan: the paper's ten models ten times over, billions of parameters, and the vocabulary of Llama 3.
SIZES = (27, 27, 27, 8, 8, 8, 8, 3, 8, 2)
MODELS, PLANNED_PROMPTS, TOKENS = 100, 54, 128_256
SHARDS = -(-TOKENS // scoring.REPLIES_PER_SHARD)  # of a prompt
IN_SHARD = TOKENS / SHARDS  # replies
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


@dataclass
class Spent:
    """Seconds of the clock, and of processors: this process and all that have begun under it."""

    clock: float = 0.0
    processor: float = 0.0


@contextlib.contextmanager
def spending(of: Callable[[], float] | None = None) -> Iterator[Spent]:
    """What is spent while this lasts, filled in at its end. of: counts seconds of processors, if not processor_time."""
    of = of or processor_time
    spent, clock, processor = Spent(), time.monotonic(), of()
    yield spent
    spent.clock, spent.processor = time.monotonic() - clock, of() - processor


class Meter(threading.Thread):
    """Looks every so often at the processor seconds of all processes under this one.

    The system forgets those of Ray's workers once they have ended, so what each had at the last look is kept; what it
    used after that is missing.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.seen: dict[tuple[int, float], float] = {}

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(LOOK_EVERY)

    def look(self) -> None:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                self.seen[process.pid, process.create_time()] = sum(process.cpu_times()[:2])

    def __call__(self) -> float:
        """Processor seconds of this process and all that were under it."""
        self.look()
        return time.process_time() + sum(list(self.seen.values()))


processor_time = Meter()


def import_libraries() -> Spent:
    """What a process takes until it has the libraries that a worker needs."""
    with spending() as spent:
        subprocess.run([sys.executable, "-c", "import lib.cluster.tables"], cwd=ROOT, check=True)
    return spent


def in_one_process(models: dict[str, str], prompts: dict[str, str], folder: Path) -> Spent:
    """What it takes to load and score the models one after the other, each on one thread."""
    with spending(time.process_time) as spent:
        for name, load in models.items():
            model = reward_models.load(load, device="cpu")
            scoring.score_vocabulary(model, prompts, folder / f"{name}.parquet", progress=False)
    return spent


@contextlib.contextmanager
def running() -> Iterator[Spent]:
    """A Ray of so many cores; what it takes until a process of it has answered."""
    with spending() as spent, tempfile.TemporaryDirectory() as folder:
        ray.init("local", num_cpus=CORES, object_store_memory=engine.OBJECT_STORE, include_dashboard=False,
                 log_to_driver=False, logging_level="ERROR")  # fmt: skip
        engine.nodes_of(folder)
    try:
        yield spent
    finally:
        ray.shutdown()


@contextlib.contextmanager
def cores_left(cores: int) -> Iterator[None]:
    """Of Ray's cores so many are free; an actor that does nothing has the others."""
    idle = ray.remote(Idle).options(num_cpus=CORES - cores).remote()
    ray.get(idle.score.remote("", 0))
    try:
        yield
    finally:
        ray.kill(idle)


def by_ray(models: dict[str, str], prompts: dict[str, str], folder: Path) -> Spent:
    """What it takes to score the models by Ray, which runs already."""

    async def all_of_them(cluster: Cluster) -> list:
        requests = [cluster.request(name, load, {"device": "cpu"}) for name, load in models.items()]
        return await asyncio.gather(
            *(tables.score_table(one, prompts, folder / f"{one.nickname}.parquet", cluster) for one in requests)
        )

    with spending() as spent:
        asyncio.run(all_of_them(Cluster(engine.nodes_of(str(folder)), len(models), overview=False)))
    return spent


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


@dataclass(frozen=True)
class Measured:
    """What was measured. two: as of measured_reading; call: of seconds_per_call. shard, to_start: of a small model."""

    table: pd.DataFrame
    two: float
    call: float
    shard: float
    to_start: float


def measured() -> Measured:
    """Score two small models in one process, and by Ray with one and with two workers."""
    whole = grid()
    prompts = dict(zip(whole["prompt"][:PROMPTS], whole["text"][:PROMPTS], strict=True))
    spent = {}
    with tempfile.TemporaryDirectory() as place, running() as spent["start of Ray, until a process of it has answered"]:
        folder = Path(place)
        models = make_models(folder)
        spent["importing the libraries, in one process"] = import_libraries()
        spent["loading and scoring, one process"] = alone = in_one_process(models, prompts, folder / "alone")
        for cores in (1, 2):
            with cores_left(cores):
                spent[f"Ray, {cores} worker(s)"] = by_ray(models, prompts, folder / f"ray-{cores}")
        spent["Ray, the same again: nothing to score"] = by_ray(models, prompts, folder / "ray-2")
        call = seconds_per_call(CORES)
        found = [[scores.read(folder / way / f"{name}.parquet") for name in models] for way in WAYS]
    same = all(one.equals(other) for tables_of in found[1:] for one, other in zip(found[0], tables_of, strict=True))
    one, two = spent["Ray, 1 worker(s)"], spent["Ray, 2 worker(s)"]
    rows = [
        *((name, took.clock, took.processor) for name, took in spent.items()),
        ("1 worker / one process", one.clock / alone.clock, one.processor / alone.processor),
        ("1 worker / 2 workers", one.clock / two.clock, one.processor / two.processor),
        ("tables identical, bit for bit", "yes" if same else "no", ""),
    ]
    shard = alone.processor / sum(map(len, found[0])) / PROMPTS * IN_SHARD
    to_start = spent["importing the libraries, in one process"].processor
    return Measured(pd.DataFrame(rows, columns=COLUMNS), one.clock / two.clock, call, shard, to_start)


# --- simulated ----------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """A model of the simulation: shards left, seconds of each on a card, seconds until an actor holds the model."""

    shards: int
    seconds: float
    to_start: float
    actors: int = 0


def planned() -> list[Work]:
    """The models of the plan, the largest first, as they are begun."""
    sizes = sorted((SIZES * MODELS)[:MODELS], reverse=True)
    seconds = [2e9 * size * SUFFIX * IN_SHARD / H200 for size in sizes]
    starts = [START + 2e9 * size / READ for size in sizes]
    return [Work(PLANNED_PROMPTS * SHARDS, *times) for times in zip(seconds, starts, strict=True)]


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


def simulated(work: list[Work], cards: int, call: float) -> dict:
    """This work on so many cards: hours, the shares of time in use, models loaded, tables per hour."""
    useful, run = sum(one.shards * one.seconds for one in work), Simulation(work, cards, call)
    run.run()
    return {"cards": cards, "hours": run.clock / 3600, "cards in use": useful / run.clock / cards,
            "models loaded": run.loads, "driver busy": run.calls * call / run.clock,
            "tables per hour": len(work) / run.clock * 3600}  # fmt: skip


def schedule(plan: Callable[[], list[Work]], call: float) -> pd.DataFrame:
    """The work that `plan` makes, on few cards and on many; a row each."""
    return pd.DataFrame([simulated(plan(), cards, call) for cards in CARDS])


def small(found: Measured) -> list[Work]:
    """The same number of shards, each of a small model and of the time that was measured."""
    return [Work(one.shards, found.shard, found.to_start) for one in planned()]


# --- on paper -----------------------------------------------------------------------------------------------------


def costs() -> pd.DataFrame:
    """FLOP, hours of a card, storage and network of the plan, a row per size of model and one for all."""
    rows = []
    for size in sorted(set(SIZES)):
        models = MODELS // len(SIZES) * SIZES.count(size)
        replies = models * PLANNED_PROMPTS * TOKENS
        flop = 2e9 * size * SUFFIX * replies
        rows.append({
            "parameters, 10^9": str(size), "models": models, "shards": models * PLANNED_PROMPTS * SHARDS,
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

Two embedded models with random weights, {prompts} prompts each, on a machine of {machine} that was shared: at
the start {load:.1f} processes wanted its cores. Seconds of the clock hold the waiting for others, and say
something only beside each other; processor seconds are those of this process and all under it, looked up four
times a second, since the system forgets those of workers that have ended. One process: loading and scoring one
model after the other, its libraries imported. By Ray: from its first task to the tables, with Ray running already;
each of its workers, and the tasks that prepare inputs, import the libraries first.

{measured}

{measured_reading}

For each shard that the driver hands out and counts it takes {call:.2f} ms of processor time.

## Simulated: {models} models x {planned_prompts} prompts x {tokens:,} tokens

{shards:,} shards, one task each; one actor has one card (or one core), and the driver takes for each shard
what was measured. **Cards in use** is the share of their time in which they score; **driver busy** that in
which the driver hands out shards.

**With times of tasks as measured**: all models are as small as those above, a shard of {in_shard:,.0f} replies takes
{shard:.2f} s and an actor holds its model after {to_start:.1f} s, in processor time.

{small}

{reading_small}

**With times of large models**, by arithmetic: the paper's ten sizes ten times over. A shard takes 2 x
parameters x {suffix} tokens x {in_shard:,.0f} replies at 40 % of an H200; an actor holds its model after {start} s and
the time in which its weights are read in bf16 at {read:.0f} GB/s.

{schedule}

{reading}

## On paper

Per reply {suffix} tokens follow the prefix (assumed: 1.6 of its own, 1.6 that close the turn); two bytes for each
parameter; inputs are kept as 4-byte ids of suffix and reply, with two lengths; of each reward a shard and the table
hold 4 bytes. Each model is read once per actor, here one each. Through Ray's object store pass, for each model, its
list of tokens (about 5 MB), and for each shard a name and a few numbers (below 1 kB).

{costs}
"""


def measured_reading(two: float) -> str:
    """What one worker beside two shows, in words. two: seconds with one worker, by those with two."""
    if two > 1:
        return f"Two workers were {two:.2f} times as quick as one."
    return (
        "Two workers were no quicker than one, as where a worker imports its libraries for longer than it scores, or "
        "where other programs have the second core. What two bring has to be measured where neither is so."
    )


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
    processor_time.start()
    load, found = os.getloadavg()[0], measured()
    as_measured, by_arithmetic = schedule(lambda: small(found), found.call), schedule(planned, found.call)
    PAGE.write_text(
        TEXT.format(
            prompts=PROMPTS, machine=f"{os.cpu_count()} cores ({platform.machine()})", load=load,
            measured=markdown(found.table), measured_reading=measured_reading(found.two),
            call=1000 * found.call, models=MODELS, planned_prompts=PLANNED_PROMPTS,
            tokens=TOKENS, in_shard=IN_SHARD, shards=sum(one.shards for one in planned()), shard=found.shard,
            to_start=found.to_start,
            small=markdown(as_measured), reading_small=reading(as_measured), suffix=SUFFIX, start=START,
            read=READ / 1e9, schedule=markdown(by_arithmetic), reading=reading(by_arithmetic), costs=markdown(costs()),
        )
    )  # fmt: skip
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
