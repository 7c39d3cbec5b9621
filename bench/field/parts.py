"""Parts of a corpus: Parquet files of whole packages, and beside each a summary in JSON.

A part appears whole, its summary after it, so what an interrupted run leaves is used by the next.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.field.documents import Documents

PART_BYTES = 256 << 20
_GROUP_BYTES = 32 << 20


class Taken(NamedTuple):
    """A package in a corpus.

    Attributes:
        package: registry, name and version, as one string.
        archive_sha256: of its archive.
        documents: how many documents it has.
        text_bytes: of their texts.
        content_sha256: of their ids and texts.
    """

    package: str
    archive_sha256: str
    documents: int
    text_bytes: int
    content_sha256: str


@dataclass
class Summary:
    """What a part, or a corpus, was made from.

    Attributes:
        packages: those with documents, in order.
        errors: by package, why it has no documents.
        kinds: by kind, how many documents and bytes of text.
        skipped: how many files are not documents, by reason.
    """

    packages: list[Taken] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return sum(package.documents for package in self.packages)

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts."""
        return sum(package.text_bytes for package in self.packages)

    @property
    def names(self) -> list[str]:
        """The packages that were tried."""
        return [*(package.package for package in self.packages), *self.errors]

    @property
    def sha256(self) -> str:
        """Of the ids and texts of all packages, in order."""
        content = "".join(package.content_sha256 for package in self.packages)
        return hashlib.sha256(content.encode()).hexdigest()

    def add(self, documents: Documents) -> None:
        """Add the documents of one more package."""
        name = str(documents.package)
        if documents.error:
            self.errors[name] = documents.error
            return
        rows, size = documents.table.num_rows, documents.text_bytes
        self.packages.append(Taken(name, documents.package.sha256, rows, size, documents.sha256))
        self.skipped.update(documents.skipped)
        for kind, counts in _kinds_of(documents.table).items():
            self.kinds.setdefault(kind, Counter()).update(counts)

    def extend(self, other: Summary) -> None:
        """Add what another part was made from."""
        self.packages += other.packages
        self.errors.update(other.errors)
        self.skipped.update(other.skipped)
        for kind, counts in other.kinds.items():
            self.kinds.setdefault(kind, Counter()).update(counts)

    def as_json(self) -> dict[str, object]:
        """Return what ``of_json`` reads."""
        by_bytes = sorted(self.kinds.items(), key=lambda item: (-item[1]["text_bytes"], item[0]))
        return {
            "documents": self.documents,
            "text_bytes": self.text_bytes,
            "content_sha256": self.sha256,
            "kinds": {kind: dict(counts) for kind, counts in by_bytes},
            "skipped": dict(sorted(self.skipped.items())),
            "errors": self.errors,
            "packages": [package._asdict() for package in self.packages],
        }

    @classmethod
    def read(cls, path: Path) -> Summary:
        """Return the summary in a file."""
        stored = json.loads(path.read_text())
        return cls(
            [Taken(**package) for package in stored["packages"]],
            stored["errors"],
            {kind: Counter(counts) for kind, counts in stored["kinds"].items()},
            Counter(stored["skipped"]),
        )

    def write(self, path: Path) -> None:
        """Write the summary to a file, whole or not at all."""
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps(self.as_json(), indent=1) + "\n")
        partial.replace(path)


class Parts:
    """The parts of a corpus in a directory: ``part-NNNN.parquet``, ``_parts/part-NNNN.json``.

    Args:
        folder: the directory, which is made if there is none.
        part_bytes: a part ends with the package that reaches this much text.
    """

    def __init__(self, folder: Path, part_bytes: int = PART_BYTES) -> None:
        self._folder = folder
        self._part_bytes = part_bytes
        self.summaries: list[Summary] = []
        (folder / "_parts").mkdir(parents=True, exist_ok=True)
        while (path := self._summary_path(len(self.summaries))).exists():
            self.summaries.append(Summary.read(path))

    def reopen(self) -> None:
        """Remove the last part if it is smaller than a part, as more documents follow."""
        if self.summaries and self.summaries[-1].text_bytes < self._part_bytes:
            self.summaries.pop()
            self._summary_path(len(self.summaries)).unlink()

    def write(self, packages: Sequence[Documents]) -> Summary:
        """Append a part with the documents of these packages; return its summary."""
        summary = Summary()
        for documents in packages:
            summary.add(documents)
        number = len(self.summaries)
        if table := pa.concat_tables([documents.table for documents in packages]):
            rows = max(1, table.num_rows * _GROUP_BYTES // max(1, summary.text_bytes))
            path = self._folder / f"part-{number:04}.parquet"
            partial = path.with_name(f"{path.name}.partial")
            pq.write_table(table, partial, compression="zstd", row_group_size=rows)
            partial.replace(path)
        summary.write(self._summary_path(number))
        self.summaries.append(summary)
        return summary

    def _summary_path(self, number: int) -> Path:
        return self._folder / "_parts" / f"part-{number:04}.json"


def total(summaries: Iterable[Summary]) -> Summary:
    """Return the summary of all parts.

    >>> total([]).documents
    0
    """
    everything = Summary()
    for summary in summaries:
        everything.extend(summary)
    return everything


def _kinds_of(table: pa.Table) -> dict[str, dict[str, int]]:
    sized = pa.table({"kind": table["kind"], "size": pc.binary_length(table["text"])})
    grouped = sized.group_by("kind").aggregate([("size", "count"), ("size", "sum")]).to_pylist()
    return {
        row["kind"]: {"documents": row["size_count"], "text_bytes": row["size_sum"]}
        for row in grouped
    }
