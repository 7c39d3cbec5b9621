"""Tables of what was measured, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.field import results
from bench.field.measure import NOT_RUN, Measured
from bench.field.results import FieldResult
from bench.results import FOLDER

_HEADINGS = (
    "tool",
    "state",
    "CPU s",
    "CPU s a GB",
    "wall s",
    "other load",
    "memory, MB",
    "disk, MB",
    "shuffled, MB",
    "kept",
    "dropped",
    "left",
    "recall",
    "precision",
    "precision, named",
    "own lines",
)


def table(measured: Sequence[Measured], documents: int, text_bytes: int) -> str:
    """Return a table with a row for each tool; quality is at a similarity of 0.8."""
    rows = [_cells(each, documents, text_bytes) for each in measured]
    rule = ["---"] + ["---:"] * (len(_HEADINGS) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [list(_HEADINGS), rule, *rows])


def _cells(measured: Measured, documents: int, text_bytes: int) -> list[str]:
    cpu = measured.median("cpu_seconds")
    rate = None if cpu is None or measured.state != "done" else cpu / text_bytes * 1e9
    quality = measured.quality[0] if measured.quality else None
    dropped = None if measured.dropped is None else measured.dropped / documents
    return [
        measured.tool,
        measured.state,
        _number(cpu),
        _number(rate),
        _number(measured.median("seconds")),
        _percent(measured.median("others_share")),
        _megabytes(measured.median("peak_bytes")),
        _megabytes(measured.median("disk_bytes")),
        _megabytes(measured.median("shuffled_bytes")),
        "" if measured.kept is None else f"{measured.kept:,}",
        "" if dropped is None else f"{dropped:.1%}",
        "" if quality is None else f"{quality.left:,}",
        _share(quality.recall if quality else None),
        _share(quality.precision if quality else None),
        _share(quality.precision_named if quality else None),
        f"{measured.own_lines}",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _megabytes(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:,.0f}"


def _share(value: float | None) -> str:
    """Return a share without rounding it up to 1.

    >>> _share(0.99996), _share(1.0)
    ('0.9999', '1')
    """
    if value is None:
        return ""
    return "1" if value == 1 else f"{int(value * 10_000) / 10_000:.4f}"


def section(result: FieldResult) -> str:
    """Return a section of the page: the corpus, the machine, the table, and what did not end."""
    machines = sorted({tool.machine for tool in result.tools if tool.machine})
    lines = [
        f"## {result.text_bytes / 1e9:.2f} GB, {result.documents:,} documents",
        f"Machine: {'; '.join(machines)}, of which a tool may use {result.cores} cores and "
        f"{result.limit_bytes / 2**30:.0f} GiB of memory.",
        table(result.tools, result.documents, result.text_bytes),
        "\n".join(_note(tool) for tool in result.tools),
    ]
    return "\n\n".join(lines)


def _note(tool: Measured) -> str:
    note = f"- **{tool.tool}** ({tool.version or 'not installed'}): {tool.settings}"
    reads = "" if tool.reads == "Parquet files" else f"; reads {tool.reads}"
    runs = f"; {len(tool.rounds)} on {tool.date}" if tool.rounds else ""
    if tool.limit_seconds:
        runs += f", at most {tool.limit_seconds:,.0f} s"
    if tool.state == NOT_RUN:
        return f"{note}{reads}; not run: {tool.said}"
    progress = f"; {tool.state} after {tool.progress}" if tool.progress else ""
    said = " ".join(tool.said.split())[-200:].replace("`", "'")
    ended = f"; {tool.state}, its last output: `{said}`" if said and not progress else ""
    return f"{note}{reads}{runs}{progress}{ended}"


def all_results(folder: Path = FOLDER) -> list[FieldResult]:
    """Return what was measured on each corpus, the smallest corpus first."""
    found = [results.read(path) for path in folder.glob("field-*.json")]
    return sorted(found, key=lambda result: result.text_bytes)


def sections(folder: Path = FOLDER) -> str:
    """Return the sections of all result files, by the size of their corpus."""
    return "\n\n".join(map(section, all_results(folder))) or "There are no results yet."
