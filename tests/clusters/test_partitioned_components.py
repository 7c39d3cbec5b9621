"""Links that partitions exchange, against plain sets, whatever the partitions."""

import random

import numpy as np
import pytest

from mr_dedup.clusters.components import components
from mr_dedup.clusters.partitioned_components import (
    MAX_PARTITIONS,
    Links,
    PartitionLinks,
    Requests,
    messages,
    partition_of,
    partitioned,
    requests,
)
from tests.clusters.graphs import labels_of, random_nodes, shapes

PARTITIONS = pytest.mark.parametrize("partitions", [1, 2, 3, 8, 200])
SHAPES = shapes(random.Random(11))


def labels_from(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return components(columns[:, 0].copy(), columns[:, 1].copy())


def partition(node, partitions):
    return int(partition_of(np.array([node], np.uint64), partitions)[0])


def rows(*columns):
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("partitions", [1, 7, 64, MAX_PARTITIONS])
def test_partitions_are_even_even_of_values_that_are_not(partitions):
    for nodes in (np.arange(1 << 16), np.arange(1 << 16) << 40, np.arange(1 << 16) * -3):
        found = partition_of(nodes.astype(np.uint64), partitions)
        counts = np.bincount(found, minlength=partitions)
        assert counts.size == partitions
        mean = (1 << 16) / partitions
        assert counts.max() <= mean + 6 * mean**0.5 + 6


def test_partitions_that_cannot_be_are_refused():
    for partitions in (0, -1, MAX_PARTITIONS + 1):
        with pytest.raises(ValueError, match=f"from 1 to 65536, not {partitions}"):
            partition_of(np.zeros(1, np.uint64), partitions)


def test_rows_are_partitioned_in_their_order():
    rng = np.random.default_rng(12)
    to = rng.choice(np.array([0, 3, 65_535], np.uint16), 500)
    first, second = rng.integers(0, 2**64, (2, 500), dtype=np.uint64)
    got = {number: rows(*columns) for number, columns in partitioned(to, first, second)}
    assert list(got) == [0, 3, 65_535]
    for number in got:
        assert got[number] == [
            row for where, row in zip(to.tolist(), rows(first, second), strict=True)
            if where == number
        ]  # fmt: skip
    assert list(partitioned(to[:0], first[:0])) == []


@PARTITIONS
@pytest.mark.parametrize("shape", ["forest", "star of the smallest", "clique", "a loop"])
def test_each_partition_requests_once_each_label_it_does_not_have(shape, partitions):
    labels = labels_from(SHAPES[shape])
    asked = requests(labels, partitions)
    expected = {
        (label, partition(node, partitions))
        for node, label in labels_of(SHAPES[shape]).items()
        if partition(node, partitions) != partition(label, partitions)
    }
    got = rows(asked.nodes, asked.senders)
    assert len(got) == len(expected)
    assert set(got) == expected


@PARTITIONS
@pytest.mark.parametrize("shape", ["forest", "near-duplicates", "extremes", "a loop"])
def test_a_partition_has_its_nodes_and_sends_others_new_links(shape, partitions):
    expected = labels_of(SHAPES[shape])
    labels = labels_from(SHAPES[shape])
    home = {node: partition(node, partitions) for node in expected}
    in_partitions = []
    for number in set(home.values()):
        stored = PartitionLinks.of(labels, number, partitions)
        own = [(node, label) for node, label in expected.items() if home[node] == number]
        others = [
            (node, label) for node, label in expected.items()
            if home[node] != number and node != label
        ]  # fmt: skip
        assert rows(stored.own.nodes, stored.own.labels) == own
        assert rows(stored.others.nodes, stored.others.labels) == others
        in_partitions += own
        # two partitions ask for all nodes, one of them twice
        asked = [node for node, _ in own]
        to, links = messages(
            stored,
            Requests(
                np.array(asked * 3, np.uint64),
                np.repeat(np.array([7, 65_535, 7], np.uint64), len(asked)),
            ),
            partitions,
        )
        news = [(asker, *row) for row in own if row[0] != row[1] for asker in (7, 65_535)]
        got = rows(to, links.nodes, links.labels)
        assert sorted(got) == sorted([(home[node], node, label) for node, label in others] + news)
    assert sorted(in_partitions) == sorted(expected.items())


def test_a_request_for_a_node_that_is_not_there_is_a_bug():
    nodes = np.array(sorted(random_nodes(random.Random(13), 4)), np.uint64)
    links = Links(nodes[::2], nodes[::2])
    with pytest.raises((AssertionError, IndexError)):
        messages(PartitionLinks(links, links), Requests(nodes[1:2], np.zeros(1, np.uint64)), 1)
