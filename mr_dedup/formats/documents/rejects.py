"""Rejected records: counted, listed, written to a file; none is skipped silently."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from mr_dedup.errors import FormatError, NothingReadError, TooManyRejectedError, escaped
from mr_dedup.files.outputs import whole_file

SkipReason = Literal["record_type", "http_status", "media_type"]
"""Why a valid WARC record is not a document."""

SKIP_PHRASES: Mapping[SkipReason, str] = {
    "record_type": "record type",
    "http_status": "HTTP status",
    "media_type": "media type",
}
"""What a message calls each reason."""

_LISTED = 1000

_MAX_FIELDS = 100

_MANY_EMPTY = 0.01
"""Of the records: if more have no text, or an empty one, there is a warning."""

_NEARLY_ALL = 0.9
"""Of the rejected records: if so many lack a text, it is another field's."""

_MAX_REASON_CHARACTERS = 200

_NAMES_CHARACTERS, _MAX_NAME = 120, 40
"""Characters of the names of fields that a reason lists, and of each."""

_TEXT_NAMES = ("text", "content", "contents", "raw_content", "raw_text", "body", "article",
                "document", "markdown", "completion", "code", "html")  # fmt: skip
"""Frequent names of fields that contain texts."""


class Reject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record, or the rest of a file, that could not be read; as JSON without defaults.

    Attributes:
        file: the name of the file.
        position: where in it, a phrase as ``FormatError.offset``; None for the whole file.
        reason: one line of at most 200 printable characters.
        text_field: a field that may contain the text, of a record without the expected field.
        records: how many records were lost; 1 if that is unknown.
        rest_of_file: whether nothing after it could be read; ``records`` is then a lower bound.
        without_text: whether the records are valid, and their texts null: no documents, which are
            not counted as records that could not be read.
    """

    file: str
    position: str | None
    reason: str
    text_field: str | None = None
    records: int = 1
    rest_of_file: bool = False
    without_text: bool = False

    def __str__(self) -> str:
        position = "" if self.position is None else f", {self.position}"
        return f"{self.file}{position}: {self.reason}"


MAX_REJECTED = 0.1
"""The share of records that may be rejected, by default."""


@dataclass
class ReadCounts:
    """How many documents and files were read, and how many were not.

    Attributes:
        documents: documents that were read.
        rejected: records that could not be read; ``first`` is the first such reject.
        rejects: how many rejects there are, also of records without a text.
        files: files that were read.
        incomplete_files: those that could not be read to their end; ``first_incomplete`` is the
            first such reject.
        text_fields: how many of the rejected records lack a text, by the field that may contain it;
            of the first hundred such fields.
        without_text: records whose text is null; ``first_without_text`` is the first, and
            ``other_fields`` counts the fields that may contain their texts.
        empty: documents whose text is empty or white space.
        whole_files: rejects that stand for a file, or its rest, with an unknown number of records.
        unusable_ids: documents with an id that has no form as text, named by their position.
    """

    documents: int = 0
    rejected: int = 0
    first: Reject | None = None
    rejects: int = 0
    files: int = 0
    incomplete_files: int = 0
    first_incomplete: Reject | None = None
    text_fields: Counter[str] = field(default_factory=Counter)
    without_text: int = 0
    first_without_text: Reject | None = None
    other_fields: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    whole_files: int = 0
    unusable_ids: int = 0

    def add(self, reject: Reject) -> None:
        """Count ``reject``."""
        self.rejects += 1
        if reject.without_text:
            self.first_without_text = self.first_without_text or reject
            self.without_text += reject.records
            self._count_field(self.other_fields, reject)
            return
        self.first = self.first or reject
        self.rejected += reject.records
        self._count_field(self.text_fields, reject)
        if reject.records == 1 and (reject.rest_of_file or reject.position is None):
            self.whole_files += 1
        if reject.rest_of_file:
            self.first_incomplete = self.first_incomplete or reject
            self.incomplete_files += 1

    @staticmethod
    def _count_field(fields: Counter[str], reject: Reject) -> None:
        name = reject.text_field
        if name is not None and (name in fields or len(fields) < _MAX_FIELDS):
            fields[name] += reject.records

    def add_lines(self, lines: bytes) -> None:
        """Count rejects from lines of JSON, as ``Rejects`` writes them."""
        for reject in _DECODER.decode_lines(lines):
            self.add(reject)

    def warnings(self) -> Iterator[str]:
        """Yield what a user should look at: unread rests of files, records without a text."""
        if self.first_incomplete is not None:
            count, of = self.incomplete_files, max(self.files, self.incomplete_files)
            message = f"{count:,} of {of:,} files could not be read to their end"
            yield f"{message}; the first is {self.first_incomplete}"
        records = self.documents + self.without_text
        if self.empty + self.without_text > _MANY_EMPTY * records:
            said = []
            if self.without_text:
                said.append(f"{self.without_text:,} of {records:,} records have no text")
            if self.empty:
                said.append(
                    f"{self.empty:,} of {self.documents:,} documents have an empty text, by which "
                    "they are duplicates"
                )
            fields = self.other_fields.most_common(1)
            field = f"such as {fields[0][0]} " if fields else ""
            yield (
                f"{' and '.join(said)}; if another field {field}has it, name that with "
                "--text-field or --html-field"
            )
        if self.unusable_ids:
            yield (
                f"{self.unusable_ids:,} documents have an id that has no form as text, such as a "
                "list; their position is their id"
            )

    def require_documents(self) -> None:
        """Raise NothingReadError if no record is a document; no records at all are no error."""
        first, records = self.first or self.first_without_text, self.rejected + self.without_text
        if self.documents or first is None:
            return
        message = f"no document was read: {first}"
        if self.rejects > 1:
            unit = "files" if self.whole_files == records else "records"
            message = f"none of {records:,} {unit} could be read; the first, {first}"
        raise NothingReadError(message, first.text_field)

    def require_few_rejected(self, max_share: float) -> None:
        """Raise TooManyRejectedError if more than ``max_share`` of records or files were not read.

        OtherTextFieldError if nearly all rejected records lack the field of the text.

        One record is not too many, unless ``max_share`` is 0: among a few records it is a large
        share. One file may be: the number of its records is unknown.
        """
        records = self.documents + self.rejected + self.without_text
        allowed = max(max_share * records, 1 if max_share else 0)
        if self.rejected > allowed:
            message = (
                f"{self.rejected:,} of {records:,} records could not be read, more than "
                f"{100 * max_share:g} %; the result is made of the others; "
                f"the first was {self.first}"
            )
            if self.text_fields.total() >= _NEARLY_ALL * self.rejected:
                ((name, _),) = self.text_fields.most_common(1)
                raise OtherTextFieldError(message, name)
            raise TooManyRejectedError(message)
        files = max(self.files, self.incomplete_files)
        if self.incomplete_files > max_share * files:
            raise TooManyRejectedError(
                f"{self.incomplete_files:,} of {files:,} files could not be read to the end, more "
                f"than {100 * max_share:g} %; the result is made of what could be read; "
                f"the first was {self.first_incomplete}"
            )


class OtherTextFieldError(TooManyRejectedError):
    """More records were rejected than allowed, nearly all as their text is in ``text_field``."""

    def __init__(self, message: str, text_field: str) -> None:
        self.text_field = text_field
        super().__init__(message)


_DECODER = msgspec.json.Decoder(Reject)


class Rejects:
    """Collects the rejected records of a reading, in order.

    ``counts`` counts them and what was read; ``listed`` are the first thousand, so that memory is
    bounded; ``skipped`` counts valid records that are not documents. With ``file``, each reject is
    also written to it as a line of JSON.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.counts = ReadCounts()
        self.listed: list[Reject] = []
        self.skipped: Counter[SkipReason] = Counter()
        self._file = file

    @property
    def count(self) -> int:
        """How many rejects there are; one may be for many records, see ``counts``."""
        return self.counts.rejects

    def add(self, reject: Reject) -> None:
        """Add a reject; raise OSError if it cannot be written."""
        self.counts.add(reject)
        if len(self.listed) < _LISTED:
            self.listed.append(reject)
        if self._file is not None:
            self._file.write(msgspec.json.encode(reject) + b"\n")


@contextlib.contextmanager
def rejects_file(path: Path, overwrite: bool = False) -> Iterator[Rejects]:
    """Yield Rejects that are also written to ``path``, which is complete or absent after the block.

    Raises MrDedupError as ``outputs.whole_file``.
    """
    with whole_file(path, overwrite) as file:
        yield Rejects(file)


def bounded(reason: str) -> str:
    """Return a reason as one line of at most 200 printable characters.

    Messages of libraries may quote a whole page.
    """
    line = " ".join(reason.split())[: _MAX_REASON_CHARACTERS + 1]
    shown = escaped(line)
    too_long = len(shown) > _MAX_REASON_CHARACTERS
    return shown[: _MAX_REASON_CHARACTERS - 3] + "..." if too_long else shown


class Report:
    """Reports the rejected and skipped records of one file.

    ``settle`` is called before each reject: it may report rejects of records before that one.
    """

    def __init__(
        self,
        file: str,
        unit: str,
        rejects: Rejects,
        strict: bool,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self.file = file
        self._settle = settle
        self._unit = unit
        self._rejects = rejects
        self._strict = strict

    def reject(
        self,
        offset: int,
        reason: str,
        line: int | None = None,
        text_field: str | None = None,
        rest_of_file: bool = False,
    ) -> None:
        """Reject the record at ``offset``, a byte or row, or the rest of the file.

        Raises FormatError instead if reading is strict.
        """
        position = self._position(offset, line)
        self._add(Reject(self.file, position, reason, text_field, rest_of_file=rest_of_file))

    def reject_rows(self, offset: int, reason: str, rows: int) -> None:
        """Reject ``rows`` records from ``offset`` on; FormatError if strict."""
        self._add(Reject(self.file, self._position(offset), reason, records=rows))

    def damage(self, error: FormatError, records: int = 1, rest_of_file: bool = True) -> None:
        """Reject the rest of the file, at least ``records``; raise ``error`` if strict.

        Unless ``rest_of_file``, reject one record only.
        """
        self._settle()
        if self._strict:
            raise FormatError(self.file, error.offset, bounded(error.reason)) from error
        text_field = error.text_field if isinstance(error, NoTextColumnError) else None
        reject = Reject(self.file, error.offset, error.reason, text_field, records, rest_of_file)
        self._add(reject)

    def without_text(
        self,
        offset: int,
        name: str,
        line: int | None = None,
        text_field: str | None = None,
        records: int = 1,
    ) -> None:
        """Report valid records from ``offset`` on whose text, the field ``name``, is null."""
        position, reason = self._position(offset, line), f"its {name!r} is null"
        self._add(Reject(self.file, position, reason, text_field, records, without_text=True))

    def unusable_ids(self, documents: int) -> None:
        """Count documents whose ids have no form as text."""
        self._rejects.counts.unusable_ids += documents

    def skip(self, why: SkipReason) -> None:
        """Count a valid record that is not a document."""
        self._rejects.skipped[why] += 1

    def _position(self, offset: int, line: int | None = None) -> str:
        position = f"{self._unit} {offset}"
        return position if line is None else f"line {line} ({position})"

    def _add(self, reject: Reject) -> None:
        self._settle()
        reject = msgspec.structs.replace(reject, reason=bounded(reject.reason))
        if self._strict:
            raise FormatError(self.file, reject.position, reject.reason)
        self._rejects.add(reject)


class NoTextColumnError(FormatError):
    """A file without a column of texts; ``text_field`` is a column that may contain them."""

    def __init__(self, path: str, reason: str, text_field: str | None) -> None:
        self.text_field = text_field
        super().__init__(path, None, reason)


def listed_names(names: Iterable[str]) -> str:
    """Return names of fields for a reason: as many as fit, long ones truncated."""
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
    """Return which of the fields with strings most likely contains the documents' texts."""
    known = (name for text_name in _TEXT_NAMES for name in names if name.lower() == text_name)
    return next(known, names[0] if names else None)
