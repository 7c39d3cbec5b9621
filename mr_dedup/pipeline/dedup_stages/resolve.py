"""The stage of decisions: which documents of each cluster are kept, and why others are not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.engines.process import release_memory
from mr_dedup.jobs.added_members import write_members
from mr_dedup.jobs.clustered_rows import ClusteredRows
from mr_dedup.jobs.fingerprint_labels import read_labels
from mr_dedup.jobs.keep import KeptRows
from mr_dedup.jobs.resolve import ResolveJob, reduce_keys_for
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.earlier import as_documents, earlier_locations
from mr_dedup.pipeline.dedup_stages.files import (
    CLUSTERED,
    CLUSTERS,
    COUNTS,
    DECISIONS,
    EARLIER_COUNTS,
    KEPT,
    LABELS,
    MEMBERS,
    ROWS,
    SAMPLES,
    files_in,
    write_json,
)
from mr_dedup.pipeline.dedup_stages.fingerprint import signed_documents
from mr_dedup.pipeline.document_rows import Rows
from mr_dedup.pipeline.run_counts import RunCounts
from mr_dedup.pipeline.run_decisions import RunDecisions
from mr_dedup.signatures.linking import method_sets


def resolve(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write DECISIONS, CLUSTERS, COUNTS, KEPT and SAMPLES; counts are a DecisionSummary.

    With earlier results EARLIER_COUNTS as well, with ``add_counts`` MEMBERS.
    """
    rows = Rows.read(folder / ROWS)
    labels = read_labels(folder / LABELS)
    cluster, clustered = labels.of(rows.fingerprints)
    del labels
    clustered &= rows.has_fingerprint
    keys = _reduce_keys(rows, clustered)
    found = RunDecisions.unclustered(rows, cluster, clustered, options.earlier)
    numbers = np.flatnonzero(clustered)
    if numbers.size:
        ClusteredRows(
            numbers,
            rows.fingerprints[numbers],
            cluster[numbers],
            rows.lengths[numbers],
            ranges=rows.ranges,
        ).write(folder / CLUSTERED)
        rows = rows.without_values()
        del cluster, clustered, numbers
        release_memory()
        job = ResolveJob(
            **options.of_features,
            clustered=str(folder / CLUSTERED),
            labels=str(folder / LABELS),
            keep=tuple(options.keep),
            retention=options.retention,
            verify=options.verify,
            shingles=options.compared_by,
            reduce_keys=keys,
            stored_bytes=run_job.stored_bytes,
        )
        with run_job(job, "resolve", as_documents(folder)) as output:
            for _, table in output:
                found.take(rows, table)
    release_memory()
    found.check(rows)
    samples = found.samples()
    shown = np.zeros(found.kept.size, bool)
    shown[[number for pair in samples for number in pair]] = True
    KeptRows(found.kept, shown, ranges=rows.ranges).write(folder / KEPT)
    write_json(folder / SAMPLES, samples)
    found.name_methods(
        lambda distances, first, second: method_sets(
            options.method_names, distances, options.k,
            lambda: signed_documents(folder, options.methods), first, second,
        )
    )  # fmt: skip
    release_memory()
    earlier = partial(earlier_locations, folder, options.against)
    counts = RunCounts.of(rows, found.kept_or_own, options.against, options.seen)
    decisions = found.write_decisions(folder / DECISIONS, rows, earlier, counts, options.part_rows)
    clusters = found.write_clusters(folder / CLUSTERS, rows, options.part_rows)
    files = [*files_in(DECISIONS, decisions), *files_in(CLUSTERS, clusters), KEPT, SAMPLES]
    files += files_in(COUNTS, counts.write(folder / COUNTS, found.kept, options.part_rows))
    if options.against:
        parts = counts.write_earlier(
            folder / EARLIER_COUNTS, rows, options.against, earlier, options.part_rows
        )
        files += files_in(EARLIER_COUNTS, parts)
    if options.counted:
        members = counts.table().select(options.counted)
        write_members(folder / MEMBERS, members, rows.new_ranges)
        files.append(MEMBERS)
    return Completed(files, found.counts())


def known_reduce_keys(folder: Path) -> int:
    """Return the number of reduce keys of the stage, from the files of earlier stages."""
    rows = Rows.read(folder / ROWS)
    _, clustered = read_labels(folder / LABELS).of(rows.fingerprints)
    return _reduce_keys(rows, clustered & rows.has_fingerprint)


def _reduce_keys(rows: Rows, clustered: NDArray[np.bool_]) -> int:
    size_bytes, documents = rows.lengths[clustered].sum(), np.count_nonzero(clustered)
    return reduce_keys_for(int(size_bytes), int(documents))
