"""Find passages that several documents have, and cut them out.

DOCS are JSON lines, Parquet, WARC, ARC, text or HTML, each but Parquet also as .gz, .zst or .lz4. A
passage is a run of words: windows of --unit tokens:N, N words in a row, each of which at least
--min-documents documents have, joined where they overlap or touch; or a line or paragraph that as
many documents have. Words are compared as they are by fingerprints: normalised and case-folded,
without what is between them. All are found, exactly.

OUT becomes a directory with passages/, a row for each; occurrences/, where in which document;
summary.json; and rejects/, records that could not be read. With --cut it has documents/ as well,
the documents without their passages, and cuts/, what was removed: mr-dedup restore puts it back.
With all-but-first the first occurrence of each window stays. No cut divides a word.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.dedup_options import refuse_changed
from mr_dedup.cli.dedup_summary import check_result_rejected
from mr_dedup.cli.document_arguments import (
    OPTION_OF_PARAMETER,
    add_normalize_argument,
    add_reading_arguments,
    read_options,
    reading_lines,
)
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.remote_files import document_name, result_name
from mr_dedup.cli.result_inputs import prepared, result_folder
from mr_dedup.cli.resumable_results import (
    add_resume_arguments,
    finished_result,
    is_complete,
    open_result,
    resumable,
    run_of,
)
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import counted, print_message, print_warning
from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mr_dedup.cli.document_inputs import DocumentInputs
    from mr_dedup.engines.streaming import ClusterSettings
    from mr_dedup.pipeline.passages import PassageRunOptions
    from mr_dedup.pipeline.result_folder import ResultFolder

CUTS = ("none", "all", "all-but-first")
BOUNDARIES = ("words", "sentences")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("documents", nargs="+", type=document_name, metavar="DOCS",
        help="files, globs or directories of documents; - for lines of JSON from standard input"
        )  # fmt: skip
    add("-o", "--out", type=result_name, required=True, metavar="OUT", help="the directory to make")
    add("--unit", default="tokens:50", metavar="tokens:N|lines|paragraphs",
        help="what is counted: windows of N words, or of characters of Chinese, Japanese, Thai and "
        "other scripts without spaces; lines; or paragraphs, between empty lines (default "
        "tokens:50)")  # fmt: skip
    add("--min-documents", type=positive, default=2, metavar="M",
        help="how many documents have a passage at least (default 2)")  # fmt: skip
    add("--min-tokens", type=positive, default=1, metavar="N",
        help="of lines and paragraphs: skip those of fewer words (default 1)")  # fmt: skip
    add("--per", metavar="host|FIELD",
        help="count documents of one host, by their ids that are URLs, or of one value of FIELD "
        "only together: boilerplate (default: all documents)")  # fmt: skip
    add("--cut", choices=CUTS, default="none",
        help="write the documents without passages: without all of them, or without all but the "
        "first occurrence of each (default none: write no documents)")  # fmt: skip
    add("--boundaries", choices=BOUNDARIES, default="words",
        help="cut whole words, or only whole sentences of a passage (default words)")  # fmt: skip
    add_normalize_argument(parser)
    add_resume_arguments(parser)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "passages", leaves=False)


_OPTIONS = {
    **OPTION_OF_PARAMETER,
    "unit": "--unit",
    "size": "--unit",
    "min_tokens": "--min-tokens",
    "min_documents": "--min-documents",
}
"""Which option sets a parameter, for errors that name one."""

_RUN_OPTIONS = {
    "runner": "-r",
    "unit": "--unit",
    "min_tokens": "--min-tokens",
    "normalize": "--normalize",
    "min_documents": "--min-documents",
    "per": "--per",
    "cut": "--cut",
    "boundaries": "--boundaries",
    "reading.format": "--format",
    "reading.strict": "--strict",
    **{f"reading.{name}": option for name, option in OPTION_OF_PARAMETER.items()},
}
"""The options by which messages call what identifies a run."""


def run_options(arguments: argparse.Namespace) -> PassageRunOptions:
    """Return the options of the run; raises MrDedupError for invalid ones."""
    from mr_dedup.passages.options import PassageOptions
    from mr_dedup.pipeline.passages import PassageRunOptions

    per = arguments.per
    reading = read_options(arguments)
    if per not in (None, "host"):
        try:
            read_options(arguments, [per])
        except MrDedupError as error:
            raise MrDedupError(f"--per: {error}") from error
    try:
        passages = PassageOptions.parse(arguments.unit, arguments.min_tokens, arguments.normalize)
        return PassageRunOptions(
            passages=passages,
            min_documents=arguments.min_documents,
            per=per,
            cut=arguments.cut,
            boundaries=arguments.boundaries,
            reading=reading,
            format=arguments.format,
        )
    except ValueError as error:
        parameter, colon, reason = str(error).partition(": ")
        raise MrDedupError(f"{_OPTIONS.get(parameter, parameter)}{colon}{reason}") from error


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    started = time.perf_counter()
    settings = settings_for(arguments)
    options = run_options(arguments)
    folder = result_folder(arguments)
    with folder.locked(print_warning):
        return _run_locked(arguments, options, folder, settings, started)


def _run_locked(
    arguments: argparse.Namespace,
    options: PassageRunOptions,
    folder: ResultFolder,
    settings: ClusterSettings | None,
    started: float,
) -> int:
    from mr_dedup.cli.dedup_jobs import DocumentJobs
    from mr_dedup.engines import streaming
    from mr_dedup.pipeline.passages import NoGroupError, find_passages
    from mr_dedup.pipeline.stages import Stages

    if is_complete(arguments, folder):
        return 0
    open_result(arguments, folder)
    if not arguments.resume:
        folder.discard()
    with streaming.staging_folder() as staging:
        work = prepared(arguments, folder, staging, settings)
        run = run_of("passages", work, folder, options.reading, options.format)
        run |= described_options(options)
        stages = Stages(
            folder.work, run, resume=arguments.resume, called=_RUN_OPTIONS, recorded=folder.record
        )
        with (
            resumable(folder, NoGroupError),
            DocumentJobs(arguments, work, staging, settings) as jobs,
        ):
            counts = find_passages(stages, options, jobs.sharded_run(folder), work.content_bytes)
            refuse_changed(arguments, work, run)
    result = finished_result(folder, has_documents=options.cut != "none")
    _write_summary(result, counts, work, options)
    folder.publish()
    print_message(*_lines(counts, work, options, folder.name, time.perf_counter() - started))
    check_result_rejected(arguments, folder)
    return 0


def described_options(options: PassageRunOptions) -> dict[str, Any]:
    """Return the options that decide what a result has, by the names of the command."""
    return {
        "unit": options.passages.name,
        "min_tokens": options.passages.min_tokens,
        "normalize": options.passages.normalize,
        "min_documents": options.min_documents,
        "per": options.per,
        "cut": options.cut,
        "boundaries": options.boundaries,
    }


def _write_summary(
    result: Path, counts: Mapping[str, Any], work: DocumentInputs, options: PassageRunOptions
) -> None:
    import msgspec

    from mr_dedup.files.outputs import whole_file
    from mr_dedup.pipeline.results import SUMMARY
    from mr_dedup.pipeline.summary import FORMAT_VERSION, Reading

    summary = {
        **counts,
        "files_read": work.files,
        "skipped_files": work.skipped.total(),
        "skipped_files_by_ending": work.skipped_by_ending,
        **described_options(options),
        "format_version": FORMAT_VERSION,
        "reading": msgspec.to_builtins(Reading.of(options.reading, options.format)),
    }
    with whole_file(result / SUMMARY, overwrite=True) as file:
        file.write(json.dumps(summary, indent=1).encode() + b"\n")


def _lines(
    counts: Mapping[str, Any],
    work: DocumentInputs,
    options: PassageRunOptions,
    out: str,
    seconds: float,
) -> Iterator[str]:
    """Yield lines for the user on a run that took so many seconds."""
    yield from reading_lines(work.described, counts)
    if counts["documents_without_group"]:
        yield f"documents without --per {options.per}: {counts['documents_without_group']:,}"
    tokens = counts["tokens"]
    share = 100 * counts["tokens_in_passages"] / tokens if tokens else 0.0
    yield (
        f"passages: {counts['passages']:,}, occurrences: {counts['occurrences']:,}, in "
        f"{counted(counts['documents_with_passages'], 'document')}, {share:.1f} % of the words"
    )
    if options.cut != "none":
        empty = counts["documents_left_without_words"]
        left = f"; {empty:,} of them have no words left" if empty else ""
        yield (
            f"cut: {counts['cut_bytes'] / 1e6:,.1f} MB of {counts['text_bytes'] / 1e6:,.1f} MB, in "
            f"{counted(counts['documents_cut'], 'document')}{left}"
        )
    yield f"took {seconds:.1f} s: {out}"
