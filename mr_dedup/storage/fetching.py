"""Read files of stores: in pieces, each repeated until it is whole, and checked."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import writing
from mr_dedup.interrupts import removed_at_forced_end
from mr_dedup.storage.checksums import checksum_of_head, is_other, new_digest
from mr_dedup.storage.errors import ChangedError, ShortReadError, is_damage, is_transient
from mr_dedup.storage.listing import RemoteFile, file_info
from mr_dedup.storage.retries import RETRIES, Retries, repeated
from mr_dedup.storage.stores import open_store, store_of
from mr_dedup.storage.transfers import TRANSFERS
from mr_dedup.storage.uris import without_secrets
from mr_dedup.storage.web import NoRangesError, Take, read_range

_CHUNK_BYTES = 1 << 20
"""What is taken at a time from a response or a file."""

Write = Callable[[bytes, int], None]
"""Takes bytes of a file and their offset in it."""


class Piece(NamedTuple):
    """Bytes ``start`` to ``stop`` of a file."""

    start: int
    stop: int


class _LocalError(Exception):
    """What was read could not be written: an error that is not the store's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _copy_piece(file: RemoteFile, piece: Piece, write: Write, retries: Retries) -> None:
    """Pass a piece of a file to ``write``, in order; a repeated request reads what is missing.

    Raises NoRangesError for a server that sends whole files only, and what ``write`` raises.
    """
    system, path = open_store(file.uri)
    arrived = piece.start

    def take(data: bytes) -> None:
        nonlocal arrived
        if arrived + len(data) > piece.stop:
            require_unchanged(file, retries)
            raise FormatError(
                without_secrets(file.uri), None,
                f"the store sends {arrived + len(data) - piece.start:,} bytes or more where "
                f"{piece.stop - piece.start:,} are requested: does it decompress the file?",
            )  # fmt: skip
        try:
            write(data, arrived)
        except OSError as error:
            raise _LocalError(error) from error
        arrived += len(data)
        TRANSFERS.add_read(len(data))

    def request() -> OSError | None:
        nonlocal arrived
        if arrived == piece.stop:
            return None
        begin = arrived
        try:
            _request(file, system, path, Piece(arrived, piece.stop), take)
        except NoRangesError as error:
            return error
        except _LocalError as error:
            return error.error
        except Exception as error:
            if is_damage(error):
                arrived = begin
            raise
        if arrived < piece.stop:
            require_unchanged(file, retries)
            size = piece.stop - piece.start
            raise ShortReadError(f"got {arrived - piece.start:,} bytes of {size:,}")
        return None

    while True:
        before = arrived
        try:
            refused = repeated(file.uri, request, retries)
            break
        except MrDedupError as error:
            cause = error.__cause__
            if cause is not None and is_transient(cause):
                # of a request that reads much a part is progress
                if arrived - before >= _CHUNK_BYTES:
                    continue
            elif cause is not None:
                # a piece beyond the end of a shorter version, for example
                require_unchanged(file, retries)
            raise
    if refused is not None:
        raise refused


def _request(file: RemoteFile, system: Any, path: str, piece: Piece, take: Take) -> None:
    """Pass what a store sends of a piece to ``take``; ChangedError if it is of another version."""
    protocol = store_of(file.uri).protocol
    if protocol == "http":
        read_range(system, path, file, piece.start, piece.stop, take)
    elif protocol == "s3":
        _request_of_s3(file, system, path, piece, take)
    elif protocol == "gs" and file.version:
        try:
            take(system.cat_file(path, piece.start, piece.stop, generation=file.version))
        except FileNotFoundError as error:
            raise ChangedError(file.uri) from error
    elif protocol == "hdfs":
        with system.client.read(path) as source:
            # a range beyond the end, of a version that is shorter by now, is a panic of Rust
            size_bytes = max(0, min(piece.stop, len(source)) - piece.start)
            for data in source.read_range_stream(piece.start, size_bytes) if size_bytes else ():
                take(data)
    elif protocol == "hf":
        # with its size it is not looked up again
        with system.open(path, "rb", size=file.size_bytes, cache_type="none") as source:
            source.seek(piece.start)
            take(source.read(piece.stop - piece.start))
    else:
        take(system.cat_file(path, start=piece.start, end=piece.stop))


def _request_of_s3(file: RemoteFile, system: Any, path: str, piece: Piece, take: Take) -> None:
    import fsspec.asyn

    bucket, key, _ = system.split_path(path)
    condition = {"IfMatch": file.version} if file.version else {}

    async def request() -> None:
        response = await system._call_s3(
            "get_object",
            Bucket=bucket,
            Key=key,
            Range=f"bytes={piece.start}-{piece.stop - 1}",
            **condition,
            **system.req_kw,
        )
        async with response["Body"] as body:
            while data := await body.read(_CHUNK_BYTES):
                take(data)

    try:
        fsspec.asyn.sync(system.loop, request)
    except Exception as error:
        codes = (getattr(each, "response", None) for each in (error, error.__cause__))
        changed = ("PreconditionFailed", "InvalidRange", "412", "416")
        if any(name in str(code.get("Error")) for code in codes if code for name in changed):
            raise ChangedError(file.uri) from error
        raise


def fetch(
    file: RemoteFile,
    path: Path,
    pool: ThreadPoolExecutor | None = None,
    retries: Retries = RETRIES,
    max_bytes: int | None = None,
    stopped: threading.Event | None = None,
) -> None:
    """Copy a file to ``path``, which must not exist: whole and checked, or not at all.

    Pieces are read in parallel by ``pool``. The store's checksum is checked where it reports one.
    Raises MrDedupError, ChangedError if the file is not the one that was listed, for a file of
    unknown size with more than ``max_bytes``, and once ``stopped`` is set.
    """
    with writing(path), removed_at_forced_end(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            if file.size_bytes is None:
                stream(file, handle, retries=retries, max_bytes=max_bytes)
            else:
                try:
                    copy_ranges(file, [Piece(0, file.size_bytes)], handle, pool, retries, stopped)
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
    stopped: threading.Event | None = None,
) -> None:
    """Copy ranges of a file to the same offsets of an open local file, in parallel by ``pool``.

    Raises MrDedupError, also once ``stopped`` is set, OSError of the local file, and NoRangesError
    for a server that sends whole files only: ``stream`` copies from it.
    """
    has_failed = threading.Event()

    def write(data: bytes, offset: int) -> None:
        if has_failed.is_set() or (stopped is not None and stopped.is_set()):
            raise MrDedupError(f"{without_secrets(file.uri)}: interrupted")
        _write(handle, data, offset)

    pieces = [piece for wanted in ranges for piece in _pieces(wanted, piece_bytes(file.uri))]

    def copy(piece: Piece) -> None:
        _copy_piece(file, piece, write, retries)

    if pool is None or len(pieces) == 1:
        for piece in pieces:
            copy(piece)
        return
    futures: list[Future[None]] = [pool.submit(copy, piece) for piece in pieces]
    try:
        for future in futures:
            future.result()
    finally:
        has_failed.set()
        for future in futures:
            future.cancel()
        # those that run write to the file: it may not be closed under them
        for future in futures:
            if not future.cancelled():
                future.exception()


def piece_bytes(uri: str) -> int:
    """Return how much one request reads of a file."""
    return store_of(uri).piece_bytes


def _pieces(wanted: Piece, size_bytes: int) -> Iterator[Piece]:
    for start in range(wanted.start, wanted.stop, size_bytes):
        yield Piece(start, min(start + size_bytes, wanted.stop))


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
            while offset < stop and (data := source.read(min(_CHUNK_BYTES, stop - offset))):
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
    checksum, is_of_s3 = file.checksum, store_of(file.uri).protocol == "s3"
    if checksum is None and is_of_s3 and file.size_bytes:
        # of an object that was uploaded in parts the ETag is none
        checksum = checksum_of_head(_head(file))
    if checksum is None or _has(checksum, handle):
        return
    if is_of_s3 and checksum.startswith("md5:"):
        head = _head(file)
        is_plain = head.get("ServerSideEncryption", "AES256") == "AES256"
        if not is_plain or head.get("SSECustomerAlgorithm"):
            # of an object that a key of KMS encrypts the ETag is none
            checksum = checksum_of_head(head)
            if checksum is None or _has(checksum, handle):
                return
    kind = checksum.partition(":")[0].upper()
    raise FormatError(
        without_secrets(file.uri), None, f"arrived with another {kind} than the store's"
    )


def _has(checksum: str, handle: int) -> bool:
    """Return whether a local file has a checksum, or one that cannot be computed here."""
    digest = new_digest(checksum.partition(":")[0])
    if digest is None:
        return True
    offset = 0
    while data := os.pread(handle, _CHUNK_BYTES, offset):
        digest.update(data)
        offset += len(data)
    return not is_other(digest, checksum)


def _head(file: RemoteFile) -> dict[str, Any]:
    """Return what S3 reports of an object, with its checksum."""
    system, path = open_store(file.uri)
    bucket, key, _ = system.split_path(path)

    def request() -> dict[str, Any]:
        found: dict[str, Any] = system.call_s3(
            "head_object", Bucket=bucket, Key=key, ChecksumMode="ENABLED", **system.req_kw
        )
        return found

    return repeated(file.uri, request)
