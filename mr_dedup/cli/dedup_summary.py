"""What a de-duplication reports at its end: report.html, summary.json, lines for the user."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mr_dedup.cli.dedup_options import result_id
from mr_dedup.cli.document_arguments import (
    check_rejected,
    described_features,
    reading_lines,
)
from mr_dedup.cli.document_inputs import DocumentInputs
from mr_dedup.cli.method_arguments import recall_lines
from mr_dedup.cli.streams import counted
from mr_dedup.storage.uris import without_secrets

if TYPE_CHECKING:
    from mr_dedup.clusters.retention import Retention
    from mr_dedup.formats.documents.options import ReadOptions
    from mr_dedup.pipeline.dedup import Deduplicated
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.summary import CommandSummary, RunSummary, StageSummary, Warnings

REPORT = "report.html"


def write_summaries(
    work_folder: Path,
    made: Deduplicated,
    work: DocumentInputs,
    arguments: argparse.Namespace,
    options: DedupOptions,
    run: Mapping[str, Any],
) -> Warnings:
    """Write the report and the summary of a run whose stages are done; return its warnings.

    ``run`` is its ``run_identity``.
    """
    from mr_dedup.files.outputs import whole_file
    from mr_dedup.pipeline.results import DOCUMENTS
    from mr_dedup.pipeline.sharded_run import remove_unfinished
    from mr_dedup.pipeline.stages import RESULT
    from mr_dedup.report.dedup_report import dedup_report_data
    from mr_dedup.report.html import write_report

    result = work_folder / RESULT
    remove_unfinished(result)
    # also where no document was kept
    (result / DOCUMENTS).mkdir(parents=True, exist_ok=True)
    shown = _shown_options(arguments, options)
    summary: StageSummary = {**made.summary, **_of_command(made.summary, work, options)}
    data = dedup_report_data(made.report, summary, shown, arguments.share_by)
    with whole_file(result / REPORT, overwrite=True) as file:
        write_report(file, data)
    id = result_id(run, made.checksums)
    summarized = Made(summary, made.checksums, id, data.warnings)
    _write_summary(result, summarized, work, arguments, options)
    return data.warnings


def _of_command(
    summary: StageSummary, work: DocumentInputs, options: DedupOptions
) -> CommandSummary:
    """Return what the stages of a run do not know of it."""
    found: CommandSummary = {"skipped_files_by_ending": work.skipped_by_ending}
    if are_short(summary) and options.short_words is not None:
        found["short_below_words"] = options.short_words
    return found


def are_short(summary: StageSummary) -> bool:
    """Return whether over half of some documents are too short for a threshold to mean much."""
    from mr_dedup.clusters.suspects import MIN_DOCUMENTS

    documents = summary["documents_read"]
    is_some = documents >= MIN_DOCUMENTS
    return is_some and 2 * summary.get("documents_of_few_words", 0) > documents


def few_words_lines(documents: str, options: DedupOptions) -> Iterator[str]:
    """Yield a line on these documents, which are too short for the threshold, and what to do."""
    if options.verify is not None:
        yield (
            f"{documents} have fewer than {options.short_words} words, of which two cannot differ "
            f"at a similarity of {options.verify.threshold:g} by shingles of "
            f"{options.compared_by.described_shingles}; for titles and other short texts give "
            "--shingles words:1 or characters:4, or --verify contained:C; records with fields are "
            "for packages such as splink and recordlinkage"
        )


class Made(NamedTuple):
    """What a summary says of a result."""

    summary: StageSummary
    checksums: Mapping[str, str]
    result_id: str
    warnings: Warnings


def _reading_of_kept(work: DocumentInputs, options: DedupOptions) -> ReadOptions:
    """Return how kept documents are read: lines are in UTF-8, text and HTML as they came."""
    if options.documents == "same" and "jsonl" not in work.formats:
        return options.reading
    return replace(options.reading, encoding=None)


def _write_summary(
    result: Path,
    made: Made,
    work: DocumentInputs,
    arguments: argparse.Namespace,
    options: DedupOptions,
) -> None:
    import msgspec

    from mr_dedup.files.outputs import whole_file
    from mr_dedup.pipeline.results import SUMMARY, record_for_later
    from mr_dedup.pipeline.summary import Reading

    later = record_for_later(
        made.checksums, arguments.out, options.made_from,
        Reading.of(_reading_of_kept(work, options), options.kept_format),
        options.against, [method.name for method in options.methods], made.result_id, options.seen,
    )  # fmt: skip
    run: RunSummary = {
        **made.summary,
        "warnings": made.warnings,
        "files_read": work.files,
        "skipped_files": work.skipped.total(),
        "shingles": options.shingles,
        "verify": None if options.verify is None else options.verify.as_json,
    }
    with whole_file(result / SUMMARY, overwrite=True) as file:
        file.write(json.dumps(run | msgspec.to_builtins(later), indent=1).encode() + b"\n")


def _shown_options(arguments: argparse.Namespace, options: DedupOptions) -> list[tuple[str, str]]:
    """Return the options of the run for the report."""
    from mr_dedup import __version__
    from mr_dedup.cli.copy_names import as_named

    return [
        ("documents", as_named(", ".join(map(without_secrets, arguments.documents)))),
        ("features", described_features(arguments)),
        ("methods", "; ".join(options.method_names)),
        ("keep", ", ".join(arguments.keep or ["first"])),
        *_shown_retention(options.retention),
        ("verify", "off" if arguments.verify is None else str(arguments.verify)),
        ("shingles", options.shingles),
        *(("against", f"{name}, {count:,} documents") for name, count in options.earlier),
        ("mr_dedup", __version__),
    ]


def _shown_retention(retention: Retention) -> list[tuple[str, str]]:
    if retention.power is not None:
        return [("sample", f"weight:{retention.power:g}, seed {retention.seed}")]
    return [("keep per cluster", str(retention.per_cluster))] if retention.keeps_several else []


def check_result_rejected(arguments: argparse.Namespace, folder: ResultFolder) -> None:
    """Judge how many of the records a result is made of."""
    import msgspec

    from mr_dedup.formats.documents.rejects import ReadCounts
    from mr_dedup.formats.parts import read_lines
    from mr_dedup.pipeline.results import REJECTS, SUMMARY
    from mr_dedup.pipeline.summary import ResultCounts

    path = folder.local_copy(SUMMARY)
    if path is None:
        return  # a run that was killed had not written it
    summary = ResultCounts.parse(folder.name, path, path.read_bytes())
    counts = ReadCounts(documents=summary.documents_read, files=summary.files_read)
    if summary.rejected_records or summary.documents_without_text:
        rejects = folder.local_copy(REJECTS)
        for lines in read_lines(rejects) if rejects else ():
            counts.add_lines(lines)
    check_rejected(arguments, counts, msgspec.structs.asdict(summary))


_MUCH_CUT = 0.5
"""Mean share of the text of pages of HTML that is not compared, from which on a warning says so."""


def warning_lines(
    warnings: Warnings, summary: StageSummary, options: DedupOptions
) -> Iterator[str]:
    """Yield a line for each kind of what the user should look at."""
    if are_short(summary):
        few, documents = summary["documents_of_few_words"], summary["documents_read"]
        yield from few_words_lines(f"{few:,} of {documents:,} documents", options)
    cut_share = summary.get("html_cut_share", 0.0)
    if number := warnings["template_clusters"]:
        first = warnings["template_clusters_listed"][0]
        yield (
            f"{counted(number, 'cluster')} of 20 documents and more of one host or directory, "
            f"similar but not equal, as pages of one template are; the largest has "
            f"{first['documents']:,} of {first['host']} and keeps {first['documents_kept']:,}; "
            "see report.html"
        )
    if number := warnings["losing_sources"]:
        most = warnings["losing_sources_listed"][0]
        yield (
            f"{counted(number, 'source')} of 20 documents and more, by host, directory or "
            f"--share-by, of which over half are dropped; most of {most['field']} {most['value']}: "
            f"{most['dropped']:,} of {most['documents']:,}; see report.html"
        )
        if cut_share > _MUCH_CUT:
            yield (
                f"{100 * cut_share:.0f} % of the text of pages was cut as not main content; "
                "without it alone they may be similar; --html page compares whole pages"
            )


def summary_lines(
    summary: StageSummary, work: DocumentInputs, options: DedupOptions, out: str, seconds: float
) -> Iterator[str]:
    """Yield lines for the user on a run that took so many seconds."""
    read, dropped = summary["documents_read"], summary["documents_dropped"]
    share = 100 * dropped / read if read else 0.0
    yield from reading_lines(work.described, summary)
    yield from recall_lines(options)
    if summary["clusters_split"]:
        why = (
            "they are too large for one task, and near-duplicates among these may be kept; a "
            "stricter --method or --verify makes smaller clusters"
            if options.verify is not None
            else "their texts are of over 64 MB, as where pages are similar by chance, so each "
            "part keeps a document; a stricter --method makes smaller clusters"
        )
        yield (
            f"clusters split: {summary['clusters_split']:,}, of "
            f"{summary['documents_in_split_clusters']:,} documents; {why}"
        )
    if options.against:
        yield (
            f"compared against {summary['earlier_documents']:,} earlier documents, "
            f"{summary['documents_dropped_for_earlier']:,} dropped for them"
        )
    several = summary["reasons"]["among_first"] + summary["reasons"]["sampled"]
    if options.retention.keeps_several:
        yield f"kept {several:,} further documents of groups of duplicates"
    yield (
        f"kept {summary['documents_kept']:,}, dropped {dropped:,} ({share:.1f} %) in "
        f"{seconds:.1f} s: {out}"
    )
