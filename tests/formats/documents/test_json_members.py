"""Members appended to JSON objects: as Python's json reads them, with the rest as it was."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents.json_members import ClashError, with_members

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXT.filter(lambda name: name not in ("n", "s")), VALUES)
BLANKS = st.sampled_from(["", " ", "\t", "  \r"])


@given(st.lists(st.tuples(OBJECTS, BLANKS, st.booleans(), st.integers(), TEXT | st.none())))
def test_objects_have_the_members_and_begin_as_before(rows):
    rows = [row for row in rows if abs(row[3]) < 1 << 63]
    lines = [
        f"{blank}{json.dumps(each, ensure_ascii=is_ascii)}{blank}\n".encode()
        for each, blank, is_ascii, *_ in rows
    ]
    members = pa.table(
        {
            "n": pa.array([row[3] for row in rows], pa.int64()),
            "s": pa.array([row[4] for row in rows], pa.large_string()),
        }
    )
    found = with_members(pa.array(lines, pa.large_binary()), members).to_pylist()
    for before, after, (each, _, _, n, s) in zip(lines, found, rows, strict=True):
        assert json.loads(after) == {**each, "n": n, "s": s}
        end = before.rindex(b"}")
        assert after.startswith(before[:end])
        assert after.endswith(before[end:])


@pytest.mark.parametrize("line", [b'{"n": 1}', b'{"a": {}, "n": null}', b'{"\\u006e": []}'])
def test_a_member_that_is_there_already(line):
    with pytest.raises(ClashError, match="has a member 'n' already"):
        with_members(pa.array([line], pa.large_binary()), pa.table({"n": [1]}))


@pytest.mark.parametrize("line", [b'{"a": {"n": 1}}', b'{"a": "\\"n\\": 1"}', b'{"N": 1}'])
def test_what_is_no_such_member(line):
    found = with_members(pa.array([line], pa.large_binary()), pa.table({"n": [2]}))
    assert found.to_pylist() == [line[:-1] + b',"n":2}']
