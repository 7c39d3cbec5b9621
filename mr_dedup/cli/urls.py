"""Tell which URLs are new, and remember them: exactly, and with the power to forget.

  filter   print the URLs that were not seen before, each once, in their order
  add      remember URLs, and print nothing
  remove   forget URLs
  stats    say what a store holds, and how full its counters are
  rebuild  fill the counters anew from the store, wider if asked for
  folds    count what the form of URLs makes one, and why; remembers nothing
  bulk     write the distinct URLs of lists, and how often each is in them, as a job

URLs come a line from FILEs or standard input, also as gzip or zstd data. PLACE is a folder, which
one process at a time may write to, or redis://HOST:PORT/DATABASE#NAME, for several. What was
printed from a folder is remembered after that: if the command is killed, its last lines may come
again, and none is lost. From Redis each comes once.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli import urls_bulk
from mr_dedup.cli.arguments import count, positive
from mr_dedup.cli.streams import printable

if TYPE_CHECKING:
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.formats.url_lines import UrlLines
    from mr_dedup.urls.counting_bloom import BloomShape
    from mr_dedup.urls.filter import Flags, UrlFilter

_ACTIONS = {
    "filter": "print the URLs that are new",
    "add": "remember URLs",
    "remove": "forget URLs",
    "stats": "say what a store holds",
    "rebuild": "fill the counters anew",
}

_SEEING = ("filter", "add")
"""Actions that remember URLs, in a store that they may have to make."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what in _ACTIONS.items():
        action = actions.add_parser(name, help=what, description=f"{what.capitalize()}.")
        action.add_argument("--store", required=True, metavar="PLACE", help="a folder or redis://…")
        if name in ("filter", "add", "remove"):
            _add_reading(action)
        if name in _SEEING:
            _add_form(action)
            action.add_argument(
                "--sync", action="store_true", help="survive a loss of power too, not only a kill"
            )
        if name != "remove":
            _add_shape(action, name)
    folds = actions.add_parser(
        "folds", help="count what their form makes one", description=_folds.__doc__
    )
    _add_reading(folds)
    _add_form(folds)
    bulk = actions.add_parser(
        "bulk", help=urls_bulk.HELP, description=urls_bulk.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    urls_bulk.add_arguments(bulk)
    _add_form(bulk)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", default=["-"], metavar="FILE",
        help="files of URLs, a line each (default: standard input, which is also -)",
    )  # fmt: skip
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="where lines go that are no URL, and why"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the file of rejects if it exists"
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    from mr_dedup.jobs.url_options import add_form_options

    group = parser.add_argument_group(
        "the form of URLs", "of a new store; an old one has its own, and refuses another"
    )
    add_form_options(group.add_argument)


def _add_shape(parser: argparse.ArgumentParser, action: str) -> None:
    when = "asked for" if action == "rebuild" else "new, or of Redis, which are this process's own"
    group = parser.add_argument_group(
        "the counters", f"where they are {when}; they grow by doubling"
    )
    add = group.add_argument
    add("--capacity", type=count, metavar="N", help="URLs they are for (default 1,000,000)")
    add(
        "--fp-rate", type=float, metavar="P",
        help="the share of new URLs that may be looked up in vain (default: 0.00014, with the 8 "
        "hashes and 20 counters a URL of the paper)",
    )  # fmt: skip
    add("--counter-bits", type=positive, metavar="BITS", help="of a counter, 1 to 8 (default 4)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if arguments.action == "bulk":
        return urls_bulk.run(arguments)
    from mr_dedup.formats.outputs import refuse_existing
    from mr_dedup.jobs.url_options import url_form
    from mr_dedup.urls.opening import open_filter

    rejects = getattr(arguments, "rejects", None)
    if rejects is not None:
        refuse_existing(rejects, arguments.overwrite)
    if arguments.action == "folds":
        _folds(arguments)
        return 0
    with open_filter(
        arguments.store,
        form=url_form(arguments) if arguments.action in _SEEING else None,
        shape=_shape(arguments),
        sync=getattr(arguments, "sync", False),
        create=arguments.action in _SEEING,
    ) as url_filter:
        if url_filter.rebuilt:
            _say(f"{url_filter.rebuilt}: the counters were filled anew")
        if arguments.action == "stats":
            print("\n".join(_stats(url_filter, arguments.store)))
        elif arguments.action == "rebuild":
            _rebuild(url_filter, arguments)
        else:
            _work(url_filter, arguments)
    return 0


@dataclass
class _Done:
    """What was done so far."""

    urls: int = 0
    chosen: int = 0


def _work(url_filter: UrlFilter, arguments: argparse.Namespace) -> None:
    """Do what the action says with all lines, and say so."""
    from mr_dedup.urls.digests import digests_of, formed_lines

    started = time.perf_counter()
    done = _Done()
    with _rejects(arguments) as rejects:
        for lines in _with_progress(arguments.files, rejects):
            urls, formed = formed_lines(lines, url_filter.form)
            digests = digests_of(formed)
            done.urls += len(urls)
            if arguments.action == "filter":
                flags = url_filter.add_digests(digests, _printing(urls))
            elif arguments.action == "add":
                flags = url_filter.add_digests(digests)
            else:
                flags = url_filter.remove_digests(digests)
            done.chosen += int(flags.sum())
    seconds = time.perf_counter() - started
    chosen = "forgotten" if arguments.action == "remove" else "new"
    _say(
        f"{done.urls:,} URLs, {done.chosen:,} {chosen}, {len(url_filter):,} in the store; "
        f"{done.urls / seconds:,.0f} URLs a second in {seconds:.1f} s"
    )
    _say_rejected(rejects, arguments)


def _folds(arguments: argparse.Namespace) -> None:
    """Count the URLs of lists that are spelled otherwise than others which are the same, and why.

    Nothing is remembered.
    """
    from mr_dedup.jobs.url_options import url_form
    from mr_dedup.urls.canonical import UrlForm
    from mr_dedup.urls.digests import formed_lines
    from mr_dedup.urls.folds import FoldTally

    form = url_form(arguments) or UrlForm()
    tally = FoldTally()
    with _rejects(arguments) as rejects:
        for lines in _with_progress(arguments.files, rejects):
            tally.add(*formed_lines(lines, form))
    folds = tally.folds()
    print(
        f"{folds.urls:,} URLs, {folds.distinct:,} distinct, {folds.distinct_in_form:,} in the form "
        f"({form.describe()})"
    )
    if folds.reasons:
        print("folded with another one, and spelled with")
        width = max(map(len, folds.reasons))
        print("\n".join(f"  {why:{width}}  {count:,}" for why, count in folds.reasons.items()))
    _say_rejected(rejects, arguments)


def _say_rejected(rejects: Rejects, arguments: argparse.Namespace) -> None:
    if not rejects.count:
        return
    first = rejects.listed[0]
    where = "give --rejects FILE to keep them, and why"
    if arguments.rejects is not None:
        where = f"{printable(str(arguments.rejects))} says why"
    _say(
        f"lines that are no URL: {rejects.count:,}, the first in {printable(first.file)}, "
        f"{first.place}: {printable(first.reason)}; {where}"
    )


def _printing(urls: list[bytes]) -> Callable[[Flags], None]:
    """Return what prints those of ``urls`` that are flagged, batch by batch."""
    waiting = iter(urls)

    def deliver(flags: Flags) -> None:
        out = sys.stdout.buffer
        batch = itertools.islice(waiting, len(flags))
        out.writelines(url + b"\n" for url, flag in zip(batch, flags.tolist(), strict=True) if flag)
        out.flush()

    return deliver


def _with_progress(files: Iterable[str], rejects: Rejects) -> Iterator[UrlLines]:
    from tqdm import tqdm

    from mr_dedup.formats.url_lines import url_lines

    with tqdm(unit=" URLs", unit_scale=True, leave=False, disable=None) as bar:
        for name in files:
            for lines in url_lines(name, rejects):
                yield lines
                bar.update(len(lines.urls))


@contextlib.contextmanager
def _rejects(arguments: argparse.Namespace) -> Iterator[Rejects]:
    """Yield what takes rejected lines; the file is there if there were any, and whole."""
    from mr_dedup.formats.documents.rejects import Rejects, rejects_file

    if arguments.rejects is None:
        yield Rejects()
        return
    with rejects_file(arguments.rejects, arguments.overwrite) as rejects:
        yield rejects
    if not rejects.count:
        arguments.rejects.unlink()


def _shape(arguments: argparse.Namespace) -> BloomShape | None:
    """Return the shape that the arguments ask for; None if they ask for none."""
    from mr_dedup.errors import MrDedupError
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
    _say(
        f"{len(url_filter):,} URLs counted in {time.perf_counter() - started:.1f} s, in "
        f"{shape.nbytes:,} bytes for {shape.capacity:,}"
    )


def _stats(url_filter: UrlFilter, place: str) -> list[str]:
    """Return the lines of ``stats``."""
    bloom, held = url_filter.bloom, len(url_filter)
    shape, histogram = bloom.shape, bloom.histogram()
    rows = {
        "URLs": f"{held:,}, of a capacity of {shape.capacity:,}",
        "form": url_filter.form.describe(),
        "counters": f"{shape.size:,} of {shape.counter_bits} bits, {shape.hashes} a URL",
        "memory": f"{shape.nbytes:,} bytes, {shape.nbytes / max(1, held):.2f} a URL",
        "in use": f"{1 - histogram[0] / shape.size:.3%} of the counters",
        "full": f"{int(histogram[-1]):,} counters",
        "false positives": f"{bloom.measured_fp_rate():.3e} measured, "
        f"{shape.expected_fp_rate(held):.3e} expected",
        "overflow": f"{shape.overflow_probability(held):.3e} a counter, "
        f"at most {shape.overflow_bound(held):.3e}",
    }
    width = max(map(len, rows))
    return [printable(place), *(f"  {name:{width}}  {value}" for name, value in rows.items())]


def _say(message: str) -> None:
    print(f"mr-dedup: {message}", file=sys.stderr)
