"""Plots as SVG for a page: no scripts, no style of their own, equal bytes for equal numbers."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import leather

from mr_dedup.report.histograms import Histogram

_WIDTH, _HEIGHT = 440, 250

_INSIDE, _CHARACTER, _GAP = 360, 7.5, 10
"""Width of all columns, of a character under them, and of what parts two labels; about."""


def column_plot(
    histogram: Histogram, x_name: str, y_name: str, title: str, *, by_powers: bool = False
) -> str:
    """Return a plot of a column for each count, as an SVG element that says its ``title``.

    With ``by_powers`` heights are as the logarithm of 1 and the count, so that few are seen beside
    many. Its colours are those of leather's theme, as attributes: any style sheet overrides them.
    """

    def height(count: float) -> float:
        return math.log10(1 + count) if by_powers else float(count)

    chart = leather.Chart()
    heights = [height(count) for count in histogram.counts]
    chart.add_columns(list(zip(histogram.labels, heights, strict=True)))
    chart.add_y_scale(0, max(heights, default=0) or 1)
    if by_powers:
        marks = [0, *(10**power for power in range(len(str(max(histogram.counts, default=0)))))]
        named = {height(mark): f"{mark:,}" for mark in marks}
        chart.add_y_axis(list(named), _formatter(lambda value: named[float(value)]), y_name)
    else:
        chart.add_y_axis(None, _formatter(_whole), y_name)
    chart.add_x_axis(_some(histogram.labels), _formatter(_beginning), x_name)
    return _embedded(str(chart.to_svg(width=_WIDTH, height=_HEIGHT)), title)


def _whole(value: Decimal) -> str:
    """Return a whole number; there are no halves of documents."""
    return f"{int(value):,}" if value == int(value) else ""


def _formatter(spell: Callable[[Any], str]) -> Callable[[Any, int, int], str]:
    """Return ``spell`` as leather calls it, with a tick's position and their number."""
    return lambda value, position, count: spell(value)


def _beginning(label: str) -> str:
    """Return where a range begins."""
    return label.partition("–")[0]


def _some(labels: Sequence[str]) -> list[str]:
    """Return every one of ``labels``, or every second, fourth, …, as many as have room."""
    needed = _CHARACTER * max(len(_beginning(label)) for label in labels) + _GAP
    step = 1
    while step < len(labels) and step * _INSIDE / len(labels) < needed:
        step *= 2
    return list(labels[::step])


def _embedded(svg: str, title: str) -> str:
    """Return an SVG document as an element that fits the width it has."""
    _, _, content = svg.partition(">")
    content = re.sub(r'(?<==")-?\d+\.\d+(?=")', lambda match: f"{float(match[0]):.2f}", content)
    title = f"<title>{html.escape(title)}</title>"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{title}{content}'
