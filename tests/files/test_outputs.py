"""Outputs: whole or not at all."""

import contextlib
import gzip
import os
import random
import resource
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files.outputs import refuse_existing, whole_file


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


def test_permissions_of_other_threads_files_are_left_alone(tmp_path, monkeypatch):
    """To read the umask is to change it for a moment, in all threads."""
    (tmp_path / "usual").write_bytes(b"")
    monkeypatch.setattr(os, "umask", None)
    write(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


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
        ("folder", "is a directory, expected the name of a file to write"),
        ("to nothing", "is a link to a file that does not exist; remove it first"),
        ("to itself", "is a link to a file that does not exist; remove it first"),
    ):
        for attempt in (refuse_existing, lambda path, overwrite: write(path, b"", overwrite)):
            with pytest.raises(MrDedupError, match=f"{name}: {reason}"):
                attempt(tmp_path / name, overwrite)
    assert sorted(tmp_path.iterdir()) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is a directory"),
        ("no/out", "the directory .*/no does not exist"),
        ("file/out", "the directory .*/file is not a directory"),
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


@contextlib.contextmanager
def files_of_at_most(size):
    """Have the system refuse to write more than ``size`` bytes of a file, as a full disk does."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def write_table(file):
    pq.write_table(pa.table({"a": np.arange(100_000)}), file, compression="none")


def write_packed(file):
    with gzip.GzipFile("", "wb", 1, file) as packed:
        packed.write(random.Random(1).randbytes(200_000))


@pytest.mark.parametrize(
    "fill",
    [
        lambda file: file.write(bytes(10_000)),
        lambda file: file.write(bytes(200_000)),
        write_table,
        write_packed,
    ],
)
def test_errors_of_writing_name_the_output(tmp_path, fill):
    path = tmp_path / "out"
    with (
        pytest.raises(MrDedupError, match=f"^{path}: cannot be written: File too large$"),
        files_of_at_most(1000),
        whole_file(path) as file,
    ):
        fill(file)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_others_do_not(tmp_path):
    """Of a pipe, a socket or another file in the block, which may name nothing either."""
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError), whole_file(tmp_path / "out") as file:
        file.write(b"some")
        try:
            os.write(write, b"more")
        finally:
            os.close(write)
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "out"):
        (tmp_path / "none").read_bytes()
    other = tmp_path / "other"
    with (
        pytest.raises(MrDedupError, match=f"^{other}: cannot be written"),
        files_of_at_most(1000),
        whole_file(tmp_path / "out") as file,
        whole_file(other) as second,
    ):
        file.write(b"some")
        second.write(bytes(10_000))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_goes_away_names_the_output(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "out"
    with pytest.raises(MrDedupError, match=f"{path}: "), whole_file(path):
        for part in folder.iterdir():
            part.unlink()
        folder.rmdir()
