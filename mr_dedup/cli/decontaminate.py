"""Find the documents that contain items of test sets, such as questions of benchmarks.

DOCS are JSON lines, Parquet, WARC, ARC, text or HTML, each but Parquet also as .gz, .zst or .lz4;
FILES of --evals are JSON lines or Parquet with a question, a passage or both in each record, and
perhaps an answer. OUT becomes a directory with matches/, where which item is in which document;
items/, in how many documents each is, or why it was not looked for; summary.json; report.html; and
rejects/ and rejected_items/, records that could not be read. matches/ and items/ contain tables in
Parquet files.

A document counts as contaminated if it has a question as a whole, but for punctuation and case, or
if the coverage of the question is at least --min-coverage: the share of its tokens, rare ones
weighing more, that the document has in their order. What other questions have too is not enough,
nor is a question of fewer than 8 tokens without its answer, or a passage without its question.
docs/methods/decontamination.md has the rules.

With --action drop OUT also has documents/, those that are not contaminated, and dropped/; with
--action cut all documents, without the texts of items that count, which are in cuts/: mr-dedup
restore puts them back.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.dedup_options import refuse_changed
from mr_dedup.cli.dedup_summary import check_result_rejected
from mr_dedup.cli.document_arguments import (
    OPTION_OF_PARAMETER,
    add_reading_arguments,
    read_options,
    reading_lines,
)
from mr_dedup.cli.evaluate import similarity_argument
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.remote_files import document_name, input_names, result_name
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
from mr_dedup.storage.uris import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.cli.document_inputs import DocumentInputs
    from mr_dedup.contamination.item_index import ItemIndex
    from mr_dedup.contamination.options import MatchOptions
    from mr_dedup.engines.inputs import ClusterSettings
    from mr_dedup.formats.benchmark_items import ItemOptions
    from mr_dedup.pipeline.decontamination import Findings, Searched
    from mr_dedup.pipeline.result_folder import ResultFolder

ACTIONS = ("report", "drop", "cut")

_OPTIONS = {
    "min_coverage": "--min-coverage",
    "with_answer": "--min-coverage-with-answer",
    "max_edits": "--max-edits",
    "min_tokens": "--min-tokens",
    "answer_window": "--answer-window",
    "question_names": "--question-field",
    "answer_names": "--answer-field",
    "passage_names": "--passage-field",
    "choices_names": "--choices-field",
    "id_names": "--item-id-field",
    "set_name": "--set-field",
}
"""Which option sets a parameter, for errors that name one."""

_RUN_OPTIONS = {
    "runner": "-r",
    "action": "--action",
    "documents": "--documents",
    "evals": "items of --evals",
    "reading.format": "--format",
    "reading.strict": "--strict",
    **{f"reading.{name}": option for name, option in OPTION_OF_PARAMETER.items()},
    **{f"matching.{name}": option for name, option in _OPTIONS.items()},
    "matching.passages": "--passages",
}
"""The options by which messages call what identifies a run."""


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
    add("--evals", nargs="+", action="extend", type=input_names, required=True, metavar="FILES",
        help="files, globs or directories of the items of test sets")  # fmt: skip
    add("-o", "--out", type=result_name, required=True, metavar="OUT", help="the directory to make")
    add("--action", choices=ACTIONS, default="report",
        help="report: find contaminated documents only; drop: write the others to OUT/documents; "
        "cut: write all there, with the items cut out (default report)")  # fmt: skip
    add("--documents", dest="kept_format", choices=("same", "jsonl", "parquet"), default="same",
        help="how these documents are written: same, in files with the names and "
        "formats of those that were read; jsonl or parquet, in parts (default same)")  # fmt: skip
    add_resume_arguments(parser)
    items = parser.add_argument_group("items")
    for name, of, default in (
        ("question", "its question", "question, problem, prompt, query"),
        ("answer", "its right answer, or a list of such; a number or a letter is one of its "
         "choices", "answer, answers, answerKey, target"),
        ("passage", "the text that the question is about", "passage, context"),
        ("choices", "a list of answers to choose from", "choices, options"),
        ("item-id", "its id", "id, doc_id"),
    ):  # fmt: skip
        items.add_argument(
            f"--{name}-field", action="append", metavar="NAME",
            help=f"the field of an item that is {of}; of several, the first with a value "
            f"(default: {default})",
        )  # fmt: skip
    items.add_argument(
        "--set-field", metavar="NAME",
        help="the field that names the set of an item (default: the name of the file is the set)",
    )  # fmt: skip
    group = parser.add_argument_group("what counts as contaminated")
    add = group.add_argument
    add("--min-coverage", type=similarity_argument, default=0.8, metavar="SHARE",
        help="the smallest coverage of a question or passage (default 0.8)")  # fmt: skip
    add("--min-coverage-with-answer", type=similarity_argument, default=0.7, metavar="SHARE",
        help="the same of a question whose answer follows (default 0.7)")  # fmt: skip
    add("--max-edits", type=float, default=0.3, metavar="SHARE",
        help="the most tokens that are deleted or changed, and runs of inserted ones, as a share "
        "of the tokens of the text (default 0.3; 0: only whole texts count)")  # fmt: skip
    add("--min-tokens", type=positive, default=5, metavar="N",
        help="do not look for questions and passages of fewer tokens (default 5)")  # fmt: skip
    add("--answer-window", type=int, default=50, metavar="N",
        help="an answer follows a question if it begins within so many tokens "
        "(default 50)")  # fmt: skip
    add("--passages", choices=("alone", "with-question", "ignore"), default="with-question",
        help="alone: a passage counts without its question; with-question: it does not; ignore: "
        "those of items with a question are not looked for (default with-question)")  # fmt: skip
    add_reading_arguments(parser)
    add_runner_arguments(parser, "decontaminate", reduces=False, leaves=False)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    started = time.perf_counter()
    settings = settings_for(arguments)
    options, item_options = match_options(arguments), item_options_of(arguments)
    if arguments.kept_format != "same" and arguments.action == "report":
        raise MrDedupError(f"--documents {arguments.kept_format}: needs --action drop or cut")
    read_options(arguments, keep_records=True)
    folder = result_folder(arguments)
    with folder.locked(print_warning):
        return _run_locked(arguments, options, item_options, folder, settings, started)


def match_options(arguments: argparse.Namespace) -> MatchOptions:
    """Return when a document counts as contaminated; MrDedupError for values out of range."""
    from mr_dedup.contamination.options import MatchOptions

    with _usage_errors():
        return MatchOptions(
            min_coverage=arguments.min_coverage,
            with_answer=min(arguments.min_coverage_with_answer, arguments.min_coverage),
            max_edits=arguments.max_edits,
            min_tokens=arguments.min_tokens,
            answer_window=arguments.answer_window,
            passages=arguments.passages,
        )


def item_options_of(arguments: argparse.Namespace) -> ItemOptions:
    """Return which fields of items are what; MrDedupError for invalid names."""
    from mr_dedup.formats.benchmark_items import ItemOptions

    given = {
        "question_names": arguments.question_field,
        "answer_names": arguments.answer_field,
        "passage_names": arguments.passage_field,
        "choices_names": arguments.choices_field,
        "id_names": arguments.item_id_field,
        "set_name": arguments.set_field,
    }
    with _usage_errors():
        return ItemOptions(**{name: value for name, value in given.items() if value is not None})


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise MrDedupError with the option that sets the parameter a ValueError names."""
    try:
        yield
    except ValueError as error:
        parameter, _, reason = str(error).partition(": ")
        raise MrDedupError(f"{_OPTIONS.get(parameter, parameter)}: {reason}") from error


def _run_locked(
    arguments: argparse.Namespace,
    options: MatchOptions,
    item_options: ItemOptions,
    folder: ResultFolder,
    settings: ClusterSettings | None,
    started: float,
) -> int:
    from mr_dedup.contamination.item_index import ItemIndex
    from mr_dedup.engines import streaming
    from mr_dedup.pipeline.decontamination import Searched, write_items_found

    if is_complete(arguments, folder):
        return 0
    open_result(arguments, folder, map(str, arguments.evals))
    items, rejected = _items(arguments, item_options)
    index = ItemIndex.build(items, options)
    _refuse_unjudged(arguments, index)
    if not arguments.resume:
        folder.discard()
    with streaming.staging_folder() as staging:
        work = prepared(arguments, folder, staging, settings)
        findings = _searched(arguments, work, folder, staging, settings, Searched(items, index))
    summary = {
        **findings.summary(arguments.action),
        "files_read": work.files,
        "skipped_files": work.skipped.total(),
        "skipped_files_by_ending": work.skipped_by_ending,
    }
    result = finished_result(folder, has_documents=arguments.action != "report")
    write_items_found(findings, rejected, result)
    _write_summaries(arguments, options, findings, summary, result)
    folder.publish()
    seconds = time.perf_counter() - started
    print_message(*_lines(work, summary, folder.name, seconds))
    check_result_rejected(arguments, folder)
    return 0


def _items(arguments: argparse.Namespace, options: ItemOptions) -> tuple[pa.Table, bytes]:
    """Return the items, and lines of JSON on rejected ones; MrDedupError if there are no items."""
    from mr_dedup.formats.benchmark_items import read_items
    from mr_dedup.formats.documents.files import find_documents
    from mr_dedup.formats.documents.rejects import Rejects

    lines = io.BytesIO()
    found = Rejects(lines)
    files = find_documents(arguments.evals, None, as_named).files
    items = read_items(files, options, found, strict=arguments.strict)
    if not len(items):
        why = f"; the first record, {found.listed[0]}" if found.listed else ""
        raise MrDedupError(f"--evals {_named(arguments)}: contains no items{why}")
    if found.count:
        how_many = counted(found.counts.rejected, "record")
        print_warning(f"--evals: {how_many} could not be read; the first, {found.listed[0]}")
        # whether these are too many is judged when the result is there
        arguments.read_counts.append((found.counts, arguments.max_rejected))
    return items, lines.getvalue()


def _named(arguments: argparse.Namespace) -> str:
    return as_named(", ".join(without_secrets(str(name)) for name in arguments.evals))


def _refuse_unjudged(arguments: argparse.Namespace, index: ItemIndex) -> None:
    """Raise MrDedupError if no item can be looked for."""
    if (index.reasons == 0).any():
        return
    raise MrDedupError(
        f"--evals {_named(arguments)}: no item has a question or passage of {arguments.min_tokens} "
        "tokens or more; see --question-field and --min-tokens"
    )


def _searched(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    folder: ResultFolder,
    staging: Path,
    settings: ClusterSettings | None,
    searched: Searched,
) -> Findings:
    """Search documents for items, or those that an interrupted run has not searched."""
    import msgspec
    import xxhash

    from mr_dedup.cli.dedup_jobs import DocumentJobs
    from mr_dedup.formats.table_bytes import to_bytes
    from mr_dedup.pipeline.decontamination import DecontaminationOptions, find_items
    from mr_dedup.pipeline.stages import Stages

    options = DecontaminationOptions(
        action=arguments.action,
        documents=arguments.kept_format,
        reading=read_options(arguments),
        format=arguments.format,
    )
    run = {
        **run_of("decontaminate", work, folder, options.reading, options.format),
        "action": options.action,
        "documents": options.documents,
        "matching": msgspec.to_builtins(searched.index.options),
        "evals": xxhash.xxh3_128_hexdigest(to_bytes(searched.items)),
    }
    stages = Stages(
        folder.work, run, resume=arguments.resume, called=_RUN_OPTIONS, recorded=folder.record
    )
    with resumable(folder), DocumentJobs(arguments, work, staging, settings) as jobs:
        found = find_items(
            stages, options, jobs.sharded_run(folder, at_address=True), searched, staging
        )
        refuse_changed(arguments, work, run)
    return found


def _write_summaries(
    arguments: argparse.Namespace,
    options: MatchOptions,
    findings: Findings,
    summary: dict[str, Any],
    result: Path,
) -> None:
    """Write the report and the summary."""
    import msgspec

    from mr_dedup import __version__
    from mr_dedup.files.outputs import whole_file
    from mr_dedup.pipeline.summary import FORMAT_VERSION, Reading
    from mr_dedup.report.decontamination import Contamination, write_contamination_report

    named = {
        "documents": as_named(", ".join(map(without_secrets, arguments.documents))),
        "evals": _named(arguments),
    }
    shown = Contamination(named, summary, options, list(findings.shown()))
    with whole_file(result / "report.html", overwrite=True) as file:
        write_contamination_report(file, shown)
    content = {
        "version": __version__,
        "action": arguments.action,
        **named,
        "options": msgspec.to_builtins(options),
        **summary,
        "format_version": FORMAT_VERSION,
        "reading": msgspec.to_builtins(Reading.of(read_options(arguments), arguments.format)),
    }
    with whole_file(result / "summary.json", overwrite=True) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def _lines(
    work: DocumentInputs, summary: dict[str, Any], out: str, seconds: float
) -> Iterator[str]:
    """Yield lines for the user on a run that took so many seconds."""
    read, contaminated = summary["documents_read"], summary["documents_contaminated"]
    yield from reading_lines(work.described, summary, summary["text_bytes"])
    unjudged = {name: count for name, count in summary["items_not_judged"].items() if count}
    reasons = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in unjudged.items())
    yield (
        f"items: {summary['items']:,} in {counted(len(summary['sets']), 'set')}"
        f"{f' ({reasons})' if reasons else ''}; {summary['items_found']:,} found in documents"
    )
    if summary["documents_searched_in_part"]:
        yield (
            f"of {counted(summary['documents_searched_in_part'], 'document')} not all parts of "
            "items were compared, as they have too many; whole items were looked for in all"
        )
    share = f" ({100 * contaminated / read:.2f} %)" if read else ""
    said = f"contaminated: {contaminated:,}{share}"
    if "documents_kept" in summary:
        said += f", kept: {summary['documents_kept']:,}"
    if "documents_cut" in summary:
        said += f", cut: {summary['documents_cut']:,}"
    yield f"{said}, in {seconds:.1f} s: {out}"
