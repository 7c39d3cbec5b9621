"""The signatures job: which documents share enough keys, keys dealt over reducers.

A map task reads a file of signatures by one method, Parquet with the column ``node``, and hands on
each key with its node to the partition of the key; where more than one key is to be shared, each
subset of so many stands for one. A reducer sorts a partition, and links each node to the next with
the same key: chains, so that a key of a million documents is a million links. What it leaves are
edges, as batches, for the components job.

For methods without a check of their own, whose texts have few enough keys; others are joined in
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.jobs.batches import (
    BatchProtocol,
    Kind,
    decode_columns,
    encode_columns,
)
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import Job, errors_naming

if TYPE_CHECKING:
    from mr_dedup.signatures.protocol import Signatures

NODE, KEYS = "node", "keys 0"

_ROWS_AT_ONCE = 1 << 16
_PARTITION_SHIFT = np.uint64(32)


class SignaturesJob(Job):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add = self.add_passthru_arg
        add("--least", type=int, default=1, help="keys that neighbours share (1)")
        add("--partitions", type=int, default=1, help="reduce keys (1)")

    def check_options(self) -> None:
        """Raise ValueError for options that cannot be."""
        for name in ("least", "partitions"):
            if getattr(self.options, name) < 1:
                raise ValueError(f"--{name} must be at least 1, not {getattr(self.options, name)}")

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_signatures, reducer=self.reduce_partition)]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.signatures.candidates import key_rows
        from mr_dedup.signatures.protocol import Signatures

        keys = np.arange(2, dtype=np.uint64)
        key_rows(Signatures(np.array([0, 2]), keys, np.empty((1, 0), np.uint8)), 2)

    def map_signatures(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield keys and nodes of one file for each partition, as batches."""
        from mr_dedup.signatures.candidates import key_rows

        read = 0
        with errors_naming(input_name(uri), path):
            for nodes, signatures in _read(Path(path)):
                read += len(signatures)
                keys, rows = key_rows(signatures, self.options.least)
                parts = (keys >> _PARTITION_SHIFT) % np.uint64(self.options.partitions)
                order = np.argsort(parts, kind="stable")
                edges = np.searchsorted(parts[order], np.arange(self.options.partitions + 1))
                for part in np.unique(parts).tolist():
                    these = order[edges[part] : edges[part + 1]]
                    for batch in encode_columns(Kind.KEYS, [keys[these], nodes[rows[these]]]):
                        yield part, batch
        self.count(signatures=read)

    def reduce_partition(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the edges between nodes of equal keys."""
        columns = [decode_columns(Kind.KEYS, batch, 2) for batch in batches]
        keys, nodes = (np.concatenate(column) for column in zip(*columns, strict=True))
        # of equal keys by node, so that the edges are the same whatever the splits
        order = np.lexsort((nodes, keys))
        keys, nodes = keys[order], nodes[order]
        same = keys[1:] == keys[:-1]
        left, right = nodes[:-1][same], nodes[1:][same]
        for batch in encode_columns(Kind.MATCHES, [left, right]):
            yield key, batch
        self.count(links=int(left.size))


def write_signatures(path: Path, nodes: NDArray[np.uint64], keys: pa.LargeListArray) -> None:
    """Write the keys of documents, and the fingerprints that are their nodes, as the job reads."""
    table = pa.table({NODE: nodes, KEYS: keys})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)


def _read(path: Path) -> Iterator[tuple[NDArray[np.uint64], Signatures]]:
    """Yield nodes and signatures of a file; raises FormatError where it is damaged."""
    from mr_dedup.signatures.protocol import Signatures

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[NODE, KEYS]):
                lists = batch.column(KEYS)
                offsets = lists.offsets.to_numpy()
                keys = lists.values.to_numpy()[offsets[0] : offsets[-1]]
                none = np.empty((len(batch), 0), np.uint8)
                yield (
                    batch.column(NODE).to_numpy(),
                    Signatures(offsets - offsets[0], keys, none),
                )
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError) as error:
        raise FormatError(path, None, f"holds no signatures: {error}") from error


if __name__ == "__main__":
    SignaturesJob.run()
