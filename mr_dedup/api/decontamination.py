"""``mr_dedup.decontaminate``: which documents contain items of test sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import DecontaminateOptions, Name
from mr_dedup.api.results import Report, Result, result_at
from mr_dedup.api.sources import Documents
from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.engines import Engine
    from mr_dedup.api.sources import Source

    Items: TypeAlias = Name | Iterable[Name] | Iterable[Mapping[str, Any]]

_ITEMS = "items.jsonl"


def decontaminate(
    source: Source,
    evals: Items,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: Engine = "auto",
    **options: Unpack[DecontaminateOptions],
) -> DecontaminationResult:
    """Find the documents that contain items of test sets, as ``mr-dedup decontaminate`` does.

    Args:
        source: Documents, as for ``dedup``.
        evals: The items: files, globs, directories or URIs of JSON lines or Parquet, or an
            iterable of records with ``question``, ``passage`` or both, and perhaps ``answer``.
        out: The directory or URI of the result. By default it is temporary, and removed with the
            returned object.
        engine: As for ``dedup``.
        **options: Those of the command, with ``_`` for ``-``: ``action``, ``min_coverage`` and
            others.

    Returns:
        The result.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.

    Example:
        >>> exam = [{"id": "q1", "question": "How many legs have seven spiders?", "answer": "56"}]
        >>> texts = ["Quiz! HOW MANY LEGS have seven spiders -- 56, says Ann.", "Spiders run."]
        >>> found = decontaminate(texts, exam).matches
        >>> found.select(["id", "item", "verdict", "start", "end"]).to_pylist()[0]
        {'id': '0', 'item': 'q1', 'verdict': 'question_and_answer', 'start': 6, 'end': 38}
    """
    with (
        result_at(out) as (made, remove),
        temporary_folder() as folder,
    ):
        documents = Documents(source, folder, options.get("id_field"))
        names, called = _names_of(evals, folder)
        if documents.in_memory and options.get("action", "report") != "report":
            options.setdefault("documents", "parquet")
        call_command(
            "decontaminate", documents.names, DecontaminateOptions, options,
            {"evals": names, "out": os.fspath(made), "runner": runner_of(engine)},
            called={**documents.called, **called},
        )  # fmt: skip
    return DecontaminationResult(made, remove)


def _names_of(evals: Items, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the files of items, of records one that they are written to, and what it is called."""
    if isinstance(evals, str | os.PathLike):
        return [os.fspath(evals)], {}
    if isinstance(evals, bytes | Mapping) or not isinstance(evals, Iterable):
        raise TypeError(f"evals: expected paths or records, not {type(evals).__name__}")
    elements: list[Any] = list(evals)
    if not elements:
        raise MrDedupError("evals: there are no items")
    if all(isinstance(each, str | os.PathLike) for each in elements):
        return [os.fspath(each) for each in elements], {}
    if not all(isinstance(each, Mapping) for each in elements):
        raise TypeError("evals: expected paths or records, not a mixture of others")
    path = folder / _ITEMS
    path.write_bytes(b"".join(_encoded(each) + b"\n" for each in elements))
    return [str(path)], {str(path): _ITEMS}


def _encoded(record: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(record))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"evals: a record cannot be written as JSON: {error}") from error


class DecontaminationResult(Result):
    """What ``decontaminate`` made: tables as Arrow, read when they are used, and a report.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    @property
    def matches(self) -> pa.Table:
        """A row for each text of an item in a document, and whether it counts."""
        return self._table("matches")

    @property
    def items(self) -> pa.Table:
        """A row for each item: in how many documents it is, or why it was not looked for."""
        return self._table("items")

    @property
    def kept_files(self) -> list[Path] | list[str]:
        """The files of documents, of a run that drops or cuts, as paths, in a store as URIs."""
        return self._document_files()

    def report(self) -> Report:
        """Return the report, which shows itself in a notebook."""
        return self._report()
