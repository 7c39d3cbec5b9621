"""``mr_dedup.dedup``: keep one of each cluster of near-duplicate documents."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import DedupOptions
from mr_dedup.api.results import Report, Result, result_at
from mr_dedup.api.sources import Documents
from mr_dedup.clusters.decisions import Reason
from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.pipeline.decision import Decision, batches_of, decisions_on
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.engines import Engine
    from mr_dedup.api.sources import Source


def dedup(
    source: Source,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: Engine = "auto",
    **options: Unpack[DedupOptions],
) -> DedupResult:
    """Keep one of each cluster of near-duplicate documents, as ``mr-dedup dedup`` does.

    Args:
        source: The documents: a file, glob, directory or URI; an iterable of such as
            ``pathlib.Path``; an iterable of texts, which get their number as id, or of records with
            ``text`` and maybe ``id``; or a table of pandas, polars, DuckDB, PyArrow or ``datasets``
            with such columns. What is not files is written to a temporary one first.
        out: The directory or URI of the result. By default it is temporary, and removed with the
            returned object; documents are then kept as Parquet.
        engine: ``"auto"``, which is ``"memory"``, or that, ``"local"``, ``"inline"``, ``"hadoop"``
            or ``"spark"``; or a SparkSession, which is used if it is the active one.
        **options: Those of the command, with ``_`` for ``-``: ``method``, ``verify``, ``keep``,
            ``against`` and others.

    Returns:
        The result.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.
        ValueError: Texts that are names of files.

    Example:
        >>> page = "the quick brown fox jumps over the lazy dog on a sunny day"
        >>> result = dedup([page, page + " today", "something else altogether"])
        >>> result.kept["id"].to_pylist()
        ['0', '2']
        >>> print(result.why("1"))
        1: dropped, a near-duplicate of 0 (similarity 0.92); 2 documents in its cluster
    """
    with (
        result_at(out) as (made, remove),
        temporary_folder() as folder,
    ):
        documents = Documents(source, folder, options.get("id_field"))
        if documents.in_memory or remove is not None:
            options.setdefault("documents", "parquet")
        call_command(
            "dedup", documents.names, DedupOptions, options,
            {"out": os.fspath(made), "runner": runner_of(engine)}, called=documents.called,
        )  # fmt: skip
    return DedupResult(made, remove)


class DedupResult(Result):
    """What ``dedup`` made: tables as Arrow, read when they are used, and a report.

    Tables are in memory as a whole. Read those of a larger result a batch at a time with
    ``batches``, or with any reader of Parquet from ``folder``. Of a result in a store, at a URI
    such as ``s3://bucket/kept``, each part is copied to a temporary directory while it is read:
    one at a time, up to a million rows. Nothing is remembered: each use reads the store.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    @property
    def kept(self) -> pa.Table:
        """The kept documents with all their columns, if they were kept as Parquet."""
        return self._table(self._dataset("kept"))

    @property
    def kept_files(self) -> list[Path] | list[str]:
        """The files of kept documents, as paths, of a result in a store as URIs."""
        return self._document_files()

    @property
    def decisions(self) -> pa.Table:
        """A row for each document, with whether it was kept, why, and what it duplicates."""
        return self._table("decisions")

    @property
    def clusters(self) -> pa.Table:
        """A row for each cluster, with its documents, and how many of them were kept."""
        return self._table("clusters")

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``"kept"``, ``"decisions"`` or ``"clusters"``, some thousand a time."""
        yield from batches_of(self._files, self._dataset(name))

    def report(self) -> Report:
        """Return the report, which shows itself in a notebook."""
        return self._report()

    def why(self, id: str) -> Decision:
        """Return the decision on a document; of several with that id, on the first.

        Reads decisions up to it, and clusters; of a dissimilar document all decisions, and the
        texts of up to a hundred kept documents of its cluster, for the most similar one.

        Raises:
            KeyError: No document has that id.
        """
        return next(decisions_on(self._files, [id]))[0]

    def _dataset(self, name: str) -> str:
        """Return the directory of a table; MrDedupError for kept documents of other formats."""
        if name != "kept":
            return name
        if any(not str(file).endswith(".parquet") for file in self.kept_files):
            raise MrDedupError(
                f"{self._files.name_of('documents')}: not Parquet; see kept_files, or pass "
                "documents='parquet'"
            )
        return "documents"

    def __repr__(self) -> str:
        if is_uri(self.folder):
            return super().__repr__()
        counts = self.summary
        kept, read = counts["documents_kept"], counts["documents_read"]
        said = f"kept {kept:,} of {read:,} documents"
        if rejected := counts["rejected_records"]:
            said += f", rejected: {rejected:,}"
        if without_text := counts.get("documents_without_text"):
            said += f", without text: {without_text:,}"
        return f"<DedupResult: {said}, in {self.folder}>"

    def _repr_html_(self) -> str:
        counts = self.summary
        rows = [("documents", counts["documents_read"])]
        for is_kept, name in (True, "kept"), (False, "dropped"):
            rows.append((name, counts[f"documents_{name}"]))
            rows += [
                (f"– {reason.replace('_', ' ')}", number)
                for reason, number in counts["reasons"].items()
                if number and Reason[reason.upper()].is_kept == is_kept
            ]
        rows.append(("rejected records", counts["rejected_records"]))
        rows.append(("records without text", counts.get("documents_without_text", 0)))
        cells = "".join(
            f'<tr><td style="text-align: left">{html.escape(name)}</td><td>{number:,}</td></tr>'
            for name, number in rows
        )
        return f"<table><caption>{html.escape(self.folder)}</caption>{cells}</table>"
