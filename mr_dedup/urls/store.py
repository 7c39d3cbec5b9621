"""The store of digests, which is the truth: what it must do, whatever it is made of.

A store maps digests to reference counts, 1 and up, and is changed a batch at a time, all of it or
nothing, each change on top of a numbered generation. Beside the digests it keeps a journal of what
the last changes added and removed, so that counters of an earlier generation are brought up to
date without reading all digests.

Which one is embedded was chosen by measurement (rocksdict 0.3, lmdb 3.0, sqlite3; keys of 16
random bytes, values of 4, sorted batches of 65,536, nothing forced to the disk):

| 5 million | new a second | in 220 MB of memory | one by one | then | bytes each |
|---|---|---|---|---|---|
| RocksDB | 913,000 | 650,000 | 237,000 | 249,000 | 31 |
| LMDB | 701,000 | 87,000 | 70,000 | 1,800 | 107 |
| SQLite | 204,000 | | 24,000 | | 24 |

LMDB finds known digests faster while all are in memory (948,000 a second to 855,000). But a tree of
pages must read the page of a digest to add it, so that to know that it is new saves nothing;
RocksDB appends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.urls.digests import DIGEST_BYTES, Digests

Counts = NDArray[np.uint32]
"""Reference counts, uint32[n]; 0 is that of a digest that is not in the store."""

VERSION = 1
"""The version of what a store says of itself, and of all that is in it."""

MAX_COUNT = 2**32 - 1
"""Where reference counts stop."""


class StoreInUseError(MrDedupError):
    """Another process writes to the store."""


class State(NamedTuple):
    """What a store is at: the number of changes so far, and how many digests it holds."""

    generation: int
    size: int


def parse_about(raw: bytes, place: str | Path) -> tuple[bytes, str]:
    """Return the id (16 bytes) of a store and the form of its URLs, from what it says of itself.

    Raises FormatError, naming ``place``, for what is not that, or of a newer version.
    """
    try:
        about = json.loads(raw)
        version = about["version"]
        if version > VERSION:
            reason = f"version {version} is newer than this mr_dedup reads ({VERSION})"
            raise FormatError(place, "about", reason)
        id, form = bytes.fromhex(about["id"]), about["form"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(place, "about", f"is not understood: {error!r}") from error
    if version < 1 or len(id) != DIGEST_BYTES or not isinstance(form, str):
        raise FormatError(place, "about", "is not of a store of URLs")
    return id, form


@dataclass(frozen=True)
class Change:
    """What a batch makes of some digests: distinct, ascending, with their counts around it."""

    digests: Digests
    before: Counts
    after: Counts

    @property
    def added(self) -> Digests:
        """The digests that were not in the store."""
        added: Digests = self.digests[(self.before == 0) & (self.after > 0)]
        return added

    @property
    def removed(self) -> Digests:
        """The digests that are no longer in the store."""
        removed: Digests = self.digests[(self.before > 0) & (self.after == 0)]
        return removed


class Entry(NamedTuple):
    """What one change, which led to ``generation``, added and removed."""

    generation: int
    added: Digests
    removed: Digests


class DigestStore(Protocol):
    """A store of digests; every implementation passes tests/urls/test_stores.py.

    What ``commit`` returned from is kept if the process is killed. Not to be used by two threads
    at once, nor on both sides of a fork. Methods raise MrDedupError where the store fails or is
    out of reach.
    """

    id: bytes
    """16 random bytes, drawn when the store was made: counters name the store they are of."""

    form: str
    """The form of the URLs whose digests it holds, as text."""

    max_batch: int
    """The most digests of a change, but for one of a store that is not shared and must be whole."""

    shared: bool
    """Whether other processes may change the store too."""

    def state(self) -> State:
        """Return what the store is at now."""

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``, in any order."""

    def commit(self, change: Change, generation: int) -> bool:
        """Make ``change`` on top of ``generation``, all of it, and be at the next one.

        False, and nothing is changed, if the store is at another generation.
        """

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return, in any order, the digests whose first 32 bits are from ``first`` up to ``stop``.

        ``stop`` itself is not among them. None if the store is not at ``generation``.
        """

    def journal(self, generation: int) -> list[Entry] | None:
        """Return what the changes after ``generation`` added and removed, in their order.

        Changes of reference counts only are left out. None if the journal does not go back so far.
        """

    def trim(self, generation: int) -> None:
        """Say that the journal up to ``generation`` is not needed any more."""

    def close(self) -> None:
        """Let go of the store; it is of no use then. A second call does nothing."""
