"""The processors and the memory that this process may use, by the machine and its limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Files(NamedTuple):
    """The files of a control group: its limit, its use, and its field of pages to give back."""

    limit: str
    used: str
    reclaimable: str


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


def core_count(cores: int | None = None) -> int:
    """Return ``cores``, by default the number of those that this process may run on."""
    return cores or len(os.sched_getaffinity(0))


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may take without swapping.

    The smallest of what the machine has available and what is left of the limit of each control
    group, version 1 or 2, that the process is in. Cached pages of files that a group gives back are
    not counted as used.

    Args:
        root: The directory with ``proc`` and ``sys``.

    Raises:
        OSError: If the system does not report its memory, as only Linux does.
    """
    sizes = _fields((root / "proc/meminfo").read_text().replace(":", ""))
    available = sizes.get("MemAvailable", sizes["MemFree"]) << 10
    return max(0, min([available, *_left_bytes(root)]))


def _left_bytes(root: Path) -> Iterator[int]:
    """Yield what is left of each limit of the groups of this process."""
    for group, files in _groups(root):
        try:
            limit = int((group / files.limit).read_text())
            used = int((group / files.used).read_text())
            reclaimable = _fields((group / "memory.stat").read_text())[files.reclaimable]
        except (OSError, ValueError, KeyError):
            # not mounted here, or the limit is "max"
            continue
        yield limit - used + reclaimable


def _groups(root: Path) -> Iterator[tuple[Path, _Files]]:
    """Yield the memory groups of this process, from its own to the outermost one visible."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            files = _V1 if controllers else _V2
            mounted = root / "sys/fs/cgroup" / controllers
            names = [name for name in path.split("/") if name not in ("", "..")]
            for depth in range(len(names), -1, -1):
                yield mounted.joinpath(*names[:depth]), files


def _fields(text: str) -> dict[str, int]:
    """Return the numbers of lines ``name number …``."""
    return {name: int(number) for name, number, *_ in map(str.split, text.splitlines())}
