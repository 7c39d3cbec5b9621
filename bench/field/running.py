"""Run a tool within limits of time and memory, and measure all its processes.

With control groups (Linux, as root) CPU time is of every process, and memory counts pages that
processes share once. Without them CPU time lacks what nobody waits for, such as Spark's Python
workers, and shared pages count in each process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from bench.control_groups import ControlGroup, can_make_groups, control_group
from bench.processes import disk_bytes, tree_bytes, tree_cpu_seconds

DONE, FAILED, OVER_TIME, OVER_MEMORY = "done", "failed", "over time", "over memory"
CORES = 2
"""Of the machine, that a tool may use."""

_POLL_SECONDS = 0.1
_DISK_POLL_SECONDS = 1.0
_SAID_CHARACTERS = 400
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Limits(NamedTuple):
    """What a tool may use.

    Attributes:
        seconds: wall time.
        memory_bytes: memory of all its processes, without pages of files.
    """

    seconds: float
    memory_bytes: int


class Command(NamedTuple):
    """What is run.

    Attributes:
        words: the program and its arguments.
        folder: its working directory, whose disk space is measured.
        variables: of its environment, besides those of this process.
    """

    words: Sequence[str]
    folder: Path
    variables: Mapping[str, str] = {}


class Run(NamedTuple):
    """What happened.

    Attributes:
        state: ``done``, ``failed``, ``over time`` or ``over memory``.
        seconds: wall time.
        cpu_seconds: of all processes, so far if it was ended.
        peak_bytes: of memory, polled.
        disk_bytes: of its directory at the peak, polled.
        others_share: CPU time of all other programs in the meantime, as a share of that of all
            cores; a machine of its own has 0.0.
        said: the end of what it printed.
    """

    state: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    disk_bytes: int
    others_share: float
    said: str


class _Processes:
    """The processes of a command, by a control group or, without one, by their tree."""

    def __init__(self, process: subprocess.Popen[bytes], group: ControlGroup | None) -> None:
        self._process, self._group = process, group
        self._waited_before = _waited_seconds()
        self._tree_seconds = 0.0

    def memory_bytes(self) -> int:
        if self._group is None:
            # of what is ended at a limit, the last time counts
            self._tree_seconds = tree_cpu_seconds(self._process.pid) or self._tree_seconds
        found = self._group.memory_bytes() if self._group else None
        return tree_bytes(self._process.pid) if found is None else found

    def cpu_seconds(self) -> float:
        if self._group:
            return self._group.cpu_seconds()
        return max(self._tree_seconds, _waited_seconds() - self._waited_before)

    def killed_by_kernel(self) -> bool:
        return self._group is not None and self._group.kills() > 0

    def have_ended(self) -> bool:
        if self._process.poll() is None:
            return False
        return self._group is None or not self._group.members()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._group:
            self._group.kill()
        self._process.wait()


def run(command: Command, limits: Limits) -> Run:
    """Run a program until it ends or exceeds a limit; nothing of it runs on afterwards.

    It is done once all its processes have ended.
    """
    with _group() as group, tempfile.TemporaryFile() as output:
        if group:
            group.limit_memory(limits.memory_bytes)
        machine, started = _busy_seconds(), time.perf_counter()
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=command.folder,
            env={**_environment(), **command.variables},
            start_new_session=True,
            preexec_fn=partial(_enter, group),
        )
        processes = _Processes(process, group)
        try:
            state, peak, disk = _watch(process, processes, limits, command.folder)
        finally:
            processes.kill()
        seconds, cpu = time.perf_counter() - started, processes.cpu_seconds()
        others = max(0.0, _busy_seconds() - machine - cpu) / (seconds * (os.cpu_count() or 1))
        return Run(state, seconds, cpu, peak, disk, min(1.0, others), _said(output))


def _enter(group: ControlGroup | None) -> None:
    """Have this process, and all that it starts, use few cores, and be in the group."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if group:
        group.enter()


def _environment() -> Mapping[str, str]:
    """Return the variables of this process, with which modules are compiled only once.

    That is as for installed packages; compiling ours each time takes 1.8 s.
    """
    return {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}


def _watch(
    process: subprocess.Popen[bytes], processes: _Processes, limits: Limits, folder: Path
) -> tuple[str, int, int]:
    """Return the state after the end, and peaks of memory and disk in bytes."""
    started = time.perf_counter()
    peak = disk = 0
    disk_at = started + _DISK_POLL_SECONDS
    state = DONE
    while state == DONE and not processes.have_ended():
        time.sleep(_POLL_SECONDS)
        now = time.perf_counter()
        memory = processes.memory_bytes()
        peak = max(peak, memory)
        if now > disk_at:
            disk = max(disk, disk_bytes(process.pid, folder))
            disk_at = now + _DISK_POLL_SECONDS
        # a pool of processes may wait forever for one that the kernel ended
        if memory > limits.memory_bytes or processes.killed_by_kernel():
            state = OVER_MEMORY
        elif now - started > limits.seconds:
            state = OVER_TIME
    disk = max(disk, disk_bytes(process.pid, folder))
    if state == DONE and processes.killed_by_kernel():
        state = OVER_MEMORY
    if state == DONE and process.returncode:
        state = FAILED
    return state, peak, disk


@contextlib.contextmanager
def _group() -> Iterator[ControlGroup | None]:
    if can_make_groups():
        with control_group() as group:
            yield group
    else:
        yield None


def _waited_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _busy_seconds() -> float:
    """Return the CPU time of all programs on this machine so far; 0 outside Linux."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, soft_irq = map(int, first[1:8])
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")


def _said(output: IO[bytes]) -> str:
    """Return the last lines that a program printed, without progress bars that were overwritten."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 8 * _SAID_CHARACTERS))
    text = output.read().decode(errors="replace").replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2].strip() for line in text.rstrip("\r\n ").split("\n")]
    text = "\n".join(line for line in lines if line)
    if len(text) <= _SAID_CHARACTERS:
        return text
    end = text[-_SAID_CHARACTERS:]
    # a line without its beginning may have part of a path
    return end.partition("\n")[2] or end
