"""What jobs over documents share: their options, how a task reads its input, what it rejects."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.documents.chunks import (
    BUNDLE_SUFFIX,
    DocumentChunk,
    unbundle,
)
from mr_dedup.formats.documents.files import DocumentFile, DocumentFormat, DocumentPart
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.batches import Kind, encode_bytes
from mr_dedup.jobs.document_options import (
    add_feature_options,
    add_reading_options,
    document_frequencies,
    feature_options,
    read_options,
)
from mr_dedup.jobs.inputs import LINES, input_name, input_order, lines_of_part
from mr_dedup.jobs.job import COUNTERS, Job

if TYPE_CHECKING:
    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.formats.documents.batch import DocumentBatch
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.jobs.held_sets import HeldSets

REJECTED = "rejected records"
"""The counter of records that could not be read."""

PASSED_OVER = "passed over: "
"""How the counters of sound records that are no documents begin; the reason follows."""

_SPOOLED_BYTES = 1 << 20
_REJECTS_BYTES = 4 << 20


class DocumentJob(Job):
    """A job whose map tasks read documents: a chunk of them, or a file."""

    weighs_features = True
    """Whether it makes a difference to the job what features weigh."""

    held: HeldSets | None = None
    """Where jobs of one process leave what the next one needs not read again."""

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add_reading_options(self.add_passthru_arg)
        add_feature_options(self.add_passthru_arg, self.add_file_arg, weights=self.weighs_features)

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        self.read_options()
        self.feature_options()

    def check_inputs(self) -> None:
        """Raise MrDedupError for inputs that cannot be."""
        if not self.options.args or "-" in self.options.args:
            # mrjob would copy it to a file whose name says nothing
            raise MrDedupError("no files of documents; mr-dedup reads them from standard input")

    def read_options(self) -> ReadOptions:
        """Return how documents are to be read."""
        return read_options(self.options)

    def feature_options(self) -> FeatureOptions:
        """Return which features texts have."""
        return feature_options(self.options)

    def document_frequencies(self) -> DocumentFrequencies | None:
        """Return what texts are weighed by besides their own features; None if by nothing."""
        return document_frequencies(self.options)

    def chunk(self, path: str, uri: str) -> DocumentChunk:
        """Return what a task is to read, by the arguments of a ``mapper_raw``.

        On a cluster it is an input as it is, a bundle of several, or the lines of a part of one,
        which come by standard input.
        """
        return document_chunk(path, uri, self.options.format)


def document_chunk(path: str, uri: str, format: DocumentFormat | None) -> DocumentChunk:
    """Return what a task is to read, of files of ``format``; see ``DocumentJob.chunk``."""
    if path.endswith(DESCRIPTION_SUFFIX):
        return DocumentChunk.read(Path(path))
    if path == LINES:
        lines = lines_of_part(uri)
        part = DocumentPart(DocumentFile(None, input_name(uri), "jsonl"), split=lines)
        return DocumentChunk(input_order(lines.start), (part,))
    if path.endswith(BUNDLE_SUFFIX):
        return DocumentChunk(input_order(), unbundle(Path(path), Path.cwd() / "unpacked").parts)
    file = DocumentFile.detect(path, name=input_name(uri), format=format)
    return DocumentChunk(input_order(), (file.whole(),))


class TaskRejects:
    """The rejected records of one task, on their way to the client.

    ``taker`` takes them; those beyond a megabyte go to a temporary file.
    """

    def __init__(self) -> None:
        from mr_dedup.formats.documents.rejects import Rejects

        kept = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115 (__exit__ closes it)
        self._kept: BinaryIO = kept  # type: ignore[assignment]
        self.taker: Rejects = Rejects(self._kept)

    def __enter__(self) -> TaskRejects:
        return self

    def __exit__(self, *exception: object) -> None:
        self._kept.close()

    def batches(self) -> Iterator[bytes]:
        """Yield the rejected records as batches of lines of JSON."""
        self._kept.seek(0)
        while lines := self._kept.readlines(_REJECTS_BYTES):
            yield encode_bytes(Kind.REJECTS, len(lines), b"".join(lines))


class TaskReading:
    """The documents of a chunk as one task reads them, and what it has to tell of them.

    ``batches`` yields the documents; ``rejects`` afterwards the rejected records, and ``count``
    tells how many there were. In memory: a batch; rejects beyond a megabyte go to a temporary file.
    """

    def __init__(self, job: DocumentJob, chunk: DocumentChunk) -> None:
        self.documents = self.text_bytes = 0
        self._job = job
        self._chunk = chunk
        self._rejects = TaskRejects()
        self._passed_over: Counter[str] = Counter()

    def __enter__(self) -> TaskReading:
        return self

    def __exit__(self, *exception: object) -> None:
        self._rejects.__exit__()

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield the documents; raises as ``read_documents``."""
        from mr_dedup.formats.documents.read import read_documents

        taker = self._rejects.taker
        for batch in read_documents(self._chunk.parts, taker, self._job.read_options()):
            self.documents += len(batch)
            self.text_bytes += batch.texts.nbytes
            yield batch
        self._passed_over = Counter(taker.skipped)

    def rejects(self) -> Iterator[bytes]:
        """Yield the rejected records as batches of lines of JSON, once ``batches`` has ended."""
        return self._rejects.batches()

    def count(self) -> None:
        """Tell the job's counters."""
        counts = {"documents": self.documents, "bytes of text": self.text_bytes}
        counts[REJECTED] = self._rejects.taker.counts.rejected
        counts |= {PASSED_OVER + why: amount for why, amount in self._passed_over.items()}
        for name, amount in counts.items():
            self._job.increment_counter(COUNTERS, name, amount)
