"""Filter the URLs that are new, and remember them: exactly; URLs can be removed.

  filter   print the URLs that were not seen before, each once, in their order
  add      add URLs, and print nothing
  remove   remove URLs
  stats    print what a store contains, and how full its counters are
  rebuild  rebuild the counters from the store, perhaps larger ones
  folds    count spellings of the same URL, and their differences; changes nothing
  bulk     write the distinct URLs of lists, and how often each occurs, as a job

URLs are lines of FILEs or standard input, also compressed by gzip, zstd or lz4. STORE is a
directory, which one process at a time may write to, or redis://HOST:PORT/DATABASE#NAME, for several
processes. With a directory, URLs are printed before they are stored: if the command is killed, its
last lines may be printed again, and none is lost. With Redis each is printed once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mr_dedup.cli import urls_bulk
from mr_dedup.cli.arguments import count, positive
from mr_dedup.cli.rejects import rejects_to
from mr_dedup.cli.remote_files import add_storage_arguments, input_names, output_file
from mr_dedup.cli.streams import print_message, printable
from mr_dedup.cli.url_arguments import add_form_arguments, url_form
from mr_dedup.errors import MrDedupError
from mr_dedup.progress_bars import progress_bar

if TYPE_CHECKING:
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.formats.url_lines import UrlLines
    from mr_dedup.urls.counting_bloom import BloomShape
    from mr_dedup.urls.filter import Flags, UrlFilter

_ACTIONS = {
    "filter": "print the URLs that are new",
    "add": "add URLs",
    "remove": "remove URLs",
    "stats": "print what a store contains",
    "rebuild": "rebuild the counters",
}

_ADDING = ("filter", "add")
"""Actions that add URLs, to a store that they make if it is missing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what in _ACTIONS.items():
        action = actions.add_parser(name, help=what, description=f"{what.capitalize()}.")
        action.add_argument(
            "--store", required=True, metavar="STORE", help="a directory or redis://…"
        )
        if name in ("filter", "add", "remove"):
            _add_reading(action)
        if name in _ADDING:
            add_form_arguments(action)
            action.add_argument(
                "--sync", action="store_true", help="survive a loss of power too, not only a kill"
            )
        if name != "remove":
            _add_shape(action, name)
    folds = actions.add_parser(
        "folds", help="count spellings of the same URL", description=_folds.__doc__
    )
    _add_reading(folds)
    add_form_arguments(folds)
    bulk = actions.add_parser(
        "bulk", help=urls_bulk.HELP, description=urls_bulk.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    urls_bulk.add_arguments(bulk)
    add_form_arguments(bulk)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", type=input_names, default=["-"], metavar="FILE",
        help="files of URLs, a line each (default: standard input, which is also -)",
    )  # fmt: skip
    parser.add_argument(
        "--rejects",
        type=output_file,
        metavar="FILE",
        help="write lines that are not a URL here, with the reason",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the file of rejects if it exists"
    )
    add_storage_arguments(parser)


def _add_shape(parser: argparse.ArgumentParser, action: str) -> None:
    which = "the rebuilt ones" if action == "rebuild" else "new ones, and of a store in Redis"
    group = parser.add_argument_group("the counters", f"of {which}; they grow by doubling")
    add = group.add_argument
    add(
        "--capacity",
        type=count,
        metavar="N",
        help="URLs that they are for (default 1,000,000)",
    )
    add(
        "--fp-rate", type=float, metavar="P",
        help="the largest rate of false positives, new URLs that are looked up in the store "
        "(default: 0.00014, with the 8 hashes and 20 counters a URL of the paper)",
    )  # fmt: skip
    add(
        "--counter-bits",
        type=positive,
        metavar="BITS",
        help="1 to 8 (default 4)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if arguments.action == "bulk":
        return urls_bulk.run(arguments)
    from mr_dedup.files.outputs import refuse_existing
    from mr_dedup.urls.opening import open_filter

    rejects = getattr(arguments, "rejects", None)
    if rejects is not None:
        refuse_existing(rejects, arguments.overwrite)
    if arguments.action == "folds":
        _folds(arguments)
        return 0
    with open_filter(
        arguments.store,
        form=url_form(arguments) if arguments.action in _ADDING else None,
        shape=_shape(arguments),
        sync=getattr(arguments, "sync", False),
        create=arguments.action in _ADDING,
    ) as url_filter:
        if url_filter.rebuilt:
            print_message(f"{url_filter.rebuilt}: the counters were rebuilt")
        if arguments.action == "stats":
            print("\n".join(_stats(url_filter, arguments.store)))
        elif arguments.action == "rebuild":
            _rebuild(url_filter, arguments)
        else:
            _work(url_filter, arguments)
    return 0


def _work(url_filter: UrlFilter, arguments: argparse.Namespace) -> None:
    """Apply the action to all lines, and print a summary."""
    from mr_dedup.urls.digests import digests_of, formed_lines

    started = time.perf_counter()
    urls = chosen = 0
    with rejects_to(arguments.rejects, arguments.overwrite) as rejects:
        for lines in _with_progress(arguments.files, rejects):
            given, formed = formed_lines(lines, url_filter.form)
            digests = digests_of(formed)
            urls += len(given)
            if arguments.action == "filter":
                flags = url_filter.add_digests(digests, _printing(given))
            elif arguments.action == "add":
                flags = url_filter.add_digests(digests)
            else:
                flags = url_filter.remove_digests(digests)
            chosen += int(flags.sum())
    seconds = time.perf_counter() - started
    what = "removed" if arguments.action == "remove" else "new"
    print_message(
        f"{urls:,} URLs, {chosen:,} {what}, {len(url_filter):,} in the store; "
        f"{urls / seconds:,.0f} URLs a second in {seconds:.1f} s"
    )
    _report_rejected(rejects, arguments)


def _folds(arguments: argparse.Namespace) -> None:
    """Count the URLs of lists that are other spellings of the same URL, by their differences.

    Changes no store.
    """
    from mr_dedup.urls.canonical import UrlForm
    from mr_dedup.urls.digests import formed_lines
    from mr_dedup.urls.folds import FoldTally

    form = url_form(arguments) or UrlForm()
    tally = FoldTally()
    with rejects_to(arguments.rejects, arguments.overwrite) as rejects:
        for lines in _with_progress(arguments.files, rejects):
            tally.add(*formed_lines(lines, form))
    folds = tally.folds()
    print(
        f"{folds.urls:,} URLs, {folds.distinct:,} distinct, {folds.distinct_in_form:,} in the form "
        f"({form.describe()})"
    )
    if folds.reasons:
        print("other spellings of the same URL, by their difference")
        width = max(map(len, folds.reasons))
        print("\n".join(f"  {why:{width}}  {count:,}" for why, count in folds.reasons.items()))
    _report_rejected(rejects, arguments)


def _report_rejected(rejects: Rejects, arguments: argparse.Namespace) -> None:
    if not rejects.count:
        return
    first = rejects.listed[0]
    where = "give --rejects FILE to keep them, and why"
    if arguments.rejects is not None:
        where = f"{printable(str(arguments.rejects))} says why"
    print_message(
        f"lines that are not a URL: {rejects.count:,}, the first in {printable(first.file)}, "
        f"{first.position}: {printable(first.reason)}; {where}"
    )


def _printing(urls: list[bytes]) -> Callable[[Flags], None]:
    """Return a function that prints the flagged ones of ``urls``, batch by batch."""
    waiting = iter(urls)

    def deliver(flags: Flags) -> None:
        out = sys.stdout.buffer
        batch = itertools.islice(waiting, len(flags))
        out.writelines(url + b"\n" for url, flag in zip(batch, flags.tolist(), strict=True) if flag)
        out.flush()

    return deliver


def _with_progress(files: Iterable[str], rejects: Rejects) -> Iterator[UrlLines]:
    from mr_dedup.formats.url_lines import url_lines

    with progress_bar(" URLs") as bar:
        for name in files:
            for lines in url_lines(name, rejects):
                yield lines
                bar.update(len(lines.urls))


def _shape(arguments: argparse.Namespace) -> BloomShape | None:
    """Return the shape of the arguments; None if they have none."""
    from mr_dedup.urls.counting_bloom import PAPER_COUNTER_BITS, PAPER_COUNTERS_A_URL, BloomShape
    from mr_dedup.urls.opening import DEFAULT_CAPACITY

    names = ("capacity", "fp_rate", "counter_bits")
    capacity, rate, bits = (getattr(arguments, name, None) for name in names)
    if capacity is rate is bits is None:
        return None
    capacity = DEFAULT_CAPACITY if capacity is None else capacity
    bits = bits or PAPER_COUNTER_BITS
    try:
        if rate is not None:
            return BloomShape.from_capacity(capacity, rate, bits)
        return BloomShape(capacity, max(1, PAPER_COUNTERS_A_URL * capacity), bits)
    except ValueError as error:
        raise MrDedupError(str(error)) from error


def _rebuild(url_filter: UrlFilter, arguments: argparse.Namespace) -> None:
    started = time.perf_counter()
    url_filter.rebuild(_shape(arguments))
    shape = url_filter.bloom.shape
    print_message(
        f"{len(url_filter):,} URLs counted in {time.perf_counter() - started:.1f} s, in "
        f"{shape.nbytes:,} bytes for {shape.capacity:,}"
    )


def _stats(url_filter: UrlFilter, location: str) -> list[str]:
    """Return the lines of ``stats``."""
    bloom, size = url_filter.bloom, len(url_filter)
    shape, histogram = bloom.shape, bloom.histogram()
    rows = {
        "URLs": f"{size:,}, of a capacity of {shape.capacity:,}",
        "form": url_filter.form.describe(),
        "counters": f"{shape.size:,} of {shape.counter_bits} bits, {shape.hashes} a URL",
        "memory": f"{shape.nbytes:,} bytes, {shape.nbytes / max(1, size):.2f} a URL",
        "in use": f"{1 - histogram[0] / shape.size:.3%} of the counters",
        "full": f"{int(histogram[-1]):,} counters",
        "false positives": f"{bloom.measured_fp_rate():.3e} measured, "
        f"{shape.expected_fp_rate(size):.3e} expected",
        "overflow": f"{shape.overflow_probability(size):.3e} a counter, "
        f"at most {shape.overflow_bound(size):.3e}",
    }
    width = max(map(len, rows))
    return [printable(location), *(f"  {name:{width}}  {value}" for name, value in rows.items())]
