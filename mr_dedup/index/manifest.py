"""The manifest: which files are the index now. It is replaced as a whole, by a rename.

A line with magic, version and checksum, then JSON. What it does not name is left over from a killed
process, or on its way to be named, and is nobody's data.
"""

from __future__ import annotations

import re
import struct

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folders import Folder, FolderFile
from mr_dedup.hamming.design import designs_for
from mr_dedup.index.made_from import MadeFrom
from mr_dedup.index.segment_file import MAX_K, newer

NAME = "MANIFEST"
VERSION = 1

_FIRST = re.compile(rb"mr_dedup index, version (\d{1,9}), checksum ([0-9a-f]{16})\n")
_OURS = re.compile(r"(segment|log|dead)-\d{8}|\.(MANIFEST|dead-\d{8})\.\w+\.part")

_DEAD_MAGIC = b"\x89MRDDED\n"
_DEAD = struct.Struct("<8sIQQ")  # magic, version, documents, checksum of the bits


class SegmentEntry(msgspec.Struct, frozen=True):
    """A segment: its file, and that of which documents are dead, if any are."""

    file: str
    bytes: int
    dead: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """What an index is made of, oldest segment first, and what it is for.

    ``number`` is the last that a file was named by. ``design`` is the one that segments have to
    have, None if each may have the best for its size. ``features`` says what the fingerprints are
    made from, if that is known, and ``made_from`` how to make more of the same.
    """

    k: int
    named: bool
    features: str | None
    made_from: MadeFrom | None
    design: str | None
    number: int
    log: str
    segments: list[SegmentEntry]


def read_manifest(folder: Folder) -> Manifest:
    """Return the manifest of an index; MrDedupError if there is none, FormatError if damaged."""
    file = folder / NAME
    path = file.path
    try:
        raw = file.read()
    except FileNotFoundError as error:
        reason = "contains no index; mr-dedup index create makes one"
        raise MrDedupError(f"{folder.path}: {reason}") from error
    except OSError as error:
        raise MrDedupError(f"{path}: cannot be read: {error.strerror or error}") from error
    first = _FIRST.match(raw)
    if first is None:
        raise FormatError(path, "line 1", "is not how the manifest of an index begins")
    version, content = int(first[1]), raw[first.end() :]
    if version > VERSION:
        raise FormatError(path, "line 1", newer(version, VERSION))
    if version != VERSION:
        raise FormatError(path, "line 1", f"version {version} does not exist")
    if int(first[2], 16) != xxhash.xxh3_64_intdigest(content):
        raise FormatError(path, None, "its checksum is wrong")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise FormatError(path, None, f"is right, and not understood: {error}") from error
    fault = _fault(manifest)
    if fault is not None:
        raise FormatError(path, None, f"its checksum is right, and its content wrong: {fault}")
    return manifest


def _fault(manifest: Manifest) -> str | None:
    """Return what is wrong with a manifest, None if nothing.

    Names are of files in the folder: what it does not name any more is removed.
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
    """Put a manifest in the place of the last one; MrDedupError if it cannot be written.

    Its content is on the disk then; ``Folder.force`` forces its name.
    """
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    checksum = xxhash.xxh3_64_intdigest(content)
    with (folder / NAME).written() as file:
        file.write(b"mr_dedup index, version %d, checksum %016x\n" % (VERSION, checksum))
        file.write(content)


def files_of(manifest: Manifest) -> set[str]:
    """Return the names of the files that a manifest names."""
    dead = {entry.dead for entry in manifest.segments if entry.dead is not None}
    return {manifest.log, *dead, *(entry.file for entry in manifest.segments)}


def remove_leftovers(folder: Folder, manifest: Manifest | None = None) -> None:
    """Remove the files of an index that its manifest does not name, while nobody writes any."""
    named = set() if manifest is None else files_of(manifest)
    for name in folder.names():
        if is_ours(name) and name not in named:
            (folder / name).remove()


def is_ours(name: str) -> bool:
    """Return whether a file is called as an index calls those that its manifest names."""
    return _OURS.fullmatch(name) is not None


def write_dead(file: FolderFile, documents: int, dead: NDArray[np.uint8]) -> None:
    """Write which of a segment's documents are dead, a bit each, forced to the disk."""
    raw = dead.tobytes()
    with file.written() as out:
        checksum = xxhash.xxh3_64_intdigest(raw, documents)
        out.write(_DEAD.pack(_DEAD_MAGIC, VERSION, documents, checksum) + raw)


def read_dead(file: FolderFile, documents: int) -> NDArray[np.uint8]:
    """Return which of a segment's ``documents`` are dead; FormatError if the file is damaged."""
    path = file.path
    try:
        raw = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise MrDedupError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) < _DEAD.size:
        raise FormatError(path, None, f"is cut short, at byte {len(raw)}")
    magic, version, count, checksum = _DEAD.unpack_from(raw)
    bits = raw[_DEAD.size :]
    if magic == _DEAD_MAGIC and version > VERSION:
        raise FormatError(path, "header", newer(version, VERSION))
    right = checksum == xxhash.xxh3_64_intdigest(bits, documents)
    if not right or (magic, version, count) != (_DEAD_MAGIC, VERSION, documents):
        raise FormatError(path, None, "its checksum is wrong")
    dead = np.frombuffer(bits, np.uint8)
    rest = documents % 8
    if len(dead) != -(-documents // 8) or (rest and dead[-1] >> rest):
        raise FormatError(path, None, f"is not of {documents} documents")
    return dead
