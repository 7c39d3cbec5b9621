"""Batches on the wire: round trips, and damage that is noticed."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.matches import Matches
from mr_dedup.jobs import batches
from mr_dedup.jobs.batches import (
    BatchProtocol,
    Kind,
    LinesProtocol,
    decode_bytes,
    decode_columns,
    decode_matches,
    encode_bytes,
    encode_columns,
    encode_matches,
    kind_of,
    merged_batches,
)
from tests.strategies import FINGERPRINTS


def matches_of(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return Matches(columns[:, 0].copy(), columns[:, 1].copy())


def pairs_of(matches):
    return list(zip(matches.queries.tolist(), matches.corpus.tolist(), strict=True))


@given(st.lists(st.tuples(FINGERPRINTS, FINGERPRINTS), max_size=50), st.integers(1, 20))
def test_any_pairs_come_back_from_lines_of_any_length(pairs, a_batch):
    batches.ROWS_A_BATCH, usual = a_batch, batches.ROWS_A_BATCH
    try:
        encoded = list(encode_matches(matches_of(pairs)))
    finally:
        batches.ROWS_A_BATCH = usual
    assert len(encoded) == -(-len(pairs) // a_batch)
    assert [pair for batch in encoded for pair in pairs_of(decode_matches(batch))] == pairs


def test_every_damaged_character_is_noticed():
    (batch,) = encode_matches(matches_of([(1, 2), (3, (1 << 64) - 1)]))
    for place in range(len(batch)):
        for other in (b"A", b"z", b"!", b"\n"):
            damaged = batch[:place] + other + batch[place + 1 :]
            if damaged != batch:
                with pytest.raises(MrDedupError, match="between tasks"):
                    decode_matches(damaged)
    for length in range(len(batch)):
        with pytest.raises(MrDedupError, match="between tasks"):
            decode_matches(batch[:length])


def test_another_version_is_named():
    (batch,) = encode_matches(matches_of([(1, 2)]))
    raw = bytearray(base64.b64decode(batch))
    raw[0] = 9
    with pytest.raises(MrDedupError, match="version 9, this mr_dedup reads 3"):
        decode_matches(base64.b64encode(raw))


def test_a_batch_of_another_kind_is_refused_and_kinds_are_told_apart():
    (labels,) = encode_columns(Kind.LABELS, [np.array([1], np.uint64), np.array([2], np.uint64)])
    rejects = encode_bytes(Kind.REJECTS, 1, b"{}")
    assert [kind_of(labels), kind_of(rejects)] == [Kind.LABELS, Kind.REJECTS]
    with pytest.raises(MrDedupError, match="of kind 3, expected matches"):
        decode_matches(labels)
    with pytest.raises(MrDedupError, match="its length differs"):
        decode_columns(Kind.LABELS, labels, 3)
    with pytest.raises(MrDedupError, match="between tasks"):
        kind_of(b"?")


@given(st.binary(max_size=100), st.integers(0, (1 << 32) - 1))
def test_any_bytes_come_back(payload, count):
    batch = encode_bytes(Kind.DOCUMENTS, count, payload)
    assert decode_bytes(Kind.DOCUMENTS, batch) == (count, payload)


def test_lines_survive_what_hadoop_adds():
    protocol = BatchProtocol()
    line = protocol.write(17, b"QUJD")
    assert b"\n" not in line
    for ending in (b"", b"\t", b"\t\r\n"):
        assert protocol.read(line + ending) == (17, b"QUJD")
    with pytest.raises(MrDedupError, match="no number for a key"):
        protocol.read(b"seventeen\tQUJD")


def test_keys_sort_as_text_as_they_do_as_numbers():
    keys = (0, 9, 10, 99, 100, 12345, 10**8, 1 << 64)
    lines = [BatchProtocol().write(key, b"x") for key in keys]
    assert lines == sorted(lines)


def test_what_reducers_left_is_merged_by_key(tmp_path):
    """However keys were dealt out: by ranges, or by hash."""
    protocol = BatchProtocol()
    for name, keys in (("part-0", [1, 1, 7, 300]), ("part-1", []), ("part-2", [0, 7, 8])):
        lines = [protocol.write(key, f"{name} {n}".encode()) for n, key in enumerate(keys)]
        (tmp_path / name).write_bytes(b"".join(line + b"\n" for line in lines))
    found = list(merged_batches(sorted(tmp_path.iterdir())))
    assert [key for key, _ in found] == [0, 1, 1, 7, 7, 8, 300]
    assert [batch for key, batch in found if key == 1] == [b"part-0 0", b"part-0 1"]
    assert found[0] == (0, b"part-2 0")
    assert list(merged_batches([])) == []


def test_result_text_ends_where_mrjob_ends_it():
    assert LinesProtocol().write(None, b"1\t2\n3\t4\n") == b"1\t2\n3\t4"
    assert LinesProtocol().read(b"1\t2") == (None, b"1\t2")
