"""One method for sets of visited URLs, in a process of its own.

``python -m bench.url_rivals METHOD SIZE FOLDER [BATCH [VISITS]]``: SIZE URLs are visited twice
each, half of a batch new, half of it old; or with VISITS 1 once each. Prints JSON: wall and CPU
seconds, peak memory, wrong results.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import status_bytes

BATCH = 1 << 16
_STATUS = Path("/proc/self/status")

See = Callable[[list[bytes]], Any]
"""Returns for each URL of a batch whether it is new."""


def batches(size: int, batch: int, visits: int) -> Iterator[tuple[list[bytes], int]]:
    """Yield batches of URLs, and how many URLs at the start of each are new."""
    rng = np.random.default_rng(1)
    step = batch // visits
    for start in range(0, size, step):
        new = range(start, min(start + step, size))
        old = rng.integers(0, new.stop, (visits - 1) * len(new)).tolist()
        yield [_url(number) for number in [*new, *old]], len(new)


def _url(number: int) -> bytes:
    # 60 bytes, about as in crawls
    return b"https://www.example-%d.org/archive/2024/pages/item-%012d" % (number % 1000, number)


def imp_cb(
    size: int, folder: Path, *, counter_bits: int = 4
) -> tuple[See, Callable[[], dict[str, Any]]]:
    from mr_dedup.urls.canonical import UrlForm
    from mr_dedup.urls.counting_bloom import BloomShape
    from mr_dedup.urls.opening import open_filter

    shape = BloomShape(size + 1, 20 * (size + 1), counter_bits)
    url_filter = open_filter(folder / "urls", form=UrlForm(canonical=False), shape=shape)

    def end() -> dict[str, Any]:
        lookups, shape = url_filter.lookups, url_filter.bloom.shape
        url_filter.close()
        return {
            "filter_bytes": shape.nbytes,
            "lookups": lookups.urls,
            "in_store": lookups.in_store,
            "false_positives": lookups.false_positives,
        }

    return url_filter.add_many, end


def imp_cb_of_two_bits(size: int, folder: Path) -> tuple[See, Any]:
    return imp_cb(size, folder, counter_bits=2)


def imp_cb_of_one_bit(size: int, folder: Path) -> tuple[See, Any]:
    """With the smallest counters, which make removals slow."""
    return imp_cb(size, folder, counter_bits=1)


def store_alone(size: int, folder: Path, *, bloom_bits: float | None = None) -> tuple[See, Any]:
    """The same store of digests, with a lookup for every URL."""
    from mr_dedup.urls.digests import digests_of, grouped
    from mr_dedup.urls.rocks_store import RocksStore
    from mr_dedup.urls.store import Change

    store = RocksStore(folder / "store", bloom_bits=bloom_bits)

    def see(urls: list[bytes]) -> Any:
        digests = digests_of(urls)
        order, begins = grouped(digests)
        firsts = order[begins]
        before = store.counts(digests[firsts])
        visits = (np.append(begins[1:], len(order)) - begins).astype(np.uint32)
        store.commit(Change(digests[firsts], before, before + visits), store.state().generation)
        is_new = np.zeros(len(urls), dtype=bool)
        is_new[firsts[before == 0]] = True
        return is_new

    def end() -> dict[str, Any]:
        store.close()
        return {}

    return see, end


def store_with_blooms(size: int, folder: Path) -> tuple[See, Any]:
    return store_alone(size, folder, bloom_bits=10.0)


def python_set(size: int, folder: Path) -> tuple[See, Any]:
    seen: set[bytes] = set()

    def see(urls: list[bytes]) -> list[bool]:
        flags = []
        for url in urls:
            flags.append(url not in seen)
            seen.add(url)
        return flags

    return see, dict


def rbloom(size: int, folder: Path) -> tuple[See, Any]:
    from rbloom import Bloom

    seen = Bloom(size, 1.4e-4)

    def see(urls: list[bytes]) -> list[bool]:
        flags = []
        for url in urls:
            flags.append(url not in seen)
            seen.add(url)
        return flags

    return see, lambda: {"filter_bytes": seen.size_in_bits // 8}


def redis_bloom(size: int, folder: Path) -> tuple[See, Any]:
    """As in plug-ins of scrapy-redis: 6 bits of a string in Redis, read and then set."""
    import redis

    from tests.urls.redis_server import running

    context = running()
    client = redis.Redis.from_url(context.__enter__())
    bits = 1 << max(20, (size * 18).bit_length())

    def see(urls: list[bytes]) -> list[bool]:
        flags = []
        for url in urls:
            digest = int.from_bytes(md5(url).digest(), "big")
            offsets = [(digest >> 21 * i) % bits for i in range(6)]
            with client.pipeline(transaction=False) as pipe:
                for offset in offsets:
                    pipe.getbit("seen", offset)
                known = all(pipe.execute())
                if not known:
                    for offset in offsets:
                        pipe.setbit("seen", offset, 1)
                    pipe.execute()
            flags.append(not known)
        return flags

    def end() -> dict[str, Any]:
        used = client.memory_usage("seen")
        client.close()
        context.__exit__(None, None, None)
        return {"filter_bytes": used}

    return see, end


METHODS = {
    "IMP-CB": imp_cb,
    "IMP-CB, counters of 2 bits": imp_cb_of_two_bits,
    "IMP-CB, counters of 1 bit": imp_cb_of_one_bit,
    "store alone": store_alone,
    "store with RocksDB's Bloom filters": store_with_blooms,
    "Python set": python_set,
    "rbloom": rbloom,
    "Bloom filter in Redis": redis_bloom,
}


def main(method: str, size: int, folder: Path, batch: int = BATCH, visits: int = 2) -> None:
    """Run one method; print its measurements."""
    see, end = METHODS[method](size, folder)
    see([b"loads the kernels"])
    before = status_bytes(_STATUS, "VmRSS")
    wrong, seconds, cpu_seconds = 0, 0.0, 0.0
    for urls, new in batches(size, batch, visits):
        started, used = time.perf_counter(), time.process_time()
        flags = np.asarray(see(urls))
        seconds += time.perf_counter() - started
        cpu_seconds += time.process_time() - used
        wrong += int(np.count_nonzero(~flags[:new])) + int(np.count_nonzero(flags[new:]))
    peak = status_bytes(_STATUS, "VmHWM")
    times = {"seconds": seconds, "cpu_seconds": cpu_seconds}
    counts = {"wrong": wrong, "visits": visits * size, "added_bytes": peak - before}
    print(json.dumps({**times, **counts, **end()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
