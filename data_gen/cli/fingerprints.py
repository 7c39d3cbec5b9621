"""Generate random query fingerprints, and a corpus that contains copies of them with up to K bits
flipped, scattered among other fingerprints.

DIR then contains queries.longs, corpus-00000.longs, corpus-00001.longs, … (8-byte big-endian
longs, as of Java's writeLong) and truth.tsv: a line for each query with planted near-duplicates, of
the query and these, in ascending signed decimals. A search within distance K must find all of them;
it may find more by chance, which is certain in the dense distributions and very unlikely in uniform
data.

The same options give the same bytes on every machine; --chunk-size only changes where files end.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from data_gen.cli.arguments import UsageError, as_usage_errors, size
from data_gen.cli.standard_streams import progress_bar
from data_gen.distributions import DISTRIBUTIONS, Clustered, Distribution, Prefix, Zipf
from data_gen.fingerprints import FLIPS, FingerprintParameters, write

OUT_OF_MEMORY = "out of memory: use fewer queries or planted values"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("--queries", type=int, required=True, metavar="N", help="how many queries")
    add(
        "--corpus",
        type=int,
        required=True,
        metavar="N",
        help="how many fingerprints the corpus has in total",
    )
    add(
        "--duplicates-per-query",
        type=int,
        required=True,
        metavar="N",
        help="near-duplicates of each query",
    )
    add("-k", type=int, required=True, metavar="K", help="the largest distance, in bits, 0 to 64")
    add("--seed", type=int, required=True, metavar="N", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a directory, new or empty")
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="the size of a corpus file, a multiple of 8, in binary units (default: 64MB)",
    )
    add(
        "--flips",
        choices=FLIPS,
        default="up-to",
        help="how many bits of a near-duplicate are flipped: 0 to K, uniformly (default), or K",
    )
    add(
        "--near-misses",
        type=int,
        default=0,
        metavar="N",
        help="copies of each query with K + 1 and K + 2 bits flipped, in turn (default: 0)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it only contains files of this command",
    )
    _add_distributions(parser)


def _add_distributions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("distribution of the queries and of the filler")
    add = group.add_argument
    add("--distribution", choices=DISTRIBUTIONS, default="uniform", help="(default: uniform)")
    add(
        "--prefix-bits",
        type=int,
        metavar="N",
        help=f"prefix: the number of leading bits that are equal (default: {Prefix.prefix_bits})",
    )
    add(
        "--prefix-share",
        type=float,
        metavar="P",
        help=f"prefix: the share of values with the prefix (default: {Prefix.prefix_share})",
    )
    add(
        "--clusters",
        type=int,
        metavar="N",
        help=f"clustered: the number of centres (default: {Clustered.clusters})",
    )
    add(
        "--cluster-radius",
        type=int,
        metavar="N",
        help=f"clustered: 0 to N bits from a centre (default: {Clustered.cluster_radius})",
    )
    add(
        "--zipf-distinct",
        type=int,
        metavar="N",
        help=f"zipf: the number of distinct values (default: {Zipf.zipf_distinct})",
    )
    add(
        "--zipf-exponent",
        type=float,
        metavar="S",
        help=f"zipf: the r-th has a frequency like 1 / r**S (default: {Zipf.zipf_exponent})",
    )


def run(arguments: argparse.Namespace) -> str:
    """Write the data set; return a message on it."""
    started = time.monotonic()
    with as_usage_errors():
        parameters = FingerprintParameters(
            queries=arguments.queries,
            corpus=arguments.corpus,
            duplicates_per_query=arguments.duplicates_per_query,
            k=arguments.k,
            seed=arguments.seed,
            flips=arguments.flips,
            near_misses=arguments.near_misses,
            distribution=_distribution(arguments),
            chunk_bytes=arguments.chunk_size,
        )
    with progress_bar(parameters.steps, "fp", quiet=arguments.quiet) as bar:
        summary = write(
            parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
        )
    return (
        f"{parameters.queries:,} queries and a corpus of {parameters.corpus:,}, with "
        f"{parameters.queries * parameters.duplicates_per_query:,} duplicates planted "
        f"({summary.truth_pairs:,} distinct pairs) and "
        f"{parameters.queries * parameters.near_misses:,} near misses: {summary.files:,} files, "
        f"{summary.bytes:,} bytes in {arguments.out}, {time.monotonic() - started:.1f} s"
    )


def _distribution(arguments: argparse.Namespace) -> Distribution:
    """Return the chosen distribution; raise UsageError for an option of another one."""
    chosen = DISTRIBUTIONS[arguments.distribution]
    given = {}
    for name, distribution in DISTRIBUTIONS.items():
        for field in dataclasses.fields(distribution):
            value = getattr(arguments, field.name)
            if value is None:
                continue
            if distribution is not chosen:
                option = field.name.replace("_", "-")
                raise UsageError(f"--{option} needs --distribution {name}")
            given[field.name] = value
    return chosen(**given)
