"""Rejected records: counted, listed, written to a file; none is skipped silently."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from mr_dedup.errors import FormatError, NothingReadError, TooManyRejectedError
from mr_dedup.formats.outputs import whole_file

PassedOver = Literal["another record type", "HTTP status", "media type"]
"""Why a sound WARC record is not a document."""

_LISTED = 1000
_MAX_REASON_CHARACTERS = 200

_NAMES_CHARACTERS, _MAX_NAME = 120, 40
"""Characters of the names of fields that a reason lists, and of each."""

_USUAL_TEXTS = ("text", "content", "contents", "raw_content", "raw_text", "body", "article",
                "document", "markdown", "completion", "code", "html")  # fmt: skip
"""What fields of texts are often called."""


@dataclass(frozen=True)
class Reject:
    """A record, or the rest of a file, that could not be read.

    ``place`` is its position, a phrase as in FormatError, None for the file as a whole. ``reason``
    is on one line, of at most 200 printable characters. ``text_field`` is the field that may have
    the text where there is no field of the name that is expected.
    """

    file: str
    place: str | None
    reason: str
    text_field: str | None = None

    def __str__(self) -> str:
        place = "" if self.place is None else f", {self.place}"
        return f"{self.file}{place}: {self.reason}"

    def to_json(self) -> bytes:
        """Return it as JSON, with the members ``file``, ``place`` and ``reason``."""
        members = {"file": self.file, "place": self.place, "reason": self.reason}
        if self.text_field is not None:
            members["text_field"] = self.text_field
        return msgspec.json.encode(members)


MAX_REJECTED = 0.1
"""The share of records that may be rejected, by default."""


@dataclass
class ReadCounts:
    """How many documents were read, how many records were rejected, and the first of these."""

    documents: int = 0
    rejected: int = 0
    first: Reject | None = None

    def take_rejects(self, count: int, lines: bytes) -> None:
        """Count rejects that are lines of JSON, as ``Rejects`` writes them."""
        if count and self.first is None:
            self.first = msgspec.json.decode(lines[: lines.find(b"\n") + 1], type=Reject)
        self.rejected += count

    def require_documents(self) -> None:
        """Raise NothingReadError if all records were rejected; to find no records is no error."""
        if self.documents or not self.rejected:
            return
        assert self.first is not None
        message = f"no document was read: {self.first}"
        if self.rejected > 1:
            message = f"none of {self.rejected:,} records could be read; the first, {self.first}"
        raise NothingReadError(message, self.first.text_field)

    def require_few_rejected(self, max_share: float) -> None:
        """Raise TooManyRejectedError if more than ``max_share`` of the records were rejected.

        One record is not too many, unless ``max_share`` is 0: among a few records it is a large
        share, and says nothing of others.
        """
        records = self.documents + self.rejected
        allowed = max(max_share * records, 1 if max_share else 0)
        if self.rejected <= allowed:
            return
        raise TooManyRejectedError(
            f"{self.rejected:,} of {records:,} records could not be read, more than "
            f"{100 * max_share:g} %; the result is made of the others; the first was {self.first}"
        )


class Rejects:
    """Takes the rejected records of a reading, in their order.

    ``count`` is how many there are, ``listed`` the first thousand of them: a file that is all
    wrong fills no memory. ``documents`` are those that were read, ``passed_over`` counts the
    records that are sound but no documents. Where ``file`` is given, each reject is written to it
    at once, as a line of JSON.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.count = self.documents = 0
        self.listed: list[Reject] = []
        self.passed_over: Counter[PassedOver] = Counter()
        self._file = file

    @property
    def counts(self) -> ReadCounts:
        """What was read, and what was rejected, till now."""
        return ReadCounts(self.documents, self.count, self.listed[0] if self.listed else None)

    def add(self, reject: Reject) -> None:
        """Take ``reject``; raises OSError if it cannot be written."""
        self.count += 1
        if len(self.listed) < _LISTED:
            self.listed.append(reject)
        if self._file is not None:
            self._file.write(reject.to_json() + b"\n")


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
    """What the readers of one file report of its records."""

    def __init__(self, file: str, unit: str, rejects: Rejects, strict: bool) -> None:
        self.file = file
        self._unit = unit
        self._rejects = rejects
        self._strict = strict

    def reject(
        self, position: int, reason: str, line: int | None = None, text_field: str | None = None
    ) -> None:
        """Count the record at ``position`` (bytes or rows) out; FormatError if strict."""
        place = f"{self._unit} {position}"
        self._add(place if line is None else f"line {line} ({place})", reason, text_field)

    def damage(self, error: FormatError) -> None:
        """Count the rest of the file out; raises ``error`` if strict."""
        if self._strict:
            raise FormatError(self.file, error.offset, bounded(error.reason)) from error
        text_field = error.text_field if isinstance(error, NoTextColumnError) else None
        self._add(error.offset, error.reason, text_field)

    def pass_over(self, why: PassedOver) -> None:
        """Count a sound record that is no document."""
        self._rejects.passed_over[why] += 1

    def _add(self, place: str | None, reason: str, text_field: str | None) -> None:
        reason = bounded(reason)
        if self._strict:
            raise FormatError(self.file, place, reason)
        self._rejects.add(Reject(self.file, place, reason, text_field))


class NoTextColumnError(FormatError):
    """A file without a column of texts; ``text_field`` is a column that may be it."""

    def __init__(self, path: str, reason: str, text_field: str | None) -> None:
        self.text_field = text_field
        super().__init__(path, None, reason)


def listed_names(names: Iterable[str]) -> str:
    """Return names of fields as a reason lists them: as many as it has room for, long ones cut."""
    names = list(names)
    shown: list[str] = []
    for name in names:
        shown.append(name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}...")
        if len(ascii(", ".join(shown))) > _NAMES_CHARACTERS:
            shown.pop()
            break
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


def likely_text(names: Sequence[str]) -> str | None:
    """Return which of the fields that have texts is most likely that of the documents' texts."""
    known = (name for usual in _USUAL_TEXTS for name in names if name.lower() == usual)
    return next(known, names[0] if names else None)
