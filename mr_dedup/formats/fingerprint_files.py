"""Read fingerprint files of any format, compressed or not, as arrays of uint64.

The ending of a name states the format: ``.longs``, ``.txt`` or ``.tsv``, ``.fpz``, each perhaps
followed by ``.gz`` or ``.zst``, or ``.parquet``. numba is imported only for packed files, pyarrow
only for Parquet and ids.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.inputs import kind_of
from mr_dedup.files.io_errors import reading, reason_of
from mr_dedup.files.outputs import write_fully
from mr_dedup.formats import longs, text
from mr_dedup.formats.batches import regrouped
from mr_dedup.formats.compression import (
    Compression,
    compression_by_suffix,
    decompressed_file,
    suffix_inside,
)
from mr_dedup.formats.longs import ByteOrder

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.formats.fingerprint_parquet import TableReader
    from mr_dedup.formats.packed import PackedReader

WrittenFormat = Literal["longs", "text", "packed"]
Format = Literal[WrittenFormat, "parquet"]

FORMATS: tuple[Format, ...] = get_args(Format)
WRITTEN_FORMATS: tuple[WrittenFormat, ...] = get_args(WrittenFormat)
"""Those that ``fingerprint_writer.create`` writes: Parquet rows have more columns."""

BYTE_ORDERS: tuple[ByteOrder, ...] = get_args(ByteOrder)

_FORMAT_OF_ENDING: dict[str, Format] = {
    ".longs": "longs",
    ".txt": "text",
    ".tsv": "text",
    ".fpz": "packed",
    ".parquet": "parquet",
}
_BUFFER_BYTES = 1 << 18
"""What is copied at a time of a packed file that is decompressed."""


class UnknownFormatError(MrDedupError):
    """The ending of a name does not state a known format, and no format was given."""


@dataclass(frozen=True)
class FingerprintFile:
    """A file of fingerprints: its path, format, compression and byte order."""

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
        if self.format == "parquet" and self.compression:
            raise ValueError("compression: a Parquet file is compressed inside")

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

        Args:
            path: the file. Its ending states the compression: a local copy may be decompressed.
            name: its original name, by default ``path``.
            format: the format, whatever the ending.
            byte_order: that of longs.

        Raises:
            UnknownFormatError: the ending states no format.
            FormatError: ``path`` is not a regular file (a pipe can be read only once), or is
                Parquet in gzip or zstd.
            MrDedupError: it cannot be found.
        """
        path = Path(path)
        with reading(path):
            kind = kind_of(path)
        if kind != "file":
            advice = "" if kind == "directory" else "; save its output to a file first"
            reason = f"is a {kind}, expected a file of fingerprints{advice}"
            raise FormatError(path, None, reason)
        chosen = format or format_by_ending(path if name is None else name)
        compression = compression_by_suffix(path)
        if chosen == "parquet" and compression:
            raise _compressed_parquet(path)
        return cls(path, chosen, compression, byte_order)

    @property
    def name(self) -> str:
        """The path, as messages show it."""
        return str(self.path)

    @property
    def splittable(self) -> bool:
        """Whether a range can be read without reading what precedes it."""
        return self.compression is None and self.format != "text"

    @property
    def has_ids(self) -> bool:
        """Whether there may be ids beside the fingerprints: in text and Parquet."""
        return self.format in ("text", "parquet")

    def count(self) -> int | None:
        """Return the number of fingerprints of a splittable file; None for others.

        For Parquet the number of rows, some of which may be null. Raises FormatError, or
        MrDedupError if the file cannot be read.
        """
        if not self.splittable:
            return None
        with reading(self.path):
            if self.format == "longs":
                return longs.count(self.path)
            if self.format == "parquet":
                with self._open_table() as table:
                    return table.row_count
            with self._open_packed() as reader:
                return reader.count

    def batches(
        self, start: int = 0, stop: int | None = None, max_count: int = 1 << 20
    ) -> Iterator[NDArray[np.uint64]]:
        """Yield the fingerprints, or a slice of them by rank, in the order of the file.

        In Parquet ranks are those of rows, and rows without a fingerprint are skipped. A
        compressed packed file is first decompressed to a temporary file. In memory: a batch, and
        64 MB for decompression, or a page of Parquet.

        Args:
            start: the first rank.
            stop: the rank after the last; None for the end.
            max_count: the length of batches: each is a new array uint64 of 1 to ``max_count``.

        Raises:
            ValueError: a negative range, or a range of a file that is not splittable.
            FormatError: while iterating, where the data is damaged.
            MrDedupError: while iterating, if the file cannot be read.
        """
        if start < 0 or (stop is not None and stop < 0):
            raise ValueError(f"start, stop: expected ranks from 0 on, got {start}, {stop}")
        if max_count < 1:
            raise ValueError(f"max_count: expected at least 1, got {max_count}")
        if (start or stop is not None) and not self.splittable:
            raise ValueError(f"start, stop: {self.path} can only be read from its beginning")
        return self._batches(start, stop, max_count)

    def identified(
        self, max_count: int = 1 << 20
    ) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray]]:
        """Yield the fingerprints with their ids, null where there is none, in batches.

        In text an id is what follows the first TAB of a line, as ``write_identified`` writes it,
        with bytes that are not UTF-8 escaped as ``\\xff``; in Parquet it is the column ``id``.
        Raises ValueError for other formats, and as ``batches``.
        """
        if not self.has_ids:
            raise ValueError(f"format: {self.format} files have no ids")
        if max_count < 1:
            raise ValueError(f"max_count: expected at least 1, got {max_count}")
        return self._identified(max_count)

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
            with reading(self.path), self._open_packed() as reader:
                return reader.read()
        count = self.count()
        batches = list(self.batches() if count is None else self.batches(max_count=max(1, count)))
        return batches[0] if len(batches) == 1 else np.concatenate([_NO_FINGERPRINTS, *batches])

    def _batches(
        self, start: int, stop: int | None, max_count: int
    ) -> Iterator[NDArray[np.uint64]]:
        with reading(self.path):
            if self.format == "packed":
                with self._open_packed() as reader:
                    yield from reader.batches(start, stop, max_count)
            elif self.format == "parquet":
                with self._open_table() as table:
                    yield from regrouped(table.batches(start, stop), max_count)
            elif self.splittable:
                yield from longs.read_range(self.path, start, stop, self.byte_order, max_count)
            else:
                with self._open_stream() as stream:
                    if self.format == "longs":
                        yield from longs.read_stream(stream, self.path, self.byte_order, max_count)
                    else:
                        yield from regrouped(text.read(stream, self.path), max_count)

    def _identified(
        self, max_count: int
    ) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray]]:
        with reading(self.path), contextlib.ExitStack() as stack:
            if self.format == "parquet":
                pairs = stack.enter_context(self._open_table()).identified()
            else:
                stream = stack.enter_context(self._open_stream())
                pairs = text.read_identified(stream, self.path)
            for fingerprints, ids in pairs:
                for start in range(0, len(fingerprints), max_count):
                    batch = slice(start, start + max_count)
                    yield fingerprints[batch].copy(), ids[batch]

    def _open_stream(self) -> io.RawIOBase | io.BufferedIOBase:
        """Open the file for reading its content once, decompressed."""
        file = self.path.open("rb", buffering=0)
        if self.compression is None:
            return file
        return decompressed_file(file, str(self.path), self.compression)

    def _open_table(self) -> contextlib.AbstractContextManager[TableReader]:
        from mr_dedup.formats.fingerprint_parquet import open_table

        return open_table(self.path)

    @contextlib.contextmanager
    def _open_packed(self) -> Iterator[PackedReader]:
        from mr_dedup.formats import packed

        if self.compression is None:
            with packed.open_packed(self.path) as reader:
                yield reader
            return
        with _decompressing(self.path):
            # not buffered: closing would try once more to write what found no room
            plain = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed below)
        with plain:
            with self._open_stream() as stream:
                while piece := stream.read(_BUFFER_BYTES):
                    with _decompressing(self.path):
                        write_fully(plain, piece)
            yield packed.PackedReader(plain, self.path)


_NO_FINGERPRINTS = np.empty(0, dtype=np.uint64)


def format_by_ending(name: str | os.PathLike[str]) -> Format:
    """Return the format that the ending of ``name`` stands for.

    Raises UnknownFormatError if it is unknown, FormatError for Parquet in gzip or zstd.
    """
    ending = suffix_inside(name)
    if ending not in _FORMAT_OF_ENDING:
        known = ", ".join(_FORMAT_OF_ENDING)
        raise UnknownFormatError(
            f"{os.fspath(name)}: the format is not known by its ending "
            f"({known}, each but .parquet perhaps with .gz, .zst or .lz4 after it)"
        )
    if compression_by_suffix(name) and _FORMAT_OF_ENDING[ending] == "parquet":
        raise _compressed_parquet(name)
    return _FORMAT_OF_ENDING[ending]


def _compressed_parquet(path: str | os.PathLike[str]) -> FormatError:
    return FormatError(
        path, None, "is Parquet inside gzip or zstd, which is not read; decompress it first"
    )


@contextlib.contextmanager
def _decompressing(path: Path) -> Iterator[None]:
    """Turn errors of the temporary file that ``path`` is decompressed to into MrDedupError."""
    try:
        yield
    except OSError as error:
        reason = reason_of(error)
        raise MrDedupError(
            f"{path}: cannot be decompressed to a temporary file: {reason}"
        ) from error
