"""What a process can take of its device: threads, and processes side by side."""

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from ..threads import end_with_parent


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Let torch compute on one thread while this lasts, if that is wanted.

    Sums are then in one order on every number of cores. Threads that share short sums also mostly
    wait for each other.
    """
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def each(function: Callable, jobs: list, processes: int) -> Iterator:
    """Yield what the function makes of each job, in order; so many at once, each in a process with
    one thread.

    The function must be importable by name. With one job or one process, it runs here.
    """
    if len(jobs) < 2 or processes < 2:
        yield from map(function, jobs)
        return
    # Spawned, not forked: a fork of a process in which torch has computed may hang.
    spawn = multiprocessing.get_context("spawn")
    workers = min(processes, len(jobs))
    with ProcessPoolExecutor(workers, spawn, _begin) as pool:
        yield from pool.map(function, jobs)


def _begin() -> None:
    """Give torch one thread in a new process, which ends with the one that started it."""
    torch.set_num_threads(1)
    end_with_parent()
