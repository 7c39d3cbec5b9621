"""Clients of a server in a process: python -m tests.server.load URL CLIENTS SECONDS SEED.

Each asks for what it added, over a connection of its own. Prints, as JSON, how many calls were
answered and in how many milliseconds each, by their kind.
"""

import json
import sys
import threading
import time

import numpy as np

from mr_dedup.index.http_client import HttpIndex


def client(url, rng, until, taken, failures, name):
    try:
        with HttpIndex(url) as index:
            # the first call loads kernels into this process
            index.check_and_add(np.zeros(0, np.uint64), [])
            count = 0
            while time.monotonic() < until:
                value = rng.integers(0, 1 << 64, 1, np.uint64)
                id = f"{name} {count}"
                began = time.perf_counter()
                assert index.check_and_add(value, [id], only_new=True).added.all()
                added = time.perf_counter()
                assert id in index.query(value ^ np.uint64(5)).ids
                taken["check and add"].append(1000 * (added - began))
                taken["query"].append(1000 * (time.perf_counter() - added))
                count += 1
    except BaseException as error:
        failures.append(repr(error))


def main():
    url, clients, seconds, seed = sys.argv[1], *map(int, sys.argv[2:])
    until = time.monotonic() + seconds
    taken, failures = {"check and add": [], "query": []}, []
    threads = [
        threading.Thread(
            target=client,
            args=(url, np.random.default_rng([seed, number]), until, taken, failures,
                  f"{seed} {number}"),
        )
        for number in range(clients)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"taken": taken, "failures": failures}))


if __name__ == "__main__":
    main()
