"""Ids of documents as columns: their text, concatenated, and offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.index import kernels

MAX_ID_BYTES = 1 << 16
"""The longest id, in UTF-8."""


@dataclass(frozen=True)
class Ids:
    """n ids in UTF-8: id i is ``content[offsets[i]:offsets[i + 1]]``, uint8[…] and int64[n + 1]."""

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, ids: Iterable[str] | pa.Array) -> Ids:
        """Return texts, or an Arrow array of them, as a column.

        Raises TypeError for one text instead of several; ValueError for an element that is not
        text, for an id that is empty or longer than MAX_ID_BYTES, and for one that cannot be
        encoded in UTF-8.
        """
        if not isinstance(ids, pa.Array):
            return cls.from_bytes(encoded_ids(ids))
        column = cls._from_arrow(ids)
        lengths = np.diff(column.offsets)
        if lengths.size:
            _require_lengths(lengths.min(), lengths.max())
        return column

    @classmethod
    def from_bytes(cls, encoded: Sequence[bytes]) -> Ids:
        """Return a column of ids that are encoded in UTF-8."""
        ends = itertools.accumulate(map(len, encoded), initial=0)
        offsets = np.fromiter(ends, np.int64, len(encoded) + 1)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def _from_arrow(cls, array: Any) -> Ids:
        if array.null_count or not (
            pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        ):
            raise ValueError(f"ids: expected text, none null, got {array.type}")
        array = array.cast(pa.large_string())
        _, offsets, content = array.buffers()
        if not len(array):
            return cls.from_bytes([])
        starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        text = np.frombuffer(content if content is not None else b"", np.uint8)
        return cls(text[starts[0] : starts[-1]], starts - starts[0])

    def are_text(self) -> bool:
        """Return whether each is UTF-8; some nanoseconds each."""
        offsets, content = pa.py_buffer(self.offsets), pa.py_buffer(self.content)
        try:
            pa.LargeStringArray.from_buffers(len(self), offsets, content).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True

    def require_sound(self) -> None:
        """Raise ValueError unless these are ids, each of 1 to ``MAX_ID_BYTES``, as of a file.

        0.2 µs each.
        """
        edges = self.offsets.tolist()
        if edges[0] != 0 or edges[-1] != len(self.content):
            raise ValueError(f"ids from byte {edges[0]} to {edges[-1]} of {len(self.content)}")
        if not all(1 <= stop - start <= MAX_ID_BYTES for start, stop in itertools.pairwise(edges)):
            raise ValueError(f"ids: expected 1 to {MAX_ID_BYTES} bytes each")
        for id in self.encoded():
            id.decode()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def encoded(self) -> list[bytes]:
        """Return each id in UTF-8."""
        content, edges = self.content.tobytes(), self.offsets.tolist()
        return [content[a:b] for a, b in itertools.pairwise(edges)]

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of each id, xxh3 of 64 bits."""
        hashes = np.empty(len(self), np.uint64)
        kernels.hash_ids(self.content, self.offsets, hashes)
        return hashes

    def take(self, rows: NDArray[np.int64]) -> Ids:
        """Return the ids at ``rows`` int64[m], in that order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        content = np.empty(int(offsets[-1]), np.uint8)
        kernels.copy_ids(self.content, self.offsets, rows, offsets, content)
        return Ids(content, offsets)

    @classmethod
    def joined(cls, parts: Sequence[Ids]) -> Ids:
        """Return the ids of all parts, concatenated."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([0, *(int(part.offsets[-1]) for part in parts)])
        offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
        content = [part.content[: part.offsets[-1]] for part in parts]
        return cls(
            np.concatenate([np.empty(0, np.uint8), *content]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
        )


def require_sequence(name: str, values: object, element: str) -> None:
    """Raise TypeError for one text, whose elements are characters.

    >>> require_sequence("ids", "a", "id")
    Traceback (most recent call last):
    TypeError: ids: expected a sequence of ids, got a text; pass [id]
    """
    if isinstance(values, str | bytes):
        raise TypeError(f"{name}: expected a sequence of {element}s, got a text; pass [{element}]")


def encoded_ids(texts: Iterable[str]) -> list[bytes]:
    """Return ids in UTF-8; raises TypeError and ValueError as ``Ids.of``."""
    require_sequence("ids", texts, "id")
    encoded = []
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"ids: expected text, got {text!r}")
        try:
            encoded.append(text.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"ids: {text!r} cannot be encoded in UTF-8") from error
    if encoded:
        lengths = list(map(len, encoded))
        _require_lengths(min(lengths), max(lengths))
    return encoded


def _require_lengths(shortest_bytes: int, longest_bytes: int) -> None:
    if shortest_bytes < 1 or longest_bytes > MAX_ID_BYTES:
        raise ValueError(f"ids: expected 1 to {MAX_ID_BYTES} bytes each")
