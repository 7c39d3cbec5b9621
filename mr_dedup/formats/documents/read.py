"""Read documents from files of any format, in batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import numpy as np

from mr_dedup.errors import FormatError, UnreadableError
from mr_dedup.formats.content import open_content
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch, KnownText, are_blank
from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.hadoop_lines import split_line_blocks
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.documents.transcoding import transcoded, transcoding_of
from mr_dedup.formats.lines import LineBlock, line_blocks

_DEFAULTS = ReadOptions()

_STDIN_BYTES = 1 << 18


def read_documents(
    sources: Iterable[DocumentFile | DocumentPart],
    rejects: Rejects,
    options: ReadOptions = _DEFAULTS,
    extraction: Extraction | None = None,
    known: KnownText | None = None,
) -> Iterator[DocumentBatch]:
    """Yield the documents of ``sources``, in order, in batches of about ``options.batch_bytes``.

    A batch may span files; with ``keep_records`` it ends with a Parquet file. Ids are not checked
    for duplicates: a document is identified by its file and offset.

    In memory: a batch, twice while it is concatenated, and one record, several times while it is
    decoded: a JSON line, its text as a Python string and as UTF-8. Of HTML up to 8 MB, or one page,
    whose texts are awaited; the processes of ``extraction`` have the tree of a page each, some 600
    bytes a tag, and up to 60 MB that the parser may add where tags are not closed. For Parquet see
    ``parquet.read_parquet``.

    Args:
        sources: the files or parts.
        rejects: collects records that cannot be read, and rests of damaged files; what precedes
            the damage is yielded.
        options: what to read.
        extraction: extracts the texts of HTML; by default in one process.
        known: what is known of pages of HTML, which are then not extracted.

    Raises:
        FormatError: for the first reject, if ``options.strict``.
        MrDedupError: standard input cannot be read. A file that cannot be is one reject.
    """
    if extraction is None:
        with Extraction() as extraction:
            yield from read_documents(sources, rejects, options, extraction, known)
        return
    builder = BatchBuilder(options, extraction, known)
    for source in sources:
        part = source.whole() if isinstance(source, DocumentFile) else source
        report = _report(part, rejects, options, builder)
        if not part.start and not (part.split and part.split.start):
            rejects.counts.files += 1
        # a page is one record, wherever it is damaged
        is_page = part.file.format in ("text", "html")
        is_separate = options.keep_records and part.file.format == "parquet"
        if is_separate:
            yield from _counted(builder.finish(), rejects)
        try:
            yield from _counted(_read(part, options, report, builder), rejects)
        except UnreadableError as error:
            # each part: what others have read of it before is there
            report.damage(FormatError(part.file.name, None, error.reason), rest_of_file=not is_page)
        except FormatError as error:
            # what is wrong with a whole file is reported for its first part
            if options.strict or error.offset is not None or not part.start:
                report.damage(error, rest_of_file=not is_page)
        if is_separate:
            yield from _counted(builder.finish(), rejects)
    yield from _counted(builder.finish(), rejects)


def _counted(batches: Iterable[DocumentBatch], rejects: Rejects) -> Iterator[DocumentBatch]:
    for batch in batches:
        rejects.counts.documents += len(batch)
        rejects.counts.empty += int(np.count_nonzero(are_blank(batch.texts)))
        yield batch


def _report(
    part: DocumentPart, rejects: Rejects, options: ReadOptions, builder: BatchBuilder
) -> Report:
    if part.file.format == "parquet":
        unit = "row"
    else:
        unit = "decompressed byte" if part.file.compression else "byte"
    return Report(part.file.name, unit, rejects, options.strict, builder.settle)


def _read(
    part: DocumentPart, options: ReadOptions, report: Report, builder: BatchBuilder
) -> Iterator[DocumentBatch]:
    file = part.file
    if file.unreadable is not None:
        raise UnreadableError(file.name, file.unreadable)
    # a reader is imported when it is needed: Resiliparse is not for JSONL
    if file.format == "parquet":
        from mr_dedup.formats.documents.parquet import read_parquet

        yield from read_parquet(part, options, report, builder)
    elif file.format == "warc":
        from mr_dedup.formats.documents.warc import MEMBER_BEGIN, read_warc
        from mr_dedup.formats.documents.warc_records import PIECE_BYTES

        with open_content(
            file.local_path, file.name, file.compression, PIECE_BYTES, MEMBER_BEGIN
        ) as content:
            yield from read_warc(content, part.start, part.stop, options, report, builder)
    elif file.format == "jsonl":
        from mr_dedup.formats.documents.jsonl import read_jsonl

        with part_line_blocks(part, options.max_record_bytes, options.encoding) as blocks:
            first_line = None if part.start or part.split else 1
            yield from read_jsonl(blocks, first_line, options, report, builder)
    else:
        from mr_dedup.formats.documents.pages import read_page

        is_html = file.format == "html"
        with open_content(file.local_path, file.name, file.compression) as content:
            yield from read_page(content, is_html, options, report, builder)


@contextlib.contextmanager
def part_line_blocks(
    part: DocumentPart, max_line_bytes: int, encoding: str | None = None
) -> Iterator[Iterator[LineBlock]]:
    """Open the lines of a part of a file of lines, as ``lines.line_blocks`` yields them, in UTF-8.

    ``encoding`` is that of the file, unless it has a byte order mark. The first part of one that is
    not in UTF-8 has all lines.
    """
    file = part.file
    if part.split:
        # by descriptor: mrjob may have replaced sys.stdin in a task
        with open(0, "rb", _STDIN_BYTES, closefd=False) as stream:
            yield split_line_blocks(stream, part.split, file.name, max_line_bytes)
    else:
        with open_content(file.local_path, file.name, file.compression) as content:
            if codec := transcoding_of(content, encoding):
                whole = transcoded(content, codec, file.name)
                yield iter(()) if part.start else line_blocks(whole, 0, None, max_line_bytes)
            else:
                yield line_blocks(content, part.start, part.stop, max_line_bytes)
