"""Batches: arrays on the lines that Hadoop streaming carries between tasks.

A line is ``key TAB base64(header + payload)``. The header, spelled here alone, has a version, the
kind of what follows, a count and a checksum of the payload. Base64, because mrjob and streaming
strip and split raw bytes at tabs and line ends.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import heapq
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.matches import Matches

_HEADER = struct.Struct("<BBIQ")  # version, kind, count, checksum of all but the version
_VERSION = 3

_KEY_BYTES = 32

ROWS_A_BATCH = 1 << 18
"""Rows a line carries at most: of two columns 5.6 MB of base64."""


class Kind(IntEnum):
    """What a batch holds."""

    MATCHES = 1
    """Columns queries and corpus."""
    FINGERPRINTS = 2
    """One column."""
    LABELS = 3
    """Columns fingerprint and label."""
    DOCUMENTS = 4
    """Rows of documents, as an Arrow IPC stream, compressed by zstd."""
    REJECTS = 5
    """Rejected records, a line of JSON each."""
    FREQUENCIES = 6
    """Columns feature and documents."""
    COUNT = 7
    """One number."""
    QUESTIONS = 8
    """Columns fingerprint and the partition that asks for its label."""
    OTHERS = 9
    """One column: fingerprints of the other of two corpora."""
    URLS = 10
    """Digests of URLs with what goes with them, as url_rows.py has it, compressed by zstd."""
    KEYS = 11
    """Columns key of a signature and node."""


class HeldBatch(Protocol):
    """A batch that is encoded only where it is written on a line: in one process it never is."""

    kind: Kind

    def __bytes__(self) -> bytes: ...


Batch = bytes | HeldBatch


@dataclass(frozen=True)
class HeldPart:
    """What a task left in the memory of its process, as a file would have it."""

    batches: Sequence[tuple[int, Batch]]


def encode_columns(kind: Kind, columns: Sequence[NDArray[np.uint64]]) -> Iterator[bytes]:
    """Yield columns of one length as base64 batches of at most ROWS_A_BATCH rows, in order."""
    for start in range(0, len(columns[0]), ROWS_A_BATCH):
        parts = [column[start : start + ROWS_A_BATCH].astype("<u8") for column in columns]
        yield encode_bytes(kind, len(parts[0]), b"".join(part.tobytes() for part in parts))


def decode_columns(kind: Kind, batch: Batch, width: int) -> list[NDArray[np.uint64]]:
    """Return the ``width`` columns of one batch, uint64[n] each; raises as ``decode_bytes``."""
    count, payload = decode_bytes(kind, batch)
    if len(payload) != 8 * width * count:
        raise _damaged("its length differs")
    return list(np.frombuffer(payload, dtype="<u8").astype(np.uint64).reshape(width, count))


def encode_bytes(kind: Kind, count: int, payload: bytes) -> bytes:
    """Return ``payload``, which holds ``count`` rows, as a base64 batch."""
    header = _HEADER.pack(_VERSION, kind, count, _checksum(kind, count, payload))
    return base64.b64encode(header + payload)


def decode_bytes(kind: Kind, batch: Batch) -> tuple[int, bytes]:
    """Return count and payload of one batch.

    Raises MrDedupError if it is damaged, or of another version or kind.
    """
    batch = bytes(batch)
    try:
        raw = base64.b64decode(batch, validate=True)
        version, found, count, checksum = _HEADER.unpack_from(raw)
    except (binascii.Error, struct.error) as error:
        raise _damaged(str(error)) from error
    if version != _VERSION:
        raise MrDedupError(
            f"a batch between tasks has version {version}, this mr_dedup reads {_VERSION}: do all "
            "nodes run the same version?"
        )
    payload = raw[_HEADER.size :]
    # some bits of the last characters stand for nothing
    rest = len(raw) % 3
    if rest and base64.b64encode(raw[-rest:]) != batch[-4:]:
        raise _damaged("its end differs")
    if _checksum(found, count, payload) != checksum:
        raise _damaged("its checksum differs")
    if found != kind:
        expected = kind.name.lower()
        raise MrDedupError(f"a batch between tasks is of kind {found}, expected {expected}")
    return count, payload


def kind_of(batch: Batch) -> int:
    """Return the kind of a batch by its first bytes; raises MrDedupError if it has none."""
    if not isinstance(batch, bytes):
        return batch.kind
    try:
        return base64.b64decode(batch[:4], validate=True)[1]
    except (binascii.Error, IndexError) as error:
        raise _damaged(str(error)) from error


def encode_matches(matches: Matches) -> Iterator[bytes]:
    """Yield the pairs as batches, in their order."""
    return encode_columns(Kind.MATCHES, [matches.queries, matches.corpus])


def decode_matches(batch: bytes) -> Matches:
    """Return the pairs of one batch; raises as ``decode_bytes``."""
    return Matches(*decode_columns(Kind.MATCHES, batch, 2))


def _checksum(kind: int, count: int, payload: bytes) -> int:
    return xxhash.xxh3_64_intdigest(payload, seed=kind << 32 | count)


def _damaged(reason: str) -> MrDedupError:
    return MrDedupError(f"a batch between tasks is damaged: {reason}")


class BatchProtocol:
    """The mrjob protocol of lines ``key TAB batch``: keys are numbers, padded so that they sort."""

    def write(self, key: int, batch: Batch) -> bytes:
        """Return the line without its end."""
        return b"%024d\t%s" % (key, bytes(batch))

    def read(self, line: bytes) -> tuple[int, bytes]:
        """Return key and batch; a trailing tab, which real Hadoop may add, is dropped."""
        key, _, batch = line.partition(b"\t")
        try:
            return int(key), batch.rstrip(b"\t\r\n")
        except ValueError as error:
            raise MrDedupError("a line between tasks has no number for a key") from error


def read_batches(parts: Iterable[Path | HeldPart]) -> Iterator[tuple[int, Batch]]:
    """Yield keys and batches of what tasks left, those with smaller keys first.

    Each file is to have one key; what is held has them in order. In memory: a line.
    """
    protocol = BatchProtocol()
    keys = {}
    for part in parts:
        if isinstance(part, HeldPart):
            yield from part.batches
            continue
        with part.open("rb") as file:
            first = file.readline(_KEY_BYTES)
        if first:
            keys[part], _ = protocol.read(first)
    for part in sorted(keys, key=keys.__getitem__):
        with part.open("rb") as file:
            for line in file:
                yield protocol.read(line)


def merged_batches(parts: Iterable[Path]) -> Iterator[tuple[int, bytes]]:
    """Yield keys and batches of the files that reducers left, ascending by key.

    In each file keys ascend. In memory: a line of each.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(part.open("rb")) for part in parts]
        lines = (map(BatchProtocol().read, file) for file in files)
        yield from heapq.merge(*lines, key=itemgetter(0))


class LinesProtocol:
    """The mrjob protocol of final results: the value is text of whole lines, the key unused."""

    def write(self, key: None, value: bytes) -> bytes:
        """Return the text without its last line end, which mrjob adds."""
        return value.removesuffix(b"\n")

    def read(self, line: bytes) -> tuple[None, bytes]:
        """Return the line as it is."""
        return None, line
