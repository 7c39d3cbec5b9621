"""All pairs of a corpus (k = 3), beside NumPy, and by size and distribution.

One thread, uniform fingerprints of which 1 in 64 has a planted near-duplicate. ``self_join`` is
the whole search, from an array to ordered pairs. Both must find the same pairs before anything is
timed.

The rival is the fastest exact search that we could write in NumPy alone. Of three flipped bits at
most one is in one of the 32-bit halves of a fingerprint, so that three of the four bytes of this
half are equal. So for each of eight such keys the fingerprints are sorted with the key leading,
which NumPy does with vector instructions, and each is compared with those behind it that have the
same key.

Alternatives that were tried, 4 and 16 million fingerprints, as ratios to this one:

- three parts of a half, six sorts, keys of 21 or 22 bits: 1.0 and 1.3
- five parts, ten sorts, 25 or 26 bits: 1.4 to 1.6 and 1.4
- whole halves, four sorts, 16 bits: 4, and not measured
- comparing all neighbours instead of only those with the same key: 1.2 and 1.3
- blocks of 2**14: 1.1 and 1.2; of 2**16: 1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bench.inputs import SEED, Fingerprints
from bench.measure import (
    Mismatch,
    PairArrays,
    Row,
    case_row,
    interleaved,
    peak_bytes,
    require_equal,
)
from data_gen.distributions import Clustered, Distribution, Prefix, Uniform
from data_gen.streams import Stream
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import plan_self, spread_sample
from mr_dedup.hamming.self_join import self_join
from mr_dedup.kernels.library import load_kernels

K = 3

_NAME = "self-join"
_OURS = "mr_dedup"
_BYTES_A_HALF = 4
_BLOCK = 1 << 15
_MEMORY_BYTES = 4 << 30


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if two searches disagree."""
    load_kernels()
    for millions in (1,) if quick else (4, 16):
        yield from _against_numpy(millions << 20, rounds)
    yield from _growth(quick, rounds)
    yield from _distributions(quick, rounds)


def _against_numpy(size: int, rounds: int) -> Iterator[Row]:
    values, planted = _planted(Uniform(), size)
    found = self_join(values, K)
    _require_found(planted, found)
    require_equal("NumPy", search(values), (found.left, found.right))
    cases: dict[str, Callable[[], object]] = {
        _OURS: lambda: self_join(values, K),
        "NumPy": lambda: search(values),
    }
    timings = interleaved(cases, rounds, _NAME)
    for case, function in cases.items():
        nanoseconds = timings.median(case) / size * 1e9
        yield case_row(
            _NAME, case, timings, _OURS,
            name=f"{case}, {size:,}",
            memory_bytes=peak_bytes(function),
            note=f"{len(found):,} pairs, {nanoseconds:.0f} ns a fingerprint",
        )  # fmt: skip


def _growth(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the cost by size: the planner changes the design."""
    sizes = [1 << bits for bits in (range(14, 19, 2) if quick else range(20, 27, 2))]
    inputs = {f"{size:,}": _planted(Uniform(), size) for size in sizes}
    yield from _rows("self-join by size", inputs, rounds)


def _distributions(quick: bool, rounds: int) -> Iterator[Row]:
    size = 1 << 18 if quick else 1 << 22
    distributions: dict[str, Distribution] = {
        "uniform": Uniform(),
        "16 leading bits shared": Prefix(prefix_bits=16),
        "24 leading bits shared": Prefix(prefix_bits=24),
        f"{size // 4:,} clusters": Clustered(clusters=size // 4),
    }
    inputs = {name: _planted(distribution, size) for name, distribution in distributions.items()}
    yield from _rows("self-join by distribution", inputs, rounds)


def _rows(
    benchmark: str, inputs: dict[str, tuple[Fingerprints, Pairs]], rounds: int
) -> Iterator[Row]:
    counts, cases = {}, {}
    for name, (values, planted) in inputs.items():
        found = self_join(values, K, memory_bytes=_MEMORY_BYTES)
        _require_found(planted, found)
        counts[name] = len(found)
        cases[name] = _joining(values)
    timings = interleaved(cases, rounds, benchmark)
    first = next(iter(inputs))
    for name, (values, _) in inputs.items():
        chosen = plan_self(
            values.size, K, memory_bytes=_MEMORY_BYTES, sample=spread_sample(values)
        ).chosen
        seconds = timings.median(name)
        ratio = timings.ratio(name, first) * inputs[first][0].size / values.size
        order = "" if chosen.order.is_natural else ", bits permuted"
        yield Row(
            benchmark,
            name,
            seconds,
            None if name == first else ratio,
            "the first",
            chosen.memory_bytes,
            f"{seconds / values.size * 1e9:.0f} ns a fingerprint, {counts[name]:,} pairs, "
            f"{chosen.design.name}{order}",
        )


def _joining(values: Fingerprints) -> Callable[[], object]:
    return lambda: self_join(values, K, memory_bytes=_MEMORY_BYTES)


def _planted(distribution: Distribution, size: int) -> tuple[Fingerprints, Pairs]:
    """Return about ``size`` distinct fingerprints in random order, and planted pairs of them."""
    stream = Stream(SEED, "self-join")
    values = distribution.prepare(SEED)(stream, size)
    near = values[: size // 64]
    flips = [stream.raw(near.size) % np.uint64(64) for _ in range(K)]
    duplicates = near.copy()
    for positions in flips:
        duplicates ^= np.uint64(1) << positions
    values = distinct(np.concatenate([values[near.size :], near, duplicates]))
    np.random.default_rng(SEED).shuffle(values)
    apart = near != duplicates
    return values, Pairs.unordered(near[apart], duplicates[apart])


def _require_found(planted: Pairs, found: Pairs) -> None:
    if len(Pairs.merged([planted, found])) != len(found):
        raise Mismatch("a planted near-duplicate was not found")


def search(fingerprints: Fingerprints) -> PairArrays:
    """Return every pair of distinct fingerprints within K bits, ascending (signed), by NumPy.

    Memory: 20 bytes a fingerprint.
    """
    found: list[PairArrays] = []
    earlier: list[np.uint64] = []
    halves = fingerprints.astype("<u8", copy=False).view("<u4").reshape(-1, 2)
    words = np.empty_like(fingerprints)
    parts = words.view("<u4").reshape(-1, 2)
    for half in (0, 1):
        own = np.ascontiguousarray(halves[:, half])
        for excluded in range(_BYTES_A_HALF):
            shift = 8 * excluded
            parts[:, 1] = _rotated(own, shift)
            parts[:, 0] = halves[:, 1 - half]
            words.sort()
            one, other = (_restored(side, half, shift) for side in _near_neighbours(words))
            difference = one ^ other
            is_own = np.ones(difference.size, dtype=bool)
            for mask in earlier:
                is_own &= difference & mask != 0
            found.append((one[is_own], other[is_own]))
            earlier.append(np.uint64((0xFFFFFFFF ^ 0xFF << shift) << 32 * half))
    return _ordered(found)


def _near_neighbours(words: Fingerprints) -> PairArrays:
    """Return the pairs within K bits of ascending words that share their 24 leading bits."""
    limit = np.uint64(1 << 64 - 24)
    found: list[PairArrays] = []
    difference, bits = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint8)
    for start in range(0, words.size, _BLOCK):
        count = min(_BLOCK, words.size - start - 1)
        one, other = words[start : start + count], words[start + 1 : start + 1 + count]
        differ = np.bitwise_xor(one, other, out=difference[:count])
        near = (np.bitwise_count(differ, out=bits[:count]) <= K).nonzero()[0]
        found.append((one[near], other[near]))
        # from here on only those with the same key as the next one
        rows = (differ < limit).nonzero()[0] + start
        distance = 2
        while (rows := rows[rows < words.size - distance]).size:
            one, other = words.take(rows), words.take(rows + distance)
            differ = one ^ other
            near = (np.bitwise_count(differ) <= K).nonzero()[0]
            found.append((one[near], other[near]))
            rows = rows[differ < limit]
            distance += 1
    one, other = (np.concatenate(side) for side in zip(*found, strict=True))
    # one byte of the leading half may differ, and no pair differs in more than K bits
    shared = one ^ other < limit
    return one[shared], other[shared]


def _rotated(halves: NDArray[np.uint32], shift: int) -> NDArray[np.uint32]:
    """Return the halves rotated right."""
    return halves if shift == 0 else halves >> np.uint32(shift) | halves << np.uint32(32 - shift)


def _restored(words: Fingerprints, half: int, shift: int) -> Fingerprints:
    """Return the fingerprints of words that start with a half rotated right by ``shift``."""
    leading = (words >> np.uint64(32)).astype(np.uint32)
    own = _rotated(leading, (32 - shift) % 32).astype(np.uint64)
    others = words & np.uint64(0xFFFFFFFF)
    return own << np.uint64(32) | others if half else others << np.uint64(32) | own


def _ordered(found: list[PairArrays]) -> PairArrays:
    """Return the pairs with the smaller one left, ascending, both as signed numbers."""
    one, other = (np.concatenate(side).view(np.int64) for side in zip(*found, strict=True))
    left, right = np.minimum(one, other), np.maximum(one, other)
    order = np.lexsort((right, left))
    return left[order].view(np.uint64), right[order].view(np.uint64)
