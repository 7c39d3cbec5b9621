"""The decisions on all documents of a run, gathered from the resolve job, and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason, are_kept
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.decision_file import DECISIONS, REPEATED
from mr_dedup.formats.parts import ParquetParts
from mr_dedup.jobs.report_counts import SAMPLES
from mr_dedup.pipeline.document_rows import Locations, Rows
from mr_dedup.pipeline.run_counts import RunCounts
from mr_dedup.pipeline.summary import DecisionSummary
from mr_dedup.signatures.linking import MethodSets

_COUNTED = 1 << 18
"""Documents whose clusters are counted together."""


@dataclass
class RunDecisions:
    """The decisions on all documents, aligned with them.

    ``kept_rows`` are the numbers of the kept documents that dropped ones duplicate, -1 for others.
    ``earlier`` are the results of earlier runs, and how many documents each kept: the first ones.
    """

    clusters: NDArray[np.uint64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    reasons: NDArray[np.uint8]
    waiting: NDArray[np.bool_]
    kept_rows: NDArray[np.int64]
    earlier: Sequence[tuple[str, int]] = ()
    methods: MethodSets | None = None

    @classmethod
    def unclustered(
        cls,
        rows: Rows,
        cluster: NDArray[np.uint64],
        clustered: NDArray[np.bool_],
        earlier: Sequence[tuple[str, int]],
    ) -> RunDecisions:
        """Return the decisions on what is in no cluster; the others are waited for."""
        reasons = np.full(len(cluster), Reason.UNCLUSTERED, np.uint8)
        return cls(
            np.where(clustered, cluster, rows.fingerprints),
            np.zeros(reasons.size, np.uint8),
            np.full(reasons.size, np.nan),
            reasons,
            clustered.copy(),
            np.full(reasons.size, -1),
            earlier,
        )

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept."""
        return are_kept(self.reasons)

    @property
    def new(self) -> slice:
        """The documents of this run among all."""
        return slice(sum(count for _, count in self.earlier), None)

    def take(self, rows: Rows, table: pa.Table) -> None:
        """Take decisions of the resolve job."""
        numbers = rows.numbers_of(table)
        self.waiting[numbers] = False
        self.distances[numbers] = table["distance_bits"].to_numpy()
        self.similarities[numbers] = table["similarity"].to_numpy()
        reasons = table["reason"].to_numpy()
        self.reasons[numbers] = reasons
        dropped = ~are_kept(reasons)
        of_dropped = table.filter(pa.array(dropped))
        kept = of_dropped.select(["kept_chunk", "kept_row"]).rename_columns(["chunk", "row"])
        self.kept_rows[numbers[dropped]] = rows.numbers_of(kept)

    @property
    def kept_or_own(self) -> NDArray[np.int64]:
        """The numbers of the kept documents that all documents duplicate, of kept ones their own.

        int64[n]
        """
        return np.where(self.kept_rows < 0, np.arange(self.kept_rows.size), self.kept_rows)

    def name_methods(
        self,
        methods_of: Callable[[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], MethodSets],
    ) -> None:
        """Take the methods by which dropped documents and the kept ones are candidates.

        ``methods_of`` returns them, given the distances and the numbers of both.
        """
        dropped = np.flatnonzero(~self.kept)
        self.methods = methods_of(self.distances[dropped], dropped, self.kept_rows[dropped])

    def samples(self) -> list[tuple[int, int]]:
        """Return pairs of a dropped and its kept document, from low similarity to high."""
        compared = [reason for reason in Reason if reason.is_compared]
        dropped = np.flatnonzero(np.isin(self.reasons, compared))
        if not dropped.size:
            dropped = np.flatnonzero(~self.kept)
        ranked = dropped[np.argsort(self.similarities[dropped], kind="stable")]
        chosen = (
            ranked[np.linspace(0, max(0, ranked.size - 1), SAMPLES).astype(np.int64)]
            if ranked.size
            else ranked
        )
        numbers = list(dict.fromkeys(chosen.tolist()))
        return list(zip(numbers, self.kept_rows[numbers].tolist(), strict=True))

    def check(self, rows: Rows) -> None:
        """Raise MrDedupError for earlier documents that are others by now.

        And RuntimeError if a document of a cluster of this run was not decided on.
        """
        waiting = np.flatnonzero(self.waiting)
        if not waiting.size:
            return
        if waiting[0] >= rows.earlier:
            raise RuntimeError(f"{waiting.size} documents were not resolved")
        (id,) = rows.ids_of(waiting[:1]).to_pylist()
        raise changed(self._source_of(int(waiting[0])), id)

    def write_decisions(
        self,
        folder: Path,
        rows: Rows,
        earlier_locations: Callable[[NDArray[np.int64]], Locations],
        counts: RunCounts,
        part_rows: int,
    ) -> list[str]:
        """Write the decisions on the documents of this run as parts; return their names.

        ``earlier_locations`` returns where documents of earlier runs are, given their numbers.
        """
        kept = self.kept
        kept_rows = self.kept_rows[~kept]
        duplicated = np.unique(kept_rows)
        locations = _locations_of(duplicated, rows, earlier_locations)
        names = rows.ids_of(duplicated)
        with ParquetParts(folder, DECISIONS, part_rows=part_rows, use_dictionary=REPEATED) as parts:
            start = rows.earlier
            dropped = int(np.count_nonzero(~kept[:start]))
            for batch in rows.batches(["id", "file", "position"]):
                count = int(np.count_nonzero(~kept[start : start + len(batch)]))
                those = slice(dropped, dropped + count)
                at = pa.array(duplicated.searchsorted(kept_rows[those]))
                of_dropped = _OfDropped(
                    names.take(at),
                    pa.nulls(count, pa.string())
                    if self.methods is None
                    else self.methods.names(those),
                    *(each.take(at) for each in locations),
                )
                counted = counts.columns(slice(start, start + len(batch)))
                parts.write_table(self._table(batch, start, of_dropped, counted))
                start += len(batch)
                dropped += count
        return parts.names

    def write_clusters(self, folder: Path, rows: Rows, part_rows: int) -> list[str]:
        """Write the clusters of two documents and more as parts; return their names."""
        table = self._clusters(rows.has_fingerprint)
        with ParquetParts(folder, table.schema, part_rows=part_rows) as parts:
            parts.write_table(table)
        return parts.names

    def _clusters(self, has_fingerprint: NDArray[np.bool_]) -> pa.Table:
        """Return the clusters of two documents and more of which this run read some."""
        clusters = self.clusters.view(np.int64)
        values, sizes = np.unique(clusters[has_fingerprint], return_counts=True)
        documents, kept = np.zeros((2, values.size), np.int64)
        # numbers of clusters take as much memory as their labels: of some documents at a time
        for start in range(self.new.start, clusters.size, _COUNTED):
            these = slice(start, start + _COUNTED)
            known = has_fingerprint[these]
            indices = np.searchsorted(values, clusters[these][known])
            np.add.at(documents, indices, 1)
            np.add.at(kept, indices, are_kept(self.reasons[these][known]))
        several = (sizes >= 2) & (documents >= 1)
        columns = {
            "documents": documents,
            "documents_kept": kept,
            "earlier_documents": sizes - documents,
        }
        counts = {name: column[several] for name, column in columns.items()}
        return pa.table({"cluster": values[several], **counts})

    def _source_of(self, number: int) -> str | None:
        """Return the earlier result of a document; None for one of this run."""
        for name, count in self.earlier:
            if number < count:
                return name
            number -= count
        return None

    def _sources(self, numbers: NDArray[np.int64]) -> pa.LargeStringArray:
        """Return the earlier results of documents, null of those of this run."""
        names = pa.array([*(name for name, _ in self.earlier), None], pa.large_string())
        ends = np.cumsum([count for _, count in self.earlier])
        return names.take(pa.array(np.searchsorted(ends, numbers, side="right")))

    def _table(
        self,
        documents: pa.RecordBatch,
        start: int,
        of_dropped: _OfDropped,
        counted: Sequence[pa.Array],
    ) -> pa.Table:
        """Return the decisions on documents, by ids and locations, from number ``start`` on."""
        import pyarrow.compute as pc

        ids, files, positions = documents.columns
        these = slice(start, start + len(ids))
        kept = are_kept(self.reasons[these])
        dropped = pa.array(~kept)
        sources = self._sources(self.kept_rows[these][~kept])
        similarities = self.similarities[these]
        keys = pa.array([reason.key for reason in Reason])
        nothing = pa.nulls(len(ids), pa.string()), pa.nulls(len(ids), pa.large_string())
        return pa.Table.from_arrays(
            [
                ids,
                files,
                positions,
                pa.array(self.clusters[these].view(np.int64)),
                pc.replace_with_mask(ids, dropped, of_dropped.kept_ids),
                pc.replace_with_mask(files, dropped, of_dropped.kept_files.cast(pa.large_string())),
                pc.replace_with_mask(positions, dropped, of_dropped.kept_positions),
                pa.array(self.distances[these], mask=kept),
                pa.array(similarities, mask=np.isnan(similarities)),
                keys.take(pa.array(self.reasons[these])),
                pc.replace_with_mask(nothing[1], dropped, sources),
                pc.replace_with_mask(nothing[0], dropped, of_dropped.methods),
                *counted,
            ],
            schema=DECISIONS,
        )

    def counts(self) -> DecisionSummary:
        """Return what became of the documents of this run."""
        kept, reasons = self.kept[self.new], self.reasons[self.new]
        counts = np.bincount(reasons, minlength=len(Reason)).tolist()
        first = self.new.start
        return {
            "documents_kept": int(kept.sum()),
            "documents_dropped": int((~kept).sum()),
            "reasons": {reason.key: counts[reason] for reason in Reason},
            "earlier_documents": first,
            "documents_dropped_for_earlier": int(
                np.count_nonzero(
                    (self.kept_rows[self.new] >= 0) & (self.kept_rows[self.new] < first)
                )
            ),
        }


def _locations_of(
    numbers: NDArray[np.int64],
    rows: Rows,
    earlier_locations: Callable[[NDArray[np.int64]], Locations],
) -> Locations:
    """Return the locations of documents, by their numbers, strictly ascending."""
    first = int(numbers.searchsorted(rows.earlier))
    return Locations.joined(
        [earlier_locations(numbers[:first]), rows.locations_of(numbers[first:])]
    )


def changed(source: str | None, id: str) -> MrDedupError:
    """Return the error of an earlier document that is no longer what was kept."""
    return MrDedupError(f"{source}: document {id!r} has changed since it was kept")


class _OfDropped(NamedTuple):
    """The kept documents that the dropped ones of a batch duplicate, in order, and the methods."""

    kept_ids: pa.LargeStringArray
    methods: pa.StringArray
    kept_files: pa.DictionaryArray
    kept_positions: pa.Int64Array
