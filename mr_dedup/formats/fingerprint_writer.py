"""Write fingerprint files: longs, text, packed, each perhaps compressed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.files.outputs import unnamed_file_beside, whole_file
from mr_dedup.formats import longs, text
from mr_dedup.formats.compression import compressing, compression_by_suffix
from mr_dedup.formats.fingerprint_files import (
    WRITTEN_FORMATS,
    Format,
    WrittenFormat,
    format_by_ending,
)
from mr_dedup.formats.longs import ByteOrder

if TYPE_CHECKING:
    import pyarrow as pa


class FingerprintWriter:
    """Writes the fingerprints of a file that ``create`` opened."""

    def __init__(
        self,
        write: Callable[[NDArray[np.uint64]], None],
        write_identified: Callable[[NDArray[np.uint64], pa.LargeStringArray], None] | None = None,
    ) -> None:
        self.count = 0
        self._write = write
        self._write_identified = write_identified

    def write(self, fingerprints: NDArray[np.uint64]) -> None:
        """Append ``fingerprints``, uint64[n]; to packed files only strictly ascending ones.

        Raises ValueError for another dtype or order.
        """
        self._check(fingerprints)
        self._write(fingerprints)
        self.count += len(fingerprints)

    def write_identified(self, fingerprints: NDArray[np.uint64], ids: pa.LargeStringArray) -> None:
        """Append ``fingerprints`` uint64[n] with ``ids`` large_string[n], null for none; text only.

        TAB, CR and LF in ids are escaped as ``id_text.escape_ids`` does. Raises ValueError for
        another format, type or length, MrDedupError for an id that is too long for a line.
        """
        if self._write_identified is None:
            raise ValueError("ids: only text files take ids")
        self._check(fingerprints)
        if len(ids) != len(fingerprints) or str(ids.type) != "large_string":
            raise ValueError(
                f"ids: expected large_string[{len(fingerprints)}], got {ids.type}[{len(ids)}]"
            )
        self._write_identified(fingerprints, ids)
        self.count += len(fingerprints)

    def _check(self, fingerprints: NDArray[np.uint64]) -> None:
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints: expected uint64, got {fingerprints.dtype}")


@contextlib.contextmanager
def create(
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    byte_order: ByteOrder = "big",
    overwrite: bool = False,
) -> Iterator[FingerprintWriter]:
    """Yield a writer of a fingerprint file that is complete or absent when the block ends.

    Memory is bounded; a compressed packed file is first written to a temporary file beside it.

    Args:
        path: the file; its ending states format and compression.
        format: the format, whatever the ending.
        byte_order: that of longs.
        overwrite: whether to replace an existing file.

    Raises:
        MrDedupError: it exists, cannot be written, or as ``format_to_write``.
    """
    path = Path(path)
    chosen = format_to_write(path, format)
    compression = compression_by_suffix(path)
    with whole_file(path, overwrite) as file, compressing(file, compression) as stream:
        if chosen == "longs":
            yield FingerprintWriter(lambda block: longs.write(stream, block, byte_order))
        elif chosen == "text":
            yield FingerprintWriter(
                lambda block: text.write(stream, block),
                lambda block, ids: text.write_identified(stream, path, block, ids),
            )
        else:
            from mr_dedup.formats import packed

            with contextlib.ExitStack() as stack:
                # the header is written last, and a compressed stream is not seekable
                plain = file
                if compression is not None:
                    plain = stack.enter_context(unnamed_file_beside(path))
                writer = packed.PackedWriter(plain)
                yield FingerprintWriter(writer.write)
                writer.finish()
                if compression is not None:
                    plain.seek(0)
                    shutil.copyfileobj(plain, stream)


def format_to_write(path: str | os.PathLike[str], format: Format | None = None) -> WrittenFormat:
    """Return the format that ``create`` writes: ``format``, or what the ending stands for.

    Raises as ``format_by_ending``, and MrDedupError for Parquet.
    """
    chosen = format or format_by_ending(path)
    if chosen == "parquet":
        raise MrDedupError(
            f"{os.fspath(path)}: Parquet is written by mr-dedup fingerprint only; expected one of "
            f"{', '.join(WRITTEN_FORMATS)}"
        )
    return chosen
