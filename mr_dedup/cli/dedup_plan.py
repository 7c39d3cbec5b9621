"""The plan of a de-duplication, as --dry-run prints it: nothing is run or written."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mr_dedup.cli.dedup_options import is_sharded
from mr_dedup.cli.dedup_summary import few_words_lines
from mr_dedup.cli.document_arguments import read_options
from mr_dedup.cli.document_inputs import DocumentInputs
from mr_dedup.cli.engine import memory_bytes
from mr_dedup.cli.method_arguments import recall_lines
from mr_dedup.cli.sharded_plan import cost_lines, stage_lines
from mr_dedup.cli.streams import counted, printable
from mr_dedup.engines.resources import core_count
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.fetching import piece_bytes

if TYPE_CHECKING:
    from mr_dedup.pipeline.dedup_stages.contract import DedupOptions
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.stages import Stages

_TASK_BYTES = 320_000_000
"""Memory of a task that reads documents: Python, its libraries, batches of 8 MB of text."""

_DOCUMENT_BYTES = 77
"""Memory of the command for each document."""

_STORED_DOCUMENT_BYTES = 250
"""What stages and the result have of a document: rows, signatures, decisions, fingerprints."""

_CACHED_FACTOR = 2
"""Bytes of memory for each byte of documents, as long as the cache has room."""

_SAMPLE_FILES, _SAMPLE_BYTES = 50, 1 << 16
"""The files of which some documents are read, and how many bytes of the texts of each."""

_LINE = "{:<12} {}"


def print_plan(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    options: DedupOptions,
    stages: Stages,
    folder: ResultFolder,
) -> None:
    """Print the plan of a run."""
    if is_sharded(work.runner):
        needs = cost_lines(arguments, work)
        described = stage_lines(work, options, stages)
    else:
        needs = _memory(arguments, work, options, stages)
        described = _stages(arguments, work, options, stages)
    lines = [
        *_inputs(work, options),
        *_transfers(arguments, work),
        *_methods(options),
        *_short_texts(arguments, work, options),
        *_engine(arguments, work),
        *needs,
        *_outputs(arguments, folder),
        "",
        *described,
    ]
    print("\n".join(printable(line.rstrip()) for line in lines))


def _inputs(work: DocumentInputs, options: DedupOptions) -> Iterator[str]:
    line = counted(work.files, "file")
    if work.paths:
        line += f", {sum(path.stat().st_size for path in work.paths):,} bytes here"
    if work.skipped:
        line += f"; {work.said_skipped}"
    yield _LINE.format("documents", line)
    for name, count in options.earlier:
        yield _LINE.format("against", f"{name}, {counted(count, 'document')}")


def _transfers(arguments: argparse.Namespace, work: DocumentInputs) -> Iterator[str]:
    """Yield what is read from stores and written to them."""
    total = sum(file.size_bytes or 0 for file in work.remote)
    if work.remote:
        tasks_read_again = 1 if work.runner == "memory" else 2
        scratch = arguments.open_scratch().max_bytes
        fits = work.runner == "memory" and total <= scratch
        passes = 1 if fits else 1 + tasks_read_again
        pieces = sum(-(-(file.size_bytes or 1) // piece_bytes(file.uri)) for file in work.remote)
        yield _LINE.format(
            "from stores",
            f"{counted(len(work.remote), 'file')}, {total:,} bytes, read "
            f"{'once' if passes == 1 else f'{passes} times'}: about {passes * pieces:,} requests",
        )
        if work.runner in ("memory", "inline", "local"):
            yield _LINE.format("scratch", f"up to {min(total, scratch):,} bytes")
    if isinstance(arguments.out, str):
        read = total + sum(path.stat().st_size for path in work.paths)
        writer = "tasks" if is_sharded(work.runner) else "this command"
        yield _LINE.format(
            "to stores",
            f"up to {read:,} bytes of kept documents, written by {writer}, and some "
            f"{_STORED_DOCUMENT_BYTES} for each document read",
        )


def _methods(options: DedupOptions) -> Iterator[str]:
    yield _LINE.format("methods", "; ".join(options.method_names))
    for line in recall_lines(options):
        yield _LINE.format("", line)


def _short_texts(
    arguments: argparse.Namespace, work: DocumentInputs, options: DedupOptions
) -> Iterator[str]:
    """Yield a line if over half of the first documents are too short for the threshold."""
    from mr_dedup.clusters.suspects import MIN_DOCUMENTS
    from mr_dedup.features.token_spans import token_spans
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.formats.documents.read import read_documents
    from mr_dedup.formats.documents.rejects import Rejects

    if options.short_words is None:
        return
    reading = dataclasses.replace(
        read_options(arguments), batch_bytes=_SAMPLE_BYTES, keep_records=False, fields=()
    )
    counts: list[int] = []
    for path in work.paths[:_SAMPLE_FILES]:
        # what cannot be read is said by a run
        with contextlib.suppress(MrDedupError):
            file = DocumentFile.detect(path, format=arguments.format)
            batch = next(read_documents([file], Rejects(), reading), None)
            if batch is not None:
                counts += np.diff(token_spans(batch.texts).offsets).tolist()
    few = sum(0 < count < options.short_words for count in counts)
    if len(counts) >= MIN_DOCUMENTS and 2 * few > len(counts):
        documents = f"{few:,} of {len(counts):,} documents at the beginning of files"
        for line in few_words_lines(documents, options):
            yield _LINE.format("texts", line)


def _engine(arguments: argparse.Namespace, work: DocumentInputs) -> Iterator[str]:
    how = {
        "memory": f"memory, {counted(_cores(arguments), 'thread')}",
        "inline": "inline, one process",
        "local": f"local, {counted(_cores(arguments), 'task')} at a time",
    }.get(work.runner, f"{work.runner}, as many tasks at a time as fit on the cluster")
    yield _LINE.format("runner", how)


def _memory(
    arguments: argparse.Namespace, work: DocumentInputs, options: DedupOptions, stages: Stages
) -> Iterator[str]:
    if work.runner == "memory":
        size = min(_CACHED_FACTOR * work.content_bytes, memory_bytes(arguments))
        yield _LINE.format("memory", f"up to about {_megabytes(_TASK_BYTES + size)}")
        return
    here = {"inline": 1, "local": min(_cores(arguments), len(work.inputs))}.get(work.runner, 0)
    tasks = f"about {_megabytes(_TASK_BYTES)} a task"
    if here:
        tasks += f", {_megabytes(here * _TASK_BYTES)} in all"
    count = _documents(options, stages)
    if count is None:
        here_bytes = f"{_DOCUMENT_BYTES} bytes a document"
    else:
        here_bytes = f"{_megabytes(_DOCUMENT_BYTES * count)} for {count:,} documents"
    if options.methods:
        here_bytes += ", and their signatures by one method"
    yield _LINE.format("memory", f"{tasks}; this command takes {here_bytes}")


def _documents(options: DedupOptions, stages: Stages) -> int | None:
    """Return how many documents there are, earlier ones too; None if they are not counted yet."""
    if not stages.is_done("fingerprint"):
        return None
    read: int = stages.values("fingerprint")["documents_read"]
    return read + sum(count for _, count in options.earlier)


def _outputs(arguments: argparse.Namespace, folder: ResultFolder) -> Iterator[str]:
    yield _LINE.format("result", f"{folder.name}{', replaced' if folder.exists() else ''}")
    unfinished = folder.has_unfinished() and not arguments.resume
    removed = "; the unfinished run there is removed" if unfinished else ""
    yield _LINE.format("until then", f"{folder.unfinished}{removed}")


_JOINED = {
    "memory": "in this command",
    "tasks": "tasks over fingerprints",
    "auto": "in this command, or tasks over fingerprints where they take less time",
}
"""What finds pairs of fingerprints, by the value of --join."""


def _stages(
    arguments: argparse.Namespace, work: DocumentInputs, options: DedupOptions, stages: Stages
) -> Iterator[str]:
    """Yield a line a stage: whether it is done, what it runs, reads and leaves."""
    from mr_dedup.pipeline.dedup import stages_of

    maps = counted(_map_tasks(arguments, work), "map task")
    documents = "the documents"
    signatures = ", signatures.arrow" if options.methods else ""
    kept_signatures = ", signatures/" if options.methods else ""
    joined = "in this command" if options.k is None else _JOINED[arguments.join]
    described = {
        "columns": (maps, "JSON lines, footers of Parquet files", "columns.arrow"),
        "fingerprint": (maps, documents, f"rows.parquet{signatures}, rejects/ if there are any"),
        "cluster": (joined, f"rows.parquet{signatures}", "labels.parquet"),
        "earlier": (
            "map tasks here, of whole files",
            "earlier documents in clusters with new ones",
            "earlier-….parquet",
        ),
        "resolve": (
            f"{maps}, {_reduce_keys(work, options, stages)}",
            f"{documents}, labels.parquet",
            "decisions/, clusters/",
        ),
        "keep": (maps, documents, f"documents/, fingerprints/{kept_signatures}"),
    }
    if options.against:
        described["resolve"] = (
            f"{maps} and one for each 16 MB of earlier texts, "
            f"{_reduce_keys(work, options, stages)}",
            f"{documents}, labels.parquet, earlier-….parquet",
            described["resolve"][2],
        )
    resumed = True
    for stage in stages_of(options):
        resumed = resumed and stages.is_done(stage)
        runs, reads, leaves = described[stage]
        yield f"{stage}: {'done, is not run again' if resumed else runs}"
        yield f"  reads   {reads}"
        yield f"  writes  {leaves}"
    yield "then report.html and summary.json are written, and OUT appears"


def _map_tasks(arguments: argparse.Namespace, work: DocumentInputs) -> int:
    """Return how many tasks read the documents; clusters have about so many for what they split."""
    from mr_dedup.engines.streaming.splits import split_bytes

    size = split_bytes(dict(text.split("=", 1) for text in arguments.properties or ()))
    of_lines = (item.lines_bytes for item in work.inputs)
    return sum(max(1, math.ceil(lines_bytes / size)) for lines_bytes in of_lines)


def _reduce_keys(work: DocumentInputs, options: DedupOptions, stages: Stages) -> str:
    """Return how many reduce keys there are: of the texts in clusters, if these are known."""
    from mr_dedup.jobs.resolve import reduce_keys_for
    from mr_dedup.pipeline.dedup_stages.resolve import known_reduce_keys

    if stages.is_done("fingerprint") and stages.is_done("cluster"):
        keys = known_reduce_keys(stages.folder)
        return counted(keys, "reduce key")
    if len(work.paths) < work.files or options.against:
        return "a reduce key for each 16 MB of texts in clusters"
    keys = reduce_keys_for(sum(path.stat().st_size for path in work.paths))
    return f"up to about {counted(keys, 'reduce key')}"


def _cores(arguments: argparse.Namespace) -> int:
    return core_count(arguments.cores)


def _megabytes(size: int) -> str:
    return f"{math.ceil(size / 1e6):,} MB"
