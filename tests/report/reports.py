"""Reports, and the contents of their pages by a strict parser."""

import bisect
import io
import math
from collections import Counter
from datetime import datetime, timezone
from xml.etree import ElementTree

import numpy as np

from mr_dedup.jobs.report_counts import LEADING_BITS, SIMILARITY_STEPS
from mr_dedup.jobs.shares import Share
from mr_dedup.report.data import Cluster, ReportData, Run, Sample, Totals
from mr_dedup.report.histograms import Distributions
from mr_dedup.report.html import write_report

HOSTILE = (
    "<script>alert(1)</script></style></title>--><!-- ]]> \"'><img src=https://evil.example/x "
    "onerror=alert(2)> &lt; &amp; \0\x07\x1b[31m\x7f\x85 \u202egnp.exe\u2066 \ud800\udfff \ufffe\r"
)


RUN = Run(
    documents="crawl/*.jsonl",
    methods="minhash:bands=20,rows=5",
    keep="first",
    similarity="0.8",
    shingles="words:3",
    version="1.0",
    recalls=[("minhash:bands=20,rows=5", 0.99964)],
    made=datetime(2024, 5, 17, 9, 30, 12, tzinfo=timezone.utc),
)

SAMPLE = Sample("second", "first", 2, 0.85, "one two three", "one 2 three")


def report(**changes) -> ReportData:
    """Seven documents of which three were dropped, in two clusters; with ``changes``."""
    fields = {
        "title": "Seven pages",
        "run": RUN,
        "options": [("k", "3 bits"), ("keep", "first")],
        "totals": Totals(
            7, 2, 4, {"near-duplicate": 2, "same text": 1}, kept_bytes=5_230_000, dropped_bytes=999
        ),
        "shares": [("host", [Share("a.example", 4, 3), Share("b.example", 3, 0)])],
        "clusters": [
            Cluster(-5, 3, 1, ["first", "second"], similarity=0.85, samples=[SAMPLE]),
            Cluster(6, 2, 1, ["third", "fourth"], similarity=1.0),
        ],
    }
    values = {
        "cluster_sizes": np.array([3, 2]),
        "distances": np.array([0, 2, 2], np.uint8),
        "similarities": np.array([1.0, 0.85, np.nan]),
        "fingerprints": np.array([0, 1 << 63, 5, 7], np.uint64),
    }
    values = {name: changes.pop(name, value) for name, value in values.items()}
    distributions = distributions_of(**values)
    return ReportData(**fields | changes, distributions=distributions)


_STEPS = [round(step / SIMILARITY_STEPS, 9) for step in range(SIMILARITY_STEPS + 1)]


def distributions_of(cluster_sizes=(), distances=(), similarities=(), fingerprints=()):
    """The distributions of values, each counted by itself."""
    sizes, bits, steps, leading = [0] * 64, [0] * 65, [0] * (SIMILARITY_STEPS + 1), Counter()
    for size in map(int, cluster_sizes):
        sizes[(size - 1).bit_length()] += 1
    for distance in map(int, distances):
        bits[distance] += 1
    for similarity in map(float, similarities):
        if not math.isnan(similarity):
            steps[bisect.bisect(_STEPS, similarity) - 1] += 1
    for fingerprint in map(int, fingerprints):
        leading[fingerprint >> (64 - LEADING_BITS)] += 1
    found = [leading[bucket] for bucket in range(1 << LEADING_BITS)]
    return Distributions.of_counts(sum(map(int, cluster_sizes)), sizes, bits, steps, found)


def warnings_of(host, count=1, field="host"):
    """So many clusters that look like templates, and sources that lose documents."""
    template = {
        "cluster": -(1 << 63), "host": host, "documents": 12_345, "documents_kept": 1,
        "mean_similarity": 0.8127,
    }  # fmt: skip
    source = {"field": field, "value": host, "documents": 400, "dropped": 399}
    return {
        "template_clusters": 3 * count, "template_clusters_listed": [template] * count,
        "losing_sources": count, "losing_sources_listed": [source] * count,
    }  # fmt: skip


def hostile_report(text=HOSTILE) -> ReportData:
    """The same with ``text`` wherever a text can be."""
    return report(
        title=text,
        run=Run(text, text, text, text, text, text, [(text, 0.5), (text, 0.6)]),
        options=[(text, text)],
        totals=Totals(7, 2, 4, {text: 3}, skipped={text: 1}),
        shares=[(text, [Share(text, 3, 1)])],
        warnings=warnings_of(text, field=text),
        clusters=[
            Cluster(
                1,
                3,
                1,
                [text],
                samples=[Sample(text, text, 2, None, f"{text} a b", f"{text} b c", text)],
            )
        ],
    )


def written(data: ReportData) -> bytes:
    file = io.BytesIO()
    write_report(file, data)
    return file.getvalue()


def elements(page: bytes) -> ElementTree.Element:
    """The page as a tree: it is also XML, so that a parser detects any error."""
    return ElementTree.fromstring(page)


def shown(element: ElementTree.Element) -> str:
    """The text of an element and all in it, white space as a reader sees it."""
    return " ".join("".join(element.itertext()).split())
