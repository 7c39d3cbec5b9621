"""The files of a result: on this machine, or in a store, from which they are copied to be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from mr_dedup.errors import FormatError
from mr_dedup.files.file_lists import refuse_links
from mr_dedup.files.inputs import local_path, require_utf8
from mr_dedup.files.io_errors import reading
from mr_dedup.formats.parts import in_order, part_files
from mr_dedup.pipeline.results import SUMMARY
from mr_dedup.pipeline.summary import refuse_newer
from mr_dedup.storage.listing import exists, file_info, files_below, list_files
from mr_dedup.storage.scratch import ScratchSettings, Wanted
from mr_dedup.storage.uris import file_name, is_uri, joined, without_secrets
from mr_dedup.storage.writing import read_small


class ResultFiles(Protocol):
    """The files of a result; all methods raise MrDedupError for what cannot be read."""

    def exists(self) -> bool:
        """Return whether there is a directory or URI of this name, whatever is in it."""
        ...

    def has(self, name: str) -> bool:
        """Return whether there is a file or directory ``name`` in it."""
        ...

    def content(self, name: str) -> bytes:
        """Return the content of a small file, such as ``summary.json``."""
        ...

    def name_of(self, dataset: str) -> str:
        """Return what messages call a directory of the result."""
        ...

    def below(self, dataset: str) -> list[Path] | list[str]:
        """Return the paths or URIs of all files in a directory and its subdirectories, sorted."""
        ...

    def parts(self, dataset: str) -> Iterator[tuple[str, Path]]:
        """Yield the name and the path of each part of a dataset, in order.

        A path is valid until the next one is yielded.
        """
        ...

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Return the path of one file, valid within the block."""
        ...


class LocalFiles:
    """Those of a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def exists(self) -> bool:
        """See ResultFiles.exists."""
        with reading(self._folder):
            return self._folder.exists()

    def has(self, name: str) -> bool:
        """See ResultFiles.has."""
        with reading(self._folder / name):
            return (self._folder / name).exists()

    def content(self, name: str) -> bytes:
        """See ResultFiles.content."""
        path = self._folder / name
        with reading(path):
            return path.read_bytes()

    def name_of(self, dataset: str) -> str:
        """See ResultFiles.name_of."""
        return str(self._folder / dataset)

    def below(self, dataset: str) -> list[Path]:
        """See ResultFiles.below."""
        return sorted(path for path in (self._folder / dataset).rglob("*") if path.is_file())

    def parts(self, dataset: str) -> Iterator[tuple[str, Path]]:
        """See ResultFiles.parts."""
        for path in part_files(self._folder / dataset):
            yield str(path), path

    def file(self, name: str) -> AbstractContextManager[Path]:
        """See ResultFiles.file."""
        return contextlib.nullcontext(self._folder / name)


class RemoteFiles:
    """Those of a directory of a store.

    A part is copied whole to a temporary directory, with the retries and checksums of all inputs,
    when its rows are read, and removed with the next one: one part is on this machine at a time.
    """

    def __init__(self, uri: str, scratch: ScratchSettings) -> None:
        self._uri = uri
        self._scratch = scratch

    def exists(self) -> bool:
        """See ResultFiles.exists."""
        return exists(self._uri)

    def has(self, name: str) -> bool:
        """See ResultFiles.has."""
        return exists(joined(self._uri, name))

    def content(self, name: str) -> bytes:
        """See ResultFiles.content."""
        return read_small(joined(self._uri, name))

    def name_of(self, dataset: str) -> str:
        """See ResultFiles.name_of."""
        return without_secrets(joined(self._uri, dataset))

    def below(self, dataset: str) -> list[str]:
        """See ResultFiles.below."""
        return [file.uri for file in files_below(joined(self._uri, dataset))]

    def parts(self, dataset: str) -> Iterator[tuple[str, Path]]:
        """See ResultFiles.parts."""
        files = list_files([joined(self._uri, dataset)])
        names = [file_name(file.uri) for file in files]
        files = in_order(self.name_of(dataset), files, names)
        with self._scratch.opened() as scratch:
            for file in files:
                with scratch().copies([Wanted(file)], is_kept=False) as [path]:
                    yield without_secrets(file.uri), path

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """See ResultFiles.file."""
        found = file_info(joined(self._uri, name))
        with (
            self._scratch.opened() as scratch,
            scratch().copies([Wanted(found)], is_kept=False) as [path],
        ):
            yield path


def files_of(folder: str, scratch: ScratchSettings | None = None) -> ResultFiles:
    """Return the files of the result in a directory, or at a URI: copies of them in ``scratch``."""
    if is_uri(folder):
        return RemoteFiles(folder, scratch or ScratchSettings())
    path = local_path(folder)
    require_utf8(path)
    refuse_links(path)
    return LocalFiles(path)


def refuse_newer_result(files: ResultFiles) -> None:
    """Raise MrDedupError for a result that a newer version has made."""
    if files.has(SUMMARY):
        refuse_newer(files.name_of(SUMMARY), files.content(SUMMARY))


@contextlib.contextmanager
def damage_reported(name: str) -> Iterator[None]:
    """Raise FormatError for what Arrow cannot read."""
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason, _, _ = str(error).partition("\n")
        raise FormatError(name, None, f"cannot be read: {reason}") from error
