"""How documents are to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

HtmlText = Literal["main", "page"]

MAX_RECORD_BYTES = 64 << 20
BATCH_BYTES = 8 << 20

_QUOTES = frozenset('"\\')

_MOST_BYTES = 1 << 30
"""Beyond this a record no longer fits into the libraries' 32-bit offsets."""


@dataclass(frozen=True)
class ReadOptions:
    """What to read of each record, and how much of it at a time.

    The names are those of JSON members and Parquet columns. The first of ``id_names`` that a
    record has is its id; of a WARC record ``id`` is its WARC-Record-ID, ``url`` its
    WARC-Target-URI, and any other name that of a header. ``text_name`` is read first; where it
    is missing or null, ``html_name`` is, and made text. ``html`` says of how much: the main
    content, or the whole page. ``fields`` are handed on with each document, as text, and
    ``keep_records`` hands on the records themselves. Records of more than ``max_record_bytes``
    are rejected; a batch is complete with ``batch_bytes``. With ``strict`` the first rejected
    record is an error. Raises ValueError for what cannot be.
    """

    id_names: Sequence[str] = ("id", "url")
    text_name: str = "text"
    html_name: str = "html"
    html: HtmlText = "main"
    fields: Sequence[str] = ()
    keep_records: bool = False
    max_record_bytes: int = MAX_RECORD_BYTES
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
        for parameter in ("max_record_bytes", "batch_bytes"):
            value = getattr(self, parameter)
            if not 1 <= value <= _MOST_BYTES:
                raise ValueError(f"{parameter}: expected 1 to {_MOST_BYTES}, got {value}")


def _check_distinct(parameter: str, names: Sequence[str]) -> None:
    """Raise ValueError for repeats, and for names that no JSON member or column can have."""
    if len(set(names)) != len(names):
        raise ValueError(f"{parameter}: expected distinct names, got {list(names)}")
    for name in names:
        if not (isinstance(name, str) and name and name.isprintable() and _QUOTES.isdisjoint(name)):
            raise ValueError(f"{parameter}: expected a printable name, got {name!r}")
