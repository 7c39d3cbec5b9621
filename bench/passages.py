"""``python -m bench.passages``: whether passages are those of a suffix array, and what they cost.

With ``--check MB`` it makes pages of so many megabytes, plants passages in one of ten, and compares
the occurrences that the command writes with those of a suffix array of all words (pydivsufsort); a
difference is an error. With ``--sizes GB …`` it runs the command over made-up pages of each size,
with and without cuts, and prints seconds, CPU seconds, memory and disk, and how much of the
planted passages is gone. ``--datatrove PYTHON`` is an interpreter with datatrove, and
``--substring PROGRAM`` the dedup_dataset of deduplicate-text-datasets, which get the same pages; a
tool that takes longer than ``--limit`` is ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.machine import describe
from bench.passage_rivals import Run, Substring, datatrove, datatrove_pages
from bench.planted_passages import Left, Parts, Written, texts, write_pages
from bench.processes import Usage, measure

SIZE = 50
_WORD = re.compile(r"[^\W_]+")


class Rivals(NamedTuple):
    """Programs of other tools, and the seconds after which each is ended."""

    datatrove: str | None
    substring: Path | None
    limit_seconds: float


def main() -> None:
    """Print what was measured; exit with 1 if a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=float, metavar="MB", help="compare with a suffix array")
    parser.add_argument("--sizes", type=float, nargs="*", metavar="GB", default=[])
    parser.add_argument("--memory", default="4GB", help="for mr-dedup (default 4GB)")
    parser.add_argument("--datatrove", metavar="PYTHON", help="an interpreter with datatrove")
    parser.add_argument("--substring", type=Path, metavar="PROGRAM", help="its dedup_dataset")
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", default=600, help="for a rival (default 600)"
    )
    parser.add_argument("--work", type=Path, help="where files go (default: a temporary directory)")
    arguments = parser.parse_args()
    print(describe(), flush=True)
    if arguments.check:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            check(Path(folder), int(arguments.check * 1e6))
    rivals = Rivals(arguments.datatrove, arguments.substring, arguments.limit)
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        parts = Parts(Path(work, "parts"))
        for size in arguments.sizes:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                cost(Path(folder), parts, int(size * 1e9), arguments.memory, rivals)


def _command(source: Path, out: Path, *more: str) -> Usage:
    words = [sys.executable, "-m", "mr_dedup", "passages", str(source), "-o", str(out), *more]
    temporary = out.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    # the pages themselves are beside these
    return measure(words, variables={"TMPDIR": str(temporary)}, folder=out.parent)


# equality


def check(folder: Path, size_bytes: int) -> None:
    """Compare the occurrences of passages with those by a suffix array; print their number."""
    source = folder / "pages.jsonl"
    pages = write_pages(source, size_bytes).pages
    out = folder / "results" / "out"
    out.parent.mkdir()
    usage = _command(source, out)
    rows = pq.read_table(out / "occurrences", columns=["id", "start", "end"])
    columns = (rows["id"].to_pylist(), rows["start"].to_pylist(), rows["end"].to_pylist())
    found = list(zip(*columns, strict=True))
    expected = list(_by_suffix_array(source))
    print(
        f"\n{size_bytes / 1e6:,.0f} MB, {pages:,} pages: {len(found):,} occurrences by mr-dedup, "
        f"{len(expected):,} by a suffix array; CPU {usage.cpu_seconds:.1f} s"
    )
    if found != expected:
        print("bench: they differ", file=sys.stderr)
        raise SystemExit(1)
    print("they are equal", flush=True)


def _by_suffix_array(source: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the id and the offsets of each passage, by a suffix array of numbers of words."""
    import pydivsufsort

    numbers: dict[str, int] = {}
    tokens: list[int] = []
    edges, ids, spans = [0], [], []
    for line in source.open():
        record = json.loads(line)
        for word in _WORD.finditer(record["text"]):
            tokens.append(numbers.setdefault(word[0].casefold(), len(numbers)))
            spans.append(word.span())
        ids.append(record["id"])
        edges.append(len(tokens))
    values = np.array(tokens, np.uint32)
    # three bytes a word: only suffixes that begin with a word are looked at
    content = np.stack([values >> 16, values >> 8 & 255, values & 255], 1).astype(np.uint8).ravel()
    order = pydivsufsort.divsufsort(content)
    shared = pydivsufsort.kasai(content, order)
    # of each suffix with the next one; a group has the same first words
    group = np.cumsum(np.append(True, shared[:-1] < 3 * SIZE))
    aligned = order % 3 == 0
    start, group = order[aligned] // 3, group[aligned]
    page = np.searchsorted(edges, start, "right") - 1
    inside = start + SIZE <= np.array(edges)[page + 1]
    start, group, page = start[inside], group[inside], page[inside]
    repeated = start[_in_two(group, page)]
    yield from _joined(np.sort(repeated), edges, ids, spans)


def _in_two(group: NDArray[Any], page: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which windows are in groups of several pages."""
    pairs = np.unique(np.stack([group, page], 1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=int(group.max(initial=0)) + 1)
    found: NDArray[np.bool_] = counts[group] >= 2
    return found


def _joined(
    starts: NDArray[Any], edges: list[int], ids: list[str], spans: list[tuple[int, int]]
) -> Iterator[tuple[str, int, int]]:
    pages = np.searchsorted(edges, starts, "right") - 1
    new = np.append(True, (np.diff(starts) > SIZE) | (np.diff(pages) != 0))[: starts.size]
    first = np.flatnonzero(new)
    last = np.append(first[1:], starts.size) - 1
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        stop = int(starts[end]) + SIZE - 1
        yield ids[int(pages[begin])], spans[int(starts[begin])][0], spans[stop][1]


# cost

_LINES_UP_TO_BYTES = 1_000_000_000
"""Lines, all cuts, what they leave, and restore, are measured up to this size."""


def cost(folder: Path, parts: Parts, size_bytes: int, memory: str, rivals: Rivals) -> None:
    """Print what the commands take over made-up pages, and what they leave of these."""
    source = folder / "pages"
    written = parts.write(source, size_bytes)
    print(
        f"\n{written.size_bytes / 1e9:.1f} GB, {written.pages:,} pages, "
        f"{len(written.planted):,} planted passages",
        flush=True,
    )
    results = folder / "results"
    _own(source, results, written, memory)
    shutil.rmtree(results)
    for unit in ("sentences", "lines") if rivals.datatrove else ():
        assert rivals.datatrove
        run = datatrove(rivals.datatrove, source, results, unit, rivals.limit_seconds)
        _print_run(f"datatrove, 3 {unit}", run, written)
        if run.usage.is_complete:
            _print_left(source, written, datatrove_pages(results))
        shutil.rmtree(results)
    if rivals.substring:
        substring = Substring(rivals.substring, source, results)
        run = substring.run(rivals.limit_seconds)
        _print_run("deduplicate-text-datasets", run, written)
        if run.usage.is_complete:
            _print_left(source, written, substring.pages())


def _own(source: Path, results: Path, written: Written, memory: str) -> None:
    """Measure mr-dedup."""
    is_small = written.size_bytes <= _LINES_UP_TO_BYTES * 1.1
    out = results / "out"
    results.mkdir()
    _print("passages", _command(source, out, "--memory", memory), written)
    summary = json.loads((out / "summary.json").read_text())
    share = summary["tokens_in_passages"] / summary["tokens"]
    print(f"  {share:.1%} of the words are in passages", flush=True)
    for cut in ("all", "all-but-first") if is_small else ("all-but-first",):
        shutil.rmtree(out)
        usage = _command(source, out, "--memory", memory, "--cut", cut)
        _print(f"passages --cut {cut}", usage, written)
        if is_small:
            found = ((id, text.encode()) for id, text in texts((out / "documents").iterdir()))
            _print_left(source, written, found)
    if is_small:
        again = results / "again"
        command = [sys.executable, "-m", "mr_dedup", "restore", str(out), "-o", str(again)]
        _print("restore", measure(command, folder=results), written)
        equal = _content(again) == _content(source)
        print(f"    the same bytes as the pages: {'yes' if equal else 'no'}", flush=True)
        shutil.rmtree(again)
        shutil.rmtree(out)
        usage = _command(source, out, "--memory", memory, "--unit", "lines")
        _print("passages --unit lines", usage, written)


def _content(folder: Path) -> str:
    """Return a checksum of all files of a directory, one after another."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("[!.]*")):
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


def _print_run(name: str, run: Run, written: Written) -> None:
    _print(name, run.usage, written)
    if not run.usage.is_complete:
        print(f"    not finished: ended in step {run.step}", flush=True)


def _print(name: str, usage: Usage, written: Written) -> None:
    gigabytes = written.size_bytes / 1e9
    print(
        f"  {name:<30} {usage.seconds:7.1f} s, {gigabytes * 1e3 / usage.seconds:6.1f} MB/s, "
        f"CPU {usage.cpu_seconds / gigabytes:7.1f} s/GB, "
        f"peak {usage.peak_bytes / 1e6:7,.0f} MB of memory, "
        f"{usage.disk_bytes / 1e6:7,.0f} MB of disk",
        flush=True,
    )


def _print_left(source: Path, written: Written, after: Iterable[tuple[str, bytes]]) -> None:
    """Compare pages with those that a tool left, in the same order; it may drop some."""
    left = Left(written.planted)
    remaining = iter(after)
    next_id, text_left = next(remaining, ("", b""))
    for id, text in texts(source.iterdir()):
        if id == next_id:
            left.add(id, text, text_left)
            next_id, text_left = next(remaining, ("", b""))
        else:
            left.add(id, text, b"")
    print(f"    {left}", flush=True)


if __name__ == "__main__":
    main()
