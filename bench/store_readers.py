"""``python -m bench.store_readers READER ARGUMENT…``: read or list objects, as a process to time.

- ``get SIZE URL…``: GET each URL with http.client in ranges of SIZE bytes, 0 for whole objects,
  one after another, and discard what arrives.
- ``copies URI [OUT]``: copy all files below URI at once, as commands do; if OUT is given, write to
  it, as JSON, the paths below URI and the SHA-256 of the copies.
- ``list_files URI OUT``, ``paginator URI OUT``: list the files below URI by mr_dedup or by boto3;
  write to OUT, as JSON, their paths below URI and their sizes, and the seconds of the call with the
  client that it makes, without imports.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

_BUFFER_BYTES = 1 << 20


def get(size: str, *urls: str) -> None:
    """GET each URL in ranges of ``size`` bytes, or whole; discard what arrives."""
    for url in urls:
        start, total = 0, 1
        while start < total:
            stop = start + int(size)
            headers = {"Range": f"bytes={start}-{stop - 1}"} if int(size) else {}
            received, total = _get(url, headers)
            start += received


def _get(url: str, headers: dict[str, str]) -> tuple[int, int]:
    """GET a URL; return how many bytes arrived, and how many the whole object has."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        response = connection.getresponse()
        expected, received = int(response.headers["Content-Length"]), 0
        buffer = bytearray(_BUFFER_BYTES)
        while count := response.readinto(buffer):
            received += count
    finally:
        connection.close()
    if response.status != (206 if headers else 200) or received != expected:
        raise RuntimeError(f"{parts.path}: status {response.status}, {received:,} bytes")
    content_range = response.headers.get("Content-Range", f"/{expected}")
    return received, int(content_range.rpartition("/")[2])


def copies(uri: str, out: str = "") -> None:
    """Copy all files below a URI; write the checksums of the copies to ``out``, if it is given."""
    from mr_dedup.storage.listing import list_files
    from mr_dedup.storage.scratch import ScratchSettings, Wanted

    files = list_files([uri])
    with (
        ScratchSettings().opened() as open_scratch,
        open_scratch().copies([Wanted(file) for file in files]) as paths,
    ):
        if out:
            found = zip(files, paths, strict=True)
            checksums = {_below(uri, file.uri): checksum(path) for file, path in found}
            Path(out).write_text(json.dumps(checksums))


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; the file is read to memory."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed(uri: str, out: str) -> None:
    """List the files below a URI by list_files; write them to ``out``."""
    import s3fs  # noqa: F401 (list_files imports it otherwise)

    from mr_dedup.storage.listing import list_files

    started = time.perf_counter()
    files = {_below(uri, file.uri): file.size_bytes for file in list_files([uri])}
    _write_list(out, time.perf_counter() - started, files)


def paginated(uri: str, out: str) -> None:
    """List the objects below a URI by boto3; write them to ``out``."""
    import boto3

    started = time.perf_counter()
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    pages = boto3.client("s3").get_paginator("list_objects_v2")
    files = {
        _below(uri, f"s3://{bucket}/{entry['Key']}"): entry["Size"]
        for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix}/")
        for entry in page["Contents"]
    }
    _write_list(out, time.perf_counter() - started, files)


def _below(uri: str, file: str) -> str:
    return file.removeprefix(f"{uri}/")


def _write_list(out: str, seconds: float, files: dict[str, int | None]) -> None:
    Path(out).write_text(json.dumps({"seconds": seconds, "files": files}))


READERS: dict[str, Callable[..., None]] = {
    "get": get,
    "copies": copies,
    "list_files": listed,
    "paginator": paginated,
}


def main(argv: Sequence[str]) -> None:
    """Run a reader."""
    READERS[argv[0]](*argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
