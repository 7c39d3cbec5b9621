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


class Dataset(Protocol):
    """Tables that an engine stores: the inputs of its jobs, and readable by the client."""

    @property
    def size_bytes(self) -> int:
        """About how many bytes the tables have; 0 if there are none."""

    def tables(self) -> Iterator[Keyed]:
        """Yield (key, table) pairs, ascending by key.

        Raises:
            MrDedupError: If stored tables are damaged, or cannot be read.
        """


class Engine(Protocol):
    """Runs jobs."""

    @property
    def tasks(self) -> int:
        """About how many tasks run at a time."""

    def run(self, job: Job, inputs: Sequence[Input] | Dataset) -> AbstractContextManager[JobOutput]:
        """Run ``job`` and yield what it leaves.

        There is a map task for each input, or for each part of a dataset that this engine stores.
        The output is valid until the block ends. Shows progress on a terminal.

        Raises:
            MrDedupError: For every failure of a task that is not a bug; the message names the
                input of the task. Also while tables are read.
        """

    def stored(self, tables: JobOutput | Iterable[Keyed]) -> AbstractContextManager[Dataset]:
        """Store tables, and yield them as the input of further jobs.

        The dataset is valid until the block ends.

        Args:
            tables: What a job of this engine left, which must stay valid meanwhile; or other
                tables with ascending keys: those of a key are the input of one map task.

        Raises:
            MrDedupError: As ``run``, and if there is no space for temporary files.
        """
