"""Read parts of files on web servers, which may send all of a file instead, or another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mr_dedup.errors import FormatError, shortened
from mr_dedup.storage.checksums import checksum_of_response, is_other, new_digest
from mr_dedup.storage.errors import ChangedError, ChecksumError
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.uris import without_secrets

_CHUNK_BYTES = 1 << 20
_RANGE_NOT_SATISFIABLE = 416


class NoRangesError(OSError):
    """A server that sends whole files only."""


Take = Callable[[bytes], None]
"""Takes the bytes of a response, a part after the other."""


def read_range(
    system: Any,
    path: str,
    file: RemoteFile,
    start: int,
    stop: int,
    take: Take,
) -> None:
    """Pass bytes ``start`` to ``stop`` of a file to ``take``, as they arrive.

    Args:
        system: The file system of fsspec.
        path: The web address.
        file: The file.
        start: The first byte.
        stop: The byte after the last.
        take: Called from another thread.

    Raises:
        NoRangesError: For a server that sends whole files only, if the file is not read from its
            begin.
        ChangedError: If the server sends another version or size than the one of ``file``.
        ChecksumError: If bytes were changed on the way, by a checksum that the server sends.
        FormatError: If the server sends another range.
        Exception: Those of aiohttp and of ``take``.
    """
    import fsspec.asyn

    async def request() -> None:
        session = await system.set_session()
        options = {**system.kwargs, "allow_redirects": True}
        headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}"}
        async with session.get(system.encode_url(path), headers=headers, **options) as response:
            if response.status == _RANGE_NOT_SATISFIABLE:
                raise ChangedError(file.uri)
            response.raise_for_status()
            _require_version(file, response.headers)
            size = stop - start
            if response.status != 206:
                if start:
                    raise NoRangesError("the server sends whole files only")
                if response.content_length not in (None, file.size_bytes):
                    raise ChangedError(file.uri)
            elif (first := _first_byte(response.headers)) != start:
                raise FormatError(
                    without_secrets(file.uri), None,
                    f"the server sends bytes from {first} on where those from {start} on are "
                    "requested",
                )  # fmt: skip
            is_whole = size == file.size_bytes
            checksum = checksum_of_response(response.headers, is_whole=is_whole)
            digest = checksum and new_digest(checksum.partition(":")[0])
            while size and (data := await response.content.read(min(size, _CHUNK_BYTES))):
                take(data)
                size -= len(data)
                if digest:
                    digest.update(data)
            # of a whole file that is sent in place of a range the rest is not read
            is_read = response.status == 206 or is_whole
            if checksum and digest and not size and is_read and is_other(digest, checksum):
                raise ChecksumError("arrived with another checksum than the server's")

    fsspec.asyn.sync(system.loop, request)


def _first_byte(headers: Any) -> str | int:
    """Return the first byte of the range that a response is of, by its headers."""
    said = headers.get("Content-Range", "")
    found = re.fullmatch(r"\s*bytes\s+(\d{1,20})-\d+/(\d+|\*)\s*", said, re.ASCII | re.I)
    return int(found[1]) if found else shortened(repr(said), 80)


def _require_version(file: RemoteFile, headers: Any) -> None:
    """Raise ChangedError if the headers of a response are of another version of a file."""
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    size = headers.get("Content-Range", "").rpartition("/")[2]
    other_version = version and file.version and version != file.version
    # as text: Python makes no number of over 4,300 digits
    if other_version or (size.isdecimal() and size.lstrip("0") != str(file.size_bytes or "")):
        raise ChangedError(file.uri)
