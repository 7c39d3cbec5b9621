"""Compute the simhash fingerprints of documents.

DOCS are files, globs or directories of JSON lines (.jsonl), Parquet, WARC, ARC, text (.txt, .md) or
HTML, each but Parquet also as .gz, .zst or .lz4; - is standard input. The ending of OUT is its
format: .parquet has a row a document (id, fingerprint, length, and --keep-field), .tsv or .txt
lines of fingerprint TAB id, .longs the fingerprints alone. A text without a letter or a digit, such
as an empty one, has the fingerprint of the text as it is. Records that cannot be read are counted
and written to OUT.rejects.jsonl, with file, position and reason.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    check_rejected,
    checked_idf,
    described_features,
    document_frequencies,
    feature_options,
    read_options,
    reading_lines,
)
from mr_dedup.cli.document_inputs import DocumentInputs, prepare
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.rejects import RejectsOutput, rejects_of, rejects_output
from mr_dedup.cli.remote_files import document_name, output_file
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import print_message
from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mr_dedup.engines.engine import JobOutput
    from mr_dedup.engines.inputs import ClusterSettings
    from mr_dedup.formats.fingerprint_parquet import TableWriter
    from mr_dedup.formats.fingerprint_writer import FingerprintWriter


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
        "-o", "--out", type=output_file, required=True, metavar="OUT",
        help="write here",
    )  # fmt: skip
    parser.add_argument(
        "--keep-field", action="append", default=[], metavar="NAME",
        help="a field of the documents that OUT, a .parquet, has as well; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--rejects", type=output_file, metavar="FILE",
        help="where records go that cannot be read (default: OUT.rejects.jsonl)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    add_feature_arguments(parser)
    add_reading_arguments(parser)
    add_runner_arguments(parser, "fingerprint", reduces=False)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing

    started = time.perf_counter()
    settings = settings_for(arguments)
    out = arguments.out
    format = _format_of(out, arguments.keep_field)
    refuse_existing(out, arguments.overwrite)
    with (
        streaming.staging_folder() as staging,
        rejects_output(rejects_of(arguments), arguments.overwrite) as rejects,
    ):
        work = prepare(arguments.documents, arguments, staging, settings)
        with fingerprinted(arguments, work, staging, settings, arguments.keep_field) as result:
            features = described_features(arguments)
            with _writer(out, format, features, arguments) as write:
                copy_rows(result, write, rejects)
                rejects.counts.files = work.files
                check_rejected(arguments, rejects.counts, result.counters)
    _summarise(result.counters, work, rejects, time.perf_counter() - started, out)
    return 0


@contextlib.contextmanager
def fingerprinted(
    arguments: argparse.Namespace,
    work: DocumentInputs,
    staging: Path,
    settings: ClusterSettings | None,
    fields: Sequence[str] = (),
) -> Iterator[JobOutput]:
    """Compute the fingerprints of documents; yield the result of the job."""
    from mr_dedup.cli.engine import engine_of
    from mr_dedup.jobs.fingerprint import FingerprintJob

    # usage errors are reported before the work begins
    read_options(arguments, fields)
    features = feature_options(arguments)
    document_frequencies(arguments)
    job = FingerprintJob(
        reading=read_options(arguments),
        format=arguments.format,
        features=features,
        idf=checked_idf(arguments),
        fields=tuple(fields),
    )
    engine = engine_of(work.runner, arguments, staging, settings)
    with engine.run(job, work.inputs) as output:
        yield output


def copy_rows(result: JobOutput, write: Callable[[pa.Table], None], rejects: RejectsOutput) -> None:
    """Pass the rows that tasks left to ``write``, in the order of the documents; count them."""
    from mr_dedup.jobs.reading import is_rejects

    for _, rows in result:
        if is_rejects(rows):
            rejects.add(rows)
        else:
            rejects.counts.documents += len(rows)
            write(rows)


def _format_of(out: Path, fields: Sequence[str]) -> str:
    """Return the format of ``out``; raises MrDedupError if it cannot be written."""
    from mr_dedup.formats.fingerprint_files import UnknownFormatError, format_by_ending
    from mr_dedup.jobs.fingerprint import check_fields

    try:
        format = format_by_ending(out)
        check_fields(fields)
    except UnknownFormatError as error:
        endings = "expected a name that ends in .parquet, .tsv, .txt or .longs"
        raise MrDedupError(f"{out}: {endings}") from error
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    if format == "packed":
        raise MrDedupError(f"{out}: write .longs, then mr-dedup convert makes it packed")
    if fields and format != "parquet":
        raise MrDedupError(f"--keep-field: needs OUT to be a .parquet, not {out}")
    return format


@contextlib.contextmanager
def _writer(
    out: Path, format: str, features: str, arguments: argparse.Namespace
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield what writes rows of documents to ``out``, which appears whole when the block ends."""
    if format == "parquet":
        with table_writer(out, features, arguments.keep_field, arguments.overwrite) as write:
            yield write
        return
    from mr_dedup.formats.fingerprint_writer import create

    with create(out, overwrite=arguments.overwrite) as file:
        yield partial(_write_to_file, file, format == "text")


@contextlib.contextmanager
def table_writer(
    out: Path, features: str, fields: Sequence[str] = (), overwrite: bool = False
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield what writes rows of documents to a Parquet file."""
    from mr_dedup.formats.fingerprint_parquet import create_table

    with create_table(out, features, fields, overwrite) as table:
        yield partial(_write_to_table, table, list(fields))


def _write_to_table(table: TableWriter, fields: list[str], rows: pa.Table) -> None:
    values, known = _fingerprints(rows)
    lengths = rows["length"].to_numpy()
    kept = rows.select(fields) if fields else None
    table.write(rows["id"].combine_chunks(), values, known, lengths, kept)


def _write_to_file(file: FingerprintWriter, with_ids: bool, rows: pa.Table) -> None:
    values, known = _fingerprints(rows)
    if with_ids:
        file.write_identified(values[known], rows["id"].filter(known).combine_chunks())
    else:
        file.write(values[known])


def _fingerprints(rows: pa.Table) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the fingerprints of rows, and which rows have one."""
    import numpy as np

    column = rows["fingerprint"]
    return column.fill_null(0).to_numpy().view(np.uint64), column.is_valid().to_numpy()


def _summarise(
    counters: dict[str, int],
    work: DocumentInputs,
    rejects: RejectsOutput,
    seconds: float,
    out: Path,
) -> None:
    from mr_dedup.jobs.reading import TEXT_BYTES

    said = documents_read(counters, work) + rejects.summary()
    said.append(f"wrote {out} in {seconds:.1f} s")
    if counters:
        said[-1] += f", {counters[TEXT_BYTES] / seconds / 1e6:,.1f} MB of text a second"
    print_message(*said)


def documents_read(counters: dict[str, int], work: DocumentInputs) -> list[str]:
    """Return lines that say what was read; less where the counters of a cluster are not known."""
    from mr_dedup.jobs.reading import TEXT_BYTES, reading_summary

    if not counters:
        return [work.described]
    return [*reading_lines(work.described, reading_summary(counters), counters[TEXT_BYTES])]
