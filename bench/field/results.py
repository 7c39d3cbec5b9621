"""Result files of the benchmark: one JSON object a corpus, with what was measured of each tool."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import NamedTuple

from bench.field.measure import Corpus, Measured, Setting, as_json, of_json
from bench.machine import describe


class FieldResult(NamedTuple):
    """What was measured on one corpus.

    Attributes:
        machine: the machine, and versions of packages of ours, two lines.
        date: the day of the last run, as ISO 8601.
        documents: of the corpus.
        text_bytes: of their texts.
        content_sha256: of their ids and texts.
        limit_seconds: wall time that a run may take.
        limit_bytes: memory that it may use.
        workers: processes or threads that a tool may use.
        tools: what was measured.
    """

    machine: str
    date: str
    documents: int
    text_bytes: int
    content_sha256: str
    limit_seconds: float
    limit_bytes: int
    workers: int
    tools: list[Measured]


def result_of(corpus: Corpus, setting: Setting, *tools: Measured) -> FieldResult:
    """Return the result of runs that were made now."""
    return FieldResult(
        describe(),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        corpus.documents,
        corpus.text_bytes,
        corpus.content_sha256,
        setting.limits.seconds,
        setting.limits.memory_bytes,
        setting.workers,
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
    same = ("documents", "text_bytes", "content_sha256", "limit_bytes", "workers")
    for name in same:
        if getattr(earlier, name) != getattr(later, name):
            raise ValueError(f"{name} of earlier results differs: write to another file")
    again = {tool.tool: tool for tool in later.tools}
    tools = [again.pop(tool.tool, tool) for tool in earlier.tools]
    return later._replace(tools=[*tools, *again.values()])
