"""Keep several documents of each group of duplicates: the first ones, or a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Decisions, Reason

DEFAULT_POWER = 0.5
"""Of a group of n documents about the square root of n are kept."""

_REPEAT = 0x9E3779B97F4A7C15
_SEEDS = 1 << 64
_MAX_DOCUMENTS = 1 << 31


@dataclass(frozen=True)
class Retention:
    """How many documents of a group are kept: a kept document and those that duplicate it.

    Attributes:
        per_cluster: The number of documents that are kept, the first by the policy.
        power: Each document but the first is kept with probability (n^power - 1) / (n - 1), where n
            is the number of documents of its group; so about n^power are. None without a sample.
        seed: Chooses another sample, 0 to 2^64 - 1.

    Raises:
        ValueError: For values out of range, and for both a number and a power.
    """

    per_cluster: int = 1
    power: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.per_cluster < _MAX_DOCUMENTS:
            raise ValueError(f"per_cluster must be from 1 to 2^31 - 1, not {self.per_cluster}")
        if self.power is not None and not 0 <= self.power <= 1:
            raise ValueError(f"power must be from 0 to 1, not {self.power}")
        if self.power is not None and self.per_cluster > 1:
            raise ValueError("per_cluster and power: expected one of them")
        if not 0 <= self.seed < _SEEDS:
            raise ValueError(f"seed must be from 0 to 2^64 - 1, not {self.seed}")

    @classmethod
    def parse_sample(cls, text: str, seed: int = 0) -> Retention:
        """Return what ``text`` names: weight, or weight:POWER.

        >>> Retention.parse_sample("weight:0.75")
        Retention(per_cluster=1, power=0.75, seed=0)
        """
        kind, colon, number = text.partition(":")
        try:
            power = float(number) if colon else DEFAULT_POWER
        except ValueError:
            power = math.nan
        if kind != "weight" or not 0 <= power <= 1:
            raise ValueError(f"expected weight or weight:POWER, a power from 0 to 1, got {text!r}")
        return cls(power=power, seed=seed)

    @property
    def keeps_several(self) -> bool:
        """Whether more than the first document of a group may be kept."""
        return self.per_cluster > 1 or bool(self.power)


def retain(
    decisions: Decisions,
    ids: pa.LargeStringArray,
    order: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    retention: Retention,
) -> Decisions:
    """Return ``decisions`` on n documents, by which more of each group are kept.

    ``order`` int64[n] are the rows of the documents, best first, ``fixed`` bool[n] are those that
    an earlier run kept: what duplicates these is dropped all the same.

    A document is in a sample if the XXH3-64 of its id, with ``seed``, is below 2^64 times the
    probability; the k-th one of that id in its group, from 0, with the seed XOR
    k * 0x9E3779B97F4A7C15, modulo 2^64. A microsecond a dropped document.
    """
    dropped = order[decisions.kept_rows[order] != order]
    dropped = dropped[~fixed[decisions.kept_rows[dropped]]]
    if not retention.keeps_several or not dropped.size:
        return decisions
    # by groups, in each by the policy
    dropped = dropped[np.argsort(decisions.kept_rows[dropped], kind="stable")]
    groups, starts, others = np.unique(
        decisions.kept_rows[dropped], return_index=True, return_counts=True
    )
    del groups
    if retention.power is None:
        rank = np.arange(dropped.size) - np.repeat(starts, others) + 1
        chosen, reason = rank < retention.per_cluster, Reason.AMONG_FIRST
    else:
        chosen = _sampled(ids.take(pa.array(dropped)).to_pylist(), others, retention)
        reason = Reason.SAMPLED
    rows = dropped[chosen]
    changed = replace(
        decisions,
        kept_rows=decisions.kept_rows.copy(),
        distances=decisions.distances.copy(),
        similarities=decisions.similarities.copy(),
        reasons=decisions.reasons.copy(),
    )
    changed.kept_rows[rows], changed.distances[rows] = rows, 0
    changed.similarities[rows], changed.reasons[rows] = np.nan, reason
    return changed


def _sampled(ids: list[str], others: NDArray[np.int64], retention: Retention) -> NDArray[np.bool_]:
    """Return which documents are in a sample; of each group there are so many ``others``."""
    assert retention.power is not None
    chosen = []
    rows = iter(ids)
    for count in others.tolist():
        limit = ((count + 1) ** retention.power - 1) / count * 2.0**64
        seen: dict[str, int] = {}
        for id in (next(rows) for _ in range(count)):
            number = seen.get(id, 0)
            seen[id] = number + 1
            seed = retention.seed ^ (number * _REPEAT % _SEEDS)
            chosen.append(xxhash.xxh3_64_intdigest(id.encode(), seed) < limit)
    return np.array(chosen, bool)
