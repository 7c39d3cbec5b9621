"""The protocol of a store of digests, the reference that counters are rebuilt from.

A store maps digests to reference counts, 1 and more. A batch of changes is applied as a whole or
not at all, each to a numbered generation. Beside the digests it has a journal of what the last
changes added and removed, so that counters of an earlier generation can be brought up to date
without reading all digests.

The embedded store was chosen by measurement (rocksdict 0.3, lmdb 3.0, sqlite3; keys of 16 random
bytes, values of 4, sorted batches of 65,536, nothing forced to the disk):

| 5 million | new a second | in 220 MB of memory | one by one | then | bytes each |
|---|---|---|---|---|---|
| RocksDB | 913,000 | 650,000 | 237,000 | 249,000 | 31 |
| LMDB | 701,000 | 87,000 | 70,000 | 1,800 | 107 |
| SQLite | 204,000 | | 24,000 | | 24 |

LMDB finds known digests faster while all are in memory (948,000 a second to 855,000). But a B+ tree
has to read the page of a digest to add it, so that to know that it is new saves nothing; RocksDB
appends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError, newer
from mr_dedup.urls.digests import DIGEST_BYTES, Digests

Counts = NDArray[np.uint32]
"""Reference counts, uint32[n]; 0 for a digest that is not in the store."""

VERSION = 1
"""The version of a store's format."""

MAX_COUNT = 2**32 - 1
"""Largest reference count; further additions do not increase it."""


class StoreInUseError(MrDedupError):
    """Another process writes to the store."""


class State(NamedTuple):
    """The state of a store: the number of changes so far, and of digests."""

    generation: int
    size: int


def parse_about(raw: bytes, location: str | Path) -> tuple[bytes, str]:
    """Return the id (16 bytes) of a store and the form of its URLs, from its description.

    Raises FormatError, naming ``location``, if that is damaged or of a newer version.
    """
    try:
        about = json.loads(raw)
        version = about["version"]
        if version > VERSION:
            raise FormatError(location, "about", newer(version, VERSION))
        id, form = bytes.fromhex(about["id"]), about["form"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(location, "about", f"cannot be parsed: {error!r}") from error
    if version < 1 or len(id) != DIGEST_BYTES or not isinstance(form, str):
        raise FormatError(location, "about", "is not of a store of URLs")
    return id, form


@dataclass(frozen=True)
class Change:
    """A change of the counts of some digests.

    Args:
        digests: uint64[n, 2], distinct and ascending.
        before: uint32[n], the counts before.
        after: uint32[n], the counts after.
    """

    digests: Digests
    before: Counts
    after: Counts

    @property
    def added(self) -> Digests:
        """The digests that the change adds to the store."""
        added: Digests = self.digests[(self.before == 0) & (self.after > 0)]
        return added

    @property
    def removed(self) -> Digests:
        """The digests that the change removes from the store."""
        removed: Digests = self.digests[(self.before > 0) & (self.after == 0)]
        return removed


class Entry(NamedTuple):
    """An entry of the journal: what the change to ``generation`` added and removed."""

    generation: int
    added: Digests
    removed: Digests


class DigestStore(Protocol):
    """A store of digests; every implementation passes tests/urls/test_stores.py.

    A change survives the end of the process when ``commit`` has returned. Not to be used by two
    threads at once, nor on both sides of a fork. Methods raise MrDedupError if the store fails or
    cannot be reached.
    """

    id: bytes
    """16 random bytes, drawn when the store was made; the file of counters has them too."""

    form: str
    """The form of its URLs, as text."""

    max_batch: int
    """The largest number of digests of a change; a store that is not shared takes larger ones."""

    shared: bool
    """Whether other processes may change the store too."""

    def state(self) -> State:
        """Return the state of the store."""

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``, in any order."""

    def commit(self, change: Change, generation: int) -> bool:
        """Apply ``change`` to ``generation``, as a whole, which makes the next one.

        Returns False, and changes nothing, if the store is at another generation.
        """

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return the digests whose first 32 bits are in [``first``, ``stop``), in any order.

        None if the store is not at ``generation``.
        """

    def journal(self, generation: int) -> list[Entry] | None:
        """Return what the changes after ``generation`` added and removed, in their order.

        Changes of reference counts alone are not in the journal. None if it begins later.
        """

    def trim(self, generation: int) -> None:
        """Remove the journal up to ``generation``."""

    def close(self) -> None:
        """Close the store; a second call does nothing."""
