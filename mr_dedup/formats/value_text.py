"""Values of Arrow columns as text: ids, and fields that are kept.

A value has one form, however it is stored: whole numbers are digits, whether they are integers or
floats; decimal numbers have the digits of their scale; other floats are the shortest that is read
as the same; booleans are ``true`` and ``false``; UUIDs have hyphens; dates and times are as Arrow
prints them. Bytes are text if they are UTF-8, and else hexadecimal, as bytes of a fixed size
always are. NaN and infinity have no form, nor have nested values but as JSON.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mr_dedup.formats.parquet_rows import is_text, with_children

_ENCODER = msgspec.json.Encoder(enc_hook=str)

_MAX_WHOLE = float(1 << 63)
"""Larger floats are written with an exponent."""


def value_texts(column: pa.ChunkedArray, as_field: bool = False) -> pa.ChunkedArray:
    """Return the values of a column as large strings; null where they have no form.

    ``as_field`` nested ones are JSON, and infinity is ``inf``.

    >>> value_texts(pa.chunked_array([[1.0, 2.5, float("nan")]])).to_pylist()
    ['1', '2.5', None]
    """
    column = plain_values(column)
    kind = column.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        storage = column.cast(kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            return _each(storage, lambda value: str(uuid.UUID(bytes=value)))
        is_bool = kind.extension_name == "arrow.bool8"
        return value_texts(storage.cast(pa.bool_()) if is_bool else storage, as_field)
    if is_text(kind):
        return _decoded(column)
    if types.is_fixed_size_binary(kind):
        return _each(column, bytes.hex)
    if types.is_floating(kind):
        # null is NaN; the floats of NumPy are printed with the digits of their type
        values = column.to_numpy()
        texts = [
            str(value) if as_field and math.isinf(value) else float_text(value) for value in values
        ]
        return pa.chunked_array([texts], pa.large_string())
    if types.is_decimal(kind):
        return _each(column, lambda value: f"{value:f}")
    if types.is_nested(kind):
        if not as_field:
            return pa.chunked_array([pa.nulls(len(column), pa.large_string())])
        values = python_values_or_null(column)
        texts = [None if value is None else _ENCODER.encode(value).decode() for value in values]
        return pa.chunked_array([texts], pa.large_string())
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        # of a zone that this machine does not know
        return _cast(column, _in_utc).cast(pa.large_string())


def plain_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionaries and run-end encoding."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_values(column.cast(kind.value_type))
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(kind) else column


def float_text(value: float) -> str | None:
    """Return a number as text: a whole one as digits; None of NaN and infinity.

    >>> float_text(3.0), float_text(0.1), float_text(math.inf)
    ('3', '0.1', None)
    """
    number = float(value)
    if not math.isfinite(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < _MAX_WHOLE else str(value)


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python objects, times that Python lacks as text.

    Raises UnicodeDecodeError for a string that is not UTF-8.
    """
    try:
        values: list[Any] = _cast(column, _without_ns).to_pylist()
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError):
        # beyond the year 9999, or of a zone that this machine does not know
        values = _cast(_cast(column, _in_utc), _without_times).to_pylist()
    return values


def python_values_or_null(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as ``python_values``, None for strings that are not UTF-8."""
    try:
        return python_values(column)
    except UnicodeDecodeError:
        return list(itertools.chain(*map(_value_or_null, column)))


def _value_or_null(value: pa.Scalar) -> list[Any]:
    try:
        return python_values(pa.chunked_array([pa.array([value])]))
    except UnicodeDecodeError:
        return [None]


def _cast(column: pa.ChunkedArray, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.ChunkedArray:
    """Return a column with other types in place of those that are not nested."""

    def changed(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return changed(kind.value_type)
        if not pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            return leaf(kind)
        before = [kind.field(number) for number in range(kind.num_fields)]
        inside = [field.with_type(changed(field.type)) for field in before]
        return kind if inside == before else with_children(kind, inside)

    kind = changed(column.type)
    return column if kind == column.type else column.cast(kind)


def _without_ns(kind: pa.DataType) -> pa.DataType:
    is_ns = pa.types.is_temporal(kind) and getattr(kind, "unit", "") == "ns"
    return pa.string() if is_ns else kind


def _without_times(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_temporal(kind) else kind


def _in_utc(kind: pa.DataType) -> pa.DataType:
    has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if has_zone else kind


def _each(column: pa.ChunkedArray, text_of: Callable[[Any], str | None]) -> pa.ChunkedArray:
    """Return what a function makes of each value; null stays null."""
    texts = [None if value is None else text_of(value) for value in column.to_pylist()]
    return pa.chunked_array([texts], pa.large_string())


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return strings or bytes as large strings, what is not UTF-8 in hexadecimal."""
    try:
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _each(column.cast(pa.large_binary()), _utf8_or_hex)
    return texts


def _utf8_or_hex(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
