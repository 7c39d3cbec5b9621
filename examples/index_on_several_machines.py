"""An index too large for one machine: documents are partitioned by id; all machines are queried.

Three servers on loopback stand for the machines.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import xxhash

from mr_dedup.index.http_client import HttpIndex

COMMAND = [sys.executable, "-c", "from mr_dedup.cli.main import command; command()"]
MACHINES = 3


@contextmanager
def server(folder):
    """Start a server on a new index, yield its client, and stop it."""
    subprocess.run([*COMMAND, "index", "create", str(folder), "-k", "3"], check=True)
    serve = [*COMMAND, "serve", str(folder), "--port", "0"]
    # on loopback and without a token, whatever the environment has for other servers
    environment = {name: value for name, value in os.environ.items() if name != "MR_DEDUP_TOKEN"}
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            # its first line has the URL, or the reason why it could not start
            line = process.stderr.readline()
            _, _, url = line.strip().rpartition(" at ")
            if not url.startswith("http://"):
                raise SystemExit(line + process.communicate()[1])
            with HttpIndex(url) as index:
                yield index
        finally:
            process.terminate()


def owner(id):
    """Return the machine of a document: a function of its id, so that all clients agree."""
    return xxhash.xxh3_64_intdigest(id.encode()) % MACHINES


def add(indexes, fingerprints, ids):
    """Add each document on its machine, with one call for each machine."""
    owners = np.array([owner(id) for id in ids])
    for number, index in enumerate(indexes):
        rows = np.flatnonzero(owners == number)
        index.add(fingerprints[rows], [ids[row] for row in rows])


def query(pool, indexes, fingerprints):
    """Return the matches of each query on all machines, nearest first, in parallel."""
    responses = list(pool.map(lambda index: index.query(fingerprints), indexes))
    return [
        sorted((match for each in responses for match in each.of(row)), key=lambda m: m.distance)
        for row in range(len(fingerprints))
    ]


with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
    indexes = [
        stack.enter_context(server(Path(folder, f"machine-{number}"))) for number in range(MACHINES)
    ]
    pool = stack.enter_context(ThreadPoolExecutor(MACHINES))
    rng = np.random.default_rng(1)
    corpus = rng.integers(0, 2**64, 9_000, dtype=np.uint64)
    add(indexes, corpus, [f"page {number}" for number in range(corpus.size)])
    print("documents on each machine:", *map(len, indexes))

    queries = corpus[:4] ^ np.uint64(0b101)  # two bits from stored ones
    for row, matches in enumerate(query(pool, indexes, queries)):
        print(f"{queries[row]:#018x} is {matches[0].distance} bits from {matches[0].id}")
        assert [match.id for match in matches] == [f"page {row}"]
    assert sum(map(len, indexes)) == corpus.size
