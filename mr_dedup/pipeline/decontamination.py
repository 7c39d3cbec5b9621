"""Write what a decontamination finds: matches, items, kept documents, a summary."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import REASONS, Field, ItemIndex
from mr_dedup.formats.cut_files import cuts_schema
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.parts import ParquetParts
from mr_dedup.jobs.contract import Keyed
from mr_dedup.jobs.cut_documents import CutDocuments
from mr_dedup.jobs.decontaminate import COUNTS, MAX_TEXT, Action, is_counts, is_cuts, is_found
from mr_dedup.jobs.kept_documents import KeptDocuments
from mr_dedup.jobs.kept_parts import JsonDocuments, ParquetDocuments
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.jobs.reading import is_rejects

MATCHES, ITEMS, DROPPED, CUTS, DOCUMENTS = "matches", "items", "dropped", "cuts", "documents"
"""The directories of a result."""

_MATCHES = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("set", pa.string()),
        ("item", pa.large_string()),
        ("field", pa.string()),
        ("verdict", pa.string()),
        ("contaminated", pa.bool_()),
        ("kind", pa.string()),
        ("coverage", pa.float64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("item_text", pa.large_string()),
        ("deleted", pa.int32()),
        ("inserted", pa.int32()),
        ("changed", pa.int32()),
    ]
)

_DROPPED = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("set", pa.string()),
        ("item", pa.large_string()),
        ("verdict", pa.string()),
        ("items", pa.int64()),
    ]
)

_CUTS = cuts_schema(pa.field("set", pa.string()), pa.field("item", pa.large_string()))

_REPEATED = ["file", "set", "field", "verdict", "kind"]

_EXAMPLES = 6
"""Matches that a report shows, for each set and verdict."""

_MAX_SHOWN_SETS = 50


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
    """Collects what tasks have found, and counts it by items and sets.

    In memory: some 30 bytes an item, and a few examples for each set; nothing of a document.
    """

    def __init__(self, items: pa.Table, index: ItemIndex) -> None:
        self.items = items
        self.index = index
        sets = items["set"].combine_chunks().dictionary_encode()
        self._set_names: list[str] = sets.dictionary.to_pylist()
        self._set_of = sets.indices.to_numpy().astype(np.int64)
        count = len(items)
        self.documents = np.zeros(count, np.int64)
        self.exact = np.zeros(count, np.int64)
        self.found = np.zeros(count, np.int64)
        self.coverage = np.zeros(count, np.float64)
        self.set_documents = np.zeros(len(self._set_names), np.int64)
        self.verdicts: Counter[str] = Counter()
        self.matches = 0
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self.examples: dict[str, list[Example]] = {}
        self._shown: Counter[tuple[str, str]] = Counter()

    def add(self, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Count a table of the job; return its rows as in ``matches/``, and those of ``dropped/``.

        The rows of a document are in one table, one after the other.
        """
        matches = self._described(table)
        self.matches += len(matches)
        document = _numbers(table)
        item = table["item"].to_numpy().astype(np.int64)
        decisive = table["field"].to_numpy() != Field.ANSWER
        counted = pc.fill_null(table["contaminated"], False).to_numpy()
        exact = table["exact"].to_numpy() & decisive & counted
        for column, chosen in ((self.documents, counted), (self.exact, exact), (self.found, None)):
            rows = slice(None) if chosen is None else np.flatnonzero(chosen)
            pairs = np.unique(document[rows] * len(self.items) + item[rows])
            np.add.at(column, pairs % len(self.items), 1)
        np.maximum.at(self.coverage, item[decisive], table["coverage"].to_numpy()[decisive])
        sets = len(self._set_names)
        in_sets = np.unique(document[counted] * sets + self._set_of[item[counted]])
        np.add.at(self.set_documents, in_sets % sets, 1)
        self._count_verdicts(matches, document, item)
        self._add_examples(matches)
        return matches, _dropped(matches, document, item, counted)

    def _described(self, table: pa.Table) -> pa.Table:
        """Return rows with the names and texts of their items."""
        rows = table["item"].combine_chunks()
        fields = table["field"].to_numpy()
        texts = self._texts(rows.to_pylist(), fields.tolist(), table["answer"].to_pylist())
        columns = {name: table[name] for name in table.column_names if name in _MATCHES.names}
        columns |= {
            "set": self.items["set"].take(rows),
            "item": self.items["item"].take(rows),
            "field": pa.array([Field(field).key for field in fields.tolist()], pa.string()),
            "kind": pa.array(np.where(table["exact"].to_numpy(), "exact", "near")),
            "item_text": texts,
        }
        return pa.table([columns[name].cast(_MATCHES.field(name).type) for name in _MATCHES.names],
                        schema=_MATCHES)  # fmt: skip

    def cuts(self, table: pa.Table) -> pa.Table:
        """Return a table of cuts with the names of items, as ``CutDocuments`` takes it."""
        rows = table["item"].combine_chunks()
        columns = {name: table[name] for name in table.column_names}
        columns |= {name: self.items[name].take(rows) for name in ("set", "item")}
        return pa.table(columns)

    def _texts(self, items: list[int], fields: list[int], answers: list[int]) -> pa.Array:
        """Return the beginnings of the texts of items that were found."""
        texts = []
        for item, field, answer in zip(items, fields, answers, strict=True):
            if field == Field.ANSWER:
                text = self.items["answers"][item][answer].as_py()
            else:
                text = self.items[Field(field).key][item].as_py()
            texts.append(text[:MAX_TEXT])
        return pa.array(texts, pa.large_string())

    def _count_verdicts(
        self, matches: pa.Table, document: NDArray[np.int64], item: NDArray[np.int64]
    ) -> None:
        is_new = np.append(True, (np.diff(document) != 0) | (np.diff(item) != 0))[: item.size]
        self.verdicts.update(matches["verdict"].filter(pa.array(is_new)).to_pylist())

    def _add_examples(self, matches: pa.Table) -> None:
        columns = [matches[name].to_pylist() for name in ("set", "verdict")]
        for row, key in enumerate(zip(*columns, strict=True)):
            if self._shown[key] == _EXAMPLES or (
                key[0] not in self.examples and len(self.examples) == _MAX_SHOWN_SETS
            ):
                continue
            self._shown[key] += 1
            values = matches.select(list(Example._fields)).slice(row, 1).to_pylist()[0]
            self.examples.setdefault(key[0], []).append(Example(**values))

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


def _numbers(table: pa.Table) -> NDArray[np.int64]:
    """Return which of the documents of a table each row is of, numbered from 0."""
    position = table["position"].to_numpy()
    file = table["file"].combine_chunks().dictionary_encode().indices.to_numpy()
    is_new = (np.diff(position) != 0) | (np.diff(file) != 0)
    return np.append(0, np.cumsum(is_new))[: position.size].astype(np.int64)


def _dropped(
    matches: pa.Table,
    document: NDArray[np.int64],
    item: NDArray[np.int64],
    counted: NDArray[np.bool_],
) -> pa.Table:
    """Return a row for each contaminated document, with the first of its items."""
    rows = np.flatnonzero(counted)
    documents, first = np.unique(document[rows], return_index=True)
    pairs = np.unique(np.stack([document[rows], item[rows]], axis=1), axis=0)
    items = np.bincount(pairs[:, 0], minlength=int(document.max(initial=0)) + 1)[documents]
    chosen = matches.select(_DROPPED.names[:-1]).take(pa.array(rows[first]))
    return chosen.append_column("items", pa.array(items.astype(np.int64))).cast(_DROPPED)


def write_findings(
    output: Iterable[Keyed],
    findings: Findings,
    folder: Path,
    reading: ReadOptions,
    action: Action,
    documents: KeptFormat,
    rejects: Callable[[pa.Table], None],
) -> None:
    """Write what the tasks of the job have left: matches, documents, and what was cut or dropped.

    Args:
        output: Of the job.
        findings: Counts what is found.
        folder: The directory of the result.
        reading: How documents were read.
        action: What is done with contaminated documents.
        documents: How kept documents are written.
        rejects: Is called with tables of records that could not be read.
    """
    with contextlib.ExitStack() as stack:
        matches = stack.enter_context(
            ParquetParts(folder / MATCHES, _MATCHES, use_dictionary=_REPEATED)
        )
        kept: KeptDocuments | JsonDocuments | ParquetDocuments | None = None
        cut: CutDocuments | None = None
        dropped: ParquetParts | None = None
        cuts: pa.Table | None = None
        if action != "report":
            kept = _writer_of(folder / DOCUMENTS, reading, documents)
        if action == "drop" and kept is not None:
            dropped = stack.enter_context(ParquetParts(folder / DROPPED, _DROPPED))
            stack.enter_context(kept)
        if action == "cut" and kept is not None:
            parts = stack.enter_context(ParquetParts(folder / CUTS, _CUTS))
            cut = stack.enter_context(CutDocuments(kept, parts))
        for _, table in output:
            if is_rejects(table):
                rejects(table)
            elif is_counts(table):
                findings.counts.update(table.to_pylist()[0])
            elif is_found(table):
                found, of_dropped = findings.add(table)
                matches.write_table(found)
                if dropped is not None:
                    dropped.write_table(of_dropped)
            elif cut is not None and is_cuts(table):
                cuts = findings.cuts(table)
            elif cut is not None:
                cut.write(table, cuts)
                cuts = None
            else:
                assert kept is not None
                kept.write(table)
    if action != "report":
        (folder / DOCUMENTS).mkdir(exist_ok=True)
    items = findings.item_table()
    with ParquetParts(folder / ITEMS, items.schema) as parts:
        parts.write_table(items)


def _writer_of(
    folder: Path, reading: ReadOptions, documents: KeptFormat
) -> KeptDocuments | JsonDocuments | ParquetDocuments:
    if documents == "jsonl":
        return JsonDocuments(folder)
    if documents == "parquet":
        return ParquetDocuments(folder, reading.id_names)
    return KeptDocuments(folder)


def summary_of(findings: Findings, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the counts of a run as in ``summary.json``, after those of its documents."""
    return {
        **counts,
        "matches": findings.matches,
        "verdicts": dict(sorted(findings.verdicts.items())),
        "items": len(findings.items),
        "items_judged": int((findings.index.reasons == 0).sum()),
        "items_not_judged": findings.not_judged(),
        "items_found": int((findings.documents > 0).sum()),
        "common_ngrams": findings.index.common_grams,
        "sets": [each._asdict() for each in findings.sets()],
    }


def sample_of(findings: Findings) -> Iterator[tuple[SetCounts, list[Example]]]:
    """Yield the sets that a report shows with their examples, those of most documents first."""
    sets = sorted(findings.sets(), key=lambda each: (-each.documents, -each.found))
    for each in sets:
        yield each, findings.examples.get(each.name, [])
