"""Print, for each query, the corpus fingerprints within k bits of it.

CORPUS are files, globs or directories of longs (.longs), text (.txt, .tsv) or packed (.fpz)
fingerprints, each also as .gz, .zst or .lz4, or of Parquet (.parquet) with a column 'fingerprint'.
A line a query that has near-duplicates:
query TAB near-duplicate TAB near-duplicate…, signed decimals, ascending, each once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import add_search_arguments, planned_for
from mr_dedup.cli.document_arguments import add_feature_arguments, add_reading_arguments
from mr_dedup.cli.fingerprint_inputs import (
    chunks_to_send,
    corpus_files,
    described,
    text_may_be_documents,
)
from mr_dedup.cli.on_cluster import (
    remote_inputs,
    settings_for,
    staged_files,
    with_output,
)
from mr_dedup.cli.query_documents import ResolvedSearch, with_fingerprints
from mr_dedup.cli.rejects import rejects_of, rejects_output
from mr_dedup.cli.remote_files import corpus_name, input_name, output_file
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import output, print_message
from mr_dedup.engines.resources import core_count
from mr_dedup.errors import FormatError
from mr_dedup.files.inputs import require_not_read
from mr_dedup.pipeline.identified_pairs import identified_lines
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from mr_dedup.engines.engine import JobOutput
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.fingerprint_chunks import FingerprintChunk, FingerprintPart
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.formats.longs import ByteOrder
    from mr_dedup.jobs.query import QueryJob

_MIN_CHUNK_PER_QUERY = 4
"""Fingerprints that a chunk has at least for each query: every task sorts and indexes these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument(
        "corpus", nargs="+", type=corpus_name, metavar="CORPUS", help="files, globs or directories"
    )
    parser.add_argument(
        "--queries", type=input_name, required=True, metavar="FILE", help="the queries"
    )
    add_search_arguments(parser)
    parser.add_argument("--with-distance", action="store_true", help="print near-duplicate:bits")
    parser.add_argument(
        "-o", "--out", type=output_file, metavar="OUT", help="write here, not to stdout"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--corpus-format", choices=FORMATS, help="if names do not show it")
    parser.add_argument("--queries-format", choices=FORMATS, help="if its name does not show it")
    parser.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )
    parser.add_argument(
        "--print-fingerprints", action="store_true", help="print these even where there are ids"
    )
    parser.add_argument(
        "--rejects", type=output_file, metavar="FILE",
        help="where records of documents go that cannot be read (default: OUT.rejects.jsonl)",
    )  # fmt: skip
    add_feature_arguments(parser)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "query")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.cli.engine import engine_of
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing

    started = time.perf_counter()
    settings = settings_for(arguments)
    if arguments.out:
        refuse_existing(arguments.out, arguments.overwrite)
    with (
        streaming.staging_folder() as staging,
        rejects_output(rejects_of(arguments), arguments.overwrite) as rejects,
        text_may_be_documents(arguments.corpus_format, arguments.queries_format),
    ):
        sides = with_fingerprints(arguments, staging, settings, rejects)
        if settings is None:
            work = _work_here(sides, staging)
        else:
            work = _work_on_cluster(sides, staging)
            settings = with_output(settings, arguments)
        runner = "memory" if arguments.runner == "auto" else arguments.runner
        engine = engine_of(runner, arguments, staging, settings)
        with engine.run(work.job, work.inputs) as found:
            with output(arguments) as out:
                out.writelines(_lines(found, work, sides))
            seconds = time.perf_counter() - started
            print_message(*sides.messages, *rejects.summary())
            _summarise(found.counters, work, seconds)
    return 0


def _lines(found: JobOutput, work: _Work, sides: ResolvedSearch) -> Iterator[bytes]:
    """Yield the result, with ids in place of fingerprints where a side has ids."""
    from mr_dedup.jobs.query import matches_of

    if not sides.have_ids:
        return (work.job.lines(table) for _, table in found)
    return identified_lines(
        (matches_of(table) for _, table in found),
        [work.queries_file],
        work.corpus,
        sides.arguments.with_distance,
    )


@dataclass(frozen=True)
class _Work:
    """What is run: a job with a task for each input, over so many files, for so many queries."""

    job: QueryJob
    inputs: Sequence[Input]
    corpus: Sequence[FingerprintFile]
    remote_files: int
    queries_file: FingerprintFile
    queries: int


def _work_here(sides: ResolvedSearch, staging: Path) -> _Work:
    """Prepare a run on this machine."""
    from mr_dedup.formats.fingerprint_chunks import FingerprintPart

    arguments = sides.arguments
    files, queries_file = _inputs(arguments, arguments.corpus, arguments.queries)
    parts = [FingerprintPart.whole(file) for file in files]
    queries = staging / "queries.longs"
    query_count = _stage_queries(queries_file, queries, arguments.byte_order)
    chunks = _chunks(parts, query_count, arguments.runner, arguments.cores)
    _check_work(max(chunk.size for chunk in chunks), query_count, arguments)
    inputs = described(chunks, staging)
    return _Work(_job(arguments, queries), inputs, files, 0, queries_file, query_count)


def _work_on_cluster(sides: ResolvedSearch, staging: Path) -> _Work:
    """Prepare a run on a cluster: its files as they are, those of this machine to be sent."""
    arguments = sides.arguments
    here = [name for name in arguments.corpus if not is_uri(name)]
    there = [name for name in arguments.corpus if is_uri(name)]
    files, queries_file = _inputs(arguments, here, arguments.queries)
    remote, sizes = remote_inputs(there, arguments, staging)
    queries = staging / "queries.longs"
    query_count = _stage_queries(queries_file, queries, arguments.byte_order)
    chunks = chunks_to_send(files, arguments.corpus_format)
    largest = max([*sizes, *(chunk.size for chunk in chunks)], default=0)
    _check_work(largest, query_count, arguments)
    inputs = [*staged_files(chunks, staging, arguments), *remote]
    job = _job(arguments, queries)
    return _Work(job, inputs, files, len(remote), queries_file, query_count)


def _inputs(
    arguments: argparse.Namespace, corpus: Sequence[str], queries: str
) -> tuple[list[FingerprintFile], FingerprintFile]:
    """Return the files of the corpus and that of the queries; refuse an output that is either."""
    from mr_dedup.formats.fingerprint_files import FingerprintFile

    files = corpus_files(corpus, arguments)
    queries_file = FingerprintFile.detect(
        queries, format=arguments.queries_format, byte_order=arguments.byte_order
    )
    require_not_read(arguments.out, (file.path for file in [queries_file, *files]))
    return files, queries_file


def _chunks(
    parts: Sequence[FingerprintPart], queries: int, runner: str, cores: int | None
) -> list[FingerprintChunk]:
    """Return chunks for tasks that keep the cores busy and are long enough to pay."""
    from mr_dedup.formats.fingerprint_chunks import CHUNK_FINGERPRINTS, chunk_size, cut_into_chunks

    if runner == "inline":
        return cut_into_chunks(parts, CHUNK_FINGERPRINTS)
    cores = core_count(cores)
    return cut_into_chunks(parts, chunk_size(parts, cores, min_size=_MIN_CHUNK_PER_QUERY * queries))


def _check_work(corpus: int, queries: int, arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for options that contradict each other, and for endless work.

    Without samples, so at once: each task plans by samples of what it reads, and refuses then.
    """
    planned_for(corpus, queries, arguments).refuse_explosion()


def _stage_queries(file: FingerprintFile, path: Path, byte_order: ByteOrder) -> int:
    """Write the queries to ``path`` as distinct longs, for every task; return how many there are.

    Tasks would otherwise each decompress or parse them, and sort them, anew.
    """
    from mr_dedup.formats.fingerprint_writer import create
    from mr_dedup.hamming.distinct import distinct

    queries = distinct(file.read())
    if queries.size == 0:
        raise FormatError(file.path, None, "contains no queries")
    with create(path, byte_order=byte_order) as out:
        out.write(queries)
    return out.count


def _job(arguments: argparse.Namespace, queries: Path) -> QueryJob:
    from mr_dedup.jobs.query import QueryJob

    return QueryJob(
        queries=str(queries),
        k=arguments.k,
        index=arguments.index,
        design=arguments.design,
        with_distance=arguments.with_distance,
        corpus_format=arguments.corpus_format,
        byte_order=arguments.byte_order,
        table_bytes=arguments.table_memory,
    )


def _summarise(counters: Mapping[str, int], work: _Work, seconds: float) -> None:
    files = f"files: {len(work.corpus) + work.remote_files:,}"
    queries = f"distinct queries: {work.queries:,}, k = {work.job.k}"
    if not counters:
        print_message(
            f"{files}, {queries}, in {seconds:.1f} s; the logs of the cluster, which have the "
            "counts, were not read"
        )
        return
    fingerprints = counters.get("fingerprints", 0)
    if fingerprints == 0:
        print_message("the corpus is empty")
    rate = fingerprints / seconds / 1e6
    print_message(
        f"{files}, fingerprints: {fingerprints:,}, {queries}, {_plans_used(counters)}",
        f"{counters.get('matches', 0):,} matches of "
        f"{counters.get('queries_matched', 0):,} queries in {seconds:.1f} s, "
        f"{rate:.1f} million fingerprints a second",
    )


def _plans_used(counters: Mapping[str, int]) -> str:
    """Return what the tasks searched with, and in how many chunks each if not all agreed."""
    from mr_dedup.jobs.query import chunks_by_plan

    used = {
        f"{design} over the {side}": chunks
        for (design, side), chunks in chunks_by_plan(counters).items()
    }
    if len(used) == 1:
        return next(iter(used))
    ranked = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{name} ({chunks:,} {'chunk' if chunks == 1 else 'chunks'})" for name, chunks in ranked
    )
