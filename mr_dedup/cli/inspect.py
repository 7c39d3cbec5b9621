"""Read fingerprint files whole and say what is in them, and whether they are sound.

For each FILE (or glob, or folder): format, number of fingerprints, their order as unsigned
numbers, how many are distinct if that can be told, size, smallest and largest, and how they are
spread over their leading bits (uniform simhashes are flat). Reads every byte, of Parquet those of
the column 'fingerprint'; where a file is damaged the report covers what was read before, says what
the damage is and where, and the command ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.streams import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mr_dedup.formats.fingerprint_files import FingerprintFile

HELP = "say what is in fingerprint files, and whether they are sound"

EXIT_DAMAGED = 1

# small, because what shares a block with damage is not seen
_BATCH_COUNT = 1 << 16

_BAR_COLUMNS = 40
_MAX_BITS = 16


def _leading_bits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_BITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_BITS}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument("files", nargs="+", metavar="FILE", help="files, globs or folders")
    parser.add_argument("--format", choices=FORMATS, help="of FILE, if its name does not say")
    parser.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )
    parser.add_argument(
        "--bits",
        type=_leading_bits,
        default=4,
        metavar="N",
        help="leading bits to count fingerprints by (default 4)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, an object a file")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.formats.inputs import expand

    files = [
        FingerprintFile.detect(path, format=arguments.format, byte_order=arguments.byte_order)
        for path in expand(arguments.files)
    ]
    reports = []
    for file in files:
        reports.append(_inspect(file, arguments.bits))
        if not arguments.json:
            print("\n".join(_lines(reports[-1])), flush=True)
    if arguments.json:
        print(json.dumps(reports, indent=2))
    return EXIT_DAMAGED if any(report["damage"] for report in reports) else 0


class _Survey:
    """What is known of the fingerprints seen so far."""

    def __init__(self, bits: int) -> None:
        import numpy as np

        self.count = 0
        self.leading = np.zeros(1 << bits, dtype=np.int64)
        self._shift = np.uint64(64 - bits)
        self._first: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._smallest, self._largest = 2**64 - 1, 0
        self._descents = self._repeats = 0

    def add(self, block: NDArray[np.uint64]) -> None:
        import numpy as np

        self.count += len(block)
        run = np.concatenate((self._first, block))
        self._first = block[-1:]
        self._descents += int(np.count_nonzero(run[1:] < run[:-1]))
        self._repeats += int(np.count_nonzero(run[1:] == run[:-1]))
        self._smallest = min(self._smallest, int(block.min()))
        self._largest = max(self._largest, int(block.max()))
        leading = (block >> self._shift).astype(np.intp)
        self.leading += np.bincount(leading, minlength=len(self.leading))

    def findings(self) -> dict[str, Any]:
        order = "strictly ascending"
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


def _inspect(file: FingerprintFile, bits: int) -> dict[str, Any]:
    from tqdm import tqdm

    from mr_dedup.errors import FormatError

    survey = _Survey(bits)
    damage = None
    try:
        with tqdm(
            total=file.count(), unit=" fingerprints", unit_scale=True, leave=False, disable=None
        ) as bar:
            for batch in file.batches(max_count=_BATCH_COUNT):
                survey.add(batch)
                bar.update(len(batch))
    except FormatError as error:
        damage = str(error)
    size_bytes = file.path.stat().st_size
    return {
        "path": str(file.path),
        "format": file.format,
        "byte_order": file.byte_order if file.format == "longs" else None,
        "compression": file.compression,
        "bytes": size_bytes,
        "bytes_per_fingerprint": size_bytes / survey.count if survey.count and not damage else None,
        **survey.findings(),
        "damage": damage,
    }


def _lines(report: dict[str, Any]) -> list[str]:
    """Return the report as lines of text, plain ASCII but for the name of the file."""
    kind = [report["format"], report["byte_order"] and f"{report['byte_order']}-endian"]
    kind.append(report["compression"])
    distinct = "not known" if report["distinct"] is None else f"{report['distinct']:,}"
    each = report["bytes_per_fingerprint"]
    lines = [
        printable(report["path"]),
        f"  format        {', '.join(word for word in kind if word)}",
        f"  fingerprints  {report['count']:,}",
        f"  order         {report['order']}",
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
    """Return the share of fingerprints that begin with each pattern of bits (paper, figure 2)."""
    bits = (len(counts) - 1).bit_length()
    total, most = sum(counts), max(counts)
    lines = [
        f"  shares, by the leading {bits} bits" if bits > 1 else "  shares, by the leading bit"
    ]
    for pattern, count in enumerate(counts):
        bar = "#" * round(_BAR_COLUMNS * count / most)
        lines.append(f"    {pattern:0{bits}b} {count / total:8.3%} {bar}".rstrip())
    return lines


def _signed(fingerprint: int) -> int:
    return fingerprint - 2**64 if fingerprint >= 2**63 else fingerprint
