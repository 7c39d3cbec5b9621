"""Convert fingerprint files to another format, several into one.

INPUT are files, globs or directories (with all files below) of longs (.longs), text (.txt, .tsv) or
packed (.fpz) fingerprints, each also compressed (.gz, .zst), or of Parquet (.parquet) with a column
'fingerprint'. The format of OUT follows from its suffix; Parquet is not written. Longs and text
keep the order and the repeats of their inputs; ids are dropped. A packed OUT is sorted and contains
each fingerprint once: more than fit in 512 MB are sorted in runs, in a temporary directory beside
OUT of 8 bytes each.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.cli.remote_files import input_names, output_file
from mr_dedup.cli.streams import counted, print_message
from mr_dedup.files.inputs import expand, require_not_read
from mr_dedup.files.outputs import refuse_existing
from mr_dedup.formats.fingerprint_files import (
    BYTE_ORDERS,
    FORMATS,
    WRITTEN_FORMATS,
    FingerprintFile,
)
from mr_dedup.formats.fingerprint_writer import create, format_to_write
from mr_dedup.formats.sorted_runs import sorted_distinct
from mr_dedup.progress_bars import progress_bar

_BATCH_COUNT = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("inputs", nargs="+", type=input_names, metavar="INPUT", help="files, globs or directories")
    add("-o", "--out", type=output_file, required=True, metavar="OUT", help="the file to write")
    add("--from", dest="from_format", choices=FORMATS,
        help="the format of INPUT (default: by suffix)")  # fmt: skip
    add("--to", dest="to_format", choices=WRITTEN_FORMATS,
        help="the format of OUT (default: by suffix)")  # fmt: skip
    add("--byte-order", choices=BYTE_ORDERS, default="big",
        help="of longs that are read (default big); written longs are big-endian")  # fmt: skip
    add("--overwrite", action="store_true", help="replace OUT if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    out: Path = arguments.out
    to_format = format_to_write(out, arguments.to_format)
    # before the work rather than after it
    refuse_existing(out, arguments.overwrite)
    files = [
        FingerprintFile.detect(path, format=arguments.from_format, byte_order=arguments.byte_order)
        for path in expand(arguments.inputs)
    ]
    if len(files) > 1:
        # a file alone may be replaced by its own conversion
        require_not_read(out, (file.path for file in files))
    reader = _Reader(files)
    with create(out, format=to_format, overwrite=arguments.overwrite) as writer:
        batches = reader.batches()
        if to_format == "packed":
            batches = sorted_distinct(batches, out)
        # closed at the end of the block, so that temporary files never stay
        with contextlib.closing(batches):
            for batch in batches:
                writer.write(batch)
    kind = "distinct fingerprints" if to_format == "packed" else "fingerprints"
    each = f", {out.stat().st_size / writer.count:.3f} bytes each" if writer.count else ""
    print_message(
        f"read {reader.count:,} fingerprints from {counted(len(files), 'file')}; "
        f"wrote {writer.count:,} {kind} to {out}{each}"
    )
    return 0


class _Reader:
    """The fingerprints of several files in batches, counted, with a progress bar."""

    def __init__(self, files: list[FingerprintFile]) -> None:
        self.count = 0
        self._files = files

    def batches(self) -> Generator[NDArray[np.uint64], None, None]:
        counts = [file.count() for file in self._files]
        total = None if None in counts else sum(count or 0 for count in counts)
        with progress_bar(" fingerprints", total) as bar:
            for file in self._files:
                for batch in file.batches(max_count=_BATCH_COUNT):
                    self.count += len(batch)
                    bar.update(len(batch))
                    yield batch
