# mypy: ignore-errors
"""The loops of decisions: compare each text of a cluster with the kept texts before it.

Sets are ``offsets``, ``sizes`` and ``hashes``, as in shingle_set_kernels.py. ``rows`` uint64[m]
are the sets of the texts to decide on, none of them empty, cluster by cluster, the best text of
each cluster first. Results are ``kept_rows`` int64[m], the position of the kept text that each
duplicates, its own where it is kept, and ``similarities`` float64[m] of the two. Nothing is
validated or allocated here: decisions.py does both.

In large clusters an index excludes kept texts, exactly: the prefix filter of Chaudhuri, Ganti,
Kaushik (ICDE 2006) and Bayardo, Ma, Srikant (WWW 2007). Put all hashes in one order, whichever. If
two sets have c hashes in common, the first of these has c - 1 common ones after it, so in a set of
n hashes it is among the first n - c + 1: the set's prefix. The order is by rarity, so that prefixes
have few hashes in common by chance, then by the hashes. A set has two prefixes:

- the long one, c = min_shared(n), is valid whatever the other's size is;
- the short one, c = min_overlap(2 n), is valid if the other set is as large or larger.

So similar sets have a common hash in the short prefix of one and the long one of the other. For
t = 0.8 these are 0.11 n and 0.2 n hashes. Hashes common to two long prefixes alone mean nothing:
not to compare those took 10,000 texts of similarity 0.77 from 10 s to 0.14 s. A cut set has the
long prefix alone.

By containment a kept set may be of any size from n on, so that its hashes after any prefix matter:
the long prefix of a set is looked up among all hashes of kept sets. Of these the index has those
that are in the prefix of some text and not of one text alone: few, as the rarest hashes of most
texts are their own.

All kept texts are scanned where the index excludes too few: variants of one page, texts of a few
hundred phrases. The scan computes a lower bound of the hashes in which two sets differ. A hash that
only one text of the cluster has is in its difference with every other text: these are counted. The
number of other hashes in which two sets differ is bounded by their parities (see fill_parity). In
variants of one page, most hashes in which two differ are of one text alone, and parities of all
would be a weak bound.

The kept text with the smallest bound is compared first, so that most others need no comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int32, int64, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_set_kernels import Criterion, min_overlap, min_shared, score
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.distances import GROUP, group_within
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U6, U32, U63, U64, U

_LONG = U(0x9E3779B97F4A7C15)
"""Combined with hashes that are only in the long prefix, so that their keys are others."""

_LANES = U(GROUP)

_SCAN_GAIN = U(64)
"""Kept texts that are scanned in the time of a step along a chain, a miss of the cache."""

_ONE_TEXT = uint8(1)
"""The rarity class of hashes that only one text has."""

_UNBOUNDED = np.int32(1 << 30)
"""The slack of kept texts whose difference from others is not bounded."""

_COMPARISON = U(256)
"""Kept texts that are scanned in about the time of comparing two sets."""

RARITIES = 33
"""Classes of rarity: how many bits it takes to count a hash."""


class Sets(NamedTuple):
    """Sets of hashes, and ``rarities`` uint8[c], the class of each hash in the cluster.

    A hash has the class at its remainder by c, a power of 2. By containment ``looked_up`` uint8[c]
    is 1 for those that are in the prefix of a text, else it is not used.
    """

    offsets: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    rarities: NDArray[np.uint8]
    looked_up: NDArray[np.uint8]


class PrefixIndex(NamedTuple):
    """The kept texts that have a key in their prefix, as chains of entries.

    Chain s starts at entry heads[s] - 1 and has lengths[s] entries, both uint32[h], zeros at first,
    h a power of 2. Entry e is of key keys[e] and kept text number kept[e]; the next one of
    its chain is links[e] - 1; 0 ends it. All uint32[entries].
    """

    heads: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    keys: NDArray[np.uint32]
    kept: NDArray[np.uint32]
    links: NDArray[np.uint32]


class KeptTexts(NamedTuple):
    """The kept texts of a cluster of t texts so far, in their order.

    ``positions`` uint64[t]; ``sizes`` uint64[t] of their sets, 0 of one that was cut; ``alone``
    uint64[t], how many hashes no other text has. ``parities`` uint64[8 w ceil(t / 8)], word i of
    kept text k at (k - k mod 8) w + 8 i + k mod 8. ``slack`` int32[t + 7]: in how many hashes more
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

    ``begin`` is the position of the next text, ``used`` the number of entries of the index,
    ``kept`` that of kept texts, of which the first ``indexed`` are in the index.
    """

    begin: np.uint64
    used: np.uint64
    kept: np.uint64
    indexed: np.uint64


@entry
def decide_few(
    offsets: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    rows: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    large: NDArray[np.bool_],
    criterion: Criterion,
    kept: NDArray[np.uint64],
    stops: NDArray[np.uint64],
    kept_rows: NDArray[np.int64],
    similarities: NDArray[np.float64],
) -> None:
    """Decide on the texts of clusters, comparing each with every kept text of its cluster.

    Cluster g is rows[starts[g]:starts[g + 1]]. A text that is marked as kept remains so;
    ``kept_rows`` of the others is -1. ``kept`` uint64[f] is scratch for a cluster's kept texts: the
    text that would be one more stays undecided with all after it, and stops[g] is its position;
    else starts[g + 1]. Of clusters that are ``large`` bool[g] all texts stay undecided.
    """
    for cluster in range(stops.size):
        count = U0
        i = starts[cluster]
        while i < starts[cluster + 1] and not large[cluster]:
            best, nearest = -1.0, int64(i)
            for k in range(count if kept_rows[i] < 0 else U0):
                value = score(
                    criterion, offsets, sizes, hashes, rows[i], rows[kept[k]],
                    max(criterion.threshold, best),
                )  # fmt: skip
                if value > best:
                    best, nearest = value, int64(kept[k])
                    if best == 1.0:
                        break
            if best < 0.0:
                if count == uint64(kept.size):
                    break
                kept[count] = i
                count += U1
            kept_rows[i], similarities[i] = nearest, best
            i += U1
        stops[cluster] = i


@entry
def count_hashes(
    offsets: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    rows: NDArray[np.uint64],
    counts: NDArray[np.uint32],
) -> None:
    """Add to counts[h mod c] for every hash h of the sets ``rows``; c a power of 2.

    Hashes that share a count seem less rare than they are: that costs time, not pairs.
    """
    mask = uint64(counts.size) - U1
    for i in range(rows.size):
        for at in range(offsets[rows[i]], offsets[rows[i] + U1]):
            counts[hashes[at] & mask] += uint32(1)


@entry
def classify(counts: NDArray[np.uint32], rarities: NDArray[np.uint8]) -> None:
    """Write to ``rarities`` uint8[c] how many bits each of ``counts`` uint32[c] takes."""
    for i in range(counts.size):
        bits, left = uint8(0), counts[i]
        while left != uint32(0):
            left >>= uint32(1)
            bits += uint8(1)
        rarities[i] = bits


@kernel
def fill_prefix(hashes, begin, end, rarities, short, length, tallies, prefix):
    """Write the first ``length`` of ``hashes[begin:end]`` by rarity, then hash, to ``prefix``.

    The first ``short`` of them come first, else they have no order. ``tallies`` uint64[RARITIES] is
    scratch.
    """
    mask = uint64(rarities.size) - U1
    tallies[:] = U0
    for at in range(begin, end):
        tallies[rarities[hashes[at] & mask]] += U1
    short_last, short_left = _last_of(tallies, short)
    last, left = _last_of(tallies, length)
    written, rest = U0, short
    for at in range(begin, end):
        rarity = uint64(rarities[hashes[at] & mask])
        if rarity < short_last or (rarity == short_last and short_left > U0):
            prefix[written] = hashes[at]
            written += U1
            short_left -= uint64(rarity == short_last)
            left -= uint64(rarity == last)
        elif rarity < last or (rarity == last and left > U0):
            prefix[rest] = hashes[at]
            rest += U1
            left -= uint64(rarity == last)


@kernel
def fill_looked_up(sets, begin, end, prefix):
    """Write to ``prefix`` those of ``hashes[begin:end]`` that are in the prefix of another text.

    Returns how many these are.
    """
    hashes, rarities, looked_up = sets.hashes, sets.rarities, sets.looked_up
    mask = uint64(rarities.size) - U1
    written = U0
    for at in range(begin, end):
        slot = hashes[at] & mask
        prefix[written] = hashes[at]
        written += uint64(looked_up[slot] != uint8(0) and rarities[slot] != _ONE_TEXT)
    return written


@kernel
def _last_of(tallies, length):
    """Return the class in which the first ``length`` end, and how many of it belong to them."""
    last = U0
    while tallies[last] < length:
        length -= tallies[last]
        last += U1
    return last, length


@kernel
def fill_parity(hashes, begin, end, rarities, parity):
    """Return how many of ``hashes[begin:end]`` one text has alone; write the parity of the others.

    That is each bit of ``parity`` uint64[w] that an odd number of them choose; w a power of 2. A
    hash chooses one by its last bits. One that only one of two sets has flips one bit of one, so
    the parities differ in no more bits than the sets in such hashes.
    """
    parity[:] = U0
    alone = U0
    mask, rarity_mask = uint64(parity.size) - U1, uint64(rarities.size) - U1
    for at in range(begin, end):
        if rarities[hashes[at] & rarity_mask] == _ONE_TEXT:
            alone += U1
        else:
            parity[(hashes[at] >> U6) & mask] ^= U1 << (hashes[at] & U63)
    return alone


@kernel
def differing(parity, known, k):
    """Return a lower bound of the hashes in which a set of ``parity`` differs from kept text ``k``.

    Those that the set has alone are not counted.
    """
    bits = known.alone[k]
    lane = k & (_LANES - U1)
    at = (k - lane) * uint64(parity.size) + lane
    for word in range(parity.size):
        bits += population_count(parity[word] ^ known.parities[at])
        at += _LANES
    return bits


@kernel
def add_kept(known, k, position, size, alone, parity, criterion):
    """Add the text at ``position`` as kept text ``k``; ``size`` is 0 if its set was cut."""
    known.positions[k], known.sizes[k], known.alone[k] = position, size, alone
    lane = k & (_LANES - U1)
    at = (k - lane) * uint64(parity.size) + lane
    for word in range(parity.size):
        known.parities[at] = parity[word]
        at += _LANES
    known.slack[k] = _UNBOUNDED if size == U0 else int32(slack_of(size, alone, criterion, True))


@kernel
def slack_of(size, alone, criterion, is_kept):
    """Return one set's share of the number of hashes in which it and a similar set may differ.

    Of two sets that are similar enough the parities differ in at most the sum of their shares. A
    share is rounded up, by more than a double is off. A set of n hashes, c of which at least are in
    a kept one of m, differs from it in n + m - 2 c hashes at most.
    """
    threshold = criterion.threshold
    if criterion.is_containment:
        required = U0 if is_kept else min_shared(size, threshold)
        return int64(size) - int64(required + required) - int64(alone)
    limit = np.float64(size) * ((1.0 - threshold) / (1.0 + threshold))
    return int64(np.floor(limit)) + int64(2) - int64(alone)


@kernel
def add_entries(index, used, prefix, short, length, k):
    """Index ``prefix[:length]`` of kept text ``k`` after ``used`` entries; return the new number.

    Only the first ``short`` of them are of its short prefix.
    """
    mask = uint64(index.heads.size) - U1
    for p in range(length):
        key = (prefix[p] if p < short else prefix[p] ^ _LONG) >> U32
        slot = key & mask
        index.keys[used], index.kept[used] = uint32(key), uint32(k)
        index.links[used] = index.heads[slot]
        used += U1
        index.heads[slot] = uint32(used)
        index.lengths[slot] += uint32(1)
    return used


@kernel
def list_indexed(index, short, length, max_steps, scratch):
    """Write to scratch.candidates the kept texts that share an indexed key with scratch.prefix.

    Returns how many, and how many steps it took; (0, ``max_steps`` + 1) if they would be more.
    """
    mask = uint64(index.heads.size) - U1
    prefix, seen, candidates = scratch.prefix, scratch.seen, scratch.candidates
    steps = U0
    for p in range(length + short):
        key = (prefix[p] if p < length else prefix[p - length] ^ _LONG) >> U32
        steps += uint64(index.lengths[key & mask])
    if steps > max_steps:
        return U0, max_steps + U1
    keys, kept, links = index.keys, index.kept, index.links
    listed = U0
    for p in range(length + short):
        key = (prefix[p] if p < length else prefix[p - length] ^ _LONG) >> U32
        entry = index.heads[key & mask]
        while entry != uint32(0):
            at = entry - uint32(1)
            if keys[at] == uint32(key):
                k = kept[at]
                candidates[listed] = k
                listed += uint64(seen[k] == uint8(0))
                seen[k] = uint8(1)
            entry = links[at]
    for c in range(listed):
        seen[candidates[c]] = uint8(0)
    return listed, steps


@kernel
def scan(known, begin, count, whole, limit, scratch, listed):
    """Append kept texts ``begin`` to ``count`` to the ``listed`` first of scratch.candidates.

    Those that a set of scratch.parity may be similar to, of the slack ``limit``, or all if it was
    not ``whole``; returns how many candidates there are.
    """
    candidates, parity = scratch.candidates, scratch.parity
    if not whole:
        for k in range(begin, count):
            candidates[listed] = uint32(k)
            listed += U1
        return listed
    parities, slack, words = known.parities, known.slack, uint64(parity.size)
    k = begin - (begin & (_LANES - U1))
    while k < count:
        within = uint32(group_within(parities, k * words, parity, slack, k, limit))
        while within != uint32(0):
            lane = uint64(trailing_zeros(within))
            within &= within - uint32(1)
            if begin <= k + lane < count:
                candidates[listed] = uint32(k + lane)
                listed += U1
        k += _LANES
    return listed


@kernel
def most_similar(criterion, size, other, different):
    """Return an upper bound of the score of a whole set and a kept one of ``other`` hashes.

    They differ in ``different`` hashes or more. As doubles divide in ``score``, so that it is never
    less than that.
    """
    total = size + other
    if different >= total:
        return 0.0
    shared = min((total - different) >> U1, min(size, other))
    if criterion.is_containment:
        return np.float64(shared) / np.float64(size)
    return np.float64(shared) / np.float64(total - shared)


@kernel
def most_similar_kept(sets, rows, known, row, whole, alone, listed, criterion, scratch):
    """Return the most similar of the ``listed`` candidates, the first of several; how similar.

    And how many sets were compared. The similarity is -1 if it would be below the threshold.
    """
    threshold = criterion.threshold
    candidates, parity = scratch.candidates, scratch.parity
    offsets, sizes, hashes = sets.offsets, sets.sizes, sets.hashes
    size = sizes[row]
    best, nearest, compared = -1.0, U0, U0
    first, highest = U0, -1.0
    for c in range(listed if whole else U0):
        k = uint64(candidates[c])
        if known.sizes[k] == U0:
            continue
        bound = most_similar(criterion, size, known.sizes[k], alone + differing(parity, known, k))
        if bound > highest or (bound == highest and k < first):
            first, highest = k, bound
    if highest >= threshold:
        kept = rows[known.positions[first]]
        value = score(criterion, offsets, sizes, hashes, row, kept, threshold)
        compared += U1
        if value >= 0.0:
            best, nearest = value, first
    for c in range(listed):
        k = uint64(candidates[c])
        required = max(threshold, best)
        if whole and known.sizes[k] != U0:
            bound = most_similar(
                criterion, size, known.sizes[k], alone + differing(parity, known, k)
            )
            if bound < required or (bound == best and k >= nearest):
                continue
        kept = rows[known.positions[k]]
        value = score(criterion, offsets, sizes, hashes, row, kept, required)
        compared += U1
        if value > best or (value == best and value >= 0.0 and k < nearest):
            best, nearest = value, k
    return nearest, best, compared


@entry
def mark_prefixes(
    sets: Sets, rows: NDArray[np.uint64], criterion: Criterion, scratch: Scratch
) -> None:
    """Set sets.looked_up of the hashes in the long prefix of each text, whose sets are whole."""
    mask = uint64(sets.rarities.size) - U1
    for i in range(rows.size):
        start, stop = sets.offsets[rows[i]], sets.offsets[rows[i] + U1]
        length = stop - start - min_shared(stop - start, criterion.threshold) + U1
        fill_prefix(
            sets.hashes, start, stop, sets.rarities, length, length, scratch.tallies,
            scratch.prefix,
        )  # fmt: skip
        for p in range(length):
            sets.looked_up[scratch.prefix[p] & mask] = uint8(1)


@kernel
def steps_before_scan(size, known, count, indexed, criterion, scratch):
    """Return the steps along chains up to which the index is used; else kept texts are scanned.

    Not where parities of a set and most kept ones cannot differ too much: one is much smaller.
    """
    if criterion.is_containment and count > U0:
        required = min_shared(size, criterion.threshold)
        limit = size + known.sizes[count >> U1] - required - required
        if limit >= U32 * uint64(scratch.parity.size):
            return ALL_BITS >> U1
    return indexed // _SCAN_GAIN + U64


@entry
def decide_many(
    sets: Sets,
    rows: NDArray[np.uint64],
    end: np.uint64,
    criterion: Criterion,
    index: PrefixIndex,
    known: KeptTexts,
    scratch: Scratch,
    progress: Progress,
    work: np.uint64,
    kept_rows: NDArray[np.int64],
    similarities: NDArray[np.float64],
) -> tuple[int, int, int, int]:
    """Decide on the texts of one cluster from ``progress`` to the one at ``end``.

    A text that is already decided on is skipped, or if it is kept, added to the kept texts. These
    are indexed as long as there is room. Returns the progress after ``work`` kept texts were
    scanned, or what takes that long, so that the caller can handle signals.
    """
    offsets, sizes, hashes, rarities = sets.offsets, sets.sizes, sets.hashes, sets.rarities
    i, used = uint64(progress.begin), uint64(progress.used)
    count, indexed = uint64(progress.kept), uint64(progress.indexed)
    done = U0
    while i < end and done < work:
        if kept_rows[i] >= 0 and uint64(kept_rows[i]) != i:
            i += U1
            continue
        row = rows[i]
        start, stop = offsets[row], offsets[row + U1]
        size = stop - start
        done += size
        whole = size == sizes[row]
        length = size - min_shared(size, criterion.threshold) + U1
        short = length
        if whole and not criterion.is_containment:
            short = size - min_overlap(size + size, criterion.threshold) + U1
        fill_prefix(hashes, start, stop, rarities, short, length, scratch.tallies, scratch.prefix)
        alone = fill_parity(hashes, start, stop, rarities, scratch.parity)
        if kept_rows[i] < 0:
            max_steps = steps_before_scan(size, known, count, indexed, criterion, scratch)
            # of what contains a set all hashes are indexed as a short prefix
            long_only = U0 if criterion.is_containment else short
            listed, steps = list_indexed(index, long_only, length, max_steps, scratch)
            begin = indexed if steps <= max_steps else U0
            limit = slack_of(size, alone, criterion, False)
            listed = scan(known, begin, count, whole, limit, scratch, listed)
            nearest, best, compared = most_similar_kept(
                sets, rows, known, row, whole, alone, listed, criterion, scratch
            )
            done += count - begin + compared * _COMPARISON
            similarities[i] = best
            if best >= 0.0:
                kept_rows[i] = int64(known.positions[nearest])
                i += U1
                continue
            kept_rows[i] = int64(i)
        if criterion.is_containment:
            length = fill_looked_up(sets, start, stop, scratch.prefix)
            short = length
        if indexed == count and used + length <= uint64(index.keys.size):
            used = add_entries(index, used, scratch.prefix, short, length, count)
            indexed += U1
        add_kept(known, count, i, size if whole else U0, alone, scratch.parity, criterion)
        count += U1
        i += U1
    return i, used, count, indexed
