"""Find the repeated passages of documents, and cut them, by stages whose tasks write shards.

anchors   anchors/   a shard a chunk: hashes of parts of windows that several documents have
windows   windows/   a shard a chunk: windows that several documents have, in how many, where first
keep      result/    passages/, occurrences/; with cuts documents/ and cuts/

Documents are read three times. The client has in memory what it knows of each chunk, and nothing of
documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.passage_files import PASSAGES
from mr_dedup.jobs.passage_anchors import TOKENS, PassageAnchorsJob
from mr_dedup.jobs.passage_job import HOST, WITHOUT_GROUP
from mr_dedup.jobs.passage_windows import PassageWindowsJob
from mr_dedup.jobs.passages import LEFT_EMPTY, PASSAGES_FOLDER, Cut, PassagesJob
from mr_dedup.jobs.reading import (
    DOCUMENTS,
    REJECT,
    TEXT_BYTES,
    has_rejects,
    reading_summary,
    require_documents,
)
from mr_dedup.jobs.shard_parts import ShardPartsJob, write_part
from mr_dedup.passages.cutting import Boundaries
from mr_dedup.passages.options import PassageOptions
from mr_dedup.pipeline.document_files import document_parts
from mr_dedup.pipeline.sharded_run import Left, ShardedRun, files_in
from mr_dedup.pipeline.stages import RESULT, Stages

STAGES = ("anchors", "windows", "keep")
"""In their order."""

_FOLDERS = {"anchors": "anchors", "windows": "windows"}
_RESULT_FILES = "kept.json"

_PARTITION_BYTES = 32 << 20
"""Bytes of keys for each partition of them, about."""

_ANCHOR_BYTES_SHARE = 5
"""Anchors with their counts take about one byte for so many of text."""

_WINDOW_BYTES = 36 * 13
"""What the windows of an anchor take, about."""

_MAX_GROUPS = 256
"""Groups of chunks by which keys are brought together."""


class NoGroupError(MrDedupError):
    """No document is in a group: a run with another field is another run."""


@dataclass(frozen=True, kw_only=True)
class PassageRunOptions:
    """How to find passages.

    Attributes:
        passages: What is counted.
        min_documents: In how many documents a passage is at least, 2 or more.
        per: The field whose values are groups in which documents are counted, or HOST.
        cut: What is cut out of the documents.
        boundaries: What a cut never divides.
        reading: How documents are read.
        format: The format of the documents; None if it follows from their names.

    Raises:
        ValueError: For a parameter out of range.
    """

    passages: PassageOptions = field(default_factory=PassageOptions)
    min_documents: int = 2
    per: str | None = None
    cut: Cut = "none"
    boundaries: Boundaries = "words"
    reading: ReadOptions = field(default_factory=ReadOptions)
    format: DocumentFormat | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.min_documents < 1 << 31:
            raise ValueError(f"min_documents: expected 2 or more, got {self.min_documents}")


def find_passages(
    stages: Stages, options: PassageRunOptions, run: ShardedRun, content_bytes: int
) -> dict[str, Any]:
    """Run the stages that are not done yet; return what they count.

    Args:
        stages: Those of the run.
        options: How to find passages.
        run: Where the run is, and its engine.
        content_bytes: The size of the documents, about.

    Raises:
        NoGroupError: If no document is in a group.
        MrDedupError: As ``Engine.run``.
    """
    with run.open_engine("size") as (engine, _):
        tasks = engine.tasks

    def is_done(stage: str) -> bool:
        if not stages.is_done(stage):
            return False
        if stage == "keep":
            content = json.loads((run.records / _RESULT_FILES).read_bytes())
            return bool(_written(run) == content)
        return run.is_whole(_FOLDERS[stage])

    def partitions(size_bytes: int) -> int:
        return max(tasks, -(-size_bytes // _PARTITION_BYTES))

    shared = _shared(options, run)
    if not is_done("anchors"):
        job = PassageAnchorsJob(
            **shared, partitions=partitions(content_bytes // _ANCHOR_BYTES_SHARE)
        )
        left, _ = run.over_documents(job, "anchors", run.chunks, "anchors")
        stages.finish("anchors", run.record("anchors", left), _read(left, options))
    anchors = run.recorded("anchors")
    if not is_done("windows"):
        counted = PassageWindowsJob(
            **shared, anchors=anchors.folder, partitions=partitions(_WINDOW_BYTES * anchors.rows)
        )
        left, _ = run.over_documents(counted, "windows", run.chunks, "windows")
        stages.finish("windows", run.record("windows", left), {})
    windows = run.recorded("windows")
    if not is_done("keep"):
        counts = _keep(options, run, shared, anchors, windows, partitions(windows.size_bytes))
        with whole_file(run.records / _RESULT_FILES, overwrite=True) as file:
            file.write(json.dumps(_written(run)).encode() + b"\n")
        stages.finish("keep", [_RESULT_FILES], counts)
    return {**stages.values("anchors"), **stages.values("keep")}


def _shared(options: PassageRunOptions, run: ShardedRun) -> dict[str, Any]:
    """Return the fields that all jobs over documents have."""
    return {
        "reading": options.reading,
        "format": options.format,
        "passages": options.passages,
        "per": options.per,
        "min_documents": options.min_documents,
        "chunks_per_group": -(-run.chunk_count // _MAX_GROUPS) or 1,
    }


def _read(left: Left, options: PassageRunOptions) -> Mapping[str, Any]:
    """Return what was read.

    Raises NothingReadError if all records were rejected, NoGroupError if no document has a group.
    """
    counters = left.counters
    documents = counters.get(DOCUMENTS, 0)
    firsts = (next(left.tables(shard.key)).select([REJECT]) for shard in left.shards)
    require_documents(counters, (table for table in firsts if table[REJECT][0].is_valid))
    if documents and counters.get(WITHOUT_GROUP, 0) == documents:
        what = "no id is a URL" if options.per == HOST else f"no document has {options.per!r}"
        raise NoGroupError(f"--per: {what}")
    return {
        **reading_summary(counters),
        "text_bytes": counters.get(TEXT_BYTES, 0),
        "tokens": counters.get(TOKENS, 0),
        WITHOUT_GROUP: counters.get(WITHOUT_GROUP, 0),
    }


def _keep(
    options: PassageRunOptions,
    run: ShardedRun,
    shared: Mapping[str, Any],
    anchors: Left,
    windows: Left,
    partitions: int,
) -> Mapping[str, int]:
    """Have tasks write the result; return what they count."""
    run.remove(RESULT)
    job = PassagesJob(
        **shared,
        partitions=partitions,
        anchors=anchors.folder,
        windows=windows.folder,
        result=run.at(RESULT),
        cut=options.cut,
        boundaries=options.boundaries,
        parts=document_parts(run, "same", options.reading.id_names, as_lines=True),
        has_rejects=has_rejects(anchors.counters),
    )
    found, _ = run.over_documents(job, "passages", run.chunks, "passages")
    folder = run.at(f"{RESULT}/{PASSAGES_FOLDER}")
    if found.shards:
        keys = tuple(shard.key for shard in found.shards)
        run.over_shards(ShardPartsJob(keys=keys, folder=folder), None, [found])
    else:
        write_part(folder, 0, PASSAGES.empty_table())
    run.remove("passages")
    counted = ["passages", "occurrences", "documents_with_passages", "tokens_in_passages"]
    if options.cut != "none":
        counted += ["cuts", "documents_cut", "cut_bytes", LEFT_EMPTY]
    return {name: found.counters.get(name, 0) for name in counted}


def _written(run: ShardedRun) -> dict[str, int | None]:
    """Return the files that tasks have written of the result, with their sizes."""
    return {name: size for name, size in files_in(run.at(RESULT)).items() if "/" in name}
