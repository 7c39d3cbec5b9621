"""Rejected records: counted, listed, written to a file; none is skipped silently."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    is on one line, of at most 200 printable characters. ``text_field`` is the name of a field that
    may have the text, for a record without the field that was asked for. ``records`` is the number
    of records that were lost, 1 if it is unknown. ``rest_of_file`` is true if nothing after the
    position could be read; ``records`` is then a lower bound.
    """

    file: str
    place: str | None
    reason: str
    text_field: str | None = None
    records: int = 1
    rest_of_file: bool = False

    def __str__(self) -> str:
        place = "" if self.place is None else f", {self.place}"
        return f"{self.file}{place}: {self.reason}"

    def to_json(self) -> bytes:
        """Return it as JSON: ``file``, ``place``, ``reason``, and what is not the default."""
        members: dict[str, str | int | None] = {
            "file": self.file, "place": self.place, "reason": self.reason
        }  # fmt: skip
        if self.text_field is not None:
            members["text_field"] = self.text_field
        if self.records != 1:
            members["records"] = self.records
        if self.rest_of_file:
            members["rest_of_file"] = True
        return msgspec.json.encode(members)


MAX_REJECTED = 0.1
"""The share of records that may be rejected, by default."""


@dataclass
class ReadCounts:
    """What was read of ``files`` files, and what was not.

    ``documents`` were read. ``rejects`` are for ``rejected`` records, ``first`` is the first of
    them. Of ``incomplete_files`` the rest, or all, could not be read; ``first_incomplete`` is the
    first such reject.
    """

    documents: int = 0
    rejected: int = 0
    first: Reject | None = None
    rejects: int = 0
    files: int = 0
    incomplete_files: int = 0
    first_incomplete: Reject | None = None

    def add(self, reject: Reject) -> None:
        """Count ``reject``."""
        self.first = self.first or reject
        self.rejects += 1
        self.rejected += reject.records
        if reject.rest_of_file:
            self.first_incomplete = self.first_incomplete or reject
            self.incomplete_files += 1

    def take_rejects(self, lines: bytes) -> None:
        """Count rejects that are lines of JSON, as ``Rejects`` writes them."""
        for reject in _DECODER.decode_lines(lines):
            self.add(reject)

    def describe_incomplete(self) -> str | None:
        """Return what to warn of where files were not read to their end; None if all were."""
        if self.first_incomplete is None:
            return None
        count, of = self.incomplete_files, max(self.files, self.incomplete_files)
        said = f"the rest of {count:,} of {of:,} files could not be read, or all of it"
        return f"{said}; the first is {self.first_incomplete}"

    def require_documents(self) -> None:
        """Raise NothingReadError if all records were rejected; to find no records is no error."""
        if self.documents or not self.rejected:
            return
        assert self.first is not None
        message = f"no document was read: {self.first}"
        if self.rejects > 1:
            message = f"none of {self.rejected:,} records could be read; the first, {self.first}"
        raise NothingReadError(message, self.first.text_field)

    def require_few_rejected(self, max_share: float) -> None:
        """Raise TooManyRejectedError if more than ``max_share`` of records or files were not read.

        One record is not too many, unless ``max_share`` is 0: among a few records it is a large
        share, and says nothing of others. A file is too many if it is a larger share of the files:
        nobody knows how many records it has.
        """
        records = self.documents + self.rejected
        allowed = max(max_share * records, 1 if max_share else 0)
        if self.rejected > allowed:
            raise TooManyRejectedError(
                f"{self.rejected:,} of {records:,} records could not be read, more than "
                f"{100 * max_share:g} %; the result is made of the others; "
                f"the first was {self.first}"
            )
        files = max(self.files, self.incomplete_files)
        if self.incomplete_files > max_share * files:
            raise TooManyRejectedError(
                f"{self.incomplete_files:,} of {files:,} files could not be read to the end, more "
                f"than {100 * max_share:g} %; the result is made of what could be read; "
                f"the first was {self.first_incomplete}"
            )


_DECODER = msgspec.json.Decoder(Reject)


class Rejects:
    """Takes the rejected records of a reading, in their order.

    ``counts`` counts them and what was read, ``listed`` are the first thousand of them: a file that
    is all wrong fills no memory. ``passed_over`` counts the records that are sound but no
    documents. Where ``file`` is given, each reject is written to it
    at once, as a line of JSON.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.counts = ReadCounts()
        self.listed: list[Reject] = []
        self.passed_over: Counter[PassedOver] = Counter()
        self._file = file

    @property
    def count(self) -> int:
        """How many rejects there are; one may be for many records, see ``counts``."""
        return self.counts.rejects

    def add(self, reject: Reject) -> None:
        """Take ``reject``; raises OSError if it cannot be written."""
        self.counts.add(reject)
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
        self,
        position: int,
        reason: str,
        line: int | None = None,
        text_field: str | None = None,
        rest_of_file: bool = False,
    ) -> None:
        """Count the record at ``position`` out, or the rest of the file; FormatError if strict.

        Positions are bytes or rows.
        """
        place = f"{self._unit} {position}"
        place = place if line is None else f"line {line} ({place})"
        self._add(Reject(self.file, place, reason, text_field, rest_of_file=rest_of_file))

    def reject_rows(self, position: int, reason: str, rows: int) -> None:
        """Count ``rows`` records from ``position`` on out; FormatError if strict."""
        self._add(Reject(self.file, f"{self._unit} {position}", reason, records=rows))

    def damage(self, error: FormatError, records: int = 1, rest_of_file: bool = True) -> None:
        """Count the rest of the file out, ``records`` or more; raises ``error`` if strict.

        Or one record, of a file that has no more, if it is not the ``rest_of_file``.
        """
        if self._strict:
            raise FormatError(self.file, error.offset, bounded(error.reason)) from error
        text_field = error.text_field if isinstance(error, NoTextColumnError) else None
        reject = Reject(self.file, error.offset, error.reason, text_field, records, rest_of_file)
        self._add(reject)

    def pass_over(self, why: PassedOver) -> None:
        """Count a sound record that is no document."""
        self._rejects.passed_over[why] += 1

    def _add(self, reject: Reject) -> None:
        reject = replace(reject, reason=bounded(reject.reason))
        if self._strict:
            raise FormatError(self.file, reject.place, reject.reason)
        self._rejects.add(reject)


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
