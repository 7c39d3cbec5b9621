"""Documents that are files: plain text, Markdown, HTML."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from mr_dedup.formats.content import Content
from mr_dedup.formats.documents import html_text
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.encoding import decode
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_page(
    content: Content,
    is_html: bool,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Yield a batch if the document, which is all of ``content``, fills one.

    HTML may be in any encoding; text is UTF-8, or UTF-16 after a byte order mark, and rejected if
    it is neither. A file of more bytes than the options allow is rejected, and not read further.
    Its id is the name of the file; it has no fields: they are null.
    """
    most = options.max_record_bytes
    data = content.read(most + 1)
    if len(data) > most:
        report.reject(0, f"is longer than {most} bytes")
        return
    # what is damaged further on is not whole
    content.read(1)
    try:
        text = decode(data) if is_html else _decoded(data)
        if is_html:
            text = html_text.text_of_html(text, options.html)
    except UnicodeDecodeError as error:
        report.reject(error.start, f"is not {error.encoding.upper()}")
    except html_text.HtmlError as error:
        report.reject(0, str(error))
    else:
        builder.add(report.file, report.file, text, 0, [None] * len(options.fields), data)
        yield from builder.full()


def _decoded(data: bytes) -> str:
    return data.decode("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8-sig")
