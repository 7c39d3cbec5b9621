"""Sort more fingerprints than fit in memory: in sorted runs on disk, which are merged."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.files.io_errors import writing
from mr_dedup.files.temporary import folder_beside
from mr_dedup.formats import longs

_Fingerprints = NDArray[np.uint64]


def sorted_distinct(
    batches: Iterable[_Fingerprints],
    out: Path,
    *,
    run_count: int = 1 << 26,
    batch_count: int = 1 << 20,
) -> Generator[_Fingerprints, None, None]:
    """Yield the distinct fingerprints of ``batches`` in ascending order, in batches.

    Up to ``run_count`` fingerprints are sorted in memory. More are written, 8 bytes each, as
    sorted runs to a temporary directory beside ``out`` and merged from there; the directory is
    removed when the generator is closed.

    Args:
        batches: fingerprints in any order.
        out: the output file, beside which there is room for temporary files.
        run_count: how many fingerprints to sort in memory, 8 bytes each.
        batch_count: how many fingerprints to write or yield at a time.
    """
    with contextlib.ExitStack() as stack:
        folder = None
        runs: list[Path] = []
        for run in _sorted_runs(batches, run_count):
            pieces = (run[i : i + batch_count] for i in range(0, len(run), batch_count))
            if folder is None and len(run) < run_count:
                yield from _distinct(pieces)
                return
            if folder is None:
                folder = stack.enter_context(folder_beside(out))
            runs.append(folder / str(len(runs)))
            with writing(folder), runs[-1].open("wb") as file:
                for piece in _distinct(pieces):
                    longs.write(file, piece, "little")
        yield from _distinct(_merge(runs, max(1, run_count // (2 * len(runs) + 1))))


def _sorted_runs(batches: Iterable[_Fingerprints], run_count: int) -> Iterator[_Fingerprints]:
    """Yield the fingerprints in sorted runs; each run overwrites the one before it."""
    buffer = np.empty(run_count, dtype=np.uint64)
    filled = 0
    for batch in batches:
        while len(batch):
            taken = batch[: run_count - filled]
            buffer[filled : filled + len(taken)] = taken
            filled += len(taken)
            batch = batch[len(taken) :]
            if filled == run_count:
                buffer.sort()
                yield buffer
                filled = 0
    buffer[:filled].sort()
    if filled:
        yield buffer[:filled]


def _merge(runs: list[Path], batch_count: int) -> Iterator[_Fingerprints]:
    """Yield the fingerprints of sorted files of little-endian longs in ascending order.

    A batch of each file is in memory. Fingerprints up to the smallest of the last ones of all
    batches cannot be preceded by one that is not read yet: they are taken from all batches and
    sorted.
    """
    readers = [longs.read_range(run, byte_order="little", max_count=batch_count) for run in runs]
    heads = [next(reader) for reader in readers]
    while heads:
        bound = min(head[-1] for head in heads)
        cuts = [int(np.searchsorted(head, bound, side="right")) for head in heads]
        taken = np.concatenate([head[:cut] for head, cut in zip(heads, cuts, strict=True)])
        taken.sort()
        yield taken
        heads = [head[cut:] for head, cut in zip(heads, cuts, strict=True)]
        for index in reversed(range(len(heads))):
            if not len(heads[index]):
                following = next(readers[index], None)
                if following is None:
                    del heads[index], readers[index]
                else:
                    heads[index] = following


def _distinct(batches: Iterable[_Fingerprints]) -> Iterator[_Fingerprints]:
    """Yield ascending, non-empty ``batches`` without repeated fingerprints."""
    last = None
    for batch in batches:
        is_new = np.ones(len(batch), dtype=bool)
        is_new[1:] = batch[1:] != batch[:-1]
        is_new[0] = last is None or batch[0] != last
        last = batch[-1]
        yield batch[is_new]
