"""Locks of files: one owner at a time, none after its end, whatever ends it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mr_dedup import interrupts
from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lock import FileLock
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder

OWNER = """
import pathlib, sys, time
from mr_dedup.files.file_lock import FileLock
with FileLock(pathlib.Path(sys.argv[1]), "out", print):
    print("locked", flush=True)
    sys.stdin.read()
"""

COUNTING = """
import pathlib, sys
from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lock import FileLock
path, counter = map(pathlib.Path, sys.argv[1:])
done = 0
while done < 200:
    try:
        with FileLock(path, "out", print):
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
    with FileLock(path, "out", pytest.fail):
        with pytest.raises(MrDedupError, match=f"^out: process {os.getpid()} is writing it$"):
            FileLock(path, "out", pytest.fail).__enter__()
        assert path.exists()
    assert list(tmp_path.iterdir()) == []
    with FileLock(path, "out", pytest.fail):
        pass


def test_another_process_is_named_and_a_killed_one_has_no_lock(tmp_path):
    path = tmp_path / ".out.lock"
    with owner(path) as process:
        with pytest.raises(MrDedupError, match=f"process {process.pid} is writing it"):
            FileLock(path, "out", pytest.fail).__enter__()
        process.kill()
        process.wait()
    assert path.exists()
    with FileLock(path, "out", pytest.fail):
        pass
    assert not path.exists()


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    path = tmp_path / ".out.lock"
    reading, writing = os.pipe()
    with FileLock(path, "out", pytest.fail):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    try:
        with FileLock(path, "out", pytest.fail):
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
    with pytest.raises(MrDedupError, match="not a lock file of mr-dedup"):
        FileLock(tmp_path, "out", pytest.fail).__enter__()
    with pytest.raises(MrDedupError, match=r"^out: cannot be written: No such file"):
        FileLock(tmp_path / "none" / "lock", "out", pytest.fail).__enter__()


def made_by_others(kind, path, victim):
    """Put something at ``path`` that others could."""
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(path.with_name("created"))
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/full")


@pytest.mark.parametrize(
    "kind",
    ["link", "dangling link", "hard link", "file", "directory", "pipe", "socket", "device"],
)
@pytest.mark.parametrize("is_in_folder", [False, True])
def test_what_others_made_by_the_name_of_a_lock(monkeypatch, tmp_path, kind, is_in_folder):
    # the path of a socket has at most 107 bytes
    monkeypatch.chdir(tmp_path)
    victim, path = Path("victim"), Path("lock")
    victim.write_text("precious")
    made_by_others(kind, path, victim.absolute())
    before = path.lstat()
    with pytest.raises(MrDedupError, match="lock: not a lock file of mr-dedup"):
        if is_in_folder:
            with Folder(Path()) as folder:
                FolderLock(folder, "lock", MrDedupError)
        else:
            FileLock(path, "out", pytest.fail).__enter__()
    assert victim.read_text() == "precious"
    assert path.lstat() == before or kind == "directory"
    assert {each.name for each in Path().iterdir()} == {"victim", "lock"}


def test_a_lock_that_says_nothing_of_its_owner(tmp_path):
    path = tmp_path / "lock"
    with owner(path) as process:
        path.write_text("")
        with pytest.raises(MrDedupError, match="another process is writing it"):
            FileLock(path, "out", pytest.fail).__enter__()
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("end", ["in order", "by force"])
def test_the_lock_of_another_run_in_a_new_folder_stays(tmp_path, end):
    folder, moved = tmp_path / "folder", tmp_path / "moved"
    folder.mkdir()
    path = folder / "lock"
    with FileLock(path, "out", pytest.fail) as first:
        folder.rename(moved)
        folder.mkdir()
        with FileLock(path, "out", pytest.fail):
            if end == "in order":
                first.__exit__(None, None, None)
            else:
                own = [each for each in interrupts._temporary.values() if each[0] == path][:1]
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(interrupts, "_temporary", dict(enumerate(own)))
                    interrupts._clean_up()
            with pytest.raises(MrDedupError, match="is writing it"):
                FileLock(path, "out", pytest.fail).__enter__()


def test_a_folder_that_is_a_file_at_the_end(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with FileLock(folder / "lock", "out", pytest.fail):
        folder.rename(tmp_path / "moved")
        folder.write_text("x")
    assert folder.read_text() == "x"


def refused(number):
    def flock(descriptor, operation):
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_without_locks_the_block_runs_with_a_warning(tmp_path, monkeypatch, number):
    monkeypatch.setattr("fcntl.flock", refused(number))
    path = tmp_path / "lock"
    warnings = []
    with FileLock(path, "out", warnings.append):
        assert warnings == [
            f"out cannot be locked here ({os.strerror(number)}): do not write it twice at once"
        ]
    assert list(tmp_path.iterdir()) == []
    # of a process that may have locked it
    path.write_text("1\n")
    with FileLock(path, "out", warnings.append):
        pass
    assert path.read_text() == "1\n"
    assert len(warnings) == 2


def test_another_error_of_a_lock_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("fcntl.flock", refused(errno.EIO))
    with pytest.raises(MrDedupError, match=r"^out: cannot be locked: Input/output error$"):
        FileLock(tmp_path / "lock", "out", pytest.fail).__enter__()
    assert list(tmp_path.iterdir()) == []
