"""The signatures job: edges that connect documents which share enough keys.

A map task reads signatures by one method and scatters their keys, each with its node, over
partitions; where more than one key must be shared, each subset of so many is a key. A reduce task
sorts a partition and links each node to the next with the same key: chains, so that a key of a
million documents has a million edges, not their square. The edges are for the components job.

For methods whose candidates need no verification and whose texts have few keys; others are
connected in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.signatures.candidates import key_rows
from mr_dedup.signatures.protocol import Signatures

_PARTITION_SHIFT = np.uint64(32)


class SignaturesJob(Job, frozen=True, kw_only=True):
    """The edges: tables with columns left and right, uint64, without order.

    Counts the ``signatures`` read, and the ``shared_key_links`` between nodes. Inputs are tables
    with the columns node, uint64, and keys, lists of uint64.

    Attributes:
        min_shared_keys: Keys that documents must share.
        partitions: Of the keys; each is a key of the reduce step.
    """

    min_shared_keys: int = 1
    partitions: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for options that are out of range."""
        for name in ("min_shared_keys", "partitions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the keys and nodes of one input, by partition."""
        assert part.tables is not None
        for table in part.tables():
            signatures = _signatures(table)
            counters["signatures"] += len(signatures)
            nodes = table["node"].to_numpy()
            keys, rows = key_rows(signatures, self.min_shared_keys)
            partitions = (keys >> _PARTITION_SHIFT) % np.uint64(self.partitions)
            order = np.argsort(partitions, kind="stable")
            edges = np.searchsorted(partitions[order], np.arange(self.partitions + 1))
            for number in np.unique(partitions).tolist():
                some = order[edges[number] : edges[number + 1]]
                yield number, pa.table({"key": keys[some], "node": nodes[rows[some]]})

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.link_nodes]

    def link_nodes(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the edges between nodes of equal keys."""
        for number, tables in groups:
            table = pa.concat_tables(tables)
            keys, nodes = table["key"].to_numpy(), table["node"].to_numpy()
            # equal keys by node, so that the edges do not depend on how the inputs are split
            order = np.lexsort((nodes, keys))
            keys, nodes = keys[order], nodes[order]
            same = keys[1:] == keys[:-1]
            counters["shared_key_links"] += int(np.count_nonzero(same))
            yield number, pa.table({"left": nodes[:-1][same], "right": nodes[1:][same]})

    def warm_up(self) -> None:
        """Compile and load the kernels."""
        keys = np.arange(2, dtype=np.uint64)
        key_rows(Signatures(np.array([0, 2]), keys, np.empty((1, 0), np.uint8)), 2)


def _signatures(table: pa.Table) -> Signatures:
    lists = table["keys"].combine_chunks()
    offsets = lists.offsets.to_numpy()
    keys = lists.values.to_numpy()[offsets[0] : offsets[-1]]
    return Signatures(offsets - offsets[0], keys, np.empty((len(table), 0), np.uint8))
