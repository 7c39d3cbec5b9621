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

What an index cannot tell apart, texts of a few hundred phrases, is scanned: the parities of two
sets bound in how many hashes they differ (see fill_parity), at 3 to 7 ns a keeper.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, uint8, uint32, uint64

from mr_dedup.clusters.verification_kernels import least_overlap, similarity
from mr_dedup.hamming.intrinsics import population_count

_U = np.uint64
_0, _1, _6, _63, _64 = (_U(n) for n in (0, 1, 6, 63, 64))
_LONG = _U(0x9E3779B97F4A7C15)
"""Makes other keys of hashes that are only in the long prefix."""

_SCAN_GAIN = _U(64)
"""Keepers whose parities are looked at in the time of a step along a chain, a miss of the cache.

With 16, texts of frequent words took 1.5 to 2.5 times as long.
"""

RARITIES = 33
"""Classes of rarity: how many bits it takes to count a hash."""


@njit(cache=True, nogil=True)
def decide_few(  # type: ignore[no-untyped-def]
    offsets, sizes, hashes, rows, starts, threshold, held, stops, keepers, similarities
):
    """Decide on the texts of all clusters, comparing each with every keeper of its cluster.

    Cluster g is rows[starts[g]:starts[g + 1]]. A text that is its own keeper already remains it;
    those of the others are -1. ``held`` uint64[f] is scratch for a cluster's keepers: the text that
    would be one more is left undecided with all after it, and stops[g] is its position; else
    starts[g + 1].
    """
    for cluster in range(stops.size):
        count = _0
        i = starts[cluster]
        while i < starts[cluster + 1]:
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
def fill_parity(hashes, begin, end, parity):  # type: ignore[no-untyped-def]
    """Set each bit of ``parity`` uint64[w] that an odd number of the hashes choose; w a power of 2.

    A hash chooses one by its last bits. One that only one of two sets has flips one bit of one, so
    the parities differ in no more bits than the sets in hashes.
    """
    parity[:] = _0
    mask = uint64(parity.size) - _1
    for at in range(begin, end):
        parity[(hashes[at] >> _6) & mask] ^= _1 << (hashes[at] & _63)


@njit(cache=True, nogil=True)
def differing(parity, other):  # type: ignore[no-untyped-def]
    """Return in how many bits two parities differ."""
    bits = _0
    for word in range(parity.size):
        bits += population_count(parity[word] ^ other[word])
    return bits


@njit(cache=True, nogil=True)
def list_candidates(  # type: ignore[no-untyped-def]
    prefix, short, length, heads, entry_keys, entry_keepers, links, count, seen, candidates
):
    """Write to ``candidates`` the keepers whose prefixes meet ``prefix``; return how many.

    All ``count`` of them where the chains to follow are long. ``seen`` uint8[t] is zeros before
    and after.
    """
    mask = uint64(heads.size) - _1
    steps_left = count // _SCAN_GAIN + _64
    listed = _0
    for p in range(length + short):
        key = prefix[p] if p < length else prefix[p - length] ^ _LONG
        entry = heads[key & mask]
        while entry != uint32(0) and steps_left != _0:
            at = entry - uint32(1)
            if entry_keys[at] == key:
                k = entry_keepers[at]
                candidates[listed] = k
                listed += uint64(seen[k] == uint8(0))
                seen[k] = uint8(1)
            entry = links[at]
            steps_left -= _1
    for c in range(listed):
        seen[candidates[c]] = uint8(0)
    if steps_left == _0:
        for k in range(count):
            candidates[k] = uint32(k)
        return count
    return listed


@njit(cache=True, nogil=True)
def decide_many(  # type: ignore[no-untyped-def]
    offsets, sizes, hashes, rows, begin, end, threshold, rarities, tallies, prefix,
    heads, entry_keys, entry_keepers, links, used, held, held_sizes, parities, count, seen,
    candidates, keepers, similarities,
):  # fmt: skip
    """Decide on the texts rows[begin:end] of one cluster, by an index over the keepers' prefixes.

    Entry e of the index has key entry_keys[e] of keeper number entry_keepers[e], and the next
    entry of its chain is links[e] - 1; 0 ends it, as it does heads[key mod size], where it starts.
    ``used`` entries are taken. Keeper k, of ``count``, is text held[k]; held_sizes[k] is the size
    of its set, 0 if that was cut, and parities[k] its parity. For t texts of the cluster ``held``,
    ``held_sizes`` and ``seen``, zeros, have t entries, ``parities`` and ``candidates`` one more. A
    text that is already decided on is passed over, or as a keeper indexed.

    Returns (begin, used, count): where to go on when the index has grown, ``end`` at the end.
    """
    most_differing = (1.0 - threshold) / (1.0 + threshold)
    i = uint64(begin)
    while i < end:
        if keepers[i] >= 0 and uint64(keepers[i]) != i:
            i += _1
            continue
        row = rows[i]
        start, stop = offsets[row], offsets[row + _1]
        size = stop - start
        whole = size == sizes[row]
        length = size - least_shared(size, threshold) + _1
        short = size - least_overlap(size + size, threshold) + _1 if whole else length
        if used + length > uint64(entry_keys.size):
            return i, used, count
        fill_prefix(hashes, start, stop, rarities, short, length, tallies, prefix)
        parity = parities[count]
        fill_parity(hashes, start, stop, parity)
        if keepers[i] < 0:
            listed = list_candidates(
                prefix, short, length, heads, entry_keys, entry_keepers, links, count, seen,
                candidates,
            )  # fmt: skip
            best, nearest = -1.0, _0
            for c in range(listed):
                k = uint64(candidates[c])
                other = held_sizes[k]
                if whole and other != _0:
                    # 1 more, for rounding
                    most = most_differing * np.float64(size + other) + 1.0
                    if np.float64(max(size, other) - min(size, other)) > most:
                        continue
                    if np.float64(differing(parity, parities[k])) > most:
                        continue
                least = max(threshold, best)
                value = similarity(offsets, sizes, hashes, row, rows[held[k]], least)
                if value > best or (value == best and value >= 0.0 and k < nearest):
                    best, nearest = value, k
            similarities[i] = best
            if best >= 0.0:
                keepers[i] = int64(held[nearest])
                i += _1
                continue
            keepers[i] = int64(i)
        for p in range(length):
            entry_keys[used] = prefix[p] if p < short else prefix[p] ^ _LONG
            entry_keepers[used] = uint32(count)
            slot = entry_keys[used] & (uint64(heads.size) - _1)
            links[used] = heads[slot]
            used += _1
            heads[slot] = uint32(used)
        held[count] = i
        held_sizes[count] = size if whole else _0
        count += _1
        i += _1
    return i, used, count


@njit(cache=True, nogil=True)
def relink(heads, entry_keys, links, used):  # type: ignore[no-untyped-def]
    """Chain the first ``used`` entries anew, from ``heads`` of another size, all zeros."""
    mask = uint64(heads.size) - _1
    for at in range(used):
        slot = entry_keys[at] & mask
        links[at] = heads[slot]
        heads[slot] = uint32(uint64(at) + _1)
