"""The documents of one package: fetched, read, and as an Arrow table."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bench.field import licences
from bench.field.archives import ArchiveError, files_of
from bench.field.fetching import fetch, sha256_of
from bench.field.packages import Package, PackageError
from bench.field.texts import Skipped, kind_of, text_of

SCHEMA = pa.schema(
    {
        "id": pa.large_string(),
        "text": pa.large_string(),
        "kind": pa.string(),
        "package": pa.string(),
    }
)

PACKAGE_BYTES = 128 << 20
"""Of one release at most this much text is taken, so that none is most of a corpus."""


class Documents(NamedTuple):
    """The documents of a package.

    Attributes:
        package: the package, with its SHA-256 where it was fetched.
        table: of SCHEMA, in the order of the files.
        text_bytes: of all texts.
        sha256: of ids and texts.
        skipped: how many of its files are not documents, by reason.
        error: why there are none; empty if nothing failed.
    """

    package: Package
    table: pa.Table
    text_bytes: int
    sha256: str
    skipped: dict[str, int]
    error: str


def documents_of(package: Package, cache: Path, *, package_bytes: int = PACKAGE_BYTES) -> Documents:
    """Fetch a package, and return its documents: of a damaged or closed one none."""
    try:
        archive = fetch(package, cache)
        package = package._replace(sha256=sha256_of(archive))
        reading = _Reading(package, package_bytes)
        reading.read(archive)
    except (PackageError, ArchiveError) as reason:
        message = str(reason) if isinstance(reason, PackageError) else f"{package}: {reason}"
        return Documents(package, SCHEMA.empty_table(), 0, "", {}, message)
    table = pa.table({**reading.columns, "package": [str(package)] * len(reading.ids)}, SCHEMA)
    skipped = dict(reading.skipped)
    return Documents(package, table, reading.size, reading.digest.hexdigest(), skipped, "")


class _Reading:
    """The columns of a package's documents, while its archive is read."""

    def __init__(self, package: Package, max_bytes: int) -> None:
        self.columns: dict[str, list[str]] = {"id": [], "text": [], "kind": []}
        self.ids: set[str] = set()
        self.size = 0
        self.digest = hashlib.sha256()
        self.skipped: Counter[str] = Counter()
        self._package = package
        self._max_bytes = max_bytes
        self._licences: list[str] = []

    def read(self, archive: Path) -> None:
        """Add the files of an archive; raise PackageError if its licence is not an open one."""
        for file in files_of(archive, self._wants):
            if isinstance(file.content, bytes) and self._declares(file.path):
                self._licences.append(licences.declared(self._package.registry, file.content))
            found = Skipped.REST if self.size >= self._max_bytes else text_of(file)
            identifier = f"{self._package}/{file.path}"
            if isinstance(found, Skipped):
                self.skipped[found.value] += 1
            elif identifier in self.ids:
                self.skipped[Skipped.REPEATED.value] += 1
            else:
                self._add(identifier, found.text, found.kind)
        # all of Debian's main section is free
        found_open = any(map(licences.is_open_source, self._licences))
        if self._package.registry != "debian" and not found_open:
            named = "; ".join(filter(None, self._licences)) or "none"
            raise PackageError(f"{self._package}: licence: {named[:100]}")

    def _add(self, identifier: str, text: str, kind: str) -> None:
        encoded = text.encode()
        self.ids.add(identifier)
        for name, value in (("id", identifier), ("text", text), ("kind", kind)):
            self.columns[name].append(value)
        self.size += len(encoded)
        for piece in (identifier.encode(), encoded):
            self.digest.update(len(piece).to_bytes(8, "little") + piece)

    def _wants(self, path: str) -> bool:
        takes_more = self.size < self._max_bytes and kind_of(path) is not None
        return takes_more or self._declares(path)

    def _declares(self, path: str) -> bool:
        return licences.is_declaration(self._package.registry, path)
