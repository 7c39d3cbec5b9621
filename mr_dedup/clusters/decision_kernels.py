"""The loops that find keepers: compare each text of a cluster with the keepers before it.

Sets are ``offsets``, ``sizes`` and ``hashes``, as verification_kernels.py has them. ``rows``
uint64[m] are the sets of the texts to decide on, none of them empty, cluster by cluster, each
cluster's best text first. Results are ``keepers`` int64[m], the position of each text's keeper, its
own where it is kept, and ``similarities`` float64[m] of the two. Nothing is validated or allocated
here: decisions.py does both.

In crowded clusters an index rules keepers out, exactly (Chaudhuri, Ganti, Kaushik, ICDE 2006;
Bayardo, Ma, Srikant, WWW 2007). Put all hashes in one order, whichever. If two sets have c hashes
in common, the first of these has c - 1 common ones after it, so in a set of n hashes it is among
the first n - c + 1: the set's prefix. The order is by rarity, so that prefixes meet by chance as
seldom as can be, then by the hashes. A set has two prefixes:

- the long one, c = least_shared(n), serves whatever the other's size is;
- the short one, c = least_overlap(2 n), serves if the other set is as large or larger.

So similar sets meet in the short prefix of one and the long one of the other. For t = 0.8 these are
0.11 n and 0.2 n hashes. That two long ones meet says nothing: not to look at that took 10,000 texts
that are 0.77 alike from 10 s to 0.14 s. A cut set has the long prefix alone.

A scan of all keepers, where the index separates too few: variants of one page, texts of a few
hundred phrases. It bounds from below in how many hashes two sets differ. A hash that only one text
of the cluster has is in its difference with every other text: these are counted. In how many of the
others two sets differ is bounded by their parities (see fill_parity). In variants of one
page, most hashes in which two differ are of one text alone, and parities of all are a weak bound.

The keeper with the smallest bound is compared first, so that most of the others need not be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int32, int64, njit, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.clusters.verification_kernels import least_overlap, similarity
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.distances import GROUP, group_within

_U = np.uint64
_0, _1, _6, _32, _63, _64 = (_U(n) for n in (0, 1, 6, 32, 63, 64))
_LONG = _U(0x9E3779B97F4A7C15)
"""Makes other keys of hashes that are only in the long prefix."""

_LANES = _U(GROUP)

_SCAN_GAIN = _U(64)
"""Keepers that are scanned in the time of a step along a chain, a miss of the cache."""

_ONE_TEXT = uint8(1)
"""The class of rarity of hashes that one text has."""

_UNBOUNDED = np.int32(1 << 30)
"""The slack of keepers whose difference from others is not bounded."""

_COMPARISON = _U(256)
"""Keepers that are scanned in the time of comparing two sets, about."""

RARITIES = 33
"""Classes of rarity: how many bits it takes to count a hash."""


class Sets(NamedTuple):
    """Sets of hashes, and ``rarities`` uint8[c], the class of each hash in the cluster.

    A hash has the class at its remainder by c, a power of 2.
    """

    offsets: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    rarities: NDArray[np.uint8]


class PrefixIndex(NamedTuple):
    """Which keepers have a key in their prefix, as chains of entries.

    Chain s starts at entry heads[s] - 1 and has lengths[s] entries, both uint32[h], zeros at first,
    h a power of 2. Entry e is of key keys[e] and keeper number keepers[e]; the next one of its
    chain is links[e] - 1; 0 ends it. All uint32[entries].
    """

    heads: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    keys: NDArray[np.uint32]
    keepers: NDArray[np.uint32]
    links: NDArray[np.uint32]


class Keepers(NamedTuple):
    """The keepers of a cluster of t texts so far, in their order.

    ``positions`` uint64[t]; ``sizes`` uint64[t] of their sets, 0 of one that was cut; ``alone``
    uint64[t], how many hashes no other text has. ``parities`` uint64[8 w ceil(t / 8)], word i of
    keeper k at (k - k mod 8) w + 8 i + k mod 8. ``slack`` int32[t + 7]: in how many hashes more
    than those alone it may differ from a similar set, less what depends on that set.
    """

    positions: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    alone: NDArray[np.uint64]
    parities: NDArray[np.uint64]
    slack: NDArray[np.int32]


class Scratch(NamedTuple):
    """What deciding on one text writes to.

    ``tallies`` uint64[RARITIES]; ``prefix`` uint64[n] for sets of n hashes; ``parity`` uint64[w];
    of t texts ``seen`` uint8[t], zeros before and after, and ``candidates`` uint32[t + 8].
    """

    tallies: NDArray[np.uint64]
    prefix: NDArray[np.uint64]
    parity: NDArray[np.uint64]
    seen: NDArray[np.uint8]
    candidates: NDArray[np.uint32]


class Progress(NamedTuple):
    """Where deciding on a cluster is.

    ``begin`` is the position of the next text, ``used`` how many entries of the index are taken,
    ``kept`` how many keepers there are, of which the first ``indexed`` are in the index.
    """

    begin: np.uint64
    used: np.uint64
    kept: np.uint64
    indexed: np.uint64


@njit(cache=True, nogil=True)
def decide_few(  # type: ignore[no-untyped-def]
    offsets, sizes, hashes, rows, starts, large, threshold, held, stops, keepers, similarities
):
    """Decide on the texts of clusters, comparing each with every keeper of its cluster.

    Cluster g is rows[starts[g]:starts[g + 1]]. A text that is its own keeper already remains it;
    those of the others are -1. ``held`` uint64[f] is scratch for a cluster's keepers: the text that
    would be one more is left undecided with all after it, and stops[g] is its position; else
    starts[g + 1]. Of clusters that are ``large`` bool[g] all texts are left undecided.
    """
    for cluster in range(stops.size):
        count = _0
        i = starts[cluster]
        while i < starts[cluster + 1] and not large[cluster]:
            best, keeper = -1.0, int64(i)
            for k in range(count if keepers[i] < 0 else _0):
                value = similarity(
                    offsets, sizes, hashes, rows[held[k]], rows[i], max(threshold, best)
                )
                if value > best:
                    best, keeper = value, int64(held[k])
                    if best == 1.0:
                        break
            if best < 0.0:
                if count == uint64(held.size):
                    break
                held[count] = i
                count += _1
            keepers[i], similarities[i] = keeper, best
            i += _1
        stops[cluster] = i


@njit(cache=True, nogil=True)
def count_hashes(offsets, hashes, rows, counts):  # type: ignore[no-untyped-def]
    """Add to counts[h mod c] for every hash h of the sets ``rows``; c a power of 2.

    Hashes that share a count make some look less rare than they are: that costs time, not pairs.
    """
    mask = uint64(counts.size) - _1
    for i in range(rows.size):
        for at in range(offsets[rows[i]], offsets[rows[i] + _1]):
            counts[hashes[at] & mask] += uint32(1)


@njit(cache=True, nogil=True)
def classify(counts, rarities):  # type: ignore[no-untyped-def]
    """Write to ``rarities`` uint8[c] how many bits each of ``counts`` uint32[c] takes."""
    for i in range(counts.size):
        bits, left = uint8(0), counts[i]
        while left != uint32(0):
            left >>= uint32(1)
            bits += uint8(1)
        rarities[i] = bits


@njit(cache=True, nogil=True)
def least_shared(size, threshold):  # type: ignore[no-untyped-def]
    """Return the least o with o / ``size`` >= ``threshold``, as doubles divide.

    A set of ``size`` hashes shares so many with any that is similar enough: what both have
    together is ``size`` or more. That holds for cut sets too, as similarity compares them.
    """
    whole = np.float64(size)
    shared = max(np.floor(whole * threshold) - 1.0, 0.0)
    while shared / whole < threshold:
        shared += 1.0
    return uint64(shared)


@njit(cache=True, nogil=True)
def fill_prefix(  # type: ignore[no-untyped-def]
    hashes, begin, end, rarities, short, length, tallies, prefix
):
    """Write the first ``length`` of ``hashes[begin:end]`` by rarity, then hash, to ``prefix``.

    The first ``short`` of them come first, else they have no order. ``tallies`` uint64[RARITIES] is
    scratch.
    """
    mask = uint64(rarities.size) - _1
    tallies[:] = _0
    for at in range(begin, end):
        tallies[rarities[hashes[at] & mask]] += _1
    short_last, short_left = _last_of(tallies, short)
    last, left = _last_of(tallies, length)
    written, rest = _0, short
    for at in range(begin, end):
        rarity = uint64(rarities[hashes[at] & mask])
        if rarity < short_last or (rarity == short_last and short_left > _0):
            prefix[written] = hashes[at]
            written += _1
            short_left -= uint64(rarity == short_last)
            left -= uint64(rarity == last)
        elif rarity < last or (rarity == last and left > _0):
            prefix[rest] = hashes[at]
            rest += _1
            left -= uint64(rarity == last)


@njit(cache=True, nogil=True)
def _last_of(tallies, length):  # type: ignore[no-untyped-def]
    """Return the class in which the first ``length`` end, and how many of it belong to them."""
    last = _0
    while tallies[last] < length:
        length -= tallies[last]
        last += _1
    return last, length


@njit(cache=True, nogil=True)
def fill_parity(hashes, begin, end, rarities, parity):  # type: ignore[no-untyped-def]
    """Return how many of ``hashes[begin:end]`` one text has alone; write the parity of the others.

    That is each bit of ``parity`` uint64[w] that an odd number of them choose; w a power of 2. A
    hash chooses one by its last bits. One that only one of two sets has flips one bit of one, so
    the parities differ in no more bits than the sets in such hashes.
    """
    parity[:] = _0
    alone = _0
    mask, rarity_mask = uint64(parity.size) - _1, uint64(rarities.size) - _1
    for at in range(begin, end):
        if rarities[hashes[at] & rarity_mask] == _ONE_TEXT:
            alone += _1
        else:
            parity[(hashes[at] >> _6) & mask] ^= _1 << (hashes[at] & _63)
    return alone


@njit(cache=True, nogil=True)
def differing(parity, known, k):  # type: ignore[no-untyped-def]
    """Return in how many hashes a set of ``parity`` differs from keeper ``k``, at least.

    Beside what the set has alone.
    """
    bits = known.alone[k]
    lane = k & (_LANES - _1)
    at = (k - lane) * uint64(parity.size) + lane
    for word in range(parity.size):
        bits += population_count(parity[word] ^ known.parities[at])
        at += _LANES
    return bits


@njit(cache=True, nogil=True)
def add_keeper(known, k, position, size, alone, parity, threshold):  # type: ignore[no-untyped-def]
    """Make the text at ``position`` keeper ``k``; ``size`` is 0 if its set was cut."""
    known.positions[k], known.sizes[k], known.alone[k] = position, size, alone
    lane = k & (_LANES - _1)
    at = (k - lane) * uint64(parity.size) + lane
    for word in range(parity.size):
        known.parities[at] = parity[word]
        at += _LANES
    known.slack[k] = _UNBOUNDED if size == _0 else int32(slack_of(size, alone, threshold))


@njit(cache=True, nogil=True)
def slack_of(size, alone, threshold):  # type: ignore[no-untyped-def]
    """Return the share of a set of ``size`` hashes in how many hashes it may differ from another.

    Of two sets that are similar enough the parities differ in at most the sum of their shares. A
    share is rounded up, by more than a double is off.
    """
    most = np.float64(size) * ((1.0 - threshold) / (1.0 + threshold))
    return int64(np.floor(most)) + int64(2) - int64(alone)


@njit(cache=True, nogil=True)
def add_entries(index, used, prefix, short, length, k):  # type: ignore[no-untyped-def]
    """Index ``prefix[:length]`` of keeper ``k`` after ``used`` entries; return how many there are.

    Only the first ``short`` of them are of its short prefix.
    """
    mask = uint64(index.heads.size) - _1
    for p in range(length):
        key = (prefix[p] if p < short else prefix[p] ^ _LONG) >> _32
        slot = key & mask
        index.keys[used], index.keepers[used] = uint32(key), uint32(k)
        index.links[used] = index.heads[slot]
        used += _1
        index.heads[slot] = uint32(used)
        index.lengths[slot] += uint32(1)
    return used


@njit(cache=True, nogil=True)
def list_indexed(index, short, length, most_steps, scratch):  # type: ignore[no-untyped-def]
    """Write to scratch.candidates the keepers that the index names for scratch.prefix.

    Returns how many, and how many steps it took; (0, ``most_steps`` + 1) if they would be more.
    """
    mask = uint64(index.heads.size) - _1
    prefix, seen, candidates = scratch.prefix, scratch.seen, scratch.candidates
    steps = _0
    for p in range(length + short):
        key = (prefix[p] if p < length else prefix[p - length] ^ _LONG) >> _32
        steps += uint64(index.lengths[key & mask])
    if steps > most_steps:
        return _0, most_steps + _1
    keys, keepers, links = index.keys, index.keepers, index.links
    listed = _0
    for p in range(length + short):
        key = (prefix[p] if p < length else prefix[p - length] ^ _LONG) >> _32
        entry = index.heads[key & mask]
        while entry != uint32(0):
            at = entry - uint32(1)
            if keys[at] == uint32(key):
                k = keepers[at]
                candidates[listed] = k
                listed += uint64(seen[k] == uint8(0))
                seen[k] = uint8(1)
            entry = links[at]
    for c in range(listed):
        seen[candidates[c]] = uint8(0)
    return listed, steps


@njit(cache=True, nogil=True)
def scan(known, begin, count, whole, limit, scratch, listed):  # type: ignore[no-untyped-def]
    """Write keepers from ``begin`` to ``count`` to scratch.candidates after ``listed`` ones.

    Those that a set of scratch.parity may be similar to, of the slack ``limit``, or all if it was
    not ``whole``; returns how many there are.
    """
    candidates, parity = scratch.candidates, scratch.parity
    if not whole:
        for k in range(begin, count):
            candidates[listed] = uint32(k)
            listed += _1
        return listed
    parities, slack, words = known.parities, known.slack, uint64(parity.size)
    k = begin - (begin & (_LANES - _1))
    while k < count:
        near = uint32(group_within(parities, k * words, parity, slack, k, limit))
        while near != uint32(0):
            lane = uint64(trailing_zeros(near))
            near &= near - uint32(1)
            if begin <= k + lane < count:
                candidates[listed] = uint32(k + lane)
                listed += _1
        k += _LANES
    return listed


@njit(cache=True, nogil=True)
def most_similar(size, other, different):  # type: ignore[no-untyped-def]
    """Return the similarity of whole sets of such sizes that differ in so many hashes, or fewer.

    As doubles divide in ``similarity``, so that it is never less than that.
    """
    total = size + other
    if different >= total:
        return 0.0
    shared = min((total - different) >> _1, min(size, other))
    return np.float64(shared) / np.float64(total - shared)


@njit(cache=True, nogil=True)
def nearest_keeper(  # type: ignore[no-untyped-def]
    sets, rows, known, row, whole, alone, listed, threshold, scratch
):
    """Return the most similar of the ``listed`` candidates, the first of several; how similar.

    And how many sets were compared. The similarity is -1 if it would be below ``threshold``.
    """
    candidates, parity = scratch.candidates, scratch.parity
    offsets, sizes, hashes = sets.offsets, sets.sizes, sets.hashes
    size = sizes[row]
    best, nearest, compared = -1.0, _0, _0
    first, highest = _0, -1.0
    for c in range(listed if whole else _0):
        k = uint64(candidates[c])
        if known.sizes[k] == _0:
            continue
        bound = most_similar(size, known.sizes[k], alone + differing(parity, known, k))
        if bound > highest or (bound == highest and k < first):
            first, highest = k, bound
    if highest >= threshold:
        value = similarity(offsets, sizes, hashes, row, rows[known.positions[first]], threshold)
        compared += _1
        if value >= 0.0:
            best, nearest = value, first
    for c in range(listed):
        k = uint64(candidates[c])
        least = max(threshold, best)
        if whole and known.sizes[k] != _0:
            bound = most_similar(size, known.sizes[k], alone + differing(parity, known, k))
            if bound < least or (bound == best and k >= nearest):
                continue
        value = similarity(offsets, sizes, hashes, row, rows[known.positions[k]], least)
        compared += _1
        if value > best or (value == best and value >= 0.0 and k < nearest):
            best, nearest = value, k
    return nearest, best, compared


@njit(cache=True, nogil=True)
def decide_many(  # type: ignore[no-untyped-def]
    sets, rows, end, threshold, index, known, scratch, progress, work, keepers, similarities
):
    """Decide on the texts of one cluster from ``progress`` to the one at ``end``.

    A text that is already decided on is skipped, or if it is a keeper added to them. Keepers are
    indexed as long as there is room. Returns the progress after ``work`` keepers were scanned, or
    what takes that long, so that the caller may see to signals.
    """
    offsets, sizes, hashes, rarities = sets
    i, used = uint64(progress.begin), uint64(progress.used)
    count, indexed = uint64(progress.kept), uint64(progress.indexed)
    done = _0
    while i < end and done < work:
        if keepers[i] >= 0 and uint64(keepers[i]) != i:
            i += _1
            continue
        row = rows[i]
        start, stop = offsets[row], offsets[row + _1]
        size = stop - start
        done += size
        whole = size == sizes[row]
        length = size - least_shared(size, threshold) + _1
        short = size - least_overlap(size + size, threshold) + _1 if whole else length
        fill_prefix(hashes, start, stop, rarities, short, length, scratch.tallies, scratch.prefix)
        alone = fill_parity(hashes, start, stop, rarities, scratch.parity)
        if keepers[i] < 0:
            most_steps = indexed // _SCAN_GAIN + _64
            listed, steps = list_indexed(index, short, length, most_steps, scratch)
            begin = indexed if steps <= most_steps else _0
            limit = slack_of(size, alone, threshold)
            listed = scan(known, begin, count, whole, limit, scratch, listed)
            nearest, best, compared = nearest_keeper(
                sets, rows, known, row, whole, alone, listed, threshold, scratch
            )
            done += count - begin + compared * _COMPARISON
            similarities[i] = best
            if best >= 0.0:
                keepers[i] = int64(known.positions[nearest])
                i += _1
                continue
            keepers[i] = int64(i)
        if indexed == count and used + length <= uint64(index.keys.size):
            used = add_entries(index, used, scratch.prefix, short, length, count)
            indexed += _1
        add_keeper(known, count, i, size if whole else _0, alone, scratch.parity, threshold)
        count += _1
        i += _1
    return Progress(i, used, count, indexed)
