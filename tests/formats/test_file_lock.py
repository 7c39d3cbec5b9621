"""Locks of files: one owner at a time, none after its end, whatever ends it."""

import os
import signal
import subprocess
import sys

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.file_lock import FileLock

OWNER = """
import pathlib, sys, time
from mr_dedup.formats.file_lock import FileLock
with FileLock(pathlib.Path(sys.argv[1]), "out"):
    print("locked", flush=True)
    sys.stdin.read()
"""

COUNTING = """
import pathlib, sys
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.file_lock import FileLock
path, counter = map(pathlib.Path, sys.argv[1:])
done = 0
while done < 200:
    try:
        with FileLock(path, "out"):
            counter.write_text(str(int(counter.read_text()) + 1))
            done += 1
    except MrDedupError:
        pass
"""


def owner(path):
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"locked\n"
    return process


def test_a_second_owner_is_refused_and_the_file_goes(tmp_path):
    path = tmp_path / ".out.lock"
    with FileLock(path, "out"):
        with pytest.raises(MrDedupError, match=f"^out: process {os.getpid()} is writing it$"):
            FileLock(path, "out").__enter__()
        assert path.exists()
    assert list(tmp_path.iterdir()) == []
    with FileLock(path, "out"):
        pass


def test_another_process_is_named_and_a_killed_one_has_no_lock(tmp_path):
    path = tmp_path / ".out.lock"
    with owner(path) as process:
        with pytest.raises(MrDedupError, match=f"process {process.pid} is writing it"):
            FileLock(path, "out").__enter__()
        process.kill()
        process.wait()
    assert path.exists()
    with FileLock(path, "out"):
        pass
    assert not path.exists()


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    path = tmp_path / ".out.lock"
    reading, writing = os.pipe()
    with FileLock(path, "out"):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    try:
        with FileLock(path, "out"):
            pass
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_one_owner_at_a_time(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    words = [sys.executable, "-c", COUNTING, tmp_path / "lock", counter]
    processes = [subprocess.Popen(words) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert counter.read_text() == "800"


def test_what_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(MrDedupError, match=r"^out: cannot be written: Is a directory$"):
        FileLock(tmp_path, "out").__enter__()
    with pytest.raises(MrDedupError, match=r"^out: cannot be written: No such file"):
        FileLock(tmp_path / "none" / "lock", "out").__enter__()


def test_a_lock_that_says_nothing_of_its_owner(tmp_path):
    path = tmp_path / "lock"
    with owner(path) as process:
        path.write_text("")
        with pytest.raises(MrDedupError, match="another process is writing it"):
            FileLock(path, "out").__enter__()
        process.send_signal(signal.SIGTERM)
