"""Members of JSON lines as columns: no value changes, whatever there is, however it is divided."""

import json
import math
import time

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.json_columns import (
    Kind,
    as_columns,
    count_keys,
    kinds_of,
    members_of_lines,
    merge_kinds,
    repeated_member,
)

EDGES = [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**37, 10**38]
NAMES = st.sampled_from(["a", "b", "A", "", "a.b", "é", "x\0", '":'])
SCALARS = (
    st.none() | st.booleans() | st.sampled_from(EDGES) | st.integers() | st.floats()
    | st.text(max_size=5) | st.sampled_from(['"a": 1', "\\", "null", "\0"])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=4),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=8)


def is_same(found, value, kind):
    """Whether a value of a column is that of JSON; what is missing is null.

    Numbers are equal as numbers, and nothing else of another type is equal.
    """
    if kind == pa.json_():
        if value is None:
            return found is None
        return json.dumps(json.loads(found)) == json.dumps(value)
    if value is None or found is None:
        return value is found
    if pa.types.is_struct(kind):
        types = {each.name: each.type for each in kind}
        return (
            isinstance(value, dict)
            and value.keys() <= types.keys()
            and all(is_same(found[name], value.get(name), types[name]) for name in types)
        )
    if pa.types.is_list(kind):
        return (
            isinstance(value, list)
            and len(value) == len(found)
            and all(map(lambda a, b: is_same(a, b, kind.value_type), found, value))
        )
    if isinstance(value, bool | str) or isinstance(found, bool | str):
        return type(value) is type(found) and value == found
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(found)
    return found == value


def columns_of(lines, step=10**6):
    """The columns of lines, that are read so many at a time."""
    kinds = {}
    for start in range(0, len(lines), step):
        rows = members_of_lines(b"".join(lines[start : start + step]))
        encoded = msgspec.json.encode(kinds_of(rows)[0])
        merge_kinds(kinds, msgspec.json.decode(encoded, type=dict[str, Kind]))
    return pa.schema([(name, kind.arrow_type()) for name, kind in kinds.items()])


@given(RECORDS, st.integers(1, 4), st.booleans())
def test_columns_are_the_members(records, step, is_ascii):
    records = [{"id": n, **each} for n, each in enumerate(records)]
    lines = [json.dumps(each, ensure_ascii=is_ascii).encode() + b"\n" for each in records]
    schema = columns_of(lines)
    assert columns_of(lines, step).equals(schema)
    rows = members_of_lines(b"".join(lines))
    table = as_columns(rows, schema)
    table.validate(full=True)
    assert set(schema.names) == set().union(*records)
    for row, record in zip(table.to_pylist(), records, strict=True):
        for field in schema:
            assert is_same(row[field.name], record.get(field.name), field.type)
    # what looks like keys is in strings
    assert not any(repeated_member(line) for line in lines)


@pytest.mark.parametrize("space", [b"", b" ", b"\t "])
def test_repeated_members_are_noticed(space):
    line = b'{"a"%b:"x\\":","b"%b:{"c":1},"a"%b:2}\n' % (space, space, space)
    rows = members_of_lines(line)
    assert kinds_of(rows)[1] != count_keys(line)
    assert repeated_member(line) == "a"
    assert repeated_member(b'{"a":{"b":1,"b":2},"b":[]}') is None


@pytest.mark.parametrize(
    "value",
    [b'{"b":1,"b" :2}', b"1e999", b'"\\ud800"', b'{"\\udc00":1}', b"1" * 5000, b'[{"x":[-1e999]}]',
     b"[" * 900 + b"]" * 900],
)  # fmt: skip
def test_what_no_value_of_arrow_is_stays_text(value):
    lines = [b'{"a":%b}\n' % value, b'{"a":null}\n']
    rows = members_of_lines(b"".join(lines))
    table = as_columns(rows, columns_of(lines))
    assert table.schema.field("a").type == pa.json_()
    assert table["a"].to_pylist() == [value.decode(), None]


def test_what_is_not_a_number_is_a_double():
    lines = [b'{"a":NaN,"b":[-Infinity]}\n', b'{"a": 1 , "b":[Infinity,2]}\n']
    table = as_columns(members_of_lines(b"".join(lines)), columns_of(lines))
    assert str(table["a"].to_pylist()) == "[nan, 1.0]"
    assert table["b"].to_pylist() == [[-math.inf], [math.inf, 2]]


def test_what_is_not_utf8():
    with pytest.raises(UnicodeDecodeError):
        columns_of([b'{"a":"\xff"}\n'])


def test_other_members_than_at_first():
    schema = pa.schema([("a", pa.int64())])
    for line in (b'{"b":1}', b'{"a":"x"}', b'{"a":true}', b'{"a":9223372036854775808}'):
        with pytest.raises(ValueError, match=r"'[ab]'"):
            as_columns(members_of_lines(line), schema)


def test_parquet_has_all_types(tmp_path):
    values = [{"": 1, "x\0": "\0"}, [[{"a": 2**53 + 1}, {"a": 0.5}]], 10**37, {"a": []}, "é"]
    lines = [json.dumps({f"n{n}": value}).encode() + b"\n" for n, value in enumerate(values)]
    lines.append(b'{"n0":{"x\\u0000":null}}\n')
    table = as_columns(members_of_lines(b"".join(lines)), columns_of(lines))
    pq.write_table(table, tmp_path / "a.parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    for n, value in enumerate(values):
        assert is_same(found[f"n{n}"][n].as_py(), value, table.schema.field(f"n{n}").type)


def seconds_of(lines):
    begun = time.process_time()
    schema = columns_of(lines, 100)
    for start in range(0, len(lines), 1000):
        as_columns(members_of_lines(b"".join(lines[start : start + 1000])), schema)
    return time.process_time() - begun


def test_objects_with_keys_of_their_own_take_linear_time():
    def lines(count):
        return [
            json.dumps({"ids": {f"{n}-{i}": [{"n": i}] for i in range(10)}}).encode() + b"\n"
            for n in range(count)
        ]

    seconds_of(lines(10))
    first, second = seconds_of(lines(1000)), seconds_of(lines(8000))
    assert second < 24 * first


def test_many_columns_take_linear_time():
    def lines(columns):
        return [json.dumps(dict.fromkeys(map(str, range(columns)), n)).encode() + b"\n"
                for n in range(20)]  # fmt: skip

    seconds_of(lines(10))
    first, second = seconds_of(lines(1000)), seconds_of(lines(8000))
    assert second < 24 * first
