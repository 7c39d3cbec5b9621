"""Choose how to search: which side to index, with which table design, in how many slices.

The choice minimises an estimate of nanoseconds from sizes and, where samples are given, from
how often two sampled fingerprints share a key: so skewed values get another bit order or more
selective tables than uniform ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError, not_one_of
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign, designs_for

Fingerprints = NDArray[np.uint64]
Side = Literal["queries", "corpus"]
SIDES: tuple[Side, ...] = get_args(Side)

# Nanoseconds on one core of a Zen 5 at 2.6 GHz base; only their proportions matter. See
# bench/hamming.py, which prints them for the machine it runs on.
_BUILD = 7.0  # a fingerprint and table: hash, count, scatter
_PROBE = 4.0  # a probing fingerprint and table: partition, hash, the bucket's first group
_GROUP = 1.1  # each further group of 32 candidates
_JOIN = 5.5  # a fingerprint of a self-join and table: partition, order, what follows it first
_FOLLOWING = 0.45  # each further group of 32 that follow it in its bucket
_SEND = 60.0  # a fingerprint and table through the files between map and reduce tasks
_SELECT = 2.5  # a fingerprint, table and slice of a self-join: is it of the slice?
_MOVE = 4.0  # to bring a fingerprint's bits into an order

_GROUP_SIZE = 32
_BUCKET = 16  # fingerprints a bucket of a directory should have: half a group
_MAX_DIRECTORY_BITS = 24  # 64 MB of starts a table

WHOLE_FROM = 6
"""The k from which a self-join compares whole fingerprints, in twice the time.

Of uniform ones 1 in 3,700 is within 6 bits of another by 32-bit signatures, 1 in 40 within 10:
to look at those then takes the longer.
"""

MAX_CANDIDATES = 10**14
"""Comparisons past which a search is refused: about an hour of one core."""
MAX_MATCHES = 2 * 10**9
"""Expected matches past which a search is refused: k is then too wide to tell pages apart."""

DEFAULT_MEMORY_BYTES = 400 << 20
"""What the tables of one search may take: leaves a task of 700 MB room for Python and blocks."""

BUFFERED_BYTES = 32
"""The memory of a fingerprint while its partition is made distinct or joined."""

_MIN_PARTS, _MAX_PARTS = 16, 1 << 16
"""Minimum and maximum number of partitions of a table: enough to balance tasks, with batches that
are not tiny."""

SAMPLE_SIZE = 1 << 13
"""Fingerprints a sample should have: its 2**26 pairs resolve rates of shared keys down to 1e-7."""


@dataclass(frozen=True)
class Option:
    """One way to search, with what it is expected to cost."""

    design: TableDesign
    order: BitOrder
    index: Side
    slices: int
    memory_bytes: int
    candidates_per_probe: float
    nanoseconds: float


@dataclass(frozen=True)
class Plan:
    """The cheapest option, what it was chosen for, and the options it was chosen from."""

    corpus_size: int
    query_size: int
    k: int
    memory_bytes: int
    chosen: Option
    options: tuple[Option, ...]
    candidates: float
    random_matches: float

    @property
    def slice_size(self) -> int:
        """The most fingerprints that are indexed at a time."""
        indexed = self.query_size if self.chosen.index == "queries" else self.corpus_size
        return max(1, math.ceil(indexed / self.chosen.slices))

    def refuse_explosion(self, tasks: int = 1) -> None:
        """Raise MrDedupError if even the chosen option is past MAX_CANDIDATES or MAX_MATCHES.

        These are for one task; the work may be shared by several.
        """
        work = f"k = {self.k} over {self.corpus_size:,} x {self.query_size:,} fingerprints"
        if self.random_matches > MAX_MATCHES * tasks:
            raise MrDedupError(
                f"{work}: about {self.random_matches:.1e} pairs match by chance alone "
                f"(limit {MAX_MATCHES:.0e}); choose a smaller k"
            )
        if self.candidates > MAX_CANDIDATES * tasks:
            raise MrDedupError(
                f"{work}: even {self.chosen.design.name} compares about {self.candidates:.1e} "
                f"candidates (limit {MAX_CANDIDATES:.0e}); choose a smaller k, or fewer at a time"
            )


def plan(
    corpus_size: int,
    query_size: int,
    k: int,
    *,
    index: str | None = None,
    design: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    corpus_sample: Fingerprints | None = None,
    query_sample: Fingerprints | None = None,
) -> Plan:
    """Return the plan for all pairs within ``k`` bits of a corpus and queries.

    ``index`` and ``design`` (a name of design.designs_for) narrow the choice; samples uint64[s],
    drawn from all over their side, make it follow the values; ``memory_bytes`` bounds the
    tables of a slice. Raises ValueError for a k, side or design that does not exist. Takes
    some milliseconds, and up to 0.2 s with skewed samples.
    """
    considered = _considered(k, design)
    if index is not None and index not in SIDES:
        raise ValueError(f"index must be {not_one_of(index, SIDES)}")
    orders = [BitOrder.natural()]
    for_tables = memory_bytes
    if corpus_sample is None or query_sample is None:
        corpus_sample = query_sample = np.empty(0, dtype=np.uint64)
    elif _is_skewed(corpus_sample, query_sample):
        for_tables = max(1, memory_bytes // 2)  # the other half is for those of oversized buckets
        orders.append(BitOrder.spread(np.concatenate([corpus_sample, query_sample])))
    else:
        corpus_sample = query_sample = corpus_sample[:0]
    sides = [side for side in SIDES if index in (None, side)]
    sizes = (corpus_size, query_size, for_tables)
    options: list[Option] = []
    for order in orders:
        pair = (order.apply(corpus_sample), order.apply(query_sample))
        for table_design in considered:
            # sampling a rate takes 1 ms: skip a design that costs more than the cheapest even with
            # empty buckets
            unsampled = [_option(table_design, order, side, None, *sizes) for side in sides]
            if corpus_sample.size and options and _cheapest(unsampled) > _cheapest(options):
                continue
            rates = [_shared_key_rate(mask, *pair) for mask in table_design.masks]
            options += [_option(table_design, order, side, rates, *sizes) for side in sides]
    chosen = min(options, key=lambda option: option.nanoseconds)
    probing = corpus_size if chosen.index == "queries" else query_size
    candidates = probing * chosen.candidates_per_probe
    by_chance = corpus_size * query_size * _ball(k, _live_bits(corpus_sample))
    return Plan(
        corpus_size,
        query_size,
        k,
        memory_bytes,
        chosen,
        tuple(options),
        candidates,
        # every match is a candidate; a sample full of one popular value has few live bits
        random_matches=min(by_chance, candidates),
    )


def plan_self(
    size: int,
    k: int,
    *,
    design: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    sample: Fingerprints | None = None,
    partitioned: bool = False,
) -> Plan:
    """Return the plan for all pairs within ``k`` bits among ``size`` distinct fingerprints.

    As ``plan`` does; corpus and queries of the plan are the same ``size``, its index is the
    corpus, and its candidates are those that follow a fingerprint in its buckets: each pair once.
    ``partitioned`` ones are sent to reduce tasks for each table, and not sliced.
    """
    considered = _considered(k, design)
    orders = [BitOrder.natural()]
    if sample is None or not _is_skewed(sample, sample):
        sample = np.empty(0, dtype=np.uint64)
    else:
        memory_bytes = max(1, memory_bytes // 2)  # the other half is for those of oversized buckets
        # first, as it is likely the better: then most designs in the other need no rates
        orders.insert(0, BitOrder.spread(sample))
    options: list[Option] = []
    for order in orders:
        moved = order.apply(sample)
        for table_design in considered:
            unsampled = _self_option(table_design, order, None, size, memory_bytes, partitioned)
            if sample.size and options and unsampled.nanoseconds > _cheapest(options):
                continue
            rates = [_repeated_key_rate(mask, moved) for mask in table_design.masks]
            options.append(
                _self_option(table_design, order, rates, size, memory_bytes, partitioned)
            )
    chosen = min(options, key=lambda option: option.nanoseconds)
    candidates = size * chosen.candidates_per_probe
    by_chance = size * size / 2 * _ball(k, _live_bits(sample))
    return Plan(
        size, size, k, memory_bytes, chosen, tuple(options), candidates,
        random_matches=min(by_chance, candidates),
    )  # fmt: skip


def parts_for(size: int, memory_bytes: int) -> int:
    """Return how many partitions a table of ``size`` fingerprints should have.

    Of uniform ones a partition then takes half of a task's ``memory_bytes``, or less.
    """
    return min(_MAX_PARTS, max(_MIN_PARTS, math.ceil(2 * size * BUFFERED_BYTES / memory_bytes)))


def spread_sample(fingerprints: Fingerprints, size: int = SAMPLE_SIZE) -> Fingerprints:
    """Return at most ``size`` of ``fingerprints`` uint64[n], evenly spaced."""
    return fingerprints[:: max(1, math.ceil(fingerprints.size / size))]


def directory_bits_for(size: int, order: BitOrder) -> int:
    """Return the bits of a directory whose buckets have about 16 of ``size`` fingerprints.

    Two more where bits are permuted, since values are skewed: keys have more fingerprints, and
    two in one bucket make it too large. With 24 shared leading bits that saved a sixth of the time.
    """
    bits = round(math.log2(max(1, size) / _BUCKET)) + (0 if order.is_natural else 2)
    return min(_MAX_DIRECTORY_BITS, max(1, bits))


def _option(
    design: TableDesign,
    order: BitOrder,
    index: Side,
    rates: Sequence[float] | None,
    corpus_size: int,
    query_size: int,
    memory_bytes: int,
) -> Option:
    """Return the option with its cost; without ``rates``, as if no two shared a key."""
    rates = rates or [0.0] * len(design.masks)
    indexed, probing = (
        (query_size, corpus_size) if index == "queries" else (corpus_size, query_size)
    )
    slices = max(1, math.ceil(indexed * _bytes_a_fingerprint(design) / memory_bytes))
    size = math.ceil(indexed / slices)
    bits = directory_bits_for(size, order)
    buckets = [size * max(rate, 2.0**-bits) for rate in rates]
    probe = sum(_PROBE + _GROUP * bucket / _GROUP_SIZE for bucket in buckets)
    return Option(
        design,
        order,
        index,
        slices,
        memory_bytes=size * _bytes_a_fingerprint(design),
        candidates_per_probe=slices * sum(buckets),
        nanoseconds=_BUILD * indexed * len(rates) + slices * probing * probe,
    )


def _self_option(
    design: TableDesign,
    order: BitOrder,
    rates: Sequence[float] | None,
    size: int,
    memory_bytes: int,
    partitioned: bool,
) -> Option:
    """Return the option with its cost; without ``rates``, as if no two shared a key."""
    rates = rates or [0.0] * len(design.masks)
    bits = directory_bits_for(size, order)
    # the partitioned copy; where bits move or not all fit at once, another of what it is made from
    copied_bytes = size * (8 if order.is_natural else 16)
    slices = 1 if copied_bytes <= memory_bytes else math.ceil(16 * size / memory_bytes)
    group = _FOLLOWING if design.k < WHOLE_FROM else 2 * _FOLLOWING
    # a directory of partitions has as many bits as there are
    max_bits = BITS if partitioned else bits
    following = [size * max(rate, 2.0**-max_bits) / 2 for rate in rates]
    join = sum(_JOIN + group * each / _GROUP_SIZE for each in following)
    moves = 0 if order.is_natural else 1
    if partitioned:
        slices = 1
        join += _SEND * len(rates)
    elif slices > 1:
        join += _SELECT * slices * len(rates)
        moves *= 2 * slices * len(rates)
    return Option(
        design,
        order,
        "corpus",
        slices,
        memory_bytes=copied_bytes if slices == 1 else math.ceil(size / slices) * 16,
        candidates_per_probe=sum(following),
        nanoseconds=size * (join + _MOVE * moves),
    )


def _considered(k: int, design: str | None) -> list[TableDesign]:
    """Return the designs for ``k``, or the one that is named; raises ValueError if it is none."""
    if not 0 <= k <= BITS:
        raise ValueError(f"k must be from 0 to {BITS}, not {k}")
    designs = designs_for(k)
    if design is not None and design not in designs:
        raise ValueError(f"design for k = {k} must be {not_one_of(design, [*designs])}")
    return [designs[design]] if design else list(designs.values())


def _cheapest(options: Sequence[Option]) -> float:
    return min(option.nanoseconds for option in options)


def _bytes_a_fingerprint(design: TableDesign) -> int:
    """Return what one indexed fingerprint takes: itself, and in each table signature and slot.

    A start is 4 bytes for some 16 fingerprints, rounded up to half a byte.
    """
    return 8 + 9 * len(design.masks)


def _shared_key_rate(mask: int, corpus_sample: Fingerprints, query_sample: Fingerprints) -> float:
    """Return how probably a corpus fingerprint and another query share their masked bits."""
    uniform = 2.0 ** -mask.bit_count()
    if corpus_sample.size == 0 or query_sample.size == 0 or mask == 0:
        return uniform
    shared = _equal_pairs(corpus_sample & np.uint64(mask), query_sample & np.uint64(mask))
    # a fingerprint in both samples does not show how similar different ones are
    shared -= _equal_pairs(corpus_sample, query_sample)
    return max(uniform, shared / (corpus_sample.size * query_sample.size))


def _repeated_key_rate(mask: int, sample: Fingerprints) -> float:
    """Return how probably two different fingerprints share their masked bits."""
    uniform = 2.0 ** -mask.bit_count()
    if sample.size == 0 or mask == 0:
        return uniform
    keys = np.sort(sample & np.uint64(mask))
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    runs = np.diff(starts, prepend=0, append=keys.size)
    return max(uniform, float(runs @ runs - keys.size) / keys.size**2)


def _equal_pairs(one: Fingerprints, other: Fingerprints) -> int:
    """Return how many pairs (of one, of other) are equal."""
    one, other = np.sort(one), np.sort(other)
    right, left = (np.searchsorted(other, one, side) for side in ("right", "left"))
    return int((right - left).sum())


def _is_skewed(corpus_sample: Fingerprints, query_sample: Fingerprints) -> bool:
    """Tell whether some 16-bit block is shared far more often than uniform values would.

    Blocks at every multiple of 8, so that no skew hides between two.
    """
    if min(corpus_sample.size, query_sample.size) < 64:
        return False
    expected = corpus_sample.size * query_sample.size / 2.0**16
    limit = 1.5 * expected + 6 * math.sqrt(expected) + 6 + _equal_pairs(corpus_sample, query_sample)
    for low in range(0, BITS - 8, 8):
        shift, block = np.uint64(low), np.uint64(0xFFFF)
        counts = [
            np.bincount((sample >> shift & block).astype(np.int64), minlength=1 << 16)
            for sample in (corpus_sample, query_sample)
        ]
        if counts[0] @ counts[1] > limit:
            return True
    return False


def _live_bits(sample: Fingerprints) -> int:
    """Return the sum of the bits' entropies in a sample, at least 1; 64 if there is none."""
    if sample.size == 0:
        return BITS
    share = np.array([np.mean(sample >> np.uint64(b) & np.uint64(1)) for b in range(BITS)])
    share = share[(share > 0) & (share < 1)]
    entropies = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    return max(1, round(float(entropies.sum())))


def _ball(k: int, bits: int) -> float:
    """Return the share of all ``bits``-bit numbers within k bits of one of them."""
    return sum(math.comb(bits, distance) for distance in range(min(k, bits) + 1)) / 2.0**bits
