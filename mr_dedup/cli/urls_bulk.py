"""The action ``bulk`` of ``mr-dedup urls``: lists of URLs to distinct ones, counted, by a job."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.document_inputs import DocumentInputs, prepare
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.rejects import rejects_of, rejects_output
from mr_dedup.cli.remote_files import add_storage_arguments, document_name, output_file
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import print_message
from mr_dedup.cli.url_arguments import url_form
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings
    from mr_dedup.pipeline.distinct_urls import DistinctUrls, StoreUpdate
    from mr_dedup.urls.canonical import UrlForm

HELP = "write the distinct URLs of lists, and how often each is in them"

DESCRIPTION = """\
Write the distinct URLs of lists, and how often each is in them: a line COUNT TAB URL for each, as
it was first spelled, in the order in which they come first. Runs as a job, on all cores or nodes.

LISTS are files, globs or directories of URLs, a line each, also .gz and .zst; - is standard input.
With --store, URLs that are in it already are skipped, and all are added once OUT is there: all of
them or, if the command is killed, none. A store that is missing is made.

Lines that are not a URL are counted and written to OUT.rejects.jsonl, with file, line and reason.
"""

_SMALL_BYTES = 4 << 20
"""Lists that take one process about as long as it takes to start several: a second."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the action to ``parser``, but for the form of URLs."""
    from mr_dedup.jobs.urls import LIST_FORMAT

    parser.add_argument(
        "lists", nargs="+", type=document_name, metavar="LISTS",
        help="files, globs or directories; -",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=output_file, required=True, metavar="OUT", help="write here"
    )
    parser.add_argument(
        "--store",
        type=_folder,
        metavar="DIR",
        help="skip the URLs in it, and add the others",
    )
    parser.add_argument(
        "--rejects", type=output_file, metavar="FILE",
        help="write lines that are not a URL here, with the reason (default: OUT.rejects.jsonl)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.set_defaults(format=LIST_FORMAT)
    add_runner_arguments(parser, "urls bulk", "the lists are", leaves=False)
    add_storage_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the action; return its exit code."""
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing
    from mr_dedup.pipeline.distinct_urls import StoreUpdate

    started = time.perf_counter()
    settings = settings_for(arguments)
    form = _form(arguments)
    out = arguments.out
    refuse_existing(out, arguments.overwrite)
    with (
        streaming.staging_folder() as staging,
        StoreUpdate(arguments.store, form) as remembering,
    ):
        with rejects_output(rejects_of(arguments), arguments.overwrite) as rejects:
            work = prepare(arguments.lists, arguments, staging, settings, _SMALL_BYTES)
            with _distinct(arguments, form, work, staging, settings) as urls:
                for table in urls.rejects():
                    rejects.add(table)
                counts = _written(urls, out, remembering, arguments.overwrite)
        # not before OUT is there: if the command is killed in between, the store is as it was
        size = remembering.add()
    summary = [f"files: {work.files:,}, {counts.describe()}, rejected: {rejects.count:,}"]
    if arguments.store is not None:
        summary.append(
            f"{counts.distinct - counts.new:,} were in {arguments.store} "
            f"already, {counts.new:,} are new, {size:,} in it now"
        )
    summary += rejects.summary("line", "could not be read as a URL")
    seconds = time.perf_counter() - started
    summary.append(
        f"wrote {arguments.out} in {seconds:.1f} s, {counts.urls / seconds:,.0f} URLs a second"
    )
    print_message(*summary)
    return 0


@dataclass
class _Counts:
    """How many URLs were read, how many of them are distinct, and how many of these new."""

    urls: int = 0
    distinct: int = 0
    new: int = 0

    def describe(self) -> str:
        return f"URLs: {self.urls:,}, distinct: {self.distinct:,}"


def _form(arguments: argparse.Namespace) -> UrlForm:
    """Return the form of the store, or of the arguments; MrDedupError if they differ."""
    from mr_dedup.urls.canonical import UrlForm
    from mr_dedup.urls.opening import contains_store, open_filter

    wanted = url_form(arguments)
    if arguments.store is not None and contains_store(arguments.store):
        with open_filter(arguments.store, form=wanted, create=False) as url_filter:
            return url_filter.form
    return wanted or UrlForm()


@contextlib.contextmanager
def _distinct(
    arguments: argparse.Namespace,
    form: UrlForm,
    work: DocumentInputs,
    staging: Path,
    settings: ClusterSettings | None,
) -> Iterator[DistinctUrls]:
    """Run the job; yield its distinct URLs."""
    from mr_dedup.cli.engine import engine_of
    from mr_dedup.jobs.urls import UrlsJob
    from mr_dedup.pipeline.distinct_urls import DistinctUrls

    engine = engine_of(work.runner, arguments, staging, settings)
    with (
        engine.run(UrlsJob(form=form), work.inputs) as output,
        DistinctUrls(output) as urls,
    ):
        yield urls


def _written(urls: DistinctUrls, out: Path, remembering: StoreUpdate, overwrite: bool) -> _Counts:
    """Write the URLs that are new to ``out``, which appears whole; return how many there were."""
    import numpy as np

    from mr_dedup.files.outputs import whole_file
    from mr_dedup.formats.compression import compressing, compression_by_suffix
    from mr_dedup.jobs.urls import format_lines

    counts = _Counts()
    with whole_file(out, overwrite) as file, compressing(file, compression_by_suffix(out)) as lines:
        for rows in urls.by_position():
            are_new = remembering.are_new(rows)
            new = rows if are_new.all() else rows.take(np.flatnonzero(are_new))
            lines.write(format_lines(new))
            counts.urls += int(rows.visits.sum())
            counts.distinct += len(rows)
            counts.new += len(new)
    return counts


def _folder(text: str) -> Path:
    if is_uri(text):
        raise argparse.ArgumentTypeError(
            f"{text}: not a directory; URLs are added as one change, which others would wait for"
        )
    return Path(text)
