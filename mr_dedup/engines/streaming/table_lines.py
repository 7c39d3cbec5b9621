"""Tables as lines of text, which Hadoop streaming carries between tasks.

A line is ``key TAB base64(bytes)``, with the bytes of ``engines.table_bytes``. Base64, because
mrjob and streaming strip and split raw bytes at tabs and line ends.
"""

from __future__ import annotations

import base64
import binascii
import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.table_bytes import damaged, from_bytes, to_bytes
from mr_dedup.jobs.contract import Keyed


def encode(key: int, table: pa.Table) -> bytes:
    """Return a table as a line without its end; keys are padded, so that they sort as bytes."""
    return b"%024d\t%s" % (key, base64.b64encode(to_bytes(table)))


def decode(line: bytes) -> Keyed:
    """Return key and table of a line; a trailing tab, which Hadoop may add, is dropped.

    Raises MrDedupError if the line is damaged, or of another version.
    """
    key, _, text = line.partition(b"\t")
    text = text.rstrip(b"\t\r\n")
    try:
        number = int(key)
        raw = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise damaged(str(error)) from error
    # some bits of the last characters stand for nothing
    rest = len(raw) % 3
    if rest and base64.b64encode(raw[-rest:]) != text[-4:]:
        raise damaged("its end differs")
    return number, from_bytes(raw)


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
