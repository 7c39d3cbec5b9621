"""Read documents the way a user would, into plain Python."""

import contextlib
import gzip
import os
import tempfile
from dataclasses import dataclass, field

import pyarrow as pa

from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects


@dataclass
class Reading:
    """What came of a reading: a tuple of id, text and place a document, and the rejects."""

    documents: list[tuple[str, str, int]] = field(default_factory=list)
    rejects: Rejects = field(default_factory=Rejects)
    files: list[str] = field(default_factory=list)
    fields: list[dict[str, str | None]] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    @property
    def ids(self):
        return [id for id, _, _ in self.documents]

    @property
    def texts(self):
        return [text for _, text, _ in self.documents]

    @property
    def reasons(self):
        return [(reject.position, reject.reason) for reject in self.rejects.listed]


def read(*sources, **options) -> Reading:
    """Read paths, DocumentFiles or DocumentParts."""
    reading = Reading()
    files = [
        source if isinstance(source, DocumentFile | DocumentPart) else DocumentFile.detect(source)
        for source in sources
    ]
    for batch in read_documents(files, reading.rejects, ReadOptions(**options)):
        for column in (batch.ids, batch.texts):
            column.validate(full=True)
            assert column.null_count == 0
        texts = batch.texts.to_pylist()
        assert batch.text_lengths.tolist() == [len(text.encode()) for text in texts]
        rows = zip(batch.ids.to_pylist(), texts, batch.offsets.tolist(), strict=True)
        reading.documents += rows
        reading.batches.append(len(batch))
        reading.files += batch.files.to_pylist()
        if batch.fields is not None:
            reading.fields += batch.fields.to_pylist()
        if isinstance(batch.records, pa.LargeBinaryArray):
            reading.records += batch.records.to_pylist()
    return reading


def cut_everywhere(path, step=1):
    """Yield what reading a file in two parts gives, for every ``step``-th byte to cut it at."""
    file = DocumentFile.detect(path)
    for cut in range(0, path.stat().st_size + 1, step):
        yield cut, read(DocumentPart(file, 0, cut), DocumentPart(file, cut))


@contextlib.contextmanager
def small_blocks(monkeypatch, size=16):
    """Have lines and pieces read a few bytes at a time, so that all sorts of edges are met."""
    from mr_dedup.formats import compression, content, lines

    with monkeypatch.context() as patch:
        patch.setattr(lines, "_READ_BYTES", size)
        patch.setattr(content, "_PLAIN_BYTES", size)
        patch.setattr(compression, "_DEFLATE_BYTES", size)
        patch.setattr(compression, "_DEFLATE_OUT_BYTES", size)
        patch.setattr(compression, "_FRAME_BYTES", size)
        yield


@contextlib.contextmanager
def standard_input(content):
    """Have ``content`` on standard input, the file of number 0; None closes it."""
    usual = os.dup(0)
    try:
        if content is None:
            os.close(0)
        else:
            with tempfile.TemporaryFile() as file:
                file.write(content)
                file.seek(0)
                os.dup2(file.fileno(), 0)
        yield
    finally:
        os.dup2(usual, 0)
        os.close(usual)


def bomb(size: int) -> bytes:
    """Return gzip data, of a thousandth of ``size`` bytes, that unpacks to so many zeros."""
    member = gzip.compress(bytes(1 << 20), 9)
    return member * (size >> 20)
