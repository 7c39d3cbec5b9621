"""Say how good pairs, or the decisions of dedup, are against every pair that is truly similar.

PAIRS is the result folder of mr-dedup dedup, or its decisions.parquet; or text with two ids a line,
separated by a TAB, whatever is behind them; or, with --as matches, what mr-dedup query prints of
documents, an id and those of its near-duplicates. TRUTH has every pair of documents from some
similarity on: id_a TAB id_b TAB jaccard, as data-gen documents writes it. Text may be .gz or .zst.

Of pairs, right are those that are true, and missed the true ones that were not found.
precision = right / found, recall = right / (right + missed).

Decisions name one keeper for each dropped document, so a pair is not what they can miss. Found are
the dropped documents; right are those whose keeper is truly similar to them. Missed are the kept
documents that would be dropped yet if the kept ones were gone through once more, in their order,
by who knows the truth: each that is similar to one kept before it. So it does not matter which one
of several is kept, and a perfect result has precision and recall 1. Both kept are true pairs of
which neither document was dropped. Documents of one cluster are no pair by that.

A band counts as true what is at least so similar, so precision falls from band to band: what is
found at 0.8 is not meant to be at 0.9. By length a pair counts where its shorter document does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.document_arguments import (
    add_reading_arguments,
    judge_reading,
    read_options,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mr_dedup.report.evaluation import Counts, Evaluation
    from mr_dedup.report.lengths import Lengths

HELP = "say how good pairs or decisions are against a known truth"

_STANDARD_INPUT = "-"

_BANDS = (0.9, 1.0)

_LENGTHS = (0, 200, 600, 2000, 6000)
"""Where bands of lengths begin, in bytes: about 30, 100, 300 and 1,000 English words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("pairs", metavar="PAIRS", help="what was found; - for text from standard input")
    add("--truth", type=Path, required=True, metavar="TRUTH", help="the pairs that are similar")
    add("--as", dest="kind", choices=("decisions", "pairs", "matches"),
        help="what PAIRS is (default: decisions if a folder or .parquet, else pairs)")  # fmt: skip
    add("--threshold", type=similarity_argument, default=0.8, metavar="J",
        help="the similarity from which on pairs of TRUTH count (default 0.8)")  # fmt: skip
    add("--bands", type=bands_argument, metavar="J,…",
        help="similarities above it to count from as well (default 0.9,1)")  # fmt: skip
    add("--json", action="store_true", help="print a JSON object")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--documents", nargs="+", metavar="DOCS",
        help="count by length too: files, globs or folders of the documents")  # fmt: skip
    lengths.add_argument("--lengths", type=Path, metavar="FILE",
        help="count by length too, as in a .parquet that mr-dedup fingerprint wrote")  # fmt: skip
    add_reading_arguments(parser)


def similarity_argument(text: str) -> float:
    """Return the similarity that an argument says."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no similarity above 0 and up to 1")
    return value


def bands_argument(text: str) -> list[float]:
    """Return the similarities that an argument says, with commas between."""
    return [similarity_argument(band) for band in text.split(",")]


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    bands = all_bands(arguments)
    evaluation = _evaluation(arguments)
    report = _report(evaluation, bands, _lengths(evaluation, arguments))
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(_lines(report)))
    return 0


def all_bands(arguments: argparse.Namespace) -> list[float]:
    """Return the threshold and what is counted from above it; MrDedupError for a band below it."""
    from mr_dedup.errors import MrDedupError

    threshold, bands = arguments.threshold, arguments.bands
    if bands and min(bands) < threshold:
        raise MrDedupError(f"--bands: {min(bands):g} is below --threshold {threshold:g}")
    return sorted({threshold, *(band for band in bands or _BANDS if band > threshold)})


def _evaluation(arguments: argparse.Namespace) -> Evaluation:
    from mr_dedup.report.decision_file import read_decisions
    from mr_dedup.report.evaluation import Evaluation
    from mr_dedup.report.pair_files import read_pairs, read_truth

    path = Path(arguments.pairs)
    if arguments.kind == "decisions" or (arguments.kind is None and _holds_decisions(path)):
        decided = read_decisions(path)
        return Evaluation.of_decisions(decided, read_truth(arguments.truth))
    source = None if arguments.pairs == _STANDARD_INPUT else path
    listed = read_pairs(source, as_matches=arguments.kind == "matches")
    return Evaluation.of_pairs(listed, read_truth(arguments.truth))


def _holds_decisions(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() == ".parquet"


def _lengths(evaluation: Evaluation, arguments: argparse.Namespace) -> NDArray[np.int64] | None:
    """Return the length of each document, if the arguments say where to find them."""
    from mr_dedup.report.lengths import fingerprint_file_lengths, lengths_of

    if arguments.documents:
        return lengths_of(evaluation.ids, _read_lengths(arguments))
    if arguments.lengths:
        return lengths_of(evaluation.ids, fingerprint_file_lengths(arguments.lengths))
    return None


def _read_lengths(arguments: argparse.Namespace) -> Iterator[Lengths]:
    """Yield the lengths of the documents that the arguments name."""
    from tqdm import tqdm

    from mr_dedup.formats.documents.files import find_documents
    from mr_dedup.formats.documents.read import read_documents
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.report.lengths import document_lengths

    rejects = Rejects()
    files = find_documents(arguments.documents, arguments.format).files
    with tqdm(unit=" documents", unit_scale=True, leave=False, disable=None) as bar:
        for ids, lengths in document_lengths(
            read_documents(files, rejects, read_options(arguments))
        ):
            bar.update(len(ids))
            yield ids, lengths
    judge_reading(arguments, rejects.counts)
    if rejects.count:
        things = "record" if rejects.counts.rejected == 1 else "records"
        print(f"mr-dedup: {rejects.counts.rejected:,} {things} could not be read", file=sys.stderr)


def _report(
    evaluation: Evaluation, bands: Sequence[float], lengths: NDArray[np.int64] | None
) -> dict[str, Any]:
    kept = evaluation.kept
    judged = [evaluation.at(band) for band in bands]
    report: dict[str, Any] = {
        "kind": "pairs" if kept is None else "decisions",
        "documents": None if kept is None else len(kept),
        "found": len(evaluation.found),
        "listed_again": evaluation.repeated,
        "with_themselves": evaluation.own,
        "true_pairs": len(evaluation.true),
        "true_pairs_elsewhere": evaluation.elsewhere,
        "bands": [
            {
                "similarity": band,
                "true_pairs": at.true,
                "both_kept": at.both_kept,
                **_measures(at.counts),
            }
            for band, at in zip(bands, judged, strict=True)
        ],
    }
    if lengths is not None:
        report["lengths"] = [
            {"from_bytes": least, "to_bytes": most and most - 1, **_measures(counts)}
            for least, most, counts in zip(
                _LENGTHS,
                [*_LENGTHS[1:], None],
                judged[0].by_length(lengths, _LENGTHS),
                strict=True,
            )
        ]
    return report


def _measures(counts: Counts) -> dict[str, Any]:
    return {
        "found": counts.found,
        "right": counts.right,
        "missed": counts.missed,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
    }


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report as lines of text."""
    decided, threshold = report["kind"] == "decisions", report["bands"][0]
    if decided:
        yield f"found  {report['found']:,} of {report['documents']:,} documents dropped"
    else:
        again, own = report["listed_again"], report["with_themselves"]
        yield (
            f"found  {report['found']:,} pairs; besides {again:,} listed again, "
            f"{own:,} of a document with itself"
        )
    elsewhere = report["true_pairs_elsewhere"]
    others = f"; besides {elsewhere:,} of documents not decided on" if elsewhere else ""
    yield (
        f"true   {threshold['true_pairs']:,} pairs from {threshold['similarity']:g} on, of "
        f"{report['true_pairs']:,} known{others}"
    )
    yield ""
    more = {"true_pairs": "true pairs", "both_kept": "both kept"} if decided else {}
    yield _heading("similarity", more)
    for band in report["bands"]:
        yield _row(f"from {band['similarity']:g}", band, more)
    if "lengths" in report:
        yield ""
        yield _heading("bytes", {})
        for band in report["lengths"]:
            least, most = band["from_bytes"], band["to_bytes"]
            yield _row(f"{least:,} to {most:,}" if most else f"from {least:,}", band, {})


_COLUMNS = {
    "found": "found", "right": "right", "missed": "missed",
    "precision": "precision", "recall": "recall", "f1": "F1",
}  # fmt: skip


def _heading(first: str, more: dict[str, str]) -> str:
    return f"{first:<14}" + "".join(f"{name:>12}" for name in (_COLUMNS | more).values())


def _row(first: str, measures: dict[str, Any], more: dict[str, str]) -> str:
    return f"{first:<14}" + "".join(f"{_cell(measures[name]):>12}" for name in _COLUMNS | more)


def _cell(value: float | None) -> str:
    """Return a count, a share, or - for what there is not."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
