"""Folders for temporary files: gone with their process, or with the next one after a kill."""

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup
from mr_dedup.errors import MrDedupError
from mr_dedup.files import temporary
from mr_dedup.files.file_lock import FileLock
from mr_dedup.files.outputs import whole_file
from mr_dedup.files.temporary import PREFIX, folder_beside, removable_folder, temporary_folder

OWNER = """
import sys
from mr_dedup.files.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "x").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""

MAKING = """
from mr_dedup.files.temporary import temporary_folder
for number in range(100):
    with temporary_folder() as folder:
        (folder / "x").write_text("x")
        with temporary_folder() as other:
            pass
        assert (folder / "x").read_text() == "x"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def owner(place):
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(place)},
    )  # fmt: skip
    return process, Path(process.stdout.readline().decode().rstrip("\n"))


def test_a_folder_goes_with_its_contents(place):
    with temporary_folder() as folder:
        (folder / "x").mkdir()
        assert list(place.iterdir()) == [folder]
    assert list(place.iterdir()) == []


def test_a_removable_folder_goes_when_it_is_removed(place):
    folder, remove = removable_folder()
    (folder / "x").write_text("x")
    with temporary_folder():
        assert (folder / "x").exists()
    remove()
    assert list(place.iterdir()) == []


def test_no_other_module_makes_folders_in_the_temporary_directory():
    # what a killed process leaves of those would stay
    makers = {"TemporaryDirectory", "mkdtemp"}
    found = []
    for path in Path(mr_dedup.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in makers:
                found.append((path.name, "dir" in {word.arg for word in node.keywords}))
    assert len(found) >= 5
    assert [name for name, is_elsewhere in found if not is_elsewhere] == []


def test_what_a_killed_process_left_goes_and_nothing_else(place):
    with temporary_folder() as folder:
        prefix = folder.name.rpartition("-")[0] + "-"
    (place / f"{prefix}file").write_text("a file")
    (place / f"{prefix}link").symlink_to(place)
    (place / "mr_dedup-kernels-0").mkdir()
    (place / "other").mkdir()
    others = {*place.iterdir()}
    killed, left = owner(place)
    living, used = owner(place)
    with killed, living:
        killed.kill()
        killed.wait()
        assert (left / "x").exists()
        with temporary_folder() as folder:
            assert {*place.iterdir()} == {*others, folder, used}
            assert (used / "x").exists()
        living.stdin.close()
        assert living.wait() == 0
    assert {*place.iterdir()} == others


BESIDE = """
import sys
from pathlib import Path
from mr_dedup.files.outputs import whole_file
from mr_dedup.files.temporary import folder_beside
with whole_file(Path(sys.argv[1], "out")) as file, folder_beside(Path(sys.argv[1], "made")) as made:
    (made / "x").write_text("x")
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("next_one", ["whole_file", "folder_beside"])
def test_what_a_killed_process_left_beside_an_output_goes(tmp_path, monkeypatch, next_one):
    monkeypatch.setattr(temporary, "_cleaned", {})
    (tmp_path / ".out.0123456789ab-cdef.part").write_text("of another boot")
    os.mkfifo(tmp_path / f".out.{temporary._kernel()}pipe.part")
    (tmp_path / f".out.{temporary._kernel()}note").write_text("a note")
    others = {*tmp_path.iterdir()}
    words = [sys.executable, "-c", BESIDE, str(tmp_path)]
    processes = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    killed, living = processes
    with killed, living:
        for process in processes:
            assert process.stdout.readline() == b"begun\n"
        assert len({*tmp_path.iterdir()} - others) == 4
        killed.kill()
        killed.wait()
        if next_one == "whole_file":
            with whole_file(tmp_path / "another"):
                assert len({*tmp_path.iterdir()} - others) == 3
        else:
            with folder_beside(tmp_path / "another"):
                assert len({*tmp_path.iterdir()} - others) == 3
        living.stdin.close()
        assert living.wait() == 0
    made = ["out", "another"] if next_one == "whole_file" else ["out"]
    assert {*tmp_path.iterdir()} == {*others, *(tmp_path / name for name in made)}


def test_many_outputs_of_a_directory_are_not_many_looks_at_it(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "_cleaned", {})
    looks, usual = [], temporary.remove_left_over
    monkeypatch.setattr(temporary, "remove_left_over", lambda p: (looks.append(p), usual(p)))
    for number in range(20):
        with whole_file(tmp_path / str(number)):
            pass
    assert looks == [tmp_path]


def test_folders_of_others_are_not_removed(place, monkeypatch):
    killed, left = owner(place)
    with killed:
        killed.kill()
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with temporary_folder():
        assert left.exists()


@pytest.mark.parametrize("name", ["0123456789ab-x", "x"])
def test_folders_of_another_host_are_not_removed(place, name):
    # its processes' locks are not seen on this one
    other = place / f"{PREFIX}{name}"
    other.mkdir()
    with temporary_folder():
        assert other.exists()


def test_without_an_id_of_the_kernel_nothing_is_removed(place, monkeypatch):
    killed, left = owner(place)
    with killed:
        killed.kill()
    monkeypatch.setattr(temporary, "BOOT_ID", place / "none")
    temporary._kernel.cache_clear()
    try:
        with temporary_folder() as folder:
            assert {*place.iterdir()} == {left, folder}
        unnamed = place / f"{PREFIX}x"
        unnamed.mkdir()
        with temporary_folder():
            assert unnamed.exists()
    finally:
        temporary._kernel.cache_clear()


def test_without_locks_no_other_lock_is_released(place, monkeypatch):
    # the number of a file descriptor that was closed is used again
    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", no_locks)
        context = temporary_folder()
        context.__enter__()
    with FileLock(place / "lock", "out", pytest.fail):
        context.__exit__(None, None, None)
        with pytest.raises(MrDedupError, match="is writing it"):
            FileLock(place / "lock", "out", pytest.fail).__enter__()


def no_locks(descriptor, operation):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_processes_at_once_remove_nothing_that_is_used(place):
    environment = {**os.environ, "TMPDIR": str(place)}
    words = [sys.executable, "-c", MAKING]
    processes = [subprocess.Popen(words, env=environment) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert list(place.iterdir()) == []


def test_what_cannot_be_made_is_one_line(place, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(place / "none"))
    with pytest.raises(MrDedupError, match=r"^no temporary directory: No such file"):
        temporary_folder().__enter__()
