"""The commands with ON=: scores and notebooks by Ray, each model a task on a machine's cards or a
cluster's nodes.

If a process or a node ends, Ray starts its task again, which continues from the shards in a folder
that all nodes see.
"""

import contextlib
import logging
import math
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from .... import InputError
from ....io import shown_path
from ....models import checkpoints, reward_models
from ....scoring import vocabulary
from ....scoring.products import SMALL
from ....show.terminal import score_lines
from ....tables import scores
from ....tables.collection import Collection
from ....tables.prompts import read_prompts
from ....tables.registry import find_models, study_of
from ...runner import runs, workers
from ...runner.files import cause_of
from ...runner.jobs import Job, Result
from ..check import weights
from ..opening import open_model, plain
from . import ray

RETRIES = 5  # how often Ray begins a task again after its process or its node is gone
TO_END = 60  # seconds that a process whose node is gone may still hold a table
STEPS = 20  # a model takes a multiple of 1/20 of a card
USABLE = 0.95  # of a card's memory


@contextlib.contextmanager
def connected(on: str) -> Iterator[None]:
    """Connect to Ray; on leaving, end what was started for it here. InputError if nothing answers.

    on: "auto" for the cluster of a Ray job, or else this machine; or the address of a head, as
    host:6379 from one of its nodes, or as ray://host:10001 from elsewhere
    """
    # nobody is informed that this ran
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS", "local") if on == "auto" else on
    # bytes: only names pass through it
    store = {"object_store_memory": 200_000_000} if address == "local" else {}
    try:
        if address not in ("local", "auto"):  # Ray itself would try for minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            connection = socket.create_connection((host, int(port)), timeout=10)
            connection.close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **store)
    except Exception as error:
        # Ray's own checks of versions and addresses fail in many ways
        cause = " ".join(str(error).split())[:300]
        raise InputError(
            f"no Ray head answers at '{address}' ({cause}); start one with: ray start --head"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def task(function: Callable, asks: dict, *given):
    """Start a task of Ray; return its reference. asks: options such as num_cpus, num_gpus and
    memory in bytes.
    """
    remote = ray.remote(function).options(max_retries=RETRIES, **asks)
    return remote.remote(*given)


def error_in(error: BaseException) -> Exception:
    """Return what a task raised; an InputError if its process ended every time."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return (
            error.cause
            if isinstance(error.cause, Exception)
            else InputError(" ".join(str(error).split()))
        )
    return InputError(
        f"its process or its node ended {RETRIES + 1} times, perhaps for want of memory"
    )


def asks_of(load: str, options: dict, models: int) -> tuple[dict, dict]:
    """Return what the task of a model asks Ray for, and the options that load it. models: how
    many share the nodes.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    on_cards = (
        any(node.get("GPU", 0) >= 1 for node in nodes)
        and options.get("device", "cuda") == "cuda"
    )
    options = options | ({"device": "cuda"} if on_cards else {})
    entry = reward_models.find(load)
    revision = options.get("revision") or entry["revision"]
    files = plain.open_files(entry["hub_id"], revision, base=options.get("base"))
    config = checkpoints.config_of(files)
    asked = options.get("dtype") or entry["dtype"]
    device = options.get("device") or "cpu"
    dtype = checkpoints.dtype_for(asked, device, config)
    parameters = weights.numbers_stored(files).total()
    memory = int(parameters * weights.size_of(dtype) * weights.BESIDE)

    def card_memory() -> int:  # bytes of the card of the process that runs this
        import torch

        return torch.cuda.get_device_properties(0).total_memory

    card = 0
    if on_cards:
        measure = ray.remote(num_gpus=1 / STEPS)(card_memory)
        card = ray.get(measure.remote())
    asks, fits = place(memory, parameters < SMALL, nodes, models, card)
    return asks, options if fits else options | {"stream": True}


def place(
    memory: int, small: bool, nodes: Sequence[dict], models: int, card: int = 0
) -> tuple[dict, bool]:
    """Return what a model of this many bytes asks Ray for, and whether a node holds it; otherwise
    it is streamed.

    A model takes its share of a card (of so many bytes), one card or several cards of one node.
    Without cards, a small model takes one core and a large one all cores of a node. nodes: amounts
    by the names of Ray's resources.
    """
    most = {
        what: max(node.get(what, 0) for node in nodes)
        for what in ("CPU", "GPU", "memory")
    }
    if not card:
        cores = 1 if small else max(1, int(most["CPU"]))
        fits = memory <= most["memory"]
        asks = {"num_cpus": cores}
        if fits:
            asks["memory"] = memory
        return asks, fits
    needed = memory / (USABLE * card)  # cards
    fair = (
        math.floor(STEPS * sum(node.get("GPU", 0) for node in nodes) / models) / STEPS
    )
    gpus = (
        math.ceil(needed)
        if needed > 1
        else min(1, max(math.ceil(STEPS * needed) / STEPS, fair))
    )
    return {
        "num_cpus": 1,
        "num_gpus": gpus if gpus <= most["GPU"] else 1,
    }, gpus <= most["GPU"]


def score(
    on: str,
    name: str,
    prompts: str | None = None,
    collection: str | None = None,
    *,
    tokens: int | None = None,
    reply_mode: str = "text",
    bos: str = "single",
    **options,
) -> int:
    """Score the vocabularies of reward models; return how many of them failed.

    on: see `connected`; name: models separated by commas, or a group such as `paper`; the rest: see
    lib.run.score
    """
    if options.get("replies") or options.get("reference"):
        raise InputError(
            "replies of your own and implicit rewards are scored in one process; leave ON out"
        )
    given = {option: value for option, value in options.items() if value is not None}
    texts = read_prompts(prompts)
    models = find_models(name.split(","))
    study = study_of(models, collection)
    if tokens is not None:
        study = Collection(f"{study}-sample-{tokens}")
    failed: dict[str, BaseException] = {}
    how = {"reply_mode": reply_mode, "bos": bos}
    with connected(on):
        what = (texts, tokens, how)
        running = _start(models, study, given, what, failed)
        for ended in tqdm(
            as_completed(running), "models", len(running), unit=" models"
        ):
            if error := _failure_of(ended, scores.path_of(study, running[ended])):
                failed[running[ended]] = error
    if len(failed) == len(models) == 1:
        raise failed.popitem()[1]
    _print_end(study, list(models), failed)
    return len(failed)


def _start(
    models: dict[str, str],
    study: Collection,
    given: dict,
    what: tuple[dict, int | None, dict],
    failed: dict[str, BaseException],
) -> dict[Future, str]:
    """Start a task for each model: task -> nickname. Note in `failed` the models that do not open.

    given: options that load them. what: prompts, tokens and the rest, as for score_model.
    """
    texts, tokens, how = what
    running = {}
    for nickname, load in models.items():
        try:
            asks, loading = asks_of(load, given, len(models))
        except InputError as error:
            failed[nickname] = error
            continue
        path = scores.path_of(study, nickname)
        started = task(score_model, asks, load, loading, texts, path, tokens, how)
        running[started.future()] = nickname
    return running


def _failure_of(ended: Future, path: Path) -> BaseException | None:
    """Return why a task wrote no table that this machine sees; None if it did."""
    if error := ended.exception():
        return error_in(error)
    if path.is_file():
        return None
    return InputError("this machine does not see what its node wrote; share the folder")


def _print_end(
    study: Collection, names: list[str], failed: dict[str, BaseException]
) -> None:
    """Print which models were scored, which failed and why, and where the tables are."""
    scored = [name for name in names if name not in failed]
    lines = score_lines(study, scored)
    lines += [f"{name} failed: {cause_of(error)}" for name, error in failed.items()]
    print("\n".join([*lines, f"The score tables are in {shown_path(study.scores)}."]))


def score_model(
    load: str, options: dict, prompts: dict, path: Path, tokens: int | None, how: dict
) -> None:
    """Score a model's table on the node where this runs."""
    model = open_model(load, **options)
    token_ids = None if tokens is None else vocabulary.sample(model, tokens)
    # Where this is begun again, the process of before may need a moment to end and to let the table
    # go.
    with (
        contextlib.suppress(Timeout),
        FileLock(path.with_name(f"{path.name}.lock"), timeout=TO_END),
    ):
        pass
    vocabulary.score_vocabulary(
        model, prompts, path, **how, token_ids=token_ids, progress=False
    )


def reproduce(
    on: str, models: Sequence[str] = (), collection: str | None = None
) -> int:
    """Run the notebooks, each as a task of Ray; return how many failed. See
    lib.apps.runner.runs.reproduce.
    """
    to_load = find_models(models)
    # these are trained first, and fit anywhere
    small = study_of(to_load, collection).is_embedded
    with connected(on):
        asks = (
            {}
            if small
            else {
                name: asks_of(load, {}, len(to_load))[0]
                for name, load in to_load.items()
            }
        )
        return runs.reproduce(models, collection, where=OnCluster(asks))


class OnCluster:
    """Runs jobs on a cluster, with the functions of lib.apps.runner.workers; asks: model -> what
    its notebook needs.
    """

    def __init__(self, asks: dict[str, dict]):
        # jobs that may wait for Ray at once
        self.asks = asks
        self.processes = lambda: 1000

    def start(self, job: Job) -> workers.Running:
        """Start a job as a task of Ray."""

        # on a node, with the number of threads that Ray assigned
        def execute() -> Result:
            os.environ.update(
                dict.fromkeys(workers.THREADS, os.environ.get("OMP_NUM_THREADS", "1"))
            )
            return workers.outcome(job)

        asks = self.asks.get(job.model, {"num_cpus": 1})
        reference = task(execute, asks)

        def ended() -> Result:
            try:
                return ray.get(reference)
            except ray.exceptions.RayError as error:
                return Result("failed", cause=cause_of(error_in(error)))

        return workers.Running(job, reference, ended)

    def first_to_end(
        self, running: list[workers.Running], seconds: float
    ) -> workers.Running | None:
        """Wait until a job has ended; return it, or None after these seconds."""
        handles = [job.handle for job in running]
        done, _ = ray.wait(handles, timeout=seconds)
        ended = (job for job in running if job.handle in done)
        return next(ended, None)

    def stop(self, running: Iterable[workers.Running]) -> None:
        """Cancel what still runs."""
        for job in running:
            ray.cancel(job.handle, force=True)
