"""Queries with many matches: the same results in pieces, and no more in memory than needed."""

import random
import tracemalloc

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.hits import QueryBuffers
from tests.index.forms import made
from tests.index.memory_index import MemoryIndex
from tests.index.test_protocol import Both, of_each, values

MB = 1 << 20


@pytest.mark.parametrize("stop_after", [1, 7, 50])
@pytest.mark.parametrize("few", [0, 1 << 10], ids=["columns", "tuples"])
@pytest.mark.parametrize("form", ["in memory", "on disk, never merged"])
def test_pieces_equal_brute_force(form, few, stop_after, tmp_path):
    buffers = QueryBuffers(hits=stop_after, tuples=few or 1, tuples_a_query=few, matches=2)
    for named in (True, False):
        rng = random.Random(f"{form} {few} {stop_after} {named}")
        with made(form, tmp_path / f"{named}", named=named, buffers=buffers) as index:
            both = Both(index, 3, named, rng)
            both.seen = [rng.getrandbits(64) for _ in range(4)]
            for _ in range(6):
                both.add(70)
                both.remove(30)
                both.check_and_add(20)
                both.compare()


@pytest.mark.parametrize("only", ["one fingerprint", "near ones"])
@pytest.mark.parametrize("form", ["memory table", "segment"])
def test_memory_is_bounded_by_the_limit(form, only, tmp_path):
    """4,000 documents near each of 1,000 queries: 4 million matches, of which 1,000 are wanted."""
    bits = np.array([1 << a | 1 << b for a in range(64) for b in range(64)], np.uint64)[:4000]
    documents = np.full(4000, 5, np.uint64) ^ (bits if only == "near ones" else np.uint64(0))
    ids = [f"page {number}" for number in range(len(documents))]
    room = 1 << 16 if form == "memory table" else 100
    with HammingIndex.create(tmp_path / "index", memory_documents=room) as index:
        index.add(documents, ids)
        queries = np.full(1000, 5, np.uint64)
        first = index.query(queries[:1]).ids[0]
        for limited in (
            lambda: index.query(queries, limit=1),
            lambda: (
                index.check_and_add(
                    queries, [f"new {number}" for number in range(1000)], limit=1, only_new=True
                ).matches
            ),
        ):
            tracemalloc.start()
            found = limited()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert set(found.ids) == {first}
            assert len(found) == len(queries)
            # 4 million positions and slots alone are 64 MB, and tuples of them 800
            assert peak < 30 * MB


@pytest.mark.parametrize("make", ["query", "check_and_add"])
def test_more_than_so_many_matches_are_refused(make, tmp_path):
    with HammingIndex.create(tmp_path / "index") as index:
        index.add(values([5] * 10), [f"{number}" for number in range(10)])
        arguments = [values([4, 5, (1 << 64) - 1])]
        if make == "check_and_add":
            arguments.append(["0", "1", "2"])
        method = getattr(index, make)
        with pytest.raises(ValueError, match="more than 9 matches in one response"):
            method(*arguments, max_matches=9)
        with pytest.raises(ValueError, match="more than 5 matches"):
            method(*arguments, limit=3, max_matches=5)
        assert of_each(index.query(values([5]), 0), 1)[0][0] == ("0", 5, 0)
        found = method(*arguments, limit=3, max_matches=6)
        assert len(found if make == "query" else found.matches) == 6


def test_a_limit_may_be_any_number():
    index = MemoryIndex()
    index.add(values([5, 5]), ["a", "b"])
    assert list(index.query(values([5]), limit=10**20).ids) == ["a", "b"]
    found = index.check_and_add(values([5]), ["c"], limit=10**20)
    assert list(found.matches.ids) == ["a", "b"]


def test_documents_of_one_call_are_bounded_too():
    index = MemoryIndex()
    found = index.check_and_add(values([9] * 50), [f"{number}" for number in range(50)], limit=2)
    ids = [[match[0] for match in each] for each in of_each(found.matches, 50)]
    assert ids == [[], ["0"], *[["0", "1"]] * 48]
