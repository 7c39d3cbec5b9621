"""The fields of headers, of WARC records and of HTTP responses, as their writers spell them."""

from __future__ import annotations

import re

_FIELD = re.compile(rb"^([^\s:][^:\n]*):([^\n]*(?:\n[ \t][^\n]*)*)", re.MULTILINE)


class HeaderFields:
    """The fields of a header, by their names in any case.

    Blanks around names and values do not count; a value that continues on lines that begin with
    blanks is one line. Other lines are ignored. Linear in the header.

    >>> fields = HeaderFields(b"WARC/1.0\\r\\nwarc-type : response\\r\\nX: a\\r\\n b\\r\\nx: c\\r\\n")
    >>> fields.get("WARC-Type"), fields.get("x"), fields.all("X"), fields.get("y")
    ('response', 'a b', ['a b', 'c'], None)
    """

    def __init__(self, header: bytes) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in _FIELD.findall(header):
            self._values.setdefault(_text(name).lower(), []).append(_text(value))

    def get(self, name: str) -> str | None:
        """Return the value of a field; of a repeated one the first that is not empty."""
        values = self.all(name)
        return next(filter(None, values), values[0] if values else None)

    def all(self, name: str) -> list[str]:
        """Return the values of a field, in order."""
        return self._values.get(name.lower(), [])


def _text(value: bytes) -> str:
    lines = map(bytes.strip, value.split(b"\n"))
    return b" ".join(filter(None, lines)).decode(errors="replace")
