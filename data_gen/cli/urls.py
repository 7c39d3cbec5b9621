"""Generate a stream of URLs as of a crawler: pages visited by Zipf's law, some by aliases.

DIR then contains

  visits-00000.txt, …   one URL a line, in the order of the visits
  removals.txt          URLs to remove after all visits
  mirrors.txt           a host and its mirror on each line
  truth.tsv             for each visited page its canonical URL, its number of visits by all URLs,
                        and 1 if it is in removals.txt

Aliases are of the KINDs in equal parts: case (of scheme and host), port, fragment, dots (. and
..), escape, order (of parameters), which are equal by standard; and tracking, index, mirror, which
are equal by convention only. The same options give the same bytes on every machine; --chunk-size
only changes where files end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from data_gen.cli.arguments import as_usage_errors, size
from data_gen.cli.standard_streams import progress_bar
from data_gen.urls import KINDS, UrlParameters, write

OUT_OF_MEMORY = "out of memory: use fewer pages"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("--pages", type=int, required=True, metavar="N", help="how many pages there are")
    add("--visits", type=int, required=True, metavar="N", help="how many lines of URLs")
    add("--seed", type=int, required=True, metavar="S", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a directory, new or empty")
    add(
        "--hosts",
        type=int,
        default=UrlParameters.hosts,
        metavar="N",
        help=f"how many hosts; half of them have a mirror (default: {UrlParameters.hosts})",
    )
    add(
        "--zipf-exponent",
        type=float,
        default=UrlParameters.zipf_exponent,
        metavar="S",
        help=f"the r-th page is visited like 1 / r**S (default: {UrlParameters.zipf_exponent})",
    )
    add(
        "--alias-share",
        type=float,
        default=UrlParameters.alias_share,
        metavar="P",
        help=f"the share of visits by an alias (default: {UrlParameters.alias_share})",
    )
    add(
        "--kinds",
        type=lambda text: tuple(text.split(",")),
        default=KINDS,
        metavar="KIND,KIND…",
        help=f"the kinds of aliases (default: {','.join(KINDS)})",
    )
    add(
        "--removals",
        type=int,
        default=0,
        metavar="N",
        help="how many visited pages to remove afterwards (default: 0)",
    )
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="the size of a file of visits, in binary units (default: 64MB)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it only contains files of this command",
    )


def run(arguments: argparse.Namespace) -> str:
    """Write the data set; return a message on it."""
    started = time.monotonic()
    with as_usage_errors():
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
        with progress_bar(parameters.visits, "visit", quiet=arguments.quiet) as bar:
            summary = write(
                parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
            )
    return (
        f"{parameters.visits:,} visits of {summary.visited:,} pages, {summary.aliases:,} of them "
        f"by aliases, and {parameters.removals:,} removals: {summary.files:,} files, "
        f"{summary.bytes:,} bytes in {arguments.out}, {time.monotonic() - started:.1f} s"
    )
