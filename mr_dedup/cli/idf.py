"""Count in how many documents each feature occurs, for weights that rare features have more of.

DOCS are files, globs or directories of JSON lines (.jsonl), Parquet, WARC, ARC, text (.txt, .md) or
HTML, each but Parquet also as .gz, .zst or .lz4; - is standard input. OUT, a .parquet, is for the
--idf of other commands, whose features must be the same. A feature that fewer documents have than
--min-documents is excluded, and weighted like the most frequent of the excluded ones.

Records that cannot be read are counted and written with a reason to OUT.rejects.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    check_rejected,
    feature_options,
    read_options,
)
from mr_dedup.cli.document_inputs import DocumentInputs, prepare
from mr_dedup.cli.fingerprint import documents_read
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.rejects import RejectsOutput, rejects_of, rejects_output
from mr_dedup.cli.remote_files import document_name, output_file
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
    from mr_dedup.engines.engine import JobOutput
    from mr_dedup.engines.inputs import ClusterSettings
    from mr_dedup.features.document_frequencies import DocumentFrequencies


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument(
        "documents",
        nargs="+",
        type=document_name,
        metavar="DOCS",
        help="files, globs or directories of documents; - for lines of JSON from standard input",
    )
    parser.add_argument(
        "-o", "--out", type=output_file, required=True, metavar="OUT", help="write here"
    )
    parser.add_argument(
        "--min-documents", type=positive, default=2, metavar="N",
        help="leave out features that fewer documents have (default 2)",
    )  # fmt: skip
    parser.add_argument(
        "--rejects", type=output_file, metavar="FILE",
        help="where records go that cannot be read (default: OUT.rejects.jsonl)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    add_feature_arguments(parser, weights=False)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "idf", leaves=False)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing

    started = time.perf_counter()
    settings = settings_for(arguments)
    _check_out(arguments.out)
    refuse_existing(arguments.out, arguments.overwrite)
    with (
        streaming.staging_folder() as staging,
        rejects_output(rejects_of(arguments), arguments.overwrite) as rejects,
    ):
        work = prepare(arguments.documents, arguments, staging, settings)
        with _counted(arguments, work, staging, settings) as result:
            found = _frequencies(result, arguments, rejects)
            rejects.counts.documents, rejects.counts.files = found.documents, work.files
            check_rejected(arguments, rejects.counts, result.counters)
            found.write(arguments.out, arguments.overwrite)
    said = documents_read(result.counters, work) + rejects.summary()
    said.append(_features_kept(found, result.counters))
    seconds = time.perf_counter() - started
    said.append(f"wrote {arguments.out} in {seconds:.1f} s")
    print_message(*said)
    return 0


@contextlib.contextmanager
def _counted(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    staging: Path,
    settings: ClusterSettings | None,
) -> Iterator[JobOutput]:
    """Count features; yield the result of the job."""
    from mr_dedup.cli.engine import engine_of
    from mr_dedup.jobs.document_frequencies import DocumentFrequenciesJob

    # usage errors are reported before the work begins
    job = DocumentFrequenciesJob(
        reading=read_options(arguments),
        format=arguments.format,
        features=feature_options(arguments),
        min_documents=arguments.min_documents,
    )
    engine = engine_of(work.runner, arguments, staging, settings)
    with engine.run(job, work.inputs) as output:
        yield output


def _check_out(out: Path) -> None:
    """Raise MrDedupError for a name that --idf of other commands does not accept."""
    if out.suffix.lower() != ".parquet":
        raise MrDedupError(f"{out}: expected a name that ends in .parquet")


def _frequencies(
    result: JobOutput, arguments: argparse.Namespace, rejects: RejectsOutput
) -> DocumentFrequencies:
    """Return what the reducers left; rejects are passed on. In memory: 32 bytes a feature."""
    import numpy as np

    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.jobs.document_frequencies import DOCUMENTS, counts_in
    from mr_dedup.jobs.reading import is_rejects

    documents = 0
    found = [(np.empty(0, np.uint64),) * 2]
    for _, table in result:
        if is_rejects(table):
            rejects.add(table)
        elif table.column_names == [DOCUMENTS]:
            documents += table[DOCUMENTS][0].as_py()
        else:
            found.append(counts_in(table))
    hashes, counts = (np.concatenate(column) for column in zip(*found, strict=True))
    return DocumentFrequencies(
        feature_options(arguments).unweighted, documents, arguments.min_documents, hashes, counts
    )


def _features_kept(found: DocumentFrequencies, counters: dict[str, int]) -> str:
    """Return a line on them, without how many there were if the cluster did not tell."""
    counted = f" of {counters['features']:,}" if counters else ""
    return (
        f"{found.hashes.size:,}{counted} features are in {found.minimum:,} or more of "
        f"{found.documents:,} documents"
    )
