"""Memory: what this process can still take of it, on the host and on a device."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

CGROUPS = Path("/sys/fs/cgroup")  # where Linux tells a container's limits, if it has some


def free(device: str = "cpu") -> int:
    """Bytes that this process can still take on the device: what is free, and within its container and its limits."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return max(0, min([psutil.virtual_memory().available, *_left_by_limits()]))


def _left_by_limits() -> Iterator[int]:
    used = psutil.Process().memory_info()
    for file in _container_limits():
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            yield int(file.read_text()) - used.rss
    with contextlib.suppress(ImportError, AttributeError):  # Windows has none, and macOS not all
        import resource

        for limit, taken in ((resource.RLIMIT_AS, used.vms), (resource.RLIMIT_DATA, used.data)):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                yield most - taken


def _container_limits() -> Iterator[Path]:
    """The files that may hold the limit of its control group: of both versions, inside a container and outside."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from (CGROUPS / path.strip("/") / "memory.max", CGROUPS / "memory.max")
            elif "memory" in controllers.split(","):
                version_1 = CGROUPS / "memory"
                yield from (version_1 / path.strip("/") / "memory.limit_in_bytes", version_1 / "memory.limit_in_bytes")
