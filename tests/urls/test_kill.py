"""kill -9 at random moments while URLs are added and removed: nothing acknowledged is lost."""

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.opening import open_filter
from tests.urls.bloom_oracle import counted, unpacked
from tests.urls.killed_writer import SHAPE, UNIVERSE, work
from tests.urls.made_urls import digests_of_numbers

ROOT = Path(__file__).parent.parent.parent

# how long a process works before it is killed: some are while they open the filter
LONGEST_SECONDS = 0.5


def killed(folder, log, first, rng):
    """Start a writer, kill it at some moment; return what it began and what it finished."""
    log.write_bytes(b"")
    command = [sys.executable, "-m", "tests.urls.killed_writer", folder, log, str(first)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        opening = rng.random() < 0.2
        deadline = time.monotonic() + 60
        while not opening and not log.stat().st_size:
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(rng.uniform(0.3, 0.9) if opening else rng.uniform(0, LONGEST_SECONDS))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read().decode()
    lines = re.findall(r"(begin|end) (\d+)\n", log.read_text())
    assert [int(number) for kind, number in lines if kind == "begin"] == list(
        range(first, first + sum(kind == "begin" for kind, _ in lines))
    )
    return [sum(kind == wanted for kind, _ in lines) for wanted in ("begin", "end")]


def done(known, number):
    """What is known after work ``number``, by a Counter."""
    kind, numbers = work(number)
    known = known.copy()
    for each in numbers:
        if kind == "add":
            known[each] += 1
        elif kind == "remove":
            known.pop(each, None)
    return known


def run(folder, kills, min_work, seed):
    """Kill writers of one filter so often, and until they did ``min_work`` work; return both."""
    rng = random.Random(seed)
    digests = digests_of_numbers(range(UNIVERSE))
    known, number, in_flight_kept = Counter(), 0, 0
    killings = 0
    while killings < kills or number < min_work:
        killings += 1
        assert killings <= 20 * kills, f"{number} batches of {min_work} in {killings - 1} kills"
        started, ended = killed(folder / "urls", folder / "log", number, rng)
        for acknowledged in range(number, number + ended):
            known = done(known, acknowledged)
        number += ended
        with open_filter(folder / "urls", form=UrlForm(canonical=False), shape=SHAPE) as found:
            counts = found.counts(digests).tolist()
            # what was started and not finished was done as a whole, or not at all
            if started > ended and counts != [known[each] for each in range(UNIVERSE)]:
                known = done(known, number)
                number += 1
                in_flight_kept += 1
            assert counts == [known[each] for each in range(UNIVERSE)]
            assert len(found) == len(known)
            rows = [tuple(row) for row in digests[sorted(known)].tolist()]
            assert unpacked(found.bloom.words, 2) == counted(rows, found.bloom.shape)
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
