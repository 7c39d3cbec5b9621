"""Clusters that are too large are split by stricter rules, as by sets, and are small after that."""

import random

import numpy as np
import pytest

from mr_dedup.clusters.components import Labels, components
from mr_dedup.clusters.splitting import ClusterLimit, split_large
from mr_dedup.hamming.self_join import self_join
from mr_dedup.signatures import linking
from mr_dedup.signatures.linking import MethodSignatures, StricterRules, edges
from mr_dedup.signatures.methods import parse_method
from mr_dedup.signatures.protocol import Signatures
from tests.oracles import signed
from tests.pipeline.fingerprint_sets import SETS, expected, expected_split


def nearer(k):
    """Return what labels nodes by pairs within fewer bits than ``k``."""

    def labels(nodes, step):
        if step > k:
            return None
        near = self_join(nodes, k - step)
        return components(np.concatenate([near.left, nodes]), np.concatenate([near.right, nodes]))

    return labels


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("most", [0, 50, 300, 10_000])
def test_clusters_are_split_until_they_are_small(name, most):
    values = np.array(SETS[name], np.uint64)
    rng = random.Random(most)
    lengths = [rng.choice([5, 8, 13]) for _ in SETS[name]]
    by_node = expected(SETS[name], 5)[0]
    whole = Labels(*(np.array(list(each), np.uint64) for each in (by_node, by_node.values())))
    labels, split = split_large(
        whole, values, np.array(lengths, np.int64), nearer(5), ClusterLimit(most)
    )
    clusters: dict[int, set[int]] = {}
    for node, label in zip(labels.nodes.tolist(), labels.labels.tolist(), strict=True):
        clusters.setdefault(label, set()).add(node)
    assert all(label == min(nodes, key=signed) for label, nodes in clusters.items())
    expected_clusters, expected_count = expected_split(SETS[name], lengths, 5, most)
    assert {frozenset(nodes) for nodes in clusters.values()} == expected_clusters
    assert split == expected_count


def test_long_texts_count_for_what_is_held_of_them():
    values = np.array([1, 3], np.uint64)
    labels = Labels(values, np.array([1, 1], np.uint64))
    lengths = np.array([1 << 40, 1 << 40])
    for most, split in ((1 << 18, 0), ((1 << 18) - 1, 1)):
        limit = ClusterLimit(most)
        assert split_large(labels, values, lengths, nearer(3), limit)[1].clusters == split


def test_short_texts_count_for_what_their_documents_take():
    values = np.array([1, 3], np.uint64)
    labels = Labels(values, np.array([1, 1], np.uint64))
    lengths = np.array([5, 7])
    for most, split in ((200, 0), (199, 1)):
        limit = ClusterLimit(most, 100)
        assert split_large(labels, values, lengths, nearer(3), limit)[1] == (split, 2 * split)


def test_parts_of_a_split_cluster_are_joined_up_to_the_limit():
    # of 100 documents of 10 bytes the first rules leave no pair
    values = np.arange(1, 101, dtype=np.uint64)
    labels = Labels(values, np.ones(100, np.uint64))
    lengths = np.full(100, 10)
    for limit in (40, 250, 700):
        found, split = split_large(
            labels, values, lengths, lambda nodes, step: Labels(nodes, nodes),
            ClusterLimit(limit, joined=True),
        )  # fmt: skip
        sizes = np.unique(found.labels, return_counts=True)[1]
        assert split == (1, 100)
        assert sizes.sum() == 100
        assert sizes.max() * 10 <= limit
        # of half of the limit each, but for the last
        assert len(sizes) == -(-1000 // (limit // 2))


def test_parts_of_different_clusters_are_not_joined():
    values = np.arange(1, 41, dtype=np.uint64)
    labels = Labels(values, np.where(values <= 20, 1, 21).astype(np.uint64))
    found, split = split_large(
        labels, values, np.full(40, 10), lambda nodes, step: Labels(nodes, nodes),
        ClusterLimit(150, joined=True),
    )  # fmt: skip
    assert split == (2, 40)
    clusters = [set(found.nodes[found.labels == label].tolist()) for label in set(found.labels)]
    assert all(max(each) <= 20 or min(each) > 20 for each in clusters)


def test_without_stricter_rules_each_node_is_a_part_where_parts_are_joined():
    values = np.arange(1, 101, dtype=np.uint64)
    labels = Labels(values, np.ones(100, np.uint64))
    for joined, largest in ((True, 10), (False, 100)):
        limit = ClusterLimit(100, joined=joined)
        found, _ = split_large(labels, values, np.full(100, 10), lambda *_: None, limit)
        assert np.unique(found.labels, return_counts=True)[1].max() <= largest


def test_large_parts_are_not_joined_with_others():
    values = np.arange(1, 101, dtype=np.uint64)
    labels = Labels(values, np.ones(100, np.uint64))
    parts = Labels(values, np.where(values <= 30, 1, values).astype(np.uint64))
    found, _ = split_large(
        labels, values, np.full(100, 10), lambda *_: parts, ClusterLimit(500, joined=True)
    )
    assert set(found.nodes[found.labels == 1].tolist()) == set(range(1, 31))


def test_many_texts_with_common_keys_are_split_with_few_edges(monkeypatch):
    # all share most of their keys: pairs would be a square, 20 times
    def edges_of(texts):
        rng = np.random.default_rng(1)
        shared = np.arange(1, 21, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        keys = np.tile(shared, (texts, 1))
        own = rng.random(keys.shape) < 0.7
        keys[own] = rng.integers(1, 1 << 63, int(own.sum())).astype(np.uint64)
        signed = Signatures(
            np.arange(0, 20 * texts + 1, 20), keys.ravel(), np.empty((texts, 0), np.uint8)
        )
        values = np.arange(1, texts + 1, dtype=np.uint64)
        counted = [0]

        def counting(*arguments, **options):
            for first, second in edges(*arguments, **options):
                counted[0] += first.size
                yield first, second

        monkeypatch.setattr(linking, "edges", counting)
        stricter = StricterRules(
            values, None, lambda: iter([MethodSignatures(parse_method("minhash"), [signed])]), 1
        )
        labels = Labels(values, np.ones(texts, np.uint64))
        lengths = np.full(texts, 40)
        limit = ClusterLimit(40 * texts // 3, joined=True)
        found, split = split_large(labels, values, lengths, stricter, limit)
        assert split == (1, texts)
        assert np.unique(found.labels, return_counts=True)[1].max() <= texts // 3
        return counted[0]

    few, many = edges_of(2_000), edges_of(8_000)
    assert 0 < many < 4.5 * few
