"""kill -9 at random moments under load: nothing acknowledged is lost, and nothing half there."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from mr_dedup.index.reader import IndexReader
from tests.index.index_oracle import Oracle
from tests.index.killed_writer import MEMORY_DOCUMENTS, K, work

ROOT = Path(__file__).parent.parent.parent
LONGEST_SECONDS = 0.4


@contextlib.contextmanager
def writers(folder):
    """Yield what starts a writer of an index, kills it, and returns what it began and finished."""
    log = folder / "log"
    command = [sys.executable, "-m", "tests.index.killed_writer", folder / "index", log]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:

        def killed(first, rng):
            log.write_bytes(b"")
            print(first, file=parent.stdin, flush=True)
            process = int(parent.stdout.readline())
            # some are killed while they open the index
            opening = rng.random() < 0.2
            deadline = time.monotonic() + 60
            while not opening and not log.stat().st_size:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.05 if opening else LONGEST_SECONDS))
            os.kill(process, signal.SIGKILL)
            assert int(parent.stdout.readline()) == -signal.SIGKILL
            lines = re.findall(r"(begin|end) \d+\n", log.read_text())
            return lines.count("begin"), lines.count("end")

        yield killed


def done(oracle, number):
    """What is stored after work ``number``."""
    kind, ids, values = work(number)
    after = Oracle()
    after.documents = dict(oracle.documents)
    if kind == "add":
        after.add(values, ids)
    elif kind == "remove":
        after.remove(ids)
    elif kind == "check":
        after.check_and_add(values, ids, K, None, True)
    return after


def stored(index):
    """All documents of an index, by id, as queries tell them."""
    queries = np.array([number << 40 for number in range(200)], dtype=np.uint64)
    return {match.id: match.fingerprint for match in index.query(queries)}


def run(folder, kills, min_work, seed):
    """Kill writers of one index so often, and until they did ``min_work`` work; return both."""
    rng = random.Random(seed)
    oracle, number, in_flight_kept = Oracle(), 0, 0
    HammingIndex.create(folder / "index", k=K).close()
    with writers(folder) as killed:
        killings = 0
        while killings < kills or number < min_work:
            killings += 1
            assert killings <= 20 * kills, f"{number} batches of {min_work} in {killings - 1} kills"
            first = number
            started, ended = killed(first, rng)
            for acknowledged in range(number, number + ended):
                oracle = done(oracle, acknowledged)
            number += ended
            with IndexReader.open(folder / "index") as reader:
                found = stored(reader)
            with HammingIndex.open(folder / "index", memory_documents=MEMORY_DOCUMENTS) as index:
                recovered = stored(index)
                assert len(index) == len(recovered)
            # of what was started and not finished the first so much was done, each as a whole
            states = [oracle]
            for begun_number in range(number, first + started):
                states.append(done(states[-1], begun_number))
            possible = [state.documents for state in states]
            assert found in possible
            assert recovered in possible
            kept = possible.index(recovered)
            oracle = states[kept]
            number += kept
            in_flight_kept += kept > 0
            assert not list(verify(folder / "index"))
    return killings, number, in_flight_kept


def test_some_kills(tmp_path):
    run(tmp_path, 4, min_work=50, seed=1)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    killings, number, in_flight_kept = run(tmp_path, 200, min_work=1000, seed=2)
    assert in_flight_kept
    print(
        f"\n{killings} kills in {number:,} batches; {in_flight_kept} came between keeping and "
        "saying so"
    )
