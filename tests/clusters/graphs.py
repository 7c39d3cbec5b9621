"""Graphs as pairs of Python integers, and their components by a slow, obvious search."""

import random
from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from tests.oracles import signed

Pairs = list[tuple[int, int]]

EXTREMES = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]


def labels_of(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The smallest node, as signed numbers, that each node can reach; ascending."""
    neighbours: dict[int, set[int]] = {}
    for one, other in pairs:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    labels: dict[int, int] = {}
    for start in sorted(neighbours, key=signed):
        if start in labels:
            continue
        labels[start] = start
        waiting = deque([start])
        while waiting:
            for near in neighbours[waiting.popleft()]:
                if near not in labels:
                    labels[near] = start
                    waiting.append(near)
    return {node: labels[node] for node in sorted(labels, key=signed)}


def chain(nodes: list[int]) -> Pairs:
    return list(pairwise(nodes))


def star(nodes: list[int]) -> Pairs:
    """The first node, and all others around it."""
    return [(nodes[0], node) for node in nodes[1:]]


def clique(nodes: list[int]) -> Pairs:
    return [(one, other) for one in nodes for other in nodes if one < other]


def forest(rng: random.Random, nodes: list[int], trees: int) -> Pairs:
    """Trees of random shapes; more pairs than they need, some twice, some turned round."""
    pairs = [
        (nodes[i], nodes[rng.randrange(i % trees, i, trees)]) for i in range(trees, len(nodes))
    ]
    pairs += [(other, one) for one, other in rng.sample(pairs, len(pairs) // 4)]
    rng.shuffle(pairs)
    return pairs


def zigzag(nodes: list[int]) -> list[int]:
    """A smallest, a largest, the second smallest, …: no node is between its neighbours."""
    ordered = sorted(nodes, key=signed)
    half = len(ordered) // 2
    mixed = [node for two in zip(ordered, reversed(ordered), strict=True) for node in two]
    return mixed[: 2 * half]


def random_nodes(rng: random.Random, count: int) -> list[int]:
    """Different nodes in no order."""
    nodes: dict[int, None] = {}
    while len(nodes) < count:
        nodes[rng.getrandbits(64)] = None
    return list(nodes)


def shapes(rng: random.Random) -> dict[str, Pairs]:
    """Graphs of each kind, small enough for any oracle."""
    nodes = random_nodes(rng, 600)
    ordered = sorted(nodes, key=signed)
    left, right = nodes[:300], nodes[300:]
    return {
        "one pair": [(5, 3)],
        "a loop": [(7, 7)],
        "loops and pairs": [(7, 7), (7, 8), (9, 9), (8, 8), (9, 9)],
        "extremes": chain(EXTREMES[::2]) + chain(EXTREMES[1::2]) + [(2, 2)],
        "ascending chain": chain(ordered),
        "descending chain": chain(ordered[::-1]),
        "chain": chain(nodes),
        "zigzag": chain(zigzag(nodes)),
        "star of the smallest": star(ordered),
        "star of the largest": star(ordered[::-1]),
        "stars of stars": star(nodes[:20]) + [p for i in range(20) for p in star(nodes[i::20])],
        "clique": clique(nodes[:40]),
        "forest": forest(rng, nodes, 50),
        "two giants and a bridge": forest(rng, left, 1)
        + forest(rng, right, 1)
        + [(left[7], right[9])],
        "shared prefixes": forest(rng, [node >> 48 for node in nodes], 20),
        "near-duplicates": [(node, node ^ 1 << rng.randrange(64)) for node in nodes],
    }
