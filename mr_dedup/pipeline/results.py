"""Results of de-duplications: what each leaves for later runs, and how these read it.

fingerprints/    a row a kept document, in the order of documents/, and in which file it is
signatures/      their signatures, row by row, if there were methods by keys
counts/          how many documents were dropped for each, row by row
earlier_counts/  how many were dropped for documents of earlier results
summary.json     what the fingerprints are made from, how the documents are read, and which other
                 results the run was made against
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import xxhash

from mr_dedup.clusters.duplicate_counts import DuplicateCounts
from mr_dedup.errors import FormatError, MrDedupError, newer
from mr_dedup.files.file_lists import refuse_links
from mr_dedup.files.inputs import require_utf8
from mr_dedup.fingerprints.simhash import VERSION
from mr_dedup.formats.count_tables import COUNTS as COUNT_COLUMNS
from mr_dedup.formats.count_tables import earlier_count_batches, results_counted
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.fingerprint_parquet import FINGERPRINT, ID, LENGTH
from mr_dedup.formats.kept_fingerprints import FILE
from mr_dedup.formats.parts import (
    part_batches,
    part_files,
    read_parts,
)
from mr_dedup.pipeline.stages import checksum
from mr_dedup.pipeline.summary import FORMAT_VERSION, LaterRuns, Reading, Reference
from mr_dedup.signatures.columns import VERSION as SIGNATURE_VERSION
from mr_dedup.signatures.columns import schema_of
from mr_dedup.signatures.protocol import SignatureMethod
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import exists, file_info, files_below
from mr_dedup.storage.uris import is_uri, joined, name_below, without_secrets

SUMMARY = "summary.json"
DOCUMENTS = "documents"
DECISIONS = "decisions"
CLUSTERS = "clusters"
FINGERPRINTS = "fingerprints"
SIGNATURES = "signatures"
COUNTS = "counts"
EARLIER_COUNTS = "earlier_counts"
REJECTS = "rejects"
"""Directories of a result: all but the first are datasets of parts."""

_BATCH_ROWS = 1 << 15


@dataclass(frozen=True)
class EarlierResult:
    """A result that a run is made against.

    Attributes:
        name: What the user calls it: a directory or a URI.
        folder: The directory, or one with a copy of what later runs need of a result in a store.
        summary: What its summary says to later runs.
        files: Those below documents/, and how many documents each has, in the order of
            fingerprints.
    """

    name: str
    folder: Path
    summary: LaterRuns
    files: tuple[tuple[str, int], ...]

    @classmethod
    def read(
        cls, name: str, fetched: Callable[[str], Path], *, signed: bool = True
    ) -> EarlierResult:
        """Return the result ``name``, a directory or a URI.

        ``fetched`` returns a directory with a copy of the result at a URI, without its documents,
        see ``fetch_result``. Signatures are looked at if ``signed``.

        Raises MrDedupError if it is none, of another version of the format, or of other
        fingerprints, and FormatError for damage to what later runs need; documents/ is not looked
        at. Reads fingerprints and signatures once.
        """
        name = name.rstrip("/") if is_uri(name) else name
        folder = fetched(name) if is_uri(name) else Path(name)
        require_utf8(folder)
        if not folder.is_dir():
            raise MrDedupError(f"{name}: no such directory")
        refuse_links(folder)
        try:
            content = (folder / SUMMARY).read_bytes()
        except FileNotFoundError as error:
            raise MrDedupError(f"{name}: not a result of mr-dedup dedup: no {SUMMARY}") from error
        summary = LaterRuns.parse(name, folder / SUMMARY, content)
        _require_known("fingerprints", name, summary.fingerprint_version, VERSION)
        if summary.methods:
            _require_known("signatures", name, summary.signature_version, SIGNATURE_VERSION)
        sums = {folder / FINGERPRINTS: summary.fingerprints_checksum}
        if signed and summary.methods:
            sums[folder / SIGNATURES] = summary.signatures_checksum or ""
        if summary.counts_checksum is not None:
            sums[folder / COUNTS] = summary.counts_checksum
        if summary.earlier_counts_checksum is not None:
            sums[folder / EARLIER_COUNTS] = summary.earlier_counts_checksum
        for dataset, expected in sums.items():
            if not dataset.is_dir():
                raise MrDedupError(f"{dataset}: no such directory")
            if dataset_checksum(dataset) != expected:
                reason = f"contains other files than those that {SUMMARY} was written for"
                raise FormatError(dataset, None, reason)
        return cls(name, folder, summary, tuple(_files_of(folder / FINGERPRINTS)))

    @property
    def documents(self) -> int:
        """How many documents were kept."""
        return sum(count for _, count in self.files)

    @property
    def identifier(self) -> str:
        """What identifies the result, wherever it is."""
        return self.summary.identifier

    @property
    def has_counts(self) -> bool:
        """Whether its run counted the documents that it dropped for each."""
        return self.summary.counts_checksum is not None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield id, fingerprint and length of the kept documents, in order."""
        yield from part_batches(self.folder / FINGERPRINTS, [ID, FINGERPRINT, LENGTH])

    def counts(self) -> Iterator[DuplicateCounts]:
        """Yield how many documents its run dropped for each kept one, some rows at a time."""
        for batch in part_batches(self.folder / COUNTS, COUNT_COLUMNS.names):
            yield DuplicateCounts.read(pa.Table.from_batches([batch]))

    def named_documents(self) -> Iterator[pa.Table]:
        """Yield ids and files of the kept documents, some rows at a time, in order."""
        for batch in part_batches(self.folder / FINGERPRINTS, [ID, FILE]):
            yield pa.Table.from_batches([batch])

    def results_counted(self) -> dict[str, int]:
        """Return for how many documents of each earlier result its run dropped some."""
        if self.summary.earlier_counts_checksum is None:
            return {}
        return results_counted(self.folder / EARLIER_COUNTS)

    def earlier_counts(self, identifier: str) -> Iterator[pa.RecordBatch]:
        """Yield what its run counted of documents of an earlier result, by row.

        As ``count_tables.earlier_count_batches``; nothing if there were no earlier results.
        """
        if self.summary.earlier_counts_checksum is not None:
            yield from earlier_count_batches(self.folder / EARLIER_COUNTS, identifier)

    def signatures(self, methods: Sequence[SignatureMethod]) -> Iterator[pa.Table]:
        """Yield the signatures of the kept documents by ``methods``, in order.

        Raises MrDedupError for one of which there are none.
        """
        if not methods:
            return
        self.check_methods(methods)
        numbers = [self.summary.methods.index(method.name) for method in methods]
        wanted = schema_of(methods)
        # a column is called by its method's number there
        there = [
            f"{kind}_{numbers[int(number)]}"
            for kind, _, number in (field.name.rpartition("_") for field in wanted)
        ]
        for batch in part_batches(self.folder / SIGNATURES, there, _BATCH_ROWS):
            columns = [batch.column(name) for name in there]
            yield pa.Table.from_arrays(columns, schema=pa.schema(wanted))

    def check_methods(self, methods: Sequence[SignatureMethod]) -> None:
        """Raise MrDedupError for a method of which there are no signatures."""
        for method in methods:
            if method.name not in self.summary.methods:
                made = "; ".join(self.summary.methods) or "none"
                raise MrDedupError(
                    f"{self.name}: has no signatures by {method.name}; it has {made}"
                )

    def document_files(self) -> list[DocumentFile]:
        """Return the files of documents; raises MrDedupError if one is missing."""
        if is_uri(self.name):
            return self._remote_files()
        return [
            DocumentFile.detect(
                self.folder / DOCUMENTS / name,
                name=str(Path(self.name) / DOCUMENTS / name),
                format=self.summary.reading.format,
            )
            for name, _ in self.files
        ]

    def _remote_files(self) -> list[DocumentFile]:
        documents = joined(self.name, DOCUMENTS)
        found = {file.uri: file for file in files_below(documents)}
        files = []
        for name, _ in self.files:
            uri = joined(documents, name)
            if uri not in found:
                raise MrDedupError(f"{without_secrets(uri)}: no such file")
            format = self.summary.reading.format
            files.append(DocumentFile.of_remote(found[uri], name=uri, format=format))
        return files

    def read_options(self) -> ReadOptions:
        """Return how they are read; what cannot be read is an error, as it was read before."""
        return self.summary.reading.options()

    def name_of(self, reference: Reference) -> str:
        """Return the directory or URI of another result that this one was made against."""
        if is_uri(reference.folder) or Path(reference.folder).is_absolute():
            return reference.folder
        if is_uri(self.name):
            scheme, _, rest = self.name.partition("://")
            return f"{scheme}://{posixpath.normpath(posixpath.join(rest, reference.folder))}"
        name = os.path.normpath(Path(self.name) / reference.folder)
        path = self.folder.resolve() / reference.folder
        if path.exists() and Path(name).exists() and path.samefile(name):
            return name
        # with symbolic links on the way names and paths differ
        return os.path.normpath(path)

    def referred_to(
        self, reference: Reference, fetched: Callable[[str], Path], *, signed: bool = True
    ) -> EarlierResult:
        """Return another result that this one was made against, as ``read`` does.

        Raises MrDedupError if it does not exist or has changed, else as ``read``.
        """
        name = self.name_of(reference)
        if not is_uri(name) and not Path(name).is_dir():
            raise MrDedupError(f"{name}: no such directory, and {self.name} was made against it")
        found = EarlierResult.read(name, fetched, signed=signed)
        if found.summary.fingerprints_checksum != reference.fingerprints_checksum:
            raise MrDedupError(f"{name}: is not the result that {self.name} was made against")
        return found

    def name_of_result(self, identifier: str) -> str:
        """Return the directory or URI of a result that this one was made against.

        What identifies it if it is not one of these.
        """
        for reference in self.summary.against:
            if identifier in (reference.result_id, reference.fingerprints_checksum):
                return self.name_of(reference)
        return identifier

    def reference_from(self, out: Path | str) -> Reference:
        """Return what the result ``out``, a path or URI, says of this one."""
        return Reference(
            self._location_from(out),
            self.documents,
            self.summary.fingerprints_checksum,
            self.identifier,
        )

    def _location_from(self, out: Path | str) -> str:
        """Return its location relative to ``out``, if both are here or in one store."""
        if is_uri(self.name):
            store, _, path = self.name.partition("://")
            other_store, _, other_path = str(out).partition("://")
            if (store, path.partition("/")[0]) == (other_store, other_path.partition("/")[0]):
                return posixpath.relpath(path, other_path)
            return self.name
        if isinstance(out, str):
            return str(self.folder.resolve())
        return os.path.relpath(self.folder.resolve(), out.parent.resolve() / out.name)


def fetch_result(uri: str, folder: Path, *, signed: bool = True) -> None:
    """Copy what later runs need of the result at ``uri`` to a new directory, without documents.

    Signatures if ``signed``. Raises MrDedupError if that is not a result, or cannot be read.
    """
    summary = joined(uri, SUMMARY)
    if not exists(summary):
        reason = f"not a result of mr-dedup dedup: no {SUMMARY}"
        raise MrDedupError(f"{without_secrets(uri)}: {reason if exists(uri) else 'no such file'}")
    files = [file_info(summary)]
    for dataset in (FINGERPRINTS, *([SIGNATURES] if signed else []), COUNTS, EARLIER_COUNTS):
        files += files_below(joined(uri, dataset))
    for file in files:
        path = folder / name_below(file.uri, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        fetch(file, path)


def followed(
    results: Sequence[EarlierResult],
    fetched: Callable[[str], Path],
    *,
    further: bool,
    signed: bool = True,
) -> list[EarlierResult]:
    """Return ``results``, each once, if ``further`` with all that they were made against.

    A copy of a result is the same one. Those come before what was made against them. Signatures are
    looked at if ``signed``. Raises as ``referred_to``.
    """
    found: dict[Path | str, EarlierResult | None] = {}

    def visit(result: EarlierResult) -> None:
        path = result.name if is_uri(result.name) else result.folder.resolve()
        known = result.summary.result_id or path
        if known in found:
            return
        found[known] = None
        for reference in result.summary.against if further else ():
            visit(result.referred_to(reference, fetched, signed=signed))
        # last, so that it comes after them
        del found[known]
        found[known] = result

    for result in results:
        visit(result)
    return [result for result in found.values() if result is not None]


def not_followed(results: Sequence[EarlierResult]) -> list[tuple[str, str]]:
    """Return the results that ``results`` were made against and that are not among them, by path.

    Each with the name of the result that was made against it.
    """
    known = {result.summary.fingerprints_checksum for result in results}
    return [
        (result.name, result.name_of(reference))
        for result in results
        for reference in result.summary.against
        if reference.fingerprints_checksum not in known
    ]


def dataset_checksum(folder: Path) -> str:
    """Return the XXH3-128 of the checksums of a dataset's parts, in their order, in hex."""
    return combined_checksum(map(checksum, part_files(folder)))


def combined_checksum(checksums: Iterable[str]) -> str:
    """Return the checksum of a dataset, given those of its parts, in their order."""
    digest = xxhash.xxh3_128()
    for each in checksums:
        digest.update(bytes.fromhex(each))
    return digest.hexdigest()


def record_for_later(
    checksums: Mapping[str, str],
    out: Path | str,
    features: str,
    reading: Reading,
    against: Sequence[EarlierResult],
    methods: Sequence[str] = (),
    result_id: str = "",
    seen: str | None = None,
) -> LaterRuns:
    """Return what later runs need to know of a result that is to be at ``out``.

    ``checksums`` are those of its datasets, ``seen`` is the field by which documents are seen.
    """
    return LaterRuns(
        format_version=FORMAT_VERSION,
        features=features,
        fingerprint_version=VERSION,
        signature_version=SIGNATURE_VERSION,
        fingerprints_checksum=checksums[FINGERPRINTS],
        methods=tuple(methods),
        signatures_checksum=checksums.get(SIGNATURES),
        reading=reading,
        against=tuple(earlier.reference_from(out) for earlier in against),
        result_id=result_id,
        counts_checksum=checksums.get(COUNTS),
        earlier_counts_checksum=checksums.get(EARLIER_COUNTS),
        seen=seen,
    )


def _files_of(fingerprints: Path) -> Iterator[tuple[str, int]]:
    """Yield the files that fingerprints name, and how many documents each has."""
    column = read_parts(fingerprints, columns=[FILE], dictionaries=[FILE])[FILE]
    column = column.unify_dictionaries()
    if not len(column):
        return
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    names = column.chunk(0).dictionary.to_pylist()
    counts = np.bincount(numbers, minlength=len(names))
    # by where they begin, whatever order the dictionary has
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    for number in numbers[starts].tolist():
        require_below(names[number], fingerprints)
        yield names[number], int(counts[number])


def require_below(name: str, fingerprints: Path | str) -> None:
    """Raise FormatError if a file that ``fingerprints`` name is not below documents/."""
    file = PurePosixPath(name)
    if file.is_absolute() or ".." in file.parts:
        reason = f"names a file that is not below {DOCUMENTS}: {file}"
        raise FormatError(fingerprints, None, reason)


def _require_known(noun: str, name: str, version: int, known: int) -> None:
    """Raise MrDedupError if fingerprints or signatures of a result cannot be compared with ours."""
    if version > known:
        raise MrDedupError(f"{name}: the {noun} of {newer(version, known)}")
    if version != known:
        raise MrDedupError(
            f"{name}: its {noun} are of version {version}, those of this mr_dedup of version "
            f"{known}; de-duplicate its documents again"
        )
