"""The content of a file, decompressed, read forwards with bounded memory.

What stands before damage is read as if it stood before the end; only then is the damage raised.
The libraries' own readers drop it, or take a file cut short for one that ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.fingerprint_files import Compression

_PLAIN_BYTES = 1 << 18
_GZIP_BYTES = 1 << 16
_GZIP_OUT_BYTES = 1 << 18

# a block of 4 bytes may stand for 128 KiB: what this much becomes is bounded by 32 MB
_ZSTD_BYTES = 1 << 10

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class Content:
    """Bytes that are read once, from ``position`` on.

    ``size`` is where they end, if that is known without reading them: of what can be sought in.
    Reading raises FormatError where the content is damaged, with all before it read, and
    MrDedupError where the file cannot be read.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        name: str,
        readinto: Callable[[memoryview], int | None] | None = None,
        file: io.FileIO | None = None,
    ) -> None:
        self.position = 0
        self.size = None if file is None else os.fstat(file.fileno()).st_size
        self._pieces = pieces
        self._name = name
        self._readinto = readinto
        self._file = file
        self._buffer = b""
        self._at = 0
        self._damage: FormatError | None = None

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes; fewer only before the end or damage, none at the end."""
        self._fill(size)
        data = self._buffer[self._at : self._at + size]
        self._advance(len(data))
        if not data and size and self._damage is not None:
            raise self._damage
        return data

    def readinto(self, view: memoryview) -> int:
        """Read bytes into ``view``, as many as are at hand; return how many, 0 at the end."""
        if self._readinto is None or self._at < len(self._buffer):
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        with _reading(self._name):
            got = self._readinto(view) or 0
        self.position += got
        return got

    def peek(self, size: int) -> bytes:
        """Return what ``read`` would, to be read again; nothing where there is damage."""
        self._fill(size)
        return self._buffer[self._at : self._at + size]

    def unread(self, data: bytes) -> None:
        """Put ``data``, which was read just now, back before what follows."""
        self._buffer = data + self._buffer[self._at :]
        self._at = 0
        self.position -= len(data)

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; return how many there were. Raises as ``read``."""
        left = size
        while left > 0 and (data := self.read(min(left, _PLAIN_BYTES))):
            left -= len(data)
        return size - left

    def seek(self, position: int) -> None:
        """Go on at ``position``; only where ``size`` is known."""
        assert self._file is not None
        if self.position <= position <= self.position + len(self._buffer) - self._at:
            self._advance(position - self.position)
            return
        self._file.seek(position)
        self._buffer, self._at, self.position = b"", 0, position

    def _advance(self, size: int) -> None:
        self._at += size
        self.position += size
        if self._at == len(self._buffer):
            self._buffer, self._at = b"", 0

    def _fill(self, size: int) -> None:
        """Have ``size`` bytes in the buffer, or all there are before the end or damage."""
        held = len(self._buffer) - self._at
        if held >= size or self._damage is not None:
            return
        found = [self._buffer[self._at :]] if held else []
        try:
            with _reading(self._name):
                while held < size and (piece := next(self._pieces, b"")):
                    found.append(piece)
                    held += len(piece)
        except FormatError as error:
            self._damage = error
        self._buffer, self._at = found[0] if len(found) == 1 else b"".join(found), 0


@contextlib.contextmanager
def open_content(
    path: Path | None,
    name: str,
    compression: Compression | None = None,
    piece_bytes: int = _PLAIN_BYTES,
) -> Iterator[Content]:
    """Yield a file's content; that of standard input, which stays open, where ``path`` is None.

    ``name`` is what errors call it. Of a file that is not compressed, ``piece_bytes`` are read at
    a time. Raises MrDedupError if it cannot be opened.
    """
    with _opened(path, name) as file:
        if path is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto)
        elif compression is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto, file)
        else:
            yield Content(_UNPACKED[compression](file, name), name)


@contextlib.contextmanager
def open_recognised(path: Path | None, name: str) -> Iterator[Content]:
    """Yield content as ``open_content``, unpacked if it begins as gzip or zstd data does.

    That of standard input, or of a pipe, too; in what is yielded nobody can seek.
    """
    with _opened(path, name) as file:
        with _reading(name):
            begun = _Begun(file)
        if begun.compression is None:
            yield Content(_plain(begun.read, _PLAIN_BYTES), name, begun.readinto)
        else:
            yield Content(_UNPACKED[begun.compression](begun, name), name)


def compression_of(beginning: bytes) -> Compression | None:
    """Return the compression of data that begins so, None if it is not known to be compressed."""
    return next((kind for magic, kind in _MAGIC.items() if beginning.startswith(magic)), None)


@contextlib.contextmanager
def _opened(path: Path | None, name: str) -> Iterator[io.FileIO]:
    """Yield the file, or standard input, which stays open; MrDedupError if it cannot be opened."""
    if path is None:
        # by its number: sys.stdin may be what mrjob put there for a task
        try:
            stdin = io.FileIO(0, closefd=False)
        except OSError as error:
            raise MrDedupError("standard input is closed") from error
        yield stdin
        return
    with _reading(name):
        file = path.open("rb", buffering=0)
    with file:
        yield file


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


class _Begun:
    """A file whose first bytes were looked at already, which come first all the same."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._head = b""
        # a pipe may hand over a byte at a time, and nothing is waited for that need not be
        while any(magic.startswith(self._head) and magic != self._head for magic in _MAGIC):
            more = file.read(max(map(len, _MAGIC)) - len(self._head))
            if not more:
                break
            self._head += more
        self.compression = compression_of(self._head)

    def read(self, size: int) -> bytes | None:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._file.read(size)

    def readinto(self, view: memoryview) -> int | None:
        if not self._head:
            return self._file.readinto(view)
        head, self._head = self._head[: len(view)], self._head[len(view) :]
        view[: len(head)] = head
        return len(head)


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn the errors of opening and reading a file into one line that names it."""
    try:
        yield
    except OSError as error:
        raise MrDedupError(f"{name}: cannot be read: {error.strerror or error}") from error


def _plain(read: Callable[[int], bytes | None], piece_bytes: int) -> Iterator[bytes]:
    """Yield what is read, nothing at the end: it may be sought back from there."""
    while True:
        yield read(piece_bytes) or b""


def _gunzipped(file: _Readable, name: str) -> Iterator[bytes]:
    """Yield the content of all members; raise FormatError where it is damaged or cut short."""
    decoder = None
    reached = 0
    while piece := file.read(_GZIP_BYTES):
        more = True
        while more:
            if decoder is None or decoder.eof:
                # tapes add zeros to members, and gzip(1) drops them
                piece = piece.lstrip(b"\0") if decoder else piece
                if not piece:
                    break
                decoder = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            before = decoder.copy()
            try:
                content = decoder.decompress(piece, _GZIP_OUT_BYTES)
            except zlib.error as error:
                # the call has dropped what it had made of the bytes before the damage
                for content in _salvaged(before, piece):
                    reached += len(content)
                    yield content
                raise _damage(name, reached, f"the gzip data is damaged: {error}") from error
            reached += len(content)
            yield from filter(None, [content])
            piece = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            # a full output may hide more, although all of the input is taken
            more = bool(piece) or len(content) == _GZIP_OUT_BYTES
    _check_end(decoder, name, reached, "gzip")


def _salvaged(decoder: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Yield what ``piece`` gives before its damage, by a byte of it at a time."""
    try:
        for at in range(len(piece)):
            if content := decoder.decompress(piece[at : at + 1]):
                yield content
    except zlib.error:
        return


def _unzstded(file: _Readable, name: str) -> Iterator[bytes]:
    """Yield the content of all frames; raise FormatError where it is damaged or cut short."""
    decoder = None
    reached = 0
    while piece := file.read(_ZSTD_BYTES):
        while piece:
            if decoder is None or decoder.eof:
                decoder = zstandard.ZstdDecompressor().decompressobj()
            try:
                content = decoder.decompress(piece)
            except zstandard.ZstdError as error:
                raise _damage(name, reached, f"the zstd data is damaged: {error}") from error
            reached += len(content)
            if content:
                yield content
            piece = decoder.unused_data if decoder.eof else b""
    _check_end(decoder, name, reached, "zstd")


_UNPACKED: dict[Compression, Callable[[_Readable, str], Iterator[bytes]]] = {
    "gzip": _gunzipped,
    "zstd": _unzstded,
}


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...


def _check_end(decoder: _Decoder | None, name: str, reached: int, compression: str) -> None:
    """Raise FormatError unless there was compressed data and it came to its end."""
    if decoder is None:
        raise FormatError(name, None, f"an empty file is not {compression} data")
    if not decoder.eof:
        raise _damage(name, reached, f"the {compression} data is cut short")


def _damage(name: str, reached: int, reason: str) -> FormatError:
    return FormatError(name, f"decompressed byte {reached}", reason)
