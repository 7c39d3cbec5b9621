"""The packed format: its size, and the speed of encoding, decoding and reading, beside plain longs.

Uniform distinct fingerprints in files in the page cache, so that disks do not matter. Ratios are to
a copy of the same fingerprints between two arrays.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.inputs import SEED, Fingerprints
from bench.measure import Mismatch, Row, case_row, interleaved
from data_gen.streams import Stream
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.formats.fingerprint_writer import create
from mr_dedup.formats.packed import PackedReader, PackedWriter
from mr_dedup.hamming.distinct import distinct

_COPY = "a copy"


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if a file has other fingerprints."""
    size = 1 << 20 if quick else 1 << 23
    fingerprints = distinct(Stream(SEED, "formats").raw(size))
    destination = np.empty_like(fingerprints)
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        packed, longs = Path(folder) / "a.fpz", Path(folder) / "a.longs"
        for path in (packed, longs):
            _write(path, fingerprints)
            if not np.array_equal(FingerprintFile.detect(path).read(), fingerprints):
                raise Mismatch(f"{path.name} has other fingerprints than were written")
        in_memory = _encoded(fingerprints)
        cases: dict[str, Callable[[], object]] = {
            _COPY: lambda: np.copyto(destination, fingerprints),
            "packed, decoded": lambda: PackedReader(in_memory, "memory").read(),
            "packed, read": lambda: FingerprintFile.detect(packed).read(),
            "packed, read in batches": lambda: _read_batches(packed),
            "longs, read": lambda: FingerprintFile.detect(longs).read(),
            "longs, read in batches": lambda: _read_batches(longs),
            "packed, encoded": lambda: _encoded(fingerprints),
        }
        timings = interleaved(cases, rounds, "formats")
        packed_bytes = packed.stat().st_size / size
    for case in cases:
        note = f"{size / timings.median(case) / 1e6:,.0f} million fingerprints a second"
        plain = case.replace("packed", "longs")
        if case != plain:
            note += f", {packed_bytes:.3f} bytes each"
            if plain in cases:
                note += f", {timings.ratio(case, plain):.2f} x {plain}"
        yield case_row("formats", case, timings, _COPY, note=note)


def _write(path: Path, fingerprints: Fingerprints) -> None:
    with create(path, overwrite=True) as writer:
        writer.write(fingerprints)


def _encoded(fingerprints: Fingerprints) -> io.BytesIO:
    """Return a packed file in memory."""
    file = io.BytesIO()
    writer = PackedWriter(file)
    writer.write(fingerprints)
    writer.finish()
    return file


def _read_batches(path: Path) -> None:
    for _ in FingerprintFile.detect(path).batches():
        pass
