"""From files of documents or fingerprints to batches that an index takes."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mr_dedup.cli.streams import counted, printable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.formats.fingerprint_files import FingerprintFile
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.made_from import FingerprintMaker, MadeFrom
    from mr_dedup.index.reader import IndexReader

_BATCH_DOCUMENTS = 1 << 24
_BATCH_BYTES = 1 << 30
"""What goes into one segment: so many documents, or bytes of ids and fingerprints."""

FEATURE_NAMES = ("features", "weights", "stop_words", "stem", "segment", "normalize", "idf")


@dataclass(frozen=True)
class Input:
    """A file that an index is given: of documents, or of fingerprints."""

    documents: DocumentFile | None
    fingerprints: FingerprintFile | None

    @property
    def name(self) -> str:
        """What the file is called."""
        if self.documents is not None:
            return self.documents.name
        assert self.fingerprints is not None
        return str(self.fingerprints.path)

    @property
    def may_have_ids(self) -> bool:
        """Whether there may be ids in it."""
        return self.fingerprints is None or self.fingerprints.has_ids

    @classmethod
    def all_of(cls, arguments: argparse.Namespace) -> list[Input]:
        """Return the files that the arguments name, standard input not among them.

        Raises MrDedupError for names that stand for nothing, and for - beside others.
        """
        from mr_dedup.errors import MrDedupError

        if arguments.files in ([], ["-"]):
            return []
        if "-" in arguments.files:
            raise MrDedupError("-: standard input is read alone")
        return [each for name in arguments.files for each in cls._of_name(name, arguments)]

    @classmethod
    def _of_name(cls, name: str, arguments: argparse.Namespace) -> Iterator[Input]:
        from mr_dedup.formats.documents.files import find_documents
        from mr_dedup.formats.fingerprint_files import FingerprintFile
        from mr_dedup.formats.inputs import expand

        paths = expand([name])
        if not arguments.fingerprint_format and (
            arguments.format or not all(_has_fingerprints(path, arguments) for path in paths)
        ):
            for file in find_documents([name], arguments.format).files:
                yield cls(file, None)
            return
        for path in paths:
            yield cls(
                None,
                FingerprintFile.detect(
                    path, format=arguments.fingerprint_format, byte_order=arguments.byte_order
                ),
            )


def _has_fingerprints(path: Path, arguments: argparse.Namespace) -> bool:
    """Return whether a file is of fingerprints: by its ending, Parquet by its columns."""
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


def given_features(arguments: argparse.Namespace) -> MadeFrom:
    """Return the features that the arguments ask for, with their defaults."""
    import msgspec

    from mr_dedup.index.made_from import MadeFrom

    given = {name: getattr(arguments, name) for name in FEATURE_NAMES}
    return msgspec.structs.replace(MadeFrom(), **_absolute(given))


def _absolute(given: dict[str, str]) -> dict[str, str]:
    """Return features whose file is found from any folder."""
    idf = given.get("idf")
    return given if idf is None else {**given, "idf": str(Path(idf).absolute())}


def features_of(
    inputs: Sequence[Input], given: MadeFrom, arguments: argparse.Namespace
) -> tuple[MadeFrom | None, str | None]:
    """Return what the fingerprints of a new index are made from: how, if known, and its name.

    Of documents that is what was asked for; of fingerprints what their files say. Raises
    MrDedupError where they contradict each other.
    """
    described = given.maker().described
    known = {described: "documents"} if any(each.documents for each in inputs) else {}
    for each in inputs:
        said = _said_features(each)
        if said is not None:
            known.setdefault(said, each.name)
    _refuse_unlike(known)
    if not inputs or described in known:
        return given, described
    return None, next(iter(known), None)


def _said_features(each: Input) -> str | None:
    """Return what a file of fingerprints says that they are made from."""
    if each.fingerprints is None or each.fingerprints.format != "parquet":
        return None
    from mr_dedup.formats.fingerprint_parquet import open_table

    with open_table(each.fingerprints.path) as table:
        return table.features


def _refuse_unlike(known: dict[str, str]) -> None:
    from mr_dedup.errors import MrDedupError

    if len(known) > 1:
        (one, name), (other, other_name), *_ = known.items()
        raise MrDedupError(
            f"{printable(name)}: its fingerprints are made from {one}, but those of "
            f"{printable(other_name)} from {other}; such cannot be compared"
        )


def maker_for(
    index: HammingIndex | IndexReader, inputs: Sequence[Input] | None, arguments: argparse.Namespace
) -> FingerprintMaker | None:
    """Return what makes fingerprints of documents as the index has them; None if there are none.

    ``inputs`` are the files that are read, None for lines of documents. Raises MrDedupError for
    options, or files, that are unlike the index, and if it does not say how they are made.
    """
    import msgspec

    from mr_dedup.errors import MrDedupError
    from mr_dedup.index.made_from import MadeFrom

    made_from, asked = index.made_from, asked_features(arguments)
    if asked:
        made_from = msgspec.structs.replace(made_from or MadeFrom(), **_absolute(asked))
    known = {} if index.features is None else {index.features: str(index.folder)}
    for each in inputs or ():
        said = _said_features(each)
        if said is not None:
            known.setdefault(said, each.name)
    maker = None
    if asked or inputs is None or any(each.documents for each in inputs):
        if made_from is None or index.features is None:
            raise MrDedupError(_unknown(index))
        maker = made_from.maker()
        # of documents' frequencies only the name is kept: they may be others by now
        known.setdefault(maker.described, "what is asked for")
    _refuse_unlike(known)
    return maker


def asked_features(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the features that the arguments ask for, apart from those of the index."""
    if arguments.action == "create":
        return {}
    return {name: getattr(arguments, name) for name in FEATURE_NAMES if name in arguments}


def _unknown(index: HammingIndex | IndexReader) -> str:
    made = "does not say what its fingerprints are made from"
    if index.features is not None:
        made = f"says that its fingerprints are made from {index.features}, and no more"
    return f"{index.folder}: {made}; so none can be made of documents"


class Documents(NamedTuple):
    """Fingerprints, uint64[n], and their ids, null where there is none; None if none has any."""

    fingerprints: NDArray[np.uint64]
    ids: pa.LargeStringArray | None


def documents_of(
    inputs: Sequence[Input],
    maker: FingerprintMaker | None,
    rejects: Rejects,
    arguments: argparse.Namespace,
) -> Iterator[Documents]:
    """Yield what is in files, in batches."""
    from mr_dedup.cli.document_arguments import read_options
    from mr_dedup.formats.documents.read import read_documents

    for each in inputs:
        if each.documents is not None:
            assert maker is not None
            for batch in read_documents([each.documents], rejects, read_options(arguments)):
                yield Documents(maker.of(batch.texts), batch.ids)
        elif each.fingerprints is not None and each.fingerprints.has_ids:
            for values, ids in each.fingerprints.identified():
                yield Documents(values, ids)
        elif each.fingerprints is not None:
            for values in each.fingerprints.batches():
                yield Documents(values, None)


def gathered(
    inputs: Sequence[Input],
    named: bool,
    maker: FingerprintMaker | None,
    rejects: Rejects,
    arguments: argparse.Namespace,
) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray | None]]:
    """Yield documents in batches as large as segments should be, as an index takes them.

    Raises MrDedupError for fingerprints without ids, if documents have to be ``named``.
    """
    import numpy as np
    import pyarrow as pa

    from mr_dedup.errors import MrDedupError

    values: list[NDArray[np.uint64]] = []
    ids: list[pa.LargeStringArray] = []
    count = held_bytes = 0
    for each in inputs:
        for batch in documents_of([each], maker, rejects, arguments):
            values.append(batch.fingerprints)
            held_bytes += batch.fingerprints.nbytes
            count += len(batch.fingerprints)
            if named:
                if batch.ids is None or batch.ids.null_count:
                    raise MrDedupError(f"{each.name}: has documents without ids")
                ids.append(batch.ids)
                held_bytes += batch.ids.nbytes
            if count >= _BATCH_DOCUMENTS or held_bytes >= _BATCH_BYTES:
                yield np.concatenate(values), pa.concat_arrays(ids) if named else None
                values, ids, count, held_bytes = [], [], 0, 0
    if count:
        yield np.concatenate(values), pa.concat_arrays(ids) if named else None


@contextlib.contextmanager
def rejects_of(arguments: argparse.Namespace) -> Iterator[Rejects]:
    """Yield what takes rejected records, and say how many there were; their file is whole."""
    import sys

    from mr_dedup.formats.documents.rejects import Rejects, rejects_file

    if arguments.rejects is None:
        rejects = Rejects()
        yield rejects
    else:
        with rejects_file(arguments.rejects, arguments.overwrite) as rejects:
            yield rejects
        if not rejects.count:
            arguments.rejects.unlink()
    if rejects.count:
        first = rejects.listed[0]
        print(
            f"mr-dedup: {counted(rejects.counts.rejected, 'record')} could not be read, "
            f"the first in {printable(first.file)}, {first.place}: {printable(first.reason)}",
            file=sys.stderr,
        )
