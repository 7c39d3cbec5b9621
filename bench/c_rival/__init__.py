"""search.c, compiled here and now for this processor, called through ctypes."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.design import TableDesign

SOURCE = Path(__file__).with_name("search.c")

_LANES = 32
_NO_FOLD = 64
_BLOCK = 1 << 21  # probed at a time; half as many cost a twentieth more, all at once no less
_PART_SIZE = 1 << 12  # indexed fingerprints a part covers: 2**14 cost a tenth more
_CAPACITY = 1 << 22
_OVERFLOW = 2**64 - 1

Fingerprints = NDArray[np.uint64]


@dataclass(frozen=True)
class CSearch:
    """The compiled search for one distance."""

    library: ctypes.CDLL
    k: int

    @classmethod
    def compile(cls, k: int) -> CSearch | None:
        """Return the search for distance ``k``, or None where there is no C compiler."""
        compiler = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
        if compiler is None:
            return None
        with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
            library = Path(folder) / "search.so"
            flags = ["-O3", "-march=native", f"-DK={k}", "-shared", "-fPIC"]
            subprocess.run([compiler, *flags, "-o", library, SOURCE], check=True)
            loaded = ctypes.CDLL(str(library))  # stays loaded when its file goes
        loaded.probe.restype = ctypes.c_uint64
        return cls(loaded, k)

    def build(self, indexed: Fingerprints, design: TableDesign, directory_bits: int) -> CTables:
        """Return the tables of ``design`` over ``indexed`` uint64[n]."""
        return CTables(self.library, indexed, design, directory_bits)


class CTables:
    """Tables as search.c reads them."""

    def __init__(
        self,
        library: ctypes.CDLL,
        indexed: Fingerprints,
        design: TableDesign,
        directory_bits: int,
    ) -> None:
        self._library = library
        self._indexed = indexed
        # the struct ``table``: five numbers of the hashing, three pointers
        self._tables = np.zeros((len(design.masks), 8), dtype=np.uint64)
        self._arrays = []  # what the pointers point to
        for number, row in enumerate(self._tables):
            hashing = design.hashing(number, directory_bits)
            fold = _NO_FOLD if hashing.fold is None else hashing.fold
            row[:5] = hashing.mask, hashing.first, fold, hashing.second, hashing.shift
            buckets = 1 << hashing.bits
            starts = np.empty(buckets + 1, dtype=np.uint32)
            signatures = np.empty(indexed.size + _LANES, dtype=np.uint32)
            slots = np.empty(indexed.size, dtype=np.uint32)
            library.build_table(
                _pointer(indexed), _number(indexed.size), _pointer(row), _number(buckets),
                _pointer(starts), _pointer(signatures), _pointer(slots),
            )  # fmt: skip
            row[5:] = [array.ctypes.data for array in (starts, signatures, slots)]
            self._arrays.append((starts, signatures, slots))

    def probe(self, stream: Fingerprints) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Yield the pairs (from ``stream`` uint64[n], indexed) within k bits, in blocks.

        Raises MemoryError if a block has more than fit: this is for comparing, not for use.
        """
        part_bits = max(1, round(math.log2(max(2, self._indexed.size / _PART_SIZE))))
        scratch = np.empty(min(_BLOCK, stream.size), dtype=np.uint64)
        ends = np.empty(1 << part_bits, dtype=np.uint64)
        found = np.empty(_CAPACITY, dtype=np.uint64)
        others = np.empty(_CAPACITY, dtype=np.uint64)
        for start in range(0, stream.size, _BLOCK):
            block = stream[start : start + _BLOCK]
            written = self._library.probe(
                _pointer(block), _number(block.size), _pointer(scratch),
                ctypes.c_uint32(part_bits), _pointer(ends), _pointer(self._indexed),
                _number(self._indexed.size), _pointer(self._tables), _number(len(self._tables)),
                _pointer(found), _pointer(others), _number(_CAPACITY),
            )  # fmt: skip
            if written == _OVERFLOW:
                raise MemoryError(f"more than {_CAPACITY:,} pairs of one block")
            yield found[:written].copy(), others[:written].copy()


def _pointer(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _number(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)
