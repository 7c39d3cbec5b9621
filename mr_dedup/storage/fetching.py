"""Read files of stores: in pieces, each repeated until it is whole, and checked."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import writing
from mr_dedup.interrupts import removed_at_forced_end
from mr_dedup.storage.datanodes import fork_safe
from mr_dedup.storage.errors import ChangedError, ShortReadError, is_transient
from mr_dedup.storage.listing import RemoteFile, file_info
from mr_dedup.storage.retries import RETRIES, Retries, repeated
from mr_dedup.storage.stores import open_store, store_of
from mr_dedup.storage.transfers import TRANSFERS
from mr_dedup.storage.uris import without_secrets
from mr_dedup.storage.web import NoRangesError, read_range

PIECE_BYTES = 8 << 20
"""What one request reads."""

_CHECKED_BYTES = 1 << 20


class Piece(NamedTuple):
    """Bytes ``start`` to ``stop`` of a file."""

    start: int
    stop: int


def read_piece(file: RemoteFile, piece: Piece, retries: Retries = RETRIES) -> bytes:
    """Return a piece of a file.

    Raises MrDedupError, ChangedError if the store says that the file is another one now.
    """
    try:
        return _read_piece(file, piece, retries)
    except NoRangesError:
        return _read_piece(file, piece, retries, skips=True)


def _read_piece(file: RemoteFile, piece: Piece, retries: Retries, skips: bool = False) -> bytes:
    """Return a piece of a file; raise NoRangesError for a server that sends whole files only."""
    if piece.stop == piece.start:
        return b""
    system, path = open_store(file.uri)
    size = piece.stop - piece.start

    def request() -> bytes | NoRangesError:
        try:
            data = _requested(file, system, path, piece, skips)
        except NoRangesError as error:
            return error
        if len(data) != size:
            require_unchanged(file, retries)
        if len(data) < size:
            raise ShortReadError(f"got {len(data):,} bytes of {size:,}")
        if len(data) > size:
            raise FormatError(
                without_secrets(file.uri), None,
                f"the store sends {len(data):,} bytes where {size:,} are requested: "
                "does it decompress the file?",
            )  # fmt: skip
        return data

    try:
        data = repeated(file.uri, request, retries)
    except MrDedupError as error:
        if error.__cause__ is not None and not is_transient(error.__cause__):
            # a piece beyond the end of a shorter version, for example
            require_unchanged(file, retries)
        raise
    if isinstance(data, NoRangesError):
        raise data
    TRANSFERS.add_read(len(data))
    return data


def _requested(file: RemoteFile, system: Any, path: str, piece: Piece, skips: bool) -> bytes:
    """Return what a store sends of a piece; raise ChangedError if it is of another version."""
    protocol = store_of(file.uri).protocol
    data: bytes
    if protocol == "http":
        return read_range(system, path, file, piece.start, piece.stop, skips)
    if protocol == "s3" and file.version:
        return _requested_of_s3(file, system, path, piece)
    if protocol == "gs" and file.version:
        try:
            data = system.cat_file(path, piece.start, piece.stop, generation=file.version)
        except FileNotFoundError as error:
            raise ChangedError(file.uri) from error
    elif protocol == "hf":
        # with its size it is not looked up again
        with system.open(path, "rb", size=file.size_bytes, cache_type="none") as source:
            source.seek(piece.start)
            data = source.read(piece.stop - piece.start)
    elif protocol == "hdfs":
        with fork_safe():
            data = system.cat_file(path, start=piece.start, end=piece.stop)
    else:
        data = system.cat_file(path, start=piece.start, end=piece.stop)
    return data


def _requested_of_s3(file: RemoteFile, system: Any, path: str, piece: Piece) -> bytes:
    import fsspec.asyn

    bucket, key, _ = system.split_path(path)

    async def request() -> bytes:
        response = await system._call_s3(
            "get_object",
            Bucket=bucket,
            Key=key,
            Range=f"bytes={piece.start}-{piece.stop - 1}",
            IfMatch=file.version,
            **system.req_kw,
        )
        async with response["Body"] as body:
            content: bytes = await body.read()
            return content

    try:
        data: bytes = fsspec.asyn.sync(system.loop, request)
    except Exception as error:
        codes = (getattr(each, "response", None) for each in (error, error.__cause__))
        changed = ("PreconditionFailed", "InvalidRange", "412", "416")
        if any(name in str(code.get("Error")) for code in codes if code for name in changed):
            raise ChangedError(file.uri) from error
        raise
    return data


def fetch(
    file: RemoteFile,
    path: Path,
    pool: ThreadPoolExecutor | None = None,
    retries: Retries = RETRIES,
    max_bytes: int | None = None,
) -> None:
    """Copy a file to ``path``, which must not exist: whole and checked, or not at all.

    Pieces are read in parallel by ``pool``. The store's checksum is checked where it reports one.
    Raises MrDedupError, ChangedError if the file is not the one that was listed, and for a file of
    unknown size with more than ``max_bytes``.
    """
    with writing(path), removed_at_forced_end(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            if file.size_bytes is None:
                stream(file, handle, retries=retries, max_bytes=max_bytes)
            else:
                try:
                    copy_ranges(file, [Piece(0, file.size_bytes)], handle, pool, retries)
                except NoRangesError:
                    stream(file, handle, retries=retries)
            # of another version also the checksum is another one
            require_unchanged(file, retries)
            _check(file, handle)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)


def require_unchanged(file: RemoteFile, retries: Retries = RETRIES) -> None:
    """Raise ChangedError if a file is not the one that was listed, as far as the store says.

    S3 checks that with each request.
    """
    if store_of(file.uri).protocol == "s3" or not file.version:
        return
    if repeated(file.uri, lambda: file_info(file.uri), retries).identity != file.identity:
        raise ChangedError(file.uri)


def copy_ranges(
    file: RemoteFile,
    ranges: Sequence[Piece],
    handle: int,
    pool: ThreadPoolExecutor | None,
    retries: Retries = RETRIES,
) -> None:
    """Copy ranges of a file to the same offsets of an open local file, in parallel by ``pool``.

    Raises MrDedupError, OSError of the local file, and NoRangesError for a server that sends whole
    files only: ``stream`` copies from it.
    """
    pieces = [piece for wanted in ranges for piece in _pieces(wanted)]

    def copy(piece: Piece) -> None:
        _write(handle, _read_piece(file, piece, retries), piece.start)

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


def _write(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


def stream(
    file: RemoteFile,
    handle: int,
    wanted: Piece | None = None,
    retries: Retries = RETRIES,
    max_bytes: int | None = None,
) -> None:
    """Copy a file, or a range of it, by one request that reads it from its begin.

    For files of unknown size, and for servers that send whole files only. Raises MrDedupError, also
    for more than ``max_bytes``, and OSError of the local file.
    """
    system, path = open_store(file.uri)
    start, stop = wanted or Piece(0, file.size_bytes or sys.maxsize)

    def request() -> OSError | None:
        offset = 0
        with system.open(path, "rb", block_size=0) as source:
            while offset < stop and (data := source.read(min(_CHECKED_BYTES, stop - offset))):
                if max_bytes is not None and offset + len(data) > max_bytes:
                    raise MrDedupError(
                        f"{without_secrets(file.uri)}: has more than the {max_bytes:,} bytes that "
                        "--scratch allows; its server does not report its size"
                    )
                skipped = max(0, start - offset)
                try:
                    _write(handle, data[skipped:], offset + skipped)
                except OSError as error:
                    return error
                offset += len(data)
                TRANSFERS.add_read(len(data))
        if file.size_bytes is not None and offset < stop:
            raise ShortReadError(f"got {offset:,} bytes of {stop:,}")
        if file.size_bytes is None:
            # less than an attempt before
            os.ftruncate(handle, offset)
        return None

    error = repeated(file.uri, request, retries)
    if error is not None:
        raise error


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
