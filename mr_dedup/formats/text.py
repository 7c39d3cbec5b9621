"""Fingerprints as text: one per line, perhaps followed by a TAB and an id.

A fingerprint is a decimal from -2**63 to 2**64 - 1, of at most 20 digits after an optional minus
(-1 and 18446744073709551615 are the same fingerprint), or ``0x`` and exactly 16 hex digits. What
follows the first TAB of a line is its id. Lines end with LF or CR LF, which the last one may lack.
Empty lines, and byte order marks before lines, are skipped; spaces are not allowed.

A block of lines is parsed by Arrow, and again line by line if it has an error, to name the line.
``pyarrow.csv`` would take about as long, but accepts spaces, CR alone, more digits and shorter hex
numbers, and no unsigned decimals among signed ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.compression import Readable
from mr_dedup.formats.decimal_kernels import signed_decimals
from mr_dedup.formats.id_text import escape_ids, unescape_ids
from mr_dedup.formats.lines import without_marks

MAX_LINE_BYTES = 1 << 16
_READ_BYTES = 1 << 18
_SHOWN_BYTES = 40
_WRITE_COUNT = 1 << 14

_MAX_DIGITS = 20
_DECIMAL = re.compile(rb"-?[0-9]+")
_HEX = re.compile(rb"0x[0-9a-fA-F]{16}")
_HEX_LENGTH = 18

_TAB, _NEWLINE, _RETURN, _MINUS, _X = b"\t\n\r-x"
_LOWER_CASE = np.uint8(0x20)


def read(file: Readable, path: str | os.PathLike[str]) -> Iterator[NDArray[np.uint64]]:
    """Yield the fingerprints of a binary stream of text, in their order; ids are ignored.

    Each array is uint64, new, and has the fingerprints of about a quarter of a megabyte of text.
    Raises FormatError, naming ``path`` and the line, for an invalid line and for one of more than
    MAX_LINE_BYTES; the blocks before it are yielded first.
    """
    for line, block in _whole_lines(file, path):
        yield _parse(block, path, line)


def read_identified(
    file: Readable, path: str | os.PathLike[str]
) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray]]:
    """Yield the fingerprints as ``read`` does, and their ids, null where a line has none.

    Escapes as ``write_identified`` makes them are undone. Bytes of an id that are not UTF-8 are
    escaped, as ``\\xff``.
    """
    for line, block in _whole_lines(file, path):
        yield _parse(block, path, line), _ids(without_blank_lines(block))


def without_blank_lines(block: bytes) -> bytes:
    """Return whole lines without empty ones, except for the first, in few passes."""
    while b"\n\n" in block or b"\n\r\n" in block:
        block = block.replace(b"\n\r\n", b"\n").replace(b"\n\n", b"\n")
    return block


def write(file: BinaryIO, fingerprints: NDArray[np.uint64]) -> None:
    """Append ``fingerprints`` (uint64) to a binary stream, a signed decimal a line."""
    ends = np.full(_WRITE_COUNT, _NEWLINE, dtype=np.uint8)
    for start in range(0, len(fingerprints), _WRITE_COUNT):
        part = fingerprints[start : start + _WRITE_COUNT]
        file.write(signed_decimals(part, ends[: len(part)]))


def write_identified(
    file: BinaryIO,
    path: str | os.PathLike[str],
    fingerprints: NDArray[np.uint64],
    ids: pa.LargeStringArray,
) -> None:
    """Append ``fingerprints`` (uint64) and, after a TAB, their ``ids``; without it if null.

    TAB, CR and LF in an id are escaped as ``id_text.escape_ids`` does. Raises MrDedupError, naming
    ``path``, if a line would be longer than is read.
    """
    tab, newline, nothing = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
    for start in range(0, len(fingerprints), _WRITE_COUNT):
        part = escape_ids(ids[start : start + _WRITE_COUNT])
        signed = fingerprints[start : start + _WRITE_COUNT].view(np.int64)
        decimals = pa.array(signed).cast(pa.large_string())
        lines = pc.binary_join_element_wise(decimals, part, tab, null_handling="skip")
        longest = pc.max(pc.binary_length(lines)).as_py()
        if longest > MAX_LINE_BYTES:
            reason = f"an id makes a line of {longest} bytes; at most {MAX_LINE_BYTES} are allowed"
            raise MrDedupError(f"{path}: {reason}")
        _, _, content = pc.binary_join_element_wise(lines, nothing, newline).buffers()
        file.write(content)


def _whole_lines(file: Readable, path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each ending with a newline, with the number of the first."""
    line, rest = 1, b""
    while chunk := file.read(_READ_BYTES):
        block = rest + chunk
        end = block.rfind(b"\n") + 1
        if end:
            yield line, without_marks(block[:end])
            line += block.count(b"\n", 0, end)
        rest = block[end:]
        if len(rest) > MAX_LINE_BYTES + len(b"\r"):
            raise _too_long(path, line)
    if rest:
        yield line, without_marks(rest + b"\n")


def _parse(block: bytes, path: str | os.PathLike[str], line: int) -> NDArray[np.uint64]:
    """Parse whole lines, the first of which has number ``line``."""
    fingerprints = _parse_at_once(without_blank_lines(block))
    return _parse_by_line(block, path, line) if fingerprints is None else fingerprints


def _parse_by_line(block: bytes, path: str | os.PathLike[str], line: int) -> NDArray[np.uint64]:
    """Parse whole lines one by one, to raise FormatError for the first invalid one."""
    values = []
    for number, text in _numbered(block, line):
        if len(text) > MAX_LINE_BYTES:
            raise _too_long(path, number)
        field = text.partition(b"\t")[0]
        try:
            values.append(parse_one(field))
        except ValueError as error:
            reason = f"{error}, found {_shown(text)}"
            raise FormatError(path, f"line {number}", reason) from error
    return np.array(values, dtype=np.uint64)


def parse_one(field: bytes) -> int:
    """Return the fingerprint of a field as an unsigned number; raise ValueError for others.

    >>> parse_one(b"-1") == parse_one(b"0xffffffffffffffff") == 2**64 - 1
    True
    """
    if _HEX.fullmatch(field):
        return int(field, 16)
    if not _DECIMAL.fullmatch(field):
        raise ValueError("expected a fingerprint, a decimal or 0x and 16 hex digits")
    # the length first: int() refuses very long numbers with an error of its own
    if len(field.removeprefix(b"-")) > _MAX_DIGITS or not -(2**63) <= int(field) < 2**64:
        raise ValueError("expected a decimal from -2**63 to 2**64 - 1, of at most 20 digits")
    return int(field) % 2**64


def _parse_at_once(block: bytes) -> NDArray[np.uint64] | None:
    """Parse whole lines together; return None if any is invalid."""
    buffer = np.frombuffer(block, np.uint8)
    starts, ends, newlines = _lines(buffer)
    if (newlines - starts).max(initial=0) > MAX_LINE_BYTES:
        return None
    # Arrow also takes 0X, fewer hex digits, and more zeros in front
    lengths, negative = ends - starts, buffer[starts] == _MINUS
    is_hex = (lengths == _HEX_LENGTH) & (buffer[starts + 1] == _X)
    may_be_hex = (buffer[starts + 1] | _LOWER_CASE) == _X
    if (lengths - negative > np.where(is_hex, _HEX_LENGTH, _MAX_DIGITS)).any() or (
        may_be_hex & (lengths > 1) & ~is_hex
    ).any():
        return None
    try:
        fields = _fields(buffer, starts, ends).cast(pa.large_string())
        values = np.empty(len(fields), np.uint64)
        try:
            values[:] = fields.cast(pa.int64()).to_numpy().view(np.uint64)
        except pa.ArrowInvalid:
            mask = pa.array(negative)
            values[negative] = fields.filter(mask).cast(pa.int64()).to_numpy().view(np.uint64)
            values[~negative] = fields.filter(pc.invert(mask)).cast(pa.uint64()).to_numpy()
        return values
    except pa.ArrowInvalid:
        return None


def _fields(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> pa.LargeBinaryArray:
    """Return the bytes from each of ``starts`` to its stop; copied together, by a mask."""
    if len(buffer) == (stops - starts).sum() + len(starts):
        # one byte after each: whole lines
        data = np.delete(buffer, stops)
    else:
        depths = np.zeros(len(buffer), dtype=np.int8)
        depths[starts] += 1
        depths[stops] -= 1
        data = buffer[depths.cumsum(dtype=np.int8).view(np.bool_)]
    offsets = np.concatenate(([0], np.cumsum(stops - starts)))
    return pa.Array.from_buffers(
        pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _lines(
    buffer: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each line that is not empty begins, its fingerprint ends, and it ends."""
    separators = np.flatnonzero((buffer == _NEWLINE) | (buffer == _TAB))
    is_newline = buffer[separators] == _NEWLINE
    newlines = separators[is_newline]
    starts = np.concatenate(([0], newlines[:-1] + 1))
    # a field ends at the first separator of its line: the one after the newline before
    ends = separators[np.concatenate(([True], is_newline[:-1]))]
    until_newline = ends == newlines
    ends -= until_newline & (buffer[ends - 1] == _RETURN)
    blank = until_newline & (ends <= starts)
    if blank.any():
        return starts[~blank], ends[~blank], newlines[~blank]
    return starts, ends, newlines


def _ids(block: bytes) -> pa.LargeStringArray:
    """Return what follows the first TAB of each line that is not empty, null without a TAB.

    The lines are whole and valid.
    """
    buffer = np.frombuffer(block, dtype=np.uint8)
    _, ends, newlines = _lines(buffer)
    has_id = buffer[ends] == _TAB
    starts = np.where(has_id, ends + 1, newlines)
    stops = newlines - (has_id & (buffer[newlines - 1] == _RETURN))
    fields = _fields(buffer, starts, stops)
    ids = pc.if_else(pa.array(has_id), fields, pa.scalar(None, fields.type))
    try:
        texts = ids.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = [
            None if id is None else id.decode(errors="backslashreplace") for id in ids.to_pylist()
        ]
        texts = pa.array(decoded, pa.large_string())
    return unescape_ids(texts)


def _numbered(block: bytes, line: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, without their ends, and their numbers."""
    for number, text in enumerate(block[:-1].split(b"\n"), line):
        text = text.removesuffix(b"\r")
        if text:
            yield number, text


def _shown(text: bytes) -> str:
    """Return the beginning of ``text``, quoted, with all that is not printable ASCII escaped."""
    return repr(text[:_SHOWN_BYTES])[1:] + ("..." if len(text) > _SHOWN_BYTES else "")


def _too_long(path: str | os.PathLike[str], number: int) -> FormatError:
    return FormatError(path, f"line {number}", f"is longer than {MAX_LINE_BYTES} bytes")
