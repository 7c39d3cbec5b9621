"""Options for reading documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mr_dedup.formats.documents.charsets import codec_of

HtmlText = Literal["main", "page"]

MAX_RECORD_BYTES = 64 << 20
MAX_PAGE_SECONDS = 2.0
BATCH_BYTES = 8 << 20

_QUOTES = frozenset('"\\')

_MAX_BYTES = 1 << 30
"""Larger records do not fit the 32-bit offsets of libraries."""

_MIN_SECONDS, _MAX_SECONDS = 0.1, 86_400
"""For each MB of HTML: the system counts the time in hundredths of a second."""


@dataclass(frozen=True)
class ReadOptions:
    """What to read of each record.

    Names are those of JSON members, Parquet columns, or WARC headers, where ``id`` is
    WARC-Record-ID and ``url`` WARC-Target-URI. Raises ValueError for invalid values.

    Attributes:
        id_names: the first of these that a record has is its id.
        text_name: the text.
        html_name: HTML, the text of which is used where ``text_name`` is missing, null or
            white space.
        html: how much of the HTML: the main content, or the whole page.
        fields: values to return with each document, as text.
        keep_records: whether to return the original records.
        encoding: that of files of text and JSON lines without a byte order mark, and of HTML where
            it agrees; None to detect that of text and HTML. Replaced by the name of the codec.
        max_record_bytes: larger records are rejected.
        max_page_seconds: the processor time that HTML may take for each MB, and once more for an
            eighth of one; pages that take longer are rejected.
        batch_bytes: the size of a batch.
        strict: whether the first rejected record is an error.
    """

    id_names: Sequence[str] = ("id", "url")
    text_name: str = "text"
    html_name: str = "html"
    html: HtmlText = "main"
    fields: Sequence[str] = ()
    keep_records: bool = False
    encoding: str | None = None
    max_record_bytes: int = MAX_RECORD_BYTES
    max_page_seconds: float = MAX_PAGE_SECONDS
    batch_bytes: int = BATCH_BYTES
    strict: bool = False

    def __post_init__(self) -> None:
        for parameter in ("id_names", "fields"):
            names = getattr(self, parameter)
            if isinstance(names, str):
                raise ValueError(f"{parameter}: expected a sequence of names, got {names!r}")
            _check_distinct(parameter, names)
            object.__setattr__(self, parameter, tuple(names))
        _check_distinct(
            "id_names, text_name, html_name", [*self.id_names, self.text_name, self.html_name]
        )
        if self.html not in get_args(HtmlText):
            raise ValueError(f"html: expected one of {get_args(HtmlText)}, got {self.html!r}")
        if self.encoding is not None:
            codec = codec_of(self.encoding)
            if codec is None:
                raise ValueError(f"encoding: no encoding is called {self.encoding!r}")
            object.__setattr__(self, "encoding", codec)
        for parameter in ("max_record_bytes", "batch_bytes"):
            value = getattr(self, parameter)
            if not 1 <= value <= _MAX_BYTES:
                raise ValueError(f"{parameter}: expected 1 to {_MAX_BYTES}, got {value}")
        if not _MIN_SECONDS <= self.max_page_seconds <= _MAX_SECONDS:
            raise ValueError(
                f"max_page_seconds: expected {_MIN_SECONDS} to {_MAX_SECONDS:,}, "
                f"got {self.max_page_seconds:g}"
            )


def _check_distinct(parameter: str, names: Sequence[str]) -> None:
    """Raise ValueError for repeats, and for names that no JSON member or column can have."""
    if len(set(names)) != len(names):
        raise ValueError(f"{parameter}: expected distinct names, got {list(names)}")
    for name in names:
        if not (isinstance(name, str) and name and name.isprintable() and _QUOTES.isdisjoint(name)):
            raise ValueError(f"{parameter}: expected a printable name, got {name!r}")
