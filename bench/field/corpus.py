"""``python -m bench.field.corpus GIGABYTES OUT``: make a corpus of real text from packages.

OUT gets ``part-NNNN.parquet``, with columns id, text, kind and package, and ``corpus.json``, last:
counts, what was skipped and why, and the SHA-256 of each package and of all texts. The packages at
the beginning of the manifest are taken until their texts have that many gigabytes, so a smaller
corpus is the beginning of a larger one. A package that its registry no longer has, whose archive
is damaged or has another SHA-256, or whose licence is not an open one is reported and skipped.

A run that was interrupted goes on after the last part it wrote; with more GIGABYTES a corpus
grows. Archives are removed once their part is written, unless ``--keep-archives``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.field.documents import Documents, documents_of
from bench.field.fetching import archive_path, fetch_together
from bench.field.packages import MANIFEST, Package, read_manifest
from bench.field.parts import PART_BYTES, Parts, Summary, total

_AHEAD = 4
"""Packages that are read while the one before them is written: each may be PACKAGE_BYTES."""

_TOGETHER = 40
"""Packages that are fetched by one call of a client that can fetch several."""


_MIN_PARTS = 8


class Source(NamedTuple):
    """Where documents come from.

    Attributes:
        pool: what fetches and reads packages.
        cache: the directory of archives.
        keep_archives: whether they stay there once their part is written.
    """

    pool: Executor
    cache: Path
    keep_archives: bool = False


def make_corpus(
    packages: Sequence[Package],
    max_bytes: int,
    out: Path,
    source: Source,
    *,
    part_bytes: int | None = None,
) -> Summary:
    """Write the documents of the first packages that have ``max_bytes`` of text to ``out``.

    A package is taken whole, so there is somewhat more. ``out`` may have the first parts already.
    A part ends with the package that reaches ``part_bytes`` of text: by default 256 MB, less where
    there would be fewer than 8 parts, as many tools run a task for each file.

    Raises:
        ValueError: ``out`` has parts of other packages.
    """
    part_bytes = part_bytes or min(PART_BYTES, max(1, max_bytes // _MIN_PARTS))
    parts = Parts(out, part_bytes)
    if total(parts.summaries).text_bytes < max_bytes:
        parts.reopen()
    written = total(parts.summaries)
    left = _after(packages, written)
    report = out / "corpus.json"
    if written.text_bytes < max_bytes and left:
        report.unlink(missing_ok=True)
        for group in _grouped(_in_order(left, source), max_bytes, written, part_bytes):
            _report(parts.write(group))
            for documents in [] if source.keep_archives else group:
                archive_path(documents.package, source.cache).unlink(missing_ok=True)
    summary = total(parts.summaries)
    summary.write(report)
    return summary


def _after(packages: Sequence[Package], written: Summary) -> Sequence[Package]:
    """Return the packages that follow those which were written, or failed."""
    if not written.packages:
        return packages
    names = [str(package) for package in packages]
    last = written.packages[-1].package
    begin = names.index(last) + 1 if last in names else 0
    tried = [name for name in names[:begin] if name not in written.errors]
    if tried != [package.package for package in written.packages]:
        raise ValueError("OUT has parts of another manifest: remove it, or name another OUT")
    return packages[begin:]


def _grouped(
    found: Iterator[Documents], max_bytes: int, written: Summary, part_bytes: int
) -> Iterator[list[Documents]]:
    """Yield the packages of one part after another, until there are ``max_bytes``."""
    size, group, group_bytes = written.text_bytes, [], 0
    for documents in found:
        group.append(documents)
        group_bytes += documents.text_bytes
        size += documents.text_bytes
        if group_bytes >= part_bytes or size >= max_bytes:
            yield group
            group, group_bytes = [], 0
        if size >= max_bytes:
            return
    if group:
        yield group


def _in_order(packages: Sequence[Package], source: Source) -> Iterator[Documents]:
    """Yield the documents of the packages in their order; some are made ahead."""
    pool, cache, _ = source
    waiting: deque[Future[Documents]] = deque()
    for number, package in enumerate(packages):
        if number % _TOGETHER == 0:
            fetch_together(packages[number : number + _TOGETHER], cache)
        waiting.append(pool.submit(documents_of, package, cache))
        if len(waiting) > _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _report(summary: Summary) -> None:
    for error in summary.errors.values():
        print(error, file=sys.stderr)
    print(
        f"{len(summary.packages)} packages, {summary.documents} documents, "
        f"{summary.text_bytes / 1e6:.0f} MB",
        file=sys.stderr,
        flush=True,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Make the corpus that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.corpus")
    parser.add_argument("gigabytes", type=float, help="how much text")
    parser.add_argument("out", type=Path, help="the directory to make, to resume or to enlarge")
    parser.add_argument("--cache", type=Path, default=Path(".field/archives"))
    parser.add_argument("--keep-archives", action="store_true", help="do not remove them after use")
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    options = parser.parse_args(argv)
    try:
        packages = read_manifest(options.manifest)
        # workers that are forked may inherit locks that a thread has
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            source = Source(pool, options.cache, options.keep_archives)
            summary = make_corpus(packages, int(options.gigabytes * 1e9), options.out, source)
            pool.shutdown(cancel_futures=True)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    size = f"{summary.text_bytes / 1e9:.2f} GB"
    print(
        f"{summary.documents} documents, {size} of text in {options.out}; "
        f"{len(summary.errors)} packages skipped"
    )


if __name__ == "__main__":
    main()
