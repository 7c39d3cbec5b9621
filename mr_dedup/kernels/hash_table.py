# mypy: ignore-errors
"""Open addressing with linear probing: the one search loop of all hash tables in kernels.

A table has 2**b slots, of which at least one is free, and keys whose low bits are uniform: hashes,
or the result of a hash function.
"""

from __future__ import annotations

from numpy import uint64

from mr_dedup.kernels.entry import kernel
from mr_dedup.kernels.unsigned import U1


@kernel
def find_slot(keys, used, key):
    """Return the slot of ``key``, uint64, or the free slot where it is to be inserted.

    ``keys`` uint64[2**b]; ``used`` [2**b] of any unsigned type, 0 where a slot is free.
    """
    last = uint64(keys.size) - U1
    slot = key & last
    while used[slot] and keys[slot] != key:
        slot = (slot + U1) & last
    return slot


@kernel
def find_row_slot(rows, last, start, keys, key):
    """Return the slot of the row of ``keys`` that is ``key``, or the free slot to insert it at.

    ``rows`` has, in its slots 0 to ``last`` = 2**b - 1, one more than the row of a key, or 0 where
    a slot is free; the search begins at slot ``start``, at most ``last``. ``keys`` [n] may be of
    any type that compares with ``key``.
    """
    slot = start
    while rows[slot] and keys[uint64(rows[slot]) - U1] != key:
        slot = (slot + U1) & last
    return slot
