"""Batches on the wire: round trips, and damage that is noticed."""

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.matches import Matches
from mr_dedup.jobs import batches
from mr_dedup.jobs.batches import BatchProtocol, LinesProtocol, decode_matches, encode_matches

longs = st.integers(0, (1 << 64) - 1)


def matches_of(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return Matches(columns[:, 0].copy(), columns[:, 1].copy())


def pairs_of(matches):
    return list(zip(matches.queries.tolist(), matches.corpus.tolist(), strict=True))


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(longs, longs), max_size=50), st.integers(1, 20))
def test_any_pairs_come_back_from_lines_of_any_length(pairs, a_batch):
    batches.PAIRS_A_BATCH, usual = a_batch, batches.PAIRS_A_BATCH
    try:
        encoded = list(encode_matches(matches_of(pairs)))
    finally:
        batches.PAIRS_A_BATCH = usual
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
    with pytest.raises(MrDedupError, match="version 9, this mr_dedup reads 1"):
        decode_matches(base64.b64encode(raw))


def test_lines_survive_what_hadoop_adds():
    protocol = BatchProtocol()
    line = protocol.write(17, b"QUJD")
    assert b"\n" not in line
    for ending in (b"", b"\t", b"\t\r\n"):
        assert protocol.read(line + ending) == (17, b"QUJD")
    with pytest.raises(MrDedupError, match="no number for a key"):
        protocol.read(b"seventeen\tQUJD")


def test_keys_sort_as_text_as_they_do_as_numbers():
    lines = [BatchProtocol().write(key, b"x") for key in (0, 9, 10, 99, 100, 12345)]
    assert lines == sorted(lines)


def test_result_text_ends_where_mrjob_ends_it():
    assert LinesProtocol().write(None, b"1\t2\n3\t4\n") == b"1\t2\n3\t4"
    assert LinesProtocol().read(b"1\t2") == (None, b"1\t2")
