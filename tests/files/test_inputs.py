"""What names on a command line stand for."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import expand, kind_of


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    touch(tmp_path, "b.longs", "a.longs", "c d#%.txt", "[x]*.longs", ".hidden", "_SUCCESS")
    touch(tmp_path, "inner/z.longs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*arguments):
    return [path.name for path in expand(arguments)]


def paths(*arguments):
    return [str(path) for path in expand(arguments)]


def test_files_globs_folders_and_addresses(folder):
    assert names("b.longs", "a.longs") == ["b.longs", "a.longs"]
    assert names("?.longs") == ["a.longs", "b.longs"]
    assert names(str(folder / "*.txt")) == ["c d#%.txt"]
    assert names("**/z.longs") == ["z.longs"]
    assert names("[x]*.longs") == ["[x]*.longs"]
    assert names(".") == ["[x]*.longs", "a.longs", "b.longs", "c d#%.txt", "z.longs"]
    assert names((folder / "c d#%.txt").as_uri()) == ["c d#%.txt"]
    assert names(f"file://localhost{folder}/c d#%25.txt") == ["c d#%.txt"]
    assert names((folder / "inner").as_uri()) == ["z.longs"]


def test_a_name_that_is_not_utf8_has_an_address(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.longs"))
    path.touch()
    assert expand([path.as_uri()]) == [path]


def test_folders_are_read_with_what_is_below_them_in_the_order_of_their_paths(tmp_path):
    wanted = ["a/b.txt", "a/c/1.txt", "a/c/2.txt", "a/d.txt", "a.txt", "day=2/hour=10/x.txt"]
    touch(tmp_path, *reversed(wanted))
    touch(tmp_path, "a/_SUCCESS", "a/.part", "a/_temporary/0/x.txt", ".git/x.txt", "empty/.keep")
    assert expand([str(tmp_path)]) == [tmp_path / name for name in wanted]


def test_globs_match_folders_too_and_each_file_once(folder):
    touch(folder, "parts/1/x.txt", "parts/2/deep/y.txt", "parts/z.txt")
    wanted = ["parts/1/x.txt", "parts/2/deep/y.txt", "parts/z.txt"]
    assert paths("parts/*") == wanted
    assert paths("parts/**") == wanted
    assert paths("parts/z.txt", "parts/z*") == ["parts/z.txt", "parts/z.txt"]


def test_links_are_followed_and_every_folder_is_entered_once(tmp_path):
    touch(tmp_path, "in/a/x.txt", "in/b/y.txt", "elsewhere/z.txt")
    (tmp_path / "in/a/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/b/self").symlink_to(".")
    (tmp_path / "in/c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in/d").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in/e.txt").symlink_to(tmp_path / "elsewhere/z.txt")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "in")
    expected = ["a/x.txt", "b/y.txt", "c/z.txt", "e.txt"]
    assert expand([str(tmp_path / "in")]) == [tmp_path / "in" / name for name in expected]


def test_what_is_no_file_is_left_for_the_reader_to_refuse(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to("nothing")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    found = [tmp_path / name for name in ("link.txt", "loop.txt", "pipe.txt")]
    assert expand([str(tmp_path)]) == expand([str(tmp_path / "*")]) == found
    assert expand(map(str, found)) == found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.longs", "nothing.longs: no such file"),
        ("*.fpz", r"\*.fpz: no such file"),
        ("file://host/a.longs", "is on another host, host"),
        ("file://[host/a.longs", r"is on another host, \[host"),
        ("file:///a%00b", "a path cannot contain a zero byte"),
        ("empty", "empty: contains no files"),
        ("", "the name of an input is empty"),
        ("x" * 300, "x: cannot be read: File name too long"),
    ],
)
def test_names_of_nothing_are_errors(folder, name, said):
    (folder / "empty" / "below").mkdir(parents=True)
    with pytest.raises(MrDedupError, match=said):
        expand(["a.longs", name])


@pytest.fixture
def open_folder():
    """A folder that others than the one who runs the tests can enter: root is denied nothing."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield Path(name)
        os.seteuid(user)
        for path in Path(name).iterdir():
            path.chmod(0o700)


def test_a_sub_folder_out_of_reach_is_named(open_folder):
    user = os.geteuid()
    os.seteuid(os.getuid())
    touch(open_folder, "a.txt", "closed/b.txt")
    (open_folder / "closed").chmod(0)
    os.seteuid(user)
    for name in (open_folder, open_folder / "closed", open_folder / "closed" / "b.txt"):
        with pytest.raises(MrDedupError, match=r"closed.*: cannot be read: Permission denied"):
            expand([str(name)])


def test_every_kind(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for path, kind in (
        (tmp_path / "file", "file"),
        (tmp_path, "directory"),
        (tmp_path / "pipe", "pipe"),
        (tmp_path / "socket", "socket"),
        ("/dev/null", "device"),
    ):
        link = tmp_path / f"link to {kind}"
        link.symlink_to(path)
        assert kind_of(path) == kind_of(link) == kind


def test_a_path_to_nothing(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("link", "nothing"):
        with pytest.raises(FileNotFoundError):
            kind_of(tmp_path / name)
