"""The content of a file, decompressed, read forwards with bounded memory.

What stands before damage is read as if it stood before the end; only then is the damage raised.
The libraries' own readers drop it, or take a file cut short for one that ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Protocol

import brotli
import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.fingerprint_files import Compression, zstd_decompressor

_PLAIN_BYTES = 1 << 18
_SEARCHED_BYTES = 1 << 13
_GZIP_BYTES = 1 << 16
_GZIP_OUT_BYTES = 1 << 18
_GZIP_WBITS = 16 + zlib.MAX_WBITS

_REWOUND_BYTES = 1 << 20
"""How far before damage the next member is searched for: it is noticed behind where it is."""

_FIRST_BYTES = 1 << 12

_FREE_BYTES = 1 << 20
"""What may be decompressed twice of a small file, however often."""

_TRIED_BYTES, _TRIED_OUT_BYTES = 1 << 10, 1 << 6
"""What of a member is decompressed to see how it begins, and to how much."""

# a block of 4 bytes may stand for 128 KiB: what this much becomes is bounded by 32 MB
_ZSTD_BYTES = 1 << 10

_GZIP_MAGIC = b"\x1f\x8b"
_MEMBER = re.compile(rb"\x1f\x8b\x08")
_ZSTD_SKIPPABLE = (bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
_MAGIC: dict[bytes, Compression] = {
    _GZIP_MAGIC: "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    # frames that are skipped may come before others
    **dict.fromkeys(_ZSTD_SKIPPABLE, "zstd"),
}

_WRONG_CHECKSUM = ("incorrect data check", "incorrect length check")
"""How zlib's messages end: they alone say which error it was."""

Coding = Compression | Literal["zlib", "deflate", "br"]
"""How data may be packed: "zlib" is DEFLATE with zlib's header and checksum, "deflate" without."""


class CutShortError(FormatError):
    """Compressed data that ends before its end."""


class FollowedError(FormatError):
    """Compressed data with other data after it."""


class ChecksumError(FormatError):
    """Compressed data that came to its end, with another checksum or length than it says."""


class Content:
    """Bytes that are read once, from ``position`` on.

    ``size`` is where they end, if that is known without reading them: of what can be sought in.
    Reading raises FormatError where the content is damaged, with all before it read, and
    MrDedupError where the file cannot be read. What was read ahead stays in memory until it is
    read: each byte is read from the file once, however often it is looked at.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        name: str,
        readinto: Callable[[memoryview], int | None] | None = None,
        file: io.FileIO | None = None,
        members: _Members | None = None,
    ) -> None:
        self.position = 0
        self._members = members
        self.size = None if file is None else os.fstat(file.fileno()).st_size
        self._pieces = pieces
        self._name = name
        self._readinto = readinto
        self._file = file
        # what was read ahead; taking bytes from its front moves none of the others
        self._buffer = bytearray()
        self._damage: FormatError | None = None

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes; fewer only before the end or damage, none at the end."""
        data = self.peek(size)
        self._advance(len(data))
        if not data and size and self._damage is not None:
            raise self._damage
        return data

    def readinto(self, view: memoryview) -> int:
        """Read bytes into ``view``, as many as are at hand; return how many, 0 at the end."""
        if self._readinto is None or self._buffer:
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
        return self._copy(0, size)

    def peek_some(self, max_bytes: int) -> bytes:
        """Return the next byte, and more as far as they were read ahead; nothing at the end."""
        self._fill(1)
        return self._copy(0, max_bytes)

    def peek_at(self, ahead: int, size: int) -> bytes:
        """Return ``size`` bytes from ``ahead`` bytes after the position on, to be read again.

        Of what can be sought in, the bytes between are not read; else they are kept in memory.
        """
        if self._file is None or ahead + size <= len(self._buffer):
            self._fill(ahead + size)
            return self._copy(ahead, ahead + size)
        assert self.size is not None
        # memory is allocated for the whole size that is requested
        size = max(0, min(size, self.size - self.position - ahead))
        with _reading(self._name):
            return os.pread(self._file.fileno(), size, self.position + ahead)

    def search(
        self, pattern: re.Pattern[bytes], start: int, stop: int, max_match_bytes: int = 64
    ) -> tuple[int, int] | None:
        """Return where the first match between ``start`` and ``stop`` begins and ends, or None.

        Both count from the position, which stays. No match may have more than
        ``max_match_bytes``. What is searched, and what is before it, is kept in memory.
        """
        while start < stop:
            end = min(stop, start + _SEARCHED_BYTES)
            self._fill(end)
            found = pattern.search(self._buffer, start, end)
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
        """Go on at ``position``; only where ``size`` is known."""
        assert self._file is not None
        if self.position <= position <= self.position + len(self._buffer):
            self._advance(position - self.position)
            return
        self._file.seek(position)
        self._buffer.clear()
        self.position = position

    @property
    def damaged_from(self) -> int | None:
        """Where the damaged member of gzip data begins, once its damage was come upon."""
        is_damaged = self._damage is not None and not isinstance(self._damage, CutShortError)
        return self._members.content_start if self._members and is_damaged else None

    def raise_damage(self) -> None:
        """Raise FormatError if damage was come upon; peeking does not raise it."""
        self._fill(1)
        if self._damage is not None:
            raise self._damage

    def resume(self) -> bool:
        """Go to the next member behind damage; return whether there is one, or else stay."""
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
        """Have ``size`` bytes in the buffer, or all there are before the end or damage."""
        if self._damage is not None:
            return
        try:
            with _reading(self._name):
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
    """Yield a file's content; that of standard input, which stays open, where ``path`` is None.

    ``name`` is what errors call it. Of a file that is not compressed, ``piece_bytes`` are read at
    a time; of gzip data, reading can be resumed behind damage at members whose content begins with
    ``member_begin``, of at most 64 bytes. Raises MrDedupError if it cannot be opened.
    """
    with _opened(path, name) as file:
        if path is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto)
        elif compression is None:
            yield Content(_plain(file.read, piece_bytes), name, file.readinto, file)
        elif compression == "gzip" and member_begin is not None and file.seekable():
            members = _Members(file, name, member_begin)
            yield Content(members.pieces(0), name, members=members)
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
    return _inflated(_pieces_of(file), name, "gzip", _GZIP_WBITS)


class _Members:
    """The members of a gzip file, which is read on behind damage where the next one begins.

    A member is known by its magic, and by its content, which begins with ``begin``. In all, no
    more is decompressed twice than the file has, and a megabyte: time stays linear, whatever its
    members are.
    """

    def __init__(self, file: io.FileIO, name: str, begin: re.Pattern[bytes]) -> None:
        self.content_start = 0
        """Where the content of the member begins that is read now."""
        self._file = file
        self._name = name
        self._begin = begin
        self._start = self._damaged_at = self._rewound_bytes = 0

    def pieces(self, reached: int) -> Iterator[bytes]:
        """Yield the content from here on, which begins with byte ``reached`` of all."""
        pieces = _pieces_of(self._file, _FIRST_BYTES)
        return _inflated(pieces, self._name, "gzip", _GZIP_WBITS, reached, self)

    def begin_member(self, ahead: int, reached: int) -> None:
        """Take note that one begins ``ahead`` bytes before where the file is."""
        self._start = self._damaged_at = self._file.tell() - ahead
        self.content_start = reached

    def find_damage(self, ahead: int) -> None:
        """Take note that damage was noticed ``ahead`` bytes before where the file is."""
        self._damaged_at = self._file.tell() - ahead

    def resumed(self, reached: int) -> Iterator[bytes] | None:
        """Return the content from the next member behind damage on; None if there is none."""
        first = self._start + 1
        left = max(0, _FREE_BYTES + self._damaged_at - self._rewound_bytes)
        offset = max(first, self._damaged_at - min(left, _REWOUND_BYTES))
        self._rewound_bytes += max(0, self._damaged_at - offset)
        with _reading(self._name):
            found = self._find(offset)
            if found is None:
                return None
            self._file.seek(found)
        return self.pieces(reached)

    def _find(self, offset: int) -> int | None:
        """Return where the next member begins from ``offset`` of the file on."""
        self._file.seek(offset)
        data = b""
        for piece in _pieces_of(self._file, _FIRST_BYTES):
            data += piece
            # what has too little behind it is tried with the next piece
            for magic in _MEMBER.finditer(data):
                if len(data) - magic.start() < _TRIED_BYTES:
                    break
                if self._begins(data[magic.start() :][:_TRIED_BYTES]):
                    return offset + magic.start()
            rest = data[-(_TRIED_BYTES + 2) :]
            offset += len(data) - len(rest)
            data = rest
        for magic in _MEMBER.finditer(data):
            if self._begins(data[magic.start() :]):
                return offset + magic.start()
        return None

    def _begins(self, data: bytes) -> bool:
        try:
            content = zlib.decompressobj(wbits=_GZIP_WBITS).decompress(data, _TRIED_OUT_BYTES)
        except zlib.error:
            return False
        return self._begin.match(content) is not None


def _pieces_of(file: _Readable, first_bytes: int = _GZIP_BYTES) -> Iterator[bytes]:
    """Yield what a file has from here on; little at first where the next damage may be near."""
    size = first_bytes
    while piece := file.read(size):
        yield piece
        size = min(2 * size, _GZIP_BYTES)


def _inflated(
    pieces: Iterator[bytes],
    name: str,
    coding: str,
    wbits: int,
    reached: int = 0,
    members: _Members | None = None,
) -> Iterator[bytes]:
    """Yield the content of DEFLATE data, of gzip that of all members; raise as ``unpacked``.

    ``members`` records the offset at which each member begins, and that of damage.
    """
    decoder = None
    for piece in pieces:
        more = True
        while more:
            if decoder is None or decoder.eof:
                # tapes add zeros to members, and gzip(1) drops them
                piece = piece.lstrip(b"\0") if decoder else piece
                if not piece:
                    break
                if members is not None:
                    members.begin_member(len(piece), reached)
                if decoder and not (coding == "gzip" and piece.startswith(_GZIP_MAGIC[:1])):
                    raise _damage(name, reached, coding, "other data follows it", FollowedError)
                decoder = zlib.decompressobj(wbits=wbits)
            before = decoder.copy()
            try:
                content = decoder.decompress(piece, _GZIP_OUT_BYTES)
            except zlib.error as error:
                # the call has dropped what it had made of the bytes before the damage
                taken = 0
                for content in _salvaged(before, piece):
                    taken += 1
                    reached += len(content)
                    yield from filter(None, [content])
                if members is not None:
                    members.find_damage(len(piece) - taken)
                kind = ChecksumError if str(error).endswith(_WRONG_CHECKSUM) else FormatError
                raise _damage(name, reached, coding, str(error), kind) from error
            reached += len(content)
            yield from filter(None, [content])
            piece = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            # a full output may hide more, although all of the input is taken
            more = bool(piece) or len(content) == _GZIP_OUT_BYTES
    if members is not None:
        members.find_damage(0)
    _check_end(decoder, name, reached, coding)


def _salvaged(decoder: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Yield what each byte of ``piece`` gives, perhaps nothing, up to its damage."""
    try:
        for at in range(len(piece)):
            yield decoder.decompress(piece[at : at + 1])
    except zlib.error:
        return


def _unzstded(file: _Readable, name: str) -> Iterator[bytes]:
    """Yield the content of all frames; raise FormatError where it is damaged or cut short."""
    decompressor = zstd_decompressor()
    decoder = None
    reached = 0
    while piece := file.read(_ZSTD_BYTES):
        while piece:
            if decoder is None or decoder.eof:
                if decoder and not _is_zstd_frame(piece := _at_least(4, piece, file)):
                    raise _damage(name, reached, "zstd", "other data follows it", FollowedError)
                decoder = decompressor.decompressobj()
            try:
                content = decoder.decompress(piece)
            except zstandard.ZstdError as error:
                raise _damage(name, reached, "zstd", str(error)) from error
            reached += len(content)
            if content:
                yield content
            piece = decoder.unused_data if decoder.eof else b""
    _check_end(decoder, name, reached, "zstd")


def _at_least(size: int, piece: bytes, file: _Readable) -> bytes:
    """Return ``piece`` with more of the file, up to ``size`` bytes if it has as many."""
    while len(piece) < size and (more := file.read(size - len(piece))):
        piece += more
    return piece


def _is_zstd_frame(beginning: bytes) -> bool:
    """Return whether a frame begins so, or may, if there are fewer bytes than its magic has."""
    return any(magic.startswith(beginning[:4]) for magic, kind in _MAGIC.items() if kind == "zstd")


def _unbrotlied(file: _Readable, name: str) -> Iterator[bytes]:
    """Yield the content of Brotli data; raise as ``unpacked``."""
    decoder = brotli.Decompressor()
    reached = 0
    while piece := file.read(_GZIP_BYTES):
        if decoder.is_finished():
            raise _damage(name, reached, "Brotli", "other data follows it", FollowedError)
        more = True
        while more:
            try:
                content = decoder.process(piece, output_buffer_limit=_GZIP_OUT_BYTES)
            except brotli.error as error:
                raise _damage(name, reached, "Brotli", str(error)) from error
            piece = b""
            reached += len(content)
            yield from filter(None, [content])
            more = bool(content) and not decoder.is_finished()
    if not decoder.is_finished():
        raise _cut_short(name, reached, "Brotli")


_UNPACKED: dict[Coding, Callable[[_Readable, str], Iterator[bytes]]] = {
    "gzip": _gunzipped,
    "zstd": _unzstded,
    "zlib": lambda file, name: _inflated(_pieces_of(file), name, "zlib", zlib.MAX_WBITS),
    "deflate": lambda file, name: _inflated(_pieces_of(file), name, "DEFLATE", -zlib.MAX_WBITS),
    "br": _unbrotlied,
}


def unpacked(file: _Readable, name: str, coding: Coding) -> Iterator[bytes]:
    """Yield what the rest of ``file`` is unpacked, some bytes at a time: bombs in small pieces.

    Raises CutShortError where the data ends before its end, FollowedError where something else
    comes after it, ChecksumError for gzip and zlib data with a wrong checksum, and FormatError
    where it is damaged, each with all before it yielded.
    """
    return _UNPACKED[coding](file, name)


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...


def _check_end(decoder: _Decoder | None, name: str, reached: int, coding: str) -> None:
    """Raise FormatError unless there was compressed data and it came to its end."""
    if decoder is None:
        raise FormatError(name, None, f"an empty file is not {coding} data")
    if not decoder.eof:
        raise _cut_short(name, reached, coding)


def _cut_short(name: str, reached: int, coding: str) -> FormatError:
    return CutShortError(name, f"decompressed byte {reached}", f"the {coding} data is cut short")


def _damage(
    name: str, reached: int, coding: str, why: str, kind: type[FormatError] = FormatError
) -> FormatError:
    return kind(name, f"decompressed byte {reached}", f"the {coding} data is damaged: {why}")
