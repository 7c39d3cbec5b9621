"""Compressed data: one table of suffixes, one registry of codecs, for all that is read or written.

Decompression streams: memory is bounded by a piece of output, 256 KB for DEFLATE and Brotli, 32 MB
for zstd and the window of the frame, 4 MB for lz4. Everything before damage, of lz4 but for a
block, is returned before it is raised; the libraries' own readers drop it, or accept a truncated
file. DEFLATE is by zlib-ng, which compresses text 2.4 times and decompresses it 2 times as fast as
zlib, to files 3 % larger.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast

import brotli
import lz4.frame
import zstandard
from zlib_ng import gzip_ng, zlib_ng

from mr_dedup.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Compression = Literal["gzip", "zstd", "lz4"]
"""How a file may be compressed."""

Coding = Compression | Literal["zlib", "deflate", "br"]
"""How the body of an HTTP response may be: "deflate" is DEFLATE without zlib's header."""

COMPRESSION_OF_SUFFIX: dict[str, Compression] = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".lz4": "lz4",
}
SUFFIX_OF_COMPRESSION = {kind: suffix for suffix, kind in COMPRESSION_OF_SUFFIX.items()}

_DEFLATE_BYTES = 1 << 16
_DEFLATE_OUT_BYTES = 1 << 18

# 4 bytes of zstd data may stand for 128 KiB: this much becomes at most 32 MB
_FRAME_BYTES = 1 << 10

_BUFFER_BYTES = 1 << 18
"""Pieces of zstd data may be small: so much is buffered of a file."""

_ZSTD_WINDOW_BYTES = 1 << 31
"""How far back a frame may refer: as ``zstd --ultra --long=31`` does."""

_GZIP_LEVEL = 6
GZIP_WBITS = 16 + zlib_ng.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_SKIPPABLE_END = b"\x2a\x4d\x18"
_SKIPPABLE = (bytes([first]) + _SKIPPABLE_END for first in range(0x50, 0x60))
MAGIC: dict[bytes, Compression] = {
    _GZIP_MAGIC: "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    # skippable frames may precede others
    **dict.fromkeys(_SKIPPABLE, "zstd"),
}

_CHECKSUM_MESSAGES = ("incorrect data check", "incorrect length check")
"""How zlib's messages end: it has no other sign of which error it was."""


class CutShortError(FormatError):
    """Compressed data that ends before its end."""


class TrailingDataError(FormatError):
    """Compressed data with other data after it."""


class ChecksumError(FormatError):
    """Compressed data that is complete but has another checksum or length than it states."""


class Readable(Protocol):
    """A binary stream to read from, as every binary file of Python is."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to ``size`` bytes, none at the end."""


def compression_by_suffix(name: str | os.PathLike[str]) -> Compression | None:
    """Return the compression that the last suffix of a file's name states, in any case.

    >>> compression_by_suffix("pages.jsonl.GZ"), compression_by_suffix("pages.jsonl")
    ('gzip', None)
    """
    return COMPRESSION_OF_SUFFIX.get(PurePosixPath(name).suffix.lower())


def suffix_inside(name: str | os.PathLike[str]) -> str:
    """Return the suffix, in lower case, of a file's name without that of its compression.

    >>> suffix_inside("pages.JSONL.gz"), suffix_inside("README.gz")
    ('.jsonl', '')
    """
    base = PurePosixPath(name)
    if compression_by_suffix(base):
        base = base.with_suffix("")
    return base.suffix.lower()


def compression_by_magic(beginning: bytes) -> Compression | None:
    """Return the compression of data that begins so; None if it begins with no magic number."""
    return next((kind for magic, kind in MAGIC.items() if beginning.startswith(magic)), None)


def zstd_decompressor() -> zstandard.ZstdDecompressor:
    """Return a decompressor of frames with windows of any size, of which it allocates as much."""
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)


def decompressed(file: Readable, name: str, coding: Coding) -> Iterator[bytes]:
    """Yield the content of the rest of ``file``, in pieces of bounded size.

    Files of several gzip members or zstd frames have the content of all of them; zeros after gzip
    members are dropped, as gzip(1) does.

    Args:
        file: the compressed bytes.
        name: the name of the file in errors.
        coding: how it is compressed.

    Raises:
        CutShortError: the data ends before its end.
        TrailingDataError: other data follows it.
        ChecksumError: gzip or zlib data has a wrong checksum or length.
        FormatError: it is damaged otherwise, or empty. All content before is yielded first.
    """
    return _DECOMPRESSED[coding](file, name)


def decompressed_file(
    file: io.FileIO, name: str, compression: Compression | None
) -> io.BufferedReader:
    """Return the content of a file as a buffered binary file, which closes ``file`` with it.

    Lines of a file without a buffer would be read byte by byte: of documents that ``restore`` puts
    back, 800 CPU seconds a GB instead of 20. Reading raises as ``decompressed``.
    """
    if compression is None:
        return io.BufferedReader(file, _BUFFER_BYTES)
    return io.BufferedReader(_DecompressedFile(file, name, compression), _BUFFER_BYTES)


class _DecompressedFile(io.RawIOBase):
    def __init__(self, file: io.FileIO, name: str, compression: Compression) -> None:
        self._file = file
        self._pieces = decompressed(file, name, compression)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def compressing(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    """Yield a stream that compresses what is written to it into ``file``, which stays open.

    Equal content makes equal bytes, with one version of the library on one kind of processor: gzip
    data has no name and no time in it. Without a ``compression`` it is ``file`` itself.
    """
    if compression is None:
        yield file
    elif compression == "gzip":
        with (
            gzip_ng.GzipNGFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream,
            _PiecesOfOneSize(stream) as pieces,
        ):
            yield cast(BinaryIO, pieces)
    elif compression == "lz4":
        with (
            lz4.frame.LZ4FrameFile(file, "wb", content_checksum=True) as stream,
            _PiecesOfOneSize(stream) as pieces,
        ):
            yield cast(BinaryIO, pieces)
    else:
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        with compressor.stream_writer(file, closefd=False) as stream:
            yield cast(BinaryIO, stream)


def compressed(data: memoryview, compression: Compression) -> bytes:
    """Return data as one gzip member, or one frame of zstd or lz4, whose size is in its header."""
    if compression == "gzip":
        packed: bytes = gzip_ng.compress(data, _GZIP_LEVEL, mtime=0)
        return packed
    if compression == "lz4":
        frame: bytes = lz4.frame.compress(data, content_checksum=True)
        return frame
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


class _PiecesOfOneSize(io.BufferedIOBase):
    """Passes on what is written in pieces of one size.

    At zlib-ng's levels 1, 5 and 6, and by lz4, the compressed bytes depend on where the input is
    divided.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._piece = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        view = memoryview(data)
        if not view.nbytes:  # it cannot be cast
            return 0
        view = view.cast("B")
        start = 0
        while start < len(view):
            stop = start + _DEFLATE_OUT_BYTES - len(self._piece)
            self._piece += view[start:stop]
            start = stop
            if len(self._piece) == _DEFLATE_OUT_BYTES:
                self._pass_on()
        return len(view)

    def close(self) -> None:
        try:
            if not self.closed:
                self._pass_on()
        finally:
            super().close()

    def _pass_on(self) -> None:
        self._stream.write(self._piece)
        self._piece.clear()


class _Inflater(Protocol):
    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


class MemberLog(Protocol):
    """Records where the members of a gzip file begin, and where it is damaged."""

    def begin_member(self, unread_bytes: int, content_offset: int) -> None:
        """Record a member that begins ``unread_bytes`` before the position of the file."""

    def find_damage(self, unread_bytes: int) -> None:
        """Record damage ``unread_bytes`` before the position of the file."""


def pieces_of(file: Readable, first_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file, in pieces that grow to 64 KB from ``first_bytes``."""
    size = first_bytes or _DEFLATE_BYTES
    while piece := file.read(size):
        yield piece
        size = min(2 * size, _DEFLATE_BYTES)


def inflated(
    pieces: Iterator[bytes],
    name: str,
    coding: str,
    wbits: int,
    offset: int = 0,
    log: MemberLog | None = None,
) -> Iterator[bytes]:
    """Yield the content of DEFLATE data, and of all members of gzip data.

    ``offset`` is where in the content it begins, for errors. Raises as ``decompressed``.
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
                if log is not None:
                    log.begin_member(len(piece), offset)
                if decoder and not (coding == "gzip" and piece.startswith(_GZIP_MAGIC[:1])):
                    raise _damage(name, offset, coding, "other data follows it", TrailingDataError)
                decoder = zlib_ng.decompressobj(wbits=wbits)
            before = decoder.copy()
            try:
                content = decoder.decompress(piece, _DEFLATE_OUT_BYTES)
            except zlib_ng.error as error:
                # the call has dropped the content of the bytes before the damage
                done = 0
                for content in _salvaged(before, piece):
                    done += 1
                    offset += len(content)
                    yield from filter(None, [content])
                if log is not None:
                    log.find_damage(len(piece) - done)
                kind = ChecksumError if str(error).endswith(_CHECKSUM_MESSAGES) else FormatError
                raise _damage(name, offset, coding, str(error), kind) from error
            offset += len(content)
            yield from filter(None, [content])
            piece = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            # after a full output there may be more, although all of the input was consumed
            more = bool(piece) or len(content) == _DEFLATE_OUT_BYTES
    if log is not None:
        log.find_damage(0)
    _check_end(decoder, name, offset, coding)


def _salvaged(decoder: _Inflater, piece: bytes) -> Iterator[bytes]:
    """Yield the content of each byte of ``piece``, which may be empty, up to its damage."""
    try:
        for at in range(len(piece)):
            yield decoder.decompress(piece[at : at + 1])
    except zlib_ng.error:
        return


def _gunzipped(file: Readable, name: str) -> Iterator[bytes]:
    return inflated(pieces_of(file), name, "gzip", GZIP_WBITS)


def _unzstded(file: Readable, name: str) -> Iterator[bytes]:
    """Yield the content of all frames; raise as ``decompressed``."""
    new_decoder = zstd_decompressor().decompressobj
    return _of_frames(file, name, "zstd", new_decoder, zstandard.ZstdError)


def _unlz4ed(file: Readable, name: str) -> Iterator[bytes]:
    """Yield the content of all frames; raise as ``decompressed``."""
    return _of_frames(file, name, "lz4", lz4.frame.LZ4FrameDecompressor, RuntimeError)


def _of_frames(
    file: Readable,
    name: str,
    coding: Compression,
    new_decoder: Callable[[], _FrameDecoder],
    error_type: type[Exception],
) -> Iterator[bytes]:
    decoder = None
    offset = 0
    while piece := file.read(_FRAME_BYTES):
        while piece:
            if decoder is None or decoder.eof:
                if decoder and not _may_be_frame(piece := _at_least(4, piece, file), coding):
                    raise _damage(name, offset, coding, "other data follows it", TrailingDataError)
                decoder = new_decoder()
            try:
                content = decoder.decompress(piece)
            except error_type as error:
                reason = str(error)
                if reason.endswith("Dictionary mismatch"):
                    reason = "it needs a dictionary; decompress it by zstd -d -D DICTIONARY"
                raise _damage(name, offset, coding, reason) from error
            offset += len(content)
            if content:
                yield content
            piece = (decoder.unused_data or b"") if decoder.eof else b""
    _check_end(decoder, name, offset, coding)


def _at_least(size: int, piece: bytes, file: Readable) -> bytes:
    """Return ``piece`` with more of the file, up to ``size`` bytes if it has as many."""
    while len(piece) < size and (more := file.read(size - len(piece))):
        piece += more
    return piece


def _may_be_frame(beginning: bytes, coding: Compression) -> bool:
    """Return whether these bytes, or those before the end, begin a frame, or one to skip."""
    return any(
        magic.startswith(beginning[:4])
        for magic, kind in MAGIC.items()
        if kind == coding or magic[1:] == _SKIPPABLE_END
    )


def _unbrotlied(file: Readable, name: str) -> Iterator[bytes]:
    """Yield the content of Brotli data; raise as ``decompressed``."""
    decoder = brotli.Decompressor()
    offset = 0
    while piece := file.read(_DEFLATE_BYTES):
        if decoder.is_finished():
            raise _damage(name, offset, "Brotli", "other data follows it", TrailingDataError)
        more = True
        while more:
            try:
                content = decoder.process(piece, output_buffer_limit=_DEFLATE_OUT_BYTES)
            except brotli.error as error:
                raise _damage(name, offset, "Brotli", str(error)) from error
            piece = b""
            offset += len(content)
            yield from filter(None, [content])
            more = bool(content) and not decoder.is_finished()
    if not decoder.is_finished():
        raise _cut_short(name, offset, "Brotli")


_DECOMPRESSED: dict[Coding, Callable[[Readable, str], Iterator[bytes]]] = {
    "gzip": _gunzipped,
    "zstd": _unzstded,
    "lz4": _unlz4ed,
    "zlib": lambda file, name: inflated(pieces_of(file), name, "zlib", zlib_ng.MAX_WBITS),
    "deflate": lambda file, name: inflated(pieces_of(file), name, "DEFLATE", -zlib_ng.MAX_WBITS),
    "br": _unbrotlied,
}


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...


class _FrameDecoder(_Decoder, Protocol):
    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _check_end(decoder: _Decoder | None, name: str, offset: int, coding: str) -> None:
    """Raise FormatError unless there was compressed data and it came to its end."""
    if decoder is None:
        raise FormatError(name, None, f"an empty file is not {coding} data")
    if not decoder.eof:
        raise _cut_short(name, offset, coding)


def _cut_short(name: str, offset: int, coding: str) -> FormatError:
    return CutShortError(name, f"decompressed byte {offset}", f"the {coding} data is cut short")


def _damage(
    name: str, offset: int, coding: str, why: str, kind: type[FormatError] = FormatError
) -> FormatError:
    return kind(name, f"decompressed byte {offset}", f"not {coding} data, or damaged: {why}")
