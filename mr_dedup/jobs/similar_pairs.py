"""The job of similar pairs: all pairs of documents that candidate methods find, with similarity.

A map task reads one chunk of documents again and yields the texts of those that are compared with
others, keyed by groups. A reducer signs the texts of a group, finds its pairs by each method's
whole rule, and compares them by shingles. A group fits in the memory of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.grouped_rows import WHOLE, GroupedRows
from mr_dedup.signatures.methods import is_simhash, parse_methods, simhash_distance
from mr_dedup.signatures.protocol import SignatureMethod

Rows = NDArray[np.int64]
Pairs = Iterator[tuple[Rows, Rows, NDArray[np.float64]]]
"""Rows first[m] < second[m] of a group, and how similar they are."""

_BITS = 64


class SimilarPairsJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        grouped: The file of the documents that are compared, as GroupedRows writes it.
        methods: Candidate methods, as ``--method`` names them; of simhash with its k.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        verify: The smallest similarity of texts, in (0, 1]; None if they are not compared.
        shingles: What texts are compared by.
        features: What fingerprints are made of, and ``idf`` their weights.
    """

    side_files = ("idf", "grouped", "keyword_idf")

    grouped: str
    methods: tuple[str, ...]
    keyword_idf: str | None = None
    verify: float | None = 0.8
    shingles: FeatureOptions = FeatureOptions(unit="auto", weighting="binary")
    features: FeatureOptions = FeatureOptions()
    idf: str | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if self.verify is not None and not 0 < self.verify <= 1:
            raise ValueError(f"verify must be above 0 and at most 1, or None, not {self.verify}")
        if not self.methods:
            raise ValueError("methods: expected at least one")
        if any(is_simhash(name) and simhash_distance(name) is None for name in self.methods):
            raise ValueError("methods: expected k of simhash, as in simhash:k=3")

    def rules(self) -> list[int | SignatureMethod]:
        """Return the methods, of simhash its k; ValueError for what is none."""
        found: list[int | SignatureMethod] = []
        frequencies = read_frequencies(self.keyword_idf)
        for name in self.methods:
            k = simhash_distance(name) if is_simhash(name) else None
            found += parse_methods([name], frequencies) if k is None else [k]
        return found

    @cached_property
    def rows(self) -> GroupedRows:
        """Which documents are compared with which."""
        return GroupedRows.read(Path(self.grouped))

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the texts of one chunk that are to be compared, keyed by their groups."""
        for texts, rows in self._grouped(part, counters):
            order = np.argsort(rows.keys, kind="stable")
            keys, starts = np.unique(rows.keys[order], return_index=True)
            for key, of_key in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
                columns = {
                    "number": rows.numbers[of_key],
                    "side": rows.sides[of_key],
                    "text": texts.take(pa.array(of_key)),
                }
                yield key, pa.table(columns)

    def _grouped(
        self, part: TaskInput, counters: Counters
    ) -> Iterator[tuple[pa.LargeStringArray, GroupedRows]]:
        """Yield texts that are to be compared, and the groups of each.

        Raises MrDedupError if the chunk has other documents than when it was first read.
        """
        with self.reading_of(part, counters) as reading:
            done, stop = self.rows.ranges.get(reading.chunk.number, (0, 0))
            for batch in reading.batches():
                these = self.rows.between(done, done + len(batch))
                rows = these.numbers - done
                if not np.array_equal(batch.text_lengths[rows], these.lengths):
                    break
                done += len(batch)
                if rows.size:
                    yield batch.texts.take(pa.array(rows)), these
            if done != stop:
                name = reading.chunk.name
                raise MrDedupError(f"{name}: has other documents than when it was first read")

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.compare_groups]

    def compare_groups(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the pairs of each group: numbers of documents, and their similarity."""
        for key, tables in groups:
            table = pa.concat_tables(tables)
            numbers, sides = table["number"].to_numpy(), table["side"].to_numpy()
            # in the order of the documents, whichever the engine's is
            order = np.argsort(numbers)
            numbers, sides = numbers[order], sides[order]
            texts = pa.chunked_array([one_array(table["text"]).take(pa.array(order))]).chunk(0)
            compare = self._comparing(texts)
            for first, second, similarities in self._candidates(texts):
                wanted = (sides[first] != sides[second]) | (sides[first] == WHOLE)
                first, second = first[wanted], second[wanted]
                found, kept = compare(first, second, similarities[wanted])
                counters["pairs"] += found.size
                if found.size:
                    columns = {"first": numbers[first[kept]], "second": numbers[second[kept]]}
                    yield key, pa.table({**columns, "similarity": found})

    def _comparing(
        self, texts: pa.LargeStringArray
    ) -> Callable[..., tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Return a function from pairs to the similarities of similar ones, and a mask of these."""
        threshold = self.verify
        if threshold is None:
            return lambda first, second, found: (found, np.ones(found.size, bool))
        sets = shingle_sets(texts, self.shingles)

        def compare(
            first: Rows, second: Rows, _: NDArray[np.float64]
        ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
            found = sets.jaccard(first, second)
            kept = found >= threshold
            return found[kept], kept

        return compare

    def _candidates(self, texts: pa.LargeStringArray) -> Pairs:
        """Yield the candidates of all methods, each once: by the first method that finds it."""
        before: list[Callable[[Rows, Rows], NDArray[np.bool_]]] = []
        is_scored = self.verify is None
        for rule in self.rules():
            if isinstance(rule, int):
                paired, is_pair = self._by_simhash(texts, rule)
            else:
                paired, is_pair = _by(rule, texts, is_scored)
            for first, second, similarities in paired:
                new = np.ones(first.size, bool)
                for earlier in before:
                    new &= ~earlier(first, second)
                yield first[new], second[new], similarities[new]
            before.append(is_pair)

    def _by_simhash(
        self, texts: pa.LargeStringArray, k: int
    ) -> tuple[Pairs, Callable[[Rows, Rows], NDArray[np.bool_]]]:
        from mr_dedup.hamming.row_pairs import row_pairs_within
        from mr_dedup.signatures.candidates import candidates
        from mr_dedup.signatures.protocol import Signatures

        made = simhash(texts, self.features, read_frequencies(self.idf, self.features))
        known = made.has_fingerprint
        signatures, rows = Signatures.of_fingerprints(made.values, known), np.flatnonzero(known)

        def paired() -> Pairs:
            for first, second in candidates(signatures, 1):
                yield first, second, np.ones(first.size)
            for one, other in row_pairs_within(signatures.keys, k):
                bits = np.bitwise_count(signatures.keys[one] ^ signatures.keys[other])
                yield rows[one], rows[other], 1 - bits / _BITS

        def is_pair(first: Rows, second: Rows) -> NDArray[np.bool_]:
            within: NDArray[np.bool_] = (
                np.bitwise_count(made.values[first] ^ made.values[second]) <= k
            )
            return within & known[first] & known[second]

        return paired(), is_pair


def _by(
    method: SignatureMethod, texts: pa.LargeStringArray, is_scored: bool
) -> tuple[Pairs, Callable[[Rows, Rows], NDArray[np.bool_]]]:
    """Return the pairs of a method, and a function from pairs to whether they are among these.

    With similarities only if ``is_scored``: MinHash's estimates take longer than all else.
    """
    from mr_dedup.signatures.candidates import candidates, match, matches

    signatures = method.sign(texts)
    paired: Pairs
    if is_scored or method.needs_verification:
        paired = matches(method, signatures)
    else:
        found = candidates(signatures, method.min_shared_keys)
        paired = ((first, second, np.ones(first.size)) for first, second in found)
    return paired, lambda first, second: match(method, signatures, first, second)
