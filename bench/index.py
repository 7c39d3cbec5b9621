"""The online index: one query at a time, as it grows, and beside faiss where that is exact too.

Seconds are of the clock, for a query that waits for the disk or another thread takes them too. Half
of the queries are near something that is held, half are new. Cold is after the files left the page
cache, opened without reading them first: every block is read and held against its checksum when it
is first touched.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.faiss_rival import SingleQueries
from bench.measure import Mismatch, Row, interleaved, status_bytes, wall_clock
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.reader import IndexReader

Fingerprints = NDArray[np.uint64]

_NAME = "index"
_K = 3
_SIZES = (10_000_000, 50_000_000, 200_000_000)
_QUICK_SIZES = (100_000,)
_RIVALS_UP_TO = 10_000_000
_QUERIES, _QUICK_QUERIES = 20_000, 2_000
_COLD_QUERIES = 200
_RIVAL_QUERIES = 500
_ADD_BATCHES, _BATCH = 200, 1000
_BYTES_TO_BUILD = 40  # a fingerprint, with those that are given


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the table's rows; raises Mismatch if an answer was wrong."""
    rng = np.random.default_rng(8)
    for size in _QUICK_SIZES if quick else _SIZES:
        free_bytes = status_bytes(Path("/proc/meminfo"), "MemAvailable")
        if size * _BYTES_TO_BUILD > free_bytes:
            yield Row(_NAME, f"{size:,}", note=f"skipped: {free_bytes >> 30} GB of memory are free")
            continue
        held = rng.integers(0, 1 << 64, size, dtype=np.uint64)
        count = _QUICK_QUERIES if quick else _QUERIES
        with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
            yield from _rows(Path(folder, "index"), held, _queries(rng, held, count), rounds)


def _queries(rng: np.random.Generator, held: Fingerprints, count: int) -> Fingerprints:
    """Return queries [count, 1]: every other one is two bits from one that is held."""
    queries = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    near = held[rng.integers(0, held.size, count // 2)]
    for _ in range(2):
        near ^= np.uint64(1) << rng.integers(0, 64, near.size, dtype=np.uint64)
    queries[::2] = near
    return queries.reshape(-1, 1)


def _rows(folder: Path, held: Fingerprints, queries: Fingerprints, rounds: int) -> Iterator[Row]:
    size = held.size
    started = wall_clock()
    with HammingIndex.create(folder, named=False) as index:
        index.add(held)
        build = wall_clock() - started
        stats = index.stats()
        yield Row(
            _NAME, f"{size:,}, built", build,
            note=f"{size / build:,.0f} a second; {stats.disk_bytes / size:.1f} bytes a "
            f"fingerprint; {stats.segments[0].design}",
        )  # fmt: skip
        _timed(index.query, queries)  # maps every page
        yield _latencies(f"{size:,}, warm", _timed(index.query, queries))
        if size <= _RIVALS_UP_TO:
            yield from _beside_rivals(index, held, queries, rounds)
    yield _cold(folder, size, queries)
    yield from _while_added(folder, size, queries)
    shutil.rmtree(folder)


def _timed(query: Callable[[Fingerprints], object], queries: Fingerprints) -> NDArray[np.float64]:
    """Return the seconds of each query; raises Mismatch if one found too little."""
    seconds = np.empty(len(queries))
    for i, one in enumerate(queries):
        started = wall_clock()
        found = query(one)
        seconds[i] = wall_clock() - started
        if i % 2 == 0 and not len(found):  # type: ignore[arg-type]
            raise Mismatch("the index lost what is near a query")
    return seconds


def _latencies(case: str, seconds: NDArray[np.float64], note: str = "") -> Row:
    median, most = np.percentile(seconds, [50, 99])
    told = f"median {median * 1e6:,.1f} µs, 99th percentile {most * 1e6:,.1f} µs"
    return Row(_NAME, case, float(median), note=f"{told}{note}")


def _beside_rivals(
    index: HammingIndex, held: Fingerprints, queries: Fingerprints, rounds: int
) -> Iterator[Row]:
    some = queries[:_RIVAL_QUERIES]
    cases: dict[str, Callable[[Fingerprints], Fingerprints]] = {
        "ours": lambda one: index.query(one).fingerprints
    }
    for name in SingleQueries.KINDS:
        try:
            cases[f"faiss {name}"] = SingleQueries(name, held, _K).query
        except ImportError:
            yield Row(_NAME, f"faiss {name}", note="skipped: faiss is not installed")
    for name, query in cases.items():
        for one in some[:100]:
            if not np.array_equal(np.sort(query(one)), np.sort(cases["ours"](one))):
                raise Mismatch(f"{name} found others than the index")
    timings = interleaved(
        {name: lambda query=query: [query(one) for one in some] for name, query in cases.items()},
        rounds,
        _NAME,
        wall_clock,
    )
    for name in cases:
        each = timings.median(name) / len(some)
        ratio = None if name == "ours" else timings.ratio(name, "ours")
        case = f"{held.size:,}, {name}, one by one"
        yield Row(_NAME, case, each, ratio, "ours", note=f"{1 / each:,.0f} queries a second")


def _cold(folder: Path, size: int, queries: Fingerprints) -> Row:
    gc.collect()  # what is mapped does not leave the cache
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    with IndexReader.open(folder, check=False) as reader:
        started = wall_clock()
        reader.query(queries[0])
        first = wall_clock() - started
        seconds = _timed(reader.query, queries[2 : 2 + _COLD_QUERIES])
    return _latencies(f"{size:,}, cold", seconds, f"; the first of all {first * 1e3:.1f} ms")


def _while_added(folder: Path, size: int, queries: Fingerprints) -> Iterator[Row]:
    """Yield what queries and additions take that happen at once, in two threads."""
    rng = np.random.default_rng(9)
    batches = rng.integers(0, 1 << 64, (_ADD_BATCHES, _BATCH), dtype=np.uint64)
    with HammingIndex.open(folder, check=False) as index:
        _timed(index.query, queries)
        took: list[float] = []

        def add_all() -> None:
            started = wall_clock()
            for batch in batches:
                index.add(batch)
            took.append(wall_clock() - started)

        thread = threading.Thread(target=add_all)
        thread.start()
        seconds: list[float] = []
        while thread.is_alive():
            seconds += _timed(index.query, queries[:100]).tolist()
        thread.join()
        count = batches.size
        yield _latencies(f"{size:,}, while {count:,} are added", np.array(seconds))
        yield Row(
            _NAME, f"{size:,}, {count:,} added meanwhile", took[0],
            note=f"{count / took[0]:,.0f} a second, {_BATCH:,} at a time, each forced to the disk",
        )  # fmt: skip
        one = batches.reshape(-1, 1)[:_BATCH] ^ np.uint64(1 << 40)
        started = time.perf_counter()
        for each in one[:200]:
            index.add(each)
        each_took = (time.perf_counter() - started) / 200
        note = f"{1 / each_took:,.0f} a second, one at a time"
        yield Row(_NAME, f"{size:,}, one added", each_took, note=note)
