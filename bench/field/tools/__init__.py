"""Tools that remove near-duplicates, each as its documentation says."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from bench.field.tools import libraries, ours, pipelines, rust, spark
from bench.field.tools.tool import Task, Tool

__all__ = ["TOOLS", "Task", "Tool", "chosen"]

TOOLS: tuple[Tool, ...] = (
    *ours.TOOLS,
    *pipelines.TOOLS,
    *libraries.TOOLS,
    *rust.TOOLS,
    *spark.TOOLS,
)
"""All tools, ours first."""


def chosen(names: Sequence[str]) -> list[Tool]:
    """Return the tools of these names, which may have wildcards.

    Raises:
        ValueError: if no tool has one of the names.

    Example:
        >>> [tool.name for tool in chosen(["mr-dedup", "datasketch*"])]
        ['mr-dedup', 'datasketch', 'datasketch aligned']
    """
    found: list[Tool] = []
    for name in names:
        same = [tool for tool in TOOLS if fnmatchcase(tool.name, name)]
        if not same:
            known = ", ".join(tool.name for tool in TOOLS)
            raise ValueError(f"{name}: no such tool; there are {known}")
        found += [tool for tool in same if tool not in found]
    return found
