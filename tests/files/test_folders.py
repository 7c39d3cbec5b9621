"""Open folders: files are in the folder that was opened, wherever it is now."""

import errno
import os

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder


class InUseError(MrDedupError):
    """The lock is taken."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    with Folder(tmp_path / "here") as opened:
        yield opened


def write(file, content):
    with file.written() as out:
        out.write(content)


def replace_folder(folder):
    """Move a folder away, and make another with a file in its place."""
    folder.path.rename(folder.path.with_name("moved"))
    folder.path.mkdir()
    (folder.path / "other").write_bytes(b"of another")


def test_files_are_written_read_and_removed(folder):
    file = folder / "file"
    write(file, b"1")
    file.path.chmod(0o640)
    write(file, b"22")
    assert (file.read(), file.stat().st_size) == (b"22", 2)
    assert file.path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(ZeroDivisionError), file.written() as out:
        out.write(b"half")
        1 / 0  # noqa: B018
    assert file.read() == b"22"
    assert folder.names() == ["file"]
    for _ in range(2):
        file.remove()
    assert file.stat() is None
    with pytest.raises(FileNotFoundError) as raised:
        file.read()
    assert raised.value.filename == str(file.path)


def test_a_file_that_is_there_is_not_created(folder):
    file = folder / "file"
    os.close(file.create())
    with pytest.raises(MrDedupError, match=f"{file.path}: cannot be written: File exists"):
        file.create()


def test_what_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "missing", tmp_path / "file" / "below"):
        with pytest.raises(MrDedupError, match=f"^{path}: not a directory$"):
            Folder(path)
    with Folder(tmp_path) as folder:
        pass
    with pytest.raises(ValueError, match="is closed"):
        folder.names()


def test_what_was_moved_is_read_and_removed_where_it_is(folder):
    write(folder / "file", b"1")
    write(folder / "other", b"2")
    replace_folder(folder)
    assert (folder / "file").read() == b"1"
    assert sorted(folder.names()) == ["file", "other"]
    (folder / "other").remove()
    assert folder.names() == ["file"]
    assert [path.read_bytes() for path in folder.path.iterdir()] == [b"of another"]


def test_nothing_is_written_where_another_folder_is_now(folder):
    with pytest.raises(MrDedupError, match="was moved"), (folder / "other").written() as out:
        out.write(b"1")
        replace_folder(folder)
    for make in (lambda: (folder / "new").create(), lambda: write(folder / "other", b"1")):
        with pytest.raises(MrDedupError, match=f"{folder.path}: was moved, removed or replaced"):
            make()
    assert [path.read_bytes() for path in folder.path.iterdir()] == [b"of another"]
    assert folder.names() == []


def test_a_folder_that_is_moved_just_before_a_file_is_made(folder, monkeypatch):
    opened = os.open

    def move_and_open(path, *arguments, **options):
        monkeypatch.undo()
        replace_folder(folder)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", move_and_open)
    with pytest.raises(MrDedupError, match="was moved"):
        (folder / "new").create()
    assert [path.name for path in folder.path.iterdir()] == ["other"]


def test_a_lock_is_taken_once_and_lost_with_its_folder(folder):
    lock = FolderLock(folder, "lock", InUseError)
    with pytest.raises(InUseError, match=rf"process {os.getpid()} has it open for writing"):
        FolderLock(folder, "lock", InUseError)
    lock.require_same()
    replace_folder(folder)
    with pytest.raises(MrDedupError, match="was moved, removed or replaced"):
        lock.require_same()
    with Folder(folder.path) as other:
        FolderLock(other, "lock", InUseError).release()
    with pytest.raises(MrDedupError, match="was moved, removed or replaced"):
        lock.require_same()
    lock.release()
    FolderLock(folder, "lock", InUseError).release()


def test_a_lock_is_needed(folder, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(MrDedupError, match=r"cannot be locked: Function not implemented$"):
        FolderLock(folder, "lock", InUseError)
