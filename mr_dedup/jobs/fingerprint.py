"""The fingerprint job: documents to their simhashes (paper section 2), computed in the cluster.

A map task reads one chunk of documents; nothing is to be reduced. Run by a command its output are
batches, in the order of the documents; run alone it prints a line a document that has a
fingerprint, ``fingerprint TAB id``:
python -m mr_dedup.jobs.fingerprint -r local pages.jsonl.gz
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from mrjob.step import MRStep

from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.batches import Batch, BatchProtocol, LinesProtocol
from mr_dedup.jobs.document_options import read_options
from mr_dedup.jobs.document_tables import DocumentTable
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import errors_naming

if TYPE_CHECKING:
    from mr_dedup.clusters.verification import ShingleSets
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.fingerprints.simhash import Fingerprints
    from mr_dedup.formats.documents.batch import DocumentBatch
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.jobs.signing import Signing
    from mr_dedup.signatures.protocol import SignatureMethod

COLUMNS = ("id", "fingerprint", "length", "file", "place", "chunk")
"""The columns of rows of documents, before the fields that are kept."""


class FingerprintJob(DocumentJob):
    """See the module."""

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add = self.add_passthru_arg
        add("--keep-field", action="append", metavar="NAME", help="hand this field on")
        add("--as-batches", action="store_true", help="write batches for mr_dedup, not lines")
        add("--method", action="append", metavar="NAME",
            help="in batches, signatures by this method as well")  # fmt: skip
        self.add_file_arg("--keyword-idf", metavar="FILE", help="what its keywords weigh by")

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        check_kept(self.options.keep_field or ())
        self.methods()

    def methods(self) -> list[SignatureMethod]:
        """Return the methods by which signatures are made."""
        if not self.options.method:
            return []
        from mr_dedup.jobs.method_options import methods_of

        return methods_of(self.options)

    def output_protocol(self) -> BatchProtocol | LinesProtocol:
        """Return the protocol of what the job writes."""
        return BatchProtocol() if self.options.as_batches else LinesProtocol()

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_documents)]

    def read_options(self) -> ReadOptions:
        """Return how documents are to be read."""
        held = self.held.fields if self.held is not None else ()
        return read_options(self.options, [*{*(self.options.keep_field or ()), *held}])

    @staticmethod
    def warm_up(
        options: FeatureOptions | None = None, frequencies: DocumentFrequencies | None = None
    ) -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.features.options import FeatureOptions
        from mr_dedup.fingerprints.simhash import simhash

        texts = pa.array(["a text"], pa.large_string())
        simhash(texts, options or FeatureOptions(), frequencies)

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int | None, Batch]]:
        """Yield the fingerprints of one chunk, as batches with the chunk's number, or as lines."""
        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        sign = self._signing()
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                fingerprints, signatures, sets = sign(batch.texts)
                if sets is not None:
                    self._hold(chunk, batch, sets)
                if self.options.as_batches:
                    table = table_of(batch, fingerprints, self.options.keep_field or ())
                    for name, column in signatures.items():
                        table = table.append_column(name, column)
                    yield chunk.number, DocumentTable(table)
                else:
                    yield None, format_lines(batch.ids, fingerprints)
            if self.options.as_batches:
                for rejects in reading.rejects():
                    yield chunk.number, rejects
        reading.count()

    def _signing(self) -> Signing:
        """Return what makes all that is to be made of some texts."""
        from mr_dedup.fingerprints.simhash import simhash

        options, frequencies = self.feature_options(), self.document_frequencies()
        methods = self.methods()
        if methods or self.held is not None:
            from mr_dedup.jobs.signing import signing

            shingles = None if self.held is None else self.held.shingles
            return signing(options, frequencies, methods, shingles)
        return lambda texts: (simhash(texts, options, frequencies), {}, None)

    def _hold(self, chunk: DocumentChunk, batch: DocumentBatch, sets: ShingleSets) -> None:
        from mr_dedup.jobs.held_sets import HeldBatchOfSets

        assert self.held is not None
        held = self.held.chunks.setdefault(chunk.number, [])
        held.append(HeldBatchOfSets.of(batch, sets))
        files = [part.file for part in chunk.parts]
        # names are made printable, and two may become one
        known = len({file.name for file in files}) == len({file.path for file in files})
        if known and all(file.format == "jsonl" for file in files):
            places = self.held.places.setdefault(chunk.number, [])
            places.append((batch.files, batch.offsets))


def check_kept(fields: Sequence[str], option: str = "--keep-field") -> None:
    """Raise ValueError for a field that is called as a column which is written anyway."""
    for name in fields:
        if name in COLUMNS:
            raise ValueError(f"{option}: {name} is the name of a column that is written")


def table_of(
    batch: DocumentBatch, fingerprints: Fingerprints, fields: Sequence[str] = ()
) -> pa.Table:
    """Return documents as rows without their texts.

    Columns ``id``, ``fingerprint`` (int64, null where there is none), ``length`` (int64, bytes of
    text), ``file`` and ``place`` as in DocumentBatch, then ``fields`` of it, of other names.
    """
    offsets, _ = batch.text_bytes()
    columns = {
        "id": batch.ids,
        "fingerprint": pa.array(
            fingerprints.values.view(np.int64), mask=~fingerprints.has_fingerprint
        ),
        "length": pa.array(np.diff(offsets)),
        "file": batch.files,
        "place": pa.array(batch.offsets),
    }
    table = pa.table(columns)
    for name in fields:
        assert batch.fields is not None
        table = table.append_column(name, batch.fields[name])
    return table


def format_lines(ids: pa.LargeStringArray, fingerprints: Fingerprints) -> bytes:
    """Return ``fingerprint TAB id`` a line for the documents that have one, signed decimals."""
    from mr_dedup.formats import text

    lines = io.BytesIO()
    exist = fingerprints.has_fingerprint
    text.write_identified(lines, "output", fingerprints.values[exist], ids.filter(pa.array(exist)))
    return lines.getvalue()


if __name__ == "__main__":
    FingerprintJob.run()
