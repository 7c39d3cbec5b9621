"""The constants of the planner's cost model, fitted on this machine.

One table over a million fingerprints, keyed by fewer and fewer bits, so that its buckets grow
from half a group to dozens of groups. Nanoseconds a probe against groups a bucket are a straight
line: its height is the planner's _PROBE, its slope _GROUP. Only their proportions matter there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.inputs import Fingerprints, make
from bench.measure import Row, Timings, interleaved
from mr_dedup.hamming import planner
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.search import BLOCK_SIZE, Tables, warm_up

_KEY_BITS = (16, 15, 14, 13, 12, 11, 10)
_GROUP_SIZE = 32


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield a row for each constant: the fitted value beside the planner's."""
    warm_up()
    indexed_size, stream_size = (1 << 17, 1 << 18) if quick else (1 << 20, BLOCK_SIZE)
    inputs = make(stream_size, indexed_size, 0)
    indexed, stream = distinct(inputs.queries), inputs.corpus
    widths = [bits - 3 if quick else bits for bits in _KEY_BITS]
    tables = {width: _one_table(indexed, width) for width in widths}
    cases: dict[str, Callable[[], object]] = {
        f"probe {width}": _probing(tables[width], stream) for width in widths
    }
    cases["build"] = lambda: _one_table(indexed, widths[0])
    timings = interleaved(cases, rounds, "constants")
    groups = np.array([indexed.size / 2**width / _GROUP_SIZE for width in widths])
    group, probe = _line(groups, timings, widths, stream.size)
    build = timings.median("build") / indexed.size * 1e9
    for name, value, what in (
        ("_BUILD", build, "a fingerprint and table"),
        ("_PROBE", probe, "a probing fingerprint and table"),
        ("_GROUP", group, f"each {_GROUP_SIZE} candidates"),
    ):
        note = f"{value:.1f} ns {what}; the planner's is {getattr(planner, name)}"
        yield Row("cost model", name, note=note)


def _line(
    groups: np.ndarray, timings: Timings, widths: list[int], stream_size: int
) -> tuple[float, float]:
    """Return slope and height of nanoseconds a probe over groups, by relative least squares."""
    seconds = np.array([timings.median(f"probe {width}") for width in widths])
    nanoseconds = seconds / stream_size * 1e9
    slope, height = np.polyfit(groups, nanoseconds, 1, w=1 / nanoseconds)
    return float(slope), float(height)


def _one_table(indexed: Fingerprints, width: int) -> Tables:
    """Return a table keyed by the leading ``width`` bits: too few to find all, enough to time."""
    mask = (1 << width) - 1 << BITS - width
    return Tables(indexed, TableDesign(f"{width}-bits", 3, (mask,)), BitOrder.natural())


def _probing(tables: Tables, stream: Fingerprints) -> Callable[[], object]:
    def probe() -> None:
        for _ in tables.probe(stream):
            pass

    return probe
