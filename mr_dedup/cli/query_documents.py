"""Queries and corpora that are documents: their fingerprints are computed before the search."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mr_dedup.cli.document_arguments import check_rejected, described_features, read_options
from mr_dedup.cli.document_inputs import prepare
from mr_dedup.cli.fingerprint import copy_rows, documents_read, fingerprinted, table_writer
from mr_dedup.cli.on_cluster import refuse_existing_output
from mr_dedup.errors import MrDedupError, NothingReadError
from mr_dedup.files.inputs import expand
from mr_dedup.formats.documents.rejects import ReadCounts
from mr_dedup.storage.listing import list_files
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.cli.rejects import RejectsOutput
    from mr_dedup.engines.streaming import ClusterSettings

_Kind = Literal["documents", "fingerprints"]
_SIDES = ("corpus", "queries")


@dataclass(frozen=True)
class ResolvedSearch:
    """The arguments of a search, documents replaced by files of their fingerprints.

    ``have_ids`` is whether either side has ids of its fingerprints. ``messages`` are lines on what
    was read for them.
    """

    arguments: argparse.Namespace
    have_ids: bool
    messages: Sequence[str]


def with_fingerprints(
    arguments: argparse.Namespace,
    staging: Path,
    settings: ClusterSettings | None,
    rejects: RejectsOutput,
) -> ResolvedSearch:
    """Compute the fingerprints of the sides that are documents.

    Raises MrDedupError, before anything is computed, if a side has both documents and
    fingerprints, or if the result cannot go to ``--output-dir``; and if fingerprints were made
    from other features than those they are to be compared with.
    """

    documents = [
        side
        for side in _SIDES
        if _kind_of_side(_names(arguments, side), side, arguments, settings) == "documents"
    ]
    have_ids = not arguments.print_fingerprints and any(
        side in documents or _has_ids(arguments, side) for side in _SIDES
    )
    if have_ids and arguments.output_dir:
        raise MrDedupError(
            "--output-dir: results with ids are put together here; give -o, or --print-fingerprints"
        )
    if documents and settings is not None:
        refuse_existing_output(arguments, settings)
    resolved = copy.copy(arguments)
    said: list[str] = []
    for side in documents:
        path = staging / f"{side}.parquet"
        names = _names(arguments, side)
        said += _compute(names, side, path, arguments, staging, settings, rejects)
        setattr(resolved, side, [str(path)] if side == "corpus" else str(path))
        setattr(resolved, f"{side}_format", None)
    _check_features(resolved, arguments)
    return ResolvedSearch(resolved, have_ids, said)


def _names(arguments: argparse.Namespace, side: str) -> list[str]:
    names = getattr(arguments, side)
    return [names] if isinstance(names, str) else list(names)


def _compute(
    names: Sequence[str],
    side: str,
    path: Path,
    arguments: argparse.Namespace,
    staging: Path,
    settings: ClusterSettings | None,
    rejects: RejectsOutput,
) -> list[str]:
    """Write the fingerprints of documents to ``path``; return lines on what was read.

    Raises MrDedupError for queries of which none has any.
    """

    folder = staging / f"{side}-documents"
    folder.mkdir()
    work = prepare(names, arguments, folder, settings)
    rejects.counts, found = ReadCounts(), 0

    def write_counted(rows: pa.Table) -> None:
        nonlocal found
        found += len(rows) - rows["fingerprint"].null_count
        write(rows)

    with (
        fingerprinted(arguments, work, folder, settings) as result,
        table_writer(path, described_features(arguments)) as write,
    ):
        copy_rows(result, write_counted, rejects)
        rejects.counts.files = work.files
        check_rejected(arguments, rejects.counts, result.counters)
    if side == "queries" and not found:
        raise MrDedupError(f"{', '.join(names)}: no document has a fingerprint")
    read = documents_read(result.counters, work)
    return [f"{side}: {line}" for line in read]


def _kind_of_side(
    names: Sequence[str],
    side: str,
    arguments: argparse.Namespace,
    settings: ClusterSettings | None,
) -> _Kind:

    if getattr(arguments, f"{side}_format"):
        return "fingerprints"
    if arguments.format:
        return "documents"
    seen: dict[_Kind, str] = {}
    for name in names:
        for kind, file in _kinds(name, arguments, settings):
            seen.setdefault(kind, file)
    if len(seen) > 1:
        raise MrDedupError(
            f"{side}: contains documents, {seen['documents']}, and fingerprints, "
            f"{seen['fingerprints']}; --format or --{side}-format states which they are"
        )
    return next(iter(seen), "fingerprints")


def _kinds(
    name: str, arguments: argparse.Namespace, settings: ClusterSettings | None
) -> Iterator[tuple[_Kind, str]]:
    """Yield what the files are that a name stands for, and what they are called."""
    if name == "-":
        yield "documents", "standard input"
    elif not is_uri(name):
        for path in expand([name]):
            yield _kind_here(path, arguments), str(path)
    elif kind := _kind_by_ending(name):
        yield kind, name
    elif settings is not None:
        for file in list_files([name]):
            yield _kind_by_ending(file.uri) or "fingerprints", file.uri


def _kind_here(path: Path, arguments: argparse.Namespace) -> _Kind:
    """Return the kind of a local file; fingerprints, which are refused later, if unknown."""
    if path.suffix.lower() == ".parquet" and path.is_file():
        return _kind_of_table(path, arguments)
    return _kind_by_ending(path.name) or "fingerprints"


def _kind_of_table(path: Path, arguments: argparse.Namespace) -> _Kind:
    """Return what a Parquet file is by its columns; NothingReadError if they are of neither."""
    from mr_dedup.formats.documents.parquet import likely_text_column
    from mr_dedup.formats.documents.rejects import listed_names
    from mr_dedup.formats.fingerprint_parquet import FINGERPRINT
    from mr_dedup.formats.parquet_rows import open_parquet

    texts = [arguments.text_field, arguments.html_field]
    with open_parquet(path, str(path)) as file:
        if FINGERPRINT in file.columns:
            return "fingerprints"
        if not set(texts).isdisjoint(file.columns):
            return "documents"
        raise NothingReadError(
            f"{path}: has no column {FINGERPRINT!r} of fingerprints, nor {texts[0]!r} or "
            f"{texts[1]!r} of texts; its columns are {listed_names(file.columns)}",
            likely_text_column(file, read_options(arguments).id_names),
        )


def _kind_by_ending(name: str) -> _Kind | None:
    """Return the kind by the ending of a name; text and Parquet are fingerprints."""
    from mr_dedup.formats.documents.files import format_by_ending as document_format
    from mr_dedup.formats.fingerprint_files import UnknownFormatError, format_by_ending

    try:
        format_by_ending(name)
    except UnknownFormatError:
        return "documents" if document_format(name) else None
    return "fingerprints"


def _has_ids(arguments: argparse.Namespace, side: str) -> bool:
    """Return whether all files of a side are local and have ids of fingerprints."""
    names = _names(arguments, side)
    if any(map(is_uri, names)):
        return False
    return len(list(_tables(arguments, side))) == sum(len(expand([name])) for name in names)


def _tables(arguments: argparse.Namespace, side: str) -> Iterator[Path]:
    """Yield the files of this machine that have fingerprints in Parquet."""
    format = getattr(arguments, f"{side}_format")
    for name in _names(arguments, side):
        for path in () if is_uri(name) else expand([name]):
            if format == "parquet" or (not format and path.suffix.lower() == ".parquet"):
                yield path


def _check_features(resolved: argparse.Namespace, arguments: argparse.Namespace) -> None:
    """Raise MrDedupError if files state different features of their fingerprints."""
    from mr_dedup.formats.fingerprint_parquet import open_table

    known: dict[str, Path] = {}
    for path in (path for side in _SIDES for path in _tables(resolved, side)):
        with open_table(path) as table:
            if table.features is not None:
                known.setdefault(table.features, path)
    if len(known) > 1:
        (one, path), (other, other_path), *_ = known.items()
        names = [_called(p, arguments) for p in (path, other_path)]
        raise MrDedupError(
            f"{names[0]}: its fingerprints are made from {one}, but those of {names[1]} from "
            f"{other}; such cannot be compared"
        )


def _called(path: Path, arguments: argparse.Namespace) -> str:
    """Return what the user calls a file: documents by the side that they are."""
    for side in _SIDES:
        if path.name == f"{side}.parquet" and str(path) not in _names(arguments, side):
            return side
    return str(path)
