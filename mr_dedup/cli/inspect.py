"""Describe fingerprint files, and check them for damage.

For each FILE (or glob, or directory): the format, the number of fingerprints, their order as
unsigned numbers, the number of distinct ones if they are sorted, the size, the smallest and the
largest fingerprint, and the distribution of their leading bits (uniform for good simhashes). Reads
every byte; of Parquet the column 'fingerprint'. If a file is damaged, the report covers what
precedes the damage, reports what it is and where, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.remote_files import input_names
from mr_dedup.cli.streams import printable
from mr_dedup.errors import FormatError
from mr_dedup.files.inputs import expand
from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS, FingerprintFile
from mr_dedup.progress_bars import progress_bar

EXIT_DAMAGED = 1

_BAR_COLUMNS = 40
_MAX_BITS = 16


def _leading_bits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_BITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_BITS}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("files", nargs="+", type=input_names, metavar="FILE", help="files, globs or directories")
    add("--format", choices=FORMATS, help="the format of FILE (default: by suffix)")
    add("--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)")
    add("--bits", type=_leading_bits, default=4, metavar="N",
        help="count fingerprints by so many leading bits (default 4)")  # fmt: skip
    add("--json", action="store_true", help="print a JSON list with an object for each file")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    files = [
        FingerprintFile.detect(path, format=arguments.format, byte_order=arguments.byte_order)
        for path in expand(arguments.files)
    ]
    reports = []
    for file in files:
        reports.append(inspect(file, arguments.bits))
        if not arguments.json:
            print("\n".join(_lines(reports[-1])), flush=True)
    if arguments.json:
        print(json.dumps(reports, indent=2))
    return EXIT_DAMAGED if any(report["damage"] for report in reports) else 0


class _Survey:
    """Statistics of fingerprints, updated in blocks."""

    def __init__(self, bits: int) -> None:
        self.count = 0
        self.leading = np.zeros(1 << bits, dtype=np.int64)
        self._shift = np.uint64(64 - bits)
        self._previous: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._smallest, self._largest = 2**64 - 1, 0
        self._descents = self._repeats = 0

    def add(self, block: NDArray[np.uint64]) -> None:
        """Count the fingerprints of a block, uint64[n], n from 1 on."""
        self.count += len(block)
        run = np.concatenate((self._previous, block))
        self._previous = block[-1:]
        self._descents += int(np.count_nonzero(run[1:] < run[:-1]))
        self._repeats += int(np.count_nonzero(run[1:] == run[:-1]))
        self._smallest = min(self._smallest, int(block.min()))
        self._largest = max(self._largest, int(block.max()))
        leading = (block >> self._shift).astype(np.intp)
        self.leading += np.bincount(leading, minlength=len(self.leading))

    def report(self) -> dict[str, Any]:
        """Return the statistics for JSON."""
        order = "strictly_ascending"
        if self._descents:
            order = "unsorted"
        elif self._repeats:
            order = "ascending"
        return {
            "count": self.count,
            "order": order,
            "distinct": None if self._descents else self.count - self._repeats,
            "smallest": _signed(self._smallest) if self.count else None,
            "largest": _signed(self._largest) if self.count else None,
            "leading_counts": self.leading.tolist(),
        }


def inspect(file: FingerprintFile, bits: int, *, batch_count: int = 1 << 16) -> dict[str, Any]:
    """Read a file and return its report, for JSON.

    Args:
        file: the file.
        bits: how many leading bits to count fingerprints by.
        batch_count: how many fingerprints to read at a time. Fingerprints in the same batch as
            the damage are not counted.
    """
    survey = _Survey(bits)
    damage = None
    try:
        with progress_bar(" fingerprints", file.count()) as bar:
            for batch in file.batches(max_count=batch_count):
                survey.add(batch)
                bar.update(len(batch))
    except FormatError as error:
        damage = str(error)
    size_bytes = file.path.stat().st_size
    return {
        "path": as_named(str(file.path)),
        "format": file.format,
        "byte_order": file.byte_order if file.format == "longs" else None,
        "compression": file.compression,
        "bytes": size_bytes,
        "bytes_per_fingerprint": size_bytes / survey.count if survey.count and not damage else None,
        **survey.report(),
        "damage": damage,
    }


def _lines(report: dict[str, Any]) -> list[str]:
    """Return the report as lines of text, in ASCII except for the name of the file."""
    kind = [report["format"], report["byte_order"] and f"{report['byte_order']}-endian"]
    kind.append(report["compression"])
    distinct = "unknown" if report["distinct"] is None else f"{report['distinct']:,}"
    each = report["bytes_per_fingerprint"]
    lines = [
        printable(report["path"]),
        f"  format        {', '.join(word for word in kind if word)}",
        f"  fingerprints  {report['count']:,}",
        f"  order         {report['order'].replace('_', ' ')}",
        f"  distinct      {distinct}",
        f"  size          {report['bytes']:,} bytes" + (f", {each:.3f} each" if each else ""),
    ]
    if report["damage"]:
        lines[2] += " before the damage"
        lines.append(f"  DAMAGED       {printable(report['damage'])}")
    if report["count"]:
        for name in ("smallest", "largest"):
            lines.append(f"  {name:13} {report[name]} ({report[name] % 2**64:#018x})")
        lines += _histogram(report["leading_counts"])
    return lines


def _histogram(counts: list[int]) -> list[str]:
    """Return the share of fingerprints with each pattern of leading bits (paper, figure 2)."""
    bits = (len(counts) - 1).bit_length()
    total, largest = sum(counts), max(counts)
    lines = [f"  by the leading {bits} bits" if bits > 1 else "  by the leading bit"]
    for pattern, count in enumerate(counts):
        bar = "#" * round(_BAR_COLUMNS * count / largest)
        lines.append(f"    {pattern:0{bits}b} {count / total:8.3%} {bar}".rstrip())
    return lines


def _signed(fingerprint: int) -> int:
    return fingerprint - 2**64 if fingerprint >= 2**63 else fingerprint
