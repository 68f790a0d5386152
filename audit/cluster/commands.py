"""The notebooks by Ray: each job a task, on a machine's cards or a cluster's nodes.

If a process or a node ends, Ray starts its task again, which continues from the shards in a folder
that all nodes see.
"""

import contextlib
import logging
import math
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from ..check import weights
from ..opening import plain
from ..paper import (
    Collection,
    InputError,
    jobs,
    loading,
    registry,
    reward_models,
    runs,
)
from . import ray

RETRIES = 5  # how often Ray begins a task again after its process or its node is gone
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
            socket.create_connection((host, int(port)), timeout=10).close()
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


def asks_of(load: str, nodes: Sequence[dict]) -> dict:
    """Return what the notebooks of a model ask Ray for: with cards, the share of one that its
    weights need; otherwise the memory, and the cores of a node.

    nodes: amounts by the names of Ray's resources
    """
    entry = reward_models.find(load)
    files = plain.open_files(entry["hub_id"], entry["revision"])
    most = {
        what: max(node.get(what, 0) for node in nodes)
        for what in ("CPU", "GPU", "memory")
    }
    device = "cuda" if most["GPU"] >= 1 else "cpu"
    dtype = loading.dtype_for(entry["dtype"], device, loading.config_of(files))
    numbers = weights.numbers_stored(files).total()
    memory = int(numbers * weights.size_of(dtype) * weights.BESIDE)
    return place(memory, most, _card_memory() if device == "cuda" else 0)


def place(memory: int, most: dict, card: int) -> dict:
    """Return what a model of this many bytes asks for. If nothing holds it, its notebook reads it
    layer by layer.

    most: the largest amounts that a node has; card: bytes of a card, 0 for none
    """
    if card:
        share = math.ceil(STEPS * memory / (USABLE * card)) / STEPS
        return {"num_cpus": 1, "num_gpus": min(1, share)}
    asks = {"num_cpus": max(1, int(most["CPU"]))}
    return asks | ({"memory": memory} if memory <= most["memory"] else {})


def _card_memory() -> int:
    """Return the bytes of a card of some node."""

    def measured() -> int:
        import torch

        return torch.cuda.get_device_properties(0).total_memory

    return ray.get(ray.remote(measured).options(num_gpus=1 / STEPS).remote())


def reproduce(
    on: str, models: Sequence[str] = (), collection: str | None = None
) -> int:
    """Run the notebooks, each as a task of Ray; return 1 if any failed. See
    lib.apps.runner.runs.reproduce.
    """
    # small models fit anywhere, and are trained first
    large = registry.find_models(models) if models else {}
    with connected(on):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        asks = {name: asks_of(load, nodes) for name, load in large.items()}

        def submit(function: Callable, job: jobs.Job) -> Future:
            def carry_out() -> None:
                # the number of threads that Ray assigned, also to kernels
                os.environ.setdefault("OMP_NUM_THREADS", "1")
                function(job)

            wanted = {"max_retries": RETRIES, "num_cpus": 1} | asks.get(job.model, {})
            return ray.remote(carry_out).options(**wanted).remote().future()

        def run(study: Collection, planned: Sequence[jobs.Job]) -> int:
            return runs.run_all(study, planned, submit, len(planned))

        return runs.reproduce(models, collection, run)
