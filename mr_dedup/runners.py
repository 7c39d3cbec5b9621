"""Run an MRJob on this machine: the one module that knows mrjob's ways.

``inline`` runs every task in this process. ``local`` forks a process a task: mrjob's own local
runner starts a Python for each, which costs more than a 64 MB chunk takes to search.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import selectors
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mrjob.inline import InlineMRJobRunner
from mrjob.job import MRJob
from mrjob.local import LocalMRJobRunner
from tqdm import tqdm

from mr_dedup.errors import FormatError, MrDedupError

RUNNERS = ("inline", "local")

_MAX_REPORT_BYTES = 1 << 14

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# tqdm's monitor thread would be there when tasks are forked, and Python 3.12 warns of that
tqdm.monitor_interval = 0


@dataclass(frozen=True)
class JobResult:
    """What a finished job left: its output files, in order, and its counters by name."""

    parts: tuple[Path, ...]
    counters: dict[str, int]


@contextlib.contextmanager
def staging_folder() -> Iterator[Path]:
    """Yield a new folder for inputs and temporary files; it goes with all it holds."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="mr_dedup-"))
    except OSError as error:
        raise MrDedupError(f"no temporary folder: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def run(
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Path],
    staging: Path,
    *,
    runner: str = "local",
    cores: int | None = None,
) -> Iterator[JobResult]:
    """Run a one-step job over ``inputs``, a map task each; yield what it left.

    The result's files live until the block ends. ``cores`` bounds the tasks at a time (all that
    this process may use). Shows progress on a terminal. Raises MrDedupError for every failure of
    a task that is not a bug, naming the task's input.
    """
    if runner not in RUNNERS:
        raise ValueError(f"runner must be one of {', '.join(RUNNERS)}, not {runner!r}")
    logging.getLogger("mrjob").setLevel(logging.CRITICAL)
    arguments = ["-r", runner, "--no-conf", "--local-tmp-dir", str(staging), *options]
    job = job_class([*arguments, *map(str, inputs)])
    runner_class: Any = {"inline": _InlineRunner, "local": _ForkingRunner}[runner]
    cores = cores or len(os.sched_getaffinity(0))
    engine = runner_class(job_class, num_cores=cores, **_without(job._runner_kwargs()))
    try:
        with engine.progress:
            _run_engine(engine, staging)
        totals = {
            name: amount
            for step in engine.counters()
            for group in step.values()
            for name, amount in group.items()
        }
        parts = sorted(Path(engine.get_output_dir()).glob("part-*"))
        yield JobResult(tuple(parts), totals)
    finally:
        engine.cleanup(mode=["ALL"])


def _run_engine(engine: Any, staging: Path) -> None:
    try:
        engine.run()
    except OSError as error:
        # between tasks mrjob writes and sorts nowhere else
        raise MrDedupError(f"temporary folder {staging}: {_os_reason(error)}") from error


def _without(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key not in ("mrjob_cls", "num_cores")}


class _Progress:
    """A bar over the tasks of a job, on a terminal only."""

    def __init__(self) -> None:
        # drawn at every task, however quick
        self._bar = tqdm(unit=" tasks", disable=None, leave=False, mininterval=0)

    def start(self, phase: str, tasks: int) -> None:
        self._bar.set_description(phase, refresh=False)
        self._bar.reset(total=tasks)

    def step(self) -> None:
        self._bar.update()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()


class _ReportingRunner:
    """What both runners share: a bar over the tasks, and the input each task reads."""

    progress: _Progress
    _phase = "map"

    def _run_mappers_and_combiners(self, step_num: int, map_splits: Any) -> None:
        self._phase = "map"
        super()._run_mappers_and_combiners(step_num, map_splits)  # type: ignore[misc]

    def _run_reducers(self, step_num: int, num_reducer_tasks: int) -> None:
        self._phase = "reduce"
        super()._run_reducers(step_num, num_reducer_tasks)  # type: ignore[misc]

    def _task_name(self, number: int) -> str:
        """Return what an error calls a task of the running phase: with the file it reads."""
        if self._phase == "reduce":
            return f"reduce task {number}"
        manifest_line = Path(self._task_input_path("mapper", 0, number)).read_text()  # type: ignore[attr-defined]
        return f"map task {number} on {_described_input(_input_path(manifest_line))}"


def _input_path(manifest_line: str) -> str:
    """Return the path in a line of mrjob's input manifest, ``offset TAB path``."""
    return manifest_line.rstrip("\n").partition("\t")[2]


def _described_input(path: str) -> str:
    """Return the user's name for a task's input: what a chunk description stands for."""
    try:
        fields = json.loads(Path(path).read_text())
        part = "" if fields["stop"] is None else f" [{fields['start']}:{fields['stop']}]"
        return f"{fields['path']}{part}"
    except (OSError, ValueError, KeyError, TypeError):
        return path


class _InlineRunner(_ReportingRunner, InlineMRJobRunner):  # type: ignore[misc]
    """mrjob's inline runner with our bar."""

    def __init__(self, job_class: type[MRJob], **options: Any) -> None:
        super().__init__(mrjob_cls=job_class, **options)
        self.progress = _Progress()

    def _run_multiple(
        self, funcs: Iterable[Callable[[], None]], num_processes: None = None
    ) -> None:
        tasks = list(funcs)
        self.progress.start(self._phase, len(tasks))
        for number, task in enumerate(tasks):
            try:
                task()
            except MrDedupError:
                raise
            except (OSError, MemoryError) as error:
                reason = _expected_reason(error)
                raise MrDedupError(f"{self._task_name(number)}: {reason}") from error
            self.progress.step()


class _ForkingRunner(_ReportingRunner, LocalMRJobRunner):  # type: ignore[misc]
    """mrjob's local runner with tasks forked from this process, as many at a time as cores.

    Eight tasks over 64 MB each took 5.0 s as new Pythons, 1.5 s as forks of one that has mrjob
    and the compiled kernels in memory already.
    """

    def __init__(self, job_class: type[MRJob], **options: Any) -> None:
        super().__init__(**options)
        self._job_class = job_class
        self.progress = _Progress()

    def _create_setup_wrapper_scripts(self) -> None:
        """Do nothing: no shell stands between us and a task."""

    def _sort_bin(self) -> list[str]:
        """Return the command that sorts between map and reduce, its memory bounded.

        Left to itself it takes what the machine has: 6 GB for a flood of matches.
        """
        return ["sort", "-t", "\t", "-k", "1,1", "-s", "-S", "256M"]

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
        with selectors.DefaultSelector() as finished:
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
                        self._judge(task.number, code, report)
                        self.progress.step()
            finally:
                for task in running.values():
                    task.kill()

    def _judge(self, number: int, code: int, report: dict[str, Any]) -> None:
        """Raise what went wrong in a task that ended, if anything did."""
        if code == 0:
            return
        name = self._task_name(number)
        if code < 0:
            name_of_signal = signal.Signals(-code).name
            hint = "; was memory short?" if -code == signal.SIGKILL else ""
            raise MrDedupError(f"{name}: killed by the system ({name_of_signal}){hint}")
        if report.get("expected"):
            message = str(report["message"])
            raise MrDedupError(message if report.get("names_file") else f"{name}: {message}")
        raise RuntimeError(f"{name}: {report.get('message', f'exit code {code}')}")


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold interrupts back, so that no task is started, or ended, and not known of.

    An interrupt in one of Python's own hooks around a fork would even be printed and forgotten.
    """
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
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
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _run_and_exit(function, writing)
        os.close(writing)
        return cls(number, pid, reading)

    def wait(self) -> tuple[int, dict[str, Any]]:
        """Return the exit code, negative for a signal, and the failure it reported."""
        with os.fdopen(self.report, "rb") as stream:
            text = stream.read(_MAX_REPORT_BYTES)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), json.loads(text or b"{}")

    def kill(self) -> None:
        """End the task now and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


def _run_and_exit(function: Callable[[], None], report: int) -> NoReturn:
    """Run a task in its forked process; report a failure; never return to the parent's code."""
    # Ctrl-C reaches the whole group of processes: the parent ends its tasks itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    code = 1
    try:
        function()
        code = 0
    except BaseException as error:
        message = {
            "expected": isinstance(error, (MrDedupError, OSError, MemoryError)),
            "names_file": isinstance(error, FormatError),
            "message": _expected_reason(error),
        }
        os.write(report, json.dumps(message).encode("ascii")[:_MAX_REPORT_BYTES])
    finally:
        os._exit(code)


def _one_line(error: BaseException) -> str:
    """Return an error as one line; of a bug, where it happened too."""
    if isinstance(error, MrDedupError):
        return str(error)[:2000]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"[:2000]


def _expected_reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory was short; try fewer --cores or a smaller --table-memory"
    return _os_reason(error) if isinstance(error, OSError) else _one_line(error)


def _os_reason(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


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
        path = _input_path(stdin.readline().decode("utf-8", "surrogateescape"))
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
