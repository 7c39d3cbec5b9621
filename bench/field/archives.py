"""The files in archives of packages: .deb, .tgz, .whl and Go's .zip, by their content.

Nothing is unpacked to the disk, so paths are names only. Memory is bounded by ``max_bytes``, twice
for compressed files; time by the files and bytes that an archive says it has.
"""

from __future__ import annotations

import enum
import lzma
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

MAX_BYTES = 1 << 20
"""Larger files are not read: they are data, generated code, or whole books."""

MAX_UNPACKED_BYTES = 8 << 30
MAX_FILES = 1 << 20

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    # a method of compression that is not known, an encrypted file, a name that cannot be decoded
    NotImplementedError,
    RuntimeError,
    ValueError,
)


class ArchiveError(Exception):
    """An archive that cannot be read to its end."""


class Unread(enum.Enum):
    """Why a file was not read."""

    UNWANTED = "not wanted"
    LARGE = "too large"
    DAMAGED = "damaged"


class ArchivedFile(NamedTuple):
    """A file of an archive.

    Attributes:
        path: its path in the archive, without ``.gz``.
        content: its bytes, decompressed, or why it was not read.
    """

    path: str
    content: bytes | Unread


class _Limits(NamedTuple):
    wanted: Callable[[str], bool]
    max_bytes: int


def files_of(
    archive: Path, wanted: Callable[[str], bool] = bool, *, max_bytes: int = MAX_BYTES
) -> Iterator[ArchivedFile]:
    """Yield the regular files of an archive, in its order.

    Args:
        archive: a .deb, a tar archive with any compression of the standard library, or a .zip.
        wanted: whether a file at a path, without ``.gz``, is to be read.
        max_bytes: larger files are not read.

    Raises:
        ArchiveError: the archive is damaged, of another format, or has more than MAX_FILES files
            or MAX_UNPACKED_BYTES bytes; after the files before the damage.
    """
    limits = _Limits(wanted, max_bytes)
    try:
        with archive.open("rb") as file:
            magic = file.read(8)
        if magic.startswith(b"!<arch>"):
            yield from _files_of_deb(archive, limits)
        elif magic.startswith(b"PK"):
            yield from _files_of_zip(archive, limits)
        else:
            with _opened_tar(archive) as tar:
                yield from _files_of_tar(tar, limits)
    except _DAMAGE as error:
        raise ArchiveError(f"{archive.name}: {error}") from error


def _files_of_deb(archive: Path, limits: _Limits) -> Iterator[ArchivedFile]:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL) as unpacked:
        assert unpacked.stdout is not None
        with tarfile.open(fileobj=unpacked.stdout, mode="r|", errors="backslashreplace") as tar:
            yield from _files_of_tar(tar, limits)
        while unpacked.stdout.read(1 << 16):
            pass
    if unpacked.returncode:
        raise tarfile.ReadError(f"dpkg-deb ended with {unpacked.returncode}")


def _opened_tar(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r|*", errors="backslashreplace")
    except AttributeError as error:
        # of Python 3.11.2, in a damaged header of gzip: tarfile._Stream has no "exception" yet
        raise tarfile.ReadError("a damaged header") from error


def _files_of_tar(tar: tarfile.TarFile, limits: _Limits) -> Iterator[ArchivedFile]:
    size = 0
    for number, member in enumerate(tar):
        size += member.size
        _check_size(number, size)
        tar.members = []  # type: ignore[attr-defined]  # else all are remembered
        if member.isreg():
            yield _archived(member.name, partial(_of_tar, tar, member), limits)


def _files_of_zip(archive: Path, limits: _Limits) -> Iterator[ArchivedFile]:
    with zipfile.ZipFile(archive) as files:
        members = files.infolist()
        _check_size(len(members), sum(member.file_size for member in members))
        for member in members:
            if not member.is_dir():
                yield _archived(member.filename, partial(files.open, member), limits)


def _of_tar(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    assert file is not None
    return file


def _check_size(files: int, unpacked_bytes: int) -> None:
    if files > MAX_FILES or unpacked_bytes > MAX_UNPACKED_BYTES:
        raise ArchiveError(f"more than {MAX_FILES} files or {MAX_UNPACKED_BYTES} bytes")


def _archived(name: str, opened: Callable[[], IO[bytes]], limits: _Limits) -> ArchivedFile:
    path = name.removeprefix("./").removesuffix(".gz")
    if not limits.wanted(path):
        return ArchivedFile(path, Unread.UNWANTED)
    with opened() as file:
        content = file.read(limits.max_bytes + 1)
    if name.endswith(".gz"):
        try:
            unpacking = zlib.decompressobj(wbits=31)
            content = unpacking.decompress(content, limits.max_bytes + 1)
        except zlib.error:
            return ArchivedFile(path, Unread.DAMAGED)
    return ArchivedFile(path, content if len(content) <= limits.max_bytes else Unread.LARGE)
