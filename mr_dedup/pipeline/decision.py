"""Why documents of a result were kept or dropped, as sentences."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mr_dedup.clusters.criterion import SIMILAR, Criterion, Measure
from mr_dedup.clusters.decisions import Reason
from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.formats.compression import compression_by_suffix
from mr_dedup.formats.documents.files import DocumentFile, format_by_ending
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.kept_fingerprints import FILE
from mr_dedup.formats.parts import file_batches
from mr_dedup.pipeline.result_files import ResultFiles, damage_reported, refuse_newer_result
from mr_dedup.pipeline.results import DOCUMENTS, FINGERPRINTS, SUMMARY, require_below
from mr_dedup.pipeline.summary import LaterRuns, summary_of

_MAX_COMPARED = 100
"""Kept documents of a cluster whose texts are compared with one that is dissimilar to them."""

MAX_OF_ONE_ID = 100
"""Documents with one id whose decisions are returned."""

_KEPT = pa.array([reason.key for reason in Reason if reason.is_kept])


@dataclass(frozen=True)
class Decision:
    """Why one document was kept or dropped.

    Attributes:
        id: Of the document; None if it has none.
        file: The file that it was read from.
        position: Its offset there in bytes, or its row.
        reason: ``unclustered``, ``first_of_cluster``, ``dissimilar``, ``near_duplicate``,
            ``exact_duplicate``, ``same_cluster``, ``among_first``, ``sampled`` or ``contained``;
            docs/formats.md explains them.
        kept_id: The kept document that it duplicates; its own if it is kept.
        similarity: Of the two texts, None if they were not compared; of a contained one the share
            of its shingles that the kept one has.
        cluster_documents: The documents of its cluster; 1 if it has none.
        kept_file: The file of the kept document that it duplicates.
        kept_position: Its offset there in bytes, or its row.
        earlier_result: The result of an earlier run that kept it; None if this run did.
        most_similar_id: Of a dissimilar document, the most similar one of its cluster that this run
            kept, among the first hundred; None if there is none, or texts cannot be read.
        highest_similarity: Its similarity.
        min_similarity: The similarity from which on documents are duplicates; None if unknown.
        measure: Of a dissimilar document, what these similarities are: ``similarity``, or
            ``contained``, the share of its shingles that another has.
    """

    id: str | None
    file: str
    position: int
    reason: str
    kept_id: str | None
    similarity: float | None
    cluster_documents: int
    kept_file: str | None = None
    kept_position: int | None = None
    earlier_result: str | None = None
    most_similar_id: str | None = None
    highest_similarity: float | None = None
    min_similarity: float | None = None
    measure: Measure = "similarity"

    @property
    def is_kept(self) -> bool:
        """Whether the document was kept."""
        return Reason[self.reason.upper()].is_kept

    def __str__(self) -> str:
        return f"{_name(self.id, self.file, self.position)}: {self._explained}"

    def located(self) -> str:
        """Return the sentence with file and position too, for an id of several documents."""
        return f"{self.id} ({self.file}, {self.position}): {self._explained}"

    @property
    def _explained(self) -> str:
        similarity = "" if self.similarity is None else f" (similarity {self.similarity:.2f})"
        share = "" if self.similarity is None else f" (share {self.similarity:.2f})"
        kept = _name(self.kept_id, self.kept_file, self.kept_position)
        if self.earlier_result is not None:
            kept += f", which {self.earlier_result} kept"
        enough = "contained in" if self.measure == "contained" else "similar enough to"
        said = {
            "unclustered": "kept, no other document is a candidate",
            "first_of_cluster": "kept, the first document of its cluster",
            "dissimilar": f"kept, not {enough} a kept document of its cluster",
            "near_duplicate": f"dropped, a near-duplicate of {kept}{similarity}",
            "exact_duplicate": f"dropped, an exact duplicate of {kept}",
            "same_cluster": f"dropped, in one cluster with {kept}",
            "among_first": "kept, among the first of its group of duplicates",
            "sampled": "kept, in the sample of its group of duplicates",
            "contained": f"dropped, contained in {kept}{share}",
        }[self.reason]
        count = self.cluster_documents
        cluster = f"; {count:,} documents in its cluster" if count > 1 else ""
        return f"{said}{self._most_similar}{cluster}"

    @property
    def _most_similar(self) -> str:
        if self.highest_similarity is None:
            return ""
        # 0.7999 is not to be shown as 0.80, below 0.8
        shown = f"{np.floor(self.highest_similarity * 100) / 100:.2f}"
        below = "" if self.min_similarity is None else f", below {self.min_similarity:g}"
        if self.measure == "contained":
            return f"; largest share in kept document {self.most_similar_id} ({shown}{below})"
        return f"; most similar kept document: {self.most_similar_id} (similarity {shown}{below})"


def _name(id: str | None, file: str | None, position: int | None) -> str:
    """Return the id of a document, or where it is if it has none."""
    return id if id is not None else f"{file}, {position}"


def decisions_on(files: ResultFiles, ids: Sequence[str]) -> Iterator[list[Decision]]:
    """Yield for each of ``ids`` the decisions on the documents that have it, at most a hundred.

    Reads the ids of all decisions, and clusters for each found one; for a dissimilar document all
    decisions, and the files of kept documents that have documents of its cluster.

    Raises:
        KeyError: No document has one of the ids.
        MrDedupError: For what cannot be read.
    """
    refuse_newer_result(files)
    rows = _rows_of(files, ids)
    for id in ids:
        yield [_decision(files, row) for row in rows[id]]


def batches_of(files: ResultFiles, dataset: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dataset of a result, some thousand a time."""
    for called, path in files.parts(dataset):
        with damage_reported(called):
            yield from file_batches(path)


def _rows_of(files: ResultFiles, ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the decisions on each id, in order; raises KeyError for an id that there is not."""
    rows: dict[str, list[dict[str, Any]]] = {id: [] for id in ids}
    # others, which a shell can pass, are ids of no document
    texts = [id for id in rows if id == id.encode(errors="replace").decode()]
    wanted = pa.array(texts, pa.large_string())
    for batch in batches_of(files, "decisions"):
        for row in batch.filter(pc.is_in(batch["id"], value_set=wanted)).to_pylist():
            if len(rows[row["id"]]) < MAX_OF_ONE_ID:
                rows[row["id"]].append(row)
    for id, found in rows.items():
        if not found:
            raise KeyError(id)
    return rows


def _decision(files: ResultFiles, row: dict[str, Any]) -> Decision:
    documents = 1
    if row["cluster"] is not None:
        for batch in batches_of(files, "clusters"):
            found = batch.filter(pc.equal(batch["cluster"], row["cluster"]))
            if found.num_rows:
                documents = found["documents"][0].as_py()
    decision = Decision(
        row["id"], row["file"], row["position"], row["reason"], row["kept_id"],
        row["similarity"], documents, row["kept_file"], row["kept_position"],
        row["earlier_result"],
    )  # fmt: skip
    if row["reason"] != Reason.DISSIMILAR.key:
        return decision
    criterion = _criterion_of(files)
    decision = replace(decision, measure=criterion.measure)
    # kept documents may have been moved or changed since: the decision is known without them
    with contextlib.suppress(MrDedupError, OSError):
        return _with_most_similar(files, decision, row["cluster"], criterion)
    return decision


def _criterion_of(files: ResultFiles) -> Criterion:
    """Return by what the texts of a result were compared."""
    name = files.name_of(SUMMARY)
    with summary_of(name):
        verify = json.loads(files.content(SUMMARY)).get("verify")
    try:
        return SIMILAR if verify is None else Criterion.parse(str(verify))
    except ValueError as error:
        raise MrDedupError(f"{name}: verify: {error}") from error


def _with_most_similar(
    files: ResultFiles, decision: Decision, cluster: int, criterion: Criterion
) -> Decision:
    """Return the decision on a dissimilar document with the most similar kept one."""
    own, others = _kept_of_cluster(files, decision, cluster)
    if own is None or not others:
        return decision
    summary = files.content(SUMMARY)
    texts = _kept_texts(files, {own, *others}, summary)
    with summary_of(files.name_of(SUMMARY)):
        known = json.loads(summary)
        # of descriptions of features, as FeatureOptions has them
        stated = dict(re.findall(r", (normalize|symbols) ([\w+-]+)", known["features"]))
        options = FeatureOptions.parse(known["shingles"], "binary", **stated)
    numbers = [number for number in others if number in texts]
    if own not in texts or not numbers:
        return decision
    compared = [texts[own], *(texts[number] for number in numbers)]
    sets = shingle_sets(pa.array(compared, pa.large_string()), options, criterion.max_hashes)
    rows = np.arange(1, len(compared))
    compare = sets.contained if criterion.is_containment else sets.jaccard
    found = compare(np.zeros_like(rows), rows)
    best = int(found.argmax())
    return replace(
        decision,
        most_similar_id=others[numbers[best]],
        highest_similarity=float(found[best]),
        min_similarity=criterion.threshold,
    )


def _kept_of_cluster(
    files: ResultFiles, decision: Decision, cluster: int
) -> tuple[int | None, dict[int, str]]:
    """Return the number of a document among the kept ones, and the names of others by theirs.

    These are the first hundred that are kept of its cluster.
    """
    own: int | None = None
    others: dict[int, str] = {}
    done = 0
    for batch in batches_of(files, "decisions"):
        kept = batch.filter(pc.is_in(batch["reason"], value_set=_KEPT))
        is_member = pc.fill_null(pc.equal(kept["cluster"], cluster), False)
        members = np.flatnonzero(is_member.to_numpy(zero_copy_only=False))
        columns = ["id", "file", "position"]
        for row, found in zip(
            members.tolist(), kept.select(columns).take(pa.array(members)).to_pylist(), strict=True
        ):
            if (found["file"], found["position"]) == (decision.file, decision.position):
                own = done + row
            elif len(others) < _MAX_COMPARED:
                others[done + row] = _name(**found)
        done += kept.num_rows
    return own, others


def _kept_texts(files: ResultFiles, numbers: set[int], summary: bytes) -> dict[int, str]:
    """Return the texts of kept documents, by their numbers among all."""
    reading = LaterRuns.parse(files.name_of(SUMMARY), Path(SUMMARY), summary).reading
    texts: dict[int, str] = {}
    first = 0
    for name, count in _counts(files).items():
        wanted = sorted(number for number in numbers if first <= number < first + count)
        if wanted:
            format = reading.format or format_by_ending(name)
            assert format is not None
            with files.file(f"{DOCUMENTS}/{name}") as path:
                file = DocumentFile(path, name, format, compression_by_suffix(Path(name)))
                done = first
                for batch in read_documents([file], Rejects(), reading.options()):
                    for number in wanted:
                        if done <= number < done + len(batch):
                            texts[number] = batch.texts[number - done].as_py()
                    done += len(batch)
                    if done > wanted[-1]:
                        break
        first += count
    return texts


def _counts(files: ResultFiles) -> dict[str, int]:
    """Return the files of kept documents, in their order, and how many documents each has."""
    counts: dict[str, int] = {}
    for batch in batches_of(files, FINGERPRINTS):
        # in the order in which they occur
        for found in batch[FILE].cast(pa.large_string()).value_counts().to_pylist():
            name = found["values"]
            require_below(name, files.name_of(FINGERPRINTS))
            counts[name] = counts.get(name, 0) + found["counts"]
    return counts
