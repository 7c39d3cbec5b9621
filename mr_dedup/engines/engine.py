"""What all engines do: run a job over inputs, and yield its result as tables by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mr_dedup.engines.inputs import Input
from mr_dedup.jobs.contract import Counters, Job, Keyed


@dataclass(frozen=True)
class JobOutput:
    """What a job leaves.

    Attributes:
        tables: (key, table) pairs, to be read once; ascending by key if the last step of the job
            yields them so, and those of one key in the order in which its task yielded them.
        counters: The sums of all counters, complete once ``tables`` have been read.
        parts: The files of a job that left lines on this machine.
    """

    tables: Iterable[Keyed]
    counters: Counters = field(default_factory=Counters)
    parts: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[Keyed]:
        return iter(self.tables)


class Engine(Protocol):
    """Runs jobs."""

    @property
    def tasks(self) -> int:
        """About how many tasks run at a time."""

    def run(self, job: Job, inputs: Sequence[Input]) -> AbstractContextManager[JobOutput]:
        """Run ``job`` and yield what it leaves.

        There is a map task for each input. The output is valid until the block ends. Shows progress
        on a terminal.

        Raises:
            MrDedupError: For every failure of a task that is not a bug; the message names the
                input of the task. Also while tables are read.
        """
