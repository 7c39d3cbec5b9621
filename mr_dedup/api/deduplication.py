"""``mr_dedup.dedup``: keep one of each cluster of near-duplicate documents."""

from __future__ import annotations

import html
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import DedupOptions
from mr_dedup.api.result_files import damage_reported, files_of
from mr_dedup.api.sources import Documents
from mr_dedup.clusters.decisions import Reason
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.parts import file_batches
from mr_dedup.formats.tables import read_table
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.engines import Engine
    from mr_dedup.api.sources import Source

_REPORT_PIXELS = 700


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
        engine: ``"memory"``, ``"local"``, ``"inline"``, ``"hadoop"``, ``"emr"`` or ``"spark"``, or
            a SparkSession, which is used if it is the active one.
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
    temporary = None
    if out is None:
        temporary = Path(tempfile.mkdtemp(prefix="mr_dedup-"))
        out = temporary / "result"
    try:
        with tempfile.TemporaryDirectory(prefix="mr_dedup-source-") as folder:
            documents = Documents(source, Path(folder))
            if documents.in_memory or temporary is not None:
                options.setdefault("documents", "parquet")
            call_command(
                "dedup", documents.names, DedupOptions, options,
                {"out": os.fspath(out), "runner": runner_of(engine)}, called=documents.called,
            )  # fmt: skip
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return DedupResult(out, temporary)


@dataclass(frozen=True)
class Decision:
    """Why one document was kept or dropped.

    Attributes:
        id: Of the document; None if it has none.
        file: The file that it was read from.
        position: Its offset there in bytes, or its row.
        reason: ``unclustered``, ``first_of_cluster``, ``dissimilar``, ``near_duplicate``,
            ``exact_duplicate`` or ``same_cluster``; docs/formats.md explains them.
        kept_id: The kept document that it duplicates; its own if it is kept.
        similarity: Of the two texts, None if they were not compared.
        cluster_documents: The documents of its cluster; 1 if it has none.
        kept_file: The file of the kept document that it duplicates.
        kept_position: Its offset there in bytes, or its row.
        earlier_result: The result of an earlier run that kept it; None if this run did.
    """

    id: str | None
    file: str
    position: int
    reason: str
    kept_id: str | None
    similarity: float | None
    cluster_documents: int
    kept_file: str | None = None
    kept_position: int | None = None
    earlier_result: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the document was kept."""
        return Reason[self.reason.upper()].is_kept

    def __str__(self) -> str:
        similarity = "" if self.similarity is None else f" (similarity {self.similarity:.2f})"
        kept = _name(self.kept_id, self.kept_file, self.kept_position)
        if self.earlier_result is not None:
            kept += f", which {self.earlier_result} kept"
        said = {
            "unclustered": "kept, no other document is a candidate",
            "first_of_cluster": "kept, the first of its cluster in the order of the policy",
            "dissimilar": "kept, not similar enough to a kept document of its cluster",
            "near_duplicate": f"dropped, a near-duplicate of {kept}{similarity}",
            "exact_duplicate": f"dropped, an exact duplicate of {kept}",
            "same_cluster": f"dropped, in one cluster with {kept}",
        }[self.reason]
        count = self.cluster_documents
        cluster = f"; {count:,} documents in its cluster" if count > 1 else ""
        return f"{_name(self.id, self.file, self.position)}: {said}{cluster}"


def _name(id: str | None, file: str | None, position: int | None) -> str:
    """Return the id of a document, or where it is if it has none."""
    return id if id is not None else f"{file}, {position}"


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


class DedupResult:
    """What ``dedup`` made: tables as Arrow, read when they are used, and a report.

    Tables are in memory as a whole. Read those of a larger result a batch at a time with
    ``batches``, or with any reader of Parquet from ``folder``. Of a result in a store, at a URI
    such as ``s3://bucket/kept``, each part is copied to a temporary directory while it is read:
    one at a time, up to a million rows. Nothing is remembered: each use reads the store.

    Attributes:
        folder: The directory or URI of the result; docs/formats.md describes it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        temporary: Path | None = None,
    ) -> None:
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
        """Counts and options: ``documents_read``, ``documents_kept``, ``reasons`` and others."""
        loaded: dict[str, Any] = json.loads(self._files.content("summary.json"))
        return loaded

    @property
    def kept(self) -> pa.Table:
        """The kept documents with all their columns, if they were kept as Parquet."""
        return self._table("kept")

    @property
    def kept_files(self) -> list[Path] | list[str]:
        """The files of kept documents: paths, of a result in a store URIs."""
        return self._files.below("documents")

    @property
    def decisions(self) -> pa.Table:
        """A row a document: whether it was kept, why, and what it duplicates."""
        return self._table("decisions")

    @property
    def clusters(self) -> pa.Table:
        """A row a cluster: its documents, and how many of them were kept."""
        return self._table("clusters")

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``"kept"``, ``"decisions"`` or ``"clusters"``, some thousand a time."""
        for called, path in self._files.parts(self._dataset(name)):
            with damage_reported(called):
                yield from file_batches(path)

    def report(self) -> Report:
        """Return the report, which shows itself in a notebook."""
        return Report(self._files.content("report.html").decode())

    def why(self, id: str) -> Decision:
        """Return the decision on a document; of several with that id, on the first.

        Reads decisions up to it, and clusters.

        Raises:
            KeyError: No document has that id.
        """
        for batch in self.batches("decisions"):
            rows = batch.filter(pc.equal(batch["id"], id))
            if rows.num_rows:
                return self._decision(rows.slice(0, 1).to_pylist()[0])
        raise KeyError(id)

    def _decision(self, row: dict[str, Any]) -> Decision:
        documents = 1
        if row["cluster"] is not None:
            for batch in self.batches("clusters"):
                found = batch.filter(pc.equal(batch["cluster"], row["cluster"]))
                if found.num_rows:
                    documents = found["documents"][0].as_py()
        return Decision(
            row["id"], row["file"], row["position"], row["reason"], row["kept_id"],
            row["similarity"], documents, row["kept_file"], row["kept_position"],
            row["earlier_result"],
        )  # fmt: skip

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

    def _table(self, name: str) -> pa.Table:
        # parts of kept documents that tasks wrote may lack columns that others have
        tables = []
        for called, path in self._files.parts(self._dataset(name)):
            with damage_reported(called):
                tables.append(read_table(path))
        return pa.concat_tables(tables, promote_options="permissive")

    def __repr__(self) -> str:
        if is_uri(self.folder):
            return f"DedupResult({self.folder!r})"
        counts = self.summary
        kept, read = counts["documents_kept"], counts["documents_read"]
        return f"<DedupResult: kept {kept:,} of {read:,} documents, in {self.folder}>"

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
        cells = "".join(
            f'<tr><td style="text-align: left">{html.escape(name)}</td><td>{number:,}</td></tr>'
            for name, number in rows
        )
        return f"<table><caption>{html.escape(self.folder)}</caption>{cells}</table>"

    def close(self) -> None:
        """Remove the result if it is temporary."""
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> DedupResult:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
