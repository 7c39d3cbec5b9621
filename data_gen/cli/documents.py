"""Generate pages with planted near-duplicates of the kinds found on the web, and their similarity.

N originals, each with D near-duplicates with one change each, of the KINDs in turn. Pages have the
navigation and the footer of their site; words are from a made-up vocabulary, by Zipf's law. DIR
then contains, in a random order,

  documents-00000.jsonl, …   one document a line: id, url, site, date, language, cluster, kind,
                             and its text or html; with --format html its file
  truth.tsv                  all pairs of a cluster: id_a, id_b, and the exact Jaccard index of
                             their shingles (of 3 tokens; 5 for Chinese)
  near-misses.tsv            the same for each original and its near misses

The same options give the same bytes on every machine (the same content of compressed files);
--chunk-size only changes where files end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from data_gen.cli.arguments import UsageError, as_usage_errors, size
from data_gen.cli.standard_streams import progress_bar
from data_gen.document_files import FORMATS
from data_gen.documents import KINDS, DocumentParameters, write
from data_gen.pages import LANGUAGES

OUT_OF_MEMORY = "out of memory: use shorter documents or fewer duplicates of each"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("--documents", type=int, required=True, metavar="N", help="how many originals")
    add(
        "--duplicates-per-document",
        type=int,
        required=True,
        metavar="D",
        help="near-duplicates of each original",
    )
    add("--seed", type=int, required=True, metavar="S", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a directory, new or empty")
    add(
        "--near-misses",
        type=int,
        default=0,
        metavar="M",
        help="other pages of the same site for each original, which only share navigation, footer "
        "and advert with it (default: 0)",
    )
    add(
        "--kinds",
        type=lambda text: tuple(text.split(",")),
        default=KINDS,
        metavar="KIND,KIND…",
        help=f"the changes that make near-duplicates, in turn (default: {','.join(KINDS)})",
    )
    add("--language", choices=LANGUAGES, default="english", help="(default: english)")
    add(
        "--length",
        type=int,
        default=300,
        metavar="WORDS",
        help="the mean length of articles, log-normal, at least 64 (default: 300)",
    )
    add(
        "--format",
        choices=FORMATS,
        default="jsonl",
        help="html: a file for each page (default: jsonl)",
    )
    add(
        "--html",
        type=float,
        metavar="SHARE",
        help="the share of originals that are HTML, like their duplicates (default: 0)",
    )
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="the size of a file of lines before compression, in binary units (default: 64MB)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it only contains files of this command",
    )


def run(arguments: argparse.Namespace) -> str:
    """Write the data set; return a message on it."""
    started = time.monotonic()
    if arguments.html is not None and arguments.format == "html":
        raise UsageError("--html cannot be used with --format html: all its pages are HTML")
    with as_usage_errors():
        parameters = DocumentParameters(
            documents=arguments.documents,
            duplicates_per_document=arguments.duplicates_per_document,
            seed=arguments.seed,
            near_misses=arguments.near_misses,
            language=arguments.language,
            length=arguments.length,
            kinds=arguments.kinds,
            format=arguments.format,
            html_share=arguments.html or 0.0,
            chunk_bytes=arguments.chunk_size,
        )
    with progress_bar(parameters.steps, "doc", quiet=arguments.quiet) as bar:
        summary = write(
            parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
        )
    planted = parameters.documents * parameters.duplicates_per_document
    return (
        f"{parameters.documents:,} documents, with {planted:,} duplicates planted "
        f"({summary.truth_pairs:,} pairs) and {parameters.documents * parameters.near_misses:,} "
        f"near misses: {summary.files:,} files, {summary.bytes:,} bytes in {arguments.out}, "
        f"{time.monotonic() - started:.1f} s"
    )
