"""Fingerprint files of any format, compressed or not, read and written as arrays of uint64.

The ending of a name says what the file is: ``.longs``, ``.txt`` or ``.tsv``, ``.fpz``, each
perhaps followed by ``.gz`` or ``.zst``. numba is imported only for packed files and to write text.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast, get_args

import numpy as np
import zstandard
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats import longs, text
from mr_dedup.formats.file_kinds import kind_of
from mr_dedup.formats.longs import ByteOrder
from mr_dedup.formats.outputs import whole_file

if TYPE_CHECKING:
    from mr_dedup.formats.packed import PackedReader

Format = Literal["longs", "text", "packed"]
Compression = Literal["gzip", "zstd"]

FORMATS: tuple[Format, ...] = get_args(Format)
BYTE_ORDERS: tuple[ByteOrder, ...] = get_args(ByteOrder)

_FORMAT_OF_ENDING: dict[str, Format] = {
    ".longs": "longs",
    ".txt": "text",
    ".tsv": "text",
    ".fpz": "packed",
}
_COMPRESSION_OF_ENDING: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}

# zstd turns 4 bytes into as many as 128 KiB: this much at a time becomes 32 MB at the very most,
# twice that while the library joins it
_PIECE_BYTES = 1024

# those pieces are small: joined before they are looked at
_BUFFER_BYTES = 1 << 18


class UnknownFormatError(MrDedupError):
    """The ending of a name does not say what the file is, and nothing else does."""


@dataclass(frozen=True)
class FingerprintFile:
    """A file of fingerprints: where it is and how it is to be read."""

    path: Path
    format: Format
    compression: Compression | None = None
    byte_order: ByteOrder = "big"

    def __post_init__(self) -> None:
        for parameter, value, known in (
            ("format", self.format, FORMATS),
            ("compression", self.compression, (None, *get_args(Compression))),
            ("byte_order", self.byte_order, BYTE_ORDERS),
        ):
            if value not in known:
                raise ValueError(f"{parameter}: expected one of {known}, got {value!r}")

    @classmethod
    def detect(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | os.PathLike[str] | None = None,
        format: Format | None = None,
        byte_order: ByteOrder = "big",
    ) -> FingerprintFile:
        """Return the file at ``path``, its format by ``format`` or else by the ending of ``name``.

        ``name`` is what the file is called where it came from, by default ``path``. Whether it
        is compressed is seen from ``path`` alone: a local copy that was unpacked on its way has
        lost that ending. ``byte_order`` is that of longs. Raises UnknownFormatError if the ending
        says nothing, FormatError if ``path`` is no regular file (a pipe can be read only once, a
        device without end), MrDedupError if it cannot be found.
        """
        path = Path(path)
        with _reading(path):
            kind = kind_of(path)
        if kind != "file":
            advice = "" if kind == "folder" else "; save what it gives in a file first"
            reason = f"is a {kind}, expected a file of fingerprints{advice}"
            raise FormatError(path, None, reason)
        chosen = format or format_by_ending(path if name is None else name)
        return cls(path, chosen, _compression_by_ending(path), byte_order)

    @property
    def splittable(self) -> bool:
        """Whether a range of fingerprints can be read without reading what is before it."""
        return self.compression is None and self.format != "text"

    def count(self) -> int | None:
        """Return the number of fingerprints where that is cheap: if splittable; else None.

        Raises FormatError, or MrDedupError if the file cannot be read.
        """
        if not self.splittable:
            return None
        with _reading(self.path):
            if self.format == "longs":
                return longs.count(self.path)
            with self._open_packed() as reader:
                return reader.count

    def batches(
        self, start: int = 0, stop: int | None = None, max_count: int = 1 << 20
    ) -> Iterator[NDArray[np.uint64]]:
        """Yield the fingerprints, or a slice of them by rank, in the order of the file.

        Each array is uint64, fresh and of 1 to ``max_count`` fingerprints; memory is bounded by
        it and by 64 MB for decompression. A compressed packed file is unpacked to a temporary
        file first. Raises ValueError for a range of a file that is not splittable, or a negative
        one; while iterating, FormatError where the data is damaged and MrDedupError if the file
        cannot be read.
        """
        if start < 0 or (stop is not None and stop < 0):
            raise ValueError(f"start, stop: expected ranks from 0 on, got {start}, {stop}")
        if max_count < 1:
            raise ValueError(f"max_count: expected at least 1, got {max_count}")
        if (start or stop is not None) and not self.splittable:
            raise ValueError(f"start, stop: {self.path} can only be read from its beginning")
        return self._batches(start, stop, max_count)

    def read(self) -> NDArray[np.uint64]:
        """Return all fingerprints, uint64[n], in the order of the file.

        Raises as ``batches``, and MrDedupError if they do not fit into memory.
        """
        try:
            return self._read()
        except MemoryError as error:
            raise MrDedupError(f"{self.path}: does not fit into memory") from error

    def _read(self) -> NDArray[np.uint64]:
        if self.format == "packed":
            with _reading(self.path), self._open_packed() as reader:
                return reader.read()
        count = self.count()
        batches = list(self.batches() if count is None else self.batches(max_count=max(1, count)))
        return batches[0] if len(batches) == 1 else np.concatenate([_NO_FINGERPRINTS, *batches])

    def _batches(
        self, start: int, stop: int | None, max_count: int
    ) -> Iterator[NDArray[np.uint64]]:
        with _reading(self.path):
            if self.format == "packed":
                with self._open_packed() as reader:
                    yield from reader.batches(start, stop, max_count)
            elif self.splittable:
                yield from longs.read_range(self.path, start, stop, self.byte_order, max_count)
            else:
                with self._open_stream() as stream:
                    if self.format == "longs":
                        yield from longs.read_stream(stream, self.path, self.byte_order, max_count)
                    else:
                        yield from _regroup(text.read(stream, self.path), max_count)

    def _open_stream(self) -> io.RawIOBase | io.BufferedIOBase:
        """Open the file for reading its content once, decompressed."""
        file = self.path.open("rb", buffering=0)
        if self.compression is None:
            return file
        return io.BufferedReader(_Decompressed(file, self), _BUFFER_BYTES)

    @contextlib.contextmanager
    def _open_packed(self) -> Iterator[PackedReader]:
        from mr_dedup.formats import packed

        if self.compression is None:
            with packed.open_packed(self.path) as reader:
                yield reader
            return
        with _unpacking(self.path):
            # not buffered: closing would try once more to write what found no room
            plain = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed below)
        with plain:
            with self._open_stream() as stream:
                while piece := stream.read(_BUFFER_BYTES):
                    with _unpacking(self.path):
                        _write_fully(plain, piece)
            yield packed.PackedReader(plain, self.path)


class FingerprintWriter:
    """Takes the fingerprints of a file that ``create`` is writing."""

    def __init__(self, write: Callable[[NDArray[np.uint64]], None]) -> None:
        self.count = 0
        self._write = write

    def write(self, fingerprints: NDArray[np.uint64]) -> None:
        """Append ``fingerprints``, uint64[n]; to packed files only strictly ascending ones.

        Raises ValueError for another dtype or order.
        """
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints: expected uint64, got {fingerprints.dtype}")
        self._write(fingerprints)
        self.count += len(fingerprints)


@contextlib.contextmanager
def create(
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    byte_order: ByteOrder = "big",
    overwrite: bool = False,
) -> Iterator[FingerprintWriter]:
    """Yield a writer of a fingerprint file that appears whole when the block ends, or not at all.

    Format and compression are as the ending of ``path`` says; ``format`` overrules it. Raises
    UnknownFormatError if the ending says nothing, MrDedupError if ``path`` exists and not
    ``overwrite``, or if it cannot be written. Bounded memory; a compressed packed file is first
    written beside ``path``.
    """
    path = Path(path)
    chosen = format or format_by_ending(path)
    compression = _compression_by_ending(path)
    with whole_file(path, overwrite) as file, _compressing(file, compression) as stream:
        if chosen == "longs":
            yield FingerprintWriter(lambda block: longs.write(stream, block, byte_order))
        elif chosen == "text":
            yield FingerprintWriter(lambda block: text.write(stream, block))
        else:
            from mr_dedup.formats import packed

            with contextlib.ExitStack() as stack:
                # the header is written last: a compressed stream cannot go back to it
                plain = file
                if compression is not None:
                    plain = stack.enter_context(tempfile.TemporaryFile(dir=path.parent))
                writer = packed.PackedWriter(plain)
                yield FingerprintWriter(writer.write)
                writer.finish()
                if compression is not None:
                    plain.seek(0)
                    shutil.copyfileobj(plain, stream)


_NO_FINGERPRINTS = np.empty(0, dtype=np.uint64)


def format_by_ending(name: str | os.PathLike[str]) -> Format:
    """Return the format that the ending of ``name`` stands for, or raise UnknownFormatError."""
    base = PurePosixPath(os.fspath(name))
    if base.suffix.lower() in _COMPRESSION_OF_ENDING:
        base = base.with_suffix("")
    ending = base.suffix.lower()
    if ending not in _FORMAT_OF_ENDING:
        known = ", ".join(_FORMAT_OF_ENDING)
        packings = " or ".join(_COMPRESSION_OF_ENDING)
        raise UnknownFormatError(
            f"{os.fspath(name)}: the format is not known by its ending "
            f"({known}, each perhaps with {packings} after it)"
        )
    return _FORMAT_OF_ENDING[ending]


def _compression_by_ending(path: Path) -> Compression | None:
    return _COMPRESSION_OF_ENDING.get(path.suffix.lower())


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the errors of opening and reading ``path`` into one line that names it."""
    try:
        yield
    except OSError as error:
        raise MrDedupError(f"{path}: cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """Turn the errors of the temporary file that ``path`` is unpacked to into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise MrDedupError(f"{path}: cannot be unpacked to a temporary file: {reason}") from error


def _write_fully(file: io.FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _regroup(batches: Iterator[NDArray[np.uint64]], max_count: int) -> Iterator[NDArray[np.uint64]]:
    """Yield the same fingerprints in arrays of ``max_count``, the last of what is left."""
    waiting: list[NDArray[np.uint64]] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= max_count:
            joined = np.concatenate(waiting)
            whole = count // max_count * max_count
            yield from np.split(joined[:whole], whole // max_count)
            waiting = [joined[whole:].copy()]
            count -= whole
    if count:
        yield np.concatenate(waiting)


class _Decoder(Protocol):
    """What zlib's and zstandard's decompression objects share: one member, or frame, of a file."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _new_decoder(compression: Compression) -> _Decoder:
    if compression == "gzip":
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    return zstandard.ZstdDecompressor().decompressobj()


class _Decompressed(io.RawIOBase):
    """The content of a compressed file, all its members or frames one after the other.

    Unlike the readers of both libraries it tells a file cut short from one that ends. Raises
    FormatError, naming the byte of the content that was reached.
    """

    def __init__(self, file: io.FileIO, source: FingerprintFile) -> None:
        assert source.compression is not None
        self._file = file
        self._path = source.path
        self._compression: Compression = source.compression
        self._decoder: _Decoder | None = None
        self._compressed = b""
        self._content = memoryview(b"")
        self._reached_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._content:
            if not self._fill():
                return 0
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

    def _fill(self) -> bool:
        """Decompress another piece, which may yield nothing; return False at the end."""
        piece = self._compressed or self._file.read(_PIECE_BYTES)
        if piece and self._may_be_padding():
            piece = piece.lstrip(b"\0")
            if not piece:
                self._compressed = b""
                return True
        if not piece:
            if self._decoder is None:
                raise self._damage(f"an empty file is not {self._compression} data")
            if not self._decoder.eof:
                raise self._damage(f"the {self._compression} data is cut short")
            return False
        if self._decoder is None or self._decoder.eof:
            self._decoder = _new_decoder(self._compression)
        try:
            content = self._decoder.decompress(piece)
        except (zlib.error, zstandard.ZstdError) as error:
            raise self._damage(f"not {self._compression} data, or damaged: {error}") from error
        self._compressed = self._decoder.unused_data if self._decoder.eof else b""
        self._content = memoryview(content)
        self._reached_bytes += len(content)
        return True

    def _may_be_padding(self) -> bool:
        """Return whether zeros mean nothing here: gzip(1) drops those that tapes add to members."""
        return self._compression == "gzip" and self._decoder is not None and self._decoder.eof

    def _damage(self, reason: str) -> FormatError:
        return FormatError(self._path, f"decompressed byte {self._reached_bytes}", reason)


@contextlib.contextmanager
def _compressing(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    """Yield a stream whose content is compressed into ``file``."""
    if compression is None:
        yield file
    elif compression == "gzip":
        # neither name nor time inside, so that equal content makes equal files
        with gzip.GzipFile(
            filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0
        ) as packer:
            yield cast(BinaryIO, packer)
    else:
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        with compressor.stream_writer(file, closefd=False) as stream:
            yield stream
