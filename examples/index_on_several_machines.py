"""An index too large for one machine: documents are dealt out by id, and every machine is asked.

Here three servers on loopback stand for the machines.
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
    """Yield the index of a server that runs meanwhile."""
    subprocess.run([*COMMAND, "index", "create", str(folder), "-k", "3"], check=True)
    serve = [*COMMAND, "serve", str(folder), "--port", "0"]
    # on loopback and without a token, whatever the environment has for other servers
    environment = {name: value for name, value in os.environ.items() if name != "MR_DEDUP_TOKEN"}
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            # it says where it is, with a port that was free; or why it is nowhere
            said = process.stderr.readline()
            _, _, url = said.strip().rpartition(" at ")
            if not url.startswith("http://"):
                raise SystemExit(said + process.communicate()[1])
            with HttpIndex(url) as index:
                yield index
        finally:
            process.terminate()


def owner(id):
    """The machine of a document, by its id alone: the same whoever asks, now and later."""
    return xxhash.xxh3_64_intdigest(id.encode()) % MACHINES


def add(indexes, fingerprints, ids):
    """Each document to its machine, those of a machine in one call."""
    owners = np.array([owner(id) for id in ids])
    for number, index in enumerate(indexes):
        here = np.flatnonzero(owners == number)
        index.add(fingerprints[here], [ids[place] for place in here])


def query(pool, indexes, fingerprints):
    """What all machines know, asked at the same time, nearest first for each query."""
    answers = list(pool.map(lambda index: index.query(fingerprints), indexes))
    return [
        sorted((match for found in answers for match in found.of(place)), key=lambda m: m.distance)
        for place in range(len(fingerprints))
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

    queries = corpus[:4] ^ np.uint64(0b101)  # two bits from what is there
    for place, found in enumerate(query(pool, indexes, queries)):
        print(f"{queries[place]:#018x} is {found[0].distance} bits from {found[0].id}")
        assert [match.id for match in found] == [f"page {place}"]
    assert sum(map(len, indexes)) == corpus.size
