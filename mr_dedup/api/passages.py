"""``mr_dedup.find_passages``: passages that several documents have; ``restore``: cuts undone."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import PassagesOptions, RestoreOptions
from mr_dedup.api.sources import Documents
from mr_dedup.formats.tables import read_table
from mr_dedup.pipeline.result_files import damage_reported, files_of

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
        engine: As for ``dedup``, but not ``"emr"``.
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
    temporary = None
    if out is None:
        temporary = Path(tempfile.mkdtemp(prefix="mr_dedup-"))
        out = temporary / "result"
    try:
        with tempfile.TemporaryDirectory(prefix="mr_dedup-source-") as folder:
            documents = Documents(source, Path(folder), options.get("id_field"))
            call_command(
                "passages", documents.names, PassagesOptions, options,
                {"out": os.fspath(out), "runner": runner_of(engine)}, called=documents.called,
            )  # fmt: skip
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return PassagesResult(out, temporary)


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


class PassagesResult:
    """What ``find_passages`` made: tables as Arrow, read when they are used.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    def __init__(self, folder: str | os.PathLike[str], temporary: Path | None = None) -> None:
        """Open the result in ``folder``, a directory or URI, of this or an earlier run.

        The directory ``temporary`` is removed with this object.
        """
        self.folder = os.fspath(folder)
        self._files = files_of(self.folder)
        self._remove = (
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            if temporary is not None
            else None
        )

    @property
    def summary(self) -> dict[str, Any]:
        """Counts and options, such as ``documents_read`` and ``tokens_in_passages``."""
        loaded: dict[str, Any] = json.loads(self._files.content("summary.json"))
        return loaded

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
        return self._files.below("documents")

    def _table(self, name: str) -> pa.Table:
        tables = []
        for called, path in self._files.parts(name):
            with damage_reported(called):
                tables.append(read_table(path))
        return pa.concat_tables(tables)

    def __repr__(self) -> str:
        return f"PassagesResult({self.folder!r})"

    def close(self) -> None:
        """Remove the result if it is temporary."""
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> PassagesResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
