"""Result files of the benchmark: one JSON object a corpus, with what was measured of each tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from bench.field.measure import NOT_RUN, Corpus, Measured, as_json, of_json
from bench.field.running import CORES, DONE, FAILED, OVER_MEMORY, OVER_TIME, Limits


class FieldResult(NamedTuple):
    """What was measured on one corpus.

    Attributes:
        documents: of the corpus.
        text_bytes: of their texts.
        content_sha256: of their ids and texts.
        limit_bytes: memory that a run may use.
        cores: of the machine, that it may use.
        tools: what was measured.
    """

    documents: int
    text_bytes: int
    content_sha256: str
    limit_bytes: int
    cores: int
    tools: list[Measured]


def result_of(corpus: Corpus, limits: Limits, *tools: Measured) -> FieldResult:
    """Return the result of runs."""
    return FieldResult(
        corpus.documents,
        corpus.text_bytes,
        corpus.content_sha256,
        limits.memory_bytes,
        CORES,
        list(tools),
    )


def write(path: Path, result: FieldResult) -> None:
    """Write a result, the whole file at once."""
    stored = {**result._asdict(), "tools": [as_json(tool) for tool in result.tools]}
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(stored, indent=1) + "\n")
    partial.replace(path)


def read(path: Path) -> FieldResult:
    """Return a result that ``write`` wrote.

    Raises:
        ValueError: it is another kind of file.
    """
    try:
        stored = json.loads(path.read_text())
        return FieldResult(**{**stored, "tools": [of_json(tool) for tool in stored["tools"]]})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path}: not a result of bench.field: {error}") from None


def updated(earlier: FieldResult | None, later: FieldResult) -> FieldResult:
    """Return a later result, and the tools of an earlier one that were not run again.

    Raises:
        ValueError: they are of different corpora or limits.
    """
    if earlier is None:
        return later
    for name in ("documents", "text_bytes", "content_sha256", "limit_bytes", "cores"):
        if getattr(earlier, name) != getattr(later, name):
            raise ValueError(f"{name} of earlier results differs: write to another file")
    again = {tool.tool: tool for tool in later.tools}
    tools = [again.pop(tool.tool, tool) for tool in earlier.tools]
    return later._replace(tools=[*tools, *again.values()])


def not_to_be_run(smaller: FieldResult, text_bytes: int, limits: Limits) -> dict[str, str]:
    """Return, by tool, why it is not run on a larger corpus: what it took for a smaller one.

    Wall time is taken to grow as the text does.

    Args:
        smaller: what was measured on the smaller corpus.
        text_bytes: of the larger corpus.
        limits: of a run.
    """
    found = {}
    size, larger = (f"{each / 1e9:.2f} GB" for each in (smaller.text_bytes, text_bytes))
    for tool in smaller.tools:
        seconds = (tool.median("seconds") or 0) * text_bytes / smaller.text_bytes
        if tool.state in (OVER_TIME, OVER_MEMORY):
            found[tool.tool] = f"{tool.state} for {size}"
        elif tool.state == FAILED:
            found[tool.tool] = f"failed for {size}"
        elif tool.state == NOT_RUN:
            found[tool.tool] = tool.said
        elif tool.state == DONE and seconds > limits.seconds:
            found[tool.tool] = (
                f"it took {tool.median('seconds'):,.0f} s for {size}, so {larger} would take "
                f"{seconds:,.0f} s; the limit is {limits.seconds:,.0f} s"
            )
    return found
