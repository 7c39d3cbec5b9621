"""Print, for each query, the corpus fingerprints within k bits of it.

CORPUS are files, globs or folders of longs (.longs), text (.txt, .tsv) or packed (.fpz)
fingerprints, each also as .gz or .zst. A line a query that has near-duplicates:
query TAB near-duplicate TAB near-duplicate…, signed decimals, ascending, each once.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import mmap
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.cli.arguments import add_search_arguments, chosen, positive

if TYPE_CHECKING:
    from mr_dedup.formats.chunks import Chunk
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.hamming.planner import Plan
    from mr_dedup.runners import JobResult

HELP = "find the near-duplicates of queries in a corpus of fingerprints"

SMALL = 1 << 20
"""Corpus fingerprints up to which one process is quicker than several."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument("corpus", nargs="+", metavar="CORPUS", help="files, globs or folders")
    parser.add_argument("--queries", required=True, metavar="FILE", help="the query fingerprints")
    add_search_arguments(parser)
    parser.add_argument("--with-distance", action="store_true", help="print near-duplicate:bits")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="write here, not to stdout")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "-r",
        "--runner",
        choices=["auto", "inline", "local"],
        default="auto",
        help="inline: one process; local: all cores (default: local unless the corpus is small)",
    )
    parser.add_argument(
        "--cores", type=positive, metavar="N", help="tasks at a time (default: as many as cores)"
    )
    parser.add_argument("--corpus-format", choices=FORMATS, help="if the names do not say")
    parser.add_argument("--queries-format", choices=FORMATS, help="if the name does not say")
    parser.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup import runners
    from mr_dedup.formats.chunks import cut_into_chunks
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.formats.inputs import expand
    from mr_dedup.formats.outputs import refuse_existing, whole_file
    from mr_dedup.jobs.query import QueryJob

    started = time.perf_counter()
    if arguments.out:
        refuse_existing(arguments.out, arguments.overwrite)
    files = [
        FingerprintFile.detect(
            path, format=arguments.corpus_format, byte_order=arguments.byte_order
        )
        for path in expand(arguments.corpus)
    ]
    queries = FingerprintFile.detect(
        Path(arguments.queries), format=arguments.queries_format, byte_order=arguments.byte_order
    )
    chunks = [chunk for file in files for chunk in cut_into_chunks(file)]
    plan = _planned(chunks, queries, arguments)
    runner = arguments.runner
    if runner == "auto":
        total = sum(chunk.approximate_size() for chunk in chunks)
        runner = "inline" if total <= SMALL else "local"
    with runners.staging_folder() as staging:
        inputs = _staged(chunks, staging)
        options = _job_options(arguments, _linked(queries, staging), queries.format)
        if runner == "local":
            QueryJob.warm_up()
        with runners.run(
            QueryJob, options, inputs, staging, runner=runner, cores=arguments.cores
        ) as result:
            if arguments.out:
                with whole_file(arguments.out, arguments.overwrite) as out:
                    _copy_ordered(result, out)
            else:
                _copy_ordered(result, sys.stdout.buffer)
            _summarise(plan, result, time.perf_counter() - started)
    return 0


def _planned(
    chunks: Sequence[Chunk], queries: FingerprintFile, arguments: argparse.Namespace
) -> Plan:
    """Return the plan of the task with the largest chunk, having checked queries and work."""
    from mr_dedup.errors import FormatError, MrDedupError
    from mr_dedup.hamming.distinct import distinct
    from mr_dedup.hamming.planner import SAMPLE_SIZE, plan, spread_sample

    wanted = distinct(queries.read())
    if wanted.size == 0:
        raise FormatError(queries.path, None, "holds no queries")
    largest = max(chunks, key=lambda chunk: chunk.approximate_size())
    try:
        planned = plan(
            largest.approximate_size(),
            wanted.size,
            arguments.k,
            index=chosen(arguments.index),
            design=chosen(arguments.design),
            memory_bytes=arguments.table_memory,
            corpus_sample=largest.sample(SAMPLE_SIZE),
            query_sample=spread_sample(wanted),
        )
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    planned.refuse_explosion()
    return planned


def _linked(queries: FingerprintFile, staging: Path) -> Path:
    """Return a link to the queries under a name that mrjob's own option syntax cannot misread."""
    ending = {None: "", "gzip": ".gz", "zstd": ".zst"}[queries.compression]
    link = staging / f"queries{ending}"
    link.symlink_to(queries.path.resolve())
    return link


def _staged(chunks: Sequence[Chunk], staging: Path) -> list[Path]:
    from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX

    inputs = []
    for number, chunk in enumerate(chunks):
        path = staging / f"{number:06}{DESCRIPTION_SUFFIX}"
        path.write_text(chunk.describe())
        inputs.append(path)
    return inputs


def _job_options(arguments: argparse.Namespace, queries: Path, queries_format: str) -> list[str]:
    options = ["--queries", str(queries), "--queries-format", queries_format]
    options += ["-k", str(arguments.k), "--byte-order", arguments.byte_order]
    options += ["--index", arguments.index, "--design", arguments.design]
    options += ["--table-bytes", str(arguments.table_memory)]
    return [*options, "--with-distance"] if arguments.with_distance else options


def _copy_ordered(result: JobResult, out: BinaryIO) -> None:
    """Copy the result's lines, ascending by query; its files are ascending each by itself.

    An engine that gives a reducer ranges of keys leaves them ascending as a whole: then this is
    a copy. One that deals keys out by hash does not: then it is a merge, a line at a time.
    """
    parts = [part for part in result.parts if part.stat().st_size]
    ends = [_end_queries(part) for part in parts]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(part.open("rb")) for part in parts]
        if all(before[1] < after[0] for before, after in pairwise(ends)):
            for file in files:
                shutil.copyfileobj(file, out, 1 << 20)
        else:
            out.writelines(heapq.merge(*files, key=_query_of))


def _query_of(line: bytes) -> int:
    return int(line[: line.index(b"\t")])


def _end_queries(part: Path) -> tuple[int, int]:
    """Return the first and the last query of a file of result lines."""
    with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
        last = lines.rfind(b"\n", 0, len(lines) - 1) + 1
        return _query_of(lines[: lines.find(b"\n")]), _query_of(lines[last:])


def _summarise(plan: Plan, result: JobResult, seconds: float) -> None:
    counters = result.counters
    fingerprints = counters.get("fingerprints", 0)
    if fingerprints == 0:
        print("mr-dedup: the corpus is empty", file=sys.stderr)
    rate = fingerprints / seconds / 1e6
    print(
        f"mr-dedup: chunks: {counters.get('chunks', 0):,}, fingerprints: {fingerprints:,}, "
        f"distinct queries: {plan.query_size:,}, k = {plan.k}, {plan.chosen.design.name} over the "
        f"{plan.chosen.index}\n"
        f"mr-dedup: {counters.get('matches', 0):,} matches of "
        f"{counters.get('queries matched', 0):,} queries in {seconds:.1f} s, "
        f"{rate:.1f} million fingerprints a second",
        file=sys.stderr,
    )
