"""What the results of commands share in Python: where they are, their summary and tables."""

from __future__ import annotations

import contextlib
import html
import json
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from mr_dedup.files.temporary import removable_folder
from mr_dedup.formats.tables import read_table
from mr_dedup.pipeline.result_files import damage_reported, files_of, refuse_newer_result
from mr_dedup.pipeline.summary import refuse_newer, summary_of

_REPORT_PIXELS = 700

_Self = TypeVar("_Self", bound="Result")


class Report:
    """The report of a result: shows itself in a notebook."""

    def __init__(self, page: str) -> None:
        self._html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, one page of HTML without references."""
        Path(path).write_text(self._html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self._html)}" title="mr-dedup report" width="100%"'
            f' height="{_REPORT_PIXELS}" style="border: 0"></iframe>'
        )


class Result:
    """The directory of a result: its tables are read as Arrow when they are used.

    A context manager, which removes the result if it is temporary.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    def __init__(
        self, folder: str | os.PathLike[str], remove: Callable[[], None] | None = None
    ) -> None:
        """Open the result in ``folder``, a directory or URI, of this or an earlier run.

        ``remove`` removes a temporary one; it is called when this object is closed or is gone.
        """
        self.folder = os.fspath(folder)
        self._files = files_of(self.folder)
        self._remove = None if remove is None else weakref.finalize(self, remove)

    @property
    def summary(self) -> dict[str, Any]:
        """Counts and options of the run, such as ``documents_read``."""
        name, content = self._files.name_of("summary.json"), self._files.content("summary.json")
        refuse_newer(name, content)
        with summary_of(name):
            return dict(json.loads(content))

    def _document_files(self) -> list[Path] | list[str]:
        return self._files.below("documents")

    def _report(self) -> Report:
        return Report(self._files.content("report.html").decode())

    def _table(self, name: str) -> pa.Table:
        # parts of documents that tasks wrote may lack columns that others have
        refuse_newer_result(self._files)
        tables = []
        for called, path in self._files.parts(name):
            with damage_reported(called):
                tables.append(read_table(path))
        return pa.concat_tables(tables, promote_options="permissive")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})"

    def close(self) -> None:
        """Remove the result if it is temporary."""
        if self._remove is not None:
            self._remove()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def result_at(
    out: str | os.PathLike[str] | None,
) -> Iterator[tuple[str | os.PathLike[str], Callable[[], None] | None]]:
    """Yield where a result is made, and without ``out`` a function that removes it.

    Such a temporary one is removed if the block ends with an error.
    """
    if out is not None:
        yield out, None
        return
    folder, remove = removable_folder()
    try:
        yield folder / "result", remove
    except BaseException:
        remove()
        raise
