"""Batches of matches: arrays on the lines that Hadoop streaming carries between tasks.

A line is ``key TAB base64(header + payload)``. The header, spelled here alone, has a version, a
count and a checksum of the payload. Base64, because mrjob and streaming strip and split raw
bytes at tabs and line ends.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator

import numpy as np
import xxhash

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.matches import Matches

_HEADER = struct.Struct("<BIQ")  # version, pairs, xxh3_64 of the payload
_VERSION = 1

PAIRS_A_BATCH = 1 << 18
"""Pairs a line carries at most: 5.6 MB of base64."""


def encode_matches(matches: Matches) -> Iterator[bytes]:
    """Yield the pairs as base64 batches of at most PAIRS_A_BATCH pairs, in their order."""
    for start in range(0, len(matches), PAIRS_A_BATCH):
        part = matches.between(start, start + PAIRS_A_BATCH)
        payload = part.queries.astype("<u8").tobytes() + part.corpus.astype("<u8").tobytes()
        header = _HEADER.pack(_VERSION, len(part), xxhash.xxh3_64_intdigest(payload))
        yield base64.b64encode(header + payload)


def decode_matches(batch: bytes) -> Matches:
    """Return the pairs of one batch; raises MrDedupError if it is damaged or of another version."""
    try:
        raw = base64.b64decode(batch, validate=True)
        version, count, checksum = _HEADER.unpack_from(raw)
    except (binascii.Error, struct.error) as error:
        raise MrDedupError(f"a batch of matches between tasks is damaged: {error}") from error
    if version != _VERSION:
        raise MrDedupError(
            f"a batch of matches between tasks has version {version}, this mr_dedup reads "
            f"{_VERSION}: do all nodes run the same version?"
        )
    payload = raw[_HEADER.size :]
    if len(payload) != 16 * count or xxhash.xxh3_64_intdigest(payload) != checksum:
        raise MrDedupError("a batch of matches between tasks is damaged: its checksum differs")
    columns = np.frombuffer(payload, dtype="<u8").astype(np.uint64).reshape(2, count)
    return Matches(columns[0], columns[1])


class BatchProtocol:
    """The mrjob protocol of lines ``key TAB batch``: keys are numbers, padded so that they sort."""

    def write(self, key: int, batch: bytes) -> bytes:
        """Return the line without its end."""
        return b"%08d\t%s" % (key, batch)

    def read(self, line: bytes) -> tuple[int, bytes]:
        """Return key and batch; a trailing tab, which real Hadoop may add, is dropped."""
        key, _, batch = line.partition(b"\t")
        try:
            return int(key), batch.rstrip(b"\t\r\n")
        except ValueError as error:
            raise MrDedupError("a line between tasks has no number for a key") from error


class LinesProtocol:
    """The mrjob protocol of final results: the value is text of whole lines, the key unused."""

    def write(self, key: None, value: bytes) -> bytes:
        """Return the text without its last line end, which mrjob adds."""
        return value.removesuffix(b"\n")

    def read(self, line: bytes) -> tuple[None, bytes]:
        """Return the line as it is."""
        return None, line
