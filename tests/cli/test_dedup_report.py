"""What the report of a de-duplication shows, and what memory it takes, from made-up stages."""

import io
import json
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.clusters.decisions import Reason
from mr_dedup.pipeline.dedup_stages.files import CLUSTERS, DECISIONS, ROWS, SAMPLES, SHOWN
from mr_dedup.pipeline.document_rows import rows_schema
from mr_dedup.report.dedup_report import report_data, write_dedup_report

EARLIER = 1000
CLUSTER_SIZE = 4


BYTES_A_DOCUMENT = 53
"""What is documented of a run; see docs/architecture.md."""


POOLS = []
"""Pools of memory, which must not end before what was allocated from them."""


@pytest.fixture
def warm(tmp_path):
    """Load all that a report needs, which would be counted as its memory."""
    write_dedup_report(io.BytesIO(), *stages(tmp_path / "warm", 100))


def stages(folder, count):
    """What stages leave of ``count`` documents, three of four dropped; arguments of a report."""
    for name in (DECISIONS, CLUSTERS):
        (folder / name).mkdir(parents=True)
    numbers = np.arange(count)
    ids = [f"https://Host{i % 50}.example.org/path/to/page-{i}.html" for i in range(count)]
    originals = numbers // CLUSTER_SIZE * CLUSTER_SIZE
    kept = originals == numbers
    langs = [None if i % 10 == 0 else f"lang-{i % 7}" for i in range(count)]
    names = [f"earlier-{i}" for i in range(EARLIER)]
    chunks = np.where(np.arange(EARLIER + count) < EARLIER, -1, 0)
    fingerprints = np.concatenate([np.arange(EARLIER), originals * 2**40])
    lengths = np.full(EARLIER + count, 100)
    files = ["pages.jsonl"] * (EARLIER + count)
    langs = [None] * EARLIER + langs
    columns = [chunks, names + ids, fingerprints, lengths, files, range(EARLIER + count), langs]
    rows = pa.table([pa.array(column) for column in columns], rows_schema(["lang"]).names)
    pq.write_table(rows.cast(rows_schema(["lang"])), folder / ROWS, row_group_size=1 << 14)
    decisions = pa.table(
        {
            "id": pa.array(ids, pa.large_string()),
            "cluster": originals,
            "kept_id": pa.array(ids, pa.large_string()).take(pa.array(originals)),
            "distance_bits": pa.array((numbers % CLUSTER_SIZE).astype(np.uint8), mask=kept),
            "similarity": pa.array(np.full(count, 0.9), mask=kept | (numbers % 3 == 0)),
            "reason": np.where(kept, "first_of_cluster", "near_duplicate"),
            "earlier_result": pa.nulls(count, pa.large_string()),
        }
    )
    pq.write_table(decisions, folder / DECISIONS / "part-00000.parquet", row_group_size=1 << 14)
    of_cluster = np.bincount(originals, minlength=count)[kept]
    clusters = {"cluster": numbers[kept], "documents": of_cluster}
    clusters |= {"documents_kept": 0 * of_cluster + 1, "earlier_documents": 0 * of_cluster}
    pq.write_table(pa.table(clusters), folder / CLUSTERS / "part-00000.parquet")
    shown = [number for number in (1, count // 2 + 1, count - 1) if not kept[number]]
    pairs = [(number + EARLIER, int(originals[number]) + EARLIER) for number in shown]
    (folder / SAMPLES).write_text(json.dumps(pairs))
    texts = {str(number): f"text {number}" for pair in pairs for number in pair}
    (folder / SHOWN).write_text(json.dumps(texts))
    dropped = int(np.count_nonzero(~kept))
    summary = {
        "documents_read": count, "rejected_records": 0, "documents_kept": count - dropped,
        "documents_in_split_clusters": 0, "documents_without_text": 2, "documents_empty": 1,
        "earlier_documents": EARLIER, "documents_dropped_for_earlier": 0,
        "skipped_records": {"record_type": 3}, "incomplete_files": 0, "oversized_keys": 0,
        "expected_recalls": [{"method": "minhash", "recall": 0.9996}],
        "reasons": {reason.key: 0 for reason in Reason} | {"near_duplicate": dropped},
    }  # fmt: skip
    return folder, summary, [("k", "3")], ["lang"]


def test_a_report_shows_shares_clusters_and_samples(tmp_path):
    count = 70_002
    data = report_data(*stages(tmp_path / "stages", count))
    dropped = [number for number in range(count) if number % CLUSTER_SIZE]
    by_host = Counter(f"host{number % 50}.example.org" for number in range(count))
    by_lang = Counter(f"lang-{number % 7}" for number in range(count) if number % 10)
    for (field, shares), name, all_of, of_dropped in zip(
        data.shares, ["host", "lang"], [by_host, by_lang],
        [Counter(f"host{n % 50}.example.org" for n in dropped),
         Counter(f"lang-{n % 7}" for n in dropped if n % 10)], strict=True,
    ):  # fmt: skip
        assert field == name
        ranked = sorted(all_of.items(), key=lambda item: (-item[1], item[0]))
        assert shares == [(value, number, of_dropped[value]) for value, number in ranked]
    found = data.distributions
    distances = Counter(number % CLUSTER_SIZE for number in dropped)
    assert found.distances.counts == [distances[bits] for bits in range(CLUSTER_SIZE)]
    assert found.compared == sum(number % 3 != 0 for number in dropped)
    assert found.fingerprints == sum(found.leading.counts) == count
    assert data.totals.kept_bytes == 100 * (count - len(dropped))
    assert data.totals.dropped_bytes == 100 * len(dropped)
    assert data.totals.skipped == {"record type": 3}
    # first those of samples; all but the last have four
    sampled, largest = data.clusters[:3], data.clusters[3:]
    assert [cluster.cluster for cluster in sampled] == [0, 35_000, 70_000]
    assert [cluster.cluster for cluster in largest] == list(range(4, 400, CLUSTER_SIZE))
    assert [example.partition("page-")[2] for example in largest[0].examples] == [
        "4.html", "5.html", "6.html", "7.html",
    ]  # fmt: skip
    first, other = Reason.FIRST_OF_CLUSTER, Reason.NEAR_DUPLICATE
    assert list(largest[0].reasons) == [first, *[other] * 3]
    assert [cluster.documents for cluster in sampled] == [4, 4, 2]
    assert {cluster.similarity for cluster in largest} == {0.9}
    samples = [sample for cluster in data.clusters for sample in cluster.samples]
    assert [(sample.text, sample.kept_text) for sample in samples] == [
        ("text 1001", "text 1000"),
        ("text 36002", "text 36000"),
        ("text 71001", "text 71000"),
    ]  # fmt: skip
    for sample, number in zip(samples, (1, 35_002, 70_001), strict=True):
        distance = number % CLUSTER_SIZE
        assert sample.id.endswith(f"/page-{number}.html")
        assert sample.kept_id.endswith(f"/page-{number - distance}.html")
        assert (sample.distance, sample.earlier) == (distance, None)


@pytest.mark.usefixtures("warm")
def test_a_report_takes_few_bytes_a_document(tmp_path):
    peaks = []
    for count in (100_000, 200_000):
        given = stages(tmp_path / str(count), count)
        usual = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(usual)
        POOLS.append(pool)
        pa.set_memory_pool(pool)
        tracemalloc.start()
        try:
            write_dedup_report(io.BytesIO(), *given)
            peaks.append(tracemalloc.get_traced_memory()[1] + pool.max_memory())
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(usual)
    bytes_a_document = (peaks[1] - peaks[0]) / 100_000
    print(f"\n{peaks[0] / 1e6:.1f} and {peaks[1] / 1e6:.1f} MB, {bytes_a_document:.0f} a document")
    assert bytes_a_document <= BYTES_A_DOCUMENT
