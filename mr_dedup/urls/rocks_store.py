"""The embedded store of digests: RocksDB, for one process at a time.

RocksDB appends changes to a log and sorts them later, so that a new digest is written without
reading its neighbours. Digests and their counts are one column family; the journal and the state
are another, written in the same batch. The operating system has a batch when it is written: it
survives the end of the process, and a loss of power only with ``sync``.
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

MAX_BATCH = 1 << 20
CONVERTED_KEYS = 1 << 16
"""Keys that are Python objects, of 100 bytes, at a time; in RocksDB's batch they take 23 each."""

# with 16, 2 and 8 MB, 3 million URLs in 270 MB took 0.7 of the time, a million with memory to spare
# up to 1.4 times as long
_WRITE_BUFFER_BYTES = 32 << 20
_STATE_BUFFER_BYTES = 8 << 20
_BLOCK_CACHE_BYTES = 32 << 20


class RocksStore:
    """A directory of RocksDB's files, locked by the process that has it open.

    Takes 100 MB of memory for a million digests, 150 to 200 MB for 5 million; on disk 31 bytes
    each, twice that while they are sorted.

    Args:
        folder: made if it is missing.
        form: of the URLs of a new store.
        sync: force each change to the disk.
        fixed_path: leads to the directory even if that is moved.
        require_same: called before each change; raises MrDedupError if the directory was moved.
        max_batch: the largest number of digests of a change that the filter makes.
        converted_keys: digests that are converted to Python objects at a time.
        bloom_bits: of RocksDB's own Bloom filters, a digest; None for no filters.

    Raises:
        MrDedupError: the directory cannot be opened, or its content is damaged.
    """

    _generation: int
    _size: int
    _journal_after: int

    shared = False

    def __init__(
        self,
        folder: Path,
        form: str = "",
        *,
        sync: bool = False,
        fixed_path: Path | None = None,
        require_same: Callable[[], object] = lambda: None,
        max_batch: int = MAX_BATCH,
        converted_keys: int = CONVERTED_KEYS,
        bloom_bits: float | None = 10.0,
    ) -> None:
        try:
            import rocksdict
        except ImportError as error:
            raise MrDedupError(
                "a store of URLs needs rocksdict: pip install 'mr-dedup[urls]'"
            ) from error
        self._folder, self._fixed_path = folder, fixed_path or folder
        self._require_same = require_same
        self.max_batch, self._converted_keys = max_batch, converted_keys
        self._batch = rocksdict.WriteBatch
        self._read_options = rocksdict.ReadOptions
        with self._named_errors():
            self._db: Any = rocksdict.Rdict(
                str(self._fixed_path),
                _options(rocksdict, _WRITE_BUFFER_BYTES, bloom_bits),
                {_STATE_FAMILY: _options(rocksdict, _STATE_BUFFER_BYTES, bloom_bits)},
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
        """Return the state of the store."""
        return State(self._generation, self._size)

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``; 2 to 4 microseconds each."""
        if not len(digests):
            return np.empty(0, dtype=np.uint32)
        with self._named_errors():
            found = self._db.get(keys_of(digests))
        joined = b"".join([_NO_COUNT if count is None else count for count in found])
        if len(joined) != _COUNT.itemsize * len(digests):
            raise FormatError(self._folder, "counts", f"some are not of {_COUNT.itemsize} bytes")
        return np.frombuffer(joined, dtype=_COUNT).astype(np.uint32)

    def commit(self, change: Change, generation: int) -> bool:
        """Apply ``change`` to ``generation`` as a whole; False if the store is at another one."""
        if generation != self._generation:
            return False
        self._require_same()
        batch = self._batch(raw_mode=True)
        put = batch.put
        for start in range(0, len(change.digests), self._converted_keys):
            part = slice(start, start + self._converted_keys)
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
            with self._named_errors():
                self._db.write(batch, self._write_options)
            self._generation, self._size, _ = state
        except BaseException:
            # an interrupt may have come after it was written
            self._read_state()
            raise
        return True

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return the digests whose first 32 bits are in [``first``, ``stop``); 0.3 µs each."""
        if generation != self._generation:
            return None
        options = self._read_options()
        if stop < 1 << 32:
            options.set_iterate_upper_bound(struct.pack(">I", stop))
        with self._named_errors():
            keys = self._db.keys(from_key=struct.pack(">I", first), read_opt=options)
            return from_bytes(b"".join(keys))

    def journal(self, generation: int) -> list[Entry] | None:
        """Return the changes after ``generation``; None if the journal begins later."""
        if not self._journal_after <= generation <= self._generation:
            return None
        options = self._read_options()
        options.set_iterate_upper_bound(_journal_key(1 << 63))
        with self._named_errors():
            rows = self._state_family.items(from_key=_journal_key(generation + 1), read_opt=options)
            return [self._entry(key, value) for key, value in rows]

    def trim(self, generation: int) -> None:
        """Remove the journal up to ``generation``."""
        self._require_same()
        batch = self._batch(raw_mode=True)
        batch.delete_range(_journal_key(0), _journal_key(generation + 1), self._state_handle)
        self._journal_after = max(self._journal_after, generation)
        state = _STATE_LAYOUT.pack(self._generation, self._size, self._journal_after)
        batch.put(_STATE, state, self._state_handle)
        with self._named_errors():
            self._db.write(batch, self._write_options)

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        if self._open:
            self._open = False
            # each of these keeps the files of RocksDB open, and locked
            del self._state_family, self._state_handle
            with self._named_errors():
                self._db.close()

    def _begin(self, form: str) -> None:
        self.id, self.form = secrets.token_bytes(16), form
        about = {"version": VERSION, "id": self.id.hex(), "form": form}
        batch = self._batch(raw_mode=True)
        batch.put(_ABOUT, json.dumps(about).encode(), self._state_handle)
        batch.put(_STATE, _STATE_LAYOUT.pack(0, 0, 0), self._state_handle)
        with self._named_errors():
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
    def _named_errors(self) -> Iterator[None]:
        """Raise errors of RocksDB as MrDedupError, with the name of the directory."""
        try:
            yield
        except Exception as error:
            # the binding raises Exception itself for errors of RocksDB; subclasses are bugs
            if type(error) is not Exception:
                raise
            reason = " ".join(str(error).split()).replace(str(self._fixed_path), str(self._folder))
            raise MrDedupError(f"{self._folder}: {reason}") from error


def _options(rocksdict: Any, write_buffer_bytes: int, bloom_bits: float | None) -> Any:
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
    # a known digest is looked up in several files; the filters skip most of them
    if bloom_bits is not None:
        table.set_bloom_filter(bloom_bits, False)
    options.set_block_based_table_factory(table)
    return options


def _journal_key(generation: int) -> bytes:
    return _JOURNAL + struct.pack(">Q", generation)
