"""What a report shows of a run: from counters, and a sample of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mr_dedup.jobs.report_counts import (
    DISTANCE,
    LARGEST,
    LEADING,
    LEADING_BITS,
    SAMPLES,
    SIMILARITY,
    SIMILARITY_STEPS,
    SIZE,
    TEMPLATE_CLUSTERS,
)
from mr_dedup.pipeline.sharded_run import Left, ShardedRun


@dataclass(frozen=True)
class ReportParts:
    """What a report shows.

    Attributes:
        counts: By kind (``size``, ``distance``, ``similarity``, ``leading``) the counts of its
            values, from 0 on.
        clustered: The documents in clusters, earlier ones too.
        listed: The largest clusters, and those of samples.
        samples: Dropped documents.
        texts: Texts of these and of those that they duplicate, by chunk and row.
        shares: Tables of the most common values of fields, as columns.
        sizes: Of all texts, ``kept_bytes`` and ``dropped_bytes``.
        templates: Clusters that look like templates: their ``number``, and some, ``listed``.
        losing: Values of fields that lose most of their documents, in the same way.
    """

    counts: Mapping[str, Sequence[int]]
    clustered: int
    listed: Sequence[Mapping[str, Any]]
    samples: Sequence[Mapping[str, Any]]
    texts: Mapping[tuple[int, int], str] = field(default_factory=dict)
    shares: Sequence[Mapping[str, Sequence[Any]]] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    templates: Mapping[str, Any] = field(default_factory=dict)
    losing: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(
        cls, run: ShardedRun, attached: Left, decided: Left, results: Sequence[tuple[int, str]]
    ) -> ReportParts:
        """Return what the shards and counters of the stages say.

        ``results`` are the earlier results: the number of the chunk after their last, and the name.
        """
        counts = {
            "size": _counts(decided.counters, SIZE, 64),
            "distance": _counts(decided.counters, DISTANCE, 65),
            "similarity": _counts(decided.counters, SIMILARITY, SIMILARITY_STEPS + 1),
            "leading": _counts(attached.counters, LEADING, 1 << LEADING_BITS),
        }
        listed: list[dict[str, Any]] = []
        samples: list[dict[str, Any]] = []
        templates: list[dict[str, Any]] = []
        last = decided.shards[-1].key if decided.shards else -1
        if last > run.chunk_count - 1 and attached.counters.get("documents_in_clusters"):
            for table in decided.tables(last):
                if "mean_similarity" in table.column_names:
                    templates += table.to_pylist()
                else:
                    is_listed = "examples" in table.column_names
                    (listed if is_listed else samples).extend(table.to_pylist())
        chosen = [
            {**row, "earlier": _result_of(row["kept_chunk"], results)} for row in _spread(samples)
        ]
        clustered = attached.counters.get("documents_in_clusters", 0)
        # largest first, and then those of samples that were not chosen
        of_chosen = {label_of(row) for row in chosen}
        shown = [
            row for rank, row in enumerate(listed) if rank < LARGEST or label_of(row) in of_chosen
        ]
        number = decided.counters.get(TEMPLATE_CLUSTERS, 0)
        looking = {"number": number, "listed": templates}
        return cls(counts, clustered, shown, chosen, templates=looking)

    @property
    def shown(self) -> list[tuple[int, int]]:
        """The chunk and row of each document whose text is shown."""
        found = [(row["chunk"], row["row"]) for row in self.samples]
        found += [(row["kept_chunk"], row["kept_row"]) for row in self.samples]
        return sorted(set(found))

    def with_kept(
        self,
        texts: Mapping[tuple[int, int], str],
        shares: Sequence[Mapping[str, Sequence[Any]]],
        sizes: Mapping[str, int],
        losing: Mapping[str, Any],
    ) -> ReportParts:
        """Return the same with what the last stage knows."""
        return replace(self, texts=texts, shares=shares, sizes=sizes, losing=losing)

    def shares_of(self, name: str) -> pa.Table:
        """Return the most common values of a field."""
        schema = pa.schema(
            [
                pa.field("field", pa.string()),
                pa.field("value", pa.large_string()),
                pa.field("documents", pa.int64()),
                pa.field("dropped", pa.int64()),
            ]
        )
        tables = [pa.table(dict(columns), schema=schema) for columns in self.shares]
        from mr_dedup.jobs.keep import most_common

        return most_common([schema.empty_table(), *tables], name)


def label_of(row: Mapping[str, Any]) -> int:
    """Return the cluster of a row as a signed number."""
    label: int = row["cluster"]
    return label - (1 << 64) if label >= 1 << 63 else label


def _counts(counters: Mapping[str, int], prefix: str, size: int) -> list[int]:
    return [counters.get(f"{prefix}{value}", 0) for value in range(size)]


def _spread(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return some samples, from low similarity to high."""
    ranked = sorted(
        samples, key=lambda row: (row["similarity"] or 0, row["id"], row["chunk"], row["row"])
    )
    if len(ranked) <= SAMPLES:
        return ranked
    step = (len(ranked) - 1) / (SAMPLES - 1)
    return [ranked[round(number * step)] for number in range(SAMPLES)]


def _result_of(chunk: int, results: Sequence[tuple[int, str]]) -> str | None:
    return next((name for stop, name in results if chunk < stop), None)
