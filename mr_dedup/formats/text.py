"""Fingerprints as text: one per line, perhaps followed by a TAB and an id.

A fingerprint is a decimal from -2**63 to 2**64 - 1, of at most 20 digits after an optional minus
(-1 and 18446744073709551615 are the same fingerprint), or ``0x`` and exactly 16 hex digits. What
follows the first TAB of a line is its id. Lines end with LF or CR LF, which the last one may lack.
Empty lines are skipped, but counted in line numbers; spaces are not allowed.

A block of lines is parsed in a few NumPy passes, 5 times as fast as ``int`` for each line. A block
with an error is parsed again line by line, to name the line. 10 million signed decimals take 1.8 s
of CPU so. ``pyarrow.csv`` takes 1.4 s for the same blocks, 0.7 to 0.9 for the file as a stream, but
accepts spaces, a byte order mark, CR alone, more digits and shorter hex numbers, and neither ids
nor unsigned decimals among signed ones: it would need this parser beside it. pyarrow is imported
only for ids.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.compression import Readable

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LINE_BYTES = 1 << 16
_READ_BYTES = 1 << 18
_SHOWN_BYTES = 40
_WRITE_COUNT = 1 << 14

_MAX_DIGITS = 20
_DECIMAL = re.compile(rb"-?[0-9]+")
_HEX = re.compile(rb"0x[0-9a-fA-F]{16}")
_HEX_LENGTH = 18

_TAB, _NEWLINE, _RETURN, _MINUS, _ZERO, _X = b"\t\n\r-0x"

# for reads of a word before the first line, and of a byte after the last
_PADDING = b" " * 24


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
    # numba takes half a second to import, and reading does not need it
    from mr_dedup.formats.decimal_kernels import signed_decimals

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
    import pyarrow as pa
    import pyarrow.compute as pc

    from mr_dedup.formats.id_text import escape_ids

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
            yield line, block[:end]
            line += block.count(b"\n", 0, end)
        rest = block[end:]
        if len(rest) > MAX_LINE_BYTES + len(b"\r"):
            raise _too_long(path, line)
    if rest:
        yield line, rest + b"\n"


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
    buffer = np.frombuffer(_PADDING + block + _PADDING, dtype=np.uint8)
    starts, ends, newlines = _lines(buffer)
    if (newlines - starts).max(initial=0) > MAX_LINE_BYTES:
        return None
    negative = buffer[starts] == _MINUS
    lengths = ends - starts - negative
    is_hex = (ends - starts == _HEX_LENGTH) & (buffer[starts] == _ZERO) & (buffer[starts + 1] == _X)
    if not is_hex.any():
        return _decimals(buffer, ends, lengths, negative)
    is_decimal = ~is_hex
    decimals = _decimals(buffer, ends[is_decimal], lengths[is_decimal], negative[is_decimal])
    hexes = _hexes(buffer, ends[is_hex])
    if decimals is None or hexes is None:
        return None
    fingerprints = np.empty(len(ends), dtype=np.uint64)
    fingerprints[is_decimal] = decimals
    fingerprints[is_hex] = hexes
    return fingerprints


def _lines(
    buffer: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each line that is not empty begins, its fingerprint ends, and it ends."""
    separators = np.flatnonzero((buffer == _NEWLINE) | (buffer == _TAB))
    is_newline = buffer[separators] == _NEWLINE
    newlines = separators[is_newline]
    starts = np.concatenate(([len(_PADDING)], newlines[:-1] + 1))
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

    The lines are whole and valid. Ids are copied together, by a mask of their bytes.
    """
    import pyarrow as pa

    from mr_dedup.formats.id_text import unescape_ids

    buffer = np.frombuffer(_PADDING + block, dtype=np.uint8)
    _, ends, newlines = _lines(buffer)
    has_id = buffer[ends] == _TAB
    starts = np.where(has_id, ends + 1, newlines)
    stops = newlines - (has_id & (buffer[newlines - 1] == _RETURN))
    depths = np.zeros(len(buffer), dtype=np.int8)
    depths[starts] += 1
    depths[stops] -= 1
    data = buffer[depths.cumsum(dtype=np.int8).view(np.bool_)]
    offsets = np.concatenate(([0], np.cumsum(stops - starts)))
    validity = np.packbits(has_id, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (validity, offsets, data)]
    ids = pa.Array.from_buffers(pa.large_binary(), len(has_id), buffers)
    try:
        fields = ids.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = [
            None if id is None else id.decode(errors="backslashreplace") for id in ids.to_pylist()
        ]
        fields = pa.array(decoded, pa.large_string())
    return unescape_ids(fields)


def _digit_masks() -> NDArray[np.uint64]:
    """Return masks of the bytes of 0 to 20 digits in 3 little-endian words of 8 bytes."""
    masks = np.zeros((_MAX_DIGITS + 1, 24), dtype=np.uint8)
    for digits in range(1, _MAX_DIGITS + 1):
        masks[digits, -digits:] = 0xFF
    return masks.view("<u8")


_DIGIT_MASKS = _digit_masks()
_U = np.uint64
_ASCII_ZEROS = _U(0x3030303030303030)
_OVER_NINE = _U(0x7676767676767676)
_HIGH_BITS = _U(0x8080808080808080)
_TWO_PAIRS = _U(0x000000FF000000FF)


def _decimals(
    buffer: NDArray[np.uint8],
    ends: NDArray[np.int64],
    lengths: NDArray[np.int64],
    negative: NDArray[np.bool_],
) -> NDArray[np.uint64] | None:
    """Return the numbers of ``lengths`` digits that end before ``ends``; None if any is invalid."""
    if not len(ends):
        return np.empty(0, dtype=np.uint64)
    if lengths.min() < 1 or lengths.max() > _MAX_DIGITS:
        return None
    # 8 digits a word, the last digit in its highest byte; bytes before the number become 0
    words: NDArray[np.uint64] = _preceding(buffer, ends, 24).view("<u8")
    words ^= _ASCII_ZEROS
    words &= _DIGIT_MASKS[lengths]
    if (((words + _OVER_NINE) | words) & _HIGH_BITS).any():
        return None
    # digits to pairs, pairs to fours, fours to eights, all words at once
    words = words * _U(10) + (words >> _U(8))
    pairs = (words >> _U(16)) & _TWO_PAIRS
    words &= _TWO_PAIRS
    words *= _U(100 + (1_000_000 << 32))
    words += pairs * _U(1 + (10_000 << 32))
    words >>= _U(32)
    top = words[:, 0]
    low16 = words[:, 1] * _U(10**8) + words[:, 2]
    values = top * _U(10**16) + low16
    too_large = (top > 1844) | ((top == 1844) & (low16 > 6744073709551615))
    too_large |= negative & (values > _U(2**63))
    if too_large.any():
        return None
    np.negative(values, out=values, where=negative)
    return values


def _nibbles() -> NDArray[np.uint8]:
    """Return the value of each byte as a hex digit, 255 where it is none."""
    table = np.full(256, 255, dtype=np.uint8)
    for value, digit in enumerate("0123456789abcdef"):
        table[[ord(digit), ord(digit.upper())]] = value
    return table


_NIBBLES = _nibbles()


def _hexes(buffer: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """Return the numbers whose 16 hex digits end before ``ends``; None if any is invalid."""
    nibbles = _NIBBLES[_preceding(buffer, ends, 16)]
    if (nibbles == 255).any():
        return None
    octets: NDArray[np.uint8] = (nibbles[:, 0::2] << np.uint8(4)) | nibbles[:, 1::2]
    values: NDArray[np.uint64] = octets.view(">u8").ravel().astype(np.uint64)
    return values


def _preceding(
    buffer: NDArray[np.uint8], ends: NDArray[np.int64], width_bytes: int
) -> NDArray[np.uint8]:
    """Return the ``width_bytes`` bytes before each of ``ends``, a contiguous row each."""
    windows = np.lib.stride_tricks.sliding_window_view(buffer, width_bytes)
    return np.ascontiguousarray(windows[ends - width_bytes])


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
