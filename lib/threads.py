"""How a process shares the cores and the memory of a machine with other processes, and ends with
them.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading

# of glibc's mallopt, by the names of its variables: the option, and how much
MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 29),
    "MALLOC_MMAP_THRESHOLD_": (-3, 1 << 27),
}


def share_cores() -> None:
    """Let threads that wait give way to other work, and keep freed memory in this process.

    It is called when the library is imported, before torch is loaded. Otherwise threads spin while
    they wait for each other, and a busy machine is five times slower. Memory that goes back to the
    system costs new pages for each large tensor; this needs glibc. What the reader's own
    environment sets stays as it is.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads
    # another C library, or Windows
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for variable, given in MEMORY.items():
            # glibc reads the variable when a process starts
            if variable not in os.environ:
                mallopt(*given)


def end_with_parent() -> None:
    """Let this process end when the one that started it ends, however that ends: else it would wait
    for work for ever. Ctrl-C, which reaches both, ends it without a traceback.
    """

    def wait() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=wait, daemon=True).start()
