"""Which documents are compared with which: every pair of a cluster once, no group too large."""

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.shards import Shard, write_shard
from mr_dedup.jobs.grouped_rows import WHOLE, GroupedRows
from mr_dedup.pipeline.sharded_run import Left
from mr_dedup.pipeline.similar_pairs import ClusteredNumbers, group_rows


def clustered(numbers, labels, lengths, documents=None):
    """Documents in clusters, of as many ``documents`` of one chunk, by default all."""
    count = len(numbers) if documents is None else documents
    return ClusteredNumbers(
        np.array(numbers, np.int64),
        np.array(labels, np.uint64),
        np.array(lengths, np.int64),
        {0: (0, count)},
    )


def compared(grouped):
    """All pairs that the groups stand for, and the members of each."""
    members = defaultdict(list)
    for number, key, side in zip(grouped.numbers, grouped.keys, grouped.sides, strict=True):
        members[int(key)].append((int(number), int(side)))
    pairs = [
        (n, m)
        for group in members.values()
        for (n, one), (m, other) in itertools.combinations(sorted(group), 2)
        if one != other or one == WHOLE
    ]
    return pairs, members


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), min_size=1, max_size=40),
    st.integers(1, 100),
)
def test_every_pair_of_a_cluster_is_compared_once(documents, limit):
    labels = np.array([label for label, _ in documents], np.int64)
    lengths = [length for _, length in documents]
    grouped, sliced = group_rows(clustered(range(labels.size), labels, lengths), limit)
    pairs, members = compared(grouped)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) >= {
        (n, m) for n, m in itertools.combinations(range(labels.size), 2) if labels[n] == labels[m]
    }
    sizes = [labels == label for label in set(labels.tolist())]
    large = [int(np.array(lengths)[of_it].sum()) for of_it in sizes]
    assert sliced == sum(size > 2 * limit for size in large)
    longest = max(lengths)
    for group in members.values():
        size = sum(lengths[n] for n, _ in group)
        # a group of small clusters ends with one that may be twice as large
        assert size <= max(3 * limit, 2 * (limit + longest))
    assert np.array_equal(grouped.numbers, np.sort(grouped.numbers))
    assert grouped.lengths.tolist() == [lengths[n] for n in grouped.numbers]


def test_rows_are_read_as_written_and_damage_is_noticed(tmp_path):
    path = tmp_path / "grouped.parquet"
    labels = np.array([3, 3, 9, 9, 9], np.int64)
    grouped, _ = group_rows(clustered([0, 2, 5, 6, 7], labels, [10] * 5, 8), 10)
    grouped.write(path)
    read = GroupedRows.read(path)
    for name in ("numbers", "keys", "sides", "lengths"):
        assert np.array_equal(getattr(read, name), getattr(grouped, name))
    assert read.ranges == {0: (0, 8)}
    some = read.between(5, 7)
    assert set(some.numbers.tolist()) == {5, 6}
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a side file with numbers"):
        GroupedRows.read(path)


def test_documents_of_all_chunks_are_numbered(tmp_path):
    """Of which one has no documents, and one none in clusters."""
    rows, some = str(tmp_path / "rows"), str(tmp_path / "attached")
    chunks = {2: (5, [1, 4]), 3: (0, []), 4: (3, []), 7: (2, [0, 1])}
    for chunk, (documents, found) in chunks.items():
        columns = {
            "row": np.array(found, np.int64),
            "node": np.array(found, np.uint64),
            "label": np.array([chunk + 2**63 for _ in found], np.uint64),
            "length": np.array([10 * row for row in found], np.int64),
        }
        tables = [pa.table({"documents": [documents]}), *([pa.table(columns)] if found else [])]
        write_shard(some, chunk, tables)
    left = [Left(at, [Shard(chunk, 0, 0) for chunk in chunks], {}) for at in (rows, some)]
    read = ClusteredNumbers.read(*left)
    assert read.numbers.tolist() == [1, 4, 8, 9]
    assert read.labels.tolist() == [2 + 2**63] * 2 + [7 + 2**63] * 2
    assert read.lengths.tolist() == [10, 40, 0, 10]
    assert read.ranges == {2: (0, 5), 3: (5, 5), 4: (5, 8), 7: (8, 10)}


def test_a_cluster_whose_slices_are_too_many_to_send_is_refused():
    # 2 MB a document: 40 GB, which is 2,500 slices of 16 MB
    numbers = np.arange(20_000)
    lengths = [2 << 20] * numbers.size
    one = clustered(numbers, np.zeros(numbers.size), lengths)
    with pytest.raises(
        MrDedupError, match=r"20,000 documents, 41,943,040,000 bytes: .* 1.0e\+14 bytes"
    ):
        group_rows(one, 16 << 20)
    # as many documents in clusters of 40 MB, of which no two are compared
    _, sliced = group_rows(clustered(numbers, numbers // 20, lengths), 16 << 20)
    assert sliced == 1000


@pytest.mark.parametrize("limits", [(5000, 10**6), (10**9, 50)])
def test_what_slices_send_is_limited_in_bytes_and_rows(limits):
    documents = clustered(range(10), [0] * 10, [100] * 10)
    with pytest.raises(MrDedupError, match="a cluster has 10 documents, 1,000 bytes"):
        group_rows(documents, 100, *limits)
    grouped, _ = group_rows(documents, 100, 10_000, 100)
    assert grouped.numbers.size == 100
