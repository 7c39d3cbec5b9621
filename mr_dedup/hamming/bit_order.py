"""Permutations of the bits of fingerprints, so that every block of a table design has varying bits.

Distances do not change if the bits of all fingerprints are permuted in the same way. If
fingerprints share their leading bits, the table of a block of leading bits has a single bucket;
with the constant bits spread over all blocks, every table is a little less selective instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.design import BITS

Fingerprints = NDArray[np.uint64]


@dataclass(frozen=True)
class BitOrder:
    """A permutation of bit positions: bit ``sources[i]`` of a fingerprint becomes bit i.

    Raises ValueError if ``sources`` is not a permutation of 0 to 63.
    """

    sources: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.sources) != list(range(BITS)):
            raise ValueError(f"sources must be a permutation of 0 to {BITS - 1}")

    @classmethod
    def natural(cls) -> BitOrder:
        """Return the identity."""
        return cls(tuple(range(BITS)))

    @classmethod
    def spread(cls, fingerprints: Fingerprints) -> BitOrder:
        """Return the order that spreads the constant bits of ``fingerprints`` uint64[n] evenly.

        Bits are ranked by how close to a half of the fingerprints have them set; rank r moves to
        the position with the six binary digits of r reversed (bit-reversal permutation), so that
        every run of positions has bits of all ranks. O(64 n), so pass a sample.
        """
        ones = np.array(
            [np.count_nonzero(fingerprints >> np.uint64(b) & np.uint64(1)) for b in range(BITS)]
        )
        share = ones / max(1, fingerprints.size)
        # in tenths, so that noise does not reorder the varying bits
        balance = np.round(20 * np.minimum(share, 1 - share))
        ranked = sorted(range(BITS), key=lambda bit: (-balance[bit], -bit))
        positions = [int(f"{rank:06b}"[::-1], 2) for rank in range(BITS)]
        sources = [0] * BITS
        for rank, bit in enumerate(ranked):
            sources[positions[rank]] = bit
        return cls(tuple(sources))

    @classmethod
    def interleaved(cls) -> BitOrder:
        """Return the order for values without a sample: the bit-reversal permutation.

        Every run of positions has leading and trailing bits of a fingerprint, so that leading bits
        that all fingerprints share do not fill a block.
        """
        return cls.spread(np.empty(0, dtype=np.uint64))

    @classmethod
    def parse(cls, text: str) -> BitOrder:
        """Return the order of a text by ``str``, or ``natural`` or ``interleaved``.

        Raises ValueError for another text.
        """
        if text in ("natural", "interleaved"):
            return cls.natural() if text == "natural" else cls.interleaved()
        try:
            return cls(tuple(map(int, text.split(","))))
        except ValueError as error:
            raise ValueError(
                f"bit order must be natural, interleaved or 64 positions from 0 to 63, not {text!r}"
            ) from error

    def __str__(self) -> str:
        return ",".join(map(str, self.sources))

    @property
    def is_natural(self) -> bool:
        """Whether this is the identity."""
        return self.sources == tuple(range(BITS))

    def apply(self, fingerprints: Fingerprints) -> Fingerprints:
        """Return ``fingerprints`` uint64[n] with their bits permuted; itself for the identity.

        About 4 ns a fingerprint.
        """
        return _permuted(fingerprints, self.sources)

    def undo(self, fingerprints: Fingerprints) -> Fingerprints:
        """Return the uint64[n] that ``apply`` would turn into ``fingerprints``."""
        back = [0] * BITS
        for position, source in enumerate(self.sources):
            back[source] = position
        return _permuted(fingerprints, tuple(back))


def _permuted(fingerprints: Fingerprints, sources: tuple[int, ...]) -> Fingerprints:
    from mr_dedup.hamming import kernels

    if sources == tuple(range(BITS)):
        return fingerprints
    destination = {source: position for position, source in enumerate(sources)}
    byte_tables = np.zeros((BITS // 8, 256), dtype=np.uint64)
    values = np.arange(256, dtype=np.uint64)
    for bit in range(BITS):
        byte, within = divmod(bit, 8)
        moved = (values >> np.uint64(within) & np.uint64(1)) << np.uint64(destination[bit])
        byte_tables[byte] |= moved
    out = np.empty(fingerprints.size, np.uint64)
    kernels.permute_bits(np.ascontiguousarray(fingerprints), byte_tables, out)
    return out
