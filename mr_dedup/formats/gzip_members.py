"""The members of a gzip file, to resume reading behind damage where the next one begins."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from zlib_ng import zlib_ng

from mr_dedup.files.io_errors import reading
from mr_dedup.formats.compression import GZIP_WBITS, inflated, pieces_of

_REWOUND_BYTES = 1 << 20
"""How far before damage the next member is searched for: damage is noticed after it begins."""

_FREE_BYTES = 1 << 20
"""How much of a small file may be decompressed twice."""

_FIRST_BYTES = 1 << 12
"""The first read of a member, small as the next damage may be close."""

_TRIED_BYTES, _TRIED_OUT_BYTES = 1 << 10, 1 << 6
"""How much of a possible member is decompressed, and to how much, to see how it begins."""

_MEMBER = re.compile(rb"\x1f\x8b\x08")


class GzipMembers:
    """The content of a gzip file, which can be resumed after damage at the next member.

    A member is recognised by its magic number and by its content, which must match ``begin``. In
    all, no more is decompressed twice than the size of the file and a megabyte, so that time stays
    linear whatever the members are.
    """

    def __init__(self, file: io.FileIO, name: str, begin: re.Pattern[bytes]) -> None:
        self.content_start = 0
        """Where in the content the current member begins."""
        self._file = file
        self._name = name
        self._begin = begin
        self._start = self._damaged_at = self._rewound_bytes = 0

    def pieces(self, content_offset: int) -> Iterator[bytes]:
        """Yield the content from the position of the file, which is at ``content_offset`` of it."""
        pieces = pieces_of(self._file, _FIRST_BYTES)
        return inflated(pieces, self._name, "gzip", GZIP_WBITS, content_offset, self)

    def begin_member(self, unread_bytes: int, content_offset: int) -> None:
        """Record a member that begins ``unread_bytes`` before the position of the file."""
        self._start = self._damaged_at = self._file.tell() - unread_bytes
        self.content_start = content_offset

    def find_damage(self, unread_bytes: int) -> None:
        """Record damage ``unread_bytes`` before the position of the file."""
        self._damaged_at = self._file.tell() - unread_bytes

    def resumed(self, content_offset: int) -> Iterator[bytes] | None:
        """Return the content from the next member after damage; None if there is none."""
        first = self._start + 1
        left = max(0, _FREE_BYTES + self._damaged_at - self._rewound_bytes)
        offset = max(first, self._damaged_at - min(left, _REWOUND_BYTES))
        self._rewound_bytes += max(0, self._damaged_at - offset)
        with reading(self._name):
            found = self._find(offset)
            if found is None:
                return None
            self._file.seek(found)
        return self.pieces(content_offset)

    def _find(self, offset: int) -> int | None:
        """Return the offset of the next member at or after ``offset`` of the file."""
        self._file.seek(offset)
        data = b""
        for piece in pieces_of(self._file, _FIRST_BYTES):
            data += piece
            # a match with too little after it is tried with the next piece
            for magic in _MEMBER.finditer(data):
                if len(data) - magic.start() < _TRIED_BYTES:
                    break
                start = magic.start()
                if self._begins(data[start : start + _TRIED_BYTES]):
                    return offset + start
            rest = data[-(_TRIED_BYTES + 2) :]
            offset += len(data) - len(rest)
            data = rest
        for magic in _MEMBER.finditer(data):
            if self._begins(data[magic.start() :]):
                return offset + magic.start()
        return None

    def _begins(self, data: bytes) -> bool:
        try:
            content = zlib_ng.decompressobj(wbits=GZIP_WBITS).decompress(data, _TRIED_OUT_BYTES)
        except zlib_ng.error:
            return False
        return self._begin.match(content) is not None
