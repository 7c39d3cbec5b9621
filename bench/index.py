"""The online index: single queries, by size, beside exact indices of faiss.

Seconds are wall time, which includes waiting for the disk and other threads. Half of the queries
have a near-duplicate in the index. Cold: the files are not in the page cache, and each block is
read and verified by its checksum at its first use.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
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
_BYTES_TO_BUILD = 40  # memory for each fingerprint, including the array


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch for a wrong result."""
    rng = np.random.default_rng(8)
    for size in _QUICK_SIZES if quick else _SIZES:
        free_bytes = status_bytes(Path("/proc/meminfo"), "MemAvailable")
        if size * _BYTES_TO_BUILD > free_bytes:
            yield Row(_NAME, f"{size:,}", note=f"skipped: {free_bytes >> 30} GB of memory are free")
            continue
        indexed = rng.integers(0, 1 << 64, size, dtype=np.uint64)
        count = _QUICK_QUERIES if quick else _QUERIES
        with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
            yield from _rows(Path(folder, "index"), indexed, _queries(rng, indexed, count), rounds)


def _queries(rng: np.random.Generator, indexed: Fingerprints, count: int) -> Fingerprints:
    """Return queries [count, 1]: every other one is within two bits of an indexed one."""
    queries = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    near = indexed[rng.integers(0, indexed.size, count // 2)]
    for _ in range(2):
        near ^= np.uint64(1) << rng.integers(0, 64, near.size, dtype=np.uint64)
    queries[::2] = near
    return queries.reshape(-1, 1)


def _rows(folder: Path, indexed: Fingerprints, queries: Fingerprints, rounds: int) -> Iterator[Row]:
    size = indexed.size
    started = wall_clock()
    with HammingIndex.create(folder, named=False) as index:
        index.add(indexed)
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
            yield from _beside_rivals(index, indexed, queries, rounds)
    yield _cold(folder, size, queries)
    yield from _while_added(folder, size, queries)
    shutil.rmtree(folder)


def _timed(query: Callable[[Fingerprints], object], queries: Fingerprints) -> NDArray[np.float64]:
    """Return the seconds of each query; raise Mismatch if one does not find its near-duplicate."""
    seconds = np.empty(len(queries))
    for i, one in enumerate(queries):
        started = wall_clock()
        found = query(one)
        seconds[i] = wall_clock() - started
        if i % 2 == 0 and not len(found):  # type: ignore[arg-type]
            raise Mismatch("a near-duplicate was not found")
    return seconds


def _latencies(case: str, seconds: NDArray[np.float64], note: str = "") -> Row:
    median, late = np.percentile(seconds, [50, 99])
    latencies = f"median {median * 1e6:,.1f} µs, 99th percentile {late * 1e6:,.1f} µs"
    return Row(_NAME, case, float(median), note=f"{latencies}{note}")


def _query_each(query: Callable[[Fingerprints], Fingerprints], queries: Fingerprints) -> None:
    for one in queries:
        query(one)


def _beside_rivals(
    index: HammingIndex, indexed: Fingerprints, queries: Fingerprints, rounds: int
) -> Iterator[Row]:
    some = queries[:_RIVAL_QUERIES]
    cases: dict[str, Callable[[Fingerprints], Fingerprints]] = {
        "ours": lambda one: index.query(one).fingerprints
    }
    for name in SingleQueries.KINDS:
        try:
            cases[f"faiss {name}"] = SingleQueries(name, indexed, _K).query
        except ImportError:
            yield Row(_NAME, f"faiss {name}", note="skipped: faiss is not installed")
    for name, query in cases.items():
        for one in some[:100]:
            if not np.array_equal(np.sort(query(one)), np.sort(cases["ours"](one))):
                raise Mismatch(f"{name} has other results than the index")
    timings = interleaved(
        {name: partial(_query_each, query, some) for name, query in cases.items()},
        rounds,
        _NAME,
        wall_clock,
    )
    for name in cases:
        each = timings.median(name) / len(some)
        ratio = None if name == "ours" else timings.ratio(name, "ours")
        case = f"{indexed.size:,}, {name}, one by one"
        yield Row(_NAME, case, each, ratio, "ours", note=f"{1 / each:,.0f} queries a second")


def _cold(folder: Path, size: int, queries: Fingerprints) -> Row:
    gc.collect()  # mapped pages do not leave the cache
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    with IndexReader.open(folder, check=False) as reader:
        started = wall_clock()
        reader.query(queries[0])
        first = wall_clock() - started
        seconds = _timed(reader.query, queries[2 : 2 + _COLD_QUERIES])
    return _latencies(f"{size:,}, cold", seconds, f"; the very first {first * 1e3:.1f} ms")


def _while_added(folder: Path, size: int, queries: Fingerprints) -> Iterator[Row]:
    """Yield the times of queries and additions in two concurrent threads."""
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
            _NAME, f"{size:,}, {count:,} added concurrently", took[0],
            note=f"{count / took[0]:,.0f} a second, {_BATCH:,} at a time, each synced to disk",
        )  # fmt: skip
        one = batches.reshape(-1, 1)[:_BATCH] ^ np.uint64(1 << 40)
        started = time.perf_counter()
        for each in one[:200]:
            index.add(each)
        each_took = (time.perf_counter() - started) / 200
        note = f"{1 / each_took:,.0f} a second, one at a time"
        yield Row(_NAME, f"{size:,}, one added", each_took, note=note)
