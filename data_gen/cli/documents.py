"""Write pages with planted near-duplicates of the kinds that the web makes, and their similarity.

N originals, each with D near-duplicates with one change each, of the KINDs in turn. Pages are of
sites that put their navigation and footer on all of theirs, in words drawn by Zipf's law from a
made-up vocabulary. DIR then holds, in a scattered order,

  documents-00000.jsonl, …   a document a line: id, url, site, date, language, cluster, kind, and
                             its text or html; or, with --format html, its file
  truth.tsv                  every pair of a cluster: id_a, id_b, and the exact Jaccard index of
                             their shingles (3 tokens; 5 where the language is Chinese)
  near-misses.tsv            the same for each original and its near misses

The same options give the same bytes on every machine (compressed files: the same content);
--chunk-size only cuts them elsewhere.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tqdm import tqdm

from data_gen.cli.arguments import Mistake, size, told_as_mistakes
from data_gen.cli.standard_streams import say
from data_gen.document_files import FORMATS
from data_gen.documents import KINDS, DocumentParameters, write
from data_gen.pages import LANGUAGES

HELP = "pages with planted near-duplicates, and how similar these are"
SHORT_OF_MEMORY = "not enough memory for documents so long with so many duplicates each"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add = parser.add_argument
    add("--documents", type=int, required=True, metavar="N", help="how many originals")
    add(
        "--duplicates-per-document",
        type=int,
        required=True,
        metavar="D",
        help="near-duplicates planted for each original",
    )
    add("--seed", type=int, required=True, metavar="S", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a folder, new or empty")
    add(
        "--near-misses",
        type=int,
        default=0,
        metavar="M",
        help="other pages of its site planted for each original, which share nothing with it but "
        "navigation, footer and advert (default: 0)",
    )
    add(
        "--kinds",
        type=lambda text: tuple(text.split(",")),
        default=KINDS,
        metavar="KIND,KIND…",
        help=f"what is changed in near-duplicates, in turn (default: {','.join(KINDS)})",
    )
    add("--language", choices=LANGUAGES, default="english", help="(default: english)")
    add(
        "--length",
        type=int,
        default=300,
        metavar="WORDS",
        help="the mean of the articles' lengths, which are log-normal, 64 or more (default: 300)",
    )
    add("--format", choices=FORMATS, default="jsonl", help="html: a file a page (default: jsonl)")
    add(
        "--html",
        type=float,
        metavar="SHARE",
        help="the share of the originals that are HTML, as their duplicates then are (default: 0)",
    )
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="bytes of a file of lines, before compression; KB, MB and GB are binary "
        "(default: 64MB)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it holds nothing but what this command wrote",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the data set."""
    started = time.monotonic()
    if arguments.html is not None and arguments.format == "html":
        raise Mistake("--html needs a --format of lines: with --format html all pages are HTML")
    with told_as_mistakes():
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
    with tqdm(total=parameters.steps, unit="doc", unit_scale=True, disable=None) as bar:
        summary = write(
            parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
        )
    planted = parameters.documents * parameters.duplicates_per_document
    say(
        f"{parameters.documents:,} documents, with {planted:,} duplicates planted "
        f"({summary.truth_pairs:,} pairs) and {parameters.documents * parameters.near_misses:,} "
        f"near misses: {summary.files:,} files, {summary.bytes:,} bytes in {arguments.out}, "
        f"{time.monotonic() - started:.1f} s"
    )
