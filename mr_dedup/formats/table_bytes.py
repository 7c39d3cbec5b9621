"""Tables as bytes, for engines whose tasks are in processes of their own.

A header with a version, the number of rows and a checksum, and an Arrow IPC stream compressed by
zstd.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import xxhash
import zstandard

from mr_dedup.errors import MrDedupError

_HEADER = struct.Struct("<BIQ")  # version, rows, checksum of rows and payload
_VERSION = 4

SLICE_BYTES = 4 << 20
"""Bytes of a table that are encoded together at most, about; larger tables are sliced."""


def sliced(table: pa.Table, slice_bytes: int = SLICE_BYTES) -> Iterator[pa.Table]:
    """Yield a table in slices of about ``slice_bytes`` at most, at least one."""
    count = max(1, min(len(table), -(-table.nbytes // slice_bytes)))
    rows = -(-len(table) // count) or 1
    for start in range(0, max(1, len(table)), rows):
        yield table.slice(start, rows)


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    # as one piece: Arrow compresses each buffer by itself, in 1.2 times the time of a whole job
    payload = zstandard.ZstdCompressor(level=1).compress(sink.getvalue())
    return _HEADER.pack(_VERSION, len(table), _checksum(len(table), payload)) + payload


def from_bytes(raw: bytes) -> pa.Table:
    """Return the table of ``to_bytes``; MrDedupError if it is damaged, or of another version."""
    try:
        version, rows, checksum = _HEADER.unpack_from(raw)
    except struct.error as error:
        raise damaged(str(error)) from error
    if version != _VERSION:
        raise MrDedupError(
            f"a table between tasks has version {version}, this mr_dedup reads {_VERSION}: do all "
            "nodes run the same version?"
        )
    payload = raw[_HEADER.size :]
    if _checksum(rows, payload) != checksum:
        raise damaged("its checksum differs")
    try:
        content = zstandard.ZstdDecompressor().decompress(payload)
        return pa.ipc.open_stream(content).read_all()
    except (pa.ArrowException, zstandard.ZstdError) as error:
        raise damaged(str(error)) from error


def damaged(reason: str) -> MrDedupError:
    """Return the error of a table that is not as it was written."""
    return MrDedupError(f"a table between tasks is damaged: {reason}")


def _checksum(rows: int, payload: bytes) -> int:
    return xxhash.xxh3_64_intdigest(payload, seed=rows)
