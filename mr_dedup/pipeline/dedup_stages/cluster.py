"""The second stage: which documents are connected by candidate pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mr_dedup.clusters.components import Labels
from mr_dedup.clusters.splitting import UNVERIFIED, VERIFIED
from mr_dedup.jobs.fingerprint_labels import write_labels
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.files import LABELS, ROWS
from mr_dedup.pipeline.dedup_stages.fingerprint import signed_documents
from mr_dedup.pipeline.document_clusters import cluster_documents
from mr_dedup.pipeline.document_rows import Rows
from mr_dedup.signatures.linking import MethodSignatures


def cluster(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write LABELS, of the fingerprints that several documents have or that have neighbours.

    With earlier results only the clusters that have a document of this run. Counts are a
    ClusterSummary.
    """
    rows = Rows.read(folder / ROWS)
    # documents without a fingerprint are not nodes
    whole = bool(rows.has_fingerprint.all())
    numbers = np.empty(0, np.int64) if whole else np.flatnonzero(rows.has_fingerprint)
    these = slice(None) if whole else numbers

    def signed() -> Iterator[MethodSignatures]:
        for each in signed_documents(folder, options.methods):
            yield each if whole else MethodSignatures(each.method, [each.signatures.take(numbers)])

    with run_job.join_settings() as settings:
        labels, counts = cluster_documents(
            rows.fingerprints[these], rows.lengths[these], options.k, signed, settings,
            UNVERIFIED if options.verify is None else VERIFIED,
        )  # fmt: skip
    if options.against:
        labels = _of_new_documents(labels, rows)
    write_labels(folder / LABELS, labels)
    return Completed([LABELS], counts)


def _of_new_documents(labels: Labels, rows: Rows) -> Labels:
    """Return the labels of clusters with a document of this run."""
    new = slice(rows.earlier, None)
    label, known = labels.of(rows.fingerprints[new])
    wanted = np.isin(labels.labels, label[known & rows.has_fingerprint[new]])
    return Labels(labels.nodes[wanted], labels.labels[wanted])
