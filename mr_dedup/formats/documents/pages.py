"""Files that are documents: plain text, Markdown, HTML."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mr_dedup.formats.content import Content
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.binary_files import is_binary
from mr_dedup.formats.documents.encoding import encoding_of, encoding_of_mark
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report


def read_page(
    content: Content,
    is_html: bool,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Add the document that ``content`` is to ``builder``; yield a batch if it is full.

    A file larger than the options allow is rejected, without being read further, and so is text
    that is not in the encoding of the options. A binary file is skipped and counted. The id is the
    name of the file; fields are null.
    """
    max_bytes = options.max_record_bytes
    data = content.read(max_bytes + 1)
    if len(data) > max_bytes:
        report.reject(0, f"is longer than {max_bytes} bytes")
        return
    # raises if the file is damaged at its end
    content.read(1)
    encoding = encoding_of(data, options.encoding, is_html)
    if options.encoding and not is_html:
        encoding = encoding_of_mark(data) or options.encoding
    if is_binary(data, encoding):
        report.skip("media_type")
        return
    fields = [None] * len(options.fields)
    if is_html:
        page, reject = Page(data, options.html, encoding), partial(report.reject, 0)
        builder.add_page(report.file, report.file, page, 0, reject, fields, data)
    else:
        try:
            text = data.decode(encoding, "strict" if options.encoding else "replace")
        except UnicodeDecodeError as error:
            report.reject(error.start, f"is not {error.encoding.upper()}")
            return
        builder.add(report.file, report.file, text, 0, fields, data)
    yield from builder.full()
