"""Files and directories that are written to stores."""

import os
import signal
import subprocess
import sys
import time

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lists import encoded_list
from mr_dedup.storage.listing import exists, files_below
from mr_dedup.storage.writing import move_directory, put, read_small, refuse_existing, remove
from tests.storage.servers import Fault
from tests.storage.test_fetching import LARGE


def names(place, folder=""):
    start = f"{place.uri}/"
    return [file.uri.removeprefix(start) for file in files_below(place.of(folder).rstrip("/"))]


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
@pytest.mark.parametrize("size", [0, 1, len(LARGE)])
def test_a_file_is_put_whole(writable, tmp_path, size):
    (tmp_path / "local").write_bytes(LARGE[:size])
    put(tmp_path / "local", writable.of("dir/a b#1?.bin"))
    assert names(writable) == ["dir/a b#1?.bin"]
    assert read_small(writable.of("dir/a b#1?.bin")) == LARGE[:size]
    assert writable.read("dir/a b#1?.bin") == LARGE[:size]


def test_a_file_is_not_replaced_unasked(writable, tmp_path):
    (tmp_path / "local").write_bytes(b"new")
    writable.write("a.bin", b"old")
    uri = writable.of("a.bin")
    for attempt in (refuse_existing, lambda uri, overwrite: put(tmp_path / "local", uri)):
        with pytest.raises(MrDedupError, match=r"a\.bin: exists; give --overwrite to replace it$"):
            attempt(uri, False)
    assert writable.read("a.bin") == b"old"
    refuse_existing(uri, True)
    put(tmp_path / "local", uri, overwrite=True)
    assert writable.read("a.bin") == b"new"
    assert names(writable) == ["a.bin"]


def test_a_directory_exists_too(writable):
    writable.fill("dir/a")
    with pytest.raises(MrDedupError, match="dir: exists"):
        refuse_existing(writable.of("dir"), False)
    refuse_existing(writable.of("di"), False)


def test_a_local_file_that_does_not_exist(writable, tmp_path):
    with pytest.raises(MrDedupError, match=f"^{tmp_path}/none: cannot be read: No such file"):
        put(tmp_path / "none", writable.of("a.bin"))
    assert names(writable) == []


def test_what_is_removed(writable):
    writable.fill("a", "ab", "dir/b", "dir/_c/d", "dir2/e")
    remove(writable.of("a"))
    assert names(writable) == ["ab", "dir/_c/d", "dir/b", "dir2/e"]
    remove(writable.of("dir"))
    assert names(writable) == ["ab", "dir2/e"]
    assert not exists(writable.of("dir"))
    remove(writable.of("dir"))
    remove(writable.of("none"))


@pytest.mark.parametrize("name", ["kept[1]", "kept*", "kept?", "kept#1", "kept;1", "{kept,kept1}"])
def test_only_what_is_named_is_removed(writable, name):
    """Also if the name is a pattern, or another name to who parses it as a web address."""
    if (writable.scheme, name) == ("gs", "kept;1"):
        # the emulator ends a name at a semicolon
        return
    writable.fill(f"{name}/a", name + "1", "kept1", "kept", "kept1.b")
    remove(writable.of(name))
    assert names(writable) == ["kept", *sorted({"kept1", "kept1.b", name + "1"} - {"kept"})]


def test_a_directory_becomes_another(writable):
    writable.fill("made/a", "made/b/c", "made/report.json", "other")
    move_directory(writable.of("made"), writable.of("result/kept"), "report.json")
    assert names(writable) == [
        "other",
        "result/kept/a",
        "result/kept/b/c",
        "result/kept/report.json",
    ]
    assert writable.read("result/kept/b/c") == b"made/b/c"


def fill_listed(place, *names):
    """Fill a directory ``kept``, with a list of its files."""
    place.fill(*names)
    sizes = {name.removeprefix("kept/"): len(name) for name in names}
    place.write("kept/.files.json", encoded_list(sizes))


def test_a_directory_replaces_another(writable):
    fill_listed(writable, "kept/a", "kept/old", "kept/b/old", "kept/report.json")
    writable.fill("kept2/a", "made/a", "made/b/c", "made/report.json")
    move_directory(writable.of("made"), writable.of("kept"), "report.json")
    assert names(writable) == ["kept/a", "kept/b/c", "kept/report.json", "kept2/a"]
    assert writable.read("kept/a") == b"made/a"
    assert writable.read("kept/report.json") == b"made/report.json"


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_move_that_is_interrupted_leaves_no_complete_directory(request, kind):
    """Whatever request is the last one: report.json is there with all of one version, or not."""
    place = request.getfixturevalue(kind)
    contents = []
    for done in range(0, 60, 3):
        fill_listed(place, "kept/a", "kept/b", "kept/report.json", "kept/stale")
        place.fill("made/a", "made/b", "made/report.json")
        proxied = place.proxy
        seen = iter(range(1 << 30))
        proxied.faults[:] = [_After(done, seen)]
        try:
            move_directory(place.of("made"), place.of("kept"), "report.json")
            contents.append("moved")
        except MrDedupError:
            contents.append("failed")
        proxied.faults.clear()
        there = names(place, "kept")
        if "kept/report.json" in there:
            there.remove("kept/.files.json") if "kept/.files.json" in there else None
            texts = {place.read(name).partition(b"/")[0] for name in there}
            assert texts in ({b"made"}, {b"kept"})
    assert {"moved", "failed"} <= set(contents)


FOREIGN = {
    "no list": (["kept/report.json", "kept/table.csv"], None),
    "a file more": (["kept/report.json", "kept/note"], ["report.json"]),
    "a hidden file": (["kept/report.json", "kept/.git/HEAD"], ["report.json"]),
    "another list": (["kept/report.json", "kept/.files.json"], None),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_no_list_names_is_not_replaced(writable, kind):
    there, listed = FOREIGN[kind]
    writable.fill(*there, "made/report.json", "made/table.csv")
    if listed:
        sizes = {name: len(f"kept/{name}") for name in listed}
        writable.write("kept/.files.json", encoded_list(sizes))
    before = {name: writable.read(name) for name in names(writable)}
    with pytest.raises(MrDedupError, match=r"kept: .*is not replaced$"):
        move_directory(writable.of("made"), writable.of("kept"), "report.json")
    assert {name: writable.read(name) for name in names(writable)} == before


def test_a_file_of_another_size_is_not_replaced(writable):
    fill_listed(writable, "kept/report.json", "kept/a")
    writable.write("kept/a", b"somebody's own words")
    writable.fill("made/report.json")
    with pytest.raises(MrDedupError, match="its file 'a' was changed since it was made"):
        move_directory(writable.of("made"), writable.of("kept"), "report.json")
    assert writable.read("kept/a") == b"somebody's own words"


class _After(Fault):
    """Denies all requests but the first ones."""

    def __init__(self, allowed, seen):
        super().__init__("", 403)
        self.allowed, self.seen = allowed, seen

    @property
    def times(self):
        return 0 if next(self.seen) < self.allowed else 1 << 30

    @times.setter
    def times(self, value):
        pass


_PUT = """
import sys
from pathlib import Path
from mr_dedup.storage.writing import put
print("begun", flush=True)
put(Path(sys.argv[1]), sys.argv[2], overwrite=True)
"""


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_kill_leaves_what_was_there(request, kind, tmp_path):
    place = request.getfixturevalue(kind)
    place.write("a.bin", b"old")
    (tmp_path / "local").write_bytes(os.urandom(120 << 20) if kind == "s3" else LARGE)
    # a part of an upload in parts, or its end
    place.proxy.faults.append(Fault(r"(PUT|POST) .*(partNumber=2|upload_id|upload/)", "hang"))
    command = [sys.executable, "-c", _PUT, str(tmp_path / "local"), place.of("a.bin")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        deadline = time.monotonic() + 20
        while not place.proxy.faults[0].met:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    place.proxy.faults.clear()
    assert place.read("a.bin") == b"old"
    assert names(place) == ["a.bin"]


def test_an_upload_in_parts_that_fails_leaves_no_parts(s3, tmp_path):
    """They would cost money, and nobody would see them."""
    (tmp_path / "local").write_bytes(bytes(120 << 20))
    s3.proxy.faults.append(Fault("PUT .*partNumber=2", 403))
    with pytest.raises(MrDedupError, match=r"a\.bin: access denied"):
        put(tmp_path / "local", s3.of("a.bin"))
    s3.proxy.faults.clear()
    assert b"<Upload>" not in s3.uploads()
    assert names(s3) == []
