"""Run programs as processes of their own, and measure their time, memory and disk."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import status_bytes


@dataclass(frozen=True)
class Usage:
    """What a program took: wall time, CPU time with its children, memory and disk at their peak.

    ``is_complete`` is False if the program was ended at a limit of time.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    disk_bytes: int = 0
    is_complete: bool = True

    def followed_by(self, later: Usage) -> Usage:
        """Return what both took, one after the other."""
        return Usage(
            self.seconds + later.seconds,
            self.cpu_seconds + later.cpu_seconds,
            max(self.peak_bytes, later.peak_bytes),
            max(self.disk_bytes, later.disk_bytes),
            self.is_complete and later.is_complete,
        )


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


def disk_bytes(pid: int, folder: Path) -> int:
    """Return the disk space of a directory, and of files without a name that processes have open.

    Args:
        pid: a process, whose descendants count too.
        folder: the directory; unnamed files count if they are on its disk.
    """
    with contextlib.suppress(OSError):
        device = folder.stat().st_dev
        unnamed = {
            (each.st_dev, each.st_ino): each
            for each in _open_files(pid)
            if each.st_nlink == 0 and each.st_dev == device
        }
        blocks = sum(each.st_blocks for each in unnamed.values())
        return 512 * (blocks + sum(each.st_blocks for each in _files(folder)))
    return 0


def _files(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it may have been removed
                yield Path(parent, name).lstat()


def _open_files(pid: int) -> Iterator[os.stat_result]:
    for process in [pid, *_descendants(pid)]:
        with contextlib.suppress(OSError):
            for link in Path("/proc", str(process), "fd").iterdir():
                with contextlib.suppress(OSError):
                    found = link.stat()
                    if stat.S_ISREG(found.st_mode):
                        yield found


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in _children(Path("/proc", str(pid))):
            yield child
            yield from _descendants(child)


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


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, those that ended too."""
    ticks = 0
    for process in [pid, *_descendants(pid)]:
        with contextlib.suppress(OSError):
            fields = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    command: Sequence[str],
    memory_bytes: Callable[[int], int] = tree_bytes,
    poll_seconds: float = 0.1,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
    limit_seconds: float | None = None,
) -> Usage:
    """Run a program, and measure it.

    Modules are compiled once, as for installed packages, which takes 0.15 s for a de-duplication.

    Args:
        command: the program and its arguments.
        memory_bytes: returns the memory of the process with an id, which is polled.
        poll_seconds: how often.
        variables: variables of its environment besides those of this process.
        folder: a directory whose disk space is polled; it costs this process a millisecond for
            some hundred files.
        limit_seconds: when to end the program and its descendants; it fails with no error then.

    Raises:
        RuntimeError: with its messages, if it fails.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    } | dict(variables or {})
    ended = threading.Event()
    peak_bytes = peak_disk_bytes = 0
    cpu_at_limit: list[float] = []

    def watch(pid: int) -> None:
        nonlocal peak_bytes, peak_disk_bytes
        while not ended.wait(poll_seconds):
            peak_bytes = max(peak_bytes, memory_bytes(pid))
            if folder is not None:
                peak_disk_bytes = max(peak_disk_bytes, disk_bytes(pid, folder))
            if limit_seconds is not None and time.perf_counter() - started > limit_seconds:
                cpu_at_limit.append(tree_cpu_seconds(pid))
                os.killpg(pid, signal.SIGKILL)
                return

    with tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=limit_seconds is not None,
        )
        watcher = threading.Thread(target=watch, args=(process.pid,))
        watcher.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            if limit_seconds is not None:  # a signal of the terminal does not reach its session
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            seconds = time.perf_counter() - started
            ended.set()
            watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not cpu_at_limit:
            output.seek(0)
            raise RuntimeError(f"exit code {process.returncode}: {output.read().strip()}")
    cpu = cpu_at_limit[0] if cpu_at_limit else usage.ru_utime + usage.ru_stime
    return Usage(seconds, cpu, peak_bytes, peak_disk_bytes, not cpu_at_limit)
