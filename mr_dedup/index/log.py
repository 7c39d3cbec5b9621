"""The write-ahead log: each change as a record, on the disk before it is acknowledged.

Records are appended, then committed: changes that wait share one force to the disk (group commit).

A log begins with a header of 64 bytes. It contains, under a checksum of their own, how far records
were written and how far they were forced to the disk. Up to the latter a wrong byte is damage.
Wrong bytes after it are of records that a loss of power interrupted and that were not acknowledged;
they are cut off.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError, newer
from mr_dedup.files.folders import FolderFile
from mr_dedup.files.io_errors import cannot_be_read, cannot_be_written
from mr_dedup.index.ids import Ids

MAGIC = b"\x89MRDLOG\n"
VERSION = 1

_HEAD = struct.Struct("<8sII")  # magic, version, zero; a checksum follows
_MARK = struct.Struct("<QQQ")  # written, forced, checksum of both
_CHECKSUM = struct.Struct("<Q")
_RECORD = struct.Struct("<QQ")  # length of what follows, checksum of it and of where it is
_CONTENT = struct.Struct("<BBHI")  # kind, whether there are ids, zero, count
_HEAD_BYTES = 64
_MAX_IDS_BYTES = (1 << 32) - 1
_MARK_BYTES = 32

RELAXED_SECONDS = 1.0
"""A relaxed log is synced by the first change at least this long after the last sync."""

Kind = Literal["add", "remove"]
_KINDS: tuple[Kind, ...] = ("add", "remove")


@dataclass(frozen=True)
class Record:
    """A change: documents that are added or removed.

    Args:
        kind: of the change.
        fingerprints: uint64[n]; none for removals in an index with ids.
        ids: n ids, None in an index without.
    """

    kind: Kind
    fingerprints: NDArray[np.uint64]
    ids: Ids | None

    def encode(self) -> bytes:
        """Return the bytes of a record; ValueError if its ids are 4 GiB or more."""
        if self.ids is not None and self.ids.offsets[-1] > _MAX_IDS_BYTES:
            raise ValueError(
                f"ids: {int(self.ids.offsets[-1]):,} bytes at once; up to {_MAX_IDS_BYTES:,} "
                "are taken"
            )
        count = len(self.fingerprints) if self.ids is None else len(self.ids)
        parts = [_CONTENT.pack(_KINDS.index(self.kind), self.ids is not None, 0, count)]
        parts.append(self.fingerprints.astype("<u8").tobytes())
        if self.ids is not None:
            parts += [self.ids.offsets.astype("<u4").tobytes(), self.ids.content.tobytes()]
        return b"".join(parts)

    @classmethod
    def decode(cls, raw: bytes) -> Record:
        """Return the record of bytes whose checksum is right; ValueError if they are none."""
        kind, has_ids, zero, count = _CONTENT.unpack_from(raw)
        if kind >= len(_KINDS) or has_ids > 1 or zero:
            raise ValueError(f"kind {kind}, {has_ids}, {zero} does not exist")
        fingerprints, at = np.empty(0, np.uint64), _CONTENT.size
        if _KINDS[kind] == "add" or not has_ids:
            fingerprints = np.frombuffer(raw, "<u8", count, at).astype(np.uint64)
            at += 8 * count
        if has_ids:
            offsets = np.frombuffer(raw, "<u4", count + 1, at).astype(np.int64)
            at += 4 * (count + 1)
            ids = Ids(np.frombuffer(raw, np.uint8, offset=at), offsets)
            ids.require_sound()
            return cls(_KINDS[kind], fingerprints, ids)
        if at != len(raw):
            raise ValueError(f"{len(raw) - at} bytes are left")
        return cls(_KINDS[kind], fingerprints, None)


class LogWriter:
    """Appends records to a log, and commits them, several with one force to the disk.

    One thread at a time may append, and one at a time commit what was appended before.
    """

    def __init__(self, file: FolderFile, handle: int, written: int, *, relaxed: bool) -> None:
        self.path = file.path
        self._handle = handle
        self.written = written
        """The length of the header and all complete records, committed or not."""
        self._forced = written
        self._relaxed = relaxed
        self._forced_at = time.monotonic()
        self._broken = ""

    @property
    def broken(self) -> bool:
        """Whether an error left it unknown what is on the disk, so that nothing more is written."""
        return bool(self._broken)

    @classmethod
    def create(cls, file: FolderFile, *, relaxed: bool) -> LogWriter:
        """Make an empty log, forced to the disk; MrDedupError if it cannot be written."""
        handle = file.create()
        try:
            head = _HEAD.pack(MAGIC, VERSION, 0)
            head += _CHECKSUM.pack(xxhash.xxh3_64_intdigest(head))
            head = head.ljust(_MARK_BYTES, b"\0") + _mark(_HEAD_BYTES, _HEAD_BYTES)
            _write_at(handle, head.ljust(_HEAD_BYTES, b"\0"), 0)
            os.fsync(handle)
        except OSError as error:
            os.close(handle)
            file.remove()
            raise cannot_be_written(file.path, error) from error
        return cls(file, handle, _HEAD_BYTES, relaxed=relaxed)

    @classmethod
    def resume(cls, file: FolderFile, written: int, *, relaxed: bool) -> LogWriter:
        """Open a log that was read up to byte ``written``, and cut off the rest."""
        try:
            handle = file.open(os.O_RDWR)
            try:
                os.ftruncate(handle, written)
                os.fsync(handle)
                _write_at(handle, _mark(written, written), _MARK_BYTES)
            except BaseException:
                os.close(handle)
                raise
        except OSError as error:
            raise cannot_be_written(file.path, error) from error
        return cls(file, handle, written, relaxed=relaxed)

    def append(self, record: Record) -> None:
        """Append a record, which ``commit`` forces to the disk.

        Raises MrDedupError if it cannot be written, as on a full disk: then it is not in the log.
        """
        self._refuse_broken()
        content = record.encode()
        head = _RECORD.pack(len(content), _checksum(content, self.written))
        try:
            _write_at(self._handle, head + content, self.written)
        except OSError as error:
            self._cut()
            raise cannot_be_written(self.path, error) from error
        self.written += len(head) + len(content)

    def commit(self, end: int) -> None:
        """Force records up to byte ``end`` to the disk, unless relaxed; readers see them then.

        For one thread at a time; another may append meanwhile. Raises MrDedupError if that fails:
        then nothing more is written, since it is not known what is on the disk.
        """
        self._refuse_broken()
        if not self._relaxed or time.monotonic() - self._forced_at >= RELAXED_SECONDS:
            self._force(end)
        self._mark(end)

    def force(self) -> None:
        """Force what was written to the disk, if it is not there."""
        if self._forced < self.written and not self._broken:
            self._force(self.written)
            self._mark(self.written)

    def close(self) -> None:
        """Force what was written to the disk, and close the file."""
        try:
            self.force()
        finally:
            os.close(self._handle)

    def _refuse_broken(self) -> None:
        if self._broken:
            raise MrDedupError(f"{self.path}: {self._broken}; open the index anew")

    def _force(self, end: int) -> None:
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            # it is not known what is on the disk, and another try would report success
            self._broken = "could not be forced to the disk"
            raise cannot_be_written(self.path, error) from error
        self._forced, self._forced_at = end, time.monotonic()

    def _mark(self, end: int) -> None:
        """Record how far the log is written, for readers and for the next process that opens it."""
        try:
            _write_at(self._handle, _mark(end, min(self._forced, end)), _MARK_BYTES)
        except OSError as error:
            self._broken = "its head could not be written"
            raise cannot_be_written(self.path, error) from error

    def _cut(self) -> None:
        """Remove what was written of a record."""
        try:
            os.ftruncate(self._handle, self.written)
        except OSError:
            self._broken = "ends in a part of a record that could not be removed"


class LogReader:
    """Reads the records of a log, also while another process appends to it."""

    def __init__(self, file: FolderFile) -> None:
        """Open a log; FormatError if its header is damaged, FileNotFoundError if it is missing."""
        self.path = file.path
        try:
            self._handle = file.open(os.O_RDONLY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_be_read(self.path, error) from error
        try:
            self.at = _HEAD_BYTES
            """Where the next record begins."""
            self._check_head()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _check_head(self) -> None:
        raw = os.pread(self._handle, _HEAD_BYTES, 0)
        if raw[: len(MAGIC)] != MAGIC[: len(raw)] or len(raw) < _HEAD_BYTES:
            raise FormatError(self.path, "header", f"is not a log, which begins with {MAGIC!r}")
        _, version, _ = _HEAD.unpack_from(raw)
        if version > VERSION:
            raise FormatError(self.path, "header", newer(version, VERSION))
        (checksum,) = _CHECKSUM.unpack_from(raw, _HEAD.size)
        if checksum != xxhash.xxh3_64_intdigest(raw[: _HEAD.size]):
            raise FormatError(self.path, "header", "its checksum is wrong")
        zeros = raw[_HEAD.size + _CHECKSUM.size : _MARK_BYTES] + raw[_MARK_BYTES + _MARK.size :]
        if any(zeros):
            raise FormatError(self.path, "header", "its reserved bytes are not zero")

    def marks(self) -> tuple[int, int]:
        """Return the bytes up to which records were written, and forced to the disk."""
        for _ in range(100):  # without a lock: a write may be seen by halves
            raw = os.pread(self._handle, _MARK.size, _MARK_BYTES)
            if len(raw) == _MARK.size:
                written, forced, _ = _MARK.unpack(raw)
                if raw == _mark(written, forced):
                    return written, forced
            time.sleep(0.0001)
        raise FormatError(self.path, "header", "the checksum of its length is wrong")

    def records(self, named: bool, stop: int | None = None) -> Iterator[Record]:
        """Yield the records from ``at`` on; all bytes are in memory meanwhile, mostly up to 64 MB.

        Args:
            named: whether the documents of the index have ids.
            stop: the byte up to which to read; by default the first that is not of a whole record.

        Raises:
            FormatError: a record is damaged that begins before ``stop``, or before the byte up to
                which the log was forced.
        """
        forced = self.marks()[1] if stop is None else stop
        first = self.at
        raw = _read_from(self._handle, first, (self.length if stop is None else stop) - first)
        while self.at < first + len(raw) or self.at < forced:
            content = _record_in(raw, self.at - first, self.at)
            if content is None:
                if self.at < forced:
                    raise FormatError(self.path, f"byte {self.at}", "the record there is damaged")
                return
            try:
                record = Record.decode(content)
            except ValueError as error:
                reason = f"the record's checksum is right, and its content wrong: {error}"
                raise FormatError(self.path, f"byte {self.at}", reason) from error
            if (record.ids is not None) != named:
                reason = "the record is of an index " + ("without" if named else "with") + " ids"
                raise FormatError(self.path, f"byte {self.at}", reason)
            self.at += _RECORD.size + len(content)
            yield record

    @property
    def length(self) -> int:
        """The bytes of the file."""
        return os.fstat(self._handle).st_size


@contextlib.contextmanager
def open_log(file: FolderFile) -> Iterator[LogReader]:
    """Yield a reader of a log, which is closed when the block ends."""
    reader = LogReader(file)
    try:
        yield reader
    finally:
        reader.close()


def _read_from(handle: int, at: int, length: int) -> bytes:
    """Return ``length`` bytes of a file from byte ``at`` on, fewer if it ends before."""
    pieces = []
    while length > 0 and (piece := os.pread(handle, length, at)):
        pieces.append(piece)
        at, length = at + len(piece), length - len(piece)
    return b"".join(pieces)


def _record_in(raw: bytes, start: int, at: int) -> bytes | None:
    """Return the content of the record at ``raw[start]``, byte ``at`` of its file, or None."""
    begin = start + _RECORD.size
    if begin > len(raw):
        return None
    length, checksum = _RECORD.unpack_from(raw, start)
    if length < _CONTENT.size or length > len(raw) - begin:
        return None
    content = raw[begin : begin + length]
    return content if _checksum(content, at) == checksum else None


def _mark(written: int, forced: int) -> bytes:
    pair = struct.pack("<QQ", written, forced)
    return pair + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(pair))


def _checksum(content: bytes | bytearray, at: int) -> int:
    """Return the checksum of a record; other at any other byte, and not zero for zeros."""
    return int(xxhash.xxh3_64_intdigest(content, at ^ len(content) << 32))


def _write_at(handle: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while len(rest):
        count = os.pwrite(handle, rest, at)
        rest, at = rest[count:], at + count
