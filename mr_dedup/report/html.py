"""The report as a page: one HTML file that loads nothing else and runs no script."""

from __future__ import annotations

import functools
from typing import Any, BinaryIO

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from mr_dedup.report.data import ReportData, Sample
from mr_dedup.report.differences import compare
from mr_dedup.report.histograms import Histogram
from mr_dedup.report.hostile_text import shown_name, shown_text
from mr_dedup.report.plots import column_plot

_MAX_ROWS = 100
"""Rows of a table; of the others their number is shown."""

_VISIBLE_ROWS = 10
"""Rows of a table that are not folded."""

_MAX_SAMPLES = 100


def write_report(file: BinaryIO, data: ReportData) -> None:
    """Write the report as an HTML page, in UTF-8.

    Equal data make equal bytes. Ids and texts are untrusted: they are escaped, and the page forbids
    scripts and external resources by a Content-Security-Policy. Takes some milliseconds and up to
    40 KB for each sample.

    Args:
        file: where to write the page.
        data: the data of the report.
    """
    _template().stream(data=data, **_contents(data)).dump(file, "utf-8")


def warm_up() -> None:
    """Load the template, which takes 50 ms, in advance."""
    _template()


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("mr_dedup.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number="{:,}".format,
        share=lambda part, whole: f"{part / whole:.1%}" if whole else "–",
        width=lambda part, whole: f"{part / whole:.3%}" if whole else "0%",
        similarity="{:.3f}".format,
        name=shown_name,
        text=shown_text,
    )
    return environment.get_template("report.html")


def _contents(data: ReportData) -> dict[str, Any]:
    """Return the variables of the template besides ``data``: plots, short tables, differences."""
    totals = data.totals
    return {
        "totals": totals,
        "found": data.distributions,
        "plots": _plots(data),
        "shares": [(field, values[:_MAX_ROWS], len(values)) for field, values in data.shares],
        "largest": data.largest[:_MAX_ROWS],
        "samples": (_compared(sample) for sample in data.samples[:_MAX_SAMPLES]),
        "visible_rows": _VISIBLE_ROWS,
        "max_samples": _MAX_SAMPLES,
    }


def _plots(data: ReportData) -> dict[str, Any]:
    """Return the plots, each with its numbers as a table."""
    found = data.distributions
    return {
        "sizes": _plot(found.sizes, "documents in the cluster", "clusters", is_log=True),
        "distances": _plot(found.distances, "distance from the kept document in bits", "documents"),
        "similarities": _plot(found.similarities, "similarity to the kept document", "documents"),
        "leading": _plot(found.leading, "leading bits", "fingerprints"),
    }


def _plot(
    histogram: Histogram, x_name: str, y_name: str, *, is_log: bool = False
) -> dict[str, Any]:
    title = f"{y_name} by {x_name}"
    return {
        "title": title,
        "svg": column_plot(histogram, x_name, y_name, title, is_log=is_log),
        "x_name": x_name,
        "y_name": y_name,
        "rows": [row for row in zip(*histogram, strict=True) if row[1]],
    }


def _compared(sample: Sample) -> dict[str, Any]:
    texts = compare(sample.text, sample.kept_text)
    return {
        "sample": sample,
        "equal": sample.text == sample.kept_text,
        "sides": [("dropped", sample.id, texts[0]), ("kept", sample.kept_id, texts[1])],
    }
