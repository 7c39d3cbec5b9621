"""The contract of jobs: typed options, a map over the parts of an input, and reduces over keys.

Jobs and engines are independent of each other. Between tasks go Arrow tables, each under a key, an
int from 0. An engine passes them on as objects or as bytes, whichever it needs; what a job returns
does not depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from mr_dedup.formats.documents.hadoop_lines import HadoopSplit
from mr_dedup.jobs.part_cache import PartCache
from mr_dedup.storage.scratch import OpenScratch

Keyed = tuple[int, pa.Table]
"""What tasks yield: a table under a key."""

Group = tuple[int, Iterator[pa.Table]]
"""A key, and all tables under it. They are to be read before the next group is."""

Counters = Counter[str]
"""Counts by name. A task adds to its own; engines add up those of all tasks and steps."""

Reduce = Callable[[Iterator[Group], Counters], Iterator[Keyed]]
"""A reduce task: takes groups with ascending keys, yields tables under new keys.

The groups of a step are divided among tasks, each group whole. What a task yields for a group may
depend on no other group, but for the size of the tables that it is cut into.
"""


@dataclass(frozen=True)
class TaskInput:
    """What one map task reads.

    Attributes:
        path: A local file: the input itself, a copy of it, or the description of a chunk.
        name: What the user calls it, for errors.
        number: The index of the input among those of the job.
        lines: The range of a file whose lines come by standard input; None if the task reads
            ``path``.
        cache: What this process keeps of its parts from job to job; None in other processes.
        scratch: Where copies of remote files go; None if the task reads none.
        next_path: The path of the input that the same process reads next, if it is known.
        tables: Where the task reads tables that the engine stores: a function that yields them.
    """

    path: Path
    name: str
    number: int = 0
    lines: HadoopSplit | None = None
    cache: PartCache | None = None
    scratch: OpenScratch | None = None
    next_path: Path | None = None
    tables: Callable[[], Iterator[pa.Table]] | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A computation in a map step and any number of reduce steps; its fields are its options.

    Subclasses validate in ``__post_init__``, raising ValueError or MrDedupError. The fields are
    of types that msgspec encodes as JSON, which is how options reach tasks of other processes.
    """

    side_files: ClassVar[tuple[str, ...]] = ()
    """The fields that are paths of files which every task reads; None where there is no file."""

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield tables of one input, each under the key of the group that it belongs to.

        Without a reduce step the keys order the result.
        """
        raise NotImplementedError

    def reduces(self) -> Sequence[Reduce]:
        """Return the reduce steps, in order: each gets what the step before yielded."""
        return ()

    def warm_up(self) -> None:
        """Compile and load what tasks need: called once, before tasks are forked."""

    def lines(self, table: pa.Table) -> bytes:
        """Return a table of the result as lines of text."""
        raise NotImplementedError
