"""From the documents that a command's arguments name to the inputs of its map tasks."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.on_cluster import refuse_other_clusters
from mr_dedup.cli.streams import counted, print_warning
from mr_dedup.engines.resources import core_count
from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import require_not_read
from mr_dedup.storage.listing import RemoteFile, list_files
from mr_dedup.storage.stores import store_of
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings, Input
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.formats.documents.files import DocumentFile

_SAID_KINDS, _LISTED_KINDS = 5, 100
"""Kinds of skipped files, the most frequent, that a message and a summary list."""

_BUNDLED_BYTES = 16 << 20
"""Files that are smaller share a task of a cluster, which takes seconds to start."""


@dataclass(frozen=True)
class DocumentInputs:
    """What is run: a task for each input; so many files, and those of other kinds, by ending.

    ``paths`` are the files of this machine that may be read, ``remote`` the others, ``stdin`` is
    the checksum of standard input if it was copied to a file. ``content_bytes`` is the size of the
    input, uncompressed, about. ``chunk_bytes`` is the size of the chunks that files of this machine
    are divided into for tasks on it. ``formats`` are those of all files. ``names_below`` is the
    directory, with a slash, that all names of files begin with, if any.
    """

    runner: str
    inputs: Sequence[Input]
    files: int
    skipped: Counter[str]
    paths: Sequence[Path]
    remote: Sequence[RemoteFile] = ()
    content_bytes: int = 0
    stdin: str | None = None
    chunk_bytes: int | None = None
    formats: Sequence[str] = ()
    names_below: str = ""

    @property
    def described(self) -> str:
        """How many files are read, and skipped, for the user."""
        return f"files: {self.files:,}{f' ({self.said_skipped})' if self.skipped else ''}"

    @property
    def said_skipped(self) -> str:
        """How many files are skipped, and of which kinds most, for the user."""
        total = self.skipped.total()
        kinds = [f"{count:,} {ending}" for ending, count in self._most_skipped(_SAID_KINDS)]
        more = total - sum(count for _, count in self._most_skipped(_SAID_KINDS))
        kinds += [f"and {more:,} more"] if more else []
        return f"{total:,} of other kinds skipped: {', '.join(kinds)}"

    @property
    def skipped_by_ending(self) -> dict[str, int]:
        """How many files of the most frequent kinds are skipped, as summaries have it."""
        return dict(self._most_skipped(_LISTED_KINDS))

    def _most_skipped(self, kinds: int) -> list[tuple[str, int]]:
        return sorted(self.skipped.items(), key=lambda each: (-each[1], each[0]))[:kinds]


def prepare(
    documents: Sequence[str],
    arguments: argparse.Namespace,
    staging: Path | None,
    settings: ClusterSettings | None,
    small_bytes: int | None = None,
    *,
    reads_again: bool = False,
    chunk_bytes: int | None = None,
    copied_to: str | None = None,
) -> DocumentInputs:
    """Return what a run over ``documents`` takes; write what it needs into ``staging``.

    Args:
        documents: Files, globs, directories and URIs.
        arguments: Those of the command.
        staging: The directory of the run; None to write nothing and only count inputs.
        settings: Those of a cluster, whose tasks read the documents of this machine first; None
            to run here.
        small_bytes: For jobs whose code holds the GIL: up to this total size one process is used,
            beyond it several; None for jobs that run on threads.
        reads_again: Whether documents are read several times: standard input is copied then.
        chunk_bytes: The size of chunks, for tasks of this machine; by default one that keeps the
            cores busy.
        copied_to: The URI of a directory where files of this machine are copied to, for tasks of a
            cluster that read chunks; None if these get whole files, or lines, as inputs.

    Raises:
        MrDedupError: For names that match no documents; FormatError as ``find_documents``.
    """
    from mr_dedup.engines.streaming.splits import split_bytes
    from mr_dedup.formats.documents.chunks import CHUNK_BYTES, content_bytes

    if settings is not None:
        refuse_other_clusters(documents, arguments.runner)
    files, skipped = _found(documents, arguments)
    paths = [file.path for file in files if isinstance(file.path, Path) and not file.unreadable]
    remote = [file.remote for file in files if file.remote is not None]
    names_below = _common_directory(files)
    formats = sorted({file.format for file in files if not file.unreadable})
    checksum_of_stdin = None
    if reads_again and any(file.is_standard_input for file in files):
        files, checksum_of_stdin = _spooled(files, arguments, staging)
    if copied_to is not None:
        from mr_dedup.cli.uploads import addressed

        _refuse_stdin(files, f"-r {arguments.runner}")
        chunk_bytes = chunk_bytes or min(CHUNK_BYTES, split_bytes(_properties(arguments)))
        inputs = _described(addressed(files, copied_to), chunk_bytes, staging, arguments)
        return DocumentInputs(
            arguments.runner, inputs, len(files), skipped, paths, remote,
            content_bytes=content_bytes(files), chunk_bytes=chunk_bytes, formats=formats,
            names_below=names_below,
        )  # fmt: skip
    if settings is None:
        runner = _local_runner(arguments.runner, files, small_bytes)
        chunk_bytes = chunk_bytes or _chunk_bytes(files, runner, arguments.cores)
        inputs = _described(files, chunk_bytes, staging, arguments)
        size = content_bytes(files) if reads_again else 0
        return DocumentInputs(
            runner, inputs, len(files), skipped, paths, remote, content_bytes=size,
            stdin=checksum_of_stdin, chunk_bytes=chunk_bytes, formats=formats,
            names_below=names_below,
        )  # fmt: skip
    _refuse_stdin(files, f"-r {arguments.runner}")
    inputs = _shipped([file for file in files if file.remote is None], staging, arguments)
    inputs += _remote([file for file in files if file.remote], len(inputs), staging, arguments)
    return DocumentInputs(
        arguments.runner, inputs, len(files), skipped, paths, remote, stdin=checksum_of_stdin,
        formats=formats, names_below=names_below,
    )  # fmt: skip


def _common_directory(files: Sequence[DocumentFile]) -> str:
    """Return the directory, with a slash, that the names of all files begin with; "" for none."""
    names = [file.name for file in files if not is_uri(file.name)]
    # of the first and the last in order, as of all
    common = os.path.commonprefix([min(names), max(names)]) if names else ""  # noqa: RUF071
    return common[: common.rfind("/") + 1]


def _spooled(
    files: Sequence[DocumentFile], arguments: argparse.Namespace, staging: Path | None
) -> tuple[list[DocumentFile], str]:
    """Return files with a copy of standard input instead of it, and the checksum of that."""
    from mr_dedup.formats.documents.standard_input import spool_standard_input
    from mr_dedup.pipeline.stages import checksum

    if staging is None:
        raise MrDedupError("--dry-run: does not read standard input; name files")
    folder = staging / "standard-input"
    folder.mkdir()
    taken = {file.name for file in files if not file.is_standard_input}
    copy = spool_standard_input(folder, arguments.format, taken)
    assert isinstance(copy.path, Path)
    return [copy if file.is_standard_input else file for file in files], checksum(copy.path)


def _found(
    names: Sequence[str], arguments: argparse.Namespace
) -> tuple[list[DocumentFile], Counter[str]]:
    """Return the files of documents, and the kinds of the others beside them."""
    from mr_dedup.formats.documents.files import find_documents

    found = find_documents(names, arguments.format, as_named)
    if found.repeated:
        count = counted(len(found.repeated), "file")
        print_warning(
            f"{count} named more than once, the first {found.repeated[0]}; each is read once"
        )
    for out in (arguments.out, getattr(arguments, "rejects", None)):
        if isinstance(out, Path):
            require_not_read(out, (f.path for f in found.files if isinstance(f.path, Path)))
        elif any(
            file.remote and f"{file.remote.uri}/".startswith(f"{str(out).rstrip('/')}/")
            for file in found.files
        ):
            raise MrDedupError(f"{out}: is read as well; choose another name for the result")
    return found.files, found.skipped


def _local_runner(wanted: str, files: Sequence[DocumentFile], small_bytes: int | None) -> str:
    from mr_dedup.formats.documents.chunks import total_bytes

    one_process = "memory" if small_bytes is None else "inline"
    in_hdfs = [file.remote.uri for file in files if file.remote and is_in_hdfs(file.remote.uri)]
    if wanted != "auto":
        if wanted in ("local", "spark"):
            _refuse_stdin(files, f"-r {wanted}")
        if in_hdfs:
            refuse_hdfs(in_hdfs[0], wanted)
        return wanted
    if small_bytes is None or in_hdfs or any(file.is_standard_input for file in files):
        return one_process
    return one_process if total_bytes(files) <= small_bytes else "local"


def is_in_hdfs(uri: str) -> bool:
    """Return whether a URI is of a file in HDFS."""
    return store_of(uri).protocol == "hdfs"


def refuse_hdfs(uri: str, runner: str) -> None:
    """Raise MrDedupError for a URI in HDFS that tasks of a runner cannot read.

    hdfs-native's threads do not survive the fork of a task, which then waits without end.
    """
    if runner == "local" and is_in_hdfs(uri):
        raise MrDedupError(
            f"{uri}: -r local: its forked tasks cannot read HDFS; use -r memory, inline or hadoop"
        )


def _refuse_stdin(files: Sequence[DocumentFile], option: str | None) -> None:

    if option and any(file.is_standard_input for file in files):
        raise MrDedupError(f"{option}: standard input is read by one process, -r memory")


def _chunk_bytes(files: Sequence[DocumentFile], runner: str, cores: int | None) -> int:
    from mr_dedup.formats.documents.chunks import CHUNK_BYTES, chunk_bytes

    if runner == "inline":
        return CHUNK_BYTES
    return chunk_bytes(files, core_count(cores))


def _described(
    files: Sequence[DocumentFile],
    chunk_bytes: int,
    staging: Path | None,
    arguments: argparse.Namespace,
) -> list[Input]:
    """Return descriptions of chunks of about ``chunk_bytes``."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.documents.chunks import cut_into_chunks

    chunks = cut_into_chunks(files, chunk_bytes, split=_is_split(arguments))
    if staging is None:
        return [Input("", chunk.name) for chunk in chunks]
    return [described_chunk(chunk, staging) for chunk in chunks]


def _is_split(arguments: argparse.Namespace) -> bool:
    """Return whether large files may be cut: in other encodings line ends are not a byte LF."""
    return getattr(arguments, "encoding", None) is None


def described_chunk(chunk: DocumentChunk, staging: Path) -> Input:
    """Return the input of a task that reads a chunk: of files of its machine, or of stores."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX

    path = staging / f"{chunk.number:06}{DESCRIPTION_SUFFIX}"
    path.write_text(chunk.describe())
    return Input(str(path), chunk.name)


def bundled_chunk(chunk: DocumentChunk, staging: Path) -> Input:
    """Return the input of a cluster's task that reads a chunk of this machine's files."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.documents.chunks import BUNDLE_SUFFIX, bundle

    path = staging / f"{chunk.number:06}{BUNDLE_SUFFIX}"
    bundle(chunk, path)
    return Input(str(path), chunk.name)


def _shipped(
    files: Sequence[DocumentFile], staging: Path | None, arguments: argparse.Namespace
) -> list[Input]:
    """Return the inputs of a cluster's tasks: files as they are, small ones in bundles."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.documents.chunks import cut_into_chunks, total_bytes

    inputs = []
    for chunk in cut_into_chunks(files, _BUNDLED_BYTES, split=False):
        if _goes_as_it_is(chunk, arguments):
            file = chunk.parts[0].file
            lines_bytes = _lines_bytes(str(file.path), total_bytes([file]), arguments)
            inputs.append(Input(str(file.path), file.name, lines_bytes))
        elif staging is None:
            inputs.append(Input("", chunk.name))
        else:
            inputs.append(bundled_chunk(chunk, staging))
    return inputs


def _remote(
    files: Sequence[DocumentFile],
    first: int,
    staging: Path | None,
    arguments: argparse.Namespace,
) -> list[Input]:
    """Return the inputs of a cluster's tasks that are elsewhere, the first with number ``first``.

    They are files that the Hadoop of nodes reads, and descriptions of parts of other files.
    """
    from mr_dedup.engines.streaming import Input, is_read_by_nodes
    from mr_dedup.engines.streaming.splits import split_bytes
    from mr_dedup.formats.documents.chunks import cut_into_chunks
    from mr_dedup.jobs.reading import order_of

    inputs, others = [], []
    for file in files:
        assert file.remote is not None
        if is_read_by_nodes(file.remote.uri, arguments.runner):
            uri, size = file.remote.uri, file.remote.size_bytes or 0
            inputs.append(Input(uri, uri, _lines_bytes(uri, size, arguments)))
        else:
            others.append(file)
    chunk_bytes = split_bytes(_properties(arguments))
    for chunk in cut_into_chunks(others, chunk_bytes, split=_is_split(arguments)):
        if staging is None:
            inputs.append(Input("", chunk.name))
        else:
            # as the number of a task's other inputs
            numbered = replace(chunk, number=order_of(first + len(inputs)))
            inputs.append(described_chunk(numbered, staging))
    return inputs


def _properties(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(text.split("=", 1) for text in arguments.properties or ())


def _goes_as_it_is(chunk: DocumentChunk, arguments: argparse.Namespace) -> bool:
    """Return whether the chunk is one file whose format its ending or an option states."""
    from mr_dedup.formats.documents.chunks import is_no_json_lines
    from mr_dedup.formats.documents.files import format_by_ending

    file = chunk.parts[0].file
    assert isinstance(file.path, Path)
    if file.unreadable or not os.access(file.path, os.R_OK) or is_no_json_lines(file):
        return False
    known = arguments.format is not None or format_by_ending(file.path.name) == file.format
    return len(chunk.parts) == 1 and known


def remote_identities(documents: Sequence[str]) -> list[list[str | int | None]]:
    """Return the identities of remote files as they are now, by another listing."""
    return [file.identity for file in list_files([name for name in documents if is_uri(name)])]


def _lines_bytes(name: str, size_bytes: int, arguments: argparse.Namespace) -> int:
    """Return the size of a file of whose lines each task may have some; 0 of others."""
    from mr_dedup.formats.documents.files import is_plain_jsonl

    is_plain = _is_split(arguments) and is_plain_jsonl(name, arguments.format)
    return size_bytes if is_plain else 0
