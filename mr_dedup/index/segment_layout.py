"""Validation of a segment: its description, and the columns of offsets and row numbers in it.

Checksums detect damage; they do not show that the program that wrote the file was correct or
benign. So no offset is used before it is known to be in range.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import TableDesign, designs_for
from mr_dedup.index.segment_file import (
    ALIGNMENT,
    BLOCK_BYTES,
    MAX_DOCUMENTS,
    MAX_K,
    Description,
    IdTable,
)
from mr_dedup.kernels.distances import LANES

_WORD_BYTES = 4
_DIRECTORY_BITS = range(16, 32)
_ID_DIRECTORY_BITS = range(1, 29)


class Column(NamedTuple):
    """A column of row numbers, document numbers or offsets.

    Args:
        name: in messages.
        start: the byte at which it begins.
        length: the number of its numbers.
        size: the bytes of a number.
        bound: the largest number that is allowed.
        step: None if the numbers are in no order; otherwise the smallest difference of neighbours,
            and the first number is 0, the last ``bound``.
    """

    name: str
    start: int
    length: int
    size: int
    bound: int
    step: int | None

    @property
    def stop(self) -> int:
        """The byte after the last number."""
        return self.start + self.length * self.size

    def fault(self, octets: NDArray[np.uint8], start: int, stop: int) -> str | None:
        """Return what is wrong with the numbers in bytes ``start`` to ``stop``, None if nothing.

        The bytes are of whole numbers. Some 10 µs for 64 KB.
        """
        numbers = octets[start:stop].view(f"<u{self.size}")
        if self.step is None:
            return f"{self.name}: a number is too large" if numbers.max() > self.bound else None
        if start == self.start and numbers[0]:
            return f"{self.name}: the first number is not 0"
        if stop == self.stop and numbers[-1] != self.bound:
            return f"{self.name}: the last number is not {self.bound}"
        before, after = numbers[:-1], numbers[1:]
        ascend = (after > before) if self.step else (after >= before)
        if not ascend.all() or numbers[-1] > self.bound:
            return f"{self.name}: numbers do not ascend to {self.bound}"
        return None


def columns_of(about: Description) -> list[Column]:
    """Return the columns of a segment that have to be validated before they are used."""
    columns = [
        Column(
            f"directory of table {number}", table.directory_bytes, (1 << table.directory_bits) + 1,
            _WORD_BYTES, about.fingerprints, 0,
        )
        for number, table in enumerate(about.tables)
    ]  # fmt: skip
    if about.starts_bytes is not None:
        starts = about.starts_bytes
        columns.append(
            Column("starts", starts, about.fingerprints + 1, _WORD_BYTES, about.documents, 1)
        )
    ids = about.ids
    if ids is not None:
        size, count = _WORD_BYTES * ids.offset_words, about.documents
        columns += [
            Column(
                "directory of ids", ids.directory_bytes, (1 << ids.directory_bits) + 1,
                _WORD_BYTES, count, 0,
            ),
            Column("documents", ids.documents_bytes, count, _WORD_BYTES, count - 1, None),
            Column("offsets of ids", ids.offsets_bytes, count + 1, size, ids.content_length, 1),
        ]  # fmt: skip
    return [column for column in columns if column.length]


def require_layout(path: Path, about: Description, length: int) -> None:
    """Raise FormatError unless a description fits a file of ``length`` bytes."""
    fault = _fault(about, length)
    if fault is not None:
        raise FormatError(path, "header", f"its checksum is right, and its content wrong: {fault}")


def _fault(about: Description, length: int) -> str | None:
    """Return what is wrong with a description."""
    if not 0 <= about.k <= MAX_K:
        return f"k is {about.k}"
    if not 0 <= about.fingerprints <= about.documents <= MAX_DOCUMENTS:
        return f"{about.documents} documents of {about.fingerprints} fingerprints"
    if about.starts_bytes is None and about.documents != about.fingerprints:
        return "the first documents of ranks are missing"
    if about.ids is None and about.documents != about.fingerprints:
        return "several documents without ids have one fingerprint"
    blocks = -(-about.checksums_bytes // BLOCK_BYTES)
    if about.checksums_bytes < BLOCK_BYTES or about.checksums_bytes + 8 * (blocks - 1) != length:
        return f"checksums at byte {about.checksums_bytes}"
    return _design_fault(about) or _parts_fault(about)


def _design_fault(about: Description) -> str | None:
    """Return what is wrong with the design, or the order of bits."""
    try:
        BitOrder.parse(about.order)
        design = TableDesign(about.design, about.k, tuple(about.masks))
    except ValueError as error:
        return str(error)
    if len(about.tables) != len(about.masks):
        return f"{len(about.tables)} tables, {len(about.masks)} masks"
    known = designs_for(about.k).get(design.name)
    if known is not None and known.masks != design.masks:
        return f"design {design.name} has other masks"
    return None


def _parts_fault(about: Description) -> str | None:
    """Return which part has a wrong size or position."""
    for number, table in enumerate(about.tables):
        if table.directory_bits not in _DIRECTORY_BITS:
            return f"table {number} has a directory of {table.directory_bits} bits"
    ids = about.ids
    if ids is not None and (
        ids.directory_bits not in _ID_DIRECTORY_BITS or ids.offset_words not in (1, 2)
    ):
        return f"ids have a directory of {ids.directory_bits} bits, {ids.offset_words} words each"
    for name, start, size in _parts(about):
        aligned = start % ALIGNMENT == 0
        if not (aligned and size >= 0 and BLOCK_BYTES <= start <= about.checksums_bytes - size):
            return f"{name} at byte {start}"
    return None


def _parts(about: Description) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each part, its first byte, and the number of bytes that are read of it."""
    for number, table in enumerate(about.tables):
        of_table = f"of table {number}"
        yield f"directory {of_table}", table.directory_bytes, _directory(table.directory_bits)
        # a query reads LANES rows at once, from any row on
        yield f"low {of_table}", table.low_bytes, _WORD_BYTES * (about.fingerprints + LANES)
        size = 2 if table.directory_bits < 24 else 1
        yield f"high {of_table}", table.high_bytes, size * about.fingerprints
    if about.starts_bytes is not None:
        yield "starts", about.starts_bytes, _WORD_BYTES * (about.fingerprints + 1)
    if about.ids is not None:
        yield from _id_parts(about.ids, about.documents)


def _id_parts(ids: IdTable, documents: int) -> Iterator[tuple[str, int, int]]:
    yield "directory of ids", ids.directory_bytes, _directory(ids.directory_bits)
    yield "tags", ids.tags_bytes, _WORD_BYTES * documents
    yield "documents", ids.documents_bytes, _WORD_BYTES * documents
    size = _WORD_BYTES * ids.offset_words
    yield "offsets of ids", ids.offsets_bytes, size * (documents + 1)
    yield "content of ids", ids.content_bytes, ids.content_length


def _directory(bits: int) -> int:
    return _WORD_BYTES * ((1 << bits) + 1)
