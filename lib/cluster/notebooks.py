"""Notebooks by Ray: each a task with a kernel of its own, after the score tables that it reads."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lib import scores
from lib.cluster import tables
from lib.cluster.placement import Asks
from lib.cluster.tables import Cluster
from lib.prompts import read_prompts
from lib.reproduce import execution
from lib.reproduce.jobs import SCORING, TRAINING, Job
from lib.reproduce.notebooks import cause_of, parameters_of
from lib.reproduce.side_by_side import Running


@dataclass(frozen=True)
class OnNode(Running):
    """A job that runs as a task of Ray."""

    task: asyncio.Task

    def ended(self) -> tuple[str, str]:
        return self.task.result()


class OnCluster:
    """Where jobs run: on a cluster, instead of side by side in processes of this machine (lib.reproduce.side_by_side).

    A notebook about one model runs on what the model asks for, that which trains on all cores of a node, any other on
    one core. Before the notebook that scores a model, its table is scored by actors.
    """

    def __init__(self, runner: asyncio.Runner, cluster: Cluster):
        self.runner, self.cluster = runner, cluster
        self.asks: dict[str, Asks] = {}  # by nickname

    def next_of(self, waiting: list[Job], running: Iterable, ended: Iterable[str], processes: int) -> Job | None:
        """The first of the waiting jobs whose needs have ended; Ray has it wait until there is room."""
        return next((job for job in waiting if {*job.needs, *job.after} <= set(ended)), None)

    def start(self, job: Job, before: Mapping[str, int]) -> OnNode:
        """Start a job."""
        task = self.runner.get_loop().create_task(self._outcome(job))
        return OnNode(job, time.monotonic(), before, task)

    def first_to_end(self, running: list[OnNode]) -> OnNode:
        """Waits until one of them has ended."""
        done = self.runner.run(_first_of([one.task for one in running]))
        return next(one for one in running if one.task in done)

    @contextlib.contextmanager
    def ending(self, running: list[OnNode]) -> Iterator[None]:
        """Whatever still runs at the end of this is ended."""
        try:
            yield
        finally:
            for one in running:
                one.task.cancel()
            if running:
                self.runner.run(asyncio.wait([one.task for one in running]))

    async def _outcome(self, job: Job) -> tuple[str, str]:
        """Score the table that the notebook is about, if it is about one, and execute it; status and cause."""
        try:
            if job.number == SCORING and job.model:
                await self._score(job)
            return await tables.run_on_node(execute, _task_of(job), what=job.name, **self._asks_of(job).options())
        except Exception as error:
            return "failed", cause_of(error)

    async def _score(self, job: Job) -> None:
        given = parameters_of(job.notebook) | job.parameters
        how = {"reply_mode": given.get("reply_mode", "text"), "bos": given.get("bos", "single")}
        load = given["model"]
        request = self.cluster.request(job.model, load, {}, tokens=given.get("tokens") or None, **how)
        known = await tables.describe(request)
        self.asks[job.model] = self.cluster.place_for(request, known.needs)
        path = scores.path_of(job.collection, job.model)
        await tables.score_table(request, read_prompts(given.get("prompts")), path, self.cluster, known)

    def _asks_of(self, job: Job) -> Asks:
        if job.number == TRAINING:
            return Asks(cpus=max(1, *(int(node.cpus) for node in self.cluster.nodes)))
        return self.asks.get(job.model, Asks(cpus=1))


async def _first_of(tasks: list[asyncio.Task]) -> set[asyncio.Task]:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done


def _task_of(job: Job) -> execution.Task:
    return execution.Task(job.notebook, job.parameters, job.executed, job.page, job.shown, job.number == TRAINING)


def execute(task: execution.Task) -> tuple[str, str]:
    """On a node: execute a notebook, on as many threads as Ray says; its status and the cause of a failure."""
    os.environ.update(dict.fromkeys(execution.THREADS, os.environ.get("OMP_NUM_THREADS", "1")))
    return execution.outcome(task)
