"""How work shares the cores of a cpu: one thread where sums are short, and one process for each core."""

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """While this lasts, torch computes on one thread, if that is wanted.

    Sums are then in one order on every number of cores. And threads that share short sums mostly wait for each other;
    where other cores are busy they wait for a turn each time, which made searches on small models fifty times slower.
    """
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def each(function: Callable, jobs: list, processes: int) -> Iterator:
    """What the function makes of each job, in order; so many at once, each in a process with one thread.

    The function must be importable by name. With one job or one process, here and on this process's threads. The
    processes end with this one, however it ends.
    """
    if len(jobs) < 2 or processes < 2:
        yield from map(function, jobs)
        return
    # Spawned, not forked: a fork of a process in which torch has computed may hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), spawn, _begin) as pool:
        yield from pool.map(function, jobs)


def _begin() -> None:
    """In each process at its start: one thread for torch, and an end when the process that started it ends."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool's processes would otherwise wait for work for ever when the process that gives it is killed."""
    multiprocessing.parent_process().join()
    os._exit(1)
