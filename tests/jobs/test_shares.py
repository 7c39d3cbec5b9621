"""Shares of values counted in batches: against Python's Counter, and urllib's hosts."""

import re
from collections import Counter
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.jobs import shares
from mr_dedup.jobs.shares import ShareCounter, hosts

VALUES = st.sampled_from([None, "", "a", "b", "ba", "é", "z", "\U0001f600", "\uffff"])


@given(st.lists(st.lists(st.tuples(VALUES, st.booleans()))), st.integers(1, 5), st.integers(1, 4))
def test_most_common_equals_a_counter(batches, count, merged):
    counter = ShareCounter(min_merged=merged)
    for batch in batches:
        values = pa.array([value for value, _ in batch], pa.large_string())
        counter.add(values, np.array([was for _, was in batch], bool))
    documents = [one for batch in batches for one in batch if one[0] is not None]
    expected = Counter(value for value, _ in documents)
    dropped = Counter(value for value, was in documents if was)
    ranked = sorted(expected.items(), key=lambda item: (-item[1], item[0].encode()))[:count]
    wanted = [(value, number, dropped[value]) for value, number in ranked]
    assert counter.most_common(count) == wanted
    assert counter.most_common(count) == wanted


def host_of(id):
    """The host by urllib alone, of what begins as a URL does."""
    if not re.match(r"[^/?#]*://", id):
        return None
    try:
        return urlsplit(id).hostname
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("id", "host"),
    [
        ("https://Example.ORG/a", "example.org"),
        ("http://user:word@h.example:8080?q#f", "h.example"),
        ("http://[::1]:80/", "::1"),
        ("http://[::1/", None),
        ("s3://bucket/key", "bucket"),
        ("file:///tmp/x", None),
        ("a line of text", None),
        ("/redirect?to=http://h.example/", None),
        ("", None),
        ("http://h\u2100.example/", None),
    ],
)
def test_hosts_of_ids(id, host):
    assert hosts(pa.array([id, None], pa.large_string())).to_pylist() == [host, None]
    assert host_of(id) == host


@given(st.lists(st.text(st.sampled_from("aB:/?#@[]%.\t\n é\u2100\x00")) | st.none(), max_size=9))
@example(["a://b:x/", "ht\ntp://a\tb/c", " http://x"])
def test_hosts_are_those_of_urllib(ids):
    found = hosts(pa.array(ids, pa.large_string())).to_pylist()
    assert found == [None if id is None else host_of(id) for id in ids]


def test_sliced_batches():
    values = pa.array(["a", "b", None, "b", "c"], pa.large_string())
    counter = ShareCounter()
    counter.add(values.slice(1, 3), np.array([True, True, False]))
    assert counter.most_common(9) == [shares.Share("b", 2, 1)]
