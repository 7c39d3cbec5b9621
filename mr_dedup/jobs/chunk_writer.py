"""The parts of a result that the task of one chunk writes, a part of each table."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from mr_dedup.formats.parts import ParquetParts
from mr_dedup.jobs.shard_parts import one_part

_DICTIONARIES = ("file", "passage", "group", "set", "field", "verdict", "kind", "written_file")
"""Columns of values that repeat."""

_Self = TypeVar("_Self", bound="ChunkWriter")


class ChunkWriter:
    """Writes the parts of a chunk; a context manager, whose end is that of all parts.

    Attributes:
        folder: The directory that has those of the result.
        number: Of the parts.
        open: The contexts that end with the block.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number
        self.open = contextlib.ExitStack()

    def __enter__(self: _Self) -> _Self:
        self.begin()
        return self

    def begin(self) -> None:
        """Begin all parts."""
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.open.__exit__(kind, error, trace)

    def part(self, name: str, schema: pa.Schema) -> ParquetParts:
        """Return the writer of the part of a table, in the directory ``name``."""
        used = [each for each in _DICTIONARIES if each in schema.names]
        parts = one_part(self.folder / name, self.number, schema, use_dictionary=used)
        return self.open.enter_context(parts)
