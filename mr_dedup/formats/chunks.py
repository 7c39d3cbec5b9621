"""Parts of files and chunks of parts: the units of work of map tasks, for files of any kind.

A part is a range of one file. A chunk is what one task reads: one part, or several small ones. On
one machine a task is passed the description of its chunk, some JSON, and reads the files where they
are: nothing is copied, a large file is divided among the cores, and thousands of tiny files share a
task. Fingerprints and documents subclass both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from mr_dedup.errors import FormatError
from mr_dedup.storage.listing import RemoteFile

DESCRIPTION_SUFFIX = ".chunk.json"


class InputFile(Protocol):
    """A file that may be divided into parts."""

    @property
    def path(self) -> Any:
        """Where it is on this machine; None for standard input and for a file elsewhere."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def splittable(self) -> bool:
        """Whether a range can be read without reading what precedes it."""


F = TypeVar("F", bound=InputFile)
P = TypeVar("P", bound="Part[Any]")
C = TypeVar("C", bound="Chunk[Any]")


@dataclass(frozen=True)
class Part(Generic[F]):
    """The range ``start`` to ``stop`` of a file; to its end where ``stop`` is None.

    Each kind of file has its unit: fingerprints, bytes, row groups. Raises ValueError for what is
    no range, and for a range of a file that is not splittable.
    """

    file: F
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.stop is not None and self.stop < self.start):
            raise ValueError(f"start, stop: expected a range, got {self.start}, {self.stop}")
        if (self.start or self.stop is not None) and not self.file.splittable:
            raise ValueError(f"start, stop: {self.file.name} can only be read as a whole")

    @property
    def name(self) -> str:
        """What messages call the part."""
        return self.file.name


@dataclass(frozen=True)
class Chunk(Generic[P]):
    """At least one part, in order; ``number`` sorts chunks in the order of the input."""

    number: int
    parts: tuple[P, ...]

    file_type: ClassVar[type[Any]]
    part_type: ClassVar[type[Any]]

    @property
    def name(self) -> str:
        """The first part, and the number of others, for messages."""
        others = len(self.parts) - 1
        return self.parts[0].name + (f" and {others:,} more" if others else "")

    def describe(self) -> str:
        """Return a description of the chunk, JSON with absolute paths, for ``read``."""
        return json.dumps(asdict(self), default=_absolute)

    @classmethod
    def read(cls: type[C], path: Path) -> C:
        """Return the chunk described in the file ``path``, which the client wrote for a task.

        Raises FormatError if the description is damaged.
        """
        try:
            return cls.from_description(path.read_bytes())
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(path, None, f"not the description of a chunk: {error}") from error

    @classmethod
    def from_description(cls: type[C], description: bytes) -> C:
        """Return the chunk of a description; raise ValueError, KeyError or TypeError for others."""
        fields = json.loads(description)
        parts = []
        for part in fields["parts"]:
            path, remote = part["file"]["path"], part["file"].get("remote")
            located: dict[str, Any] = {"path": None if path is None else Path(path)}
            if remote is not None:
                located["remote"] = RemoteFile(**remote)
            file = cls.file_type(**part["file"] | located)
            parts.append(cls.part_type(**part | {"file": file}))
        if not parts:
            raise ValueError("no parts")
        return cls(fields["number"], tuple(parts))


def _absolute(path: Path) -> str:
    return str(path.absolute())


def grouped(parts: Iterable[tuple[P, int]], max_cost: int) -> list[tuple[P, ...]]:
    """Return groups of consecutive parts whose costs add up to at most ``max_cost``.

    Args:
        parts: each part with its cost; one that costs more is a group of its own.
        max_cost: in the unit of the costs.
    """
    groups: list[list[P]] = []
    total = 0
    for part, cost in parts:
        if not groups or total + cost > max_cost:
            groups.append([])
            total = 0
        groups[-1].append(part)
        total += cost
    return list(map(tuple, groups))
