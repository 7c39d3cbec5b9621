"""Count documents by the value of a field, and how many of them were dropped."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.tables import one_array

HOST, DIRECTORY = "host", "directory"
"""The fields of documents that their ids have."""

_ORIGIN = r"^(?P<origin>[^/?#]*://[^/?#]*)"


class Share(NamedTuple):
    """How many documents have a value in a field, and how many of these were dropped."""

    value: str
    documents: int
    dropped: int


class ShareCounter:
    """Counts documents and dropped documents by a value, in batches.

    Takes each distinct value once and 16 bytes in memory, three times that while batches are
    merged; no Python object for each document.
    """

    def __init__(self, min_merged: int = 1 << 16) -> None:
        """Start at zero; merge batches once ``min_merged`` or more distinct values are buffered."""
        self._values: list[pa.LargeStringArray] = [pa.array([], pa.large_string())]
        self._counts: list[NDArray[np.int64]] = [np.empty((2, 0), np.int64)]
        self._min_merged = min_merged
        self._merged = self._buffered = 0

    def add(self, values: pa.LargeStringArray, dropped: NDArray[np.bool_]) -> None:
        """Count documents.

        Args:
            values: the value of each document, null for none.
            dropped: which documents were dropped, bool[n].
        """
        encoded = values.dictionary_encode()
        known = encoded.is_valid().to_numpy(zero_copy_only=False)
        indices = encoded.indices.fill_null(0).to_numpy()
        distinct = len(encoded.dictionary)
        self._values.append(encoded.dictionary)
        self._counts.append(
            np.stack(
                [np.bincount(indices[of], minlength=distinct) for of in (known, known & dropped)]
            )
        )
        self._buffered += distinct
        if self._buffered > max(self._merged, self._min_merged):
            self._merge()

    def table(self) -> pa.Table:
        """Return the distinct values, and how many documents and dropped documents have each."""
        self._merge()
        (values,), (counts,) = self._values, self._counts
        return pa.table({"value": values, "documents": counts[0], "dropped": counts[1]})

    def add_table(self, table: pa.Table) -> None:
        """Add counts of another counter, as ``table`` returns them."""
        counts = np.stack([table[name].to_numpy() for name in ("documents", "dropped")])
        self._values.append(one_array(table["value"]))
        self._counts.append(counts)
        self._buffered += len(table)
        if self._buffered > max(self._merged, self._min_merged):
            self._merge()

    def most_common(self, count: int) -> list[Share]:
        """Return the values of most documents, in descending order; ties by their UTF-8 bytes."""
        table = self.table()
        order = [("documents", "descending"), ("value", "ascending")]
        # select_k_unstable fails on an empty table before pyarrow 26
        first = table.take(pc.sort_indices(table, sort_keys=order)[:count])
        return [Share(**row) for row in first.to_pylist()]

    def _merge(self) -> None:
        encoded = pa.concat_arrays(self._values).dictionary_encode()
        indices = encoded.indices.to_numpy()
        # bincount adds weights as doubles, which are exact up to 2^53
        counts = np.stack(
            [
                np.bincount(indices, weights, minlength=len(encoded.dictionary)).astype(np.int64)
                for weights in np.concatenate(self._counts, axis=1)
            ]
        )
        self._values, self._counts = [encoded.dictionary], [counts]
        self._merged, self._buffered = len(encoded.dictionary), 0


def hosts(ids: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return the hosts of ids that are URLs, in lower case; null for others.

    Each distinct scheme and authority is parsed once.
    """
    origins = pc.struct_field(pc.extract_regex(ids, _ORIGIN), [0]).dictionary_encode()
    names = [_host(origin) for origin in origins.dictionary.to_pylist()]
    return pa.array(names, pa.large_string()).take(origins.indices)


def directories(ids: pa.LargeStringArray, below: str = "") -> pa.LargeStringArray:
    """Return the first directories of ids that are paths; null for others, as URLs.

    Args:
        ids: the ids.
        below: the directory that contains all files, with a slash at its end, which is not counted.

    >>> ids = pa.array(["/data/a/x/1.html", "/data/2.html", "http://a/b"], pa.large_string())
    >>> directories(ids, "/data/").to_pylist()
    ['a', None, None]
    """
    pattern = f"^{re.escape(below)}(?P<directory>/*[^/:]+)/+[^/]"
    found = pc.struct_field(pc.extract_regex(ids, pattern), [0])
    return found.dictionary_encode().dictionary_decode()


def sources(ids: pa.LargeStringArray, below: str = "") -> pa.LargeStringArray:
    """Return the hosts of ids that are URLs, and the first directories of others that are paths."""
    return pc.coalesce(hosts(ids), directories(ids, below))


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None
