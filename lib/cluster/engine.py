"""Ray itself: connecting to it, and whether its nodes have what this project needs, before anything is computed."""

import asyncio
import contextlib
import hashlib
import logging
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import psutil
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lib import ROOT, InputError
from lib.cluster import grpc, ray
from lib.cluster.placement import Asks, Node, NoRoom
from lib.cluster.storage import Store
from lib.models.checkpoints import first_line

AUTO, LOCAL = "auto", "local"
OBJECT_STORE = 200_000_000  # bytes, of a Ray that is started here: paths and counts pass through it, no rewards
RETRIES = 5  # how often Ray begins a task, or starts an actor, again after its process or its node is gone
TO_CONNECT = 10  # seconds that a head may take to answer at all
TO_START = 180  # seconds in which Ray has started here, or has taken this process in
TO_COME_BACK = 600  # seconds that a cluster may be without any node that could hold a model
TO_ANSWER = 300  # seconds that a node may take to start a process and to import the project
LIBRARIES = ("ray", "torch", "transformers", "tokenizers", "numpy")
AGAIN = "run the same command again: it goes on from what is done"


# --- connecting ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(on: str) -> Iterator[None]:
    """While this lasts, Ray is there; what was started for it here ends with it.

    on: "auto" for the cluster that a Ray job runs in, else for this machine with all its cards; or the address of a
    head: host:6379 from one of its nodes, ray://host:10001 from elsewhere. InputError where it cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that this ran
    on_sigterm = signal.getsignal(signal.SIGTERM)
    context = _begun(os.environ.get("RAY_ADDRESS", LOCAL) if on == AUTO else on)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray puts its own in the place of it
    try:
        if url := getattr(context, "dashboard_url", None):
            print(f"Ray's dashboard: http://{url}", flush=True)
        yield
    finally:
        ray.shutdown()


def _begun(address: str):
    """What ray.init tells of the Ray at this address, or of one that it starts here. InputError as of connected."""
    if address not in (LOCAL, AUTO):  # these two by RAY_ADDRESS
        refuse_unreachable(address)
    how = {"object_store_memory": OBJECT_STORE} if address == LOCAL else {}
    with _ending_unless_done(TO_START, f"Ray did not start within {TO_START} s; {AGAIN} when less else runs here"):
        try:
            return ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **how)
        except Exception as error:  # Ray's own checks of versions and addresses fail in many ways
            place = "this machine" if address == LOCAL else address
            raise InputError(f"Ray cannot be used at '{place}': {_in_one_line(error)}") from error


@contextlib.contextmanager
def _ending_unless_done(seconds: float, line: str) -> Iterator[None]:
    """Whatever is not done in time ends this process, with the line for an error.

    Ray waits for ever for a process of its own that has died at its start, where no signal is heard.
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
    """InputError unless a Ray may be at the address of a head; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"ON= is 'auto' or the address of a Ray head, host:6379 or ray://host:10001, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray head answers at {address} ({first_line(error)}); start one there with `ray start --head`, or name "
            "another"
        ) from error
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return  # asked without a certificate it would not answer
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=TO_CONNECT)
        except grpc.FutureTimeoutError as error:
            raise InputError(
                f"what answers at {address} is no Ray head; its port is the one that `ray start --head` tells, or for "
                "ray:// 10001"
            ) from error


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


# --- answers ------------------------------------------------------------------------------------------------------


async def answer_of(reference: Awaitable, what: str):
    """What a task or an actor's method returned; raises what it raised there.

    InputError, naming `what`, where its process ended without an answer as often as Ray began it again.
    """
    try:
        return await reference
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else InputError(_in_one_line(error))) from None
    except ray.exceptions.RayError as error:
        raise InputError(
            f"{what}: its process or its node ended {RETRIES + 1} times ({type(error).__name__}), perhaps for want of "
            f"memory; {AGAIN}"
        ) from error


async def all_of(coroutines) -> list:
    """What each of them returned, or the exception that it raised, in order."""
    return await asyncio.gather(*coroutines, return_exceptions=True)


# --- nodes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What a process finds where it runs. project: a hash of the files of lib. seen: of what lies in the store."""

    python: str
    project: str
    libraries: dict[str, str]
    seen: bytes | None
    card_memory: int = 0


def look(place: str, name: str) -> Look:
    """What this process finds: versions, and the file `name` of the store at `place`."""
    libraries = {library: version(library) for library in LIBRARIES}
    python = ".".join(platform.python_version_tuple()[:2])
    return Look(python, _hash_of_project(), libraries, Store(place).read(name), _card_memory())


def _hash_of_project() -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "lib").rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _card_memory() -> int:
    """Bytes of the smallest card of this node; 0 where there is none. Of all cards, whichever this process may use."""
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        told = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
        return min((int(float(line) * 2**20) for line in told.split("\n") if line.strip()), default=0)
    return 0


def nodes_of(place: str) -> tuple[Node, ...]:
    """The nodes of the cluster. InputError for one of other versions, or that does not see the store at `place`.

    InputError too where all of them compute nothing, as a head that waits for its workers.
    """
    store, name = Store(place), f".seen-by-all-{uuid.uuid4().hex[:12]}"
    store.write(name, name.encode())
    try:
        here = look(place, name)
        asked = [(node, _ask(node, place, name)) for node in ray.nodes() if node["Alive"]]
        nodes = tuple(_checked(node, _looked(node, reference), here, place) for node, reference in asked)
    finally:
        store.remove_file(name)
    if not any(node.cpus >= 1 for node in nodes):
        raise InputError("no node of the cluster has a core to give; wait until its workers are up, and run again")
    return nodes


def _checked(node: dict, there: Look, here: Look, place: str) -> Node:
    where, has = node["NodeManagerAddress"], node["Resources"]
    refuse_other(where, there, here, place)
    memory = int(has.get("memory", psutil.virtual_memory().available))
    return Node(where, has.get("CPU", 0), has.get("GPU", 0), memory, there.card_memory)


def _ask(node: dict, place: str, name: str):
    there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return ray.remote(look).options(num_cpus=0, max_retries=0, scheduling_strategy=there).remote(place, name)


def _looked(node: dict, reference) -> Look:
    where = node["NodeManagerAddress"]
    try:
        return ray.get(reference, timeout=TO_ANSWER)
    except ray.exceptions.GetTimeoutError as error:
        raise InputError(f"node {where} does not answer within {TO_ANSWER} s; take it out of the cluster") from error
    except ray.exceptions.RayError as error:
        said = next((line for line in str(error).splitlines()[::-1] if "Error" in line), type(error).__name__)
        raise InputError(
            f"node {where} cannot run this project ({' '.join(said.split())[:150]}); install the same version there, "
            "in the environment that `ray start` is called from"
        ) from error


def refuse_other(where: str, there: Look, here: Look, place: str) -> None:
    """InputError if what a node finds differs from what is found here in a way that matters."""
    if there.python != here.python:
        raise InputError(
            f"node {where} has Python {there.python}, this process {here.python}; use one environment for all"
        )
    if there.project != here.project:
        raise InputError(f"node {where} has another version of the project than this process; bring both to one commit")
    if differ := [name for name in here.libraries if there.libraries.get(name) != here.libraries[name]]:
        name = differ[0]
        raise InputError(
            f"node {where} has {name} {there.libraries.get(name)}, this process {here.libraries[name]}; install both "
            "from requirements.lock"
        )
    if there.seen != here.seen:
        raise InputError(
            f"node {where} does not see what is written to {place}; put the project into a folder that all nodes "
            "share, or name a place for what they share: SHARED=s3://bucket/folder"
        )


async def until_none_is_left(nickname: str, asks: Asks, patience: float = TO_COME_BACK, every: float = 10) -> None:
    """Ends with NoRoom once no node of the cluster could hold the model for so many seconds, and else not at all.

    What it asks for was there when it was placed; an actor whose node is gone would wait for such a one for ever.
    """
    seen = time.monotonic()
    while time.monotonic() - seen < patience:
        await asyncio.sleep(every)
        if any(asks.fit_into(node["Resources"]) for node in ray.nodes() if node["Alive"]):
            seen = time.monotonic()
    raise NoRoom(f"{nickname}: since {patience:.0f} s no node of the cluster could hold it; add one, and {AGAIN}")
