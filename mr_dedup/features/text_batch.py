"""Texts as kernels take them: slices of one array of UTF-8."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class TextBatch(NamedTuple):
    """n texts: text i is ``content[starts[i]:stops[i]]``.

    Attributes:
        content: uint8[m], UTF-8.
        starts: uint64[n]. A null starts and stops past the end of ``content``.
        stops: uint64[n].
    """

    content: NDArray[np.uint8]
    starts: NDArray[np.uint64]
    stops: NDArray[np.uint64]

    @property
    def sizes(self) -> NDArray[np.uint64]:
        """The size of each text in bytes, uint64[n]; 0 of a null."""
        return self.stops - self.starts

    @property
    def longest(self) -> int:
        """The size of the longest text in bytes; 0 if there are no texts."""
        return int(self.sizes.max(initial=0))


def texts_of(
    content: NDArray[np.uint8], edges: NDArray[np.int64], nulls_of: pa.LargeStringArray
) -> pa.LargeStringArray:
    """Return texts ``content[edges[i]:edges[i + 1]]`` as an array with the nulls of another."""
    valid = None
    if nulls_of.null_count:
        valid = pa.py_buffer(
            np.packbits(nulls_of.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        )
    return pa.LargeStringArray.from_buffers(
        len(nulls_of), pa.py_buffer(edges), pa.py_buffer(content), valid
    )


def text_batch(texts: pa.LargeStringArray) -> TextBatch:
    """Return texts as a batch, without copying their UTF-8.

    Raises:
        ValueError: For another type of array.

    Example:
        >>> batch = text_batch(pa.array(["ab", None, "c"], pa.large_string()))
        >>> batch.starts.tolist(), batch.stops.tolist()
        ([0, 4, 2], [2, 4, 3])
    """
    if not isinstance(texts, pa.LargeStringArray):
        raise ValueError(f"texts must be a pyarrow LargeStringArray, not {type(texts).__name__}")
    _, offsets, content = texts.buffers()
    edges = np.zeros(1, np.uint64)
    if len(texts):
        edges = np.frombuffer(offsets, np.uint64, len(texts) + 1, 8 * texts.offset)
    starts, stops = edges[:-1], edges[1:]
    utf8 = np.frombuffer(content or b"", np.uint8)
    if texts.null_count:
        # Arrow does not define what is under a null
        are_null = texts.is_null().to_numpy(zero_copy_only=False)
        past = np.uint64(utf8.size + 1)
        starts, stops = np.where(are_null, past, starts), np.where(are_null, past, stops)
    return TextBatch(utf8, starts, stops)
