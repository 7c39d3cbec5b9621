"""A comparison as plots: precision against recall, and F1 against cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import leather

from mr_dedup.report.comparison import Measurement

PLOTS = ("precision-recall.svg", "cost-f1.svg", "cost-verified-f1.svg")
"""The files, in the order of ``plots``."""

_WIDTH, _HEIGHT = 900, 520
_COLOURS = (
    "#1f77b4", "#aec7e8", "#ff7f0e", "#d62728", "#2ca02c", "#98df8a", "#9467bd", "#8c564b",
    "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
_FIFTHS = 5
"""Axes of ratios start at a multiple of a fifth."""

_DIGITS = re.compile(r'(?<=[" ])-?\d+\.\d{3,}(?=[" ])')
"""Coordinates with more digits than are visible."""

_MIN_SECONDS = 1e-4

Point = Callable[[Measurement], tuple[float, float] | None]
"""The coordinates of a method in a plot; None if it has none."""


def plots(measurements: Sequence[Measurement]) -> Iterator[tuple[str, bytes]]:
    """Yield the names of files and their SVG, of the first band.

    The methods of a family have one colour and are connected by a line.
    """
    yield (
        PLOTS[0],
        _plot(measurements, _precision_at_recall, "recall", "precision", is_log=False),
    )
    yield (
        PLOTS[1],
        _plot(measurements, _f1_at_cost, "CPU seconds to sign and pair", "F1", is_log=True),
    )
    yield (
        PLOTS[2],
        _plot(
            measurements, _verified_f1_at_cost, "CPU seconds to sign, pair and verify",
            "F1 of verified pairs", is_log=True,
        ),
    )  # fmt: skip


def _precision_at_recall(each: Measurement) -> tuple[float, float] | None:
    counts = each.raw[0]
    if counts.precision is None or counts.recall is None:
        return None
    return counts.recall, counts.precision


def _f1_at_cost(each: Measurement) -> tuple[float, float] | None:
    f1 = each.raw[0].f1
    return None if f1 is None else (_log(each.cpu_seconds), f1)


def _verified_f1_at_cost(each: Measurement) -> tuple[float, float] | None:
    f1 = each.verified[0].f1
    seconds = each.cpu_seconds + each.verifying.cpu_seconds
    return None if f1 is None else (_log(seconds), f1)


def _log(seconds: float) -> float:
    return math.log10(max(seconds, _MIN_SECONDS))


class _LineWithDots(leather.Line):  # type: ignore[misc]
    """Dots connected by a line."""

    def __init__(self, colour: str) -> None:
        super().__init__(colour)
        self._dots = leather.Dots(colour)

    def to_svg(self, *arguments: Any) -> Any:
        group = super().to_svg(*arguments)
        group.append(self._dots.to_svg(*arguments))
        return group


def _plot(
    measurements: Sequence[Measurement], point_of: Point, x_name: str, y_name: str, *, is_log: bool
) -> bytes:
    families: dict[str, list[tuple[float, float]]] = {}
    for each in measurements:
        point = point_of(each)
        if point is not None:
            families.setdefault(each.family, []).append(point)
    chart = leather.Chart()
    for number, (family, points) in enumerate(families.items()):
        series = leather.Series(sorted(points), name=family)
        chart.add_series(series, _LineWithDots(_COLOURS[number % len(_COLOURS)]))
    xs, ys = ([point[axis] for points in families.values() for point in points] for axis in (0, 1))
    ticks = _ratio_ticks(ys)
    chart.add_y_scale(ticks[0], 1)
    chart.add_y_axis(ticks, _number_text, y_name)
    if is_log:
        _add_log_scale(chart, xs, x_name)
    else:
        ticks = _ratio_ticks(xs)
        chart.add_x_scale(ticks[0], 1)
        chart.add_x_axis(ticks, _number_text, x_name)
    if not families:
        # leather draws no chart without a series
        chart.add_dots([(0.0, 0.0)], name="no pairs", fill_color="none")
    svg = str(chart.to_svg(width=_WIDTH, height=_HEIGHT))
    return _DIGITS.sub(lambda match: f"{float(match[0]):.2f}", svg).encode() + b"\n"


def _add_log_scale(chart: leather.Chart, exponents: Sequence[float], name: str) -> None:
    """Add a logarithmic x axis with ticks at powers of 10 and half powers."""
    first = math.floor(2 * min(exponents, default=0)) / 2
    last = math.ceil(2 * max(exponents, default=0)) / 2
    last = max(last, first + 0.5)
    ticks = [first + step / 2 for step in range(round(2 * (last - first)) + 1)]
    chart.add_x_scale(first, last)
    chart.add_x_axis(ticks, lambda value, position, count: f"{10 ** float(value):.2g}", name)


def _ratio_ticks(values: Sequence[float]) -> list[float]:
    """Return the ticks of an axis that ends at 1: fifths, or twentieths of a short one."""
    first = math.floor(_FIFTHS * min(values, default=0)) / _FIFTHS
    first = min(first, 1 - 1 / _FIFTHS)
    step = 0.2 if first < 0.5 else 0.05
    return [round(first + number * step, 2) for number in range(round((1 - first) / step) + 1)]


def _number_text(value: float, position: int, count: int) -> str:
    return f"{float(value):g}"
