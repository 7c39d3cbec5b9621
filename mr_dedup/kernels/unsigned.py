"""Constants of type uint64 for kernels.

numba types ``uint64 + 1`` as int64, so every literal beside an unsigned number is one of these.
"""

from __future__ import annotations

import numpy as np

U = np.uint64
U0, U1, U2, U3, U4, U5, U6, U8, U10, U15, U16 = (U(n) for n in (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 16))
U30, U31, U32, U63, U64 = (U(n) for n in (30, 31, 32, 63, 64))
ALL_BITS = ~U0

FACTORS = U(0x9E3779B97F4A7C15), U(0xD6E8FEB86659FD93)
"""Odd numbers by which keys are hashed together; keys that results store depend on them."""
