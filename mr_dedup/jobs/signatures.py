"""The signatures job: edges that connect documents which share enough keys.

A map task reads rows of documents with their signatures and scatters the keys of one method, each
with its node, over partitions; where more than one key must be shared, each subset of so many is a
key. A reduce task links each node of a partition to the first with the same key: a key of a million
documents has a million edges, not their square. The edges are for the components job.

Of a method whose candidates need verification, or with too many keys for subsets, the documents of
each key are compared with one another instead: then whole signatures are sent with each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.signatures.candidates import (
    candidates,
    connecting_edges,
    count_oversized_keys,
    key_rows,
    match,
)
from mr_dedup.signatures.columns import signatures_in
from mr_dedup.signatures.linking import MAX_MEMBERS
from mr_dedup.signatures.methods import parse_methods
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

_PARTITION_SHIFT = np.uint64(32)


class SignaturesJob(Job, frozen=True, kw_only=True):
    """The edges: tables with columns left and right, uint64, without order.

    Counts the ``signatures`` read and the ``shared_key_links`` between nodes; where documents are
    compared, one for each key that the two share, and the ``oversized_keys``, whose documents are
    compared in slices.

    Inputs are tables of rows in the order of the documents: ``fingerprint``, int64 or uint64, the
    node, null for none, and the columns of signatures.

    Attributes:
        method: The name of the method.
        number: Its number among the methods of the signatures.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        compared: Whether the documents of a key are compared.
        min_shared_keys: Keys that linked documents share; by default those of the method.
        partitions: Of the keys; each is a key of the reduce step.
    """

    side_files = ("keyword_idf",)

    method: str
    number: int = 0
    keyword_idf: str | None = None
    compared: bool = False
    min_shared_keys: int | None = None
    partitions: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for options that are out of range."""
        if self.partitions < 1:
            raise ValueError(f"partitions must be at least 1, not {self.partitions}")

    @cached_property
    def _method(self) -> SignatureMethod:
        (method,) = parse_methods([self.method], read_frequencies(self.keyword_idf))
        return method

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the keys and nodes of one input, by partition."""
        first: dict[int, int] = {}
        for shard, table in part.keyed_tables():
            if "fingerprint" not in table.column_names:
                continue
            row = first.get(shard, 0)
            first[shard] = row + len(table)
            column = one_array(table["fingerprint"])
            known = np.flatnonzero(column.is_valid())
            signatures = self._signatures(table)
            if known.size < len(table):
                signatures = signatures.take(known)
            counters["signatures"] += len(signatures)
            nodes = np.asarray(column.drop_null()).view(np.uint64)
            if self.compared:
                yield from self._with_signatures(signatures, nodes, shard, known + row)
                continue
            keys, rows = key_rows(signatures, self.min_shared_keys or self._method.min_shared_keys)
            for number, some in self._partitioned(keys):
                yield number, pa.table({"key": keys[some], "node": nodes[rows[some]]})

    def _signatures(self, table: pa.Table) -> Signatures:
        return signatures_in(table, [self._method] * (self.number + 1), self.number)

    def _partitioned(self, keys: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield partitions and the indices of their keys."""
        partitions = (keys >> _PARTITION_SHIFT) % np.uint64(self.partitions)
        if self.partitions <= 1 << 16:
            # a radix sort, of so short numbers
            partitions = partitions.astype(np.uint16)
        order = np.argsort(partitions, kind="stable")
        edges = np.append(0, np.cumsum(np.bincount(partitions.astype(np.int64))))
        for number in np.flatnonzero(np.diff(edges)).tolist():
            yield number, order[edges[number] : edges[number + 1]]

    def _with_signatures(
        self,
        signatures: Signatures,
        nodes: NDArray[np.uint64],
        shard: int,
        rows: NDArray[np.int64],
    ) -> Iterator[Keyed]:
        """Yield each key with its document and the whole signature of that, by partition."""
        keys, owners = key_rows(signatures, 1)
        for number, some in self._partitioned(keys):
            of_key = owners[some]
            whole = signatures.take(of_key.astype(np.int64))
            columns = {
                "key": keys[some],
                "node": nodes[of_key],
                "shard": np.full(some.size, shard),
                "row": rows[of_key],
                "keys": pa.LargeListArray.from_arrays(whole.offsets, pa.array(whole.keys)),
                "sketch": pa.array([sketch.tobytes() for sketch in whole.sketches], pa.binary()),
            }
            yield number, pa.table(columns)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions]

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.link_nodes]

    def link_nodes(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the edges between nodes of equal keys."""
        for number, tables in groups:
            table = pa.concat_tables(tables)
            find = self._matching if self.compared else _equal_keys
            for first, second in find(table, counters):
                counters["shared_key_links"] += first.size
                nodes = table["node"].to_numpy()
                left, right = nodes[first], nodes[second]
                new = left != right
                if new.any():
                    yield number, pa.table({"left": left[new], "right": right[new]})

    def _matching(
        self, table: pa.Table, counters: Counters
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows of pairs that match by the whole rule of the method."""
        shards, numbers = table["shard"].to_numpy(), table["row"].to_numpy()
        # in the order of the documents, by which oversized keys are sliced
        order = np.lexsort((numbers, shards))
        ordered = table.take(pa.array(order))
        keys = np.asarray(ordered["key"])
        alone = Signatures(np.arange(keys.size + 1), keys, np.empty((keys.size, 0), np.uint8))
        counters["oversized_keys"] += count_oversized_keys(alone, MAX_MEMBERS)
        lists = one_array(ordered["keys"])
        sketches = np.frombuffer(b"".join(ordered["sketch"].to_pylist()), np.uint8)
        offsets = lists.offsets.to_numpy()
        whole = Signatures(
            offsets - offsets[0],
            lists.values.to_numpy()[offsets[0] : offsets[-1]],
            sketches.reshape(keys.size, -1),
        )
        for first, second in candidates(alone, 1, MAX_MEMBERS):
            found = match(self._method, whole, first, second)
            yield order[first[found]], order[second[found]]


def _equal_keys(
    table: pa.Table, counters: Counters
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield edges from rows to the first one with the same key."""
    keys = np.asarray(table["key"])
    sketches = np.empty((keys.size, 0), np.uint8)
    yield from connecting_edges(Signatures(np.arange(keys.size + 1), keys, sketches), 1)
