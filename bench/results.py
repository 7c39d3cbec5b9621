"""Files of results: a JSON object a benchmark, from which the documentation makes a page."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from bench.machine import describe
from bench.measure import Row

FOLDER = Path(__file__).parent / "results"


class Result(NamedTuple):
    """What one benchmark measured, where and when.

    Args:
        name: the benchmark.
        what: what it measures, in a line.
        machine: the machine, and the versions of packages, two lines.
        date: the day, as ISO 8601.
        rounds: how many rounds were timed.
        is_quick: whether the sizes were small ones.
        rows: its rows.
    """

    name: str
    what: str
    machine: str
    date: str
    rounds: int
    is_quick: bool
    rows: list[Row]


def write(
    folder: Path, name: str, what: str, rounds: int, is_quick: bool, rows: Sequence[Row]
) -> None:
    """Write the rows of one benchmark to a file of its own; replace an earlier one."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    result = Result(name, what, describe(), today, rounds, is_quick, list(rows))
    text = json.dumps({**result._asdict(), "rows": [asdict(row) for row in rows]}, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(text + "\n")


def read(folder: Path = FOLDER) -> list[Result]:
    """Return the results in a directory, in the order of their names.

    Those of ``bench.field``, whose names begin with ``field-``, have another form.
    """
    paths = (path for path in sorted(folder.glob("*.json")) if not path.stem.startswith("field-"))
    return [
        Result(**{**stored, "rows": [Row(**row) for row in stored["rows"]]})
        for stored in (json.loads(path.read_text()) for path in paths)
    ]
