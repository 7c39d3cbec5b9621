"""Run programs as processes of their own, and measure their time and memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import status_bytes


@dataclass(frozen=True)
class Usage:
    """What a program took: wall time, CPU time with its children, and memory at its peak."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(command: Sequence[str]) -> None:
    """Run a program without its output; raise RuntimeError with its messages if it fails."""
    done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")


def tree_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants now; 0 outside Linux.

    Pages that they share count in each of them.
    """
    process = Path("/proc", str(pid))
    with contextlib.suppress(OSError):  # it may have ended
        own = status_bytes(process / "status", "VmRSS")
        return own + sum(map(tree_bytes, _children(process)))
    return 0


def largest_child_bytes(pid: int) -> int:
    """Return the peak memory of the largest child of a process; 0 outside Linux."""
    sizes = [0]
    with contextlib.suppress(OSError):
        for child in _children(Path("/proc", str(pid))):
            with contextlib.suppress(OSError):  # it may have ended
                sizes.append(status_bytes(Path("/proc", str(child), "status"), "VmHWM"))
    return max(sizes)


def _children(process: Path) -> list[int]:
    tasks = [task.read_text().split() for task in process.glob("task/*/children")]
    return [int(child) for children in tasks for child in children]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, without its children; 0 outside Linux."""
    with contextlib.suppress(OSError):
        # fields 14 and 15 of proc(5); field 2, the name in parentheses, may contain spaces
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0


def measure(
    command: Sequence[str],
    memory_bytes: Callable[[int], int] = tree_bytes,
    poll_seconds: float = 0.1,
    variables: Mapping[str, str] | None = None,
) -> Usage:
    """Run a program, and measure it.

    Modules are compiled once, as for installed packages, which takes 0.15 s for a de-duplication.

    Args:
        command: the program and its arguments.
        memory_bytes: returns the memory of the process with an id, which is polled.
        poll_seconds: how often.
        variables: variables of its environment besides those of this process.

    Raises:
        RuntimeError: with its messages, if it fails.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    } | dict(variables or {})
    ended = threading.Event()
    peak_bytes = 0

    def watch(pid: int) -> None:
        nonlocal peak_bytes
        while not ended.wait(poll_seconds):
            peak_bytes = max(peak_bytes, memory_bytes(pid))

    with tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        watcher = threading.Thread(target=watch, args=(process.pid,))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        ended.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"exit code {process.returncode}: {output.read().strip()}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, peak_bytes)
