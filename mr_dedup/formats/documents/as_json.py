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
from mr_dedup.formats.value_text import plain_values, python_values, value_texts

_ENCODER = msgspec.json.Encoder(enc_hook=str)


def rows_as_json(rows: pa.Table, file: str, options: ReadOptions) -> pa.LargeBinaryArray:
    """Return rows of a Parquet file as JSON lines, with all their columns.

    Ids have the form by which they were read, texts in columns of bytes become text; other bytes
    are in base64, dates in ISO 8601, decimal numbers text, maps arrays of pairs; text of JSON is
    what it says; NaN and infinity are null.

    Raises:
        MrDedupError: a column is repeated, a value cannot be expressed, or a line is longer than
            the options allow.
    """
    names = rows.column_names
    for name in names:
        if names.count(name) > 1:
            raise MrDedupError(f"{file}: has {names.count(name)} columns {name!r}, as JSON cannot")
    try:
        columns = [
            _values(name, column, options) for name, column in zip(names, rows.columns, strict=True)
        ]
        lines = [
            _ENCODER.encode(dict(zip(names, row, strict=True))) + b"\n"
            for row in zip(*columns, strict=True)
        ]
    except (ValueError, TypeError, OverflowError) as error:
        raise MrDedupError(f"{file}: a row cannot be written as JSON: {error}") from error
    return _checked(lines, lambda _: file, options)


def _values(name: str, column: pa.ChunkedArray, options: ReadOptions) -> list[Any]:
    """Return the values of a column as JSON has them; ids have the form by which they are read."""
    types, kind = pa.types, plain_values(column.slice(0, 0)).type
    is_json = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    is_json = is_json or kind == pa.json_()
    if name in options.id_names and not (is_json or types.is_nested(kind)):
        ids: list[Any] = value_texts(column).to_pylist()
        return ids
    values = python_values(plain_values(column))
    if storage_type(kind) != kind:
        values = [_with_json(value, kind) for value in values]
    if name in (options.text_name, options.html_name):
        of_bytes = decode if name == options.html_name else bytes.decode
        return [of_bytes(each) if isinstance(each, bytes) else each for each in values]
    return values


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
