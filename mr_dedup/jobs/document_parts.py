"""The documents of a chunk, as its task writes them: files of their own, or a part of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from mr_dedup.formats.compression import compressing
from mr_dedup.formats.parts import LINES, part_name
from mr_dedup.jobs.kept_documents import KeptDocuments, numbered_name
from mr_dedup.jobs.kept_parts import JsonDocuments, ParquetDocuments
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.jobs.reading import reject_lines

DOCUMENTS_FOLDER, REJECTS_FOLDER = "documents", "rejects"
"""The directories of a result."""

Writer = KeptDocuments | JsonDocuments | ParquetDocuments


class DocumentParts(msgspec.Struct, frozen=True, kw_only=True):
    """How the tasks of a job write documents.

    Attributes:
        format: See ``KeptFormat``.
        id_names: The fields of ids, by which errors name documents.
        renamed: The names of files that are not called as what was read.
        divided: The first chunk of files that several tasks read.
        columns: Of Parquet, an Arrow schema; else None.
    """

    format: KeptFormat = "same"
    id_names: Sequence[str] = ("id", "url")
    renamed: Mapping[str, str] = {}
    divided: Mapping[str, int] = {}
    columns: bytes | None = None

    @property
    def names_of_divided(self) -> dict[str, str]:
        """What files that several tasks read are called as a whole, by those that were read."""
        return {source: self.renamed.get(source, source) for source in self.divided}

    def writer(self, result: Path, chunk: int, number: int) -> Writer:
        """Return the writer of a chunk, below the directory of a result.

        Args:
            result: The directory.
            chunk: The number of the chunk.
            number: Of its part.
        """
        folder = result / DOCUMENTS_FOLDER
        if self.format == "jsonl":
            return JsonDocuments(folder, part_bytes=sys.maxsize, first=number)
        if self.format == "parquet":
            assert self.columns is not None
            return ParquetDocuments(
                folder, pa.ipc.read_schema(pa.py_buffer(self.columns)), self.id_names,
                part_bytes=sys.maxsize, first=number,
            )  # fmt: skip

        def name_of(source: str) -> str:
            name = self.renamed.get(source, source)
            first = self.divided.get(source)
            return name if first is None else numbered_name(name, chunk - first)

        return KeptDocuments(folder, name_of)

    def finish(
        self, result: Path, files: Sequence[tuple[str, int]], number: int
    ) -> Sequence[tuple[str, int]]:
        """Return the files of a writer that has ended, and how many records each has.

        A part of lines is written if it is empty.
        """
        if self.format == "jsonl" and not files:
            path = result / DOCUMENTS_FOLDER / part_name(number, LINES)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file, compressing(file, "zstd"):
                pass
        return files


def write_rejects(result: Path, number: int, tables: Iterable[pa.Table]) -> None:
    """Write the rejected records of a chunk as a part, which may be empty."""
    path = result / REJECTS_FOLDER / part_name(number, LINES)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, compressing(file, "zstd") as stream:
        for table in tables:
            stream.write(reject_lines(table))
