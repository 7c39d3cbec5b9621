"""Read files of documents or fingerprints as batches for an index."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.fingerprint_inputs import text_may_be_documents
from mr_dedup.cli.rejects import print_rejected, rejects_to
from mr_dedup.cli.streams import printable
from mr_dedup.errors import MrDedupError, usage_errors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mr_dedup.formats.documents.batch import DocumentBatch
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.index.fingerprint_options import Fingerprinter, FingerprintOptions
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.reader import IndexReader

_SEGMENT_DOCUMENTS = 1 << 24
_SEGMENT_BYTES = 1 << 30
"""The size of a segment: documents, or bytes of ids and fingerprints."""

FEATURE_NAMES = (
    "features", "weights", "stop_words", "stem", "segment", "normalize", "symbols", "idf",
)  # fmt: skip


@dataclass(frozen=True)
class IndexInput:
    """A file for an index: of documents, or of fingerprints; the other is None."""

    documents: DocumentFile | None
    fingerprints: FingerprintFile | None

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        if self.documents is not None:
            return self.documents.name
        assert self.fingerprints is not None
        return str(self.fingerprints.path)

    @property
    def may_have_ids(self) -> bool:
        """Whether the file may have ids."""
        return self.fingerprints is None or self.fingerprints.has_ids

    @classmethod
    def all_of(cls, arguments: argparse.Namespace) -> list[IndexInput]:
        """Return the files that the arguments name; none for standard input.

        Raises MrDedupError for names without a file, and for - beside others.
        """

        if arguments.files in ([], ["-"]):
            return []
        if "-" in arguments.files:
            raise MrDedupError("-: cannot be combined with files")
        return [each for name in arguments.files for each in cls._of_name(name, arguments)]

    @classmethod
    def _of_name(cls, name: str, arguments: argparse.Namespace) -> Iterator[IndexInput]:
        from mr_dedup.files.inputs import expand
        from mr_dedup.formats.documents.files import find_documents
        from mr_dedup.formats.fingerprint_files import FingerprintFile

        paths = expand([name])
        if not arguments.fingerprint_format and (
            arguments.format or not all(_has_fingerprints(path, arguments) for path in paths)
        ):
            for file in find_documents([name], arguments.format, as_named).files:
                yield cls(_with_own_name(file, arguments), None)
            return
        for path in paths:
            yield cls(
                None,
                FingerprintFile.detect(
                    path, format=arguments.fingerprint_format, byte_order=arguments.byte_order
                ),
            )


def _with_own_name(file: DocumentFile, arguments: argparse.Namespace) -> DocumentFile:
    """Return a file that is added with a name that no other has, as ids are made of it.

    With its directory; an id that is a path is absolute, as later ones are from other directories.
    """
    if arguments.action == "query" or not isinstance(file.path, Path):
        return file
    name = as_named(str(file.path))
    if name == str(file.path) and file.format in ("text", "html"):
        # a link to a file is a file of its own
        name = str(file.path.parent.resolve() / file.path.name)
    return replace(file, name=name)


def _has_fingerprints(path: Path, arguments: argparse.Namespace) -> bool:
    """Return whether a file is of fingerprints: by its suffix, Parquet by its columns."""
    from mr_dedup.formats.fingerprint_files import UnknownFormatError, format_by_ending

    if path.suffix.lower() == ".parquet" and path.is_file():
        from mr_dedup.formats.fingerprint_parquet import FINGERPRINT
        from mr_dedup.formats.parquet_rows import open_parquet

        with open_parquet(path, str(path)) as file:
            return FINGERPRINT in file.columns
    try:
        format_by_ending(path)
    except UnknownFormatError:
        return False
    return True


def given_features(arguments: argparse.Namespace) -> FingerprintOptions:
    """Return the features of the arguments, with their defaults."""
    import msgspec

    from mr_dedup.index.fingerprint_options import FingerprintOptions

    given = {name: getattr(arguments, name) for name in FEATURE_NAMES}
    return msgspec.structs.replace(FingerprintOptions(), **_absolute(given))


def _absolute(given: dict[str, str]) -> dict[str, str]:
    """Return features with an absolute path of their file."""
    idf = given.get("idf")
    return given if idf is None else {**given, "idf": str(Path(idf).absolute())}


def features_of(
    inputs: Sequence[IndexInput], given: FingerprintOptions, arguments: argparse.Namespace
) -> tuple[FingerprintOptions | None, str | None]:
    """Return what the fingerprints of a new index are made from: the options, and in print.

    For documents these are ``given``, for fingerprints those of their files, each None if they are
    not known. Raises MrDedupError if they differ.
    """
    with usage_errors():
        described = given.fingerprinter().described
    known = {described: "documents"} if any(each.documents for each in inputs) else {}
    for each in inputs:
        stored = _file_features(each)
        if stored is not None:
            known.setdefault(stored, each.name)
    _require_equal(known)
    if not inputs or described in known:
        return given, described
    return None, next(iter(known), None)


def _file_features(each: IndexInput) -> str | None:
    """Return what the fingerprints of a file are made from, None if that is not known."""
    if each.fingerprints is None or each.fingerprints.format != "parquet":
        return None
    from mr_dedup.formats.fingerprint_parquet import open_table

    with open_table(each.fingerprints.path) as table:
        return table.features


def _require_equal(known: dict[str, str]) -> None:

    if len(known) > 1:
        (one, name), (other, other_name), *_ = known.items()
        raise MrDedupError(
            f"{printable(name)}: its fingerprints are made from {one}, but those of "
            f"{printable(other_name)} from {other}; such cannot be compared"
        )


def fingerprinter_for(
    index: HammingIndex | IndexReader,
    inputs: Sequence[IndexInput] | None,
    arguments: argparse.Namespace,
) -> Fingerprinter | None:
    """Return a fingerprinter like those of the index; None if no input has documents.

    ``inputs`` are the files to read, None for lines of documents. Raises MrDedupError if options or
    files differ from the index, or if it does not have its options.
    """
    import msgspec

    from mr_dedup.index.fingerprint_options import FingerprintOptions

    made_from, given = index.made_from, given_options(arguments)
    if given:
        made_from = msgspec.structs.replace(made_from or FingerprintOptions(), **_absolute(given))
    known = {} if index.features is None else {index.features: str(index.folder)}
    for each in inputs or ():
        stored = _file_features(each)
        if stored is not None:
            known.setdefault(stored, each.name)
    fingerprinter = None
    if given or inputs is None or any(each.documents for each in inputs):
        if made_from is None or index.features is None:
            raise MrDedupError(_unknown(index))
        with usage_errors():
            fingerprinter = made_from.fingerprinter()
        # the file of document frequencies may have changed since
        known.setdefault(fingerprinter.described, "the options")
    _require_equal(known)
    return fingerprinter


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the features that are given, beside those of the index."""
    if arguments.action == "create":
        return {}
    return {name: getattr(arguments, name) for name in FEATURE_NAMES if name in arguments}


def _unknown(index: HammingIndex | IndexReader) -> str:
    reason = "it is not known what its fingerprints are made from"
    if index.features is not None:
        reason = f"its fingerprints are made from {index.features}, by options that are not known"
    return f"{index.folder}: {reason}; so documents cannot be compared with them"


class Documents(NamedTuple):
    """Fingerprints, uint64[n], and ids, null for documents without; None if none has one."""

    fingerprints: NDArray[np.uint64]
    ids: pa.LargeStringArray | None


def documents_of(
    inputs: Sequence[IndexInput],
    fingerprinter: Fingerprinter | None,
    rejects: Rejects,
    arguments: argparse.Namespace,
) -> Iterator[Documents]:
    """Yield the documents of files, in batches."""
    from mr_dedup.cli.document_arguments import read_options
    from mr_dedup.formats.documents.read import read_documents

    for each in inputs:
        if each.documents is not None:
            assert fingerprinter is not None
            for batch in read_documents([each.documents], rejects, read_options(arguments)):
                yield Documents(fingerprinter.of(batch.texts), ids_to_add(batch, arguments))
        elif each.fingerprints is not None and each.fingerprints.has_ids:
            with text_may_be_documents(arguments.fingerprint_format):
                for values, ids in each.fingerprints.identified():
                    yield Documents(values, ids)
        elif each.fingerprints is not None:
            for values in each.fingerprints.batches():
                yield Documents(values, None)


def ids_to_add(batch: DocumentBatch, arguments: argparse.Namespace) -> pa.LargeStringArray:
    """Return ids; of documents that are added, null for positions: another file may have them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if arguments.action != "add":
        return batch.ids
    no_id = pa.scalar(None, batch.ids.type)
    return pc.if_else(batch.are_named_by_position(), no_id, batch.ids)


def segment_batches(
    inputs: Sequence[IndexInput],
    named: bool,
    fingerprinter: Fingerprinter | None,
    rejects: Rejects,
    arguments: argparse.Namespace,
) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray | None]]:
    """Yield fingerprints and ids in batches of the size of a segment.

    Raises MrDedupError for documents without ids, if ``named``.
    """
    import numpy as np
    import pyarrow as pa

    from mr_dedup.index.ids import Ids

    values: list[NDArray[np.uint64]] = []
    ids: list[pa.LargeStringArray] = []
    count = batch_bytes = 0
    for each in inputs:
        for batch in documents_of([each], fingerprinter, rejects, arguments):
            values.append(batch.fingerprints)
            batch_bytes += batch.fingerprints.nbytes
            count += len(batch.fingerprints)
            if named:
                if batch.ids is None or batch.ids.null_count:
                    how = "; name their field with --id-field" if each.documents else ""
                    raise MrDedupError(f"{each.name}: has documents without ids{how}")
                with usage_errors(each.name):
                    Ids.of(batch.ids)
                ids.append(batch.ids)
                batch_bytes += batch.ids.nbytes
            if count >= _SEGMENT_DOCUMENTS or batch_bytes >= _SEGMENT_BYTES:
                yield np.concatenate(values), pa.concat_arrays(ids) if named else None
                values, ids, count, batch_bytes = [], [], 0, 0
    if count:
        yield np.concatenate(values), pa.concat_arrays(ids) if named else None


@contextlib.contextmanager
def reported_rejects(arguments: argparse.Namespace) -> Iterator[Rejects]:
    """Yield Rejects, also to the file of the arguments, and print their number at the end."""
    with rejects_to(arguments.rejects, arguments.overwrite) as rejects:
        yield rejects
    print_rejected(rejects)
