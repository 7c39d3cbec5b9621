"""Clients of a server in one process: python -m tests.server.load URL CLIENTS SECONDS ROUNDS SEED.

Each client has a connection of its own. In every round all of them ask for /health, then compare
and add documents, then query for what they added, for SECONDS each. Prints, as JSON, how many
milliseconds each call took, by its kind.
"""

import json
import sys
import threading
import time

import numpy as np
import urllib3

from mr_dedup.index.http_client import HttpIndex

KINDS = ("health", "check and add", "query")


class Client:
    """One client: a connection, the documents it added, and what its calls took."""

    def __init__(self, url, seed):
        self._rng = np.random.default_rng(seed)
        self._name = "-".join(map(str, seed))
        self._index = HttpIndex(url)
        self._pool = urllib3.PoolManager(maxsize=1, retries=False)
        self._health = f"{url}/health"
        self._added = []
        self.taken = {kind: [] for kind in KINDS}
        # the first call loads kernels into this process
        self._index.check_and_add(np.zeros(0, np.uint64), [])

    def run(self, kind, until):
        """Call until a moment of the monotonic clock."""
        while time.monotonic() < until:
            began = time.perf_counter()
            {"health": self._ask, "check and add": self._add, "query": self._query}[kind]()
            self.taken[kind].append(1000 * (time.perf_counter() - began))

    def _ask(self):
        assert self._pool.request("GET", self._health).status == 200

    def _add(self):
        value = self._rng.integers(0, 1 << 64, 1, np.uint64)
        id = f"{self._name}-{len(self._added)}"
        assert self._index.check_and_add(value, [id], only_new=True).added.all()
        self._added.append((value, id))

    def _query(self):
        value, id = self._added[self._rng.integers(len(self._added))]
        assert id in self._index.query(value ^ np.uint64(5)).ids


def main():
    url, count, seconds, rounds, seed = sys.argv[1], *map(int, sys.argv[2:])
    clients = [Client(url, (seed, number)) for number in range(count)]
    failures = []

    def run(client, kind, until):
        try:
            client.run(kind, until)
        except BaseException as error:
            failures.append(repr(error))

    print("ready", flush=True)
    # all processes begin at one moment
    began = float(sys.stdin.readline())
    for part in range(rounds * len(KINDS)):
        time.sleep(max(0, began + part * seconds - time.monotonic()))
        until = began + (part + 1) * seconds
        threads = [
            threading.Thread(target=run, args=(client, KINDS[part % len(KINDS)], until))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    taken = {kind: [ms for client in clients for ms in client.taken[kind]] for kind in KINDS}
    print(json.dumps({"taken": taken, "failures": failures}))


if __name__ == "__main__":
    main()
