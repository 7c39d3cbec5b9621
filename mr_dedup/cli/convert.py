"""Convert fingerprint files to another format, several into one.

INPUT are files, globs or folders (all files below) of longs (.longs), text (.txt, .tsv) or packed
(.fpz) fingerprints, each also as .gz or .zst, or of Parquet (.parquet) with a column 'fingerprint';
OUT is what its ending says, but not Parquet. Longs and text keep the order and the repeats of their
inputs; ids stay behind. A packed OUT is sorted and holds each fingerprint once: more than fit in
512 MB are sorted in runs, in a temporary folder beside OUT that takes 8 bytes each.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.streams import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mr_dedup.formats.fingerprint_files import FingerprintFile

HELP = "convert fingerprint files between formats"

RUN_COUNT = 1 << 26
"""Fingerprints sorted in memory at a time, 8 bytes each."""

_BATCH_COUNT = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS, WRITTEN_FORMATS

    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="files, globs or folders")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="write here")
    parser.add_argument(
        "--from", dest="from_format", choices=FORMATS, help="format of INPUT, if names do not say"
    )
    parser.add_argument(
        "--to",
        dest="to_format",
        choices=WRITTEN_FORMATS,
        help="format of OUT, if its name does not say",
    )
    parser.add_argument(
        "--byte-order",
        choices=BYTE_ORDERS,
        default="big",
        help="of longs that are read (default big); those written are big-endian",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.formats.fingerprint_writer import create, format_to_write
    from mr_dedup.formats.inputs import expand
    from mr_dedup.formats.outputs import refuse_existing

    out: Path = arguments.out
    to_format = format_to_write(out, arguments.to_format)
    # before the work rather than after it
    refuse_existing(out, arguments.overwrite)
    files = [
        FingerprintFile.detect(path, format=arguments.from_format, byte_order=arguments.byte_order)
        for path in expand(arguments.inputs)
    ]
    read = _Counted(files)
    with create(out, format=to_format, overwrite=arguments.overwrite) as writer:
        wanted = _ascending(read.batches(), out) if to_format == "packed" else read.batches()
        # closed here and now, whatever happens, so that temporary files never stay
        with contextlib.closing(wanted) as batches:
            for batch in batches:
                writer.write(batch)
    sources = "1 file" if len(files) == 1 else f"{len(files):,} files"
    kind = "distinct fingerprints" if to_format == "packed" else "fingerprints"
    each = f", {out.stat().st_size / writer.count:.3f} bytes each" if writer.count else ""
    print(
        f"mr-dedup: read {read.count:,} fingerprints from {sources}; "
        f"wrote {writer.count:,} {kind} to {printable(str(out))}{each}",
        file=sys.stderr,
    )
    return 0


class _Counted:
    """The fingerprints of several files, batch by batch, with progress on a terminal."""

    def __init__(self, files: list[FingerprintFile]) -> None:
        self.count = 0
        self._files = files

    def batches(self) -> Generator[NDArray[np.uint64], None, None]:
        from tqdm import tqdm

        counts = [file.count() for file in self._files]
        total = None if None in counts else sum(count or 0 for count in counts)
        with tqdm(
            total=total, unit=" fingerprints", unit_scale=True, leave=False, disable=None
        ) as bar:
            for file in self._files:
                for batch in file.batches(max_count=_BATCH_COUNT):
                    self.count += len(batch)
                    bar.update(len(batch))
                    yield batch


def _ascending(
    batches: Iterable[NDArray[np.uint64]], out: Path
) -> Generator[NDArray[np.uint64], None, None]:
    """Yield the distinct fingerprints of ``batches`` in ascending order.

    Holds RUN_COUNT of them; where there are more, sorted runs go to a folder beside ``out`` and
    are merged from there.
    """
    from mr_dedup.formats import longs
    from mr_dedup.formats.outputs import folder_beside

    with contextlib.ExitStack() as stack:
        folder = None
        runs: list[Path] = []
        for run in _sorted_runs(batches):
            pieces = (run[i : i + _BATCH_COUNT] for i in range(0, len(run), _BATCH_COUNT))
            if folder is None and len(run) < RUN_COUNT:
                yield from _without_repeats(pieces)
                return
            if folder is None:
                folder = stack.enter_context(folder_beside(out))
            runs.append(folder / str(len(runs)))
            with runs[-1].open("wb") as file:
                for piece in _without_repeats(pieces):
                    longs.write(file, piece, "little")
        yield from _without_repeats(_merge(runs))


def _sorted_runs(batches: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield what ``batches`` hold, RUN_COUNT sorted together; each run overwrites the last."""
    import numpy as np

    buffer = np.empty(RUN_COUNT, dtype=np.uint64)
    filled = 0
    for batch in batches:
        while len(batch):
            taken = batch[: RUN_COUNT - filled]
            buffer[filled : filled + len(taken)] = taken
            filled += len(taken)
            batch = batch[len(taken) :]
            if filled == RUN_COUNT:
                buffer.sort()
                yield buffer
                filled = 0
    buffer[:filled].sort()
    if filled:
        yield buffer[:filled]


def _merge(runs: list[Path]) -> Iterator[NDArray[np.uint64]]:
    """Yield what files of ascending little-endian longs hold, in ascending order.

    Holds a batch of each. What is at most the smallest of their last fingerprints can have
    nothing before it in a batch not yet read, so it is taken from all of them and sorted.
    """
    import numpy as np

    from mr_dedup.formats import longs

    batch_count = max(1, RUN_COUNT // (2 * len(runs) + 1))
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


def _without_repeats(batches: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield the ascending ``batches``, none of them empty, each fingerprint once."""
    import numpy as np

    last = None
    for batch in batches:
        is_new = np.ones(len(batch), dtype=bool)
        is_new[1:] = batch[1:] != batch[:-1]
        is_new[0] = last is None or batch[0] != last
        last = batch[-1]
        yield batch[is_new]
