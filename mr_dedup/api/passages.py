"""``mr_dedup.find_passages``: passages that several documents have; ``restore``: cuts undone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import PassagesOptions, RestoreOptions
from mr_dedup.api.results import Result, result_at
from mr_dedup.api.sources import Documents
from mr_dedup.files.temporary import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.engines import Engine
    from mr_dedup.api.sources import Source


def find_passages(
    source: Source,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: Engine = "auto",
    **options: Unpack[PassagesOptions],
) -> PassagesResult:
    """Find passages that several documents have, and cut them out, as ``mr-dedup passages`` does.

    Args:
        source: Documents, as for ``dedup``.
        out: The directory or URI of the result. By default it is temporary, and removed with the
            returned object.
        engine: As for ``dedup``.
        **options: Those of the command, with ``_`` for ``-``: ``unit``, ``min_documents``, ``per``,
            ``cut`` and others.

    Returns:
        The result.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.

    Example:
        >>> texts = ["All rights reserved by us. News of today.", "More! ALL RIGHTS RESERVED by us"]
        >>> found = find_passages(texts, unit="tokens:4", cut="all")
        >>> found.passages.select(["documents", "text"]).to_pylist()
        [{'documents': 2, 'text': 'All rights reserved by us'}]
        >>> found.cuts.select(["id", "start", "end", "text"]).to_pylist()[1]
        {'id': '1', 'start': 6, 'end': 31, 'text': 'ALL RIGHTS RESERVED by us'}
    """
    with (
        result_at(out) as (made, remove),
        temporary_folder() as folder,
    ):
        documents = Documents(source, folder, options.get("id_field"))
        call_command(
            "passages", documents.names, PassagesOptions, options,
            {"out": os.fspath(made), "runner": runner_of(engine)}, called=documents.called,
        )  # fmt: skip
    return PassagesResult(made, remove)


def restore(
    result: str | os.PathLike[str],
    out: str | os.PathLike[str],
    **options: Unpack[RestoreOptions],
) -> None:
    """Put back what was cut out of documents, as ``mr-dedup restore`` does.

    Args:
        result: The directory or URI of a result of ``find_passages`` with ``cut``, or of
            ``decontaminate`` with ``action="cut"``.
        out: The directory where the documents are written as they were before they were cut.
        **options: Those of the command: ``overwrite`` and others.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option that does not exist.
    """
    call_command(
        "restore", [os.fspath(result)], RestoreOptions, options, {"out": os.fspath(out)}
    )  # fmt: skip


class PassagesResult(Result):
    """What ``find_passages`` made: tables as Arrow, read when they are used.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    @property
    def passages(self) -> pa.Table:
        """A row for each passage: in how many documents it is, and where it is first."""
        return self._table("passages")

    @property
    def occurrences(self) -> pa.Table:
        """A row for each occurrence of a passage, in the order of the documents."""
        return self._table("occurrences")

    @property
    def cuts(self) -> pa.Table:
        """A row for each cut, in the order of the documents; MrDedupError if nothing was cut."""
        return self._table("cuts")

    @property
    def document_files(self) -> list[Path] | list[str]:
        """The files of cut documents, as paths, in a store as URIs; none if nothing was cut."""
        return self._document_files()
