"""The report of a de-duplication."""

from __future__ import annotations

from collections.abc import Sequence

from mr_dedup.clusters.decisions import Reason
from mr_dedup.jobs.shares import DIRECTORY, HOST, Share
from mr_dedup.pipeline.report_parts import ReportParts, label_of
from mr_dedup.pipeline.summary import StageSummary
from mr_dedup.report.data import Cluster, ReportData, Sample, in_order, run_of, totals_of
from mr_dedup.report.histograms import Distributions


def dedup_report_data(
    parts: ReportParts,
    summary: StageSummary,
    options: Sequence[tuple[str, str]],
    share_by: Sequence[str],
) -> ReportData:
    """Return what the report of a run shows."""
    shares = []
    for name in (HOST, DIRECTORY, *share_by):
        rows = [Share(**row) for row in parts.shares_of(name).drop_columns("field").to_pylist()]
        if rows or name in share_by:
            shares.append((name, rows))
    samples: dict[int, list[Sample]] = {}
    for row in parts.samples:
        samples.setdefault(label_of(row), []).append(
            Sample(
                id=row["id"],
                kept_id=row["kept_id"],
                distance=row["distance_bits"],
                similarity=row["similarity"],
                text=parts.texts[row["chunk"], row["row"]],
                kept_text=parts.texts[row["kept_chunk"], row["kept_row"]],
                earlier=row["earlier"],
            )
        )
    return ReportData(
        title="De-duplication",
        run=run_of(options, summary),
        options=options,
        totals=totals_of(summary, parts.sizes["kept_bytes"], parts.sizes["dropped_bytes"]),
        distributions=Distributions.of_counts(
            parts.clustered,
            parts.counts["size"],
            parts.counts["distance"],
            parts.counts["similarity"],
            parts.counts["leading"],
        ),
        shares=shares,
        warnings={
            "template_clusters": parts.templates["number"],
            "template_clusters_listed": parts.templates["listed"],
            "losing_sources": parts.losing["number"],
            "losing_sources_listed": parts.losing["listed"],
        },
        clusters=in_order(
            [
                Cluster(
                    cluster=row["cluster"],
                    documents=row["size"],
                    kept=row["documents_kept"] + row["size"] - row["documents"],
                    examples=row["examples"],
                    reasons=[Reason(reason) for reason in row["reasons"]],
                    earlier=row["size"] - row["documents"],
                    similarity=row["similarity"],
                    samples=samples.get(label_of(row), ()),
                )
                for row in parts.listed
            ]
        ),
    )
