"""Evaluate pairs of documents, or the decisions of dedup, against all truly similar pairs.

PAIRS is the result directory of mr-dedup dedup, the directory decisions/ in it, or a Parquet file
with such columns; or text with two ids a line, separated by a TAB (further columns are ignored);
or, with --as matches, the output of mr-dedup query for documents: an id and those of its
near-duplicates. TRUTH lists every pair of
documents from some similarity on: id_a TAB id_b TAB jaccard, as data-gen documents writes it. Text
may be compressed (.gz, .zst).

A predicted pair that is in TRUTH is a true positive; a pair in TRUTH that was not predicted is a
false negative. precision = true positives / predicted,
recall = true positives / (true positives + false negatives).

Decisions name one kept document for each dropped one. Predicted are the dropped documents; true
positives are those truly similar to the kept document they duplicate. False negatives are the kept
documents that should have been dropped: in their order, each that is truly similar to one kept
before it. So it does not matter which of several similar documents is kept, and a perfect result
has precision and recall 1. "both kept" counts the true pairs of which neither document was dropped.
Two documents of the same cluster are not a predicted pair.

Each band counts the true pairs from a minimum similarity on, so precision falls from band to band:
a pair predicted at 0.8 need not be similar by 0.9. By length, a pair counts where its shorter
document does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.document_arguments import add_reading_arguments, check_rejected, read_options
from mr_dedup.cli.rejects import print_rejected
from mr_dedup.cli.remote_files import input_file, input_name, input_names
from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lists import refuse_links
from mr_dedup.formats.decision_file import read_decisions
from mr_dedup.formats.document_lengths import (
    Lengths,
    document_lengths,
    fingerprint_file_lengths,
    lengths_of,
)
from mr_dedup.formats.documents.files import find_documents
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.pair_files import read_pairs, read_truth
from mr_dedup.progress_bars import progress_bar
from mr_dedup.report.evaluation import Counts, Evaluation

_STANDARD_INPUT = "-"

_BANDS = (0.9, 1.0)

_LENGTHS = (0, 200, 600, 2000, 6000)
"""Where ranges of lengths start, in bytes: about 30, 100, 300 and 1,000 English words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add(
        "pairs",
        type=input_name,
        metavar="PAIRS",
        help="the pairs or decisions; - for text from standard input",
    )
    add("--truth", type=input_file, required=True, metavar="TRUTH", help="the truly similar pairs")
    add("--as", dest="kind", choices=("decisions", "pairs", "matches"),
        help="what PAIRS is (default: decisions if a directory or .parquet)")  # fmt: skip
    add("--threshold", type=similarity_argument, default=0.8, metavar="J",
        help="the minimum similarity of true pairs (default 0.8)")  # fmt: skip
    add("--bands", type=bands_argument, metavar="J,…",
        help="further minimum similarities, above --threshold (default 0.9,1)")  # fmt: skip
    add("--json", action="store_true", help="print a JSON object")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--documents", nargs="+", type=input_names, metavar="DOCS",
        help="count by length too: the files, globs or directories of the documents")  # fmt: skip
    lengths.add_argument("--lengths", type=input_file, metavar="FILE",
        help="count by length too: a .parquet that mr-dedup fingerprint wrote")  # fmt: skip
    add_reading_arguments(parser)


def similarity_argument(text: str) -> float:
    """Return the similarity that an argument gives."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a similarity above 0 and up to 1")
    return value


def bands_argument(text: str) -> list[float]:
    """Return the similarities that an argument lists, separated by commas."""
    return [similarity_argument(band) for band in text.split(",")]


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    report = evaluated(arguments)
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(_lines(report)))
    return 0


def evaluated(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the report, as --json prints it."""
    bands = all_bands(arguments)
    evaluation = _evaluation(arguments)
    return _report(evaluation, bands, _lengths(evaluation, arguments))


def all_bands(arguments: argparse.Namespace) -> list[float]:
    """Return the threshold and the bands above it; raise MrDedupError for one below it."""
    threshold, bands = arguments.threshold, arguments.bands
    if bands and min(bands) < threshold:
        raise MrDedupError(f"--bands: {min(bands):g} is below --threshold {threshold:g}")
    return sorted({threshold, *(band for band in bands or _BANDS if band > threshold)})


def _evaluation(arguments: argparse.Namespace) -> Evaluation:
    path = Path(arguments.pairs)
    is_decisions = path.is_dir() or path.suffix.lower() == ".parquet"
    if arguments.kind == "decisions" or (arguments.kind is None and is_decisions):
        decided = read_decisions(path, _documents_of_result(path))
        return Evaluation.of_decisions(decided, read_truth(arguments.truth))
    source = None if arguments.pairs == _STANDARD_INPUT else path
    listed = read_pairs(source, as_matches=arguments.kind == "matches")
    return Evaluation.of_pairs(listed, read_truth(arguments.truth))


def _documents_of_result(path: Path) -> int | None:
    """Return the number of documents of a result; None if ``path`` is none.

    Raises MrDedupError if it is one of another format version, or has no summary.
    """
    from mr_dedup.pipeline.results import DECISIONS, SUMMARY
    from mr_dedup.pipeline.summary import ResultCounts

    refuse_links(path)
    summary = path / SUMMARY
    if not summary.is_file():
        if (path / DECISIONS).is_dir():
            # as of a copy that is not whole
            raise MrDedupError(f"{path}: not a result of mr-dedup dedup: no {SUMMARY}")
        return None
    return ResultCounts.parse(str(path), summary, summary.read_bytes()).documents_read


def _lengths(evaluation: Evaluation, arguments: argparse.Namespace) -> NDArray[np.int64] | None:
    """Return the length of each document; None if the arguments name no source of lengths."""
    if arguments.documents:
        return lengths_of(evaluation.ids, _read_lengths(arguments))
    if arguments.lengths:
        return lengths_of(evaluation.ids, fingerprint_file_lengths(arguments.lengths))
    return None


def _read_lengths(arguments: argparse.Namespace) -> Iterator[Lengths]:
    """Yield the lengths of the documents that the arguments name."""
    rejects = Rejects()
    files = find_documents(arguments.documents, arguments.format, as_named).files
    batches = read_documents(files, rejects, read_options(arguments))
    with progress_bar(" documents") as bar:
        for ids, lengths in document_lengths(batches):
            bar.update(len(ids))
            yield ids, lengths
    check_rejected(arguments, rejects.counts)
    print_rejected(rejects)


def _report(
    evaluation: Evaluation, bands: Sequence[float], lengths: NDArray[np.int64] | None
) -> dict[str, Any]:
    kept = evaluation.kept
    by_band = [evaluation.at(band) for band in bands]
    report: dict[str, Any] = {
        "kind": "pairs" if kept is None else "decisions",
        "documents": None if kept is None else len(kept),
        "predicted": len(evaluation.predicted),
        "repeated_pairs": evaluation.repeated,
        "self_pairs": evaluation.self_pairs,
        "true_pairs": len(evaluation.true),
        "ignored_true_pairs": evaluation.ignored_true,
        "bands": [
            {
                "similarity": band,
                "true_pairs": at.true_count,
                "both_kept": at.both_kept,
                **_measures(at.counts),
            }
            for band, at in zip(bands, by_band, strict=True)
        ],
    }
    if lengths is not None:
        ends = [*(edge - 1 for edge in _LENGTHS[1:]), None]
        by_length = by_band[0].by_length(lengths, _LENGTHS)
        report["lengths"] = [
            {"from_bytes": start, "to_bytes": end, **_measures(counts)}
            for start, end, counts in zip(_LENGTHS, ends, by_length, strict=True)
        ]
    return report


def _measures(counts: Counts) -> dict[str, Any]:
    return {name: getattr(counts, name) for name in _COLUMNS}


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report as lines of text."""
    is_decisions, threshold = report["kind"] == "decisions", report["bands"][0]
    if is_decisions:
        yield f"predicted  {report['predicted']:,} of {report['documents']:,} documents dropped"
    else:
        repeated, self_pairs = report["repeated_pairs"], report["self_pairs"]
        yield (
            f"predicted  {report['predicted']:,} pairs; ignored: {repeated:,} repeated, "
            f"{self_pairs:,} of a document with itself"
        )
    ignored = report["ignored_true_pairs"]
    others = f"; ignored: {ignored:,} of documents without a decision" if ignored else ""
    yield (
        f"true       {threshold['true_pairs']:,} pairs from {threshold['similarity']:g} on, of "
        f"{report['true_pairs']:,} known{others}"
    )
    yield ""
    more = {"true_pairs": "true pairs", "both_kept": "both kept"} if is_decisions else {}
    yield _heading("similarity", more)
    for band in report["bands"]:
        yield _row(f"from {band['similarity']:g}", band, more)
    if "lengths" in report:
        yield ""
        yield _heading("bytes", {})
        for band in report["lengths"]:
            start, end = band["from_bytes"], band["to_bytes"]
            yield _row(f"{start:,} to {end:,}" if end else f"from {start:,}", band, {})


_COLUMNS = {
    "predicted": "predicted", "true_positives": "true pos.", "false_negatives": "false neg.",
    "precision": "precision", "recall": "recall", "f1": "F1",
}  # fmt: skip


def _heading(first: str, more: dict[str, str]) -> str:
    return f"{first:<14}" + "".join(f"{name:>12}" for name in (_COLUMNS | more).values())


def _row(first: str, measures: dict[str, Any], more: dict[str, str]) -> str:
    return f"{first:<14}" + "".join(f"{_cell(measures[name]):>12}" for name in _COLUMNS | more)


def _cell(value: float | None) -> str:
    """Return a count, a ratio, or - for None."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
