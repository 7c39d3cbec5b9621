"""Read parts of files on web servers, which may send all of a file instead, or another one."""

from __future__ import annotations

from typing import Any

from mr_dedup.storage.errors import ChangedError, ShortReadError
from mr_dedup.storage.listing import RemoteFile

_CHUNK_BYTES = 1 << 20
_RANGE_NOT_SATISFIABLE = 416


class NoRangesError(OSError):
    """A server that sends whole files only."""


def read_range(
    system: Any, path: str, file: RemoteFile, start: int, stop: int, skips: bool = False
) -> bytes:
    """Return bytes ``start`` to ``stop`` of a file.

    Args:
        system: The file system of fsspec.
        path: The web address.
        file: The file.
        start: The first byte.
        stop: The byte after the last.
        skips: Whether to read all before ``start`` from a server that sends whole files only.

    Raises:
        NoRangesError: For such a server, if not ``skips``.
        ChangedError: If the server sends another version or size than the one of ``file``.
        Exception: Those of aiohttp.
    """
    import fsspec.asyn

    async def request() -> bytes:
        session = await system.set_session()
        options = {**system.kwargs, "allow_redirects": True}
        headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}"}
        async with session.get(system.encode_url(path), headers=headers, **options) as response:
            if response.status == _RANGE_NOT_SATISFIABLE:
                raise ChangedError(file.uri)
            response.raise_for_status()
            _require_version(file, response.headers)
            if response.status == 206:
                content: bytes = await response.read()
                return content
            if start and not skips:
                raise NoRangesError("the server sends whole files only")
            await _skip(response.content, start)
            return await _read(response.content, stop - start)

    data: bytes = fsspec.asyn.sync(system.loop, request)
    return data


def _require_version(file: RemoteFile, headers: Any) -> None:
    """Raise ChangedError if the headers of a response are of another version of a file."""
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    size = headers.get("Content-Range", "").rpartition("/")[2]
    other_version = version and file.version and version != file.version
    if other_version or (size.isdecimal() and int(size) != file.size_bytes):
        raise ChangedError(file.uri)


async def _skip(stream: Any, size: int) -> None:
    while size:
        data = await stream.read(min(size, _CHUNK_BYTES))
        if not data:
            raise ShortReadError("a response that ends too early")
        size -= len(data)


async def _read(stream: Any, size: int) -> bytes:
    parts = []
    while size and (data := await stream.read(min(size, _CHUNK_BYTES))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
