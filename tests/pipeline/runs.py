"""Runs that leave shards in a directory of this machine, by an engine that a test chooses."""

import contextlib
import itertools
import tempfile
from operator import itemgetter
from pathlib import Path

from mr_dedup.formats.shards import write_shard
from mr_dedup.pipeline.sharded_run import Left, ShardedRun


def run_on(engine, folder, **options):
    """Return a run in a directory; ``options`` are fields of ShardedRun."""

    @contextlib.contextmanager
    def open_engine(name):
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as staging:
            yield engine, Path(staging)

    return ShardedRun(str(folder), folder, (), open_engine, is_here=True, **options)


def left_in(run, name, tables):
    """Write tables with ascending keys as what a job has left in a directory of a run."""
    by_key = itertools.groupby(tables, itemgetter(0))
    shards = [
        write_shard(run.at(name), key, (table for _, table in of_key)) for key, of_key in by_key
    ]
    return Left(run.at(name), shards, {})


def rows_in(left):
    """Return the tables of all shards, in order."""
    return [table for shard in left.shards for table in left.tables(shard.key)]
