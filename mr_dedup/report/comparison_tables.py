"""A comparison as tables: CSV with all measurements, and Markdown to read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from mr_dedup.report.comparison import Measurement
from mr_dedup.report.evaluation import Counts

_MEASURES = (
    "predicted", "true_positives", "false_negatives", "precision", "recall", "f1"
)  # fmt: skip

COLUMNS = (
    "method", "family", "similarity",
    *_MEASURES, *(f"verified_{name}" for name in _MEASURES),
    "candidates", "cut", "sign_seconds", "pair_seconds", "cpu_seconds", "verify_seconds",
    "mb_per_second", "bytes_per_document",
)  # fmt: skip

HEADING = ",".join(COLUMNS[:3]).encode()
"""The start of the CSV."""


def to_csv(measurements: Sequence[Measurement], bands: Sequence[float]) -> bytes:
    """Return a CSV file with the columns COLUMNS, a row for each method and band.

    A ratio is empty where its denominator is 0.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in measurements:
        cost = [each.candidates, each.cut, *(f"{seconds:.6f}" for seconds in _seconds(each))]
        cost += [f"{each.megabytes_per_second:.3f}", f"{each.bytes_per_document:.3f}"]
        for band, raw, verified in zip(bands, each.raw, each.verified, strict=True):
            quality = [*_values(raw), *_values(verified)]
            writer.writerow([each.name, each.family, f"{band:g}", *quality, *cost])
    return lines.getvalue().encode()


def _seconds(each: Measurement) -> tuple[float, ...]:
    """Return the seconds to sign, to pair, of the CPU for both, and to compare texts."""
    return each.signing.seconds, each.pairing.seconds, each.cpu_seconds, each.verifying.seconds


def _values(counts: Counts) -> list[int | float | None]:
    return [getattr(counts, name) for name in _MEASURES]


def to_markdown(
    measurements: Sequence[Measurement], bands: Sequence[float], verify: float
) -> Iterator[str]:
    """Yield the lines of a table for each band, and of a table of costs."""
    for number, band in enumerate(bands):
        yield f"True pairs: similarity from {band:g} on. Verified pairs: texts from {verify:g} on."
        yield ""
        yield from _heading(
            "method", "predicted", "precision", "recall", "F1",
            "verified", "precision", "recall", "F1",
        )  # fmt: skip
        for each in measurements:
            yield _row(each.name, *_quality(each.raw[number]), *_quality(each.verified[number]))
        yield ""
    yield "Cost, in seconds: sign texts, find pairs, CPU of both, verify pairs by their texts."
    yield ""
    yield from _heading(
        "method", "candidates", "cut", "sign", "pair", "CPU", "verify", "MB/s", "bytes/document"
    )
    for each in measurements:
        yield _row(
            each.name,
            f"{each.candidates:,}",
            each.cut or "-",
            *(f"{seconds:.3f}" for seconds in _seconds(each)),
            f"{each.megabytes_per_second:,.0f}",
            f"{each.bytes_per_document:,.0f}",
        )


def _quality(counts: Counts) -> list[str]:
    ratios = (counts.precision, counts.recall, counts.f1)
    return [f"{counts.predicted:,}", *("-" if it is None else f"{it:.4f}" for it in ratios)]


def _heading(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---|" + "---:|" * (len(names) - 1)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
