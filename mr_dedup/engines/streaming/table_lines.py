"""Tables as lines of text, which Hadoop streaming carries between tasks.

A line is ``key TAB base64(header + payload)``: the payload is an Arrow IPC stream compressed by
zstd, the header has a version, the number of rows and a checksum. Base64, because mrjob and
streaming strip and split raw bytes at tabs and line ends.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import struct
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import xxhash
import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.jobs.contract import Keyed

_HEADER = struct.Struct("<BIQ")  # version, rows, checksum of rows and payload
_VERSION = 4

LINE_BYTES = 4 << 20
"""Bytes of a table that one line has at most, about; larger tables take several lines."""


def sliced(table: pa.Table, line_bytes: int = LINE_BYTES) -> Iterator[pa.Table]:
    """Yield a table in slices of about ``line_bytes`` at most, at least one."""
    count = max(1, min(len(table), -(-table.nbytes // line_bytes)))
    rows = -(-len(table) // count) or 1
    for start in range(0, max(1, len(table)), rows):
        yield table.slice(start, rows)


def encode(key: int, table: pa.Table) -> bytes:
    """Return a table as a line without its end; keys are padded, so that they sort as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    # as one piece: Arrow compresses each buffer by itself, in 1.2 times the time of a whole job
    payload = zstandard.ZstdCompressor(level=1).compress(sink.getvalue())
    header = _HEADER.pack(_VERSION, len(table), _checksum(len(table), payload))
    return b"%024d\t%s" % (key, base64.b64encode(header + payload))


def decode(line: bytes) -> Keyed:
    """Return key and table of a line; a trailing tab, which Hadoop may add, is dropped.

    Raises MrDedupError if the line is damaged, or of another version.
    """
    key, _, text = line.partition(b"\t")
    text = text.rstrip(b"\t\r\n")
    try:
        number = int(key)
        raw = base64.b64decode(text, validate=True)
        version, rows, checksum = _HEADER.unpack_from(raw)
    except (ValueError, binascii.Error, struct.error) as error:
        raise _damaged(str(error)) from error
    if version != _VERSION:
        raise MrDedupError(
            f"a table between tasks has version {version}, this mr_dedup reads {_VERSION}: do all "
            "nodes run the same version?"
        )
    payload = raw[_HEADER.size :]
    # some bits of the last characters stand for nothing
    rest = len(raw) % 3
    if rest and base64.b64encode(raw[-rest:]) != text[-4:]:
        raise _damaged("its end differs")
    if _checksum(rows, payload) != checksum:
        raise _damaged("its checksum differs")
    try:
        content = zstandard.ZstdDecompressor().decompress(payload)
        return number, pa.ipc.open_stream(content).read_all()
    except (pa.ArrowException, zstandard.ZstdError) as error:
        raise _damaged(str(error)) from error


def read_tables(paths: Iterable[Path]) -> Iterator[Keyed]:
    """Yield the tables in files of lines, merged by key; in each file keys ascend.

    In memory: a line of each file; one file is open at a time. Raises FormatError, naming file
    and line.
    """
    yield from heapq.merge(*map(_tables_in, paths), key=itemgetter(0))


def _tables_in(path: Path) -> Iterator[Keyed]:
    for number, line in enumerate(_lines_in(path), 1):
        try:
            yield decode(line)
        except MrDedupError as error:
            raise FormatError(path, f"line {number}", str(error)) from error


def _lines_in(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that is open only while one is read: thousands may be merged."""
    offset = 0
    while True:
        with path.open("rb") as file:
            file.seek(offset)
            line = file.readline()
        if not line:
            return
        offset += len(line)
        yield line


class TableProtocol:
    """The mrjob protocol of tables between tasks."""

    def write(self, key: int, table: pa.Table) -> bytes:
        """Return a line without its end."""
        return encode(key, table)

    def read(self, line: bytes) -> Keyed:
        """Return key and table; raises as ``decode``."""
        return decode(line)


class LinesProtocol:
    """The mrjob protocol of results as text: whole lines, without a key."""

    def write(self, key: None, lines: bytes) -> bytes:
        """Return the text without its last line end, which mrjob adds."""
        return lines.removesuffix(b"\n")

    def read(self, line: bytes) -> tuple[None, bytes]:
        """Return the line as it is."""
        return None, line


def _checksum(rows: int, payload: bytes) -> int:
    return xxhash.xxh3_64_intdigest(payload, seed=rows)


def _damaged(reason: str) -> MrDedupError:
    return MrDedupError(f"a table between tasks is damaged: {reason}")
