"""The plan of a de-duplication, as --dry-run prints it: nothing is run or written."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mr_dedup.cli.dedup_costs import cost_lines, stage_lines
from mr_dedup.cli.dedup_summary import few_words_lines
from mr_dedup.cli.document_arguments import read_options
from mr_dedup.cli.document_inputs import DocumentInputs
from mr_dedup.cli.engine import memory_bytes
from mr_dedup.cli.method_arguments import recall_lines
from mr_dedup.cli.runner_arguments import is_here
from mr_dedup.cli.streams import counted, printable
from mr_dedup.engines.resources import core_count
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.fetching import piece_bytes

if TYPE_CHECKING:
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.stages import Stages

_TASK_BYTES = 320_000_000
"""Memory of a task that reads documents: Python, its libraries, batches of 8 MB of text."""

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
    needs = _memory(arguments, work) if is_here(work.runner) else cost_lines(arguments, work)
    lines = [
        *_inputs(work, options),
        *_transfers(arguments, work),
        *_methods(options),
        *_short_texts(arguments, work, options),
        *_engine(arguments, work),
        *needs,
        *_outputs(arguments, folder),
        "",
        *stage_lines(work, options, stages),
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
        if is_here(work.runner):
            yield _LINE.format("scratch", f"up to {min(total, scratch):,} bytes")
    if isinstance(arguments.out, str):
        read = total + sum(path.stat().st_size for path in work.paths)
        writer = "this command" if is_here(work.runner) else "tasks"
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


def _memory(arguments: argparse.Namespace, work: DocumentInputs) -> Iterator[str]:
    if work.runner == "memory":
        size = min(_CACHED_FACTOR * work.content_bytes, memory_bytes(arguments))
        yield _LINE.format("memory", f"up to about {_megabytes(_TASK_BYTES + size)}")
        return
    tasks = 1 if work.runner == "inline" else min(_cores(arguments), len(work.inputs))
    yield _LINE.format(
        "memory",
        f"about {_megabytes(_TASK_BYTES)} a task, {_megabytes(tasks * _TASK_BYTES)} in all",
    )


def _outputs(arguments: argparse.Namespace, folder: ResultFolder) -> Iterator[str]:
    yield _LINE.format("result", f"{folder.name}{', replaced' if folder.exists() else ''}")
    unfinished = folder.has_unfinished() and not arguments.resume
    removed = "; the unfinished run there is removed" if unfinished else ""
    yield _LINE.format("until then", f"{folder.unfinished}{removed}")


def _cores(arguments: argparse.Namespace) -> int:
    return core_count(arguments.cores)


def _megabytes(size: int) -> str:
    return f"{math.ceil(size / 1e6):,} MB"
