"""The memory that this process may still allocate."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

#: The file that lists the control groups of this process, and the folder of all control groups.
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

#: For version 2 and version 1 of control groups: the files of the limit and of the memory in use, and the
#: prefix of the fields of memory.stat that include subgroups.
_NAMES = "memory.max", "memory.current", ""
_OLD_NAMES = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"

#: Fields of memory.stat for cached files. They count as memory in use, but the kernel frees them if needed.
_CACHED = "inactive_file", "active_file"


def free_memory() -> int:
    """Bytes of free memory, within the limits that a container or a batch system sets for this process."""
    return min([int(psutil.virtual_memory().available), *_free_in_groups(), *_free_address_space()])


def _free_address_space() -> Iterator[int]:
    """The bytes that remain within the limit on this process's address space (ulimit -v), if there is one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield max(0, limit - psutil.Process().memory_info().vms)


def _free_in_groups() -> Iterator[int]:
    """The bytes that remain within the limit of each control group of this process that has a limit."""
    with suppress(OSError):
        for line in _OWN_GROUPS.read_text(errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, names = _GROUPS, _NAMES
            elif "memory" in controllers.split(","):
                top, names = _GROUPS / "memory", _OLD_NAMES
            else:
                continue
            own = top / path.lstrip("/")  # often missing in a container, where `top` is the container's group
            groups = [own, *own.parents]
            for group in groups[: groups.index(top) + 1]:
                with suppress(OSError, ValueError):  # ValueError: the limit is "max"
                    yield _free(group, *names)


def _free(group: Path, limit: str, used: str, prefix: str) -> int:
    taken = int((group / used).read_text()) - _cached(group, prefix)
    return max(0, int((group / limit).read_text()) - taken)


def _cached(group: Path, prefix: str) -> int:
    with suppress(OSError, ValueError):  # not every kernel provides the file
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return sum(int(stat[prefix + name]) for name in _CACHED if prefix + name in stat)
    return 0
