"""Column plots as SVG for the report: no scripts, no styles, equal bytes for equal numbers."""

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

_COLUMNS_WIDTH, _CHARACTER_WIDTH, _LABEL_GAP = 360, 7.5, 10
"""Approximate widths of all columns, of a character of a label, and between two labels."""


def column_plot(
    histogram: Histogram, x_name: str, y_name: str, title: str, *, is_log: bool = False
) -> str:
    """Return a column plot as an SVG element.

    Colours are those of leather's theme, as attributes: any style sheet overrides them.

    Args:
        histogram: a column for each of its counts.
        x_name: the label of the x axis.
        y_name: the label of the y axis.
        title: the accessible title.
        is_log: scale heights by log(1 + count), so that small counts are visible beside large ones.
    """

    def height(count: float) -> float:
        return math.log10(1 + count) if is_log else float(count)

    chart = leather.Chart()
    heights = [height(count) for count in histogram.counts]
    chart.add_columns(list(zip(histogram.labels, heights, strict=True)))
    chart.add_y_scale(0, max(heights, default=0) or 1)
    if is_log:
        ticks = [0, *(10**power for power in range(len(str(max(histogram.counts, default=0)))))]
        labels = {height(tick): f"{tick:,}" for tick in ticks}
        chart.add_y_axis(list(labels), _formatter(lambda value: labels[float(value)]), y_name)
    else:
        chart.add_y_axis(None, _formatter(_integer_text), y_name)
    chart.add_x_axis(_labels_that_fit(histogram.labels), _formatter(_start), x_name)
    return _embedded(str(chart.to_svg(width=_WIDTH, height=_HEIGHT)), title)


def _integer_text(value: Decimal) -> str:
    """Return an integer as text, "" for others: there are no halves of documents."""
    return f"{int(value):,}" if value == int(value) else ""


def _formatter(to_text: Callable[[Any], str]) -> Callable[[Any, int, int], str]:
    """Return ``to_text`` with the signature of leather: with the position and count of ticks."""
    return lambda value, position, count: to_text(value)


def _start(label: str) -> str:
    """Return the start of a range."""
    return label.partition("–")[0]


def _labels_that_fit(labels: Sequence[str]) -> list[str]:
    """Return all labels, or every second, fourth, …, so that they fit."""
    needed = _CHARACTER_WIDTH * max(len(_start(label)) for label in labels) + _LABEL_GAP
    step = 1
    while step < len(labels) and step * _COLUMNS_WIDTH / len(labels) < needed:
        step *= 2
    return list(labels[::step])


def _embedded(svg: str, title: str) -> str:
    """Return an SVG document as an element that scales to the width of its container."""
    _, _, content = svg.partition(">")
    content = re.sub(r'(?<==")-?\d+\.\d+(?=")', lambda match: f"{float(match[0]):.2f}", content)
    title = f"<title>{html.escape(title)}</title>"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{title}{content}'
