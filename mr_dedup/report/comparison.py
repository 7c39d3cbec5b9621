"""Compare methods on documents in memory: the quality of their pairs, and their cost.

Pairs are counted in batches of about a million, and not stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.shingle_sets import ShingleSets, shingle_sets
from mr_dedup.formats.pair_files import TruePairs
from mr_dedup.report.compared_methods import ComparedMethod, Rows, Texts
from mr_dedup.report.evaluation import Counts
from mr_dedup.signatures.candidates import texts_of_keys
from mr_dedup.signatures.protocol import Signatures

MAX_CANDIDATES = 50_000_000
"""Candidate pairs of a method: seconds of time, up to a minute with their texts compared."""

_MAX_SLICE = 1 << 12
"""The largest slice of texts with the same key, for a method with too many candidates."""


def slice_size(signatures: Signatures, max_pairs: int) -> int | None:
    """Return how many texts with the same key to compare with one another.

    Args:
        signatures: of all texts.
        max_pairs: the most pairs over all keys.

    Returns:
        None if all pairs of texts with the same key are no more than ``max_pairs``; else the
        largest power of 2 up to 4,096 for which slices of so many texts are, 2 if there is none.
    """
    sizes = texts_of_keys(signatures)
    sizes = sizes.astype(object if signatures.keys.size >> 31 else np.int64)
    if (sizes * (sizes - 1) // 2).sum() <= max_pairs:
        return None
    size = _MAX_SLICE
    while size > 2:
        rest = sizes % size
        pairs = sizes // size * (size * (size - 1) // 2) + rest * (rest - 1) // 2
        if pairs.sum() <= max_pairs:
            break
        size //= 2
    return size


@dataclass(frozen=True)
class Truth:
    """The similar pairs of documents, by their rows.

    Args:
        documents: how many documents there are.
        keys: smaller row * documents + larger row of each pair, int64[t], ascending.
        similarities: of the pairs, float64[t].
    """

    documents: int
    keys: Rows
    similarities: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: TruePairs, ids: pa.LargeStringArray) -> tuple[Truth, int]:
        """Return the true pairs of the documents ``ids``, and how many are of other documents.

        Raises:
            MrDedupError: if all pairs are of other documents, or if a pair has an id that several
                documents have.
        """
        rows = [pc.index_in(side, value_set=ids) for side in (pairs.first, pairs.second)]
        known = pc.and_(*(column.is_valid() for column in rows)).to_numpy(zero_copy_only=False)
        ignored = int(len(pairs) - known.sum())
        if ignored == len(pairs) and ignored:
            raise MrDedupError(
                "none of the true pairs is of these documents; are the ids the same?"
            )
        pairs.refuse_repeated(ids)
        first, second = (column.fill_null(0).to_numpy().astype(np.int64)[known] for column in rows)
        keys = np.minimum(first, second) * len(ids) + np.maximum(first, second)
        keys, firsts = np.unique(keys, return_index=True)
        return cls(len(ids), keys, pairs.similarities[known][firsts]), ignored

    def similarity(self, first: Rows, second: Rows) -> NDArray[np.float64]:
        """Return the similarity of rows first[m] < second[m], 0 for pairs not listed."""
        if not self.keys.size:
            return np.zeros(first.size)
        wanted = first * self.documents + second
        indices = np.searchsorted(self.keys, wanted)
        indices[indices == self.keys.size] = 0
        similarities: NDArray[np.float64] = np.where(
            self.keys[indices] == wanted, self.similarities[indices], 0.0
        )
        return similarities


@dataclass
class Stopwatch:
    """A context manager that adds up the wall time and the CPU time of its blocks."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.perf_counter()
        self.cpu_seconds -= time.process_time()

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()


@dataclass
class _Tally:
    """Counts predicted pairs, and the true ones of them for each band."""

    bands: Sequence[float]
    predicted: int = 0
    true_positives: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.true_positives = np.zeros(len(self.bands), np.int64)

    def add(self, similarities: NDArray[np.float64]) -> None:
        self.predicted += similarities.size
        self.true_positives += [np.count_nonzero(similarities >= band) for band in self.bands]

    def counts(self, truth: Truth) -> list[Counts]:
        true = [int(np.count_nonzero(truth.similarities >= band)) for band in self.bands]
        pairs = zip(self.true_positives.tolist(), true, strict=True)
        return [Counts(self.predicted, positives, count - positives) for positives, count in pairs]


@dataclass(frozen=True)
class Measurement:
    """The quality and the cost of a method.

    Args:
        name: the name of the method with all parameters.
        family: its name without numeric parameters.
        bytes_per_document: what is stored of a document.
        text_bytes: the size of all texts.
        candidates: how many candidate pairs were compared.
        cut: which candidates were skipped because there are too many; "" if none were.
        signing: the time to compute signatures.
        pairing: the time to find pairs.
        verifying: the time to compare the texts of pairs.
        raw: the counts of all predicted pairs, for each band.
        verified: the counts of the pairs whose texts are similar, for each band.
    """

    name: str
    family: str
    bytes_per_document: float
    text_bytes: int
    candidates: int
    cut: str
    signing: Stopwatch
    pairing: Stopwatch
    verifying: Stopwatch
    raw: Sequence[Counts]
    verified: Sequence[Counts]

    @property
    def seconds(self) -> float:
        """The wall time to compute signatures and find pairs."""
        return self.signing.seconds + self.pairing.seconds

    @property
    def cpu_seconds(self) -> float:
        """The CPU time to compute signatures and find pairs."""
        return self.signing.cpu_seconds + self.pairing.cpu_seconds

    @property
    def megabytes_per_second(self) -> float:
        """The text signed and paired in a second, in units of 10**6 bytes."""
        return self.text_bytes / max(self.seconds, 1e-9) / 1e6


@dataclass(frozen=True)
class Comparison:
    """The documents that methods are compared on.

    Args:
        texts: the texts of the documents.
        sets: their sets of shingles.
        truth: their similar pairs.
        bands: minimum similarities of true pairs.
        verify: the minimum similarity of the texts of a verified pair.
        max_candidates: the most candidate pairs of a method.
    """

    texts: Texts
    sets: ShingleSets
    truth: Truth
    bands: Sequence[float]
    verify: float
    max_candidates: int = MAX_CANDIDATES

    @property
    def text_bytes(self) -> int:
        """The size of all texts in UTF-8."""
        return sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in self.texts)

    def measure(self, method: ComparedMethod) -> Measurement:
        """Run a method. Its signatures and about a million pairs are in memory.

        If the texts with the same key make more than ``max_candidates`` pairs, they are compared
        in slices, and pairs across slices are missed. After ``max_candidates`` pairs it stops.

        Raises:
            MrDedupError: if simhash has too many candidates for its k.
        """
        warm_up(method, self.sets.max_hashes)
        signing, pairing, verifying = Stopwatch(), Stopwatch(), Stopwatch()
        with signing:
            signatures = method.sign(self.texts)
        with pairing:
            max_texts = slice_size(signatures, self.max_candidates)
        cut = f"slices of {max_texts:,}" if max_texts else ""
        raw, verified = _Tally(self.bands), _Tally(self.bands)
        batches, compared = method.pairs(signatures, max_texts), 0
        while True:
            with pairing:
                batch = next(batches, None)
            if batch is None:
                break
            compared += batch.candidates
            with verifying:
                is_similar = self.sets.jaccard(batch.first, batch.second) >= self.verify
            similarities = self.truth.similarity(batch.first, batch.second)
            raw.add(similarities)
            verified.add(similarities[is_similar])
            if compared > self.max_candidates:
                if next(batches, None) is not None:
                    cut = "; ".join(filter(None, [cut, f"first {compared:,}"]))
                break
        return Measurement(
            name=method.name,
            family=method.family,
            bytes_per_document=method.stored_bytes(signatures) / max(1, len(signatures)),
            text_bytes=self.text_bytes,
            candidates=compared,
            cut=cut,
            signing=signing,
            pairing=pairing,
            verifying=verifying,
            raw=raw.counts(self.truth),
            verified=verified.counts(self.truth),
        )


def warm_up(method: ComparedMethod, max_hashes: int) -> None:
    """Run a method on three texts, so that kernels and libraries are loaded before it is timed."""
    texts = [pa.array(["one text", "one text", "another"], pa.large_string())]
    sets = shingle_sets(texts[0], max_hashes=max_hashes)
    for batch in method.pairs(method.sign(texts), None):
        sets.jaccard(batch.first, batch.second)
