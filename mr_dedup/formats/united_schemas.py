"""One schema for the rows of several files: all their columns, of types that change no value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.parquet_rows import is_string, is_text
from mr_dedup.formats.row_sizes import VIEWS

_MAX_COLUMNS = 10_000


class NamedSchema(NamedTuple):
    """A schema, and the file that has it."""

    schema: pa.Schema
    file: str


def united_schema(schemas: Iterable[NamedSchema], advice: str) -> pa.Schema:
    """Return the columns of all files, in the order in which they are first there.

    Of each the type that all its values have without a change, as of int32 and int64, or of
    timestamps in seconds and nanoseconds; a dictionary is one of its values. Integers beside
    doubles are doubles, which a cast refuses that would change one.

    Raises:
        MrDedupError: For a file with two columns of one name, two types that no other has room
            for, or too many columns; it ends with ``advice``.
    """
    fields: dict[str, pa.DataType] = {}
    first: dict[str, str] = {}
    metadata = None
    for schema, file in schemas:
        names = schema.names
        if len(set(names)) < len(names):
            name = next(name for name in names if names.count(name) > 1)
            raise MrDedupError(f"{file}: has {names.count(name)} columns {name!r}; {advice}")
        metadata = metadata or schema.metadata
        for field in schema:
            kind, name = _plain(field.type), field.name
            try:
                fields[name] = _united(fields[name], kind) if name in fields else kind
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise MrDedupError(
                    f"{file}: its column {name!r} is of type {kind}, not {fields[name]} as in "
                    f"{first[name]}; {advice}"
                ) from error
            if not pa.types.is_null(kind):
                first.setdefault(name, file)
        refuse_too_many(len(fields), file, advice)
    return pa.schema(list(fields.items()), metadata=metadata)


def refuse_too_many(columns: int, file: str, advice: str) -> None:
    """Raise MrDedupError for more columns than a file of Parquet should have."""
    if columns > _MAX_COLUMNS:
        raise MrDedupError(
            f"{file}: documents up to there have more than {_MAX_COLUMNS:,} members of different "
            f"names, too many to be columns of Parquet; {advice}"
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries and views of text, and whose values may all be null."""
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    if types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return VIEWS.get(kind, kind)


def _united(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return a type for the values of both; an ArrowException if there is none."""
    types = pa.types
    if first == second:
        return first
    if types.is_struct(first) and types.is_struct(second):
        members = {each.name: each.type for each in first}
        for each in second:
            known = members.get(each.name, each.type)
            members[each.name] = _united(known, each.type)
        return pa.struct(list(members.items()))
    if types.is_list(first) and types.is_list(second):
        return pa.list_(_united(first.value_type, second.value_type))
    if is_text(first) and is_text(second):
        if is_string(first) != is_string(second):
            raise pa.ArrowTypeError("text and bytes")
        return pa.large_string() if is_string(first) else pa.large_binary()
    both = {first, second}
    if any(map(types.is_decimal, both)) and any(map(types.is_floating, both)):
        raise pa.ArrowTypeError("decimals and binary fractions")
    if pa.uint64() in both and any(map(types.is_signed_integer, both)):
        return pa.decimal128(20)
    schemas = [pa.schema([("", kind)]) for kind in (first, second)]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
