"""The commands with ON=: scores and notebooks by Ray, each model a task on a machine's cards or a cluster's nodes.

A task scores a whole table into a folder that all nodes see. If a process or a node ends, Ray starts its task again,
and the task continues from the shards that are there. So the table is the same as that of one process.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from ... import ROOT, InputError
from ...models import checkpoints, layers, reward_models
from ...notebooks import runs, workers
from ...notebooks.files import cause_of
from ...notebooks.jobs import Job, Result
from ...notebooks.pages import score_lines, shown_path
from ...scoring import engine
from ...scoring.stages import SMALL
from ...tables import scores
from ...tables.collection import Collection
from ...tables.prompts import read_prompts
from ...tables.registry import find_models, study_of
from ..check import weights
from . import connection, ray
from .connection import answer_of, as_they_end, task
from .placement import Asks, Needs, Node, place

TO_END = 60  # seconds that a process whose node is gone may still hold a table


# --- scores -------------------------------------------------------------------------------------------------------


def score(
    on: str, name: str, prompts: str | None = None, collection: str | None = None, *, tokens: int | None = None,
    reply_mode: str = "text", bos: str = "single", **options,
) -> int:  # fmt: skip
    """Score the vocabularies of reward models; return how many of them failed. See connection.connected for `on`.

    `name` is one model, several separated by commas, or a group of the registry such as `paper`. See lib.run.score for
    the rest. InputError for a model that fits nowhere, before anything is computed.
    """
    for option, what in (("replies", "replies of your own"), ("reference", "implicit rewards (REFERENCE)")):
        if options.get(option):
            raise InputError(f"{what} are scored in one process; leave ON out")
    texts, models = read_prompts(prompts), find_models(name.split(","))
    study = study_of(models, collection)
    study = study if tokens is None else Collection(f"{study}-sample-{tokens}")
    how = {"reply_mode": reply_mode, "bos": bos}
    with connection.connected(on):
        placed, failed = place_all(models, options, connection.nodes_of(study.scores.parent))
        tasks = {}
        for nickname, (asks, given) in placed.items():
            path = scores.path_of(study, nickname)
            tasks[nickname] = (task(score_model, asks, models[nickname], given, texts, path, tokens, how), asks)
        for nickname, reference in tqdm(as_they_end(tasks), "models", len(tasks), unit=" models"):
            try:
                tqdm.write("\n".join(answer_of(reference, nickname)), end="")
            except Exception as error:
                failed[nickname] = error
    if len(failed) == len(models) == 1:
        raise failed.popitem()[1]
    done = [nickname for nickname in models if nickname not in failed]
    lines = score_lines(study, done) if done else []
    lines += [f"{nickname} failed: {cause_of(error)}" for nickname, error in failed.items()]
    print("\n".join([*lines, f"The score tables are in {shown_path(study.scores)}."]))
    return len(failed)


def place_all(
    models: dict[str, str], options: dict, nodes: Sequence[Node]
) -> tuple[dict[str, tuple[Asks, dict]], dict[str, Exception]]:
    """Return what each model asks for and the options that load it, the largest first; and the errors of the others.

    NoRoom for a model that fits nowhere.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if any(node.gpus >= 1 and node.card_memory for node in nodes):
        given = {"device": "cuda"} | given
    measured = {nickname: task(needs_of, Asks(cpus=1), load, given) for nickname, load in models.items()}
    needs: dict[str, Needs] = {}
    failed: dict[str, Exception] = {}
    for nickname, reference in measured.items():
        try:
            needs[nickname] = answer_of(reference, nickname)
        except Exception as error:
            failed[nickname] = error
    placed = {}
    for nickname in sorted(needs, key=lambda nickname: -needs[nickname].memory):
        asks = place(nickname, needs[nickname], nodes, len(models), given.get("device"))
        placed[nickname] = (asks, {"stream": asks.stream} | given if asks.stream else given)
    return placed, failed


def needs_of(load: str, options: dict) -> Needs:
    """Return what scoring a model takes, from its configuration and the headers of its files.

    InputError if it is no reward model.
    """
    entry = reward_models.find(load)
    folder = checkpoints.open_files(entry["hub_id"], options.get("revision") or entry["revision"]).folder
    config = checkpoints.config_of(folder)
    head_name = options.get("head") or reward_models.head_name_of(config, set(checkpoints.tensor_files(folder)))
    dtype = checkpoints.dtype_for(options.get("dtype") or entry["dtype"], options.get("device") or "cpu", config)
    parameters = weights.read_headers(folder).parameters
    streams = layers.can_be_read_singly(config, head_name)
    return Needs(int(parameters * weights.size_of(dtype) * weights.BESIDE), parameters < SMALL, streams)


def score_model(
    load: str, options: dict, prompts: dict[str, str], path: Path, tokens: int | None, how: dict
) -> list[str]:  # fmt: skip
    """Score a model's table on the node where this runs; return the lines that it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model = reward_models.load(load, **options)
        token_ids = None if tokens is None else engine.sample(model, tokens)
        # Where this is begun again, the process of before may need a moment to end and to let the table go.
        with contextlib.suppress(Timeout), FileLock(path.with_name(f"{path.name}.lock"), timeout=TO_END):
            pass
        engine.score_vocabulary(model, prompts, path, **how, token_ids=token_ids, progress=False)
    return printed.getvalue().splitlines()


# --- notebooks ----------------------------------------------------------------------------------------------------


def reproduce(on: str, models: Sequence[str] = (), collection: str | None = None) -> int:
    """Run the notebooks for these models, each as a task of Ray; return the number of jobs that failed.

    See lib.notebooks.runs.reproduce for models and collection, and connection.connected for `on`.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    with connection.connected(on):
        nodes = connection.nodes_of(study.scores.parent)
        # The embedded models are trained first, and fit anywhere.
        placed = {} if study.is_embedded else place_all(to_load, {}, nodes)[0]
        asks = {nickname: asks for nickname, (asks, _) in placed.items()}
        return runs.reproduce(models, collection, ROOT / "notebooks", OnCluster(nodes, asks))


@dataclass(frozen=True)
class OnCluster:
    """Runs jobs on a cluster, instead of in processes of this machine; it has the functions of lib.notebooks.workers.

    A notebook about one model asks for what `asks` gives for this model. The notebook that trains asks for all cores of
    a node, and any other for one core.
    """

    nodes: Sequence[Node]
    asks: dict[str, Asks]

    def processes(self) -> int:
        """Return how many jobs may run at once; Ray starts each as soon as there is room."""
        return 1000

    def asks_of(self, job: Job) -> Asks:
        """Return what a job asks for."""
        if job.declared.trains:
            return Asks(cpus=max(1, *(int(node.cpus) for node in self.nodes)))
        return self.asks.get(job.model, Asks(cpus=1))

    def start(self, job: Job) -> workers.Running:
        """Start a job as a task of Ray."""
        reference = task(execute, self.asks_of(job), job)

        def ended() -> Result:
            try:
                return answer_of(reference, job.name)
            except Exception as error:
                return Result("failed", cause=cause_of(error))

        return workers.Running(job, reference, ended)

    def first_to_end(self, running: list[workers.Running], seconds: float) -> workers.Running | None:
        """Wait until a job has ended; return it, or None after these seconds."""
        done, _ = ray.wait([job.handle for job in running], timeout=seconds)
        return next((job for job in running if job.handle in done), None)

    def stop(self, running: Iterable[workers.Running]) -> None:
        """Cancel what still runs."""
        for job in running:
            ray.cancel(job.handle, force=True)


def execute(job: Job) -> Result:
    """Execute a notebook on the node where this runs, with the number of threads that Ray assigned."""
    os.environ.update(dict.fromkeys(workers.THREADS, os.environ.get("OMP_NUM_THREADS", "1")))
    return workers.outcome(job)


# --- other work ---------------------------------------------------------------------------------------------------


def each(function: Callable, jobs: list, processes: int) -> Iterator:
    """Yield what the function returns for each job, as tasks on one core each, in the order in which they end."""
    tasks = {number: (task(function, Asks(cpus=1), job), Asks(cpus=1)) for number, job in enumerate(jobs)}
    return (answer_of(reference, "a job") for _, reference in as_they_end(tasks))


def run(command: str, on: str, **given) -> int:
    """Carry out a command of lib.run; return its exit code. InputError for one that does not run on a cluster."""
    commands = {"score": score, "reproduce": reproduce}
    if command not in commands:
        raise InputError(f"ON= is for {', '.join(commands)}; leave it out for {command}")
    return int(commands[command](on, **given) > 0)
