"""Tables in shards, and lists of these, which are the inputs of jobs that read tables."""

import itertools
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

from mr_dedup.engines.inputs import Input
from mr_dedup.formats.shards import SHARDS_SUFFIX, ShardList, write_shard
from mr_dedup.jobs.contract import Keyed


def shard_inputs(folder: Path, tables: Iterable[Keyed]) -> list[Input]:
    """Write tables with ascending keys to shards of a directory; return an input for each key."""
    keys = []
    for key, of_key in itertools.groupby(tables, itemgetter(0)):
        write_shard(str(folder), key, (table for _, table in of_key))
        keys.append([key])
    return inputs_of(folder, keys)


def inputs_of(folder: Path, keys: Iterable[Iterable[int]]) -> list[Input]:
    """Return an input for the shards of each list of keys, in a directory that has these."""
    lists = folder.with_name(f"{folder.name}-lists")
    lists.mkdir(exist_ok=True)
    inputs = []
    for number, some in enumerate(keys):
        path = lists / f"{number:06}{SHARDS_SUFFIX}"
        ShardList((str(folder),), tuple((0, key) for key in some)).write(path)
        inputs.append(Input(str(path), f"shards {number}"))
    return inputs
