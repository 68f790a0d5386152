"""How work shares the cores of a cpu: one thread where sums are short, and one process for each core."""

import contextlib
import multiprocessing
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

    The function must be importable by name. With one job or one process, here and on this process's threads.
    """
    if len(jobs) < 2 or processes < 2:
        yield from map(function, jobs)
        return
    # Spawned, not forked: a fork of a process in which torch has computed may hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), spawn, torch.set_num_threads, (1,)) as pool:
        yield from pool.map(function, jobs)
