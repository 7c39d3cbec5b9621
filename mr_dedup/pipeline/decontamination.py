"""Find the items of test sets in documents, by one stage whose tasks write the result.

keep    found/    a shard a chunk: what its task has written, and counts
        result/   matches/; with actions documents/, and dropped/ or cuts/

A chunk whose shard is there, with the files that it names, is done: a run that is resumed searches
the others. The client has in memory the items, what it knows of each chunk, and nothing of
documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import REASONS, ItemIndex
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.benchmark_items import write_items
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.parts import LineParts, ParquetParts
from mr_dedup.formats.shards import Shard
from mr_dedup.jobs.contamination_counts import EXAMPLE, added_up
from mr_dedup.jobs.contamination_totals import (
    WITH_REJECTS,
    ContaminationTotalsJob,
    RejectPartsJob,
)
from mr_dedup.jobs.decontaminate import (
    CONTAMINATED,
    CUT,
    DROPPED,
    FILES,
    KEPT,
    MATCHED,
    STOPPED,
    Action,
    DecontaminateJob,
)
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.jobs.reading import (
    TEXT_BYTES,
    reading_summary,
    require_documents,
)
from mr_dedup.pipeline.document_files import columns_of_documents, document_parts
from mr_dedup.pipeline.sharded_run import Left, ShardedRun, files_in
from mr_dedup.pipeline.stages import RESULT, Stages

ITEMS, REJECTED_ITEMS = "items", "rejected_items"
"""The directories of a result that the client writes."""

_FOUND = "found"
_KEEP = "keep"
"""The last stage of runs of all commands."""


@dataclass(frozen=True, kw_only=True)
class DecontaminationOptions:
    """What is done with the documents of a run.

    Attributes:
        action: What is done with contaminated documents.
        documents: How others are written.
        reading: How documents are read.
        format: The format of the documents; None if it follows from their names.
    """

    action: Action = "report"
    documents: KeptFormat = "same"
    reading: ReadOptions = field(default_factory=ReadOptions)
    format: DocumentFormat | None = None


@dataclass(frozen=True)
class Searched:
    """The items that are searched for: a table as ``benchmark_items.ITEMS``, and their index."""

    items: pa.Table
    index: ItemIndex


class Example(NamedTuple):
    """A match that a report shows, as a row of ``matches/``."""

    id: str
    set: str
    item: str
    field: str
    verdict: str
    contaminated: bool
    kind: str
    coverage: float
    start: int
    end: int
    text: str
    item_text: str


class SetCounts(NamedTuple):
    """What was found of a set: its items, those judged and found, and contaminated documents."""

    name: str
    items: int
    judged: int
    found: int
    exact: int
    documents: int


class Findings:
    """What was found of each item, and of the sets; some 30 bytes an item, and examples.

    Args:
        searched: The items.
        totals: A table of each kind, as ``added_up`` returns them.
    """

    def __init__(self, searched: Searched, totals: Sequence[pa.Table]) -> None:
        self.items, self.index = searched.items, searched.index
        of_items, of_sets, verdicts, counts, examples = totals
        names = self.items["set"].combine_chunks().dictionary_encode()
        self._set_names: list[str] = names.dictionary.to_pylist()
        self._set_of = names.indices.to_numpy().astype(np.int64)
        item, size = of_items["item"].to_numpy(), len(self.items)
        self.documents, self.exact, self.found = (
            _scattered(item, of_items[name].to_numpy(), size)
            for name in ("documents", "exact_documents", "found_in")
        )
        self.coverage = _scattered(item, of_items["coverage"].to_numpy(), size)
        sets = of_sets["set"].to_numpy()
        self.set_documents = _scattered(sets, of_sets["documents"].to_numpy(), len(self._set_names))
        self.verdicts = dict(zip(*(column.to_pylist() for column in verdicts.columns), strict=True))
        self.counts: dict[str, int] = dict(
            zip(*(column.to_pylist() for column in counts.columns), strict=True)
        )
        self._examples = examples

    def sets(self) -> list[SetCounts]:
        """Return the counts of each set, in the order in which they were read."""
        judged = self.index.reasons == 0
        found = self.documents > 0

        def by_set(chosen: NDArray[np.bool_]) -> list[int]:
            counts: list[int] = np.bincount(
                self._set_of[chosen], minlength=len(self._set_names)
            ).tolist()
            return counts

        counts = (
            by_set(np.ones(len(self.items), bool)), by_set(judged), by_set(found),
            by_set(self.exact > 0), self.set_documents.tolist(),
        )  # fmt: skip
        return [SetCounts(*row) for row in zip(self._set_names, *counts, strict=True)]

    def item_table(self) -> pa.Table:
        """Return a row for each item: why it was not judged, or where it was found."""
        reasons = [REASONS[reason] for reason in self.index.reasons.tolist()]
        is_same = self.index.same_as != np.arange(len(self.items))
        same_as = self.items["item"].take(pa.array(self.index.same_as))
        first = self.index.same_as
        counts = {
            "documents": self.documents[first],
            "exact_documents": self.exact[first],
            "found_in": self.found[first],
        }
        table = self.items.select(["set", "item", "file", "position"])
        table = table.append_column("reason", pa.array(reasons, pa.string()))
        table = table.append_column("same_as", pc.if_else(pa.array(is_same), same_as, None))
        for name, values in counts.items():
            table = table.append_column(name, pa.array(values))
        return table.append_column("best_coverage", pa.array(self.coverage[first]))

    def not_judged(self) -> dict[str, int]:
        """Return how many items are not judged, by reason."""
        counts = np.bincount(self.index.reasons, minlength=len(REASONS)).tolist()
        return {str(reason): counts[number] for number, reason in enumerate(REASONS) if reason}

    def shown(self) -> Iterator[tuple[SetCounts, list[Example]]]:
        """Yield the sets that a report shows with their examples, those of most documents first."""
        columns = [field.name for field in EXAMPLE]
        sets = enumerate(self.sets())
        for number, each in sorted(sets, key=lambda it: (-it[1].documents, -it[1].found)):
            of_set = self._examples.filter(pc.field("of_set") == number).select(columns)
            yield each, [Example(**row) for row in of_set.to_pylist()]

    def summary(self, action: Action) -> dict[str, Any]:
        """Return the counts of a run as ``summary.json`` has them."""
        names = [TEXT_BYTES, CONTAMINATED, STOPPED]
        names += {"report": [], "drop": [KEPT, DROPPED], "cut": [CUT]}[action]
        return {
            **{name: self.counts.get(name, 0) for name in names},
            **reading_summary(self.counts),
            "matches": self.counts.get(MATCHED, 0),
            "verdicts": dict(sorted(self.verdicts.items())),
            "items": len(self.items),
            "items_judged": int((self.index.reasons == 0).sum()),
            "items_not_judged": self.not_judged(),
            "items_found": int((self.documents > 0).sum()),
            "common_ngrams": self.index.common_grams,
            "sets": [each._asdict() for each in self.sets()],
        }


def _scattered(rows: NDArray[Any], values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array of so many values, which are 0 but at ``rows``."""
    found = np.zeros(size, values.dtype)
    found[rows] = values
    return found


def find_items(
    stages: Stages,
    options: DecontaminationOptions,
    run: ShardedRun,
    searched: Searched,
    folder: Path,
) -> Findings:
    """Search the chunks that are not done yet; return what is found in all.

    Args:
        stages: Those of the run.
        options: What is done with the documents.
        run: Where the run is, and its engine.
        searched: The items.
        folder: A temporary directory for side files.

    Raises:
        NothingReadError: If all records were rejected.
        MrDedupError: As ``Engine.run``, and if files of the result are missing.
    """
    done = _done(run)
    chunks = [chunk for chunk in run.chunks if chunk.number not in done]
    if chunks:
        job = _job(options, run, searched, folder)
        run.over_documents(job, "search", chunks, _FOUND)
    totals, missing, with_rejects = _totals(run)
    if missing:
        raise MrDedupError(f"{run.at(RESULT)}: parts of chunk {min(missing)} are missing")
    findings = Findings(searched, totals)
    firsts = (table for chunk in with_rejects[:1] for table in _shards(run).tables(chunk))
    require_documents(findings.counts, firsts)
    _write_rejects(run, with_rejects)
    stages.finish(_KEEP, [], findings.counts)
    return findings


def _job(
    options: DecontaminationOptions, run: ShardedRun, searched: Searched, folder: Path
) -> DecontaminateJob:
    columns = None
    if options.action != "report" and options.documents == "parquet":
        columns = columns_of_documents(run, options.reading, options.format)
    items, texts = folder / "items", folder / "texts"
    searched.index.write(items)
    write_items(texts, searched.items)
    return DecontaminateJob(
        reading=options.reading,
        format=options.format,
        items=str(items),
        texts=str(texts),
        result=run.at(RESULT),
        action=options.action,
        parts=document_parts(
            run,
            options.documents,
            options.reading.id_names,
            as_lines=options.action == "cut",
            columns=columns,
        ),
    )


def _done(run: ShardedRun) -> set[int]:
    """Return the chunks that are done."""
    shards = _shards(run)
    if not shards.shards:
        return set()
    _, missing, _ = _totals(run)
    return {shard.key for shard in shards.shards} - missing


def _shards(run: ShardedRun) -> Left:
    """Return the shards that tasks have left so far."""
    address = run.at(_FOUND)
    shards = [
        Shard(int(name), 1, size or 0) for name, size in files_in(address).items() if name.isdigit()
    ]
    return Left(address, sorted(shards), {})


def _totals(run: ShardedRun) -> tuple[list[pa.Table], set[int], list[int]]:
    """Return the totals of all chunks that are done, of which parts are missing, and rejects.

    The latter are the chunks that have some.
    """
    left = _shards(run)
    tables = []
    if left.shards:
        tables = [table for _, table in run.yielded_over_shards(ContaminationTotalsJob(), [left])]
    sizes = files_in(run.at(RESULT))
    missing: set[int] = set()
    with_rejects: list[int] = []
    for table in tables:
        if table.column_names == FILES.names:
            rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
            missing |= {chunk for chunk, name, size in rows if sizes.get(name) != size}
        elif table.column_names == [WITH_REJECTS]:
            with_rejects += table[WITH_REJECTS].to_pylist()
    return added_up(tables), missing, sorted(with_rejects)


def _write_rejects(run: ShardedRun, chunks: Sequence[int]) -> None:
    """Have tasks write the rejected records of chunks."""
    if not chunks:
        return
    left = _shards(run)
    wanted = set(chunks)
    shards = [shard for shard in left.shards if shard.key in wanted]
    job = RejectPartsJob(keys=tuple(chunks), result=run.at(RESULT))
    run.yielded_over_shards(job, [Left(left.folder, shards, {})])


def write_items_found(findings: Findings, rejects: bytes, result: Path) -> None:
    """Write the items of a result, with how often each was found, and lines of rejected ones."""
    items = findings.item_table()
    with ParquetParts(result / ITEMS, items.schema) as parts:
        parts.write_table(items)
    with LineParts(result / REJECTED_ITEMS) as lines:
        lines.write(rejects)
