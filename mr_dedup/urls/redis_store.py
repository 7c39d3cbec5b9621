"""The store of digests that several crawlers share: in Redis, changed by atomic scripts.

A store is the keys that begin with ``{mr-dedup:NAME}:``: ``state``, ``journal`` (a stream), and
65,536 hashes, one for each 2 leading bytes of digests, with the other 14 as fields. So the digests
of a range are in a few hashes, and small hashes take little memory. A change names the generation
that it applies to; the script does nothing if the store is at another one. What survives the end of
the Redis server is for its settings to decide (``appendonly yes``).
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.redaction import redacted
from mr_dedup.urls.digests import DIGEST_BYTES, Digests, from_bytes, to_bytes
from mr_dedup.urls.store import VERSION, Change, Counts, Entry, State, parse_about

SCHEMES = ("redis", "rediss", "unix")
DEFAULT_NAME = "urls"

_PARAMETERS = {
    "username", "password", "db", "client_name", "health_check_interval",
    "socket_timeout", "socket_connect_timeout", "socket_keepalive",
    "ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname",
    "ssl_keyfile", "ssl_password",
}  # fmt: skip
"""What the query of a URI may have: others of the client change what it returns."""

JOURNAL_DIGESTS = 1 << 20
"""Digests in the journal, 16 MB: a filter that is further behind reads all digests instead."""

_SCRIPT_BUCKETS = 256
"""Hashes that one call of a script reads, during which Redis serves no other client."""

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

    Args:
        uri: ``redis://[:password@]host:port/database#NAME``; the default name is ``urls``.
        form: of the URLs of a new store.
        create: make the store if it is missing.
        journal_digests: the largest number of digests in the journal.

    Raises:
        MrDedupError: the server cannot be reached, or has no such store and not ``create``.
    """

    shared = True
    max_batch = 1 << 12

    def __init__(
        self,
        uri: str,
        form: str = "",
        *,
        create: bool = True,
        journal_digests: int = JOURNAL_DIGESTS,
    ) -> None:
        try:
            import redis
        except ImportError as error:
            raise MrDedupError(
                "a store of URLs in Redis needs redis: pip install 'mr-dedup[redis]'"
            ) from error
        self._uri, name = _parsed(uri)
        self._failures = (redis.RedisError, OSError)
        prefix = b"{mr-dedup:%b}:" % name.encode()
        self._state, self._journal, self._buckets = prefix + b"state", prefix + b"journal", prefix
        self._journal_digests = journal_digests
        scheme, colon, server = uri.partition("#")[0].partition(":")
        for parameter in filter(None, server.partition("?")[2].split("&")):
            if (found := parameter.partition("=")[0]) not in _PARAMETERS:
                raise MrDedupError(f"{self._uri}: unknown parameter {found!r}")
        try:
            self._redis: Any = redis.Redis.from_url(f"{scheme.lower()}{colon}{server}")
            pool = self._redis.connection_pool
            # made, not opened: one without encryption refuses parameters of it
            pool.connection_class(**pool.connection_kwargs)
        except (TypeError, ValueError):
            # the error may have a part of the password
            raise MrDedupError(f"{self._uri}: not a URI of Redis") from None
        register = self._redis.register_script
        self._begin, self._counts, self._commit, self._between, self._read_journal = (
            register(script) for script in (_BEGIN, _COUNTS, _COMMIT, _BETWEEN, _JOURNAL)
        )
        about = {"version": VERSION, "id": secrets.token_hex(DIGEST_BYTES), "form": form}
        with self._named_errors():
            if not create and not self._redis.exists(self._state):
                raise MrDedupError(f"{self._uri}: contains no store of URLs")
            found = self._begin([self._state], [json.dumps(about)])
        self.id, self.form = parse_about(found, self._uri)

    def state(self) -> State:
        """Return the state of the store."""
        with self._named_errors():
            generation, size = self._redis.hmget(self._state, "generation", "size")
        if generation is None:
            raise MrDedupError(f"{self._uri}: the store was removed while it was open")
        try:
            return State(int(generation), int(size))
        except (TypeError, ValueError) as error:
            reason = f"generation {generation!r} and size {size!r} are not numbers"
            raise FormatError(self._uri, "state", reason) from error

    def counts(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``; one round trip for each 4,096."""
        found = []
        for start in range(0, len(digests), self.max_batch):
            part = to_bytes(digests[start : start + self.max_batch])
            with self._named_errors():
                found.append(self._counts([self._buckets], [part]))
        return np.frombuffer(b"".join(found), dtype="<u4").astype(np.uint32)

    def commit(self, change: Change, generation: int) -> bool:
        """Apply ``change`` to ``generation`` as a whole; False if the store is at another one."""
        arguments = (
            generation,
            to_bytes(change.digests),
            change.after.astype("<u4").tobytes(),
            to_bytes(change.added),
            to_bytes(change.removed),
            self._journal_digests,
        )
        with self._named_errors():
            return bool(self._commit([self._state, self._journal, self._buckets], arguments))

    def between(self, first: int, stop: int, generation: int) -> Digests | None:
        """Return the digests whose first 32 bits are in [``first``, ``stop``), or None."""
        found = []
        last_bucket = (stop - 1) >> 16
        for bucket in range(first >> 16, last_bucket + 1, _SCRIPT_BUCKETS):
            last = min(bucket + _SCRIPT_BUCKETS - 1, last_bucket)
            with self._named_errors():
                part = self._between([self._state, self._buckets], [generation, bucket, last])
            if part is None:
                return None
            found.append(part)
        digests = from_bytes(b"".join(found))
        upper = digests[:, 0] >> np.uint64(32)
        return digests[(upper >= np.uint64(first)) & (upper < np.uint64(stop))]

    def journal(self, generation: int) -> list[Entry] | None:
        """Return the changes after ``generation``; None if the journal begins later."""
        with self._named_errors():
            rows = self._read_journal([self._state, self._journal], [generation])
        if rows is None:
            return None
        return [
            Entry(int(number[: number.index(b"-")]), from_bytes(added), from_bytes(removed))
            for number, (_, added, _, removed) in rows
        ]

    def trim(self, generation: int) -> None:
        """Do nothing: other processes may need the journal, which commits keep short."""

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise errors of the connection as MrDedupError, with the name of the server."""
        try:
            yield
        except self._failures as error:
            raise MrDedupError(f"{self._uri}: {' '.join(str(error).split())}") from error


def _parsed(uri: str) -> tuple[str, str]:
    """Return a URI for messages, without its password, and the name in it."""
    server, _, name = uri.rpartition("@")[2].partition("#")
    scheme = uri.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise MrDedupError("a URI of Redis begins with redis://, rediss:// or unix://")
    name = name or DEFAULT_NAME
    server = redacted(server if "://" in server else f"{scheme}://{server}").partition("?")[0]
    return f"{server}#{name}", name
