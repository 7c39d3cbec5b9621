"""Results of a query with the ids of documents in place of their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.formats.id_text import escape_id
from mr_dedup.hamming.pairs import Pairs


@dataclass(frozen=True)
class _Documents:
    """Documents by their fingerprints: ``values`` uint64[n], ascending, and the id of each.

    Those of one fingerprint are in the order of their files.
    """

    values: NDArray[np.uint64]
    ids: list[str]

    def of(self, value: np.uint64) -> list[str]:
        """Return the ids of the documents that have a fingerprint."""
        start, stop = (self.values.searchsorted(value, side) for side in ("left", "right"))
        return self.ids[start:stop]


def identified_lines(
    parts: Iterable[Pairs],
    queries: Sequence[FingerprintFile],
    corpus: Sequence[FingerprintFile],
    with_distance: bool,
) -> Iterator[bytes]:
    """Yield a line for each query document: its id, and those of its near-duplicates.

    Args:
        parts: The matches of a query, ascending within each query.
        queries: The files of the queries, which are read once more; lines are in their order.
        corpus: The files of the corpus, which are read once more.
        with_distance: Whether the distance follows each near-duplicate.

    A document without an id is called by its fingerprint; near-duplicates ascend by fingerprint.
    In memory: 16 bytes a pair of fingerprints, and the ids of what was found.
    """
    found = _by_query(parts)
    in_corpus = _documents(corpus, np.unique(found.right))
    wanted = np.unique(found.left)
    for value, id in _named(queries, wanted):
        start, stop = (found.left.searchsorted(value, side) for side in ("left", "right"))
        names = [id]
        for other in found.right[start:stop]:
            bits = f":{(value ^ other).bit_count()}" if with_distance else ""
            names += [name + bits for name in in_corpus.of(other)]
        yield ("\t".join(names) + "\n").encode()


def _by_query(parts: Iterable[Pairs]) -> Pairs:
    """Return all matches, ascending by query as unsigned numbers."""
    from mr_dedup.hamming.pairs import Pairs

    given = [Pairs(np.empty(0, np.uint64), np.empty(0, np.uint64)), *parts]
    queries = np.concatenate([part.left for part in given])
    corpus = np.concatenate([part.right for part in given])
    order = np.argsort(queries, kind="stable")
    return Pairs(queries[order], corpus[order])


def _documents(files: Sequence[FingerprintFile], wanted: NDArray[np.uint64]) -> _Documents:
    values, ids = [], []
    for value, id in _named(files, wanted):
        values.append(value)
        ids.append(id)
    found = np.array(values, np.uint64)
    order = np.argsort(found, kind="stable")
    return _Documents(found[order], [ids[i] for i in order])


def _named(
    files: Sequence[FingerprintFile], wanted: NDArray[np.uint64]
) -> Iterator[tuple[np.uint64, str]]:
    """Yield the documents whose fingerprints are in ``wanted``, ascending, and their names.

    Ids are written as fields of text.
    """

    for file in files:
        batches = file.identified() if file.has_ids else _without_ids(file)
        for values, ids in batches:
            indices = wanted.searchsorted(values)
            indices[indices == wanted.size] = 0
            chosen = wanted[indices] == values if wanted.size else values < 0
            for value, id in zip(
                values[chosen], ids.filter(pa.array(chosen)).to_pylist(), strict=True
            ):
                yield value, escape_id(id) if id is not None else str(value.astype("int64"))


def _without_ids(
    file: FingerprintFile,
) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray]]:
    """Yield the fingerprints of a file without ids, each once, ascending as they are printed."""
    values = np.unique(file.read().view(np.int64)).view(np.uint64)
    yield values, pa.nulls(len(values), pa.large_string())
