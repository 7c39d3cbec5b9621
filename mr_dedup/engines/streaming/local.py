"""mrjob's local runner with tasks forked from this process, as many at a time as cores."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NoReturn

from mrjob.job import MRJob
from mrjob.local import LocalMRJobRunner

from mr_dedup.engines.reporting import Progress, expected_reason
from mr_dedup.engines.streaming.reporting import ReportingRunner, input_path
from mr_dedup.errors import FormatError, MrDedupError, OutOfMemoryError
from mr_dedup.interrupts import INTERRUPTS, unwatched

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


class ForkingRunner(ReportingRunner, LocalMRJobRunner):  # type: ignore[misc]
    """mrjob's local runner with tasks forked from this process, as many at a time as cores.

    Eight tasks over 64 MB each took 5.0 s as new Pythons, 1.5 s as forks of one that has mrjob
    and the compiled kernels in memory already.
    """

    def __init__(self, job_class: type[MRJob], **options: Any) -> None:
        super().__init__(**options)
        self._job_class = job_class
        self.progress = Progress()
        self.names = {}

    def _create_setup_wrapper_scripts(self) -> None:
        """Do nothing: no shell stands between us and a task."""

    def _invoke_task_func(
        self, task_type: str, step_num: int, task_num: int
    ) -> Callable[..., None]:
        reads_manifest = task_type == "mapper" and step_num == 0 and self._uses_input_manifest()
        arguments = self._args_for_task(step_num, task_type)
        return partial(_run_task, self._job_class, arguments, reads_manifest)

    def _run_multiple(
        self, funcs: Iterable[Callable[[], None]], num_processes: None = None
    ) -> None:
        waiting = list(enumerate(funcs))
        self.progress.start(self._phase, len(waiting))
        waiting.reverse()
        running: dict[int, _Task] = {}
        with unwatched(), selectors.DefaultSelector() as finished:
            try:
                while waiting or running:
                    while waiting and len(running) < self._num_cores():
                        with _uninterrupted():
                            task = _Task.fork(*waiting.pop())
                            running[task.report] = task
                            finished.register(task.report, selectors.EVENT_READ)
                    for key, _ in finished.select():
                        with _uninterrupted():
                            finished.unregister(key.fd)
                            task = running.pop(key.fd)
                            code, report = task.wait()
                        self._check_result(task.number, code, report)
                        self.progress.step()
            finally:
                for task in running.values():
                    task.kill()

    def _check_result(self, number: int, code: int, report: dict[str, Any]) -> None:
        """Raise what went wrong in a task that ended, if anything did."""
        if code == 0:
            return
        name = self._task_name(number)
        if code < 0:
            name_of_signal = signal.Signals(-code).name
            hint = "; out of memory?" if -code == signal.SIGKILL else ""
            raise MrDedupError(f"{name}: killed by the system ({name_of_signal}){hint}")
        if report.get("expected"):
            message = str(report["message"])
            kind = OutOfMemoryError if report["out_of_memory"] else MrDedupError
            raise kind(message if report["names_file"] else f"{name}: {message}")
        raise RuntimeError(f"{name}: {report.get('message', f'exit code {code}')}")


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Block interrupts, so that every task that is started or ended is also recorded.

    An interrupt in one of Python's own hooks around a fork would even be printed and forgotten.
    """
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


@dataclass(frozen=True)
class _Task:
    """A forked task: its number, process, and the pipe on which it reports its failure."""

    number: int
    pid: int
    report: int

    @classmethod
    def fork(cls, number: int, function: Callable[[], None]) -> _Task:
        """Start ``function`` in a process of its own."""
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _end_with(parent)
            os.close(reading)
            _run_and_exit(function, writing)
        os.close(writing)
        return cls(number, pid, reading)

    def wait(self) -> tuple[int, dict[str, Any]]:
        """Return the exit code, negative for a signal, and the failure it reported."""
        with os.fdopen(self.report, "rb") as stream:
            text = stream.read()
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        # a task that was killed may have been about to report
        return code, json.loads(text) if text and code > 0 else {}

    def kill(self) -> None:
        """End the task now and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


def _end_with(parent: int) -> None:
    """Have this process killed when ``parent`` ends, even by a kill that lets it end nothing."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def _run_and_exit(function: Callable[[], None], report: int) -> NoReturn:
    """Run a task in its forked process; report a failure; never return to the parent's code."""
    # Ctrl-C reaches the whole group of processes: the parent ends its tasks itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    code = 1
    try:
        function()
        code = 0
    except BaseException as error:
        message = {
            "expected": isinstance(error, (MrDedupError, OSError, MemoryError)),
            "out_of_memory": isinstance(error, MemoryError),
            "names_file": isinstance(error, FormatError),
            "message": expected_reason(error),
        }
        with os.fdopen(report, "wb") as stream:
            stream.write(json.dumps(message).encode("ascii"))
    finally:
        os._exit(code)


def _run_task(
    job_class: type[MRJob],
    arguments: Sequence[str],
    reads_manifest: bool,
    stdin: BinaryIO,
    stdout: BinaryIO,
    stderr: BinaryIO,
    working_dir: str,
    environment: dict[str, str],
) -> None:
    """Run one task of a job in this (forked) process as mrjob would in a new one."""
    if reads_manifest:
        path = input_path(stdin.readline().decode("utf-8", "surrogateescape"))
        arguments = [*arguments, path, path]
    for number, stream in enumerate((stdin, stdout, stderr)):
        os.dup2(stream.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(number, mode, closefd=False), "utf-8")
        for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
    )
    os.environ.update(environment)
    os.chdir(working_dir)
    job_class([*arguments]).execute()
    sys.stdout.flush()
    sys.stderr.flush()
