"""Write cut texts into the records that they are of."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.json_edits import added_member, offsets_in_string, text_member
from mr_dedup.formats.parquet_rows import is_string
from mr_dedup.formats.tables import one_array
from mr_dedup.passages.cutting import Slices, spliced


class LineEdits(NamedTuple):
    """What was done to JSON lines: c edits, one for each cut; null where there is none.

    Attributes:
        starts: int64, where in the line something was replaced.
        removed: large_binary, by what is to be put back.
        written: int32, how many bytes are in its place.
        checksums: uint64, the XXH3 of the record, or of its text, before it was cut.
    """

    starts: pa.Array
    removed: pa.Array
    written: pa.Array
    checksums: pa.Array


def checksum(content: bytes) -> int:
    """Return the checksum of a record or a text."""
    return xxhash.xxh3_64_intdigest(content)


def edits_of_rows(texts: pa.LargeStringArray, slices: Slices) -> LineEdits:
    """Return the edits of records that are no lines: only the checksums of their texts."""
    nothing = pa.nulls(len(slices))
    sums = {row: checksum(texts[row].as_buffer()) for row in np.unique(slices.rows).tolist()}
    known = pa.array([sums[row] for row in slices.rows.tolist()], pa.uint64())
    return LineEdits(nothing, nothing, nothing, known)


def cut_lines(
    lines: pa.LargeBinaryArray,
    cut: pa.LargeStringArray,
    slices: Slices,
    spaces: NDArray[np.bool_],
    text_name: str,
) -> tuple[pa.LargeBinaryArray, LineEdits]:
    """Return JSON lines whose texts are cut, and what was done to them.

    Nothing else of a line changes. A line without a text, or with one of white space, which has
    HTML, gets a member for it.

    Args:
        lines: n records.
        cut: Their texts, cut.
        slices: What is cut out of the texts.
        spaces: As in ``cut_texts``.
        text_name: The member that is the text.
    """
    starts: list[int | None] = []
    removed: list[bytes | None] = []
    written: list[int | None] = []
    checksums: list[int] = []
    pieces, at = [], 0
    rows, begins = np.unique(slices.rows, return_index=True)
    ends = np.append(begins[1:], len(slices))
    for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
        line = lines[row].as_py()
        checksums += [checksum(line)] * (end - begin)
        found = text_member(line, text_name)
        if found is None or not msgspec.json.decode(line[slice(*found)]).strip():
            where, member = added_member(line, text_name, cut[row].as_py())
            line = spliced(line, [where], [where], [member])
            more = end - begin - 1
            starts += [where, *[None] * more]
            removed += [b"", *[None] * more]
            written += [len(member), *[None] * more]
        else:
            string = line[found[0] : found[1]]
            edges = np.stack([slices.starts[begin:end], slices.stops[begin:end]])
            first, last = offsets_in_string(string, edges.ravel()).reshape(2, -1) + found[0]
            put = [b" " if space else b"" for space in spaces[begin:end]]
            where_all, stops = first.tolist(), last.tolist()
            starts += where_all
            removed += [line[a:b] for a, b in zip(where_all, stops, strict=True)]
            written += map(len, put)
            line = spliced(line, where_all, stops, put)
        pieces += [lines.slice(at, row - at), pa.array([line], pa.large_binary())]
        at = row + 1
    pieces.append(lines.slice(at))
    edits = LineEdits(
        pa.array(starts, pa.int64()),
        pa.array(removed, pa.large_binary()),
        pa.array(written, pa.int32()),
        pa.array(checksums, pa.uint64()),
    )
    return pa.concat_arrays(pieces), edits


def cut_rows(
    rows: pa.Table, cut: pa.LargeStringArray, changed: NDArray[np.int64], name: str, called: str
) -> pa.Table:
    """Return rows of a Parquet file whose texts are cut.

    Args:
        rows: n rows.
        cut: Their texts, cut.
        changed: Which rows are cut, int64[c].
        name: The column that is the text.
        called: What an error begins with: the file of the rows, and the option that cuts.

    Raises:
        MrDedupError: If a row has its text elsewhere.
    """
    if not changed.size:
        return rows
    index = rows.column_names.index(name) if name in rows.column_names else -1
    before = as_bytes(one_array(rows.column(index))) if index >= 0 else None
    of_changed = [] if before is None else before.take(pa.array(changed)).to_pylist()
    if before is None or not all(text and text.strip() for text in of_changed):
        raise MrDedupError(f"{called}: rows without {name!r}, whose text is in HTML, cannot be cut")
    field = rows.schema.field(index)
    chosen = np.zeros(len(rows), bool)
    chosen[changed] = True
    texts = pc.if_else(pa.array(chosen), cut.cast(pa.large_binary()), before)
    return rows.set_column(index, field, as_column(texts, field.type))


def as_bytes(column: pa.Array) -> pa.LargeBinaryArray:
    """Return a column of texts of any type, in UTF-8."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.large_binary())
    if is_string(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary())


def as_column(texts: pa.LargeBinaryArray, kind: pa.DataType) -> pa.Array:
    """Return texts as a column of a type, the reverse of ``as_bytes``."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, as_column(texts, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return as_column(texts, kind.value_type).dictionary_encode().cast(kind)
    return (texts.cast(pa.large_string()) if is_string(kind) else texts).cast(kind)
