"""The search for near-duplicates (k = 3), beside NumPy, faiss and C.

One thread, uniform fingerprints with planted near-duplicates. ``probe`` is the whole search, from
two arrays to merged matches. The two steps of the kernels, building tables and probing them, are
compared with C: the same tables and signatures, scanned bucket by bucket. All must find the same
pairs before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from bench import numpy_rival
from bench.c_rival import CSearch
from bench.inputs import Fingerprints, Inputs
from bench.measure import (
    PairArrays,
    Row,
    case_row,
    cpu_clock,
    interleaved,
    peak_bytes,
    require_equal,
)
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import Plan, directory_bits_for, plan, spread_sample
from mr_dedup.hamming.search import BATCH_SIZE, Tables, probe
from mr_dedup.kernels.library import load_kernels

K = numpy_rival.K

_NAME = "search"
_OURS = "mr_dedup"


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if two searches disagree."""
    corpus_size, query_size = (1 << 20, 1 << 17) if quick else (1 << 23, 1_000_000)
    multi_hash_probes, flat_probes = (2000, 16) if quick else (20_000, 256)
    load_kernels()
    inputs = Inputs.make(corpus_size, query_size, K)
    corpus, queries = inputs.corpus(), inputs.queries
    found = probe(corpus, queries, K)
    inputs.planted.require_found(found)
    expected = (found.left, found.right)
    yield from _whole(corpus, queries, expected, rounds)
    yield from _faiss(corpus, queries, expected, rounds, multi_hash=True, probes=multi_hash_probes)
    yield from _faiss(corpus, queries, expected, rounds, multi_hash=False, probes=flat_probes)
    yield from _kernels(corpus, queries, expected, rounds)


def _whole(
    corpus: Fingerprints, queries: Fingerprints, expected: PairArrays, rounds: int
) -> Iterator[Row]:
    wanted = distinct(queries)
    planned = plan(corpus.size, wanted.size, K, index="queries")
    steps = _Steps(lambda: _tables(wanted, planned), corpus)

    def kernels() -> None:
        steps.build()
        steps.probe()

    cases: dict[str, Callable[[], object]] = {
        _OURS: lambda: probe(corpus, queries, K),
        "its kernels": kernels,
        "NumPy": lambda: numpy_rival.search(corpus, queries),
    }
    require_equal("NumPy", numpy_rival.search(corpus, queries), expected)
    timings = interleaved(cases, rounds, _NAME)
    work = f"{corpus.size:,} x {queries.size:,}"
    rate = corpus.size / timings.median(_OURS) / 1e6
    notes = {_OURS: f"{expected[0].size:,} matches, {rate:.1f} million fingerprints a second"}
    for case, function in cases.items():
        yield case_row(
            _NAME, case, timings, _OURS,
            name=f"{case}, {work}",
            memory_bytes=peak_bytes(function),
            note=notes.get(case, ""),
        )  # fmt: skip
    yield Row(_NAME, "NumPy", ratio=timings.ratio("NumPy", "its kernels"), of="its kernels")


def _faiss(
    corpus: Fingerprints,
    queries: Fingerprints,
    expected: PairArrays,
    rounds: int,
    *,
    multi_hash: bool,
    probes: int,
) -> Iterator[Row]:
    name = "faiss " + ("IndexBinaryMultiHash" if multi_hash else "IndexBinaryFlat")
    try:
        from bench.faiss_rival import FaissIndex

        started = cpu_clock()
        index = FaissIndex(distinct(queries), K, multi_hash=multi_hash)
        build_seconds = cpu_clock() - started
    except ImportError:
        yield Row(_NAME, name, note="skipped: faiss is not installed")
        return
    sample = np.ascontiguousarray(spread_sample(corpus, probes))
    require_equal(name, _sorted([index.probe(sample)]), _of_corpus(expected, sample))

    def extrapolated() -> float:
        started = cpu_clock()
        index.probe(sample)
        seconds = cpu_clock() - started
        return build_seconds + seconds * corpus.size / sample.size

    def ours() -> object:
        return probe(corpus, queries, K)

    timings = interleaved({_OURS: ours, name: extrapolated}, rounds, name)
    yield case_row(
        _NAME, name, timings, _OURS,
        memory_bytes=peak_bytes(lambda: FaissIndex(queries, K, multi_hash=multi_hash)),
        note=f"extrapolated from {sample.size:,} probes",
    )  # fmt: skip


def _of_corpus(expected: PairArrays, sample: Fingerprints) -> PairArrays:
    """Return the pairs whose corpus fingerprint is in a sample."""
    wanted = np.isin(expected[1], sample)
    return expected[0][wanted], expected[1][wanted]


def _kernels(
    corpus: Fingerprints, queries: Fingerprints, expected: PairArrays, rounds: int
) -> Iterator[Row]:
    queries = distinct(queries)
    planned = plan(corpus.size, queries.size, K, index="queries")
    ours = _Steps(lambda: _tables(queries, planned), corpus)
    steps = {"tables": ours}
    in_c = CSearch.compile(K)
    if in_c is not None:
        design = planned.chosen.design
        bits = directory_bits_for(queries.size, planned.chosen.order)
        steps["C"] = _Steps(lambda: in_c.build(queries, design, bits), corpus)
    for name, step in steps.items():
        step.build()
        require_equal(name, _sorted([(b, a) for a, b in step.pairs()]), expected)
    timings = interleaved(
        {
            f"{name}, {action}": getattr(step, action)
            for action in ("build", "probe")
            for name, step in steps.items()
        },
        rounds,
        "kernels",
    )
    design_note = f"{planned.chosen.design.name} over the queries"
    for action in ("build", "probe"):
        case = f"tables, {action}"
        ratio = None if in_c is None else timings.ratio(case, f"C, {action}")
        memory = _tables(queries, planned).nbytes if action == "build" else None
        yield Row("kernels", case, timings.median(case), ratio, "C", memory, design_note)
        if in_c is not None:
            yield Row("kernels", f"C, {action}", timings.median(f"C, {action}"))
    if in_c is None:
        yield Row("kernels", "C", note="skipped: there is no C compiler")


def _tables(queries: Fingerprints, planned: Plan) -> Tables:
    return Tables(queries, planned.chosen.design, planned.chosen.order)


class _ProbedTables(Protocol):
    """Tables of this package or in C."""

    def probe(self, stream: Fingerprints) -> Iterator[PairArrays]: ...


class _Steps:
    """Building tables, and probing them with a corpus, as separate steps."""

    def __init__(self, build: Callable[[], _ProbedTables], corpus: Fingerprints) -> None:
        self._build = build
        self._corpus = corpus

    def build(self) -> None:
        self._tables = self._build()

    def pairs(self) -> Iterator[PairArrays]:
        for start in range(0, self._corpus.size, BATCH_SIZE):
            yield from self._tables.probe(self._corpus[start : start + BATCH_SIZE])

    def probe(self) -> None:
        for _ in self.pairs():
            pass


def _sorted(parts: list[PairArrays]) -> PairArrays:
    merged = Pairs.merged([Pairs(queries, corpus) for queries, corpus in parts])
    return merged.left, merged.right
