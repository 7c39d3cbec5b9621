"""The report of a de-duplication whose tasks wrote shards."""

from __future__ import annotations

from collections.abc import Sequence

from mr_dedup.jobs.keep_shards import HOST
from mr_dedup.jobs.shares import Share
from mr_dedup.pipeline.sharded.report import ReportParts
from mr_dedup.pipeline.summary import StageSummary
from mr_dedup.report.data import LargeCluster, ReportData, Sample, totals_of
from mr_dedup.report.histograms import Distributions


def sharded_report_data(
    parts: ReportParts,
    summary: StageSummary,
    options: Sequence[tuple[str, str]],
    share_by: Sequence[str],
) -> ReportData:
    """Return what the report of a sharded run shows."""
    shares = []
    for name in (HOST, *share_by):
        rows = [Share(**row) for row in parts.shares_of(name).drop_columns("field").to_pylist()]
        if rows or name != HOST:
            shares.append((name, rows))
    return ReportData(
        title="De-duplication",
        options=options,
        totals=totals_of(summary),
        distributions=Distributions.of_counts(
            parts.clustered,
            parts.counts["size"],
            parts.counts["distance"],
            parts.counts["similarity"],
            parts.counts["leading"],
        ),
        shares=shares,
        largest=[
            LargeCluster(
                row["cluster"],
                row["size"],
                row["documents_kept"] + row["size"] - row["documents"],
                row["examples"],
                row["size"] - row["documents"],
            )
            for row in parts.largest
        ],
        samples=[
            Sample(
                id=row["id"],
                kept_id=row["kept_id"],
                distance=row["distance_bits"],
                similarity=row["similarity"],
                text=parts.texts[row["chunk"], row["row"]],
                kept_text=parts.texts[row["kept_chunk"], row["kept_row"]],
                earlier=row["earlier"],
            )
            for row in parts.samples
        ],
    )
