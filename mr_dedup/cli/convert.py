"""Convert fingerprint files to another format, several into one.

INPUT are files, globs or folders (all files below) of longs (.longs), text (.txt, .tsv) or packed
(.fpz) fingerprints, each also as .gz or .zst; OUT is what its ending says. Longs and text keep the
order and the repeats of their inputs. A packed OUT is sorted and holds each fingerprint once: more
than fit in 512 MB are sorted in runs, in a temporary folder beside OUT that takes 8 bytes each.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
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

_BLOCK_COUNT = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="files, globs or folders")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="write here")
    parser.add_argument(
        "--from", dest="from_format", choices=FORMATS, help="format of INPUT, if names do not say"
    )
    parser.add_argument(
        "--to", dest="to_format", choices=FORMATS, help="format of OUT, if its name does not say"
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
    from mr_dedup.formats.fingerprint_files import FingerprintFile, create, format_by_ending
    from mr_dedup.formats.inputs import expand
    from mr_dedup.formats.outputs import refuse_existing

    out: Path = arguments.out
    to_format = arguments.to_format or format_by_ending(out)
    # before the work rather than after it
    refuse_existing(out, arguments.overwrite)
    files = [
        FingerprintFile.detect(path, format=arguments.from_format, byte_order=arguments.byte_order)
        for path in expand(arguments.inputs)
    ]
    read = _Counted(files)
    with create(out, format=to_format, overwrite=arguments.overwrite) as writer:
        wanted = _ascending(read.blocks(), out) if to_format == "packed" else read.blocks()
        # closed here and now, whatever happens, so that temporary files never stay
        with contextlib.closing(wanted) as blocks:
            for block in blocks:
                writer.write(block)
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
    """The fingerprints of several files, block by block, with progress on a terminal."""

    def __init__(self, files: list[FingerprintFile]) -> None:
        self.count = 0
        self._files = files

    def blocks(self) -> Generator[NDArray[np.uint64], None, None]:
        from tqdm import tqdm

        counts = [file.count() for file in self._files]
        total = None if None in counts else sum(count or 0 for count in counts)
        with tqdm(
            total=total, unit=" fingerprints", unit_scale=True, leave=False, disable=None
        ) as bar:
            for file in self._files:
                for block in file.blocks(max_count=_BLOCK_COUNT):
                    self.count += len(block)
                    bar.update(len(block))
                    yield block


def _ascending(
    blocks: Iterable[NDArray[np.uint64]], out: Path
) -> Generator[NDArray[np.uint64], None, None]:
    """Yield the distinct fingerprints of ``blocks`` in ascending order.

    Holds RUN_COUNT of them; where there are more, sorted runs go to a folder beside ``out`` and
    are merged from there.
    """
    from mr_dedup.formats import longs
    from mr_dedup.formats.outputs import hidden_prefix

    with contextlib.ExitStack() as stack:
        folder = None
        runs: list[Path] = []
        for batch in _sorted_batches(blocks):
            pieces = (batch[i : i + _BLOCK_COUNT] for i in range(0, len(batch), _BLOCK_COUNT))
            if folder is None and len(batch) < RUN_COUNT:
                yield from _without_repeats(pieces)
                return
            if folder is None:
                scratch = tempfile.TemporaryDirectory(prefix=hidden_prefix(out), dir=out.parent)
                folder = Path(stack.enter_context(scratch))
            runs.append(folder / str(len(runs)))
            with runs[-1].open("wb") as file:
                for piece in _without_repeats(pieces):
                    longs.write(file, piece, "little")
        yield from _without_repeats(_merge(runs))


def _sorted_batches(blocks: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield what ``blocks`` hold, RUN_COUNT sorted together; each batch overwrites the last."""
    import numpy as np

    buffer = np.empty(RUN_COUNT, dtype=np.uint64)
    filled = 0
    for block in blocks:
        while len(block):
            taken = block[: RUN_COUNT - filled]
            buffer[filled : filled + len(taken)] = taken
            filled += len(taken)
            block = block[len(taken) :]
            if filled == RUN_COUNT:
                buffer.sort()
                yield buffer
                filled = 0
    buffer[:filled].sort()
    if filled:
        yield buffer[:filled]


def _merge(runs: list[Path]) -> Iterator[NDArray[np.uint64]]:
    """Yield what files of ascending little-endian longs hold, in ascending order.

    Holds a block of each. What is at most the smallest of their last fingerprints can have
    nothing before it in a block not yet read, so it is taken from all of them and sorted.
    """
    import numpy as np

    from mr_dedup.formats import longs

    block_count = max(1, RUN_COUNT // (2 * len(runs) + 1))
    readers = [longs.read_range(run, byte_order="little", max_count=block_count) for run in runs]
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


def _without_repeats(blocks: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield the ascending ``blocks``, none of them empty, each fingerprint once."""
    import numpy as np

    last = None
    for block in blocks:
        is_new = np.ones(len(block), dtype=bool)
        is_new[1:] = block[1:] != block[:-1]
        is_new[0] = last is None or block[0] != last
        last = block[-1]
        yield block[is_new]
