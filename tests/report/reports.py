"""Reports, and the contents of their pages by a strict parser."""

import io
from datetime import datetime, timezone
from xml.etree import ElementTree

import numpy as np

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
    distributions = Distributions.of_values(**values)
    return ReportData(**fields | changes, distributions=distributions)


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
