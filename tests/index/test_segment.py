"""Segments: every design finds what brute force finds; a wrong byte is never believed."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.hamming.design import designs_for
from mr_dedup.index.ids import Ids
from mr_dedup.index.segment import ABSENT, Segment
from mr_dedup.index.segment_file import BLOCK_BYTES
from mr_dedup.index.segment_writer import write_segment
from mr_dedup.index.tables import Permutation, tables_needed
from tests.files.paths import file_at
from tests.oracles import hamming, neighbour
from tests.strategies import costly


def array(numbers):
    return np.array(numbers, dtype=np.uint64)


def written(path, numbers, ids=None, k=3, **options):
    path.unlink(missing_ok=True)
    file = file_at(path)
    write_segment(file, array(numbers), None if ids is None else [Ids.of(ids)], k, **options)
    return Segment(file)


def found(segment, queries, k):
    hits, _ = segment.probe(array(queries), k)
    if hits is None:
        return []
    return sorted(zip(*(column.tolist() for column in hits[:2]), strict=True))


def expected(numbers, queries, k):
    return sorted(
        (row, other)
        for row, query in enumerate(queries)
        for other in set(numbers)
        if hamming(query, other) <= k
    )


def near_ones(rng, count, k):
    """Fingerprints, half of them near others, and the two extremes."""
    numbers = {0, (1 << 64) - 1}
    while len(numbers) < count:
        base = rng.choice(list(numbers)) if rng.random() < 0.5 else rng.getrandbits(64)
        numbers.add(neighbour(rng, base, rng.randint(0, k + 2)))
    return rng.sample(sorted(numbers), len(numbers))


@pytest.mark.parametrize(("k", "bits"), [(0, 16), (1, 21), (3, 16), (3, 24), (4, 18), (7, 16)])
def test_every_design_finds_all(tmp_path, k, bits):
    rng = random.Random(f"{k} {bits}")
    numbers = near_ones(rng, 150, k)
    queries = [neighbour(rng, each, rng.randint(0, k)) for each in numbers[:40]] + numbers[:20]
    for name, design in designs_for(k).items():
        # directories of 24 bits take 64 MB each
        if len(design.masks) > (20 if bits < 24 else 4):
            continue
        segment = written(tmp_path / "segment", numbers, k=k, design=name, directory_bits=bits)
        assert segment.design == design
        for table in range(len(design.masks)):
            assert sorted(segment.distinct(table).tolist()) == sorted(numbers)
        for reach in range(k + 1):
            assert found(segment, queries, reach) == expected(numbers, queries, reach)
        ranks = segment.find_fingerprints(array([*numbers, 12345]))
        assert ranks[-1] == ABSENT
        assert segment.distinct()[ranks[:-1]].tolist() == numbers
        assert [segment.fingerprint_of(rank) for rank in ranks[:-1].tolist()] == numbers


def test_skewed_values_get_an_order_of_bits(tmp_path):
    rng = random.Random(5)
    numbers = sorted({rng.getrandbits(64) >> 30 for _ in range(20_000)})
    segment = written(tmp_path / "segment", numbers)
    assert not segment.order.is_natural
    queries = [neighbour(rng, each, 2) for each in numbers[:50]]
    assert found(segment, queries, 3) == expected(numbers, queries, 3)
    ranks = segment.find_fingerprints(array(numbers))
    assert segment.distinct()[ranks].tolist() == numbers
    assert [segment.fingerprint_of(rank) for rank in ranks[:500].tolist()] == numbers[:500]


def test_documents_of_one_fingerprint_keep_their_order(tmp_path):
    rng = random.Random(3)
    numbers = rng.choices([5, 1 << 63, 77], k=3000)
    ids = [f"page {number}" for number in range(3000)]
    segment = written(tmp_path / "segment", numbers, ids)
    assert (segment.documents, segment.fingerprints) == (3000, 3)
    for rank, value in enumerate(segment.distinct().tolist()):
        ids_of_rank = [segment.id_of(document) for document in segment.documents_of(rank)]
        expected_ids = [id for id, number in zip(ids, numbers, strict=True) if number == value]
        assert ids_of_rank == expected_ids
        for document in segment.documents_of(rank):
            assert segment.fingerprint_of(document) == value


@costly
@given(ids=st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=60, unique=True))
def test_ids_are_found(tmp_path_factory, ids):
    ids = [id for id in ids if id.isprintable()] or ["x"]
    path = tmp_path_factory.mktemp("ids") / "segment"
    segment = written(path, range(len(ids)), ids)
    column = Ids.of([*ids, "none \x00 of them"])
    documents = segment.find_ids(column, column.hashes())
    assert documents[-1] == ABSENT
    assert [segment.id_of(int(each)) for each in documents[:-1]] == ids
    assert [
        each.decode() for each in segment.ids().take(documents[:-1].astype(int)).encoded()
    ] == ids


def test_more_matches_than_fit_the_buffer(tmp_path):
    numbers = [1 << a | 1 << b for a in range(64) for b in range(a)]
    segment = written(tmp_path / "segment", numbers)
    assert len(found(segment, [0, 1], 3)) == 2016 * 2


def test_a_query_with_many_matches_leaves_no_large_buffer(tmp_path):
    segment = written(
        tmp_path / "s", [1 << bit | 1 << other for bit in range(64) for other in range(bit)]
    )
    (hits, _) = segment.probe(array([0]), 2, buffered=10)
    assert len(hits[0]) == 2016
    assert [len(buffers.ranks) for buffers in segment._free_buffers] == []
    segment.probe(array([0]), 0, buffered=10)
    assert [len(buffers.ranks) for buffers in segment._free_buffers] == [10]


def test_permutation_moves_the_key_to_the_front():
    for design in designs_for(3).values():
        for table, mask in enumerate(design.masks):
            moves = Permutation.of(design, table)
            width = mask.bit_count()
            assert moves.leading(width) == mask
            assert sum(target.bit_count() for target in moves.masks) == 64


def test_smaller_distances_need_fewer_tables():
    design = designs_for(3)["4-tables"]
    assert [tables_needed(design, k) for k in range(4)] == [1, 2, 3, 4]
    assert tables_needed(designs_for(3)["10-tables"], 1) == 10


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a segment with ids and repeated fingerprints."""
    rng = random.Random(1)
    numbers = [rng.getrandbits(64) for _ in range(3000)]
    numbers += numbers[:500]
    path = tmp_path_factory.mktemp("whole") / "segment"
    written(path, numbers, [f"http://example.org/{n}" for n in range(len(numbers))])
    return numbers, path.read_bytes()


def test_a_flipped_bit_anywhere_is_told(tmp_path, whole):
    _, content = whole
    rng = random.Random(2)
    path = tmp_path / "segment"
    blocks = len(content) // BLOCK_BYTES
    offsets = [block * BLOCK_BYTES + rng.randrange(BLOCK_BYTES) for block in range(blocks)]
    offsets += [*range(24), BLOCK_BYTES - 1, len(content) - 1, *rng.choices(range(200), k=20)]
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="segment"):
            Segment(file_at(path))


def test_damage_is_never_served(tmp_path, whole):
    numbers, content = whole
    rng = random.Random(4)
    queries = [neighbour(rng, each, 2) for each in numbers[:200]]
    right = expected(numbers, queries, 3)
    path = tmp_path / "segment"
    reported = 0
    for offset in range(BLOCK_BYTES, len(content) - 600, 40_000):
        damaged = bytearray(content)
        damaged[offset] ^= 64
        path.write_bytes(damaged)
        segment = Segment(file_at(path), check=False)
        try:
            assert found(segment, queries, 3) == right
            for rank in range(segment.fingerprints):
                for document in segment.documents_of(rank):
                    assert segment.id_of(document).startswith("http")
        except FormatError:
            reported += 1
            # what was damaged once is not believed the next time
            with pytest.raises(FormatError, match=f"block {offset // BLOCK_BYTES}"):
                segment.check_all()
    assert reported > 5


def test_cut_short_or_longer(tmp_path, whole):
    _, content = whole
    path = tmp_path / "segment"
    for damaged in (b"", content[:5], content[:100], content[:-1], content[:BLOCK_BYTES]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError):
            Segment(file_at(path))
    path.write_bytes(content + b"x")
    with pytest.raises(FormatError, match="followed by something else"):
        Segment(file_at(path))


def test_a_newer_version_says_what_to_do(tmp_path, whole):
    _, content = whole
    path = tmp_path / "segment"
    path.write_bytes(content[:8] + b"\x02\0\0\0" + content[12:])
    with pytest.raises(FormatError, match=r"version 2 is newer.*upgrade mr_dedup"):
        Segment(file_at(path))
