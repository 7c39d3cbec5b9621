"""A comparison as tables: CSV with all that was measured, and Markdown to read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from mr_dedup.report.comparison import Measured
from mr_dedup.report.evaluation import Counts

_MEASURES = ("found", "right", "missed", "precision", "recall", "f1")

COLUMNS = (
    "method", "family", "similarity",
    *_MEASURES, *(f"verified_{name}" for name in _MEASURES),
    "candidates", "cut", "sign_seconds", "pair_seconds", "processor_seconds", "verify_seconds",
    "mb_per_second", "bytes_per_document",
)  # fmt: skip

HEADING = f"{','.join(COLUMNS)}\n".encode()
"""The first line of the CSV."""


def to_csv(measured: Sequence[Measured], bands: Sequence[float]) -> bytes:
    """Return a row a method and band, below COLUMNS; empty is what there is nothing to share of."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in measured:
        cost = [
            each.candidates,
            each.cut,
            *(
                f"{seconds:.6f}"
                for seconds in (
                    each.signed.seconds,
                    each.paired.seconds,
                    each.processor_seconds,
                    each.compared.seconds,
                )
            ),
            f"{each.megabytes_a_second:.3f}",
            f"{each.bytes_a_document:.3f}",
        ]
        for band, raw, verified in zip(bands, each.raw, each.verified, strict=True):
            quality = [*_values(raw), *_values(verified)]
            writer.writerow([each.name, each.family, f"{band:g}", *quality, *cost])
    return lines.getvalue().encode()


def _values(counts: Counts) -> list[int | float | None]:
    return [getattr(counts, name) for name in _MEASURES]


def to_markdown(
    measured: Sequence[Measured], bands: Sequence[float], verify: float
) -> Iterator[str]:
    """Yield the lines of a table for each band, and of one of what methods cost."""
    for number, band in enumerate(bands):
        yield f"Similar from {band:g} on, as found and with texts compared at {verify:g}:"
        yield ""
        yield from _heading(
            "method", "pairs", "precision", "recall", "F1",
            "compared", "precision", "recall", "F1",
        )  # fmt: skip
        for each in measured:
            yield _row(each.name, *_shares(each.raw[number]), *_shares(each.verified[number]))
        yield ""
    yield "What it costs: seconds to sign texts, to pair them, and to compare texts of pairs:"
    yield ""
    yield from _heading(
        "method", "candidates", "cut", "sign", "pair", "processor", "compare", "MB/s",
        "bytes a document",
    )  # fmt: skip
    for each in measured:
        yield _row(
            each.name,
            f"{each.candidates:,}",
            each.cut or "-",
            f"{each.signed.seconds:.3f}",
            f"{each.paired.seconds:.3f}",
            f"{each.processor_seconds:.3f}",
            f"{each.compared.seconds:.3f}",
            f"{each.megabytes_a_second:,.0f}",
            f"{each.bytes_a_document:,.0f}",
        )


def _shares(counts: Counts) -> list[str]:
    shares = (counts.precision, counts.recall, counts.f1)
    return [f"{counts.found:,}", *("-" if it is None else f"{it:.4f}" for it in shares)]


def _heading(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---|" + "---:|" * (len(names) - 1)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
