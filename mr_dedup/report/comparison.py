"""Methods side by side on documents in memory: what each calls alike, how much is true, the cost.

Pairs are never held: they are counted as they are found, a million or so at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.verification import ShingleSets, shingle_sets
from mr_dedup.report.entrants import Entrant, Rows, Texts
from mr_dedup.report.evaluation import Counts
from mr_dedup.signatures.candidates import texts_of_keys
from mr_dedup.signatures.protocol import Signatures

MOST_CANDIDATES = 50_000_000
"""Pairs that a method may look at: some seconds, and up to a minute with their texts compared."""

_SLICE = 1 << 12
"""Texts of one key that are all compared, of the keys of a method that has too many pairs."""


def slices_for(signatures: Signatures, most_pairs: int) -> int | None:
    """Return of how many texts of one key all pairs may be looked at; None if of any number.

    So that those of all keys are no more than ``most_pairs``, if that can be.
    """
    sizes = texts_of_keys(signatures)
    sizes = sizes.astype(object if signatures.keys.size >> 31 else np.int64)
    if (sizes * (sizes - 1) // 2).sum() <= most_pairs:
        return None
    most = _SLICE
    while most > 2:
        rest = sizes % most
        pairs = sizes // most * (most * (most - 1) // 2) + rest * (rest - 1) // 2
        if pairs.sum() <= most_pairs:
            break
        most //= 2
    return most


@dataclass(frozen=True)
class Truth:
    """All pairs of ``documents`` documents that are alike, by their rows.

    ``keys`` int64[t] ascend: smaller row * documents + larger one; ``similarities`` float64[t].
    """

    documents: int
    keys: Rows
    similarities: NDArray[np.float64]

    def of(self, first: Rows, second: Rows) -> NDArray[np.float64]:
        """Return how similar rows first[m] < second[m] are, 0 if they are not listed."""
        if not self.keys.size:
            return np.zeros(first.size)
        wanted = first * self.documents + second
        places = np.searchsorted(self.keys, wanted)
        places[places == self.keys.size] = 0
        found: NDArray[np.float64] = np.where(
            self.keys[places] == wanted, self.similarities[places], 0.0
        )
        return found


@dataclass
class Stopwatch:
    """Adds up the seconds by the clock, and those of processors, of what it is held to."""

    seconds: float = 0.0
    processor_seconds: float = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.perf_counter()
        self.processor_seconds -= time.process_time()

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.perf_counter()
        self.processor_seconds += time.process_time()


@dataclass
class _Tally:
    """Pairs that were found, and how many are truly alike from each band on."""

    bands: Sequence[float]
    found: int = 0
    right: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.right = np.zeros(len(self.bands), np.int64)

    def add(self, similarities: NDArray[np.float64]) -> None:
        self.found += similarities.size
        self.right += [np.count_nonzero(similarities >= band) for band in self.bands]

    def counts(self, truth: Truth) -> list[Counts]:
        true = [int(np.count_nonzero(truth.similarities >= band)) for band in self.bands]
        pairs = zip(self.right.tolist(), true, strict=True)
        return [Counts(self.found, right, wanted - right) for right, wanted in pairs]


@dataclass(frozen=True)
class Measured:
    """What came of a method.

    ``raw`` are all pairs that it calls alike and ``verified`` those whose texts are, each for every
    band. ``cut`` says what was left out for there being too much; empty if nothing was. ``paired``
    does not have what was ``verified``.
    """

    name: str
    family: str
    bytes_a_document: float
    text_bytes: int
    candidates: int
    cut: str
    signed: Stopwatch
    paired: Stopwatch
    compared: Stopwatch
    raw: Sequence[Counts]
    verified: Sequence[Counts]

    @property
    def seconds(self) -> float:
        """What it took to sign texts and to pair them."""
        return self.signed.seconds + self.paired.seconds

    @property
    def processor_seconds(self) -> float:
        """The same of all processors."""
        return self.signed.processor_seconds + self.paired.processor_seconds

    @property
    def megabytes_a_second(self) -> float:
        """Text signed and paired in a second, 10**6 bytes."""
        return self.text_bytes / max(self.seconds, 1e-9) / 1e6


@dataclass(frozen=True)
class Comparison:
    """Documents, and what is true of them: what methods are measured on.

    ``sets`` are of the same texts; a pair is verified from ``verify`` on. ``bands`` are
    similarities from which on a pair of the truth counts.
    """

    texts: Texts
    sets: ShingleSets
    truth: Truth
    bands: Sequence[float]
    verify: float
    most_candidates: int = MOST_CANDIDATES

    @property
    def text_bytes(self) -> int:
        """How much text there is, as UTF-8."""
        return sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in self.texts)

    def measure(self, entrant: Entrant) -> Measured:
        """Run a method; in memory its signatures, and some million pairs.

        Where the texts of single keys make more than ``most_candidates`` pairs they are taken in
        slices, and pairs over two of them are missed; it ends after so many candidates anyway.
        Raises MrDedupError where fingerprints near one another explode.
        """
        warm_up(entrant, self.sets.most)
        signed, paired, compared = Stopwatch(), Stopwatch(), Stopwatch()
        with signed:
            signatures = entrant.sign(self.texts)
        with paired:
            most = slices_for(signatures, self.most_candidates)
        cut = f"slices of {most:,}" if most else ""
        raw, verified = _Tally(self.bands), _Tally(self.bands)
        batches, looked_at = entrant.pairs(signatures, most), 0
        while True:
            with paired:
                found = next(batches, None)
            if found is None:
                break
            looked_at += found.candidates
            with compared:
                alike = self.sets.jaccard(found.first, found.second) >= self.verify
            similarities = self.truth.of(found.first, found.second)
            raw.add(similarities)
            verified.add(similarities[alike])
            if looked_at > self.most_candidates:
                if next(batches, None) is not None:
                    cut = "; ".join(filter(None, [cut, f"first {looked_at:,}"]))
                break
        return Measured(
            entrant.name,
            entrant.family,
            entrant.kept_bytes(signatures) / max(1, len(signatures)),
            self.text_bytes,
            looked_at,
            cut,
            signed,
            paired,
            compared,
            raw.counts(self.truth),
            verified.counts(self.truth),
        )


def warm_up(entrant: Entrant, most: int) -> None:
    """Compile what a method runs, or load it, and what libraries load, before it is timed."""
    texts = [pa.array(["one text", "one text", "another"], pa.large_string())]
    sets = shingle_sets(texts[0], most=most)
    for found in entrant.pairs(entrant.sign(texts), None):
        sets.jaccard(found.first, found.second)
