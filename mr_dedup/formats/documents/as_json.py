"""Records of all formats as JSON lines: an object a document, with the names it is read by."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.encoding import decode
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.row_sizes import storage_type

_ENCODER = msgspec.json.Encoder(enc_hook=str)


def rows_as_json(rows: pa.Table, file: str, options: ReadOptions) -> pa.LargeBinaryArray:
    """Return rows of a Parquet file as JSON lines, with all their columns.

    Ids and texts in columns of bytes become text, as they were read; other bytes are in base64,
    dates in ISO 8601, decimal numbers text, maps arrays of pairs; text of JSON is what it says; NaN
    and infinity are null.

    Raises:
        MrDedupError: a column is repeated, a value cannot be expressed, or a line is longer than
            the options allow.
    """
    names = rows.column_names
    for name in names:
        if names.count(name) > 1:
            raise MrDedupError(f"{file}: has {names.count(name)} columns {name!r}, as JSON cannot")
    text_of: dict[str, Callable[[bytes], str]] = {
        **dict.fromkeys((*options.id_names, options.text_name), lambda data: str(data, "utf-8")),
        options.html_name: decode,
    }
    columns = []
    for name, column in zip(names, rows.columns, strict=True):
        values = _values(column)
        if name in text_of:
            convert = text_of[name]
            values = [convert(each) if isinstance(each, bytes) else each for each in values]
        columns.append(values)
    try:
        lines = [
            _ENCODER.encode(dict(zip(names, row, strict=True))) + b"\n"
            for row in zip(*columns, strict=True)
        ]
    except (ValueError, TypeError, OverflowError) as error:
        raise MrDedupError(f"{file}: a row cannot be written as JSON: {error}") from error
    return _checked(lines, lambda _: file, options)


def texts_as_json(
    ids: pa.LargeStringArray, texts: pa.LargeStringArray, options: ReadOptions
) -> pa.LargeBinaryArray:
    """Return ids and texts of documents as JSON lines; MrDedupError for one that is too long.

    >>> texts_as_json(pa.array(["a"]), pa.array(["one"]), ReadOptions()).to_pylist()
    [b'{"id":"a","text":"one"}\\n']
    """
    id_name, text_name = options.id_names[0], options.text_name
    lines = [
        _ENCODER.encode({id_name: id, text_name: text}) + b"\n"
        for id, text in zip(ids.to_pylist(), texts.to_pylist(), strict=True)
    ]
    return _checked(lines, lambda row: str(ids[row]), options)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python objects."""
    kind = column.type
    if pa.types.is_temporal(kind) and getattr(kind, "unit", "") == "ns":
        # Python has no nanoseconds
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if storage_type(kind) != kind:
        return [_with_json(value, kind) for value in values]
    return values


def _with_json(value: Any, kind: pa.DataType) -> Any:
    """Return a value with the JSON that it has as text."""
    if kind == pa.json_() and value is not None:
        try:
            msgspec.json.decode(value)
        except (ValueError, RecursionError):
            return value
        # line ends are between values, as in strings they are escaped
        return msgspec.Raw(re.sub("[\r\n]", " ", value).encode())
    if pa.types.is_struct(kind) and value is not None:
        return {each.name: _with_json(value[each.name], each.type) for each in kind}
    if pa.types.is_list(kind) and value is not None:
        return [_with_json(each, kind.value_type) for each in value]
    return value


def _checked(
    lines: list[bytes], name_of: Callable[[int], str], options: ReadOptions
) -> pa.LargeBinaryArray:
    """Return lines as an array; MrDedupError for one that could not be read again."""
    lengths = [len(line) - 1 for line in lines]
    longest = max(lengths, default=0)
    if longest > options.max_record_bytes:
        raise MrDedupError(
            f"{name_of(lengths.index(longest))}: has {longest:,} bytes as a line of JSON, more "
            f"than the {options.max_record_bytes:,} of --max-record-size"
        )
    return pa.array(lines, pa.large_binary())
