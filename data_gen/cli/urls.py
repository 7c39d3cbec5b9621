"""Write URLs as a crawler meets them: pages visited by Zipf's law, some under other spellings.

DIR then holds

  visits-00000.txt, …   a URL a line, in the order of the visits
  removals.txt          URLs to forget after all visits
  mirrors.txt           a host and its mirror on each line
  truth.tsv             of each page visited: its URL in canonical form, its visits under all
                        spellings, and 1 if it is in removals.txt

Aliases are of the KINDs in equal parts: case (of scheme and host), port, fragment, dots (. and
..), escape, order (of parameters); and those that lead to one page by custom only: tracking, index,
mirror. The same options give the same bytes on every machine; --chunk-size only cuts them
elsewhere.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tqdm import tqdm

from data_gen.cli.arguments import size, told_as_mistakes
from data_gen.cli.standard_streams import say
from data_gen.urls import KINDS, UrlParameters, write

HELP = "URLs visited again and again under several spellings, and their truth"
SHORT_OF_MEMORY = "not enough memory for so many pages"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add = parser.add_argument
    add("--pages", type=int, required=True, metavar="N", help="how many there are to visit")
    add("--visits", type=int, required=True, metavar="N", help="how many lines of URLs")
    add("--seed", type=int, required=True, metavar="S", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a folder, new or empty")
    add(
        "--hosts",
        type=int,
        default=UrlParameters.hosts,
        metavar="N",
        help=f"half of which have a mirror (default: {UrlParameters.hosts})",
    )
    add(
        "--zipf-exponent",
        type=float,
        default=UrlParameters.zipf_exponent,
        metavar="S",
        help=f"the r-th page is visited as 1 / r**S (default: {UrlParameters.zipf_exponent})",
    )
    add(
        "--alias-share",
        type=float,
        default=UrlParameters.alias_share,
        metavar="P",
        help=f"share of visits spelled in another way (default: {UrlParameters.alias_share})",
    )
    add(
        "--kinds",
        type=lambda text: tuple(text.split(",")),
        default=KINDS,
        metavar="KIND,KIND…",
        help=f"of aliases (default: {','.join(KINDS)})",
    )
    add(
        "--removals",
        type=int,
        default=0,
        metavar="N",
        help="visited pages to forget afterwards (default: 0)",
    )
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="bytes of a file of visits; KB, MB and GB are binary (default: 64MB)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it holds nothing but what this command wrote",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the data set."""
    started = time.monotonic()
    with told_as_mistakes():
        parameters = UrlParameters(
            pages=arguments.pages,
            visits=arguments.visits,
            seed=arguments.seed,
            hosts=arguments.hosts,
            zipf_exponent=arguments.zipf_exponent,
            alias_share=arguments.alias_share,
            kinds=arguments.kinds,
            removals=arguments.removals,
            chunk_bytes=arguments.chunk_size,
        )
        with tqdm(total=parameters.visits, unit="visit", unit_scale=True, disable=None) as bar:
            summary = write(
                parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
            )
    say(
        f"{parameters.visits:,} visits of {summary.visited:,} pages, {summary.aliases:,} of them "
        f"under other spellings, and {parameters.removals:,} removals: {summary.files:,} files, "
        f"{summary.bytes:,} bytes in {arguments.out}, {time.monotonic() - started:.1f} s"
    )
