"""The contract of jobs: typed options, a map over the parts of an input, and reduces over keys.

Jobs and engines are independent of each other. Between tasks go Arrow tables, each under a key, an
int from 0. An engine passes them on as objects or as bytes, whichever it needs; what a job returns
does not depend on it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.formats.documents.hadoop_lines import HadoopSplit
from mr_dedup.formats.shards import SHARDS_SUFFIX, ShardList, write_shard
from mr_dedup.jobs.part_cache import Cache
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
        extraction: What extracts texts of HTML for all tasks of this process; None if each has
            its own.
    """

    path: Path
    name: str
    number: int = 0
    lines: HadoopSplit | None = None
    cache: Cache | None = None
    scratch: OpenScratch | None = None
    next_path: Path | None = None
    extraction: Extraction | None = None

    @property
    def has_tables(self) -> bool:
        """Whether the task reads tables that jobs have left in shards."""
        return self.path.name.endswith(SHARDS_SUFFIX)

    def keyed_tables(self) -> Iterator[Keyed]:
        """Yield the tables of a task that reads shards, each with the key of its shard."""
        if not self.has_tables:
            raise ValueError(f"{self.name}: expected tables")
        yield from ShardList.read(self.path).tables()


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A computation in a map step and any number of reduce steps; its fields are its options.

    Subclasses validate in ``__post_init__``, raising ValueError or MrDedupError. The fields are
    of types that msgspec encodes as JSON, which is how options reach tasks of other processes.

    Attributes:
        shards: A directory, a path or URI, where the tasks of the last step write what they yield,
            a shard for each key; the result of the job is then a row for each shard. The tables
            of a key must come from one task.
    """

    shards: str | None = None

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

    def max_keys(self) -> Sequence[int | None]:
        """Return about how many keys each reduce step has at most; None where it is not known.

        An engine needs no more tasks than that.
        """
        return [None for _ in self.reduces()]

    def map_task(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Return what a map task of an engine yields: of ``map``, or rows of its shards."""
        tables = self.map(part, counters)
        return tables if self.shards is None or self.reduces() else _written(tables, self.shards)

    def reduce_tasks(self) -> Sequence[Reduce]:
        """Return the reduce steps that an engine runs: the last one may write shards."""
        reduces = list(self.reduces())
        if self.shards is not None and reduces:
            last, folder = reduces[-1], self.shards
            reduces[-1] = lambda groups, counters: _written(last(groups, counters), folder)
        return reduces

    def lines(self, table: pa.Table) -> bytes:
        """Return a table of the result as lines of text."""
        raise NotImplementedError


def _written(tables: Iterator[Keyed], folder: str) -> Iterator[Keyed]:
    """Write tables to shards, one for each key; yield a row for each."""
    for key, of_key in itertools.groupby(tables, itemgetter(0)):
        shard = write_shard(folder, key, (table for _, table in of_key))
        yield key, pa.table({"rows": [shard.rows], "size_bytes": [shard.size_bytes]})
