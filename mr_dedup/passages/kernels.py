# mypy: ignore-errors
"""Loops that find repeated windows of tokens: hashes of windows, their anchors, tables of counts.

Nothing is validated here, and nothing allocated: windows.py does both. All take linear time.

The hash of tokens i to j is that of a polynomial modulo 2**61 - 1 (Rabin and Karp) over the hashes
of the tokens, of which prefix values of a whole batch are stored; two of them with different bases
and different values of tokens make 122 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import FACTORS, U0, U1, U2, U3, U32, U

_PRIME = U((1 << 61) - 1)
_BASE_ONE, _BASE_TWO = U(0x0B4E9D39A1C7F52B), U(0x15C3F60E8D2B9A71)
_SHIFT = U(61)


class Prefixes(NamedTuple):
    """The values of both polynomials over the first tokens of a batch of m: uint64[m + 1]."""

    one: NDArray[np.uint64]
    two: NDArray[np.uint64]


class Runs(NamedTuple):
    """Consecutive windows with one anchor.

    Attributes:
        rows: uint32[r], the text.
        anchors: uint64[r].
        firsts, lasts: int64[r], the first window, and the one after the last. A window is numbered
            by its first token in the batch, or as one of its units.
    """

    rows: NDArray[np.uint32]
    anchors: NDArray[np.uint64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


class Windows(NamedTuple):
    """Which tokens windows are made of.

    Attributes:
        size: The number of tokens; 0 where windows are units.
        starts, stops: int64[u], the tokens of units, in the batch.
        edges: int64[n + 1], the first token of each text.
    """

    size: np.int64
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    edges: NDArray[np.int64]


class Table(NamedTuple):
    """Counts by keys of 128 bits: e entries, in c slots, c a power of 2.

    Attributes:
        slots: uint32[c], one more than the entry, 0 where a slot is free.
        one, two: uint64[e], the key.
        last_rows: uint32[e], the text that was counted last.
        counts: uint32[e], of texts.
        first_rows, first_starts: uint32[e], the first occurrence.
        used: int64[1], how many entries there are.
    """

    slots: NDArray[np.uint32]
    one: NDArray[np.uint64]
    two: NDArray[np.uint64]
    last_rows: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    first_rows: NDArray[np.uint32]
    first_starts: NDArray[np.uint32]
    used: NDArray[np.int64]


class Found(NamedTuple):
    """Repeated windows of a batch, joined where they touch: s spans of tokens.

    Attributes:
        rows: uint32[s].
        starts, stops: int64[s], tokens in the batch.
        one, two: uint64[s], the hashes of the tokens.
        documents: uint32[s], the smallest count of a window.
    """

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    one: NDArray[np.uint64]
    two: NDArray[np.uint64]
    documents: NDArray[np.uint32]


@kernel(inline="always")
def _product(one, other):
    """Return the product modulo the prime of two numbers below it."""
    low = one * other
    high = folded_product(one, other) ^ low
    return _reduced((low & _PRIME) + (low >> _SHIFT | high << U3))


@kernel(inline="always")
def _reduced(number):
    """Return a number below twice the prime modulo the prime."""
    return number - _PRIME if number >= _PRIME else number


@kernel(inline="always")
def _mixed(number, other):
    return folded_product(number ^ FACTORS[0], other ^ FACTORS[1])


@kernel
def _power(base, exponent):
    result = U1
    while exponent != U0:
        if exponent & U1:
            result = _product(result, base)
        base = _product(base, base)
        exponent >>= U1
    return result


@kernel(inline="always")
def _between(values, start, stop, power):
    """Return the value over tokens ``start`` to ``stop``; ``power`` is that of so many."""
    return _reduced(values[stop] + _PRIME - _product(values[start], power))


@entry
def fill_prefixes(hashes: NDArray[np.uint64], prefixes: Prefixes) -> None:
    """Write the prefix values of the tokens of a batch."""
    one, two = prefixes
    first, second = U0, U0
    one[0] = first
    two[0] = second
    for i in range(hashes.size):
        value = hashes[i]
        other = folded_product(value ^ FACTORS[0], FACTORS[1])
        plain = _reduced((value & _PRIME) + (value >> _SHIFT))
        first = _reduced(_product(first, _BASE_ONE) + plain)
        mixed = _reduced((other & _PRIME) + (other >> _SHIFT))
        second = _reduced(_product(second, _BASE_TWO) + mixed)
        one[i + 1] = first
        two[i + 1] = second


@entry
def find_token_runs(
    edges: NDArray[np.int64],
    groups: NDArray[np.uint64],
    is_used: NDArray[np.bool_],
    prefixes: Prefixes,
    size: int,
    gram: int,
    ring: NDArray[np.int64],
    values: NDArray[np.uint64],
    runs: Runs,
) -> int:
    """Write the runs of windows of ``size`` tokens; return their number.

    The anchor of a window is the leftmost of its smallest hashes of ``gram`` tokens (a minimizer),
    with the group of its text. ``ring`` int64[c] and ``values`` uint64[c], c a power of 2 above
    ``size``, are scratch: positions whose hashes ascend.
    """
    one = prefixes.one
    power = _power(_BASE_ONE, uint64(gram))
    mask = int64(ring.size - 1)
    width = size - gram + 1
    count = int64(0)
    for row in range(edges.size - 1):
        first, last = edges[row], edges[row + 1]
        if not is_used[row] or last - first < size:
            continue
        head, tail = int64(0), int64(0)
        before = int64(-1)
        for position in range(first, last - gram + 1):
            number = _between(one, position, position + gram, power)
            value = _mixed(number, U2)
            while tail > head and values[(tail - 1) & mask] > value:
                tail -= 1
            ring[tail & mask] = position
            values[tail & mask] = value
            tail += 1
            window = position - width + 1
            if window < first:
                continue
            if ring[head & mask] < window:
                head += 1
            smallest = ring[head & mask]
            if smallest != before:
                runs.rows[count] = uint32(row)
                runs.anchors[count] = _mixed(values[head & mask], groups[row])
                runs.firsts[count] = window
                before = smallest
                count += 1
            runs.lasts[count - 1] = window + 1
    return count


@entry
def find_unit_runs(
    edges: NDArray[np.int64],
    groups: NDArray[np.uint64],
    is_used: NDArray[np.bool_],
    unit_edges: NDArray[np.int64],
    prefixes: Prefixes,
    windows: Windows,
    min_tokens: int,
    runs: Runs,
) -> int:
    """Write a run for each unit of ``min_tokens`` or more; return their number."""
    count = int64(0)
    for row in range(edges.size - 1):
        if not is_used[row]:
            continue
        for unit in range(unit_edges[row], unit_edges[row + 1]):
            start, stop = windows.starts[unit], windows.stops[unit]
            if stop - start < min_tokens or stop == start:
                continue
            one, _ = _key(prefixes, start, stop, groups[row])
            runs.rows[count] = uint32(row)
            runs.anchors[count] = one
            runs.firsts[count] = unit
            runs.lasts[count] = unit + 1
            count += 1
    return count


@entry
def tokens_of_units(
    edges: NDArray[np.int64],
    token_starts: NDArray[np.uint32],
    unit_edges: NDArray[np.int64],
    unit_stops: NDArray[np.uint32],
    windows: Windows,
) -> None:
    """Write the tokens of units: each token is of the unit that it begins in."""
    for row in range(edges.size - 1):
        token, last = edges[row], edges[row + 1]
        for unit in range(unit_edges[row], unit_edges[row + 1]):
            windows.starts[unit] = token
            while token < last and token_starts[token] < unit_stops[unit]:
                token += 1
            windows.stops[unit] = token


@kernel
def _key(prefixes, start, stop, group):
    """Return the 128 bits by which tokens are counted in a group."""
    length = uint64(stop - start)
    one = _between(prefixes.one, start, stop, _power(_BASE_ONE, length))
    two = _between(prefixes.two, start, stop, _power(_BASE_TWO, length))
    return _mixed(one, group ^ length << U32), _mixed(two, group + length)


@kernel(inline="always")
def _window(prefixes, windows, powers, number, group):
    """Return the tokens and the key of a window."""
    if windows.size == 0:
        start, stop = windows.starts[number], windows.stops[number]
        one, two = _key(prefixes, start, stop, group)
        return start, stop, one, two
    start, stop = number, number + windows.size
    length = uint64(windows.size)
    one = _between(prefixes.one, start, stop, powers[0])
    two = _between(prefixes.two, start, stop, powers[1])
    return start, stop, _mixed(one, group ^ length << U32), _mixed(two, group + length)


@kernel(inline="always")
def _find(table, one, two):
    """Return the slot of a key, or the free slot where it is to be inserted."""
    last = uint64(table.slots.size) - U1
    slot = one & last
    while table.slots[slot] != uint32(0):
        entry = uint64(table.slots[slot]) - U1
        if table.one[entry] == one and table.two[entry] == two:
            break
        slot = (slot + U1) & last
    return slot


@kernel(inline="always")
def _count(table, one, two, row, start):
    slot = _find(table, one, two)
    if table.slots[slot] == uint32(0):
        entry = uint64(table.used[0])
        table.slots[slot] = uint32(entry + U1)
        table.one[entry] = one
        table.two[entry] = two
        table.last_rows[entry] = row
        table.counts[entry] = uint32(1)
        table.first_rows[entry] = row
        table.first_starts[entry] = start
        table.used[0] += 1
        return
    entry = uint64(table.slots[slot]) - U1
    if table.last_rows[entry] != row:
        table.last_rows[entry] = row
        table.counts[entry] += uint32(1)


@entry
def fill_slots(table: Table) -> None:
    """Put all entries into the slots, which are free."""
    for number in range(table.used[0]):
        slot = _find(table, table.one[number], table.two[number])
        table.slots[slot] = uint32(uint64(number) + U1)


@entry
def count_anchors(runs: Runs, count: int, first_row: int, table: Table) -> None:
    """Count the texts of each anchor; rows are numbered from ``first_row`` on."""
    for run in range(count):
        _count(table, runs.anchors[run], U0, uint32(runs.rows[run] + uint32(first_row)), uint32(0))


@entry
def keep_runs(runs: Runs, count: int, anchors: Table) -> tuple[int, int]:
    """Move the runs whose anchors are in a table to the front.

    Returns their number, and that of their windows.
    """
    kept, windows = int64(0), int64(0)
    for run in range(count):
        if anchors.slots[_find(anchors, runs.anchors[run], U0)] != uint32(0):
            runs.rows[kept] = runs.rows[run]
            runs.anchors[kept] = runs.anchors[run]
            runs.firsts[kept] = runs.firsts[run]
            runs.lasts[kept] = runs.lasts[run]
            windows += runs.lasts[run] - runs.firsts[run]
            kept += 1
    return kept, windows


@entry
def count_windows(
    runs: Runs,
    count: int,
    first_row: int,
    groups: NDArray[np.uint64],
    prefixes: Prefixes,
    windows: Windows,
    table: Table,
) -> None:
    """Count the texts of each window of some runs."""
    length = uint64(windows.size)
    powers = _power(_BASE_ONE, length), _power(_BASE_TWO, length)
    for run in range(count):
        row = runs.rows[run]
        for number in range(runs.firsts[run], runs.lasts[run]):
            start, _, one, two = _window(prefixes, windows, powers, number, groups[row])
            _count(
                table, one, two, uint32(row + uint32(first_row)),
                uint32(start - windows.edges[row]),
            )  # fmt: skip


@entry
def find_repeated(
    runs: Runs,
    count: int,
    first_row: int,
    groups: NDArray[np.uint64],
    prefixes: Prefixes,
    windows: Windows,
    repeated: Table,
    spans: Found,
    firsts: Found,
) -> tuple[int, int]:
    """Write the windows of runs that are in a table; return the numbers of spans and of firsts.

    ``firsts`` are those that occur here for the first time. Windows of tokens are joined where
    they overlap or touch; units are not.
    """
    length = uint64(windows.size)
    powers = _power(_BASE_ONE, length), _power(_BASE_TWO, length)
    found, first = int64(0), int64(0)
    for run in range(count):
        row = runs.rows[run]
        for number in range(runs.firsts[run], runs.lasts[run]):
            start, stop, one, two = _window(prefixes, windows, powers, number, groups[row])
            slot = repeated.slots[_find(repeated, one, two)]
            if slot == uint32(0):
                continue
            entry = uint64(slot) - U1
            joins = windows.size != 0
            found = _append(spans, found, row, start, stop, repeated.counts[entry], joins)
            if repeated.first_rows[entry] == uint32(
                row + uint32(first_row)
            ) and repeated.first_starts[entry] == uint32(start - windows.edges[row]):
                first = _append(firsts, first, row, start, stop, repeated.counts[entry], joins)
    for span in range(found):
        one, two = _key(prefixes, spans.starts[span], spans.stops[span], U0)
        spans.one[span] = one
        spans.two[span] = two
    return found, first


@kernel(inline="always")
def _append(spans, count, row, start, stop, documents, joins):
    """Append a span, or join it to the last one; return the number of spans."""
    last = count - 1
    if joins and count and spans.rows[last] == row and start <= spans.stops[last]:
        spans.stops[last] = stop
        spans.documents[last] = min(spans.documents[last], documents)
        return count
    spans.rows[count] = row
    spans.starts[count] = start
    spans.stops[count] = stop
    spans.documents[count] = documents
    return count + 1
