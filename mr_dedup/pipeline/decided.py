"""The decisions on all documents of a run, gathered from the resolve job, and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.outputs import whole_file
from mr_dedup.pipeline.document_rows import Rows

_SAMPLES = 12
"""Dropped documents that are shown beside their keepers."""


@dataclass
class Decided:
    """The decisions on all documents, aligned with them; keepers of the dropped ones.

    ``earlier`` are the results of earlier runs, and how many documents each kept: the first ones.
    """

    clusters: NDArray[np.uint64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    reasons: NDArray[np.uint8]
    waiting: NDArray[np.bool_]
    earlier: Sequence[tuple[str, int]] = ()
    keepers: dict[int, str] = field(default_factory=dict)
    keeper_numbers: dict[int, int] = field(default_factory=dict)
    methods: dict[int, str] = field(default_factory=dict)

    @classmethod
    def unclustered(
        cls,
        rows: Rows,
        cluster: NDArray[np.uint64],
        clustered: NDArray[np.bool_],
        earlier: Sequence[tuple[str, int]],
    ) -> Decided:
        """Return the decisions on what is in no cluster; the others are waited for."""
        reasons = np.where(rows.exist, Reason.ALONE, Reason.WITHOUT_FEATURES).astype(np.uint8)
        return cls(
            np.where(clustered, cluster, rows.fingerprints),
            np.zeros(reasons.size, np.uint8),
            np.full(reasons.size, np.nan),
            reasons,
            clustered.copy(),
            earlier,
        )

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept."""
        return self.reasons <= Reason.WITHOUT_FEATURES

    @property
    def new(self) -> slice:
        """Where the documents of this run are among all."""
        return slice(sum(count for _, count in self.earlier), None)

    def take(self, rows: Rows, table: pa.Table) -> None:
        """Take decisions of the resolve job."""
        numbers = rows.numbers_of(table)
        self.waiting[numbers] = False
        self.distances[numbers] = table["distance"].to_numpy()
        self.similarities[numbers] = table["similarity"].to_numpy()
        self.reasons[numbers] = table["reason"].to_numpy()
        dropped = ~self.kept[numbers]
        of_dropped = table.filter(pa.array(dropped))
        names = of_dropped["keeper"].to_pylist()
        self.keepers.update(zip(numbers[dropped].tolist(), names, strict=True))
        keepers = of_dropped.select(["keeper chunk", "keeper row"]).rename_columns(["chunk", "row"])
        pairs = zip(numbers[dropped].tolist(), rows.numbers_of(keepers).tolist(), strict=True)
        self.keeper_numbers.update(pairs)

    def name_methods(
        self,
        names_of: Callable[
            [NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], Sequence[str | None]
        ],
    ) -> None:
        """Take by which methods dropped documents and their keepers are alike.

        ``names_of`` tells it, given their distances and the numbers of both.
        """
        dropped = np.array(sorted(self.keeper_numbers), np.int64)
        keepers = np.array([self.keeper_numbers[n] for n in dropped.tolist()], np.int64)
        names = names_of(self.distances[dropped], dropped, keepers)
        told = zip(dropped.tolist(), names, strict=True)
        self.methods = {number: name for number, name in told if name is not None}

    def samples(self) -> list[tuple[int, int]]:
        """Return some dropped documents and their keepers, from the least similar to the most."""
        dropped = np.flatnonzero(self.reasons == Reason.NEAR_DUPLICATE)
        if not dropped.size:
            dropped = np.flatnonzero(~self.kept)
        ranked = dropped[np.argsort(self.similarities[dropped], kind="stable")]
        chosen = (
            ranked[np.linspace(0, max(0, ranked.size - 1), _SAMPLES).astype(np.int64)]
            if ranked.size
            else ranked
        )
        return [(number, self.keeper_numbers[number]) for number in dict.fromkeys(chosen.tolist())]

    def check(self, rows: Rows) -> None:
        """Raise MrDedupError for earlier documents that are others by now.

        And RuntimeError if a document of a cluster of this run was not decided on.
        """
        waiting = np.flatnonzero(self.waiting)
        if not waiting.size:
            return
        if waiting[0] >= rows.earlier:
            raise RuntimeError(f"{waiting.size} documents were not resolved")
        ((number, id),) = rows.ids_of(waiting[:1]).items()
        raise changed(self._source_of(number), id)

    def write(self, decisions: Path, clusters: Path, rows: Rows) -> None:
        """Write the decisions on the documents of this run, and the clusters of two and more."""
        self._name_earlier_keepers(rows)
        with (
            whole_file(decisions, overwrite=True) as file,
            pq.ParquetWriter(
                file, _DECISIONS, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            start = rows.earlier
            for batch in rows.batches(["id"]):
                writer.write_batch(self._batch(batch.column(0), start))
                start += len(batch)
        with whole_file(clusters, overwrite=True) as file:
            table = self._clusters(rows.exist)
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)

    def _clusters(self, exist: NDArray[np.bool_]) -> pa.Table:
        """Return the clusters of two documents and more of which this run read some."""
        new = np.zeros(exist.size, bool)
        new[self.new] = True
        values, places, sizes = np.unique(
            self.clusters[exist].view(np.int64), return_inverse=True, return_counts=True
        )
        documents = np.bincount(places, new[exist], minlength=values.size)
        kept = np.bincount(places, (new & self.kept)[exist], minlength=values.size)
        several = (sizes >= 2) & (documents >= 1)
        columns = {"documents": documents, "kept": kept, "earlier": sizes - documents}
        counts = {name: column[several].astype(np.int64) for name, column in columns.items()}
        return pa.table({"cluster": values[several], **counts})

    def _name_earlier_keepers(self, rows: Rows) -> None:
        """Put ids in the place of the numbers by which the job calls earlier documents."""
        numbers = np.unique([n for n in self.keeper_numbers.values() if n < rows.earlier])
        names = rows.ids_of(numbers.astype(np.int64))
        for number, keeper in self.keeper_numbers.items():
            if keeper < rows.earlier:
                self.keepers[number] = names[keeper]

    def _source_of(self, number: int) -> str | None:
        """Return which earlier result a document is of; None if it is of this run."""
        for name, count in self.earlier:
            if number < count:
                return name
            number -= count
        return None

    def _batch(self, ids: pa.LargeStringArray, start: int) -> pa.RecordBatch:
        """Return the decisions on the documents from ``start`` on, which are called ``ids``."""
        these = slice(start, start + len(ids))
        kept = self.kept[these]
        names = ids.to_pylist()
        sources: list[str | None] = [None] * len(ids)
        methods: list[str | None] = [None] * len(ids)
        for place in np.flatnonzero(~kept).tolist():
            names[place] = self.keepers[start + place]
            sources[place] = self._source_of(self.keeper_numbers[start + place])
            methods[place] = self.methods.get(start + place)
        without = self.reasons[these] == Reason.WITHOUT_FEATURES
        similarities = self.similarities[these]
        texts = pa.array([reason.text for reason in Reason])
        return pa.RecordBatch.from_arrays(
            [
                ids,
                pa.array(self.clusters[these].view(np.int64), mask=without),
                pa.array(names, pa.large_string()),
                pa.array(self.distances[these], mask=kept),
                pa.array(similarities, mask=np.isnan(similarities)),
                texts.take(pa.array(self.reasons[these])),
                pa.array(sources, pa.large_string()),
                pa.array(methods, pa.string()),
            ],
            schema=_DECISIONS,
        )

    def counts(self) -> dict[str, object]:
        """Return what became of the documents of this run."""
        kept, reasons = self.kept[self.new], self.reasons[self.new]
        counts = np.bincount(reasons, minlength=len(Reason)).tolist()
        first = self.new.start
        return {
            "kept": int(kept.sum()),
            "dropped": int((~kept).sum()),
            "reasons": {reason.text: counts[reason] for reason in Reason},
            "earlier documents": first,
            "dropped for earlier documents": sum(
                keeper < first for keeper in self.keeper_numbers.values()
            ),
        }


def changed(source: str | None, id: str) -> MrDedupError:
    """Return the error of an earlier document that is no longer what was kept."""
    return MrDedupError(f"{source}: document {id!r} is another one than when it was kept")


_DECISIONS = pa.schema(
    [
        pa.field("id", pa.large_string()),
        pa.field("cluster", pa.int64()),
        pa.field("keeper", pa.large_string()),
        pa.field("distance", pa.uint8()),
        pa.field("similarity", pa.float64()),
        pa.field("reason", pa.string()),
        pa.field("earlier", pa.large_string()),
        pa.field("method", pa.string()),
    ]
)
