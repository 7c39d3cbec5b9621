"""The content of a file, decompressed, read forwards with bounded memory."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import reading
from mr_dedup.formats.compression import (
    MAGIC,
    Compression,
    CutShortError,
    compression_by_magic,
    decompressed,
)
from mr_dedup.formats.gzip_members import GzipMembers

_PLAIN_BYTES = 1 << 18
_SEARCHED_BYTES = 1 << 13


class Content:
    """A stream of bytes with lookahead; ``position`` is the offset of the next byte.

    ``size`` is the length of the content if the file is seekable, else None. Bytes before damage
    are returned before FormatError is raised. MrDedupError is raised where the file cannot be
    read. Each byte is read from the file once: what was peeked at is buffered until it is read.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        name: str,
        readinto: Callable[[memoryview], int | None] | None = None,
        file: io.FileIO | None = None,
        members: GzipMembers | None = None,
    ) -> None:
        self.position = 0
        self._members = members
        self.size = None if file is None else os.fstat(file.fileno()).st_size
        self._pieces = pieces
        self._name = name
        self._readinto = readinto
        self._file = file
        # what was read ahead; deleting bytes at its front moves no others
        self._buffer = bytearray()
        self._damage: FormatError | None = None
        self._searched: dict[re.Pattern[bytes], tuple[int, int]] = {}

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes; fewer only before the end or damage, none at the end."""
        data = self.peek(size)
        self._advance(len(data))
        if not data and size and self._damage is not None:
            raise self._damage
        return data

    def readinto(self, view: memoryview) -> int:
        """Read available bytes into ``view``; return how many, 0 at the end."""
        if self._readinto is None or self._buffer:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        with reading(self._name):
            got = self._readinto(view) or 0
        self.position += got
        return got

    def peek(self, size: int) -> bytes:
        """Return what ``read`` would without consuming it; no bytes at damage."""
        self._fill(size)
        return self._copy(0, size)

    def peek_some(self, max_bytes: int) -> bytes:
        """Return the next byte and those already buffered, without consuming; none at the end."""
        self._fill(1)
        return self._copy(0, max_bytes)

    def peek_at(self, ahead: int, size: int) -> bytes:
        """Return ``size`` bytes from ``ahead`` bytes after the position, without consuming them.

        The bytes between are not read of a seekable file, and buffered otherwise.
        """
        if self._file is None or ahead + size <= len(self._buffer):
            self._fill(ahead + size)
            return self._copy(ahead, ahead + size)
        assert self.size is not None
        # memory is allocated for the whole size that is requested
        size = max(0, min(size, self.size - self.position - ahead))
        with reading(self._name):
            return os.pread(self._file.fileno(), size, self.position + ahead)

    def search(
        self, pattern: re.Pattern[bytes], start: int, stop: int, max_match_bytes: int = 64
    ) -> tuple[int, int] | None:
        """Return the span of the first match between ``start`` and ``stop``, or None.

        Offsets count from the position, which does not change. No match may be longer than
        ``max_match_bytes``. Everything up to the end of the search is buffered. Where the last
        search for the pattern found no match, there is no second one.
        """
        first, known = self._searched.get(pattern, (0, 0))
        if first <= self.position + start < known:
            start = known - self.position
        else:
            first = self.position + start
        while start < stop:
            end = min(stop, start + _SEARCHED_BYTES)
            self._fill(end)
            found = pattern.search(self._buffer, start, end)
            searched = min(end, len(self._buffer)) - max_match_bytes
            last = found.start() if found else max(start, searched)
            self._searched[pattern] = first, self.position + last
            if found is not None:
                return found.span()
            if end == stop or len(self._buffer) < end:
                return None
            start = end - max_match_bytes
        return None

    def skip(self, size: int) -> int:
        """Skip ``size`` bytes; return how many there were. Raises as ``read``."""
        if self.size is not None and size > len(self._buffer):
            skipped = max(0, min(size, self.size - self.position))
            self.seek(self.position + skipped)
            return skipped
        left = size
        while left > 0 and (data := self.read(min(left, _PLAIN_BYTES))):
            left -= len(data)
        return size - left

    def seek(self, position: int) -> None:
        """Set the position; only where ``size`` is known."""
        assert self._file is not None
        if self.position <= position <= self.position + len(self._buffer):
            self._advance(position - self.position)
            return
        self._file.seek(position)
        self._buffer.clear()
        self.position = position

    @property
    def damaged_from(self) -> int | None:
        """Where the content of the damaged gzip member begins, once reading met the damage."""
        is_damaged = self._damage is not None and not isinstance(self._damage, CutShortError)
        return self._members.content_start if self._members and is_damaged else None

    @property
    def is_cut_short(self) -> bool:
        """Whether reading met the end of compressed data that is cut short."""
        return isinstance(self._damage, CutShortError)

    def raise_damage(self) -> None:
        """Raise FormatError if the next byte is damaged; peeking does not raise it."""
        self._fill(1)
        if self._damage is not None:
            raise self._damage

    def resume(self) -> bool:
        """Go to the next gzip member after damage; return False, and stay, if there is none."""
        if self._members is None or self._damage is None:
            return False
        self._advance(len(self._buffer))
        pieces = self._members.resumed(self.position)
        if pieces is None:
            return False
        self._pieces, self._damage = pieces, None
        return True

    def _advance(self, size: int) -> None:
        del self._buffer[:size]
        self.position += size

    def _copy(self, start: int, stop: int) -> bytes:
        # of a slice of a bytearray there would be two copies
        with memoryview(self._buffer) as view:
            return bytes(view[start:stop])

    def _fill(self, size: int) -> None:
        """Fill the buffer with ``size`` bytes, or those before the end or damage."""
        if self._damage is not None or len(self._buffer) >= size:
            return
        try:
            with reading(self._name):
                while len(self._buffer) < size and (piece := next(self._pieces, b"")):
                    self._buffer += piece
        except FormatError as error:
            self._damage = error


@contextlib.contextmanager
def open_content(
    path: Path | None,
    name: str,
    compression: Compression | None = None,
    piece_bytes: int = _PLAIN_BYTES,
    member_begin: re.Pattern[bytes] | None = None,
) -> Iterator[Content]:
    """Open the content of a file, or of standard input, which stays open.

    Args:
        path: the file; None for standard input.
        name: the name of the file in errors.
        compression: how it is compressed; standard input is read as it is.
        piece_bytes: how much of a file that is not compressed is read at a time.
        member_begin: how the content of a gzip member must begin, at most 64 bytes, for reading to
            resume there after damage; without it reading ends at damage.

    Raises:
        MrDedupError: it cannot be opened.
    """
    with _opened(path, name) as file:
        if path is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto)
        elif compression is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto, file)
        elif compression == "gzip" and member_begin is not None and file.seekable():
            members = GzipMembers(file, name, member_begin)
            yield Content(members.pieces(0), name, members=members)
        else:
            yield Content(decompressed(file, name, compression), name)


@contextlib.contextmanager
def open_detected(path: Path | None, name: str) -> Iterator[Content]:
    """Open content as ``open_content``, decompressed if it begins as gzip or zstd data does.

    Standard input and pipes too. The content is not seekable.
    """
    with _opened(path, name) as opened:
        with reading(name):
            file = _PeekedFile(opened)
        if file.compression is None:
            yield Content(_plain(file.read, _PLAIN_BYTES), name, file.readinto)
        else:
            yield Content(decompressed(file, name, file.compression), name)


@contextlib.contextmanager
def _opened(path: Path | None, name: str) -> Iterator[io.FileIO]:
    """Open the file, or standard input, which stays open; MrDedupError if it cannot be opened."""
    if path is None:
        # by descriptor: mrjob may have replaced sys.stdin in a task
        try:
            stdin = io.FileIO(0, closefd=False)
        except OSError as error:
            raise MrDedupError("standard input is closed") from error
        yield stdin
        return
    with reading(name):
        file = path.open("rb", buffering=0)
    with file:
        yield file


class _PeekedFile:
    """A file of which the first bytes were read to detect its compression; reads return them."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._head = b""
        # a pipe may return a byte at a time: read on only while the magic number is undecided
        while any(magic.startswith(self._head) and magic != self._head for magic in MAGIC):
            more = file.read(max(map(len, MAGIC)) - len(self._head))
            if not more:
                break
            self._head += more
        self.compression = compression_by_magic(self._head)

    def read(self, size: int) -> bytes | None:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._file.read(size)

    def readinto(self, view: memoryview) -> int | None:
        if not self._head:
            return self._file.readinto(view)
        head, self._head = self._head[: len(view)], self._head[len(view) :]
        view[: len(head)] = head
        return len(head)


def _plain(read: Callable[[int], bytes | None], piece_bytes: int) -> Iterator[bytes]:
    """Yield what is read; at the end b"" each time, since a seek may move back."""
    while True:
        yield read(piece_bytes) or b""
