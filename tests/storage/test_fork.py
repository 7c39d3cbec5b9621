"""Stores that a process used, in the processes that it forks: tasks on one machine are forked."""

import gc
import os
import signal
import subprocess
import sys
import time
import traceback

import pytest

from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info, list_files
from mr_dedup.storage.scratch import Scratch, Wanted


def in_a_child(work):
    """Run ``work`` in a forked process; return whether it ended in order and in time."""
    # what tests before have left is collected here: in a child, some of it would wait for threads
    # that only its parent has
    gc.collect()
    gc.freeze()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    gc.unfreeze()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    # where it waits
    os.kill(child, signal.SIGABRT)
    os.waitpid(child, 0)
    print("the child did not end", file=sys.stderr)
    return False


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_reads_what_its_parent_read(forked, tmp_path):
    place = forked
    place.fill("a.jsonl", "b/c.jsonl")
    file = file_info(place.of("a.jsonl"))
    fetch(file, tmp_path / "before")

    def work():
        names = [place.uri] if place.lists else [place.of("a.jsonl"), place.of("b/c.jsonl")]
        assert len(list_files(names)) == 2
        with Scratch(tmp_path, 1 << 20) as scratch, scratch.copies([Wanted(file)]) as [path]:
            assert path.read_bytes() == b"a.jsonl"

    for _ in range(3):
        assert in_a_child(work)
    # and the parent goes on, by the connections that it has
    begun = time.monotonic()
    fetch(file, tmp_path / "after")
    assert time.monotonic() - begun < 5


_READERS = """
import os, sys, threading
from pathlib import Path
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info
from tests.storage.test_fork import in_a_child

file, folder = file_info(sys.argv[1]), Path(sys.argv[2])
stop = threading.Event()

def read(number):
    while not stop.is_set():
        fetch(file, folder / str(number))
        (folder / str(number)).unlink()

threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
ended = [in_a_child(lambda: fetch(file, folder / f"child-{os.getpid()}")) for _ in range(10)]
stop.set()
for thread in threads:
    thread.join()
assert all(ended), ended
"""


@pytest.mark.slow
def test_a_child_that_is_forked_while_others_read(s3, tmp_path):
    s3.fill("a.jsonl")
    # the server is in another process than those that are forked
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _READERS]
    done = subprocess.run(
        [*command, s3.of("a.jsonl"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
