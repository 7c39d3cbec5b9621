"""The report as a page: one HTML file that loads nothing, and runs its own script only."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, BinaryIO, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from mr_dedup.report.data import Cluster, ReportData, Sample
from mr_dedup.report.differences import Comparison, compare
from mr_dedup.report.histograms import Histogram
from mr_dedup.report.hostile_text import shown_name, shown_text
from mr_dedup.report.plots import column_plot

_MAX_ROWS = 100
"""Rows of a table; of the others their number is shown."""

_VISIBLE_ROWS = 10
"""Rows of a table that are not folded."""

_VISIBLE_CLUSTERS = 20
"""Clusters of the list that are not folded; the script shows as many at a time."""

_MAX_CLUSTERS = 150

_MAX_SAMPLES = 50
"""Samples of all clusters whose texts are shown."""

_LINE_BREAKS = re.compile(r"[ \t\r]*\n\s*")
"""Shown as one line break: differences in white space are not shown."""

_MAX_EQUAL, _EQUAL_EDGE = 400, 120
"""Equal characters between two differences that are not folded; how many of others are not."""


def write_report(file: BinaryIO, data: ReportData) -> None:
    """Write the report as an HTML page, in UTF-8.

    Equal data make equal bytes. Ids and texts are untrusted: they are escaped, and the page forbids
    all scripts but its own, by its hash, and all external resources, by a Content-Security-Policy.
    Takes some milliseconds and up to 40 KB for each sample, of which there are at most 50.

    Args:
        file: where to write the page.
        data: the data of the report.
    """
    template("report.html").stream(data=data, **_contents(data)).dump(file, "utf-8")


def warm_up() -> None:
    """Load the template, which takes 50 ms, in advance."""
    template("report.html")


@functools.cache
def _script() -> tuple[str, str]:
    """Return the script of the page and its hash, as a Content-Security-Policy names it."""
    file = resources.files("mr_dedup.report") / "templates" / "report.js"
    script = file.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return script, f"sha256-{digest}"


@functools.cache
def template(name: str) -> Template:
    """Return a template of the package, which escapes everything, with the filters of reports."""
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
        # never rounded up to 100 %
        percent=lambda share: f"{math.floor(share * 10_000) / 10_000:.2%}",
        size=_size,
        name=shown_name,
        long_name=functools.partial(shown_name, max_characters=200),
        text=shown_text,
        wrappable=_wrappable,
    )
    return environment.get_template(name)


def _size(count: int) -> str:
    """Return a size in bytes for a reader.

    >>> _size(999), _size(5_230_000), _size(999_960)
    ('999 bytes', '5.2 MB', '1.0 MB')
    """
    if count < 1000:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    units = iter(("kB", "MB", "GB", "TB"))
    value, unit = count / 1000, next(units)
    while value >= 999.95 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:,.1f} {unit}"


def _wrappable(name: str) -> Markup:
    """Return ``name`` for display, which may wrap behind its commas."""
    return Markup(",<wbr/>").join(shown_name(name).split(","))


def _contents(data: ReportData) -> dict[str, Any]:
    """Return the variables of the template besides ``data``: plots, short tables, differences."""
    script, script_hash = _script()
    listed = data.clusters[:_MAX_CLUSTERS]
    return {
        "run": data.run,
        "totals": data.totals,
        "found": data.distributions,
        "plots": _plots(data),
        "shares": [(field, values[:_MAX_ROWS], len(values)) for field, values in data.shares],
        "listed": list(_compared(listed)),
        "warnings": data.warnings,
        "visible_rows": _VISIBLE_ROWS,
        "visible_clusters": _VISIBLE_CLUSTERS,
        "script": script,
        "script_hash": script_hash,
    }


class _Pair(NamedTuple):
    """A sample, and the differences of its texts with long equal parts folded."""

    sample: Sample
    is_equal: bool
    compared: Comparison
    parts: list[_Part]


class _Part(NamedTuple):
    """A run of characters; ``of`` is ``"folded"`` for what is equal and long."""

    of: str
    text: str


def _compared(clusters: Sequence[Cluster]) -> Iterator[tuple[Cluster, list[_Pair]]]:
    """Yield each cluster with its pairs, of all clusters _MAX_SAMPLES at most."""
    left = _MAX_SAMPLES
    for cluster in clusters:
        pairs = [_pair(sample) for sample in cluster.samples[:left]]
        left -= len(pairs)
        yield cluster, pairs


def _pair(sample: Sample) -> _Pair:
    compared = compare(sample.text, sample.kept_text)
    last = len(compared.runs) - 1
    parts: list[_Part] = []
    for number, (of, run) in enumerate(compared.runs):
        text = _LINE_BREAKS.sub("\n", run)
        if of == "both":
            parts += _folded(text, is_first=number == 0, is_last=number == last)
        else:
            parts.append(_Part(of, text))
    return _Pair(sample, sample.text == sample.kept_text, compared, parts)


def _folded(text: str, *, is_first: bool, is_last: bool) -> list[_Part]:
    """Return equal text in parts: of a long one all but what is beside a difference is folded."""
    if len(text) <= _MAX_EQUAL:
        return [_Part("both", text)]
    # whole words beside differences, if words are not too long
    start = 0 if is_first else text.rfind(" ", 0, _EQUAL_EDGE) + 1 or _EQUAL_EDGE
    stop = len(text)
    if not is_last:
        space = text.find(" ", len(text) - _EQUAL_EDGE)
        stop = space if space >= 0 else len(text) - _EQUAL_EDGE
    parts = [_Part("both", text[:start]), _Part("folded", text[start:stop])]
    return [part for part in [*parts, _Part("both", text[stop:])] if part.text]


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
