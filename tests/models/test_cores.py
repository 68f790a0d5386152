"""Work on several cores: results in order, and one thread in each process. That none is left
behind: see test_run.py.
"""

import os

import torch

from lib.models.hardware import each


def thread_of(job: int) -> tuple[int, int, int]:
    return job, os.getpid(), torch.get_num_threads()


def test_results_are_in_order_and_each_process_has_one_thread():
    jobs, pids, threads = zip(*each(thread_of, [3, 1, 2], 2), strict=True)
    assert jobs == (3, 1, 2) and set(threads) == {1}
    assert os.getpid() not in pids and len(set(pids)) <= 2
    # one process needs no other
    assert [pid for _, pid, _ in each(thread_of, [1, 2], 1)] == [os.getpid()] * 2
