"""The constants of the planner's cost model, fitted on this machine.

Four tables over a million fingerprints, keyed by 16 to 10 bits, so that buckets have from half a
group to dozens of groups of candidates. Nanoseconds a probe and table are a linear function of the
groups a bucket: its intercept is the planner's _PROBE, its slope _GROUP. Only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bench.inputs import SEED, Fingerprints
from bench.measure import Row, Timings, interleaved
from data_gen.streams import Stream
from mr_dedup.hamming import planner
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.search import BATCH_SIZE, Tables
from mr_dedup.kernels.library import load_kernels

_KEY_BITS = (16, 15, 14, 13, 12, 11, 10)
_TABLES = 4
_GROUP_SIZE = 32


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield a row for each constant: the fitted value and the planner's."""
    load_kernels()
    indexed_size, stream_size = (1 << 17, 1 << 18) if quick else (1 << 20, BATCH_SIZE)
    # nothing is planted: the model counts comparisons, and matches cost extra
    indexed = distinct(Stream(SEED, "indexed").raw(indexed_size))
    stream = Stream(SEED, "probing").raw(stream_size)
    widths = [bits - 3 if quick else bits for bits in _KEY_BITS]
    built = {width: _tables(indexed, width) for width in widths}
    cases: dict[str, Callable[[], object]] = {
        f"probe {width}": _probing(built[width], stream) for width in widths
    }
    cases["build"] = lambda: _tables(indexed, widths[0])
    timings = interleaved(cases, rounds, "cost model")
    groups = np.array([indexed.size / 2**width / _GROUP_SIZE for width in widths])
    group, probe = _line(groups, timings, widths, stream.size)
    build = timings.median("build") / (indexed.size * _TABLES) * 1e9
    for name, value, unit in (
        ("_BUILD", build, "a fingerprint and table"),
        ("_PROBE", probe, "a probing fingerprint and table"),
        ("_GROUP", group, f"each {_GROUP_SIZE} candidates"),
    ):
        note = f"{value:.1f} ns {unit}; the planner's is {getattr(planner, name)}"
        yield Row("cost model", name, note=note)


def _line(
    groups: NDArray[np.float64], timings: Timings, widths: list[int], stream_size: int
) -> tuple[float, float]:
    """Return slope and intercept of nanoseconds a probe, by least squares of relative errors."""
    seconds = np.array([timings.median(f"probe {width}") for width in widths])
    nanoseconds = seconds / (stream_size * _TABLES) * 1e9
    slope, intercept = np.polyfit(groups, nanoseconds, 1, w=1 / nanoseconds)
    return float(slope), float(intercept)


def _tables(indexed: Fingerprints, width: int) -> Tables:
    """Return tables keyed by ``width`` bits each: not enough to find all matches."""
    masks = tuple((1 << width) - 1 << BITS // _TABLES * table for table in range(_TABLES))
    return Tables(indexed, TableDesign(f"{width}-bits", 3, masks), BitOrder.natural())


def _probing(tables: Tables, stream: Fingerprints) -> Callable[[], object]:
    def probe() -> None:
        for _ in tables.probe(stream):
            pass

    return probe
