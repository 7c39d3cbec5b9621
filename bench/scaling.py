"""The cost of a search by the sizes of both sides, and by the distribution of the values.

One thread, k = 3. The corpus is streamed in blocks, and the time to generate it is not counted.
Ratios are of nanoseconds a corpus fingerprint, to those of 8,388,608 uniform fingerprints and
1,000,000 queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.inputs import Fingerprints, Inputs
from bench.measure import Row, cpu_clock, interleaved
from data_gen.distributions import Clustered, Distribution, Prefix, Uniform, Zipf
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import SAMPLE_SIZE, Plan, plan, spread_sample
from mr_dedup.hamming.search import BATCH_SIZE, search
from mr_dedup.kernels.library import load_kernels

K = 3


@dataclass(frozen=True)
class _Case:
    """A search: its inputs and its plan."""

    name: str
    inputs: Inputs
    queries: Fingerprints
    plan: Plan

    @classmethod
    def make(
        cls, name: str, corpus_size: int, query_size: int, distribution: Distribution
    ) -> _Case:
        inputs = Inputs.make(corpus_size, query_size, K, distribution)
        queries = distinct(inputs.queries)
        planned = plan(
            corpus_size,
            queries.size,
            K,
            corpus_sample=_sample(inputs),
            query_sample=spread_sample(queries),
        )
        return cls(name, inputs, queries, planned)

    def matches(self) -> Pairs:
        """Return all matches; raise Mismatch unless the planted ones are among them."""
        parts = search(lambda: self.inputs.batches(BATCH_SIZE), self.queries, self.plan)
        found = Pairs.merged(list(parts))
        self.inputs.planted.require_found(found)
        return found

    def seconds(self) -> float:
        """Search; return the seconds, without those to generate the corpus."""
        generating = 0.0

        def batches() -> Iterator[Fingerprints]:
            nonlocal generating
            started = cpu_clock()
            for block in self.inputs.batches(BATCH_SIZE):
                generating += cpu_clock() - started
                yield block
                started = cpu_clock()
            generating += cpu_clock() - started

        started = cpu_clock()
        Pairs.merged(list(search(batches, self.queries, self.plan)))
        return cpu_clock() - started - generating


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if a planted near-duplicate is not found."""
    load_kernels()
    yield from _rows("scaling", _sizes(quick), rounds)
    yield from _rows("distributions", _distributions(quick), rounds)


def _sizes(quick: bool) -> list[_Case]:
    """Return the cases of different sizes, the middle ones first."""
    millions = 1 << 17 if quick else 1 << 20
    corpus_size, query_size = 8 * millions, 100_000 if quick else 1_000_000
    corpora = [(factor * millions, query_size) for factor in (1, 4, 16, 64)]
    queries = [(corpus_size, size) for size in (query_size // 100, query_size // 10)]
    sizes = [(corpus_size, query_size), *corpora, *queries, (corpus_size, corpus_size)]
    return [
        _Case.make(f"{corpus:,} x {queries:,}", corpus, queries, Uniform())
        for corpus, queries in sizes
    ]


def _distributions(quick: bool) -> list[_Case]:
    """Return the cases of different distributions, uniform first."""
    corpus_size, query_size = (1 << 20, 100_000) if quick else (1 << 23, 1_000_000)
    distributions: dict[str, Distribution] = {
        "uniform": Uniform(),
        "16 leading bits shared": Prefix(prefix_bits=16),
        "24 leading bits shared": Prefix(prefix_bits=24),
        "32 leading bits shared": Prefix(prefix_bits=32),
        f"{query_size:,} clusters": Clustered(clusters=query_size),
        f"Zipf over {query_size:,} values": Zipf(zipf_distinct=query_size),
    }
    return [
        _Case.make(name, corpus_size, query_size, distribution)
        for name, distribution in distributions.items()
    ]


def _rows(benchmark: str, cases: list[_Case], rounds: int) -> Iterator[Row]:
    counts = {case.name: len(case.matches()) for case in cases}
    timings = interleaved({case.name: case.seconds for case in cases}, rounds, benchmark)
    base = cases[0]
    for case in cases:
        size, chosen = case.plan.corpus_size, case.plan.chosen
        seconds = timings.median(case.name)
        ratio = timings.ratio(case.name, base.name) * base.plan.corpus_size / size
        slices = "" if chosen.slices == 1 else f" in {chosen.slices} slices"
        order = "" if chosen.order.is_natural else ", bits permuted"
        yield Row(
            benchmark,
            case.name,
            seconds,
            None if case is base else ratio,
            "the first",
            chosen.memory_bytes,
            f"{seconds / size * 1e9:.1f} ns a corpus fingerprint, {counts[case.name]:,} matches, "
            f"{chosen.design.name} over the {chosen.index}{slices}{order}",
        )


def _sample(inputs: Inputs) -> Fingerprints:
    """Return a sample of the corpus from its first block: all blocks have the same distribution."""
    return np.ascontiguousarray(spread_sample(next(inputs.batches(BATCH_SIZE)), SAMPLE_SIZE))
