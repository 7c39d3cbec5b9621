"""The fields of headers, of WARC records and of HTTP responses, as their writers spell them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_COLON = re.compile(rb"[ \t]*:")
_VALUE_END = re.compile(rb"\n(?![ \t])|\Z")

_FOLD = re.compile(rb"\r?\n[ \t]*")


class HeaderFields:
    """The fields of a header, by their names in any case.

    Blanks around names and values do not count; a value that continues on lines that begin with
    blanks is one line. Other lines are ignored. Linear in the header.

    >>> fields = HeaderFields(b"WARC/1.0\\nwarc-type : response\\nX: a\\n b\\nx: c\\n")
    >>> fields.get("WARC-Type"), fields.get("x"), list(fields.all("X")), fields.get("y")
    ('response', 'a b', ['a b', 'c'], None)
    """

    def __init__(self, header: bytes) -> None:
        self._header = header
        # not a list of fields: of a header of 64 MB they would take gigabytes
        self._lowered = b"\n" + header.lower()

    def get(self, name: str) -> str | None:
        """Return the value of a field; of a repeated one the first that is not empty."""
        value = None
        for value in self.all(name):
            if value:
                break
        return value

    def all(self, name: str) -> Iterator[str]:
        """Yield the values of a field, in order."""
        wanted = b"\n" + name.lower().encode()
        at = self._lowered.find(wanted)
        while at >= 0:
            at += len(wanted)
            colon = _COLON.match(self._header, at - 1)
            if colon is not None:
                end = _VALUE_END.search(self._header, colon.end())
                assert end is not None
                value = self._header[colon.end() : end.start()]
                yield _FOLD.sub(b" ", value).strip().decode(errors="replace")
            at = self._lowered.find(wanted, at)
