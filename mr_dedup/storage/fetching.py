"""Read files of stores: in pieces, each repeated until it is whole, and checked."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import writing
from mr_dedup.interrupts import removed_at_forced_end
from mr_dedup.storage.errors import (
    ChangedError,
    ShortReadError,
    is_transient,
    storage_errors,
)
from mr_dedup.storage.listing import RemoteFile, file_info
from mr_dedup.storage.stores import open_store, store_of
from mr_dedup.storage.uris import without_secrets

PIECE_BYTES = 8 << 20
"""What one request reads."""

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.2
_MAX_WAIT_SECONDS = 10.0
_CHECKED_BYTES = 1 << 20

T = TypeVar("T")


class Piece(NamedTuple):
    """Bytes ``start`` to ``stop`` of a file."""

    start: int
    stop: int


def repeated(uri: str, request: Callable[[], T], tries: int = _TRIES) -> T:
    """Return what ``request`` returns, repeated with growing waits while its errors may pass.

    Raises MrDedupError, with the last error; waits at most some 20 seconds in all.
    """
    for number in range(tries):
        try:
            return request()
        except MrDedupError:
            raise
        except Exception as error:
            if number + 1 == tries or not is_transient(error):
                with storage_errors(uri):
                    raise
            longest = min(_MAX_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 4**number)
            time.sleep(longest * random.uniform(0.5, 1.0))
    raise AssertionError("a loop of at least one try")


def read_piece(file: RemoteFile, piece: Piece) -> bytes:
    """Return a piece of a file.

    Raises MrDedupError, ChangedError if the store says that the file is another one now.
    """
    if piece.stop == piece.start:
        return b""
    system, path = open_store(file.uri)
    size = piece.stop - piece.start

    def request() -> bytes:
        data = _requested(file, system, path, piece)
        if len(data) < size:
            raise ShortReadError(f"got {len(data):,} bytes of {size:,}")
        # a server without ranges sends the whole file
        return data if len(data) == size else data[piece.start : piece.stop]

    return repeated(file.uri, request)


def _requested(file: RemoteFile, system: Any, path: str, piece: Piece) -> bytes:
    if store_of(file.uri).protocol != "s3" or not file.version:
        data: bytes = system.cat_file(path, start=piece.start, end=piece.stop)
        return data
    import fsspec.asyn

    bucket, key, _ = system.split_path(path)
    try:
        response = system.call_s3(
            "get_object",
            Bucket=bucket,
            Key=key,
            Range=f"bytes={piece.start}-{piece.stop - 1}",
            IfMatch=file.version,
            **system.req_kw,
        )
        content: bytes = fsspec.asyn.sync(system.loop, response["Body"].read)
    except Exception as error:
        codes = (getattr(each, "response", None) for each in (error, error.__cause__))
        if any("PreconditionFailed" in str(code) or "412" in str(code) for code in codes if code):
            raise ChangedError(file.uri) from error
        raise
    return content


def fetch(file: RemoteFile, path: Path, pool: ThreadPoolExecutor | None = None) -> None:
    """Copy a file to ``path``, which must not exist: whole and checked, or not at all.

    Pieces are read in parallel by ``pool``. The store's checksum is checked where it reports one.
    Raises MrDedupError, ChangedError if the file is not the one that was listed.
    """
    with writing(path), removed_at_forced_end(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            if file.size_bytes is None:
                _stream(file, handle)
            else:
                _copy(file, [Piece(0, file.size_bytes)], handle, pool)
                _check(file, handle)
            require_unchanged(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)


def copy_ranges(
    file: RemoteFile, ranges: Sequence[Piece], handle: int, pool: ThreadPoolExecutor | None
) -> None:
    """Copy ranges of a file to the same offsets of an open local file; raises MrDedupError."""
    _copy(file, ranges, handle, pool)


def require_unchanged(file: RemoteFile) -> None:
    """Raise ChangedError if a file is not the one that was listed, as far as the store says.

    S3 checks that with each request.
    """
    if store_of(file.uri).protocol == "s3" or not file.version:
        return
    if repeated(file.uri, lambda: file_info(file.uri)).identity != file.identity:
        raise ChangedError(file.uri)


def _copy(
    file: RemoteFile, ranges: Sequence[Piece], handle: int, pool: ThreadPoolExecutor | None
) -> None:
    def copy(piece: Piece) -> None:
        data = memoryview(read_piece(file, piece))
        offset = piece.start
        while data:
            written = os.pwrite(handle, data, offset)
            data, offset = data[written:], offset + written

    pieces = [piece for wanted in ranges for piece in _pieces(wanted)]
    if pool is None or len(pieces) == 1:
        for piece in pieces:
            copy(piece)
        return
    futures: list[Future[None]] = [pool.submit(copy, piece) for piece in pieces]
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
        # those that run write to the file: it may not be closed under them
        for future in futures:
            if not future.cancelled():
                future.exception()


def _pieces(wanted: Piece) -> Iterator[Piece]:
    for start in range(wanted.start, wanted.stop, PIECE_BYTES):
        yield Piece(start, min(start + PIECE_BYTES, wanted.stop))


def _stream(file: RemoteFile, handle: int) -> None:
    """Copy a file of unknown size."""
    system, path = open_store(file.uri)

    def request() -> None:
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        with system.open(path, "rb", block_size=0) as source:
            while data := source.read(_CHECKED_BYTES):
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]

    repeated(file.uri, request)


def _check(file: RemoteFile, handle: int) -> None:
    """Raise FormatError if a copy does not have the checksum that the store reports."""
    if file.checksum is None:
        return
    kind, _, expected = file.checksum.partition(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    offset = 0
    while data := os.pread(handle, _CHECKED_BYTES, offset):
        digest.update(data)
        offset += len(data)
    if digest.hexdigest() == expected or not _is_checksum(file):
        return
    raise FormatError(
        without_secrets(file.uri), None, f"arrived with another {kind.upper()} than the store's"
    )


def _is_checksum(file: RemoteFile) -> bool:
    """Return whether the version of a file of S3 is its MD5: not if a key of KMS encrypts it."""
    if store_of(file.uri).protocol != "s3":
        return True
    system, path = open_store(file.uri)
    bucket, key, _ = system.split_path(path)
    head = repeated(
        file.uri, lambda: system.call_s3("head_object", Bucket=bucket, Key=key, **system.req_kw)
    )
    return head.get("ServerSideEncryption", "AES256") == "AES256" and not head.get(
        "SSECustomerAlgorithm"
    )
