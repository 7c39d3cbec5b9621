"""What the report of a de-duplication shows, against the result; it is of bounded size."""

import io
import tracemalloc
from collections import Counter

import pytest

from mr_dedup.clusters.decisions import Reason
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from mr_dedup.jobs.report_counts import EXAMPLES, LARGEST, SAMPLES
from mr_dedup.report import dedup_report
from mr_dedup.report.html import write_report
from tests.cli.documents import KEPT, write_jsonl
from tests.cli.test_dedup import done
from tests.formats.documents.test_document_warc import record

DIFFERENCES = [0, 1, 0, 3]
"""By how many words of 90 a document of a cluster differs from the first, by its number."""


def clusters_of(count, hosts):
    """The documents of so many clusters, of 4, 6 and 8; texts of two clusters share nothing."""
    clusters = []
    number = 0
    for cluster in range(count):
        documents = []
        for member in range(4 + 2 * (cluster % 3)):
            words = [f"c{cluster}w{n}" for n in range(90)]
            for n in range(DIFFERENCES[member % 4]):
                words[12 * n] = f"d{number}x{n}"
            id = f"https://Host{number % hosts}.example.org/path/to/page-{number}.html"
            lang = {"lang": f"lang-{number % 7}"} if number % 10 else {}
            documents.append({"id": id, "text": " ".join(words), **lang})
            number += 1
        clusters.append(documents)
    return clusters


@pytest.fixture
def given(monkeypatch):
    """What reports were made of, and their data."""
    found, make = [], dedup_report.dedup_report_data

    def recorded(*arguments):
        found.append((arguments, make(*arguments)))
        return found[-1][1]

    monkeypatch.setattr(dedup_report, "dedup_report_data", recorded)
    return found


def test_a_report_shows_shares_clusters_and_samples(tmp_path, capfd, monkeypatch, given):
    for name in ("CHUNK_BYTES", "_MIN_BYTES"):
        monkeypatch.setattr(chunks, name, 50_000)
    clusters = clusters_of(240, hosts=50)
    # of some an earlier result has kept the first
    before = write_jsonl(tmp_path / "before.jsonl", [each[0] for each in clusters[:40]])
    done(capfd, before, "-o", tmp_path / "kept", "--method", "minhash")
    documents = [document for each in clusters for document in each]
    no_text = [{"id": "none", "text": None}] * 2
    path = write_jsonl(tmp_path / "a.jsonl", [*documents, *no_text, {"id": "none", "text": " "}])
    (tmp_path / "b.warc").write_bytes(record(4, b"of a page", kind=b"metadata") * 3)
    out = tmp_path / "out"
    words = ["--method", "minhash", "--against", tmp_path / "kept", "--share-by", "lang"]
    done(capfd, path, tmp_path / "b.warc", "-o", out, *words)
    _, data = given[-1]
    rows = read_parts(out / "decisions").to_pylist()
    assert [row["id"] for row in rows] == [document["id"] for document in documents] + ["none"]
    is_dropped = [row["reason"] not in KEPT for row in rows]
    dropped = [row for row, each in zip(rows, is_dropped, strict=True) if each]
    assert len(dropped) == len(documents) - 200
    check_shares(data, documents, is_dropped)
    check_distributions(data.distributions, out, dropped, len(rows))
    totals = data.totals
    texts = [len(document["text"]) for document in documents] + [1]
    assert totals.dropped_bytes == sum(
        size for size, each in zip(texts, is_dropped, strict=True) if each
    )
    assert totals.kept_bytes + totals.dropped_bytes == sum(texts)
    assert (totals.read, totals.kept, totals.all_dropped) == (len(rows), 201, len(dropped))
    assert (totals.earlier, totals.for_earlier) == (40, sum(map(len, clusters[:40])))
    assert (totals.without_text, totals.empty) == (2, 1)
    assert totals.skipped == {"record type": 3}
    check_clusters(data.clusters, rows, {d["id"]: d["text"] for d in documents}, tmp_path / "kept")


def check_shares(data, documents, is_dropped):
    numbers = range(len(documents))
    dropped = [n for n in numbers if is_dropped[n]]
    by_host = [Counter(f"host{n % 50}.example.org" for n in some) for some in (numbers, dropped)]
    by_lang = [Counter(f"lang-{n % 7}" for n in some if n % 10) for some in (numbers, dropped)]
    assert [field for field, _ in data.shares] == ["host", "lang"]
    for (_, shares), (all_of, of_dropped) in zip(data.shares, (by_host, by_lang), strict=True):
        ranked = sorted(all_of.items(), key=lambda item: (-item[1], item[0]))
        assert shares == [(value, number, of_dropped[value]) for value, number in ranked]


def check_distributions(found, out, dropped, documents):
    distances = Counter(row["distance_bits"] for row in dropped)
    assert len(distances) > 3
    assert found.distances.counts == [distances[bits] for bits in range(max(distances) + 1)]
    similarities = [row["similarity"] for row in dropped if row["similarity"] is not None]
    assert found.compared == sum(found.similarities.counts) == len(similarities)
    assert found.fingerprints == sum(found.leading.counts) == documents
    table = read_parts(out / "clusters").to_pylist()
    sizes = [row["documents"] + row["earlier_documents"] for row in table]
    assert found.clusters == len(sizes) == sum(found.sizes.counts)
    assert found.clustered == sum(sizes)
    # the powers of two that are not below 4, 5, 6, 7, 8 and 9
    assert found.sizes.counts == [0, *(sum(low < n <= 2 * low for n in sizes) for low in (2, 4, 8))]


def check_clusters(found, rows, texts, kept):
    """Those of samples, by similarity, are first; then the largest."""
    members = {}
    for row in rows:
        members.setdefault(row["cluster"], []).append(row)
    del members[rows[-1]["cluster"]]

    def size(cluster):
        of_earlier = any(row["earlier_result"] for row in members[cluster])
        return len(members[cluster]) + of_earlier

    ranked = sorted(members, key=lambda cluster: (-size(cluster), cluster))
    sampled = [each for each in found if each.samples]
    others = [each.cluster for each in found if not each.samples]
    of_samples = {each.cluster for each in sampled}
    assert [each.cluster for each in found] == [each.cluster for each in sampled] + others
    assert others == [cluster for cluster in ranked[:LARGEST] if cluster not in of_samples]
    assert [each.similarity for each in sampled] == sorted(each.similarity for each in sampled)
    for each in found:
        of_it = members[each.cluster]
        earlier = any(row["earlier_result"] for row in of_it)
        assert (each.documents, each.earlier) == (size(each.cluster), earlier)
        assert each.kept == 1
        assert list(each.examples) == [row["id"] for row in of_it[:EXAMPLES]]
        assert [reason.key for reason in each.reasons] == [
            row["reason"] for row in of_it[:EXAMPLES]
        ]
        assert each.similarity == min(row["similarity"] or 1 for row in of_it)
    assert {each.reasons[0] for each in found} == {Reason.FIRST_OF_CLUSTER, Reason.EXACT_DUPLICATE}
    samples = [sample for each in sampled for sample in each.samples]
    assert len(samples) == SAMPLES
    by_id = {row["id"]: row for row in rows}
    assert len({sample.earlier for sample in samples}) == 2
    for sample in samples:
        row = by_id[sample.id]
        assert row["reason"] == "near_duplicate"
        assert sample == (
            row["id"], row["kept_id"], row["distance_bits"], row["similarity"], texts[row["id"]],
            texts[row["kept_id"]], row["earlier_result"] and str(kept),
        )  # fmt: skip


def test_a_report_takes_no_memory_for_a_document(tmp_path, capfd, given):
    """Also where each document is of another host."""
    peaks = []
    for count in (10, 300, 900):
        documents = [{**d, "url": d["id"]} for each in clusters_of(count, 1 << 30) for d in each]
        path = write_jsonl(tmp_path / "pages.jsonl", documents)
        done(capfd, path, "-o", tmp_path / "out", "--overwrite", "--share-by", "url")
        arguments, data = given[-1]
        (parts, *_) = arguments
        assert len(parts.listed) <= LARGEST + SAMPLES
        assert len(parts.texts) <= 2 * SAMPLES
        assert [len(shares) for _, shares in data.shares] == [50, 50]
        tracemalloc.start()
        try:
            # the first loads what a report needs
            write_report(io.BytesIO(), dedup_report.dedup_report_data(*arguments))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # ids and counts get longer, and of samples more are not of the largest clusters
    assert peaks[2] < 1.25 * peaks[1]
