"""mr-dedup by its methods and engines."""

from __future__ import annotations

from collections.abc import Sequence

from bench.field.environments import OURS
from bench.field.quality import Outcome, decisions_of
from bench.field.spark_events import SETTINGS
from bench.field.tools.tool import Task, Tool


def _tool(name: str, settings: str, *options: str) -> Tool:
    def command(task: Task) -> Sequence[str]:
        words = [task.python, "-m", "mr_dedup", "dedup", str(task.corpus), "--symbols=ignore"]
        return [*words, "-o", str(task.out / "result"), "--quiet", *options]

    return Tool(name, OURS, settings, command, outcome=_outcome)


def _outcome(task: Task) -> Outcome:
    return decisions_of(task.out / "result" / "decisions")


_COMPARED = "shingles of 3 words, no symbols, are compared, at least 0.8 is a duplicate"

_METHODS = {
    "super-shingles": "super-shingles",
    "simhash": "simhash",
    "segments": "segment signatures",
    "winnowing": "winnowed fingerprints",
    "text-profile": "the profile of frequent words",
    "keywords": "keywords",
    "abstract": "the beginning of texts",
}

TOOLS = (
    _tool("mr-dedup", f"defaults: candidates by MinHash; {_COMPARED}"),
    _tool("mr-dedup local", f"the same by a process for each task; {_COMPARED}", "-r", "local"),
    _tool(
        "mr-dedup spark",
        f"the same on Spark on this machine; {_COMPARED}",
        *("-r", "spark", "--master", "local[*]"),
        *(word for name, value in SETTINGS.items() for word in ("-D", f"{name}={value}")),
    ),
    *(
        _tool(f"mr-dedup {method}", f"candidates by {named}; {_COMPARED}", "--method", method)
        for method, named in _METHODS.items()
    ),
    _tool("mr-dedup exact", "only texts that are equal when normalised", "--method", "exact"),
)
