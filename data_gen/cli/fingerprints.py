"""Write random query fingerprints, and a corpus that holds copies of them with up to K bits
flipped, scattered among other fingerprints.

DIR then holds queries.longs, corpus-00000.longs, corpus-00001.longs, … (8-byte big-endian
longs, as Java's writeLong writes them) and truth.tsv: for each query that has planted
near-duplicates, a line of the query and these, in ascending signed decimals. A search for
distance K must find all of them; it may find more, where values happen to be close, which is
certain in the dense distributions and next to impossible in uniform data.

The same options give the same bytes on every machine; --chunk-size only cuts them elsewhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from tqdm import tqdm

from data_gen.cli.arguments import Mistake, size, told_as_mistakes
from data_gen.cli.standard_streams import say
from data_gen.distributions import DISTRIBUTIONS, Clustered, Distribution, Prefix, Zipf
from data_gen.fingerprints import FLIPS, FingerprintParameters, write

HELP = "fingerprints with planted near-duplicates, and their truth"
SHORT_OF_MEMORY = "not enough memory for so many queries and planted values"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add = parser.add_argument
    add("--queries", type=int, required=True, metavar="N", help="how many queries")
    add("--corpus", type=int, required=True, metavar="N", help="fingerprints of the corpus, in all")
    add(
        "--duplicates-per-query",
        type=int,
        required=True,
        metavar="N",
        help="near-duplicates planted for each query",
    )
    add("-k", type=int, required=True, metavar="K", help="the largest distance, in bits, 0 to 64")
    add("--seed", type=int, required=True, metavar="N", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a folder, new or empty")
    add(
        "--chunk-size",
        type=size,
        default="64MB",
        metavar="SIZE",
        help="bytes of a corpus file, a multiple of 8; KB, MB and GB are binary (default: 64MB)",
    )
    add(
        "--flips",
        choices=FLIPS,
        default="up-to",
        help="bits flipped in a near-duplicate: 0 to K, equally likely (the default), or K",
    )
    add(
        "--near-misses",
        type=int,
        default=0,
        metavar="N",
        help="decoys planted for each query, K + 1 and K + 2 bits from it in turn (default: 0)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it holds nothing but what this command wrote",
    )
    _add_distributions(parser)


def _add_distributions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the distribution of the queries and of the filler")
    add = group.add_argument
    add("--distribution", choices=DISTRIBUTIONS, default="uniform", help="(default: uniform)")
    add(
        "--prefix-bits",
        type=int,
        metavar="N",
        help=f"prefix: leading bits that values share (default: {Prefix.prefix_bits})",
    )
    add(
        "--prefix-share",
        type=float,
        metavar="P",
        help=f"prefix: share of the values that have them (default: {Prefix.prefix_share})",
    )
    add(
        "--clusters",
        type=int,
        metavar="N",
        help=f"clustered: how many centres (default: {Clustered.clusters})",
    )
    add(
        "--cluster-radius",
        type=int,
        metavar="N",
        help=f"clustered: 0 to N bits from one (default: {Clustered.cluster_radius})",
    )
    add(
        "--zipf-distinct",
        type=int,
        metavar="N",
        help=f"zipf: how many different values (default: {Zipf.zipf_distinct})",
    )
    add(
        "--zipf-exponent",
        type=float,
        metavar="S",
        help=f"zipf: the r-th is likely as 1 / r**S (default: {Zipf.zipf_exponent})",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the data set."""
    started = time.monotonic()
    with told_as_mistakes():
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
    with tqdm(total=parameters.steps, unit="fp", unit_scale=True, disable=None) as bar:
        summary = write(
            parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
        )
    say(
        f"{parameters.queries:,} queries and a corpus of {parameters.corpus:,}, with "
        f"{parameters.queries * parameters.duplicates_per_query:,} duplicates planted "
        f"({summary.truth_pairs:,} distinct pairs) and "
        f"{parameters.queries * parameters.near_misses:,} near misses: {summary.files:,} files, "
        f"{summary.bytes:,} bytes in {arguments.out}, {time.monotonic() - started:.1f} s"
    )


def _distribution(arguments: argparse.Namespace) -> Distribution:
    """Return the distribution asked for; an option of another one is a mistake."""
    chosen = DISTRIBUTIONS[arguments.distribution]
    given = {}
    for name, distribution in DISTRIBUTIONS.items():
        for field in dataclasses.fields(distribution):
            value = getattr(arguments, field.name)
            if value is None:
                continue
            if distribution is not chosen:
                option = field.name.replace("_", "-")
                raise Mistake(f"--{option} needs --distribution {name}")
            given[field.name] = value
    return chosen(**given)
