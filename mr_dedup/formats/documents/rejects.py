"""Rejected records: counted, listed, written to a file; none is passed over in silence."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from mr_dedup.errors import FormatError
from mr_dedup.formats.outputs import whole_file

PassedOver = Literal["another record type", "HTTP status", "media type"]
"""Why a sound WARC record is not a document."""

_LISTED = 1000
_MAX_REASON_CHARACTERS = 200


@dataclass(frozen=True)
class Reject:
    """A record, or the rest of a file, that could not be read.

    ``place`` is a phrase as in FormatError, None where it is the file as a whole. ``reason`` is on
    one line, of at most 200 printable characters.
    """

    file: str
    place: str | None
    reason: str


class Rejects:
    """Takes the rejected records of a reading, in their order.

    ``count`` is how many there are, ``listed`` the first thousand of them: a file that is all
    wrong fills no memory. ``passed_over`` counts the records that are sound but no documents.
    Where ``file`` is given, each reject is written to it at once, as a line of JSON with the
    members ``file``, ``place`` and ``reason``.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.count = 0
        self.listed: list[Reject] = []
        self.passed_over: Counter[PassedOver] = Counter()
        self._file = file

    def add(self, reject: Reject) -> None:
        """Take ``reject``; raises OSError if it cannot be written."""
        self.count += 1
        if len(self.listed) < _LISTED:
            self.listed.append(reject)
        if self._file is not None:
            self._file.write(msgspec.json.encode(reject) + b"\n")


@contextlib.contextmanager
def rejects_file(path: Path, overwrite: bool = False) -> Iterator[Rejects]:
    """Yield Rejects that are also written to ``path``, which appears whole when the block ends.

    Raises MrDedupError as ``outputs.whole_file``.
    """
    with whole_file(path, overwrite) as file:
        yield Rejects(file)


def bounded(reason: str) -> str:
    """Return a reason on one line, of at most 200 characters, and all of them printable.

    Libraries quote what they could not read, a whole page of it.
    """
    line = " ".join(reason.split())[: _MAX_REASON_CHARACTERS + 1]
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)
    too_long = len(shown) > _MAX_REASON_CHARACTERS
    return shown[: _MAX_REASON_CHARACTERS - 3] + "..." if too_long else shown


class Report:
    """What the readers of one file tell of its records."""

    def __init__(self, file: str, unit: str, rejects: Rejects, strict: bool) -> None:
        self.file = file
        self._unit = unit
        self._rejects = rejects
        self._strict = strict

    def reject(self, position: int, reason: str, line: int | None = None) -> None:
        """Count the record at ``position`` (bytes or rows) out; FormatError if strict."""
        place = f"{self._unit} {position}"
        self._add(place if line is None else f"line {line} ({place})", reason)

    def damage(self, error: FormatError) -> None:
        """Count the rest of the file out; raises ``error`` if strict."""
        if self._strict:
            raise FormatError(self.file, error.offset, bounded(error.reason)) from error
        self._add(error.offset, error.reason)

    def pass_over(self, why: PassedOver) -> None:
        """Count a sound record that is no document."""
        self._rejects.passed_over[why] += 1

    def _add(self, place: str | None, reason: str) -> None:
        reason = bounded(reason)
        if self._strict:
            raise FormatError(self.file, place, reason)
        self._rejects.add(Reject(self.file, place, reason))
