"""mrjob's inline runner, all tasks in this process, with our bar and our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mrjob.inline import InlineMRJobRunner
from mrjob.job import MRJob

from mr_dedup.engines.reporting import Progress, task_error
from mr_dedup.engines.streaming.reporting import ReportingRunner
from mr_dedup.errors import MrDedupError


class InlineRunner(ReportingRunner, InlineMRJobRunner):  # type: ignore[misc]
    """See the module."""

    def __init__(self, job_class: type[MRJob], *, num_cores: int, **options: Any) -> None:
        super().__init__(mrjob_cls=job_class, **options)
        self.progress = Progress()
        self.names = {}

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
                raise task_error(self._task_name(number), error) from error
            self.progress.step()
