"""Ray itself: connecting, tasks and their answers, and a check that all nodes have what this project needs."""

import contextlib
import logging
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ... import ROOT, InputError
from ...io import hash_of_code
from . import grpc, ray
from .placement import Asks, Node, NoRoom

AUTO, LOCAL = "auto", "local"
OBJECT_STORE = 200_000_000  # bytes, of a Ray that is started here: paths and names pass through it, no rewards
RETRIES = 5  # how often Ray begins a task again after its process or its node is gone
TO_CONNECT = 10  # seconds that a head may take to answer at all
TO_START = 180  # seconds in which Ray has started here, or has taken this process in
TO_COME_BACK = 600  # seconds that a cluster may be without any node that could hold a model
TO_ANSWER = 300  # seconds that a node may take to start a process and to import the project
LIBRARIES = ("ray", "torch", "transformers", "tokenizers", "numpy")
AGAIN = "run the same command again: it goes on from what is done"
# Waits until its input ends, as it does with the process that holds the other end, and ends the processes named.
WATCH = """
import contextlib, sys, psutil
started = [psutil.Process(int(pid)) for pid in sys.argv[1:] if psutil.pid_exists(int(pid))]
sys.stdin.read()
for process in started:
    with contextlib.suppress(psutil.Error):
        process.kill()
"""


# --- connecting ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(on: str) -> Iterator[None]:
    """Connect to Ray; on leaving, end what was started for it here. InputError if nothing answers.

    With "auto" for `on`, this is the cluster of a Ray job, or else this machine. Otherwise `on` is the address of a
    head, as host:6379 from one of its nodes, or as ray://host:10001 from elsewhere.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is informed that this ran
    on_sigterm = signal.getsignal(signal.SIGTERM)
    address = os.environ.get("RAY_ADDRESS", LOCAL) if on == AUTO else on
    if address not in (LOCAL, AUTO):  # these two can come from RAY_ADDRESS
        refuse_unreachable(address)
    store = {"object_store_memory": OBJECT_STORE} if address == LOCAL else {}
    with exit_after(TO_START, f"Ray did not start within {TO_START} s; {AGAIN} when less else runs here"):
        try:
            context = ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **store)
        except Exception as error:  # Ray's own checks of versions and addresses fail in many ways
            place = "this machine" if address == LOCAL else address
            raise InputError(f"Ray cannot be used at '{place}': {' '.join(str(error).split())[:300]}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray replaces it by its own
    # Ray's agents would outlive a process that is killed outright by a minute, so a process of our own ends them.
    agents = [str(process.pid) for process in psutil.Process().children(recursive=True)]  # none on a cluster
    with subprocess.Popen([sys.executable, "-c", WATCH, *agents], stdin=subprocess.PIPE, start_new_session=True):
        try:
            if url := getattr(context, "dashboard_url", None):
                print(f"Ray's dashboard: http://{url}", flush=True)
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def exit_after(seconds: float, line: str) -> Iterator[None]:
    """End this process, with the line as an error, if what is inside takes longer than these seconds.

    Ray waits for ever for a process of its own that died at its start, and hears no signal while it waits.
    """

    def end() -> None:
        print(f"error: {line}", file=sys.stderr, flush=True)
        os._exit(2)  # what Ray has started here ends with this process

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def refuse_unreachable(address: str) -> None:
    """Raise InputError unless a Ray head answers at the address; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"ON= is 'auto' or the address of a Ray head, host:6379 or ray://host:10001, not {address!r}")
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return  # a head that is asked without a certificate does not answer
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=TO_CONNECT)
        except grpc.FutureTimeoutError as error:
            raise InputError(
                f"no Ray head answers at {address}; start one there with `ray start --head`, which prints its port "
                "(for ray:// it is 10001)"
            ) from error


# --- tasks --------------------------------------------------------------------------------------------------------


def task(function: Callable, asks: Asks, *given):
    """Start a task of Ray; return its reference. Ray starts it again if its process or its node ends."""
    return ray.remote(function).options(max_retries=RETRIES, **asks.options()).remote(*given)


def answer_of(reference, name: str):
    """Return what a task returned, or raise what it raised; InputError if its process ended every time.

    name: the name of the task, for errors.
    """
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else InputError(" ".join(str(error).split()))
        raise cause from None
    except ray.exceptions.RayError as error:
        raise InputError(
            f"{name}: its process or its node ended {RETRIES + 1} times ({type(error).__name__}), perhaps for want of "
            f"memory; {AGAIN}"
        ) from error


def as_they_end(tasks: dict, patience: float = TO_COME_BACK, every: float = 10) -> Iterator[tuple[Any, Any]]:
    """Yield the key of each task and its reference, in the order in which the tasks end.

    tasks: key -> (reference, what it asks for). NoRoom after `patience` seconds in which no node could hold a task,
    which otherwise would wait for ever.
    """
    waiting, seen = dict(tasks), time.monotonic()
    while waiting:
        done, _ = ray.wait([reference for reference, _ in waiting.values()], timeout=every)
        for key in [key for key, (reference, _) in waiting.items() if reference in done]:
            yield key, waiting.pop(key)[0]
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        lost = [key for key, (_, asks) in waiting.items() if not any(asks.fit_into(node) for node in alive)]
        seen = seen if lost else time.monotonic()
        if lost and time.monotonic() - seen >= patience:
            raise NoRoom(f"{lost[0]}: for {patience:.0f} s no node of the cluster could hold it; add one, and {AGAIN}")


# --- nodes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What a process finds on its node: versions by name, whether it sees the file, bytes of the smallest card."""

    versions: dict[str, str]
    sees: bool
    card_memory: int = 0


def look(file: Path) -> Look:
    """Return what this process finds on its node. The version of the project is a hash of what its code does."""
    project = hash_of_code(sorted((ROOT / "lib").rglob("*.py")))[:12]
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"Python": python, "the project": project} | {name: version(name) for name in LIBRARIES}
    card_memory = 0
    # nvidia-smi lists all cards of the node; torch would see only those that Ray gives this process.
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        printed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
        card_memory = min((int(float(line) * 2**20) for line in printed.split("\n") if line.strip()), default=0)
    return Look(versions, file.is_file(), card_memory)


def nodes_of(folder: Path) -> tuple[Node, ...]:
    """Return the nodes of the cluster.

    InputError for a node of other versions, or that does not see the folder, and if no node has a core to give.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-by-all-") as file:
        here = look(Path(file.name))
        alive, nodes = [node for node in ray.nodes() if node["Alive"]], []
        on_node = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in alive]
        looks = [ray.remote(look).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
                 .remote(Path(file.name)) for strategy in on_node]  # fmt: skip
        for node, reference in zip(alive, looks, strict=True):
            name, has = node["NodeManagerAddress"], node["Resources"]
            there = _looked(name, reference)
            refuse_other(name, there, here, folder)
            memory = int(has.get("memory", psutil.virtual_memory().available))
            nodes.append(Node(name, has.get("CPU", 0), has.get("GPU", 0), memory, there.card_memory))
    if not any(node.cpus >= 1 for node in nodes):
        raise InputError("no node of the cluster has a core to give; wait until its workers are up, and run again")
    return tuple(nodes)


def _looked(node: str, reference) -> Look:
    try:
        return ray.get(reference, timeout=TO_ANSWER)
    except ray.exceptions.GetTimeoutError as error:
        raise InputError(f"node {node} does not answer within {TO_ANSWER} s; take it out of the cluster") from error
    except ray.exceptions.RayError as error:
        cause = next((line for line in str(error).splitlines()[::-1] if "Error" in line), type(error).__name__)
        raise InputError(
            f"node {node} cannot run this project ({' '.join(cause.split())[:150]}); install the same version there, "
            "in the environment that `ray start` is called from"
        ) from error


def refuse_other(node: str, there: Look, here: Look, folder: Path) -> None:
    """Raise InputError if a node has another version of something than this process, or does not see the folder."""
    for name, ours in here.versions.items():
        if (theirs := there.versions.get(name)) != ours:
            raise InputError(
                f"node {node} has {name} {theirs}, this process {ours}; use one commit, and one environment from "
                "requirements.lock, on all nodes"
            )
    if not there.sees:
        raise InputError(
            f"node {node} does not see what is written to {folder}; put the project into a folder that all nodes share"
        )
