"""Items of test sets, such as questions of benchmarks, in JSON lines or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import reading
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.compression import compression_by_suffix
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import MAX_RECORD_BYTES
from mr_dedup.formats.documents.read import part_line_blocks
from mr_dedup.formats.documents.rejects import Rejects, Report, listed_names
from mr_dedup.formats.lines import NonEmptyLines
from mr_dedup.formats.parquet_rows import is_text, open_parquet
from mr_dedup.formats.shards import read_tables, write_tables
from mr_dedup.formats.value_text import plain_values, python_values_or_null, value_texts

ITEMS = pa.schema(
    [
        ("set", pa.string()),
        ("item", pa.large_string()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("question", pa.large_string()),
        ("passage", pa.large_string()),
        ("answers", pa.list_(pa.large_string())),
    ]
)
"""Columns of items: where each was read, a line or a row from 0, and its texts; null where there
is none. Of several answers each is right."""

_BATCH_BYTES = 8 << 20
_MAX_ANSWERS = 1000
_MAX_DIGITS = 1000
_BLANKS = b" \t\r\n"


@dataclass(frozen=True)
class ItemOptions:
    """Which fields of a record are what; of several names, the first that has a value.

    Raises ValueError for no name, or an empty one.

    Attributes:
        question_names, answer_names, passage_names: Fields of the texts.
        choices_names: Fields of a list of answers, which an answer may be a number or a letter of.
        id_names: Fields of ids; by default an item is called ``FILE:LINE``.
        set_name: The field of the name of the set; None for the name of the file.
    """

    question_names: Sequence[str] = ("question", "problem", "prompt", "query")
    answer_names: Sequence[str] = ("answer", "answers", "answerKey", "target")
    passage_names: Sequence[str] = ("passage", "context")
    choices_names: Sequence[str] = ("choices", "options")
    id_names: Sequence[str] = ("id", "doc_id")
    set_name: str | None = None

    def __post_init__(self) -> None:
        for parameter in ("question_names", "answer_names", "passage_names", "id_names"):
            names = getattr(self, parameter)
            if isinstance(names, str) or not all(names):
                raise ValueError(f"{parameter}: expected names of fields, got {names!r}")
            object.__setattr__(self, parameter, tuple(names))
        if self.set_name == "":
            raise ValueError("set_name: expected the name of a field, got ''")

    @property
    def all_names(self) -> Sequence[str]:
        """All fields that may be read."""
        set_name = () if self.set_name is None else (self.set_name,)
        return [
            *self.question_names, *self.answer_names, *self.passage_names, *self.choices_names,
            *self.id_names, *set_name,
        ]  # fmt: skip


def write_items(path: Path, items: pa.Table) -> None:
    """Write a table of ``ITEMS`` to a file for tasks, with checksums; replace one of this name."""
    with whole_file(path, overwrite=True) as file:
        write_tables(file, [items])


def read_written_items(path: Path) -> pa.Table:
    """Return what ``write_items`` wrote, in one chunk; FormatError if it is damaged."""
    with reading(path), pa.memory_map(str(path)) as file:
        tables = list(read_tables(file, str(path)))
    return pa.concat_tables([ITEMS.empty_table(), *tables]).combine_chunks()


def read_items(
    files: Iterable[DocumentFile], options: ItemOptions, rejects: Rejects, *, strict: bool = False
) -> pa.Table:
    """Return the items of files as a table of ``ITEMS``, in their order; all in memory.

    A record is rejected if it is longer than 64 MB, is not JSON, not an object, or has none of the
    fields of questions and passages; one whose fields are empty is an item without a text.

    Args:
        files: Files of JSON lines or Parquet.
        options: Which fields are what.
        rejects: Collects records that cannot be read.
        strict: Whether the first such record is an error.

    Raises:
        FormatError: For the first reject, if ``strict``.
        MrDedupError: If a file cannot be read, or is of another format.
    """
    tables = [ITEMS.empty_table()]
    files = list(files)
    names = names_of_sets([file.name for file in files])
    for file, set_name in zip(files, names, strict=True):
        if file.format not in ("jsonl", "parquet"):
            raise MrDedupError(f"{file.name}: is {file.format}, expected JSON lines or Parquet")
        unit = "row" if file.format == "parquet" else "byte"
        report = Report(file.name, unit, rejects, strict)
        rejects.counts.files += 1
        builder = _Builder(file, set_name, options)
        try:
            read = (
                _read_rows(file, report, options.all_names)
                if file.format == "parquet"
                else _read_lines(file, report)
            )
            for position, record, reject in read:
                reason = builder.add(position, record)
                if reason is not None:
                    reject(reason)
        except FormatError as error:
            report.damage(error)
        tables.append(builder.table())
        rejects.counts.documents += len(tables[-1])
    return pa.concat_tables(tables).combine_chunks()


def names_of_sets(files: Sequence[str]) -> list[str]:
    """Return what the sets of files are called: by the last part of each name, without its endings.

    Where that would be one name for several files, it has more endings, or directories.

    >>> names_of_sets(["evals/gsm8k.jsonl", "evals/mmlu.dev.jsonl.gz", "evals/mmlu.test.jsonl.gz"])
    ['gsm8k', 'mmlu.dev', 'mmlu.test']
    >>> names_of_sets(["gsm8k/test.jsonl", "mmlu/test.jsonl"])
    ['gsm8k/test', 'mmlu/test']
    """
    # from the shortest name of each file to its whole name
    choices = [_set_names(name) for name in files]
    chosen = [0] * len(files)
    while True:
        names = [each[min(n, len(each) - 1)] for each, n in zip(choices, chosen, strict=True)]
        counts = Counter(names)
        repeated = [counts[name] > 1 for name in names]
        if not any(repeated) or all(
            n >= len(each)
            for each, n, again in zip(choices, chosen, repeated, strict=True)
            if again
        ):
            return names
        chosen = [n + again for n, again in zip(chosen, repeated, strict=True)]


def _set_names(name: str) -> list[str]:
    path = PurePosixPath(name)
    last = path.name
    plain = path.with_suffix("") if compression_by_suffix(path) else path
    stem = plain.stem
    folders = [part for part in path.parent.parts if part not in ("/", "..")]
    longer = ["/".join([*folders[-count:], stem]) for count in range(1, len(folders) + 1)]
    return [last.partition(".")[0] or last, stem, *longer, name]


Record = tuple[int, dict[str, Any], Callable[[str], None]]
"""The number of a record, its fields, and what rejects it for a reason."""


def _decoded(content: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Return a line of JSON, in which NaN, halves of surrogate pairs and any number may be.

    Raises msgspec.DecodeError.
    """
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as error:
        try:
            return json.loads(content.decode(), parse_int=_whole_number)
        except json.JSONDecodeError:
            raise error from None


def _whole_number(digits: str) -> int | str:
    """Return a number; its digits where Python makes no number of so many."""
    return int(digits) if len(digits) <= _MAX_DIGITS else digits


def _read_lines(file: DocumentFile, report: Report) -> Iterator[Record]:
    decoder = msgspec.json.Decoder()
    number = 0
    with part_line_blocks(file.whole(), MAX_RECORD_BYTES) as blocks:
        for block in blocks:
            if not block.size:
                report.reject(block.offset, f"is longer than {MAX_RECORD_BYTES} bytes", number + 1)
                number += 1
                continue
            lines = NonEmptyLines.of(block)
            assert lines.content is not None
            first = number
            number += lines.line_count
            for line, start, end in zip(
                lines.numbers.tolist(), lines.starts.tolist(), lines.ends.tolist(), strict=True
            ):
                content = lines.content[start:end]
                if not content.strip(_BLANKS):
                    continue

                def reject(
                    reason: str, offset: int = block.offset + start, line: int = first + line
                ) -> None:
                    report.reject(offset, reason, line + 1)

                try:
                    record = _decoded(content, decoder)
                except RecursionError:
                    reject("is nested too deeply")
                except UnicodeDecodeError:
                    reject("is not UTF-8")
                except msgspec.DecodeError as error:
                    reject(f"is not JSON: {error}")
                else:
                    if isinstance(record, dict):
                        yield first + line, record, reject
                    else:
                        reject("is not a JSON object")


def _values(column: pa.Array) -> list[Any]:
    """Return values as Python has them; of strings that are not UTF-8 the bytes, others as text."""
    values, types = plain_values(pa.chunked_array([column])), pa.types
    kind = values.type
    if types.is_nested(kind):
        return python_values_or_null(values)
    if is_text(kind):
        try:
            return list(values.to_pylist())
        except UnicodeDecodeError:
            return list(values.cast(pa.large_binary()).to_pylist())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return list(values.to_pylist())
    return list(value_texts(values).to_pylist())


def _read_rows(file: DocumentFile, report: Report, names: Sequence[str]) -> Iterator[Record]:
    """Yield the fields that are used; of a row without any the names of the others."""
    assert file.path is not None
    with open_parquet(file.path, file.name) as rows:
        number = 0
        used = [name for name, count in Counter(rows.columns).items() if count == 1]
        used = [name for name in used if name in names]
        others = dict.fromkeys(rows.columns)
        for group in range(len(rows.group_rows)):
            for batch in rows.rows(group, used or None, [], _BATCH_BYTES):
                columns = {name: _values(batch[name]) for name in used}
                for row in range(len(batch)):
                    record = {name: values[row] for name, values in columns.items()} or others

                    def reject(reason: str, number: int = number) -> None:
                        report.reject(number, reason)

                    yield number, record, reject
                    number += 1


class _Builder:
    """Collects the items of a file as columns."""

    def __init__(self, file: DocumentFile, set_name: str, options: ItemOptions) -> None:
        self._file = file
        self._options = options
        self._columns: dict[str, list[Any]] = {name: [] for name in ITEMS.names}
        self._set = set_name

    def add(self, position: int, record: dict[str, Any]) -> str | None:
        """Add a record; return why it is none, if it is none."""
        options = self._options
        if not any(name in record for name in (*options.question_names, *options.passage_names)):
            names = " nor ".join(map(repr, (*options.question_names, *options.passage_names)))
            return f"has neither {names}; its fields are {listed_names(record)}"
        try:
            question = _first_text(record, options.question_names)
            passage = _first_text(record, options.passage_names)
            answers = _answers(record, options)
        except RecursionError:
            return "is nested too deeply"
        id = next(
            (record[name] for name in options.id_names if isinstance(record.get(name), str | int)),
            None,
        )
        set_name = self._set
        if options.set_name is not None:
            value = record.get(options.set_name)
            if not isinstance(value, str | int):
                return f"has no {options.set_name!r} with the name of its set"
            set_name = str(value)
        values = (
            set_name, f"{self._file.name}:{position}" if id is None else str(id), self._file.name,
            position, question, passage, answers,
        )  # fmt: skip
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        return None

    def table(self) -> pa.Table:
        """Return the items."""
        return pa.table(self._columns, ITEMS)


def _first_text(record: dict[str, Any], names: Sequence[str]) -> str | None:
    """Return the text of the first field that has one."""
    for name in names:
        texts = [text for text in _texts(record.get(name)) if text.strip()]
        if texts:
            return "\n".join(texts)
    return None


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value: text, a number, a list of such, or of chat messages."""
    if isinstance(value, str):
        yield _encodable(value)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in ("text", "content", "value", "answer"):
            if name in value:
                yield from _texts(value[name])
                return


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _answers(record: dict[str, Any], options: ItemOptions) -> list[str]:
    """Return the right answers: texts, numbers, or those of a list of choices."""
    values = (record[name] for name in options.answer_names if record.get(name) is not None)
    value = next(values, None)
    choices, labels = _choices(record, options)
    if choices and isinstance(value, int | str) and not isinstance(value, bool):
        chosen = _chosen(value, choices, labels)
        if chosen is not None:
            return [chosen]
    texts = [text for text in _texts(value) if text.strip()]
    return list(dict.fromkeys(texts))[:_MAX_ANSWERS]


def _choices(record: dict[str, Any], options: ItemOptions) -> tuple[list[str], list[str]]:
    """Return the choices of a record and their labels, if it has any."""
    for name in options.choices_names:
        value = record.get(name)
        if isinstance(value, dict) and isinstance(value.get("text"), list):
            return list(_texts(value["text"])), list(_texts(value.get("label")))
        if isinstance(value, list):
            return list(_texts(value)), []
    return [], []


def _chosen(value: int | str, choices: list[str], labels: list[str]) -> str | None:
    """Return the choice that a number from 0, a label, or a letter from A stands for."""
    if isinstance(value, str):
        label = value.strip()
        if label in labels[: len(choices)]:
            return choices[labels.index(label)]
        if not (len(label) == 1 and label.isascii() and label.isalpha()):
            return None
        value = ord(label.upper()) - ord("A")
    return choices[value] if 0 <= value < len(choices) else None
