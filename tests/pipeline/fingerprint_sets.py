"""Fingerprints of which some are near each other, and their clusters by comparing all."""

import random

from tests.clusters.graphs import labels_of


def clustered(rng, size):
    """Fingerprints within a few bits of a few others."""
    centres = [rng.getrandbits(64) for _ in range(max(1, size // 8))]
    flips = ((rng.getrandbits(6) for _ in range(rng.randrange(4))) for _ in range(size))
    return [rng.choice(centres) ^ sum({1 << bit for bit in bits}) for bits in flips]


def skewed(rng, size):
    """Fingerprints that share all but their last bits, and some others."""
    shared = rng.getrandbits(64) >> 20 << 20
    return [shared | rng.getrandbits(20) for _ in range(size)] + clustered(rng, size // 4)


SETS = {
    "none": [],
    "one": [5],
    "the same": [7] * 5,
    "uniform": [random.Random(1).getrandbits(64) for _ in range(300)] * 2,
    "clustered": clustered(random.Random(2), 400),
    "skewed": skewed(random.Random(3), 300),
    "signed": [0, 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 1, 2**63 - 1],
}


def expected(values, k):
    """The label of each fingerprint that has a neighbour or occurs more than once; the pairs."""
    distinct = sorted(set(values))
    pairs = [
        (one, other)
        for place, one in enumerate(distinct)
        for other in distinct[place + 1 :]
        if (one ^ other).bit_count() <= k
    ]
    repeated = [(value, value) for value in distinct if values.count(value) > 1]
    return labels_of([*pairs, *repeated]), len(pairs)


def expected_split(values, lengths, k, most):
    """The same by sets: clusters that are too large are taken apart by ever smaller distances.

    Returns the clusters, how many were too large, and how many documents these have.
    """

    def size(cluster):
        return sum(
            length for value, length in {*zip(values, lengths, strict=True)} if value in cluster
        )

    def parts(cluster, distance):
        left, found = set(cluster), []
        while left:
            part, news = set(), {left.pop()}
            while news:
                part |= news
                news = {x for x in left for y in news if (x ^ y).bit_count() <= distance}
                left -= news
            found.append(part)
        return found

    def taken_apart(cluster, distance):
        if len(cluster) == 1 or size(cluster) <= most:
            return [cluster]
        return [end for part in parts(cluster, distance) for end in taken_apart(part, distance - 1)]

    wholes = parts(set(values), k)
    large = [whole for whole in wholes if len(whole) > 1 and size(whole) > most]
    return {
        frozenset(end)
        for whole in wholes
        for end in taken_apart(whole, k - 1)
        if sum(value in end for value in values) > 1
    }, (len(large), sum(value in whole for whole in large for value in values))
