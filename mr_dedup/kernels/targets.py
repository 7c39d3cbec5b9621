"""The kinds of processors that kernels are compiled for."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from mr_dedup.errors import MrDedupError


class Target(NamedTuple):
    """Processors that one library is compiled for.

    Attributes:
        triple: LLVM's name of the machine and its system.
        cpu: LLVM's name of the processor.
        features: Further ones, as LLVM spells them.
        flags: What /proc/cpuinfo lists of each such processor.
    """

    triple: str
    cpu: str
    features: str
    flags: frozenset[str]


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"

_V2 = frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])
_V3 = _V2 | frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
_POPCNT = frozenset(["avx512_bitalg", "avx512_vpopcntdq", "avx512_vbmi2", "avx512vbmi"])

TARGETS = {
    "x86-64-v4-vpopcnt": Target(
        _X86, "x86-64-v4", "+avx512bitalg,+avx512vpopcntdq,+avx512vbmi2,+avx512vbmi",
        _V4 | _POPCNT,
    ),
    "x86-64-v4": Target(_X86, "x86-64-v4", "", _V4),
    "x86-64-v3": Target(_X86, "x86-64-v3", "", _V3),
    "x86-64-v2": Target(_X86, "x86-64-v2", "", _V2),
    "aarch64": Target(_ARM, "generic", "", frozenset()),
}  # fmt: skip
"""By name, the fastest first. Of 32 distances at once the first makes two instructions."""


def targets_for(machine: str, flags: Set[str]) -> list[str]:
    """Return the names of the targets that a processor runs, the fastest first.

    Args:
        machine: As ``uname -m`` names it.
        flags: What /proc/cpuinfo lists of an x86-64 processor.

    Raises:
        MrDedupError: There are none.

    Example:
        >>> targets_for("aarch64", set())
        ['aarch64']
    """
    found = [
        name
        for name, target in TARGETS.items()
        if target.triple.startswith(f"{machine}-") and target.flags <= flags
    ]
    if not found:
        raise MrDedupError(
            f"this processor is not supported: {machine}; required are aarch64, or x86_64 with"
            " SSE 4.2 and POPCNT"
        )
    return found
