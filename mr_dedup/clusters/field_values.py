"""Columns of text read as numbers or as times: sort keys, null where a value is neither.

A value has two keys, for a double alone would make equal what differs: numbers of 17 digits, times
less than a microsecond apart.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_EMPTY = pa.scalar("", pa.large_string())

_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_WHOLE = r"^[+-]?\d{1,18}$"

_ZONE = r"(?: ?(?:[Zz]|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)?))?"
_FRACTION = r"(?:[.,](?P<fraction>\d+))?"
_EXTENDED = (
    r"^(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:[Tt ]"
    rf"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d){_FRACTION})?{_ZONE})?)?)?$"
)
# a month and a day of a calendar: 1700000000 is a number of seconds
_BASIC = (
    r"^(?P<year>\d{4})(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?:[Tt]?"
    rf"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d){_FRACTION}{_ZONE})?$"
)


def numbers(column: pa.LargeStringArray) -> list[pa.Array]:
    """Return two keys for each value: the number as a double, and what that leaves over.

    Decimal notation, also with an exponent. Whole numbers of up to 18 digits are compared exactly,
    others as doubles. Null for anything else, and for what exceeds a double.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    doubles = _cast_where(_NUMBER, trimmed, pa.float64())
    doubles = pc.if_else(pc.is_finite(doubles), doubles, None)
    whole = _cast_where(_WHOLE, trimmed, pa.int64())
    rounded = pc.cast(pc.if_else(pc.is_valid(whole), doubles, None), pa.int64())
    return [doubles, pc.fill_null(pc.subtract(whole, rounded), 0)]


def times(column: pa.LargeStringArray) -> list[pa.Array]:
    """Return two keys for each value: seconds since 1970, UTC, and the fraction of one.

    ISO 8601 calendar dates and times, shortened to a month or a year too, in extended form
    (2024-05-31T12:00:00+02:00) or basic form (20240531, 20240531120000); the earliest moment that
    fits, UTC where no zone is given. Any other number counts as seconds since 1970. Null for
    anything else, and for days that no calendar has. 2 to 3 microseconds a value.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    doubles, _ = numbers(trimmed)
    seconds = pc.floor(doubles)
    keys = [seconds, pc.subtract(doubles, seconds)]
    for pattern in (_EXTENDED, _BASIC):
        parts = pc.extract_regex(trimmed, pattern)
        found = pc.is_valid(parts)
        keys = [pc.if_else(found, new, old) for new, old in zip(_moments(parts), keys, strict=True)]
    seconds, fractions = keys
    return [seconds, pc.if_else(pc.is_valid(seconds), fractions, None)]


def _cast_where(pattern: str, texts: pa.LargeStringArray, to: pa.DataType) -> pa.Array:
    matched = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return pc.cast(pc.utf8_ltrim(pc.if_else(matched, texts, None), characters="+"), to)


def _moments(parts: pa.StructArray) -> list[pa.Array]:
    """Return the two keys of what a pattern has cut out, null where there is no such moment."""
    month, day = _whole(parts, "month", 1), _whole(parts, "day", 1)
    hour, minute, second = (_whole(parts, name, 0) for name in ("hour", "minute", "second"))
    months = (_whole(parts, "year", 1970) - 1970) * 12 + month - 1
    first_days = months.astype("datetime64[M]").astype("datetime64[D]")
    days = first_days + (day - 1)
    exists = (month >= 1) & (month <= 12) & (day >= 1)
    exists &= days.astype("datetime64[M]").astype(np.int64) == months
    exists &= (hour < 24) & (minute < 60) & (second <= 60)  # 60: a leap second
    offset = 3600 * _whole(parts, "zone_hour", 0) + 60 * _whole(parts, "zone_minute", 0)
    west = pc.equal(_part(parts, "sign", "+"), "-").to_numpy(zero_copy_only=False)
    offset[west] *= -1
    seconds = 86400 * days.astype(np.int64) + 3600 * hour + 60 * minute + second - offset
    prefix = pa.scalar("0.", pa.large_string())
    fraction = pc.binary_join_element_wise(prefix, _part(parts, "fraction", "0"), _EMPTY)
    return [pa.array(seconds.astype(np.float64), mask=~exists), pc.cast(fraction, pa.float64())]


def _whole(parts: pa.StructArray, name: str, default: int) -> NDArray[np.int64]:
    values = pc.cast(_part(parts, name, str(default)), pa.int64())
    whole: NDArray[np.int64] = values.to_numpy().copy()
    return whole


def _part(parts: pa.StructArray, name: str, default: str) -> pa.LargeStringArray:
    """Return one part of every value, ``default`` where it is missing or nothing matched."""
    texts = pc.fill_null(pc.struct_field(parts, name), "")
    return pc.if_else(pc.equal(texts, ""), pa.scalar(default, pa.large_string()), texts)
