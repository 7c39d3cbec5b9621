"""De-duplicate documents: keep one of each cluster of near-duplicates.

DOCS are JSON lines, Parquet, WARC, ARC, text or HTML, each but Parquet also as .gz, .zst or .lz4.
OUT becomes a directory with documents/, the kept ones in their format, or that of --documents, and
with all their fields; decisions/, why each document was kept or dropped, and which kept document it
duplicates; clusters/; fingerprints/ of the kept ones; summary.json; report.html; and rejects/,
records that could not be read. But for documents/ the directories contain tables in Parquet files
part-00000.parquet, part-00001.parquet, …, and rejects/ lines of JSON.

A method finds candidates: pairs of documents that share a band of min-wise hashes of their shingles
(minhash), whose fingerprints are within k bits (simhash), and others. Documents that candidate
pairs connect are a cluster. --keep chooses which document of a cluster is kept first; another one
is dropped only if the similarity of its text and a kept one is at least --verify.

With --against DIR, the OUT of an earlier run, the documents kept there stay kept, and a document of
DOCS that duplicates one of them is dropped. --dry-run prints what would be done.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.dedup_options import (
    LATER,
    RUN_OPTIONS,
    dedup_options,
    refuse_changed,
    refuse_unwritable_counts,
    run_identity,
)
from mr_dedup.cli.dedup_summary import (
    check_result_rejected,
    summary_lines,
    warning_lines,
    write_summaries,
)
from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    read_options,
)
from mr_dedup.cli.document_inputs import DocumentInputs
from mr_dedup.cli.method_arguments import (
    AUTO_SHINGLES,
    DEFAULT_VERIFY,
    SIMHASH_FEATURES,
    chosen_methods,
    criterion_of,
    verify_argument,
)
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.remote_files import document_name, input_name, result_name
from mr_dedup.cli.result_inputs import prepared, result_folder
from mr_dedup.cli.resumable_results import is_complete, open_result, resumable
from mr_dedup.cli.runner_arguments import add_runner_arguments, is_here
from mr_dedup.cli.streams import print_message, print_warning
from mr_dedup.errors import MrDedupError, suggestion

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.summary import StageSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add(
        "documents",
        nargs="+",
        type=document_name,
        metavar="DOCS",
        help="files, globs or directories of documents; - for lines of JSON from standard input",
    )
    add("-o", "--out", type=result_name, required=True, metavar="OUT", help="the directory to make")
    add("--method", action="append", metavar="NAME[:PARAMETER=VALUE,…]",
        help="how candidates are found, before their texts are compared: minhash, simhash, "
        "super-shingles, segments, winnowing, text-profile, keywords, abstract or exact, with "
        "parameters as in minhash:bands=16,rows=5 or simhash:k=7; several methods may be given "
        "(default minhash, with --verify contained winnowing)")  # fmt: skip
    add("-k", type=int, metavar="K",
        help="of simhash: the largest Hamming distance (default 10)")  # fmt: skip
    add("--keyword-idf", type=input_name, metavar="FILE",
        help="of keywords: in how many documents each word occurs, as mr-dedup idf "
        "writes it")  # fmt: skip
    add("--keep", action="append", metavar="POLICY",
        help="which document of a cluster to keep: first, longest, shortest, newest:FIELD, "
        "oldest:FIELD, highest:FIELD, lowest:FIELD, rank:FIELD=VALUE,…, also called prefer, where "
        "* stands for all other values; given several times, the next ones decide between equals "
        "(default first)")  # fmt: skip
    add("--keep-per-cluster", type=positive, default=1, metavar="N",
        help="keep the first N documents, in the order of --keep, of each group of duplicates: a "
        "kept document and those that would be dropped for it (default 1)")  # fmt: skip
    add("--sample", metavar="weight[:POWER]",
        help="keep a sample of each group of duplicates beside the first: of n documents about "
        "n^POWER, a power from 0 to 1 (default 0.5)")  # fmt: skip
    add("--sample-seed", type=seed_argument, default=0, metavar="SEED",
        help="choose another sample: a number from 0 to 2^64 - 1 (default 0)")  # fmt: skip
    add("--verify", type=verify_argument, default=DEFAULT_VERIFY, metavar="J",
        help="drop a document only if the shingles of its text have at least this Jaccard "
        "similarity to a kept one's; minhash has the bands that find such pairs, from 0.5 up; "
        "contained:C: drop it only if at least this share of its shingles are in a kept one's, "
        "which has as many or more, as in contained:0.9; off: texts are not compared, and one "
        "document of each cluster is kept, of clusters of over "
        "64 MB one of each part (default 0.8)")  # fmt: skip
    add("--shingles", default=AUTO_SHINGLES, metavar="words:N|characters:N|auto",
        help="what texts are compared by (default auto: 3 words, or 5 characters of "
        "Chinese, Japanese, Thai or another script without spaces)")  # fmt: skip
    add("--against", action="append", default=[], metavar="DIR",
        help="the OUT of an earlier run: drop new documents that duplicate a document kept there; "
        "earlier documents are never dropped; may be repeated")  # fmt: skip
    add("--follow", action="store_true",
        help="also compare with the results that each DIR was compared with, recursively"
        )  # fmt: skip
    add("--documents", dest="kept_format", choices=("same", "jsonl", "parquet"), default="same",
        help="how kept documents are written: same, in files with the names and formats of those "
        "that were read; jsonl, in parts of JSON lines, with all members and columns, of WARC, "
        "text and HTML with id and text; parquet, in parts with these as columns (default same)"
        )  # fmt: skip
    add("--share-by", action="append", default=[], metavar="FIELD",
        help="count near-duplicates by the values of this field in the report")  # fmt: skip
    add("--seen", metavar="FIELD",
        help="report when each kept document and its duplicates were seen first and last, by this "
        "field with dates or numbers, such as that of the crawl")  # fmt: skip
    add("--add-counts", action="store_true",
        help="add to the records of kept documents how many duplicates were dropped: duplicates, "
        "duplicates_total and, with --seen, first_seen and last_seen")  # fmt: skip
    add("--dry-run", action="store_true", help="print what would be done, and do nothing")
    add("--price", type=price_argument, metavar="DOLLARS",
        help="with --dry-run and -r spark or hadoop: print what the run costs at this price of a "
        "core-hour")  # fmt: skip
    add("--resume", action="store_true", help="resume an interrupted run")
    add("--overwrite", action="store_true", help="replace OUT, and discard an unfinished run")
    # pairs of words at 10 bits found more than single words at 7, as fast (docs/quality.md); and
    # single words join a million pages by chance
    add_feature_arguments(
        parser, features=SIMHASH_FEATURES, of="of --method simhash; ", compares=True
    )
    parser.set_defaults(features=None, weights=None)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "dedup", leaves=False)


def price_argument(text: str) -> float:
    """Return a price in dollars; ArgumentTypeError for what is none."""
    with contextlib.suppress(ValueError):
        price = float(text)
        if 0 <= price < math.inf:
            return price
    raise argparse.ArgumentTypeError(f"expected a price in dollars, got {text!r}")


def seed_argument(text: str) -> int:
    """Return the seed of a sample; ArgumentTypeError for what is none."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 1 << 64:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 2^64 - 1, got {text!r}")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    started = time.perf_counter()

    chosen = chosen_methods(arguments, criterion_of(arguments.verify))
    settings = settings_for(arguments)
    if arguments.price is not None and (not arguments.dry_run or is_here(arguments.runner)):
        raise MrDedupError("--price: needs --dry-run, and -r spark or -r hadoop")
    options = dedup_options(arguments, *chosen)
    folder = result_folder(arguments)
    # a dry run needs no lock
    with contextlib.nullcontext() if arguments.dry_run else folder.locked(print_warning):
        return _run_locked(arguments, options, folder, settings, started)


def _run_locked(
    arguments: argparse.Namespace,
    options: DedupOptions,
    folder: ResultFolder,
    settings: ClusterSettings | None,
    started: float,
) -> int:
    from mr_dedup.cli.dedup_jobs import DocumentJobs
    from mr_dedup.clusters.keep_policy import FieldError
    from mr_dedup.engines import streaming
    from mr_dedup.pipeline.dedup import dedup
    from mr_dedup.pipeline.stages import Stages

    if is_complete(arguments, folder, end=not arguments.dry_run):
        return 0
    open_result(arguments, folder, [str(result.name) for result in options.against])
    if arguments.dry_run:
        from mr_dedup.cli.dedup_plan import print_plan

        work = prepared(arguments, folder, None, settings)
        refuse_unwritable_counts(work, options)
        options = dataclasses.replace(options, names_below=work.names_below)
        run = run_identity(arguments, work, options, folder)
        stages = Stages(
            folder.work, run, resume=arguments.resume, dry_run=True, called=RUN_OPTIONS, later=LATER
        )
        print_plan(arguments, work, options, stages, folder)
        return 0
    if not arguments.resume:
        folder.discard()
    with streaming.staging_folder() as staging:
        work = prepared(arguments, folder, staging, settings)
        refuse_unwritable_counts(work, options)
        options = dataclasses.replace(options, names_below=work.names_below)
        run = run_identity(arguments, work, options, folder)
        stages = Stages(
            folder.work, run, resume=arguments.resume, called=RUN_OPTIONS, later=LATER,
            recorded=folder.record,
        )  # fmt: skip
        with (
            _fields_named(arguments, work),
            resumable(folder, FieldError),
            DocumentJobs(arguments, work, staging, settings) as jobs,
        ):
            earlier = [file for each in options.against for file in each.document_files()]
            made = dedup(stages, options, jobs.sharded_run(folder, earlier))
            refuse_changed(arguments, work, run)
    summary = made.summary
    warnings = write_summaries(folder.work, made, work, arguments, options, run)
    folder.publish()
    seconds = time.perf_counter() - started
    print_message(*summary_lines(summary, work, options, folder.name, seconds))
    _warn_of_fields(arguments, work, summary)
    for line in warning_lines(warnings, summary, options):
        print_warning(line)
    check_result_rejected(arguments, folder)
    return 0


@contextlib.contextmanager
def _fields_named(arguments: argparse.Namespace, work: DocumentInputs) -> Iterator[None]:
    """Raise errors of fields with the option that names the field, and the fields that exist."""
    from mr_dedup.clusters.keep_policy import FieldError, MissingFieldError

    try:
        yield
    except FieldError as error:
        there = ""
        if isinstance(error, MissingFieldError):
            there = _fields_that_exist(arguments, work, error.field)
        raise MrDedupError(f"{error.option}: {error}{there}") from error


def _fields_that_exist(arguments: argparse.Namespace, work: DocumentInputs, missing: str) -> str:
    """Return the fields of the first document, as the end of a message; "" if they are unknown.

    The one that is most like the ``missing`` field is suggested.
    """
    from mr_dedup.formats.documents.field_names import field_names
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.formats.documents.rejects import listed_names

    names: list[str] = []
    if work.paths:
        with contextlib.suppress(MrDedupError):
            file = DocumentFile.detect(work.paths[0], format=arguments.format)
            names = field_names(file, read_options(arguments))
    if not names:
        return ""
    return f"; the first has {listed_names(names)}{suggestion(missing, names)}"


def _warn_of_fields(
    arguments: argparse.Namespace, work: DocumentInputs, summary: StageSummary
) -> None:
    for step, count in summary.get("documents_unordered", {}).items():
        kind, _, field = step.partition(":")
        value = "time" if kind in ("newest", "oldest") else "number"
        print_warning(
            f"--keep {step}: {field} is not a {value} that can be read in {count:,} of "
            f"{summary['documents_read']:,} documents, which come last"
        )
    if summary.get("documents_without_id") == summary["documents_read"] > 0:
        fields = " or ".join(arguments.id_field)
        there = _fields_that_exist(arguments, work, arguments.id_field[0])
        print_warning(f"no record has the field {fields}; ids are positions{there}")
