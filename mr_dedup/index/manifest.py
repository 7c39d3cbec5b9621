"""The manifest: the files that an index consists of. It is replaced as a whole, by a rename.

A line with magic, version and checksum, then JSON. Files that it does not name were left by a
killed process, or are being written; they are not part of the index.
"""

from __future__ import annotations

import re
import struct

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError, newer
from mr_dedup.files.folders import Folder, FolderFile
from mr_dedup.files.io_errors import cannot_be_read
from mr_dedup.hamming.design import designs_for
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.folder import MANIFEST_NAME, is_index_file
from mr_dedup.index.segment_file import MAX_K

VERSION = 1

_FIRST = re.compile(rb"mr_dedup index, version (\d{1,9}), checksum ([0-9a-f]{16})\n")

_DEAD_MAGIC = b"\x89MRDDED\n"
_DEAD = struct.Struct("<8sIQQ")  # magic, version, documents, checksum of the bits


class SegmentEntry(msgspec.Struct, frozen=True):
    """A segment: its file, the length of it, and the file of its dead documents, if there are any.

    The fields are keys of the JSON.
    """

    file: str
    bytes: int
    dead: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """The properties and the files of an index; the fields are keys of the JSON.

    Args:
        k: the largest distance of a query.
        named: whether documents have ids of their own.
        features: what the fingerprints are made from, in print, if that is known.
        made_from: the options to make more of them, if they are known.
        design: the table design of all segments, None for the best for the size of each.
        number: the last number that a file was named by.
        log: the file of the log.
        segments: oldest first.
    """

    k: int
    named: bool
    features: str | None
    made_from: FingerprintOptions | None
    design: str | None
    number: int
    log: str
    segments: list[SegmentEntry]


class DescribedIndex:
    """The properties of an index that has a manifest."""

    @property
    def _manifest(self) -> Manifest:
        raise NotImplementedError

    @property
    def k(self) -> int:
        """The largest distance of a query."""
        return self._manifest.k

    @property
    def named(self) -> bool:
        """Whether documents have ids of their own."""
        return self._manifest.named

    @property
    def features(self) -> str | None:
        """What the fingerprints are made from, in print, if that is known."""
        return self._manifest.features

    @property
    def made_from(self) -> FingerprintOptions | None:
        """The options that the fingerprints of texts are made by, if they are known."""
        return self._manifest.made_from


def read_manifest(folder: Folder) -> Manifest:
    """Return the manifest of an index; MrDedupError if there is none, FormatError if damaged."""
    file = folder / MANIFEST_NAME
    path = file.path
    try:
        raw = _read(file)
    except FileNotFoundError as error:
        reason = "contains no index; mr-dedup index create makes one"
        raise MrDedupError(f"{folder.path}: {reason}") from error
    first = _FIRST.match(raw)
    if first is None:
        raise FormatError(path, "line 1", "is not the first line of a manifest")
    version, content = int(first[1]), raw[first.end() :]
    if version > VERSION:
        raise FormatError(path, "line 1", newer(version, VERSION))
    if version != VERSION:
        raise FormatError(path, "line 1", f"version {version} does not exist")
    if int(first[2], 16) != xxhash.xxh3_64_intdigest(content):
        raise FormatError(path, None, "its checksum is wrong")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (ValueError, RecursionError) as error:
        reason = f"its checksum is right, and its content wrong: {error}"
        raise FormatError(path, None, reason) from error
    fault = _fault(manifest)
    if fault is not None:
        raise FormatError(path, None, f"its checksum is right, and its content wrong: {fault}")
    return manifest


def _fault(manifest: Manifest) -> str | None:
    """Return what is wrong with a manifest, None if nothing.

    Names have to be those of index files: files that it no longer names are removed.
    """
    if not 0 <= manifest.k <= MAX_K:
        return f"k is {manifest.k}"
    if manifest.design is not None and manifest.design not in designs_for(manifest.k):
        return f"there is no design {manifest.design!r} for k = {manifest.k}"
    names = [("log", manifest.log), *(("segment", entry.file) for entry in manifest.segments)]
    names += [("dead", entry.dead) for entry in manifest.segments if entry.dead is not None]
    for kind, name in names:
        if not re.fullmatch(rf"{kind}-[0-9]{{8}}", name):
            return f"{name!r} is not the name of a {kind}"
        if int(name[-8:]) > manifest.number:
            return f"{name} is later than the last number, {manifest.number}"
    if len(set(names)) < len(names):
        return "a file is named twice"
    return None


def write_manifest(folder: Folder, manifest: Manifest) -> None:
    """Replace the manifest; MrDedupError if it cannot be written.

    Forces its content to the disk; ``Folder.force`` forces its name.
    """
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    checksum = xxhash.xxh3_64_intdigest(content)
    with (folder / MANIFEST_NAME).written() as file:
        file.write(b"mr_dedup index, version %d, checksum %016x\n" % (VERSION, checksum))
        file.write(content)


def files_of(manifest: Manifest) -> set[str]:
    """Return the names of the files that a manifest names."""
    dead = {entry.dead for entry in manifest.segments if entry.dead is not None}
    return {manifest.log, *dead, *(entry.file for entry in manifest.segments)}


def remove_leftovers(folder: Folder, manifest: Manifest | None = None) -> None:
    """Remove the files of an index that its manifest does not name; the caller has the lock."""
    named = set() if manifest is None else files_of(manifest)
    for name in folder.names():
        if is_index_file(name) and name not in named:
            (folder / name).remove()


def write_dead(file: FolderFile, documents: int, dead: NDArray[np.uint8]) -> None:
    """Write which documents of a segment are dead, a bit each, forced to the disk."""
    raw = dead.tobytes()
    with file.written() as out:
        checksum = xxhash.xxh3_64_intdigest(raw, documents)
        out.write(_DEAD.pack(_DEAD_MAGIC, VERSION, documents, checksum) + raw)


def read_dead(file: FolderFile, documents: int) -> NDArray[np.uint8]:
    """Return which of the ``documents`` of a segment are dead, a bit each.

    Raises FormatError if the file is damaged, FileNotFoundError if it is missing.
    """
    path, raw = file.path, _read(file)
    if len(raw) < _DEAD.size:
        raise FormatError(path, None, f"is cut short, at byte {len(raw)}")
    magic, version, count, checksum = _DEAD.unpack_from(raw)
    bits = raw[_DEAD.size :]
    if magic == _DEAD_MAGIC and version > VERSION:
        raise FormatError(path, "header", newer(version, VERSION))
    intact = checksum == xxhash.xxh3_64_intdigest(bits, documents)
    if not intact or (magic, version, count) != (_DEAD_MAGIC, VERSION, documents):
        raise FormatError(path, None, "its checksum is wrong")
    dead = np.frombuffer(bits, np.uint8)
    rest = documents % 8
    if len(dead) != -(-documents // 8) or (rest and dead[-1] >> rest):
        raise FormatError(path, None, f"is not of {documents} documents")
    return dead


def _read(file: FolderFile) -> bytes:
    """Return the bytes of a file; FileNotFoundError if it is missing, or MrDedupError."""
    try:
        return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise cannot_be_read(file.path, error) from error
