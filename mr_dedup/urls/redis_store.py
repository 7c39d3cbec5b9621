"""The store of digests that several crawlers share: in Redis, changed by scripts that run whole.

A store is the keys that begin with ``{mr-dedup:NAME}:``: ``state``, ``journal`` (a stream), and
65,536 hashes, one for each 2 leading bytes of digests, with the other 14 as fields. So the digests
of a range are a few hashes, and small hashes take little memory. Who changes the store names the
generation that he knows; the script does nothing if another one was first. What Redis keeps when
it ends itself is for its settings to say (``appendonly yes``).
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.urls.digests import DIGEST_BYTES, Digests, from_bytes, to_bytes
from mr_dedup.urls.store import VERSION, Change, Counts, Entry, State, parse_about

SCHEMES = ("redis", "rediss", "unix")
DEFAULT_NAME = "urls"

JOURNAL_DIGESTS = 1 << 20
"""What the journal holds at most, 16 MB: who is further behind reads all digests instead."""

_BUCKETS_AT_ONCE = 256
"""Hashes read by one call of a script, during which Redis serves nobody else."""

_BEGIN = """
local about = redis.call('HGET', KEYS[1], 'about')
if about then return about end
redis.call('HSET', KEYS[1], 'about', ARGV[1], 'generation', 0, 'size', 0,
           'journal_after', 0, 'journal_size', 0)
return ARGV[1]
"""

_COUNTS = """
local found = {}
for at = 1, #ARGV[1], 16 do
  local bucket = KEYS[1] .. string.sub(ARGV[1], at, at + 1)
  local count = redis.call('HGET', bucket, string.sub(ARGV[1], at + 2, at + 15))
  found[#found + 1] = struct.pack('<I4', tonumber(count or 0))
end
return table.concat(found)
"""

# the generation; digests and their counts; what was added and removed; the limit of the journal
_COMMIT = """
local state, journal = KEYS[1], KEYS[2]
if redis.call('HGET', state, 'generation') ~= ARGV[1] then return 0 end
for at = 1, #ARGV[2], 16 do
  local bucket = KEYS[3] .. string.sub(ARGV[2], at, at + 1)
  local field = string.sub(ARGV[2], at + 2, at + 15)
  local count = struct.unpack('<I4', ARGV[3], (at - 1) / 4 + 1)
  if count > 0 then redis.call('HSET', bucket, field, count)
  else redis.call('HDEL', bucket, field) end
end
local generation = redis.call('HINCRBY', state, 'generation', 1)
redis.call('HINCRBY', state, 'size', (#ARGV[4] - #ARGV[5]) / 16)
local size = (#ARGV[4] + #ARGV[5]) / 16
if size == 0 then return 1 end
redis.call('XADD', journal, generation .. '-0', 'added', ARGV[4], 'removed', ARGV[5])
size = redis.call('HINCRBY', state, 'journal_size', size)
while size > tonumber(ARGV[6]) do
  local oldest = redis.call('XRANGE', journal, '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', journal, oldest[1])
  local dropped = (#oldest[2][2] + #oldest[2][4]) / 16
  size = redis.call('HINCRBY', state, 'journal_size', -dropped)
  redis.call('HSET', state, 'journal_after', string.sub(oldest[1], 1, -3))
end
return 1
"""

_BETWEEN = """
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return false end
local found = {}
for bucket = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  local prefix = struct.pack('>I2', bucket)
  for _, field in ipairs(redis.call('HKEYS', KEYS[2] .. prefix)) do
    found[#found + 1] = prefix .. field
  end
end
return table.concat(found)
"""

_JOURNAL = """
if tonumber(redis.call('HGET', KEYS[1], 'journal_after')) > tonumber(ARGV[1]) then return false end
return redis.call('XRANGE', KEYS[2], '(' .. ARGV[1] .. '-0', '+')
"""


class RedisStore:
    """The keys of one name in a Redis server, 6.2 or later.

    A digest takes 40 to 100 bytes of the server's memory: the less the more there are, up to 33
    million by the server's ``hash-max-ziplist-entries`` of 512 (from version 7 on set
    ``hash-max-listpack-entries`` to it, which is 128).
    """

    shared = True
    max_batch = 1 << 12

    def __init__(
        self,
        address: str,
        form: str = "",
        *,
        create: bool = True,
        journal_digests: int = JOURNAL_DIGESTS,
    ) -> None:
        """Open the store at ``redis://[:password@]host:port/database#NAME``, made if missing.

        The name is ``urls`` if none is given; a store that is made is for URLs of ``form``. Raises
        MrDedupError if the server is out of reach, or has no such store and not ``create``.
        """
        try:
            import redis
        except ImportError as error:
            raise MrDedupError(
                "a store of URLs in Redis needs redis: pip install 'mr-dedup[redis]'"
            ) from error
        self._address, name = _parsed(address)
        self._failures = (redis.RedisError, OSError)
        prefix = b"{mr-dedup:%b}:" % name.encode()
        self._state, self._journal, self._buckets = prefix + b"state", prefix + b"journal", prefix
        self._journal_digests = journal_digests
        try:
            self._redis: Any = redis.Redis.from_url(address.partition("#")[0])
        except ValueError as error:
            raise MrDedupError(f"{self._address}: not an address of Redis: {error}") from error
        register = self._redis.register_script
        self._begin, self._counts, self._commit, self._between, self._read_journal = (
            register(script) for script in (_BEGIN, _COUNTS, _COMMIT, _BETWEEN, _JOURNAL)
        )
        about = {"version": VERSION, "id": secrets.token_hex(DIGEST_BYTES), "form": form}
        with self._told():
            if not create and not self._redis.exists(self._state):
                raise MrDedupError(f"{self._address}: holds no store of URLs")
            found = self._begin([self._state], [json.dumps(about)])
        self.id, self.form = parse_about(found, self._address)

    def state(self) -> State:
        """Return what the store is at now."""
        with self._told():
            generation, size = self._redis.hmget(self._state, "generation", "size")
        if generation is None:
            raise MrDedupError(f"{self._address}: the store was removed while it was open")
        try:
            return State(int(generation), int(size))
        except (TypeError, ValueError) as error:
            reason = f"generation {generation!r} and size {size!r} are not numbers"
            raise FormatError(self._address, "state", reason) from error

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``; one round trip for each 4,096."""
        found = []
        for start in range(0, len(digests), self.max_batch):
            part = to_bytes(digests[start : start + self.max_batch])
            with self._told():
                found.append(self._counts([self._buckets], [part]))
        return np.frombuffer(b"".join(found), dtype="<u4").astype(np.uint32)

    def commit(self, change: Change, generation: int) -> bool:
        """Make ``change`` on top of ``generation``, all of it; False if the store is elsewhere."""
        arguments = (
            generation,
            to_bytes(change.digests),
            change.after.astype("<u4").tobytes(),
            to_bytes(change.added),
            to_bytes(change.removed),
            self._journal_digests,
        )
        with self._told():
            return bool(self._commit([self._state, self._journal, self._buckets], arguments))

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return the digests of a range of first 32 bits; None if the generation is another."""
        found = []
        last_bucket = (stop - 1) >> 16
        for bucket in range(first >> 16, last_bucket + 1, _BUCKETS_AT_ONCE):
            last = min(bucket + _BUCKETS_AT_ONCE - 1, last_bucket)
            with self._told():
                part = self._between([self._state, self._buckets], [generation, bucket, last])
            if part is None:
                return None
            found.append(part)
        digests = from_bytes(b"".join(found))
        upper = digests[:, 0] >> np.uint64(32)
        return digests[(upper >= np.uint64(first)) & (upper < np.uint64(stop))]

    def journal(self, generation: int) -> list[Entry] | None:
        """Return what the changes after ``generation`` added and removed; None if not known."""
        with self._told():
            rows = self._read_journal([self._state, self._journal], [generation])
        if rows is None:
            return None
        return [
            Entry(int(number[: number.index(b"-")]), from_bytes(added), from_bytes(removed))
            for number, (_, added, _, removed) in rows
        ]

    def trim(self, generation: int) -> None:
        """Do nothing: others may need the journal, which is bounded by itself."""

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the connection raises into an MrDedupError that names the server."""
        try:
            yield
        except self._failures as error:
            raise MrDedupError(f"{self._address}: {' '.join(str(error).split())}") from error


def _parsed(address: str) -> tuple[str, str]:
    """Return the address as messages have it, without a password, and the name in it."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        shown = re.sub("//.*@", "//", address)
        raise MrDedupError(f"{shown}: not an address of Redis: {error}") from error
    if parts.scheme not in SCHEMES:
        raise ValueError(f"address must begin with redis://, not {address!r}")
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    name = parts.fragment or DEFAULT_NAME
    return f"{place}#{name}", name
