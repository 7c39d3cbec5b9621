"""The embedded store of digests: RocksDB, for one process at a time.

RocksDB appends changes to a log and sorts them later, so that a new digest is written without
reading what lies around it. Digests and their counts are one column family; the journal and what
the store is at are another, written in the same batch. A batch that was written is in the
operating system's hands: it survives the end of the process, however it comes, and a loss of power
only with ``sync``.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.urls.digests import DIGEST_BYTES, Digests, from_bytes, keys_of, to_bytes
from mr_dedup.urls.store import VERSION, Change, Counts, Entry, State, parse_about

_STATE_FAMILY = "state"
_ABOUT, _STATE, _JOURNAL = b"about", b"state", b"journal"
_STATE_LAYOUT = struct.Struct("<QQQ")  # generation, size, the generation the journal begins after
_COUNT = np.dtype("<u4")
_NO_COUNT = bytes(4)

_KEYS_AT_ONCE = 1 << 16
"""Keys that are Python's objects, of 100 bytes, before they are in RocksDB's batch, 23 each."""

# with 16, 2 and 8 MB, 3 million URLs in 270 MB took 0.7 of the time, a million with memory to spare
# up to 1.4 times as long
_WRITE_BUFFER_BYTES = 32 << 20
_STATE_BUFFER_BYTES = 8 << 20
_BLOCK_CACHE_BYTES = 32 << 20
_BLOOM_BITS: float | None = 10.0


class RocksStore:
    """A folder of RocksDB's files.

    Takes 100 MB of memory for a million digests, 150 to 200 MB for 5 million; on disk 31 bytes
    each, in the midst of being sorted twice that.

    Whoever opens it holds it alone: RocksDB refuses a second one.
    """

    _generation: int
    _size: int
    _journal_after: int

    shared = False
    max_batch = 1 << 20

    def __init__(
        self,
        folder: Path,
        form: str = "",
        *,
        sync: bool = False,
        fixed_path: Path | None = None,
        require_same: Callable[[], object] = lambda: None,
    ) -> None:
        """Open the store in ``folder``, which is made if it is missing, for URLs of ``form``.

        ``sync`` forces each change to the disk. ``fixed_path`` leads to the folder even if it is
        moved; ``require_same`` raises MrDedupError if it was, and is called before each change.
        Raises MrDedupError where it cannot be opened.
        """
        try:
            import rocksdict
        except ImportError as error:
            raise MrDedupError(
                "a store of URLs needs rocksdict: pip install 'mr-dedup[urls]'"
            ) from error
        self._folder, self._fixed_path = folder, fixed_path or folder
        self._require_same = require_same
        self._batch = rocksdict.WriteBatch
        self._read_options = rocksdict.ReadOptions
        with self._told():
            self._db: Any = rocksdict.Rdict(
                str(self._fixed_path),
                _options(rocksdict, _WRITE_BUFFER_BYTES),
                {_STATE_FAMILY: _options(rocksdict, _STATE_BUFFER_BYTES)},
            )
            self._state_family: Any = self._db.get_column_family(_STATE_FAMILY)
            self._state_handle = self._db.get_column_family_handle(_STATE_FAMILY)
        options = rocksdict.WriteOptions()
        options.sync = sync
        self._write_options = options
        self._open = True
        try:
            about = self._state_family.get(_ABOUT)
            if about is not None:
                self.id, self.form = parse_about(about, folder)
            elif next(iter(self._db.keys()), None) is None:
                self._begin(form)
            else:
                raise FormatError(folder, "about", "is missing, and there are digests")
            self._read_state()
        except BaseException:
            self.close()
            raise

    def state(self) -> State:
        """Return what the store is at now."""
        return State(self._generation, self._size)

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``; 2 to 4 microseconds each."""
        if not len(digests):
            return np.empty(0, dtype=np.uint32)
        with self._told():
            found = self._db.get(keys_of(digests))
        joined = b"".join([_NO_COUNT if count is None else count for count in found])
        if len(joined) != _COUNT.itemsize * len(digests):
            raise FormatError(self._folder, "counts", f"some are not of {_COUNT.itemsize} bytes")
        return np.frombuffer(joined, dtype=_COUNT).astype(np.uint32)

    def commit(self, change: Change, generation: int) -> bool:
        """Make ``change`` on top of ``generation``, all of it; False if the store is elsewhere."""
        if generation != self._generation:
            return False
        self._require_same()
        batch = self._batch(raw_mode=True)
        put = batch.put
        for start in range(0, len(change.digests), _KEYS_AT_ONCE):
            part = slice(start, start + _KEYS_AT_ONCE)
            counts = change.after[part].astype(_COUNT).view("V4").tolist()
            for key, count in zip(keys_of(change.digests[part]), counts, strict=True):
                if count != _NO_COUNT:
                    put(key, count)
                else:
                    batch.delete(key)
        added, removed = change.added, change.removed
        state = (generation + 1, self._size + len(added) - len(removed), self._journal_after)
        put(_STATE, _STATE_LAYOUT.pack(*state), self._state_handle)
        if len(added) or len(removed):
            entry = struct.pack("<Q", len(added)) + to_bytes(added) + to_bytes(removed)
            put(_journal_key(generation + 1), entry, self._state_handle)
        try:
            with self._told():
                self._db.write(batch, self._write_options)
            self._generation, self._size, _ = state
        except BaseException:
            # an interrupt may have come after it was written
            self._read_state()
            raise
        return True

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return the digests of a range of first 32 bits; 0.3 microseconds each, and a search."""
        if generation != self._generation:
            return None
        options = self._read_options()
        if stop < 1 << 32:
            options.set_iterate_upper_bound(struct.pack(">I", stop))
        with self._told():
            keys = self._db.keys(from_key=struct.pack(">I", first), read_opt=options)
            return from_bytes(b"".join(keys))

    def journal(self, generation: int) -> list[Entry] | None:
        """Return what the changes after ``generation`` added and removed; None if not known."""
        if not self._journal_after <= generation <= self._generation:
            return None
        options = self._read_options()
        options.set_iterate_upper_bound(_journal_key(1 << 63))
        with self._told():
            rows = self._state_family.items(from_key=_journal_key(generation + 1), read_opt=options)
            return [self._entry(key, value) for key, value in rows]

    def trim(self, generation: int) -> None:
        """Drop the journal up to ``generation``."""
        self._require_same()
        batch = self._batch(raw_mode=True)
        batch.delete_range(_journal_key(0), _journal_key(generation + 1), self._state_handle)
        self._journal_after = max(self._journal_after, generation)
        state = _STATE_LAYOUT.pack(self._generation, self._size, self._journal_after)
        batch.put(_STATE, state, self._state_handle)
        with self._told():
            self._db.write(batch, self._write_options)

    def close(self) -> None:
        """Let go of the store."""
        if self._open:
            self._open = False
            # each of these would keep RocksDB's files open, and locked
            del self._state_family, self._state_handle
            with self._told():
                self._db.close()

    def _begin(self, form: str) -> None:
        self.id, self.form = secrets.token_bytes(16), form
        about = {"version": VERSION, "id": self.id.hex(), "form": form}
        batch = self._batch(raw_mode=True)
        batch.put(_ABOUT, json.dumps(about).encode(), self._state_handle)
        batch.put(_STATE, _STATE_LAYOUT.pack(0, 0, 0), self._state_handle)
        with self._told():
            self._db.write(batch, self._write_options)

    def _read_state(self) -> None:
        raw = self._state_family.get(_STATE) or b""
        if len(raw) != _STATE_LAYOUT.size:
            reason = f"is of {len(raw)} bytes, {_STATE_LAYOUT.size} expected"
            raise FormatError(self._folder, "state", reason)
        self._generation, self._size, self._journal_after = _STATE_LAYOUT.unpack(raw)

    def _entry(self, key: bytes, value: bytes) -> Entry:
        generation = int.from_bytes(key[len(_JOURNAL) :], "big")
        digests = from_bytes(value[8 : len(value) - (len(value) - 8) % DIGEST_BYTES])
        added_count = int.from_bytes(value[:8], "little")
        if len(value) != 8 + DIGEST_BYTES * len(digests) or added_count > len(digests):
            raise FormatError(self._folder, f"journal {generation}", "is not of digests")
        return Entry(generation, digests[:added_count], digests[added_count:])

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what RocksDB raises into an MrDedupError that names the folder."""
        try:
            yield
        except Exception as error:
            # the binding raises bare Exception, with RocksDB's own words; others are bugs
            if type(error) is not Exception:
                raise
            reason = " ".join(str(error).split()).replace(str(self._fixed_path), str(self._folder))
            raise MrDedupError(f"{self._folder}: {reason}") from error


def _options(rocksdict: Any, write_buffer_bytes: int) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    # digests do not compress
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_max_write_buffer_number(2)
    options.increase_parallelism(2)
    options.set_keep_log_file_num(2)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(_BLOCK_CACHE_BYTES))
    # known digests are looked for in several files; without filters of RocksDB's in each
    if _BLOOM_BITS is not None:
        table.set_bloom_filter(_BLOOM_BITS, False)
    options.set_block_based_table_factory(table)
    return options


def _journal_key(generation: int) -> bytes:
    return _JOURNAL + struct.pack(">Q", generation)
