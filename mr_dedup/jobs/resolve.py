"""The resolve job: of each cluster of documents, which are kept, and for whom the others go.

A map task reads a chunk of documents again, and hands on those that are in a cluster: what their
keeper is chosen by, and the shingles of their texts, once for each text. Reduce: clusters are
resolved, some whole ones together. Documents that are in no cluster are not mentioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.batches import BatchProtocol
from mr_dedup.jobs.document_options import read_options
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.fingerprint import decode_documents, encode_documents
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, errors_naming

if TYPE_CHECKING:
    from mr_dedup.clusters.documents import ClusteredDocuments
    from mr_dedup.clusters.keepers import KeepPolicy
    from mr_dedup.clusters.verification import ShingleSets
    from mr_dedup.features.shingles import FeatureOptions
    from mr_dedup.formats.documents.batch import DocumentBatch

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads labels over reduce keys: near-duplicates share their leading bits."""

UNVERIFIED = "off"


class ResolveJob(DocumentJob):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg("--labels", help="the clusters' fingerprints (required)")
        add = self.add_passthru_arg
        add("--keep", action="append", metavar="POLICY", help="whom to keep of a cluster (first)")
        add("--verify", default="0.8", metavar="J", help="least similarity to a keeper, or off")
        add("--shingles", default="words:3", help="what texts are compared by (words:3)")
        add("--reduce-keys", type=int, default=1, help="groups of clusters resolved together")

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        self.policy()
        self.threshold()
        self.shingles()
        if not self.options.labels:
            raise ValueError("--labels is required")
        if self.options.reduce_keys < 1:
            raise ValueError(f"--reduce-keys must be at least 1, not {self.options.reduce_keys}")

    def read_options(self) -> ReadOptions:
        """Return how documents are to be read."""
        return read_options(self.options, self.policy().fields)

    def policy(self) -> KeepPolicy:
        """Return whom to keep."""
        from mr_dedup.clusters.keepers import KeepPolicy

        return KeepPolicy.parse(self.options.keep or ["first"])

    def threshold(self) -> float | None:
        """Return the least similarity to a keeper; None if texts are not compared."""
        if self.options.verify == UNVERIFIED:
            return None
        threshold = float(self.options.verify)
        if not 0 < threshold <= 1:
            raise ValueError(f"--verify must be above 0 and at most 1, or off, not {threshold}")
        return threshold

    def shingles(self) -> FeatureOptions:
        """Return what texts are compared by."""
        from mr_dedup.features.shingles import FeatureOptions

        return FeatureOptions.parse(self.options.shingles, "binary")

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_documents, reducer=self.reduce_clusters)]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.clusters.decisions import warm_up
        from mr_dedup.features.shingles import FeatureOptions
        from mr_dedup.fingerprints.simhash import simhash

        simhash(pa.array(["a text"], pa.large_string()), FeatureOptions())
        warm_up()

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield the clustered documents of one chunk, keyed by their clusters."""
        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        labels = Labels.read(Path(self.options.labels))
        rows = 0
        seen: set[bytes] = set()
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                table = self._clustered(batch, labels, seen)
                if len(table):
                    table = table.append_column("chunk", pa.array([chunk.number] * len(table)))
                    places = table["row"].to_numpy() + rows
                    table = table.set_column(
                        table.column_names.index("row"), "row", pa.array(places)
                    )
                    yield from _keyed(table, self.options.reduce_keys)
                rows += len(batch)

    def _clustered(self, batch: DocumentBatch, labels: Labels, seen: set[bytes]) -> pa.Table:
        """Return the documents that are in a cluster; shingles only of texts not ``seen`` yet."""
        from mr_dedup.clusters.verification import shingle_sets, text_hashes
        from mr_dedup.fingerprints.simhash import simhash

        frequencies = self.document_frequencies()
        fingerprints = simhash(batch.texts, self.feature_options(), frequencies)
        label, known = labels.of(fingerprints.values)
        rows = np.flatnonzero(known & fingerprints.exist)
        texts = batch.texts.take(pa.array(rows))
        offsets, _ = batch.text_bytes()
        columns: dict[str, Any] = {
            "id": batch.ids.take(pa.array(rows)),
            "row": rows,
            "length": np.diff(offsets)[rows],
            "label": label[rows],
            "fingerprint": fingerprints.values[rows],
        }
        for name in self.policy().fields:
            assert batch.fields is not None
            columns[f"field {name}"] = batch.fields[name].take(pa.array(rows))
        if self.threshold() is not None:
            hashes = text_hashes(texts)
            fresh = np.zeros(len(rows), bool)
            for i, digest in enumerate(map(bytes, hashes)):
                fresh[i] = digest not in seen
                seen.add(digest)
            sets = shingle_sets(texts.filter(pa.array(fresh)), self.shingles())
            columns |= {"text a": hashes[:, 0], "text b": hashes[:, 1]}
            columns |= _columns_of_sets(sets, fresh)
        return pa.table(columns)

    def reduce_clusters(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the decisions on the documents of some clusters."""
        from mr_dedup.clusters.decisions import resolve

        table = pa.concat_tables([decode_documents(batch) for batch in batches])
        documents, sets = _documents(table, self.policy().fields, self.threshold() is not None)
        order = self.policy().rank(documents).order
        decisions = resolve(documents, order, sets, self.threshold())
        result = pa.table(
            {
                "chunk": table["chunk"],
                "row": table["row"],
                "cluster": documents.clusters,
                "keeper": documents.ids.take(pa.array(decisions.keepers)),
                "keeper chunk": documents.files[decisions.keepers],
                "keeper row": documents.places[decisions.keepers],
                "distance": decisions.distances,
                "similarity": decisions.similarities,
                "reason": decisions.reasons,
            }
        )
        yield key, encode_documents(result)
        self.increment_counter(COUNTERS, "documents resolved", len(decisions))


class Labels:
    """The fingerprints that are in clusters of several documents, and their clusters."""

    def __init__(self, fingerprints: NDArray[np.uint64], labels: NDArray[np.uint64]) -> None:
        """Take aligned arrays; ``fingerprints`` strictly ascending."""
        self.fingerprints = fingerprints
        self.labels = labels

    @classmethod
    def read(cls, path: Path) -> Labels:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = pq.read_table(path, page_checksum_verification=True)
            return cls(table["fingerprint"].to_numpy(), table["label"].to_numpy())
        except (pa.ArrowException, OSError, KeyError) as error:
            raise FormatError(path, None, f"holds no labels: {error}") from error

    def write(self, path: Path) -> None:
        """Write them to ``path``, Parquet with checksums."""
        table = pa.table({"fingerprint": self.fingerprints, "label": self.labels})
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)

    def of(self, fingerprints: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the label of each of ``fingerprints``, and whether there is one."""
        if not self.fingerprints.size:
            return np.zeros(fingerprints.size, np.uint64), np.zeros(fingerprints.size, bool)
        places = self.fingerprints.searchsorted(fingerprints)
        places[places == self.fingerprints.size] = 0
        return self.labels[places], self.fingerprints[places] == fingerprints


def _keyed(table: pa.Table, keys: int) -> Iterator[tuple[int, bytes]]:
    """Yield rows by the reduce key of their labels."""
    key = ((table["label"].to_numpy() * _MIXER) >> np.uint64(32)) % np.uint64(keys)
    for value in np.unique(key).tolist():
        yield value, encode_documents(table.filter(pa.array(key == value)))


def _columns_of_sets(sets: ShingleSets, fresh: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Return the sets of the documents that are ``fresh`` as columns, null for the others."""
    sizes = np.zeros(fresh.size, np.int64)
    sizes[fresh] = sets.sizes
    held = np.zeros(fresh.size, np.int64)
    held[fresh] = np.diff(sets.offsets)
    offsets = np.append(0, held.cumsum())
    shingles = pa.LargeListArray.from_arrays(
        pa.array(offsets), pa.array(sets.hashes), mask=pa.array(~fresh)
    )
    return {"shingle count": pa.array(sizes, mask=~fresh), "shingles": shingles}


def _documents(
    table: pa.Table, fields: Iterable[str], verified: bool
) -> tuple[ClusteredDocuments, ShingleSets | None]:
    """Return documents as clusters/ takes them, and the sets of their distinct texts."""
    from mr_dedup.clusters.documents import ClusteredDocuments

    texts, sets = _texts(table) if verified else (None, None)
    columns = {name: table[f"field {name}"] for name in fields}
    documents = ClusteredDocuments(
        ids=_whole(table["id"]),
        files=table["chunk"].to_numpy(),
        places=table["row"].to_numpy(),
        text_bytes=table["length"].to_numpy(),
        clusters=table["label"].to_numpy(),
        fingerprints=table["fingerprint"].to_numpy(),
        exist=np.ones(len(table), bool),
        texts=texts,
        fields=pa.table(columns) if columns else None,
    )
    return documents, sets


def _texts(table: pa.Table) -> tuple[NDArray[np.int64], ShingleSets]:
    """Return the number of each document's text, and the set of each text."""
    from mr_dedup.clusters.verification import MOST_SHINGLES, ShingleSets, number_texts

    hashes = np.stack([table["text a"].to_numpy(), table["text b"].to_numpy()], axis=1)
    numbers, firsts = number_texts(hashes)
    # a text has a set from every task that met it: one will do
    has_set = table["shingles"].is_valid().to_numpy()
    rows = np.flatnonzero(has_set)
    chosen = np.zeros(firsts.size, np.int64)
    chosen[numbers[rows]] = rows
    lists = _whole(table["shingles"].take(pa.array(chosen)))
    sizes = table["shingle count"].take(pa.array(chosen)).to_numpy()
    held = np.asarray(lists.value_lengths())
    offsets = np.append(0, held.cumsum())
    hashes_of_sets = np.asarray(lists.flatten())
    return numbers, ShingleSets(offsets, sizes, hashes_of_sets, MOST_SHINGLES)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


if __name__ == "__main__":
    ResolveJob.run()
