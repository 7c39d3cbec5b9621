"""Columns that the client writes for tasks, with the rows of each chunk."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from mr_dedup.formats.tables import read_side_file, write_side_file


@dataclass(frozen=True)
class SideTable:
    """Base of dataclasses whose fields are aligned arrays.

    Attributes:
        ranges: By the number of a chunk, that of its first document, and the one after its last.

    Example:
        >>> import tempfile
        >>> @dataclass(frozen=True)
        ... class Kept(SideTable):
        ...     kept: np.ndarray
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Kept(np.array([True, False]), ranges={0: (0, 2)}).write(Path(folder, "kept"))
        ...     Kept.read(Path(folder, "kept"))
        Kept(ranges={0: (0, 2)}, kept=array([ True, False]))
    """

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict, kw_only=True)

    @classmethod
    def _columns(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "ranges"]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what ``write`` wrote; FormatError if it is damaged."""
        names = cls._columns()
        table, metadata = read_side_file(path, names)
        ranges = {int(chunk): tuple(range) for chunk, range in metadata["ranges"].items()}
        return cls(**{name: table[name].to_numpy() for name in names}, ranges=ranges)

    def write(self, path: Path) -> None:
        """Write a side file."""
        columns = {name: getattr(self, name) for name in self._columns()}
        write_side_file(path, columns, {"ranges": self.ranges})

    def chosen(self, rows: Any) -> Self:
        """Return the rows that a slice or an index array chooses, without ranges."""
        columns = {name: getattr(self, name)[rows] for name in self._columns()}
        return replace(self, **columns, ranges={})


def rows_between(numbers: np.typing.NDArray[np.int64], start: int, stop: int) -> slice:
    """Return the rows of documents ``start`` to ``stop``; ``numbers`` int64[n] ascend."""
    return slice(*np.searchsorted(numbers, [start, stop]).tolist())
