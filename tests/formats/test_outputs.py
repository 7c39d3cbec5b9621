"""Outputs: whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.outputs import refuse_existing, whole_file


def write(path, content=b"new", overwrite=True):
    with whole_file(path, overwrite) as file:
        file.write(content)


def test_a_file_appears_with_the_permissions_of_any_new_file(tmp_path):
    path, other = tmp_path / "out", tmp_path / "other"
    with whole_file(path) as file:
        file.write(b"all")
        assert not path.exists()
    other.touch()
    assert path.read_bytes() == b"all"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error), whole_file(path, overwrite=True) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_replaced_unasked(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(MrDedupError, match="exists; give --overwrite"):
        write(path, overwrite=False)
    write(path)
    assert path.read_bytes() == b"new"


def test_what_appears_meanwhile_is_not_replaced_either(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(MrDedupError, match="exists; give --overwrite"), whole_file(path):
        path.write_bytes(b"of another")
    assert path.read_bytes() == b"of another"
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "out"
    path.touch(mode=0o600)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(Path("elsewhere") / "target")
    with pytest.raises(MrDedupError, match="link: exists; give --overwrite"):
        write(link, overwrite=False)
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert list((tmp_path / "elsewhere").iterdir()) == [target]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_regular_file_is_never_replaced(tmp_path, overwrite):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to nothing").symlink_to("nothing")
    (tmp_path / "to itself").symlink_to("to itself")
    (tmp_path / "to null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for name, reason in (
        ("pipe", "is a pipe, expected the name of a file to write"),
        ("to null", "is a device, expected the name of a file to write"),
        ("folder", "is a folder, expected the name of a file to write"),
        ("to nothing", "is a link that leads to no file; remove it first"),
        ("to itself", "is a link that leads to no file; remove it first"),
    ):
        for attempt in (refuse_existing, lambda path, overwrite: write(path, b"", overwrite)):
            with pytest.raises(MrDedupError, match=f"{name}: {reason}"):
                attempt(tmp_path / name, overwrite)
    assert sorted(tmp_path.iterdir()) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is a folder"),
        ("no/out", "its folder .*/no does not exist"),
        ("file/out", "its folder .*/file is no folder"),
        ("x" * 256, "cannot be written: File name too long"),
    ],
)
def test_impossible_places_are_named_before_the_work(tmp_path, name, reason):
    (tmp_path / "file").touch()
    for attempt in (refuse_existing, lambda path, overwrite: write(path, b"", overwrite)):
        with pytest.raises(MrDedupError, match=f"{tmp_path / name}: {reason}"):
            attempt(tmp_path / name, False)


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, name):
    write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"new"


def test_errors_of_the_disk_name_the_output(tmp_path):
    path = tmp_path / "out"
    message = f"{path}: cannot be written: No space left"
    with pytest.raises(MrDedupError, match=message), whole_file(path):
        raise OSError(28, os.strerror(28))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_goes_away_names_the_output(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "out"
    with pytest.raises(MrDedupError, match=f"{path}: "), whole_file(path):
        for part in folder.iterdir():
            part.unlink()
        folder.rmdir()
