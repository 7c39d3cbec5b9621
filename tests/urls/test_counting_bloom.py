"""Packed counters against a Counter, rates against theory, files against damage."""

import itertools
import math
import random

import numpy as np
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.files.folders import Folder
from mr_dedup.urls.counting_bloom import (
    HEADER,
    SEGMENT_WORDS,
    BloomShape,
    CountingBloom,
    load,
)
from tests.urls.bloom_oracle import counted, located, unpacked
from tests.urls.made_urls import ascending

STORE = bytes(range(16))


def some_digests(count, seed=1):
    random_numbers = np.random.default_rng(seed)
    return random_numbers.integers(0, 2**64, (count, 2), dtype=np.uint64)


def as_tuples(digests):
    return [tuple(row) for row in digests.tolist()]


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("hashes", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("counters", [1, 64, 1000, 400_000])
def test_counters_are_the_uses_of_each(bits, hashes, counters):
    """From full everywhere to all but empty, in one segment and in many."""
    bloom = CountingBloom(BloomShape(500, counters, bits, hashes))
    digests = some_digests(500, seed=counters)
    bloom.raise_(digests)
    assert unpacked(bloom.words, bits) == counted(as_tuples(digests), bloom.shape)
    assert bloom.may_know(digests).all()
    # taking half of them out, and filling anew where a counter was full, is counting the others
    gone, left = digests[::2], digests[1::2]
    segments = bloom.segments_of(left)
    for segment in bloom.lower(gone).tolist():
        bloom.fill(segment, left[segments == segment])
    assert unpacked(bloom.words, bits) == counted(as_tuples(left), bloom.shape)
    value_counts = np.bincount(list(unpacked(bloom.words, bits).values()), minlength=2**bits)
    assert bloom.histogram()[1:].tolist() == value_counts[1:].tolist()
    assert int(bloom.histogram().sum()) == bloom.shape.size


@pytest.mark.parametrize(("bits", "counters"), [(1, 999), (3, 10_000), (4, 40_000), (8, 30_000)])
def test_a_digest_may_be_known_if_all_its_counters_are_used(bits, counters):
    shape = BloomShape(1, counters, bits, 3)
    bloom, digests, others = CountingBloom(shape), some_digests(2000), some_digests(3000, seed=2)
    bloom.raise_(digests)
    used = counted(as_tuples(digests), shape)
    geometry = (shape.segments, shape.segment_words, bits, shape.hashes)
    wanted = [
        all(counter in used for counter in located(each, *geometry)) for each in as_tuples(others)
    ]
    assert bloom.may_know(others).tolist() == wanted
    assert 0 < sum(wanted) < len(wanted)


def test_segments_are_ranges_of_the_first_32_bits():
    for counters in (1, 131_072, 131_073, 1_000_000, 7_777_777):
        bloom = CountingBloom(BloomShape(1, counters))
        segments = bloom.shape.segments
        assert segments == math.ceil(counters / (16 * SEGMENT_WORDS))
        bounds = [bloom.prefixes_of(segment) for segment in range(segments)]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == 1 << 32
        assert all(one[1] == other[0] for one, other in itertools.pairwise(bounds))
        for segment, (first, stop) in enumerate(bounds):
            edges = np.array([[first << 32, 0], [(stop << 32) - 1, 0]], dtype=np.uint64)
            assert bloom.segments_of(edges).tolist() == [segment, segment]


def test_lowering_what_was_never_counted_is_refused():
    bloom = CountingBloom(BloomShape.of_paper(1000))
    bloom.raise_(some_digests(10))
    with pytest.raises(ValueError, match="of their counters were 0: not all were counted"):
        bloom.lower(some_digests(1, seed=2))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("counters", [1, 65, 16 * SEGMENT_WORDS, 1_000_003])
def test_sizes(bits, counters):
    shape = BloomShape(7, counters, bits, 5)
    assert counters <= shape.size
    assert shape.nbytes == CountingBloom(shape).words.nbytes
    # no more than a word a segment is wasted
    assert shape.nbytes < counters * 8 / (64 // bits) + 8 * (shape.segments + 1)
    again = BloomShape(7, shape.size, bits, 5)
    assert (again.segments, again.segment_words) == (shape.segments, shape.segment_words)
    assert shape.wider().capacity == 14
    assert shape.wider(3).counters == 3 * counters


def test_the_papers_shape_takes_10_bytes_a_url():
    shape = BloomShape.of_paper(1_000_000)
    assert (shape.hashes, shape.counter_bits, shape.counters) == (8, 4, 20_000_000)
    assert shape.nbytes == pytest.approx(10_000_000, rel=1e-3)


@pytest.mark.parametrize("rate", [0.5, 0.01, 1.4e-4, 1e-6])
def test_from_capacity_keeps_its_rate_with_the_least_counters(rate):
    shape = BloomShape.from_capacity(50_000, rate)
    assert shape.expected_fp_rate(50_000) <= rate * 1.001
    fewer = BloomShape(50_000, int(shape.counters * 0.98), 4, shape.hashes)
    assert fewer.expected_fp_rate(50_000) > rate
    for hashes in {max(1, shape.hashes - 1), min(16, shape.hashes + 1)} - {shape.hashes}:
        other = BloomShape(50_000, shape.counters, 4, hashes)
        assert other.expected_fp_rate(50_000) >= shape.expected_fp_rate(50_000) * 0.98


def test_the_measured_rate_is_within_a_tenth_of_theory_at_the_papers_settings():
    shape = BloomShape.of_paper(300_000)
    bloom = CountingBloom(shape)
    bloom.raise_(some_digests(300_000))
    # the paper's (1 - e**(-8 / 20))**8
    theory = (1 - math.exp(-8 / 20)) ** 8
    assert shape.expected_fp_rate(300_000) == pytest.approx(theory, rel=1e-2)
    occupied = 1 - bloom.histogram()[0] / shape.counters
    assert occupied**shape.hashes == pytest.approx(theory, rel=0.05)
    # 1,170 of 2**23 tries: one standard deviation is 2.9 %
    assert bloom.measured_fp_rate(1 << 23) == pytest.approx(theory, rel=0.1)


def test_overflow_is_the_binomial_tail_and_below_its_bound():
    for bits, capacity, urls in ((1, 50, 50), (2, 200, 100), (2, 200, 400), (4, 100, 900)):
        shape = BloomShape(capacity, 20 * capacity, bits)
        draws, chance, level = 8 * urls, 1 / shape.size, 2**bits - 1
        tail = 1 - sum(
            math.comb(draws, count) * chance**count * (1 - chance) ** (draws - count)
            for count in range(level)
        )
        assert shape.overflow_probability(urls) == pytest.approx(tail, abs=1e-12)
        assert tail <= shape.overflow_bound(urls)
    paper = BloomShape.of_paper(10**6)
    assert paper.overflow_probability(10**6) == pytest.approx(5.6e-19, rel=0.1)
    assert paper.overflow_bound(10**6) == pytest.approx((math.e * 0.4 / 15) ** 15, rel=0.01)
    assert BloomShape(10, 10).overflow_bound(10**6) == 1
    assert BloomShape(10, 10).overflow_probability(0) == 0


def test_overflow_is_what_counters_show():
    shape = BloomShape(20_000, 400_000, 2)
    bloom = CountingBloom(shape)
    bloom.raise_(some_digests(20_000))
    full = int(bloom.histogram()[-1]) / shape.size
    assert full == pytest.approx(shape.overflow_probability(20_000), rel=0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("capacity", 0), ("counters", 0), ("counter_bits", 0), ("counter_bits", 9), ("hashes", 17)],
)
def test_shapes_that_do_not_exist(name, value):
    fields = {"capacity": 5, "counters": 5, "counter_bits": 4, "hashes": 8, name: value}
    with pytest.raises(ValueError, match=rf"{name} must be from 1 to .*, not {value}"):
        BloomShape(**fields)


@pytest.mark.parametrize("rate", [0, 1, -1, float("nan")])
def test_rates_that_do_not_exist(rate):
    with pytest.raises(ValueError, match="fp_rate must be between 0 and 1"):
        BloomShape.from_capacity(10, rate)


def at(path):
    return Folder(path.parent) / path.name


@pytest.fixture
def saved(tmp_path):
    bloom = CountingBloom(BloomShape(100, 5000, 3, 7))
    bloom.raise_(ascending(some_digests(300)))
    bloom.save(at(tmp_path / "counters.cbf"), STORE, 42)
    return bloom, tmp_path / "counters.cbf"


def test_saved_counters_are_loaded(saved):
    bloom, path = saved
    snapshot = load(at(path))
    assert (snapshot.store_id, snapshot.generation) == (STORE, 42)
    loaded = snapshot.bloom
    assert np.array_equal(loaded.words, bloom.words)
    assert (loaded.shape.capacity, loaded.shape.hashes) == (100, 7)
    loaded.raise_(some_digests(1, seed=9))
    loaded.save(at(path), STORE, 43)
    assert load(at(path)).generation == 43


def test_the_layout_is_what_the_documentation_says(tmp_path):
    bloom = CountingBloom(BloomShape(100, 64, 4, 8))
    bloom.words[:] = [0x0123456789ABCDEF, 0, 0, 1]
    bloom.save(at(tmp_path / "c"), STORE, 7)
    raw = (tmp_path / "c").read_bytes()
    assert raw[:8] == b"\x89CBF\r\n\x1a\n"
    numbers = [1, 4, 8, 0]
    assert raw[8:24] == b"".join(number.to_bytes(4, "little") for number in numbers)
    numbers = [100, 1, 4, 7]
    assert raw[24:56] == b"".join(number.to_bytes(8, "little") for number in numbers)
    assert raw[56:72] == STORE
    assert raw[88:] == bytes.fromhex("efcdab8967452301") + bytes(16) + b"\1" + bytes(7)


def test_every_damaged_byte_is_found(saved):
    _, path = saved
    content = path.read_bytes()
    rng = random.Random(1)
    offsets = [*range(HEADER.itemsize), *rng.sample(range(HEADER.itemsize, len(content)), 60)]
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"counters\.cbf, (header|counters): "):
            load(at(path))
    for length in [*range(0, HEADER.itemsize + 9, 7), len(content) - 1, len(content) + 1]:
        path.write_bytes((content + b"\0")[:length])
        with pytest.raises(FormatError, match="header"):
            load(at(path))


def test_a_later_version_is_refused(saved):
    _, path = saved
    content = bytearray(path.read_bytes())
    content[8] = 2
    path.write_bytes(content)
    with pytest.raises(FormatError, match="version 2 is newer than this mr_dedup reads"):
        load(at(path))
