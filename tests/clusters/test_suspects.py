"""Clusters that look like templates, and sources that lose most documents, by hand."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters import suspects
from mr_dedup.clusters.suspects import ClusterMembers, losing_sources, template_clusters

DOCUMENTS = st.lists(
    st.tuples(
        st.integers(-2, 2),
        st.sampled_from(["a.example"] * 9 + ["b.example", None]),
        st.sampled_from([None, 0.8, 0.9, 0.99, 1.0]),
    ),
    max_size=40,
)


def members(documents):
    clusters, hosts, similarities = zip(*documents, strict=True) if documents else ((),) * 3
    return ClusterMembers(
        np.array(clusters, np.int64),
        pa.array(hosts, pa.large_string()),
        np.array([each is None for each in similarities], bool),
        np.array([np.nan if each is None else each for each in similarities], np.float64),
    )


def by_hand(documents, least):
    found = []
    for cluster in {cluster for cluster, _, _ in documents}:
        own = [each for each in documents if each[0] == cluster]
        hosts = {host for _, host, _ in own}
        similarities = [value for _, _, value in own if value is not None]
        if len(own) < least or len(hosts) > 1 or hosts == {None} or not similarities:
            continue
        mean = sum(similarities) / len(similarities)
        if mean < 0.95 - 1e-9:
            kept = len(own) - len(similarities)
            found.append((-len(own), cluster, hosts.pop(), len(own), kept, round(mean, 4)))
    return [tuple(row[1:]) for row in sorted(found)]


@given(DOCUMENTS)
def test_templates_equal_those_by_hand(documents):
    before, suspects.MIN_DOCUMENTS = suspects.MIN_DOCUMENTS, 4
    try:
        found = template_clusters(members(documents))
    finally:
        suspects.MIN_DOCUMENTS = before
    assert found.schema == suspects.TEMPLATES
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert [row[:4] for row in rows] == [row[:4] for row in by_hand(documents, 4)]
    means = [row[4] for row in rows]
    assert np.allclose(means, [row[4] for row in by_hand(documents, 4)], atol=1e-4)


def test_twenty_documents_of_one_host():
    for count, mean, wanted in (19, 0.9, 0), (20, 0.9, 1), (20, 0.949, 1), (20, 0.951, 0):
        documents = [(7, "a.example", mean)] * (count - 1) + [(7, "a.example", None)]
        assert len(template_clusters(members(documents))) == wanted
        documents[3] = (7, "b.example", mean)
        assert not len(template_clusters(members(documents)))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=40))
def test_sources_equal_those_by_hand(counts):
    counts = [(documents, min(documents, dropped)) for documents, dropped in counts]
    names = [f"s{n}" for n in range(len(counts))]
    table = pa.table({
        "value": pa.array(names, pa.large_string()),
        "documents": pa.array([documents for documents, _ in counts], pa.int64()),
        "dropped": pa.array([dropped for _, dropped in counts], pa.int64()),
    })  # fmt: skip
    wanted = [
        (-dropped, name, documents)
        for name, (documents, dropped) in zip(names, counts, strict=True)
        if documents >= 20 and dropped > documents / 2
    ]
    assert [tuple(row.values()) for row in losing_sources("by", table).to_pylist()] == [
        ("by", name, documents, -dropped) for dropped, name, documents in sorted(wanted)
    ]
