"""Tasks on threads, whose tables are taken in the order of the tasks while they run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mr_dedup.engines.reporting import task_error
from mr_dedup.jobs.contract import Counters, Keyed

Task = Callable[[Counters], Iterator[Keyed]]
"""A task: a function that yields tables, and adds to counters."""

_MAX_AHEAD = 2
"""Tasks for each thread that are started before the first one has ended."""


class OrderedTasks:
    """Runs tasks on threads; a context manager, which ends running tasks at their next table.

    Tasks run ahead of what is taken, until the tables that wait to be taken have ``buffer_bytes``.
    Then they pause, but for the table that is taken next.

    Args:
        threads: Tasks at a time. One task at a time runs in the thread that takes its tables, and
            no table waits.
        buffer_bytes: Bytes of tables that wait to be taken. A table may exceed them.
    """

    def __init__(self, threads: int, buffer_bytes: int) -> None:
        self._ahead = _MAX_AHEAD * threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._free_bytes = buffer_bytes
        self._changed = threading.Condition()
        self._is_stopped = False

    def __enter__(self) -> OrderedTasks:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, tasks: Sequence[tuple[str, Task]], completed: Callable[[Counters], None]
    ) -> Iterator[Keyed]:
        """Yield the tables of named tasks, in the order of the tasks.

        Args:
            tasks: The tasks, with the names that errors have.
            completed: Called with the counters of each task when its tables have been taken.

        Raises:
            MrDedupError: If a task fails for a reason that is not a bug; the message names it.
        """
        if self._pool is None:
            for name, task in tasks:
                counters = Counters()
                yield from _named(name, task(counters))
                completed(counters)
            return
        started: deque[_Running] = deque()
        waiting = deque(tasks)
        while started or waiting:
            while waiting and len(started) <= self._ahead:
                started.append(_Running())
                started[-1].future = self._pool.submit(self._run, *waiting.popleft(), started[-1])
            yield from self._tables_of(started[0])
            completed(started.popleft().future.result())

    def _tables_of(self, first: _Running) -> Iterator[Keyed]:
        """Yield the tables of the first running task."""
        with self._changed:
            first.is_first = True
            self._changed.notify_all()
        while True:
            with self._changed:
                while not (first.tables or first.is_done):
                    self._changed.wait()
                if not first.tables:
                    return
                keyed, size = first.tables.popleft()
                self._free_bytes += size
                self._changed.notify_all()
            yield keyed

    def _run(self, name: str, task: Task, running: _Running) -> Counters:
        """Run a task to its end, or until it is stopped."""
        counters = Counters()
        try:
            for keyed in _named(name, task(counters)):
                # not with the lock: of many columns it takes a while
                size = keyed[1].nbytes
                with self._changed:
                    while self._must_wait(running):
                        self._changed.wait()
                    if self._is_stopped:
                        break
                    running.tables.append((keyed, size))
                    self._free_bytes -= size
                    self._changed.notify_all()
            return counters
        finally:
            with self._changed:
                running.is_done = True
                self._changed.notify_all()

    def _must_wait(self, running: _Running) -> bool:
        """Return whether a task may not add a table: there is no room, unless it is read next."""
        is_read_next = running.is_first and not running.tables
        return self._free_bytes <= 0 and not is_read_next and not self._is_stopped


class _Running:
    """A task that was started, and its tables that wait to be taken, with their bytes."""

    future: Future[Counters]

    def __init__(self) -> None:
        self.tables: deque[tuple[Keyed, int]] = deque()
        self.is_first = False
        self.is_done = False


def _named(name: str, tables: Iterator[Keyed]) -> Iterator[Keyed]:
    """Yield the tables of a task; raises MrDedupError that names it for what is not a bug."""
    try:
        yield from tables
    except (OSError, MemoryError) as error:
        raise task_error(name, error) from error
