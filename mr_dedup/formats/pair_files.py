"""Pairs of documents by their ids, read from text: one pair a line, its ids separated by a TAB.

Ids are escaped as by ``formats/id_text.py``. Lines end with LF or CR LF; empty lines are skipped. A
first line that starts with the fields id_a and id_b is a header. The similarity of true pairs is in
the column that a header calls jaccard, or else similarity; without a header in the third. Further
columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.compression import compression_by_suffix
from mr_dedup.formats.content import open_content
from mr_dedup.formats.id_text import unescape_ids
from mr_dedup.formats.lines import NonEmptyLines, line_blocks

MAX_LINE_BYTES = 1 << 30
"""A line is in memory as a whole: it may list all near-duplicates of a document."""

_HEADER = ["id_a", "id_b"]
SIMILARITY_COLUMNS = ("jaccard", "similarity")


@dataclass(frozen=True)
class DocumentPairs:
    """n pairs of documents in the order listed: the ids ``first`` and ``second``, without nulls."""

    first: pa.LargeStringArray
    second: pa.LargeStringArray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class TruePairs(DocumentPairs):
    """True pairs with their ``similarities``, float64[n] from 0 to 1, each pair with one."""

    similarities: NDArray[np.float64]

    def refuse_repeated(self, ids: pa.LargeStringArray) -> None:
        """Raise MrDedupError if a pair has one of ``ids`` that occurs more than once."""
        counted = ids.value_counts()
        repeated = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        named = pc.is_in(repeated, value_set=pa.concat_arrays([self.first, self.second]))
        for id in repeated.filter(named)[:1].to_pylist():
            raise MrDedupError(f"several documents have the id {id!r}, which is in the true pairs")


def read_pairs(path: Path | None, *, as_matches: bool = False) -> DocumentPairs:
    """Read pairs. Takes some microseconds a line, and twice all ids in memory.

    Args:
        path: the file; None for standard input.
        as_matches: read the output of ``query``: the first id of a line makes a pair with each of
            the others.

    Raises:
        FormatError: for a line that is not a pair.
        MrDedupError: if the file cannot be read.
    """
    name = "stdin" if path is None else str(path)
    parts = [_no_ids(), _no_ids()]
    for numbers, rows in _rows(path, name):
        _take_header(numbers, rows)
        for line, row in zip(numbers, rows, strict=True):
            if len(row) < 2 or not all(row[:2]) or (as_matches and not all(row)):
                raise FormatError(name, f"line {line}", "expected two ids, separated by a TAB")
        rows = rows if as_matches else [row[:2] for row in rows]
        parts.append(_ids([row[0] for row in rows for _ in row[1:]]))
        parts.append(_ids([id for row in rows for id in row[1:]]))
    return DocumentPairs(pa.concat_arrays(parts[::2]), pa.concat_arrays(parts[1::2]))


def read_truth(path: Path) -> TruePairs:
    """Read true pairs with their similarities, as ``data-gen documents`` writes them.

    Takes the time and memory of read_pairs.

    Raises:
        FormatError: for a header without a column of similarities, a line that is not a pair with a
            similarity from 0 to 1, a pair of a document with itself, and a pair with two different
            similarities.
        MrDedupError: if the file cannot be read.
    """
    name = str(path)
    firsts, seconds, lines = [_no_ids()], [_no_ids()], [np.empty(0, np.int64)]
    similarities = [np.empty(0, np.float64)]
    column = 2
    for numbers, rows in _rows(path, name):
        if header := _take_header(numbers, rows):
            column = _similarity_column(header, name)
        values = [
            _similarity(row, column, name, line) for line, row in zip(numbers, rows, strict=True)
        ]
        similarities.append(np.array(values, np.float64))
        lines.append(np.array(numbers, np.int64))
        firsts.append(_ids([row[0] for row in rows]))
        seconds.append(_ids([row[1] for row in rows]))
    truth = TruePairs(
        pa.concat_arrays(firsts), pa.concat_arrays(seconds), np.concatenate(similarities)
    )
    _refuse_contradictions(truth, np.concatenate(lines), name)
    return truth


def _rows(path: Path | None, name: str) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield the numbers and fields of lines, a block at a time, without empty lines."""
    compression = compression_by_suffix(path) if path else None
    with open_content(path, name, compression) as content:
        number = 1
        for block in line_blocks(content, 0, None, MAX_LINE_BYTES):
            lines = NonEmptyLines.of(block)
            if lines.content is None:
                raise FormatError(name, f"line {number}", f"is longer than {MAX_LINE_BYTES} bytes")
            numbers = (lines.numbers + number).tolist()
            yield numbers, _fields(lines.content, lines, name, number)
            number += lines.line_count


def _take_header(numbers: list[int], rows: list[list[str]]) -> list[str] | None:
    """Remove the header from the lines of a block; return its fields, None if there is none."""
    if numbers[:1] != [1] or rows[0][:2] != _HEADER:
        return None
    del numbers[0]
    return rows.pop(0)


def _similarity_column(header: list[str], name: str) -> int:
    """Return the index of the column of similarities; raise FormatError if there is none."""
    for column in SIMILARITY_COLUMNS:
        if column in header:
            return header.index(column)
    others = ", ".join(header[2:])
    reason = f"has no column jaccard{f', but {others}' if others else ''}"
    raise FormatError(name, "line 1", reason)


def _fields(content: bytes, lines: NonEmptyLines, name: str, number: int) -> list[list[str]]:
    """Return the fields of the lines of a block that starts with line ``number``."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = number + content.count(b"\n", 0, error.start)
        raise FormatError(name, f"line {line}", "is not UTF-8") from error
    spans = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
    return [content[start:end].decode().split("\t") for start, end in spans]


def _similarity(row: list[str], column: int, name: str, line: int) -> float:
    """Return the similarity of a true pair; raise FormatError if the line is invalid."""
    location = f"line {line}"
    if len(row) <= column or not all(row[:2]):
        raise FormatError(
            name, location, "expected two ids and their similarity, separated by TABs"
        )
    if row[0] == row[1]:
        raise FormatError(name, location, "pairs a document with itself")
    try:
        value = float(row[column])
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise FormatError(name, location, f"{row[column]!r} is not a similarity from 0 to 1")
    return value


def _refuse_contradictions(truth: TruePairs, lines: NDArray[np.int64], name: str) -> None:
    """Raise FormatError if a pair occurs with two different similarities."""
    ids = pa.concat_arrays([truth.first, truth.second]).dictionary_encode()
    numbers = ids.indices.to_numpy().astype(np.int64).reshape(2, -1)
    keys = numbers.min(axis=0) * len(ids.dictionary) + numbers.max(axis=0)
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    other = truth.similarities[order[1:]] != truth.similarities[order[:-1]]
    for row in np.flatnonzero(again & other)[:1]:
        first, second = lines[order[row]], lines[order[row + 1]]
        reason = f"repeats the pair of line {first} with another similarity"
        raise FormatError(name, f"line {second}", reason)


def _ids(ids: list[str]) -> pa.LargeStringArray:
    return unescape_ids(pa.array(ids, pa.large_string()))


def _no_ids() -> pa.LargeStringArray:
    return _ids([])
