"""Members of JSON objects as columns of Arrow: the type that has room for all values, and these.

A column has one type. Numbers are integers of 64 bits, decimals where these are too small, or
doubles, unless an integer among them would change. Objects are structs. What no such type has
without a change is text of JSON, of the type ``arrow.json``: values of several types, objects with
keys of their own, which would each be a column, and values deeper than 16 levels.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mr_dedup.formats.documents.json_strings import texts_of
from mr_dedup.formats.parquet_rows import is_string
from mr_dedup.formats.row_sizes import storage_type

_BOOL, _INTEGER, _FLOAT, _TEXT, _LIST, _OBJECT = (1 << bit for bit in range(6))
_NEGATIVE, _UNSIGNED, _BIG, _INEXACT, _JSON = (1 << bit for bit in range(6, 11))
_TYPES = _NEGATIVE - 1

_FLAGS: dict[type, int] = {type(None): 0, bool: _BOOL, float: _FLOAT, str: _TEXT}

_MAX_DEPTH = 16

_MAX_MEMBERS, _FEW_MEMBERS, _MIN_FILLED = 1000, 64, 1 / 16
"""A struct has so many members at most; more than a few if the objects have this share of them."""

_DECIMAL_DIGITS = 38

_BLANK = re.compile(r"[ \t\r\n]*")
_KEY_END = re.compile(rb'"[ \t\r\n]*:')

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = b"null"

Members = Mapping[str, msgspec.Raw | bytes]
"""The members of an object, each as it is in JSON."""


class Kind(msgspec.Struct, omit_defaults=True):
    """What the values of one member are; of many values the same, however they are divided.

    Attributes:
        flags: Of the types of values, and of sizes of integers.
        objects: How many values are objects.
        filled: How many members these have, all together.
        members: Of each member what it is; none if they are text of JSON.
        items: What the items of lists are.
    """

    flags: int = 0
    objects: int = 0
    filled: int = 0
    members: dict[str, Kind] = {}
    items: Kind | None = None

    def add(self, values: Sequence[Any], depth: int = 0) -> None:
        """Add decoded values; _TextOnlyError if some are nested too deeply for columns."""
        kinds = set(map(type, values))
        for kind in kinds:
            some: Any = (
                values if len(kinds) == 1 else [each for each in values if type(each) is kind]
            )
            if kind is int:
                self._add_integers(min(some), max(some))
            elif kind is str:
                self.flags |= _TEXT if _is_unicode(some) else _TEXT | _JSON
            elif kind in _FLAGS:
                self.flags |= _FLAGS[kind]
            elif depth == _MAX_DEPTH:
                raise _TextOnlyError
            elif kind is list:
                self.flags |= _LIST
                self.items = self.items or Kind()
                self.items.add(list(chain.from_iterable(some)), depth + 1)
            else:
                self._add_objects(some, depth)

    def _add_integers(self, smallest: int, largest: int) -> None:
        size = max(-smallest, largest)
        self.flags |= _INTEGER | (_NEGATIVE if smallest < 0 else 0)
        self.flags |= _UNSIGNED if largest >= 1 << 63 else 0
        self.flags |= _INEXACT if size > 1 << 53 else 0
        self.flags |= _BIG if smallest < -(1 << 63) or largest >= 1 << 64 else 0
        self.flags |= _JSON if size >= 10**_DECIMAL_DIGITS else 0

    def _add_objects(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        self.flags |= _OBJECT
        self.objects += len(objects)
        self.filled += sum(map(len, objects))
        columns: dict[str, list[Any]] = defaultdict(list)
        for each in objects if not self.flags & _JSON else ():
            for name, value in each.items():
                columns[name].append(value)
        if not _is_unicode(columns) or len(self.members.keys() | columns.keys()) > _MAX_MEMBERS:
            self.become_json()
            return
        for name, values in columns.items():
            self.members.setdefault(name, Kind()).add(values, depth + 1)

    def become_json(self) -> None:
        """Make text of JSON of all values."""
        self.flags |= _JSON
        self.members, self.items = {}, None

    def merge(self, other: Kind) -> None:
        """Add the values of another one."""
        self.flags |= other.flags
        self.objects += other.objects
        self.filled += other.filled
        if self.flags & _JSON or len(self.members.keys() | other.members.keys()) > _MAX_MEMBERS:
            self.become_json()
            return
        merge_kinds(self.members, other.members)
        if other.items is not None:
            self.items = self.items or Kind()
            self.items.merge(other.items)

    def arrow_type(self) -> pa.DataType:
        """Return the type of a column for the values: null if these are all null."""
        types = self.flags & _TYPES
        if self.flags & _JSON:
            return pa.json_()
        if types == _INTEGER:
            if self.flags & _BIG:
                return pa.decimal128(_DECIMAL_DIGITS)
            if not self.flags & _UNSIGNED:
                return pa.int64()
            return pa.decimal128(20) if self.flags & _NEGATIVE else pa.uint64()
        if types == _LIST:
            assert self.items is not None
            return pa.list_(self.items.arrow_type())
        if types == _OBJECT and self._has_columns():
            return pa.struct([(name, each.arrow_type()) for name, each in self.members.items()])
        if types == _INTEGER | _FLOAT and not self.flags & _INEXACT:
            types = _FLOAT
        simple = {0: pa.null(), _BOOL: pa.bool_(), _FLOAT: pa.float64(), _TEXT: pa.string()}
        return simple.get(types, pa.json_())

    def _has_columns(self) -> bool:
        count = len(self.members)
        return 0 < count <= _FEW_MEMBERS or (
            count > 0 and self.filled >= count * self.objects * _MIN_FILLED
        )


def merge_kinds(kinds: dict[str, Kind], others: Mapping[str, Kind]) -> None:
    """Add the values of other members to those of the same names."""
    for name, other in others.items():
        kinds.setdefault(name, Kind()).merge(other)


class _TextOnlyError(ValueError):
    """A member of which only the text of JSON has all: values are too large, too deep, …"""


def members_of(line: bytes) -> Members:
    """Return the members of a line, with NaN, infinity and half surrogate pairs as they are.

    Of members of one name the last one.

    Raises:
        ValueError: It is not an object.
    """
    try:
        return _members.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.DecodeError:
        return dict(_pairs(line))


def members_of_lines(lines: bytes, count: int | None = None) -> list[Members]:
    """Return the members of each line; those that are not objects are left out.

    Raises ValueError unless there are ``count``, if that is given.
    """
    found = _members_of_lines(lines)
    if count is not None and len(found) != count:
        raise ValueError(f"expected {count} objects")
    return found


def _members_of_lines(lines: bytes) -> list[Members]:
    try:
        return list(_members.decode_lines(lines))
    except (ValueError, RecursionError):
        found = []
        for line in lines.split(b"\n"):
            try:
                found.append(members_of(line))
            except (ValueError, RecursionError):
                continue
        return found


def _pairs(line: bytes) -> list[tuple[str, bytes]]:
    """Return the members of an object in their order, by Python's decoder, which takes NaN."""
    text = line.decode("utf-8-sig")
    found: list[tuple[str, bytes]] = []
    decode = json.JSONDecoder(parse_int=str).raw_decode

    def after(at: int, expected: str) -> int:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] not in expected:
            raise ValueError("is not JSON")
        return _BLANK.match(text, at + 1).end()  # type: ignore[union-attr]

    at = after(0, "{")
    while text[at : at + 1] != "}":
        if found:
            at = after(at, ",")
        name, at = decode(text, at)
        start = after(at, ":")
        _, stop = decode(text, start)
        found.append((name, text[start:stop].encode()))
        at = _BLANK.match(text, stop).end()  # type: ignore[union-attr]
    return found


def kinds_of(rows: Sequence[Members]) -> tuple[dict[str, Kind], int]:
    """Return what the members of lines are, by name, and ``count_keys`` of the lines.

    Raises UnicodeDecodeError if a value is not UTF-8.
    """
    columns: dict[str, list[msgspec.Raw | bytes]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    kinds: dict[str, Kind] = {}
    keys = sum(map(len, rows))
    for name, texts in columns.items():
        kinds[name] = kind = Kind()
        if texts_of(texts) is not None:
            kind.flags = _TEXT
            continue
        joined = b",".join(texts)
        keys += count_keys(joined)
        try:
            kind.add(_decoded(joined, is_checked=True))
        except _TextOnlyError:
            kind.become_json()
    return kinds, keys


def count_keys(lines: bytes) -> int:
    """Return how many keys objects have, if nothing or a space is between a key and its colon.

    If these are not as many as ``kinds_of`` found, a line may have two members of one name. A
    regular expression would take more time than all else.
    """
    # in a string a quote follows a backslash
    ends = ((end, b"\\" + end) for end in (b'":', b'" :'))
    return sum(lines.count(end) - lines.count(in_string) for end, in_string in ends)


def repeated_member(line: bytes) -> str | None:
    """Return the name of a member that a line has twice; None if there is none."""
    seen: set[str] = set()
    for name, _ in _pairs(line):
        if name in seen:
            return name
        seen.add(name)
    return None


def _decoded(joined: bytes, *, is_checked: bool = False) -> list[Any]:
    """Return values of JSON, with commas between them, as Python's.

    Raises UnicodeDecodeError if one is not UTF-8, and _TextOnlyError, some of them only if
    ``is_checked``, if one is another value then: 1e999, or of an object with repeated keys.
    """
    array = b"".join((b"[", joined, b"]"))
    try:
        values: list[Any] = msgspec.json.decode(array)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError):
        return _decoded_by_python(array)
    is_nested = is_checked and any(isinstance(each, dict | list) for each in values)
    if is_nested and len(_KEY_END.findall(joined)) != _count_keys(values):
        return _decoded_by_python(array)
    return values


def _decoded_by_python(array: bytes) -> list[Any]:
    try:
        values: list[Any] = json.loads(
            array.decode(), parse_float=_finite, object_pairs_hook=_distinct
        )
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise _TextOnlyError from error
    return values


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _TextOnlyError(text)
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _TextOnlyError
    return members


def _count_keys(values: Iterable[Any]) -> int:
    count, pending = 0, list(values)
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            count += len(each)
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return count


def _is_unicode(texts: Iterable[str]) -> bool:
    """Return whether texts can be UTF-8: have no half of a surrogate pair."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def as_columns(rows: Sequence[Members], schema: pa.Schema) -> pa.Table:
    """Return the members of lines as columns; those that are missing are null.

    Raises:
        ValueError: They have others, or values of other types.
    """
    unknown = set().union(*rows).difference(schema.names)
    if unknown:
        raise ValueError(f"has a member {min(unknown)!r}")
    columns = []
    for field in schema:
        name = field.name
        texts = [row.get(name, _NULL) for row in rows]
        try:
            columns.append(_column(texts, field.type))
        except (TypeError, OverflowError, pa.ArrowException) as error:
            raise ValueError(f"{name!r}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _column(texts: Sequence[msgspec.Raw | bytes], kind: pa.DataType) -> pa.Array:
    """Return values of JSON as an array of a type."""
    if all(text is _NULL for text in texts):
        # any type of Parquet files
        return pa.nulls(len(texts), kind)
    if is_string(kind) or kind == pa.json_():
        missing = np.fromiter((bytes(text) == _NULL for text in texts), bool, len(texts))
        if kind == pa.json_():
            plain = [str(bytes(text), "utf-8") for text in texts]
            return pa.array(plain, pa.string(), mask=missing).cast(kind)
        found = texts_of(
            [b'""' if null else text for text, null in zip(texts, missing, strict=True)]
        )
        if found is not None:
            if missing.any():
                found = pc.if_else(pa.array(missing), pa.scalar(None, found.type), found)
            return found.cast(kind)
    values = _decoded(b",".join(texts))
    stored = storage_type(kind)
    if stored == kind:
        return pa.array(values, kind)
    return pa.array([_with_json(each, kind) for each in values], stored).cast(kind)


def _with_json(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a type that has text of JSON inside, with that text."""
    if value is None:
        return None
    if kind == pa.json_():
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text if _is_unicode([text]) else json.dumps(value, separators=(",", ":"))
    if isinstance(value, dict):
        types = {each.name: each.type for each in kind}
        return {name: _with_json(each, types[name]) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_json(each, kind.value_type) for each in value]
    return value
