"""The files that URIs of files, directories and patterns stand for."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import storage_errors
from mr_dedup.storage.globs import as_regex, fixed_part, is_glob
from mr_dedup.storage.stores import open_store, store_of
from mr_dedup.storage.uris import without_secrets

_LISTED_AT_ONCE = 16
"""Directories that are listed at the same time."""

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


@dataclass(frozen=True)
class RemoteFile:
    """A file in a store.

    Attributes:
        uri: Its URI.
        size_bytes: Its size; None if the store does not report it.
        version: What differs once the file is written anew: an ETag, a generation, a time.
        checksum: ``md5:…`` or ``sha256:…`` in hexadecimal, where the store reports one.
    """

    uri: str
    size_bytes: int | None
    version: str
    checksum: str | None = None

    @property
    def identity(self) -> list[str | int | None]:
        """What identifies the file and its version in a listing, as JSON types."""
        return [without_secrets(self.uri), self.size_bytes, self.version]


def list_files(names: Sequence[str]) -> list[RemoteFile]:
    """Return the files that ``names`` stand for, in the order given, those of each by path.

    A directory stands for the files in it and in its subdirectories; files and directories in it
    whose names start with ``.`` or ``_`` are skipped, as Hadoop skips ``_SUCCESS``. Patterns are
    Hadoop's, and ``**`` for any number of directories. On web servers a URI is one file.

    The subdirectories of a directory are listed in parallel, a page of 1,000 names at a time.

    Raises:
        MrDedupError: For a name that stands for no file, and if a store refuses.
    """
    return [file for name in names for file in _files_of(name)]


def file_info(uri: str) -> RemoteFile:
    """Return the file ``uri``; raises MrDedupError if there is none."""
    system, path = open_store(uri)
    with storage_errors(uri):
        info = system.info(path)
        if info.get("type") == "directory":
            raise MrDedupError(f"{without_secrets(uri)}: is a directory, expected a file")
    return _remote_file(uri, info)


def is_directory(uri: str) -> bool:
    """Return whether ``uri`` is a directory, or begins the names of files in a directory of it."""
    if not store_of(uri).lists:
        return False
    system, path = open_store(uri)
    with storage_errors(uri):
        return bool(system.isdir(path))


def exists(uri: str) -> bool:
    """Return whether there is a file or directory ``uri``; raises MrDedupError."""
    system, path = open_store(uri)
    with storage_errors(uri):
        try:
            system.info(path)
        except FileNotFoundError:
            return False
        return True


def files_below(directory: str) -> list[RemoteFile]:
    """Return all files in a directory and its subdirectories, by path, hidden ones too.

    There are none if it does not exist.
    """
    system, path = open_store(directory)
    return [
        _remote_file(_uri_of(directory, path, name), info)
        for name, info in sorted(_found(directory, system, path).items())
    ]


def _files_of(name: str) -> list[RemoteFile]:
    if not store_of(name).lists:
        return [file_info(name)]
    start = fixed_part(name).rstrip("/") if is_glob(name) else name.rstrip("/")
    system, path = open_store(start)
    wanted = re.compile(f"({as_regex(name.rstrip('/'))})(/.*)?", re.S)
    shows_hidden = name.rstrip("/").rpartition("/")[2].startswith((".", "_"))
    files = []
    for found, info in sorted(_found(start, system, path).items()):
        uri = _uri_of(start, path, found)
        match = wanted.fullmatch(uri) if is_glob(name) else None
        if is_glob(name):
            if match is None:
                continue
            parts = (match[2] or "").split("/")
            if not shows_hidden:
                parts.append(match[1].rpartition("/")[2])
        else:
            parts = uri.removeprefix(start).split("/")
        if not any(part.startswith((".", "_")) for part in parts):
            files.append(_remote_file(uri, info))
    if not files:
        reason = "contains no files" if is_glob(name) or is_directory(name) else "no such file"
        raise MrDedupError(f"{without_secrets(name)}: {reason}")
    return files


def _found(uri: str, system: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """Return the files at or below ``path``, by their paths in the store."""
    with storage_errors(uri):
        try:
            entries = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            if "bucket" in str(error).lower():
                raise
            return {}
        found = dict(_files_in(entries))
        folders = [entry["name"] for entry in entries if entry["type"] == "directory"]
        folders = [folder for folder in folders if folder.strip("/") != path.strip("/")]
        if not folders:
            return found
        with ThreadPoolExecutor(min(_LISTED_AT_ONCE, len(folders))) as pool:
            for below in pool.map(lambda folder: system.find(folder, detail=True), folders):
                found.update(_files_in(below.values()))
    return found


def _files_in(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in entries:
        # an object whose name ends in a slash, or so, stands for an empty directory
        if entry["type"] == "file" and not entry["name"].endswith(("/", "_$folder$")):
            yield entry["name"], entry


def _uri_of(start: str, path: str, name: str) -> str:
    """Return the URI of a path that is or is below ``path``, the path of the URI ``start``."""
    return start.rstrip("/") + name.strip("/")[len(path.strip("/")) :]


def _remote_file(uri: str, info: Mapping[str, Any]) -> RemoteFile:
    size = info.get("size")
    known = ("ETag", "etag", "generation", "blob_id", "LastModified", "last_modified", "mtime")
    values = (info.get(key) for key in (*known, "modification_time", "updated"))
    version = next((str(value) for value in values if value), "")
    return RemoteFile(uri, None if size is None else int(size), version, _checksum(info))


def _checksum(info: Mapping[str, Any]) -> str | None:
    large_file = info.get("lfs") or {}
    if large_file.get("sha256"):
        return f"sha256:{large_file['sha256']}"
    if info.get("md5Hash"):
        return f"md5:{base64.b64decode(info['md5Hash']).hex()}"
    content_md5 = (info.get("content_settings") or {}).get("content_md5")
    if content_md5:
        return f"md5:{bytes(content_md5).hex()}"
    # of S3: the MD5 of an object that was uploaded at once and is not encrypted by KMS
    etag = _MD5.fullmatch(str(info.get("ETag", ""))) if "StorageClass" in info else None
    return f"md5:{etag[1]}" if etag else None
