"""Print, for each query, the corpus fingerprints within k bits of it.

CORPUS are files, globs or folders of longs (.longs), text (.txt, .tsv) or packed (.fpz)
fingerprints, each also as .gz or .zst, or of Parquet (.parquet) with a column 'fingerprint'.
A line a query that has near-duplicates:
query TAB near-duplicate TAB near-duplicate…, signed decimals, ascending, each once.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.cli.arguments import add_search_arguments, planned_for
from mr_dedup.cli.document_arguments import add_feature_arguments, add_reading_arguments
from mr_dedup.cli.fingerprint_inputs import (
    chunks_to_send,
    corpus_files,
    described,
    refuse_input_as_output,
)
from mr_dedup.cli.identified import identified_lines
from mr_dedup.cli.on_cluster import (
    cluster_settings,
    fetched,
    is_address,
    refuse_cluster_arguments,
    remote_inputs,
    staged_files,
    with_output,
)
from mr_dedup.cli.query_documents import Sides, with_fingerprints
from mr_dedup.cli.rejects import rejects_beside, rejects_output
from mr_dedup.cli.results import copy_ordered, output
from mr_dedup.cli.runner_arguments import add_runner_arguments

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings, Input, JobResult
    from mr_dedup.formats.fingerprint_chunks import FingerprintChunk, FingerprintPart
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.formats.longs import ByteOrder

SMALL = 1 << 20
"""Corpus fingerprints up to which one process is quicker than several."""

_CHUNK_A_QUERY = 4
"""Fingerprints a chunk should have for each query, which every task sorts and indexes anew."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument("corpus", nargs="+", metavar="CORPUS", help="files, globs or folders")
    parser.add_argument("--queries", required=True, metavar="FILE", help="the queries")
    add_search_arguments(parser)
    parser.add_argument("--with-distance", action="store_true", help="print near-duplicate:bits")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="write here, not to stdout")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--corpus-format", choices=FORMATS, help="if the names do not say")
    parser.add_argument("--queries-format", choices=FORMATS, help="if the name does not say")
    parser.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )
    parser.add_argument(
        "--print-fingerprints", action="store_true", help="print these even where there are ids"
    )
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE",
        help="where records of documents go that cannot be read (default: OUT.rejects.jsonl)",
    )  # fmt: skip
    add_feature_arguments(parser)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "query", "the corpus is")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.engines import streaming
    from mr_dedup.formats.outputs import refuse_existing
    from mr_dedup.jobs.query import QueryJob

    started = time.perf_counter()
    settings = None
    if arguments.runner in streaming.CLUSTER_RUNNERS:
        settings = cluster_settings(arguments)
    else:
        refuse_cluster_arguments(arguments, (*arguments.corpus, arguments.queries))
    if arguments.out:
        refuse_existing(arguments.out, arguments.overwrite)
    rejects_path = arguments.rejects or (rejects_beside(arguments.out) if arguments.out else None)
    with (
        streaming.staging_folder() as staging,
        rejects_output(rejects_path, arguments.overwrite) as rejects,
    ):
        sides = with_fingerprints(arguments, staging, settings, rejects)
        if settings is None:
            work = _work_here(sides, staging)
        else:
            work = _work_on_cluster(sides, staging, settings)
        if work.runner == "local":
            QueryJob.warm_up()
        with streaming.run(
            QueryJob, work.options, work.inputs, staging,
            runner=work.runner, cores=arguments.cores,
            cluster=None if settings is None else with_output(settings, arguments),
        ) as result:  # fmt: skip
            with output(arguments) as out:
                if sides.have_ids:
                    _write_identified(result, work, arguments.with_distance, out)
                else:
                    copy_ordered(result, out)
            seconds = time.perf_counter() - started
            for line in (*sides.said, *rejects.summary()):
                print(line, file=sys.stderr)
            _summarise(result.counters, work, arguments.k, seconds)
    return 0


@dataclass(frozen=True)
class _Work:
    """What is run: a task for each input, which hold so many files, for so many queries."""

    runner: str
    inputs: Sequence[Input]
    options: Sequence[str]
    corpus: Sequence[FingerprintFile]
    remote_files: int
    queries_file: FingerprintFile
    queries: int


def _work_here(sides: Sides, staging: Path) -> _Work:
    """Prepare a run on this machine."""
    from mr_dedup.formats.fingerprint_chunks import FingerprintPart

    arguments = sides.arguments
    files, queries_file = _inputs(arguments, arguments.corpus, arguments.queries)
    parts = [FingerprintPart.whole(file) for file in files]
    runner = _runner(arguments.runner, parts)
    queries = staging / "queries.longs"
    query_count = _stage_queries(queries_file, queries, arguments.byte_order)
    chunks = _chunks(parts, query_count, runner, arguments.cores)
    _check_work(max(chunk.size for chunk in chunks), query_count, arguments)
    options = _job_options(sides, queries)
    inputs = described(chunks, staging)
    return _Work(runner, inputs, options, files, 0, queries_file, query_count)


def _work_on_cluster(sides: Sides, staging: Path, settings: ClusterSettings) -> _Work:
    """Prepare a run on a cluster: its files as they are, those of this machine to be sent."""
    arguments = sides.arguments
    here = [name for name in arguments.corpus if not is_address(name)]
    there = [name for name in arguments.corpus if is_address(name)]
    queries_here = fetched(arguments.queries, staging, arguments.runner, settings)
    files, queries_file = _inputs(arguments, here, queries_here)
    remote, sizes = remote_inputs(there, arguments, settings)
    queries = staging / "queries.longs"
    query_count = _stage_queries(queries_file, queries, arguments.byte_order)
    chunks = chunks_to_send(files, arguments.corpus_format)
    largest = max([*sizes, *(chunk.size for chunk in chunks)], default=0)
    _check_work(largest, query_count, arguments)
    inputs = [*staged_files(chunks, staging, arguments), *remote]
    options = _job_options(sides, queries)
    if arguments.corpus_format:
        options += ["--corpus-format", arguments.corpus_format]
    return _Work(arguments.runner, inputs, options, files, len(remote), queries_file, query_count)


def _inputs(
    arguments: argparse.Namespace, corpus: Sequence[str], queries: str
) -> tuple[list[FingerprintFile], FingerprintFile]:
    """Return the files of the corpus and that of the queries; refuse an output that is either."""
    from mr_dedup.formats.fingerprint_files import FingerprintFile

    files = corpus_files(corpus, arguments)
    queries_file = FingerprintFile.detect(
        queries, format=arguments.queries_format, byte_order=arguments.byte_order
    )
    refuse_input_as_output(arguments.out, [queries_file, *files])
    return files, queries_file


def _runner(wanted: str, parts: Sequence[FingerprintPart]) -> str:
    if wanted != "auto":
        return wanted
    return "inline" if sum(part.cost for part in parts) <= SMALL else "local"


def _chunks(
    parts: Sequence[FingerprintPart], queries: int, runner: str, cores: int | None
) -> list[FingerprintChunk]:
    """Return chunks for tasks that keep the cores busy and are long enough to pay."""
    from mr_dedup.formats.fingerprint_chunks import CHUNK_FINGERPRINTS, chunk_size, cut_into_chunks

    if runner == "inline":
        return cut_into_chunks(parts, CHUNK_FINGERPRINTS)
    cores = cores or len(os.sched_getaffinity(0))
    return cut_into_chunks(parts, chunk_size(parts, cores, min_size=_CHUNK_A_QUERY * queries))


def _check_work(corpus: int, queries: int, arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for options that contradict each other, and for endless work.

    Without samples, so at once: each task plans by samples of what it reads, and refuses then.
    """
    planned_for(corpus, queries, arguments).refuse_explosion()


def _stage_queries(file: FingerprintFile, path: Path, byte_order: ByteOrder) -> int:
    """Write the queries to ``path`` as distinct longs, for every task; return how many there are.

    Tasks would otherwise each decompress or parse them, and sort them, anew.
    """
    from mr_dedup.errors import FormatError
    from mr_dedup.formats.fingerprint_writer import create
    from mr_dedup.hamming.distinct import distinct

    queries = distinct(file.read())
    if queries.size == 0:
        raise FormatError(file.path, None, "holds no queries")
    with create(path, byte_order=byte_order) as out:
        out.write(queries)
    return out.count


def _job_options(sides: Sides, queries: Path) -> list[str]:
    arguments = sides.arguments
    options = ["--queries", str(queries), "--byte-order", arguments.byte_order]
    options += ["-k", str(arguments.k), "--index", arguments.index, "--design", arguments.design]
    options += ["--table-bytes", str(arguments.table_memory)]
    # results with ids have distances put in afterwards
    in_job = arguments.with_distance and not sides.have_ids
    return [*options, "--with-distance"] if in_job else options


def _write_identified(result: JobResult, work: _Work, with_distance: bool, out: BinaryIO) -> None:
    """Write the result's lines with ids for fingerprints."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(part.open("rb")) for part in result.parts]
        lines = itertools.chain.from_iterable(files)
        out.writelines(identified_lines(lines, [work.queries_file], work.corpus, with_distance))


def _summarise(counters: dict[str, int], work: _Work, k: int, seconds: float) -> None:
    files = f"files: {len(work.corpus) + work.remote_files:,}"
    queries = f"distinct queries: {work.queries:,}, k = {k}"
    if not counters:
        print(
            f"mr-dedup: {files}, {queries}, in {seconds:.1f} s; the logs of the cluster, which "
            "have the counts, were not read",
            file=sys.stderr,
        )
        return
    fingerprints = counters.get("fingerprints", 0)
    if fingerprints == 0:
        print("mr-dedup: the corpus is empty", file=sys.stderr)
    rate = fingerprints / seconds / 1e6
    print(
        f"mr-dedup: {files}, fingerprints: {fingerprints:,}, {queries}, {_plans_used(counters)}\n"
        f"mr-dedup: {counters.get('matches', 0):,} matches of "
        f"{counters.get('queries matched', 0):,} queries in {seconds:.1f} s, "
        f"{rate:.1f} million fingerprints a second",
        file=sys.stderr,
    )


def _plans_used(counters: dict[str, int]) -> str:
    """Return what the tasks searched with, and in how many chunks each if not all agreed."""
    from mr_dedup.jobs.query import SEARCHED_WITH

    used = {
        name.removeprefix(SEARCHED_WITH): chunks
        for name, chunks in counters.items()
        if name.startswith(SEARCHED_WITH)
    }
    if len(used) == 1:
        return next(iter(used))
    ranked = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{name} ({chunks:,} {'chunk' if chunks == 1 else 'chunks'})" for name, chunks in ranked
    )
