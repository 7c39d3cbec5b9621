"""Tables as bytes, for engines whose tasks are in processes of their own.

A header with a version, the number of rows and a checksum, and an Arrow IPC stream, compressed by
zstd or plain. Of a plain one the tables refer to the bytes that they are read from.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import xxhash
import zstandard

from mr_dedup.errors import MrDedupError

_HEADER = struct.Struct("<IIQ")  # version, rows, checksum of rows and payload
ALIGNMENT = 8
"""A plain table is read in place where its bytes begin at a multiple of this, as Arrow asks."""
_COMPRESSED, _PLAIN = 6, 7

SLICE_BYTES = 4 << 20
"""Bytes of a table that are encoded together at most, about; larger tables are sliced."""


def sliced(table: pa.Table, slice_bytes: int = SLICE_BYTES) -> Iterator[pa.Table]:
    """Yield a table in slices of about ``slice_bytes`` at most, at least one."""
    count = max(1, min(len(table), -(-table.nbytes // slice_bytes)))
    rows = -(-len(table) // count) or 1
    for start in range(0, max(1, len(table)), rows):
        yield table.slice(start, rows)


def to_bytes(table: pa.Table, *, compress: bool = True) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    payload, version = sink.getvalue(), _PLAIN
    if compress:
        # as one piece: Arrow compresses each buffer by itself, in 1.2 times the time of a whole job
        payload, version = zstandard.ZstdCompressor(level=1).compress(payload), _COMPRESSED
    header = _HEADER.pack(version, len(table), _checksum(len(table), payload))
    return b"".join((header, payload))


def from_bytes(raw: bytes | pa.Buffer) -> pa.Table:
    """Return the table of ``to_bytes``; MrDedupError if it is damaged, or of another version."""
    try:
        version, rows, checksum = _HEADER.unpack_from(raw)
    except struct.error as error:
        raise damaged(str(error)) from error
    if version not in (_COMPRESSED, _PLAIN):
        raise MrDedupError(
            f"a table between tasks has version {version}, this mr_dedup reads {_COMPRESSED} and "
            f"{_PLAIN}: do all nodes run the same version?"
        )
    payload = pa.py_buffer(raw).slice(_HEADER.size)
    if _checksum(rows, payload) != checksum:
        raise damaged("its checksum differs")
    try:
        is_compressed = version == _COMPRESSED
        content = zstandard.ZstdDecompressor().decompress(payload) if is_compressed else payload
        return pa.ipc.open_stream(content).read_all()
    except (pa.ArrowException, zstandard.ZstdError) as error:
        raise damaged(str(error)) from error


def damaged(reason: str) -> MrDedupError:
    """Return the error of a table that is not as it was written."""
    return MrDedupError(f"a table between tasks is damaged: {reason}")


def _checksum(rows: int, payload: bytes | pa.Buffer) -> int:
    return xxhash.xxh3_64_intdigest(payload, seed=rows)
