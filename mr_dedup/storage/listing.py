"""The files that URIs of files, directories and patterns stand for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.checksums import described
from mr_dedup.storage.errors import is_missing
from mr_dedup.storage.globs import as_regex, fixed_part, is_glob, levels_of
from mr_dedup.storage.retries import repeated
from mr_dedup.storage.stores import open_store, store_of
from mr_dedup.storage.uris import without_secrets

_LISTED_AT_ONCE = 16
"""Directories that are listed at the same time."""

_WITH_BUCKETS = ("s3", "gs", "abfs")

_VERSIONS = ("generation", "blob_id", "ETag", "etag", "Last-Modified", "modification_time")
"""Where stores report a file's version."""

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


@dataclass(frozen=True)
class RemoteFile:
    """A file in a store.

    Attributes:
        uri: Its URI.
        size_bytes: Its size; None if the store does not report it.
        version: What differs once the file is written anew: an ETag, a generation, a time.
        checksum: Such as ``md5:…`` in hexadecimal, where the store reports one.
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

    A name that exists is a file or directory, even with ``*`` in it. A directory stands for the
    files in it and in its subdirectories; files and directories in it whose names start with ``.``
    or ``_`` are skipped, as Hadoop skips ``_SUCCESS``. Patterns are Hadoop's, and ``**`` for any
    number of directories; only names that are written with ``.`` or ``_`` match hidden ones. On web
    servers a URI is one file. The order is that of local files: ``a/b`` is before ``a.txt``.

    Names, and the directories of one, are listed in parallel, a page of 1,000 names at a time.

    Raises:
        MrDedupError: For a name that stands for no file, and if a store refuses.
    """
    if len(names) == 1:
        return _files_of(names[0])
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
        return [file for files in pool.map(_files_of, names) for file in files]


def file_info(uri: str) -> RemoteFile:
    """Return the file ``uri``; raises MrDedupError if there is none."""
    info = repeated(uri, lambda: _info(uri))
    if info.get("type") == "directory":
        raise MrDedupError(f"{without_secrets(uri)}: is a directory, expected a file")
    return _remote_file(uri, info)


def is_directory(uri: str) -> bool:
    """Return whether ``uri`` is a directory, or begins the names of files in a directory of it."""
    return store_of(uri).lists and _type_of(uri) == "directory"


def exists(uri: str) -> bool:
    """Return whether there is a file or directory ``uri``; raises MrDedupError."""
    return _type_of(uri) is not None


def files_below(directory: str) -> list[RemoteFile]:
    """Return all files in a directory and its subdirectories, by path, hidden ones too.

    There are none if it does not exist.
    """
    with _opened_tree(directory, hides=False) as tree:
        return tree.files(tree.at([tree.path]))


def _info(uri: str) -> Mapping[str, Any]:
    system, path = open_store(uri)
    info: Mapping[str, Any] = system.info(path, **store_of(uri).info_options)
    return info


def _type_of(uri: str) -> str | None:
    """Return what ``uri`` is, ``file`` or ``directory``; None if there is nothing."""

    def request() -> str | None:
        try:
            return str(_info(uri)["type"])
        except Exception as error:
            if is_missing(error):
                return None
            raise

    return repeated(uri, request)


def _files_of(name: str) -> list[RemoteFile]:
    if not store_of(name).lists:
        return [file_info(name)]
    name = name.rstrip("/")
    # a name with wildcards that exists is no pattern
    is_pattern = is_glob(name) and _type_of(name) is None
    start = fixed_part(name) if is_pattern else name
    with _opened_tree(start, hides=True) as tree:
        if is_pattern:
            found = tree.matches(levels_of(name[len(start) :].strip("/")))
        else:
            found = tree.at([tree.path])
        files = tree.files(found)
    if not files:
        raise MrDedupError(f"{without_secrets(name)}: {_reason_of_none(name, is_pattern)}")
    return files


def _reason_of_none(name: str, is_pattern: bool) -> str:
    """Return why a name stands for no files."""
    scheme, _, path = name.partition("://")
    if store_of(name).protocol in _WITH_BUCKETS:
        # who may not look for the bucket still learns that there is no such file
        with contextlib.suppress(MrDedupError):
            if _type_of(f"{scheme}://{path.partition('/')[0]}") is None:
                return "no such bucket"
    return "contains no files" if is_pattern or is_directory(name) else "no such file"


Entry = Mapping[str, Any]
"""What fsspec reports of a file or directory: ``name``, its path in the store, ``type``, …"""


@dataclass(frozen=True)
class _Tree:
    """A directory of a store, or a file, that is listed by several threads.

    Attributes:
        uri: Its URI.
        path: Its path in the store.
        system: The file system of fsspec.
        pool: The threads.
        hides: Whether names that start with ``.`` or ``_`` are skipped.
    """

    uri: str
    path: str
    system: Any
    pool: ThreadPoolExecutor
    hides: bool

    def files(self, entries: Iterable[Entry]) -> list[RemoteFile]:
        """Return the files of entries, each once, by path."""
        start = self.uri.rstrip("/")
        skipped = len(self.path.strip("/"))
        # an object whose name ends in a slash, or so, stands for an empty directory
        found = {
            entry["name"].strip("/")[skipped:]: entry
            for entry in entries
            if entry["type"] == "file" and not entry["name"].endswith(("/", "_$folder$"))
        }
        names = sorted(found, key=lambda name: name.split("/"))
        return [_remote_file(start + name, found[name]) for name in names]

    def matches(self, levels: Sequence[str]) -> list[Entry]:
        """Return the files that a pattern matches, and those below directories that it matches.

        It is followed name by name, so that no other directory is listed.
        """
        folders, found = [self.path], list[Entry]()
        for number, level in enumerate(levels):
            is_last = number + 1 == len(levels)
            if "**" in level or "/" in level:
                return self._matches_below(folders, levels[number:])
            if not is_glob(level):
                folders = [f"{folder.rstrip('/')}/{level}" for folder in folders]
                continue
            regex = re.compile(as_regex(level), re.S)
            shows = not self.hides or level.startswith((".", "_"))
            listed = [
                entry for entries in self.pool.map(self._listed, folders) for entry in entries
            ]
            named = [(entry["name"].rstrip("/").rpartition("/")[2], entry) for entry in listed]
            fits = [
                entry
                for name, entry in named
                if regex.fullmatch(name) and (shows or not _is_hidden(name))
            ]
            if is_last:
                found = [entry for entry in fits if entry["type"] == "file"]
            folders = [entry["name"] for entry in fits if entry["type"] == "directory"]
        return found + self.at(folders)

    def _matches_below(self, folders: Sequence[str], levels: Sequence[str]) -> list[Entry]:
        regex = re.compile(f"({as_regex('/'.join(levels))})(/.*)?", re.S)
        shows = not self.hides or any(level.startswith((".", "_")) for level in levels)
        everything = replace(self, hides=False)
        found = []
        for folder in folders:
            for entry in everything.at([folder]):
                match = regex.fullmatch(_relative(entry["name"], folder))
                if match is None:
                    continue
                checked = match[2] or "" if shows else match[0]
                if not (self.hides and _is_hidden(checked)):
                    found.append(entry)
        return found

    def at(self, paths: Sequence[str]) -> list[Entry]:
        """Return the files that are, or are in, what is at some paths."""
        found = [entry for entries in self.pool.map(self._at, paths) for entry in entries]
        files = [entry for entry in found if entry["type"] == "file"]
        folders = [entry["name"] for entry in found if entry["type"] == "directory"]
        for below in self.pool.map(self._below, folders):
            files += below
        return files

    def _at(self, path: str) -> list[Entry]:
        """Return what is in a directory, or the file, at ``path``: nothing if there is none."""

        def request() -> list[Entry]:
            try:
                entry = self.system.info(path, **store_of(self.uri).info_options)
            except Exception as error:
                if is_missing(error):
                    return []
                raise
            return [entry] if entry["type"] == "file" else self._listed(path)

        found = repeated(self.uri, request)
        return [each for each in found if not self._hides(each["name"], path)]

    def _listed(self, folder: str) -> list[Entry]:
        """Return what is in a directory: nothing if it does not exist."""

        def request() -> list[Entry]:
            try:
                return list(self.system.ls(folder, detail=True))
            except Exception as error:
                if is_missing(error) or isinstance(error, NotADirectoryError):
                    return []
                raise

        entries = repeated(self.uri, request)
        path = folder.strip("/")
        if any(each["name"].strip("/") == path and each["type"] == "directory" for each in entries):
            # of names with "//", which stand for a directory without a name
            return self._below(folder)
        return entries

    def _below(self, folder: str) -> list[Entry]:
        """Return all files in a directory and its subdirectories."""
        found = repeated(self.uri, lambda: self.system.find(folder, detail=True))
        return [each for each in found.values() if not self._hides(each["name"], folder)]

    def _hides(self, name: str, folder: str) -> bool:
        return self.hides and _is_hidden(_relative(name, folder))


@contextlib.contextmanager
def _opened_tree(uri: str, hides: bool) -> Iterator[_Tree]:
    system, path = open_store(uri)
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
        yield _Tree(uri, path, system, pool, hides)


def _relative(name: str, folder: str) -> str:
    """Return the path of a file in a directory."""
    return name.strip("/")[len(folder.strip("/")) :].strip("/")


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))


_MAX_BYTES = 1 << 46
"""More than any store has in one file; a server that states more is not believed."""


def _remote_file(uri: str, info: Mapping[str, Any]) -> RemoteFile:
    size = info.get("size")
    if size is not None and not 0 <= int(size) <= _MAX_BYTES:
        raise MrDedupError(f"{without_secrets(uri)}: is said to have {size} bytes")
    version = next((str(info[key]) for key in _VERSIONS if info.get(key)), "")
    return RemoteFile(uri, None if size is None else int(size), version, _checksum(info))


def _checksum(info: Mapping[str, Any]) -> str | None:
    large_file = info.get("lfs") or {}
    if large_file.get("sha256"):
        return f"sha256:{large_file['sha256']}"
    if info.get("md5Hash"):
        return described("md5", str(info["md5Hash"]))
    content_md5 = (info.get("content_settings") or {}).get("content_md5")
    if content_md5:
        return f"md5:{bytes(content_md5).hex()}"
    if info.get("crc32c"):
        # of GCS, an object that was composed
        return described("crc32c", str(info["crc32c"]))
    # of S3: the MD5 of an object that was uploaded at once and is not encrypted by KMS
    etag = _MD5.fullmatch(str(info.get("ETag", ""))) if "StorageClass" in info else None
    return f"md5:{etag[1]}" if etag else None
