"""One suite for every store of digests: RocksDB in a folder, Redis in a real server."""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import redis

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.urls.opening import open_filter
from mr_dedup.urls.redis_store import RedisStore
from mr_dedup.urls.rocks_store import RocksStore
from mr_dedup.urls.store import Change, State
from tests.urls.made_urls import ascending, digests_of_numbers, rows
from tests.urls.redis_server import running

EVERYTHING = (0, 1 << 32)
COUNTERS = itertools.count()


@pytest.fixture(scope="module")
def redis_address():
    with running() as address:
        yield address


@pytest.fixture(params=["rocks", "redis"])
def opened(request, tmp_path):
    """What opens the same store anew each time; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        if request.param == "rocks":

            def open_store(form="", **options):
                store = RocksStore(tmp_path / "store", form, **options)
                stack.callback(store.close)
                return store
        else:
            name = f"{request.getfixturevalue('redis_address')}#test-{next(COUNTERS)}"

            def open_store(form="", **options):
                store = RedisStore(name, form, **options)
                stack.callback(store.close)
                return store

        yield open_store


def change(digests, before, after):
    counts = [np.broadcast_to(np.uint32(each), len(digests)) for each in (before, after)]
    return Change(digests, *counts)


def test_a_new_store_is_empty_and_knows_its_form(opened):
    store = opened("of some form")
    assert store.state() == State(0, 0)
    assert store.form == "of some form"
    assert len(store.id) == 16
    assert store.counts(digests_of_numbers([])).tolist() == []
    assert store.counts(digests_of_numbers([1, 2])).tolist() == [0, 0]
    assert store.between(*EVERYTHING, 0).shape == (0, 2)
    assert store.journal(0) == []


def test_what_was_committed_is_there_after_opening_it_again(opened):
    store = opened("first")
    digests = ascending(digests_of_numbers(range(100)))
    after = np.arange(1, 101, dtype=np.uint32) * np.uint32(42_000_000)
    assert store.commit(Change(digests, np.zeros(100, np.uint32), after), 0)
    was = store.id
    store.close()
    store.close()
    again = opened("second")
    assert (again.id, again.form) == (was, "first")
    assert again.state() == State(1, 100)
    assert again.counts(digests[::-1]).tolist() == after[::-1].tolist()
    (entry,) = again.journal(0)
    assert (entry.generation, rows(entry.added), rows(entry.removed)) == (1, rows(digests), set())


def test_a_change_on_another_generation_changes_nothing(opened):
    store = opened()
    digests = ascending(digests_of_numbers(range(10)))
    assert store.commit(change(digests, 0, 1), 0)
    for generation in (0, 2, 7):
        assert not store.commit(change(digests, 1, 9), generation)
        assert store.between(*EVERYTHING, generation) is None
    assert store.state() == State(1, 10)
    assert set(store.counts(digests).tolist()) == {1}


def test_counts_alone_are_not_in_the_journal(opened):
    store = opened()
    digests = ascending(digests_of_numbers(range(10)))
    store.commit(change(digests, 0, 1), 0)
    store.commit(change(digests, 1, 4_294_967_295), 1)
    store.commit(change(digests[:3], 4_294_967_295, 0), 2)
    assert store.state() == State(3, 7)
    assert store.counts(digests).tolist() == [0] * 3 + [4_294_967_295] * 7
    assert [entry.generation for entry in store.journal(0)] == [1, 3]
    (entry,) = store.journal(1)
    assert (rows(entry.added), rows(entry.removed)) == (set(), rows(digests[:3]))
    assert store.journal(3) == []


def test_ranges_are_of_the_first_32_bits(opened):
    store = opened()
    edges = [0, 1, (1 << 16) - 1, 1 << 16, (1 << 24) + 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    rng = random.Random(3)
    halves = [edge << 32 | low for edge in edges for low in (0, 5, (1 << 32) - 1)]
    digests = ascending([(half, rng.getrandbits(64)) for half in halves])
    store.commit(change(digests, 0, 1), 0)
    bounds = sorted({*edges, *(edge + 1 for edge in edges), 77})
    for first, stop in itertools.combinations(bounds, 2):
        found = store.between(first, stop, 1)
        wanted = [tuple(row) for row in digests.tolist() if first <= row[0] >> 32 < stop]
        assert sorted(map(tuple, found.tolist())) == wanted


def test_random_changes_against_a_dict(opened):
    rng = random.Random(5)
    store, known = opened(), {}
    universe = [tuple(row) for row in digests_of_numbers(range(300)).tolist()]
    for generation in range(60):
        chosen = ascending(rng.sample(universe, rng.randrange(40)))
        keys = [tuple(row) for row in chosen.tolist()]
        before = np.array([known.get(key, 0) for key in keys], dtype=np.uint32)
        after = np.array([rng.choice([0, 1, 2, 70_000]) for _ in keys], dtype=np.uint32)
        assert store.counts(chosen).tolist() == before.tolist()
        assert store.commit(Change(chosen, before, after), generation)
        known.update(zip(keys, after.tolist(), strict=True))
        known = {key: count for key, count in known.items() if count}
        assert store.state() == State(generation + 1, len(known))
        if generation == 30:
            store.close()
            store = opened()
    assert rows(store.between(*EVERYTHING, 60)) == set(known)
    # the journal from any generation on leads there
    for start in range(0, 60, 7):
        stored = set()
        for entry in store.journal(0):
            if entry.generation <= start:
                stored = stored - rows(entry.removed) | rows(entry.added)
        for entry in store.journal(start):
            assert rows(entry.removed) <= stored
            assert not rows(entry.added) & stored
            stored = stored - rows(entry.removed) | rows(entry.added)
        assert stored == set(known)


def test_a_batch_of_the_most_digests(opened):
    store = opened()
    size = min(store.max_batch, 1 << 16)
    digests = ascending(np.random.default_rng(1).integers(0, 2**64, (size, 2), dtype=np.uint64))
    assert store.commit(change(digests, 0, 3), 0)
    assert (store.counts(digests) == 3).all()
    assert rows(store.between(*EVERYTHING, 1)) == rows(digests)


# what only one of them does


def test_a_trimmed_journal_is_known_to_be_so(tmp_path):
    store = RocksStore(tmp_path / "store")
    for generation in range(6):
        digests = digests_of_numbers([generation])
        store.commit(change(digests, 0, 1), generation)
    store.trim(4)
    for _ in range(2):
        assert store.journal(3) is None
        assert [entry.generation for entry in store.journal(4)] == [5, 6]
        assert store.journal(6) == []
        assert store.journal(7) is None
        store.close()
        store = RocksStore(tmp_path / "store")
    store.close()


def test_redis_bounds_the_journal_by_itself(redis_address):
    store = RedisStore(f"{redis_address}#bounded", journal_digests=10)
    for generation in range(6):
        digests = ascending(digests_of_numbers(range(4 * generation, 4 * generation + 4)))
        store.commit(change(digests, 0, 1), generation)
    assert store.journal(3) is None
    assert [entry.generation for entry in store.journal(4)] == [5, 6]
    store.trim(6)
    assert len(store.journal(4)) == 2
    store.close()


def test_stores_of_two_names_know_nothing_of_each_other(redis_address):
    one, other = (RedisStore(f"{redis_address}#{name}") for name in ("one", "other"))
    digests = digests_of_numbers([1])
    one.commit(change(digests, 0, 1), 0)
    assert other.counts(digests).tolist() == [0]
    assert one.id != other.id
    one.close()
    other.close()


def test_a_folder_is_open_once(tmp_path):
    store = RocksStore(tmp_path / "store")
    with pytest.raises(MrDedupError, match="store: IO error: lock"):
        RocksStore(tmp_path / "store")
    store.close()
    RocksStore(tmp_path / "store").close()


def test_redis_out_of_reach_is_told_without_the_password(tmp_path):
    with pytest.raises(MrDedupError, match=r"redis://127.0.0.1:1/0#urls: .*refused") as caught:
        RedisStore("redis://someone:secret@127.0.0.1:1/0")
    assert "secret" not in str(caught.value)
    with pytest.raises(MrDedupError, match="begins with redis://"):
        RedisStore("http://x")


def test_redis_that_ends_in_the_midst_is_told():
    with running() as address:
        store = RedisStore(address)
    with pytest.raises(MrDedupError, match="socket#urls: "):
        store.state()


def test_a_store_that_must_exist(redis_address):
    with pytest.raises(MrDedupError, match="#missing: contains no store of URLs"):
        RedisStore(f"{redis_address}#missing", create=False)


def test_a_later_version_is_refused(redis_address, tmp_path):
    RedisStore(f"{redis_address}#later").close()
    with redis.Redis.from_url(redis_address) as client:
        client.hset("{mr-dedup:later}:state", "about", json.dumps({"version": 2}))
    with pytest.raises(FormatError, match="version 2 is newer than this mr_dedup reads"):
        RedisStore(f"{redis_address}#later")


def test_damage_in_a_folder_is_told(tmp_path):
    store = RocksStore(tmp_path / "store")
    digests = ascending(digests_of_numbers(range(5000)))
    store.commit(change(digests, 0, 1), 0)
    store.close()
    RocksStore(tmp_path / "store").close()  # the log becomes a sorted file
    damaged = max(tmp_path.glob("store/*.sst"), key=os.path.getsize)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    store = RocksStore(tmp_path / "store")
    with pytest.raises(MrDedupError, match=r"store: Corruption: .*checksum"):
        store.counts(digests)
    store.close()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"about", b"", "about: cannot be parsed"),
        (b"about", b"[1]", "about: cannot be parsed"),
        (b"about", b'{"version": 1, "id": "00", "form": ""}', "about: is not of a store"),
        (b"about", b'{"version": "1", "id": "00", "form": ""}', "about: cannot be parsed"),
        (b"about", b'{"version": 2, "id": "00", "form": ""}', "version 2 is newer"),
        (b"about", None, "about: is missing, and there are digests"),
        (b"state", b"short", "state: is of 5 bytes, 24 expected"),
        (b"state", None, "state: is of 0 bytes, 24 expected"),
        (b"journal" + bytes(7) + b"\1", b"", "journal 1: is not of digests"),
        (b"journal" + bytes(7) + b"\1", b"\xff" * 8 + bytes(16), "journal 1: is not of digests"),
        (b"journal" + bytes(7) + b"\1", bytes(8) + bytes(15), "journal 1: is not of digests"),
    ],
)
def test_a_damaged_state_of_a_folder_is_told(tmp_path, key, value, reason):
    store = RocksStore(tmp_path / "store")
    store.commit(change(ascending(digests_of_numbers(range(10))), 0, 1), 0)
    if value is None:
        del store._state_family[key]
    else:
        store._state_family[key] = value
    store.close()
    for _ in range(2):  # it is closed again
        with pytest.raises(FormatError, match=f"store, .*{reason}"):
            RocksStore(tmp_path / "store").journal(0)


def test_a_form_that_is_not_understood(tmp_path):
    for number, form in enumerate(("", "[]", '{"mirrors": 5}', '{"mirrors": [], "other": 1}')):
        folder = tmp_path / f"urls{number}"
        folder.mkdir()
        RocksStore(folder / "store", form).close()
        with pytest.raises(FormatError, match="about: the form of its URLs cannot be parsed"):
            open_filter(folder)


@pytest.mark.parametrize(
    "address",
    [
        "redis://[bad/0", "redis://me:secret@[bad/0", "redis://h:port/0", "unix://[x",
        "redis://h/0?db=x", "redis://h/0?ssl_keyfile=secret", "unix:///a?socket_keepalive=1",
    ],
)  # fmt: skip
def test_what_is_no_address_of_redis(address):
    with pytest.raises(MrDedupError, match="not a URI of Redis") as caught:
        open_filter(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("parameter", ["pass", "decode_responses", "encoding", "retry", "x[y"])
def test_parameters_that_change_what_redis_returns(parameter):
    with pytest.raises(MrDedupError) as caught:
        open_filter(f"redis://127.0.0.1:1/0?socket_timeout=1&{parameter}=secret#a")
    assert str(caught.value) == f"redis://127.0.0.1:1/0#a: unknown parameter {parameter!r}"


def test_what_was_committed_survives_a_kill(tmp_path):
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, signal, sys, numpy as np; from pathlib import Path;"
            "from mr_dedup.urls.rocks_store import RocksStore;"
            "from mr_dedup.urls.store import Change;"
            "store = RocksStore(Path(sys.argv[1]));"
            "digests = np.array([[1, 2], [3, 4]], np.uint64); one = np.ones(2, np.uint32);"
            "store.commit(Change(digests, one - one, one), 0);"
            "os.kill(os.getpid(), signal.SIGKILL)",
            tmp_path / "store",
        ],
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    store = RocksStore(tmp_path / "store")
    assert store.state() == State(1, 2)
    assert store.counts(np.array([[3, 4]], np.uint64)).tolist() == [1]
    store.close()
