"""Count how often each kept document was found, over several results of mr-dedup dedup.

OUT are results, directories or URIs. FILE, a .parquet, gets a row for each document that any of
them kept, in their order: how many documents all of them dropped for it, and with --seen when it
and these were seen first and last. It does not matter how the results were chained by --against
and --follow, where they are now, or how often one is named: each run is counted once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from mr_dedup.cli.copy_names import name_copies
from mr_dedup.cli.remote_files import output_file
from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.uris import without_secrets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("results", nargs="+", metavar="OUT", help="results of mr-dedup dedup")
    add("-o", "--out", type=output_file, required=True, metavar="FILE", help="write here")
    add("--follow", action="store_true",
        help="also count the results that each OUT was compared with, recursively")  # fmt: skip
    add("--overwrite", action="store_true", help="replace FILE if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.files.inputs import require_not_read
    from mr_dedup.files.outputs import refuse_existing
    from mr_dedup.pipeline.known_counts import not_counted, write_totals
    from mr_dedup.pipeline.results import EarlierResult, followed

    started = time.perf_counter()
    if arguments.out.suffix.lower() != ".parquet":
        raise MrDedupError(f"{arguments.out}: expected a name that ends in .parquet")
    refuse_existing(arguments.out, arguments.overwrite)
    fetched = partial(_fetched, arguments)
    named = [EarlierResult.read(name, fetched, signed=False) for name in arguments.results]
    results = followed(named, fetched, further=arguments.follow, signed=False)
    require_not_read(arguments.out, [], within=[result.folder for result in results])
    documents = write_totals(arguments.out, results, overwrite=arguments.overwrite)
    for name, other, count in not_counted(results):
        print_message(
            f"{name} dropped documents for {count:,} of {without_secrets(other)}, which is not "
            "named; --follow includes it"
        )
    seconds = time.perf_counter() - started
    print_message(
        f"results: {len(results):,}, kept documents: {documents:,}",
        f"wrote {arguments.out} in {seconds:.1f} s",
    )
    return 0


def _fetched(arguments: argparse.Namespace, uri: str) -> Path:
    """Return a directory with a copy of a result in a store, without its documents."""
    from mr_dedup.pipeline.results import fetch_result

    folder = Path(tempfile.mkdtemp(prefix="counts-", dir=arguments.open_scratch().folder))
    name_copies({str(folder): without_secrets(uri)})
    fetch_result(uri, folder, signed=False)
    return folder
