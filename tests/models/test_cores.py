"""Work on several cores: results in order, one thread in each process, and no process left
behind.
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import torch

from lib.models.hardware import each


def thread_of(job: int) -> tuple[int, int, int]:
    return job, os.getpid(), torch.get_num_threads()


def write_own_id_and_wait(folder: str) -> None:
    with open(f"{folder}/{os.getpid()}", "w"):
        time.sleep(60)


def wait_in_two_processes(folder: str) -> None:
    list(each(write_own_id_and_wait, [folder, folder], 2))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # on Linux also what has ended, until somebody asks after it
    state = Path(f"/proc/{pid}/stat")
    return not state.is_file() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition, seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.1)
    return condition()


def test_results_are_in_order_and_each_process_has_one_thread():
    jobs, pids, threads = zip(*each(thread_of, [3, 1, 2], 2), strict=True)
    assert jobs == (3, 1, 2) and set(threads) == {1}
    assert os.getpid() not in pids and len(set(pids)) <= 2
    # one process needs no other
    assert [pid for _, pid, _ in each(thread_of, [1, 2], 1)] == [os.getpid()] * 2


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path):
    parent = multiprocessing.get_context("spawn").Process(
        target=wait_in_two_processes, args=(str(tmp_path),)
    )
    parent.start()
    assert until(lambda: len(list(tmp_path.iterdir())) == 2, 60)
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    children = [int(path.name) for path in tmp_path.iterdir()]
    assert until(lambda: not any(map(is_running, children)), 10)
