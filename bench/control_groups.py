"""Control groups of Linux: CPU time and memory of a process with all that it starts.

A process that ended is in the resource usage of its parent only if the parent waited for it, which
Spark's daemon of Python workers does not; a control group counts it. Both versions of them are
supported. They need the right to make directories in /sys/fs/cgroup (root).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")


class ControlGroup(NamedTuple):
    """A control group, empty at first.

    Attributes:
        cpu: the directory that counts CPU time.
        memory: the directory that counts and limits memory, the same in version 2; None if the
            machine has none.
    """

    cpu: Path
    memory: Path | None

    def enter(self) -> None:
        """Move this process into the group; what it starts is in it too."""
        for folder in self._folders():
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def members(self) -> list[int]:
        """Return the ids of its processes now."""
        return [int(line) for line in (self.cpu / "cgroup.procs").read_text().split()]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes, those that ended too."""
        usage = self.cpu / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return _numbers(self.cpu / "cpu.stat")["usage_usec"] / 1e6

    def memory_bytes(self) -> int | None:
        """Return its memory now, without pages of files; None if that is not counted.

        Pages that processes share count once.
        """
        if self.memory is None:
            return None
        found = _numbers(self.memory / "memory.stat")
        if "total_rss" in found:  # version 1
            return found["total_rss"] + found.get("total_shmem", 0)
        return found["anon"] + found.get("shmem", 0)

    def limit_memory(self, limit_bytes: int) -> None:
        """Have the kernel end a process of the group that needs more memory than this."""
        if self.memory is not None:
            names = ("memory.limit_in_bytes", "memory.max")
            file = next(self.memory / name for name in names if (self.memory / name).exists())
            file.write_text(str(limit_bytes))

    def kills(self) -> int:
        """Return how many processes the kernel ended because of the limit."""
        if self.memory is None:
            return 0
        for name in ("memory.oom_control", "memory.events"):
            if (self.memory / name).exists():
                return _numbers(self.memory / name).get("oom_kill", 0)
        return 0

    def await_end(self, seconds: float) -> bool:
        """Wait until it has no process, as Java ends a moment after a command; return if so."""
        deadline = time.monotonic() + seconds
        while self.members():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def kill(self) -> None:
        """End all its processes."""
        for _ in range(100):  # one may start another one meanwhile
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.await_end(0.2):
                return

    def _folders(self) -> list[Path]:
        return [self.cpu] if self.memory in (None, self.cpu) else [self.cpu, self.memory]


def _numbers(path: Path) -> Mapping[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: int(value) for name, value in lines}


@contextlib.contextmanager
def control_group() -> Iterator[ControlGroup]:
    """Yield a new control group; end its processes and remove it.

    Raises:
        OSError: control groups cannot be made here.
    """
    name = f"mr_dedup-bench-{os.getpid()}"
    if (_ROOT / "cpuacct").is_dir():  # version 1
        group = ControlGroup(_ROOT / "cpuacct" / name, _ROOT / "memory" / name)
    else:
        group = ControlGroup(_ROOT / name, _ROOT / name)
    made: list[Path] = []
    try:
        for folder in group._folders():
            folder.mkdir()
            made.append(folder)
        if not (group.memory and (group.memory / "memory.stat").exists()):
            group = group._replace(memory=None)
        yield group
    finally:
        if made:
            group.kill()
        for folder in made:
            folder.rmdir()


def can_make_groups() -> bool:
    """Return whether control groups can be made here."""
    with contextlib.suppress(OSError), control_group():
        return True
    return False
