"""Files of stores, copied whole or not at all."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.storage import fetching
from mr_dedup.storage.errors import ChangedError
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info, list_files
from mr_dedup.storage.retries import Retries
from mr_dedup.storage.scratch import Wanted, fetch_range
from mr_dedup.storage.writing import read_small
from tests.files.test_outputs import files_of_at_most
from tests.storage import servers

LARGE = random.Random(1).randbytes(2 * servers.PIECE_BYTES + 12_345)
QUICK = Retries(3, 0.01, 0.02)


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def fetched(place, name, path, pool=None, **options):
    fetch(file_info(place.of(name)), path, pool, **options)
    return path.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 70_000, servers.PIECE_BYTES, len(LARGE)])
def test_files_of_any_size(place, tmp_path, pool, size):
    place.write("a.bin", LARGE[:size])
    assert fetched(place, "a.bin", tmp_path / "copy", pool) == LARGE[:size]
    assert fetched(place, "a.bin", tmp_path / "other") == LARGE[:size]
    assert read_small(place.of("a.bin")) == LARGE[:size]


def test_names_with_strange_characters(place, tmp_path):
    for number, name in enumerate(["a b#1?.bin", "naïve 北京%20+&=.bin", "[x]*{a,b}.bin"]):
        place.write(name, name.encode())
        assert fetched(place, name, tmp_path / str(number)) == name.encode()


def piece_of(file, start, stop, folder):
    """A range of a file, by a copy of it."""
    path = folder / f"{start}-{stop}"
    fetch_range(Wanted(file, start, stop), path, None)
    return path.read_bytes()[start:stop]


def test_pieces(place, tmp_path):
    place.write("a.bin", LARGE[:1000])
    file = file_info(place.of("a.bin"))
    for start, stop in ((0, 1000), (0, 1), (999, 1000), (100, 200), (0, 0), (1000, 1000)):
        assert piece_of(file, start, stop, tmp_path) == LARGE[start:stop]


def test_a_copy_is_not_made_over_a_file(place, tmp_path):
    place.write("a.bin", b"new")
    (tmp_path / "copy").write_bytes(b"old")
    with pytest.raises(MrDedupError, match="copy: cannot be written: File exists"):
        fetched(place, "a.bin", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"old"


def test_a_file_that_changed_after_it_was_listed(place, tmp_path):
    place.write("a.bin", b"one" * 1000)
    file = file_info(place.of("a.bin"))
    for content in (b"two" * 1000, b"longer" * 1000, b"short"):
        if place.scheme == "hdfs":
            time.sleep(0.01)
        place.write("a.bin", content)
        with pytest.raises(ChangedError, match="was changed while it was read"):
            fetch(file, tmp_path / "copy")
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_changes_between_two_pieces(place, tmp_path, monkeypatch):
    place.write("a.bin", LARGE)
    file = file_info(place.of("a.bin"))
    copy = fetching._copy_piece

    def change_after(file, piece, *options):
        copy(file, piece, *options)
        if piece.start == 0:
            place.write("a.bin", LARGE[::-1])

    monkeypatch.setattr(fetching, "_copy_piece", change_after)
    with pytest.raises(ChangedError):
        fetch(file, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_went_away(place, tmp_path):
    place.write("a.bin", b"one")
    file = replace(file_info(place.of("a.bin")), uri=place.of("b.bin"))
    with pytest.raises(MrDedupError, match=r"no such file|was changed"):
        fetch(file, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_copy(place, tmp_path, pool):
    place.write("a.bin", LARGE)
    for used in (None, pool):
        with (
            pytest.raises(MrDedupError, match=r"/copy: cannot be written: File too large$"),
            files_of_at_most(100_000),
        ):
            fetched(place, "a.bin", tmp_path / "copy", used)
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_a_stream_at_once(web, tmp_path):
    web.write("a.bin", LARGE, has_length=False)
    with (
        pytest.raises(MrDedupError, match=r"/copy: cannot be written: File too large$"),
        files_of_at_most(100_000),
    ):
        fetched(web, "a.bin", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    assert len([each for each in web.proxy.requests if each.startswith("GET")]) <= 3


# checksums


@pytest.mark.parametrize("kind", ["s3", "gs", "hf"])
def test_a_wrong_checksum(request, kind, tmp_path):
    place = request.getfixturevalue(kind)
    place.write("a.bin", b"right")
    file = file_info(place.of("a.bin"))
    assert (
        file.checksum
        == {
            "s3": f"md5:{hashlib.md5(b'right').hexdigest()}",
            "gs": f"md5:{hashlib.md5(b'right').hexdigest()}",
            "hf": f"sha256:{hashlib.sha256(b'right').hexdigest()}",
        }[kind]
    )
    assert list_files([place.uri]) == [file]

    def damaged(status, headers, body):
        return status, headers, body.replace(b"right", b"wrong")

    place.proxy.faults.append(servers.Fault(r"GET .*a\.bin.*bytes=", damaged))
    wanted = r"a\.bin: arrived with another (MD5|SHA256) than the store's$"
    with pytest.raises(FormatError, match=wanted):
        fetch(file, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_an_object_in_parts_has_no_checksum(s3, tmp_path):
    from mr_dedup.storage.stores import open_store

    system, path = open_store(s3.of("parts.bin"))
    (tmp_path / "large").write_bytes(LARGE * 8)
    system.put_file(str(tmp_path / "large"), path, chunksize=6 << 20)
    file = file_info(s3.of("parts.bin"))
    assert file.version.endswith('-3"')
    assert file.checksum is None
    assert fetched(s3, "parts.bin", tmp_path / "copy") == LARGE * 8


def test_the_etag_of_an_object_that_kms_encrypts_is_no_checksum(s3, tmp_path):
    s3.write("a.bin", b"right")
    file = file_info(s3.of("a.bin"))

    def encrypted(status, headers, body):
        return status, {**headers, "x-amz-server-side-encryption": "aws:kms"}, body

    s3.proxy.faults.append(servers.Fault("HEAD .*a.bin", encrypted))
    other = replace(file, checksum="md5:" + "0" * 32)
    fetch(other, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"right"


# web servers that are not as they should be


@pytest.mark.parametrize(
    "how",
    [
        {"has_ranges": False},
        {"has_length": False},
        {"has_etag": False},
        {"has_head": False},
        {"has_ranges": False, "has_etag": False, "headers": {"Accept-Ranges": "none"}},
        {"has_etag": False, "headers": {"Last-Modified": "Tue, 24 Nov 2026 10:00:00 GMT"}},
        # a file that was compressed before, not on the way
        {"headers": {"Content-Encoding": "gzip"}},
    ],
)
def test_web_servers_of_all_kinds(web, tmp_path, pool, how):
    web.write("a.gz", LARGE, **how)
    assert fetched(web, "a.gz", tmp_path / "copy", pool) == LARGE
    file = file_info(web.of("a.gz"))
    if file.size_bytes is not None:
        assert piece_of(file, 100_000, 100_100, tmp_path) == LARGE[100_000:100_100]


def test_a_server_that_sends_whole_files_sends_one_once(web, tmp_path, pool):
    web.write("a.bin", LARGE, has_ranges=False)
    web.server.requests.clear()
    assert fetched(web, "a.bin", tmp_path / "copy", pool) == LARGE
    # one for each piece that is refused after its first bytes, and one for all
    assert len([each for each in web.server.requests if each[0] == "GET"]) <= 4


def test_a_file_of_unknown_size_is_bounded(web, tmp_path):
    web.write("a.bin", LARGE, has_length=False)
    file = file_info(web.of("a.bin"))
    assert file.size_bytes is None
    with pytest.raises(MrDedupError, match=r"a\.bin: has more than the 1,000 bytes that --scratch"):
        fetch(file, tmp_path / "copy", max_bytes=1000)
    assert list(tmp_path.iterdir()) == []


# signals


_FETCH = """
import sys, time
from pathlib import Path
from mr_dedup.cli import main
from mr_dedup.interrupts import Watcher
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info
from mr_dedup.storage.stores import STORES
import signal
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, main._interrupt)
vars(STORES["http"])["piece_bytes"] = int(sys.argv[3])
with Watcher(130):
    file = file_info(sys.argv[1])
    print("begun", flush=True)
    fetch(file, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_copy(web, tmp_path, number):
    web.write("a.bin", LARGE)
    web.proxy.faults.append(servers.Fault(f"GET .*bytes={servers.PIECE_BYTES}-", "hang"))
    command = [sys.executable, "-c", _FETCH, web.of("a.bin"), str(tmp_path / "copy")]
    command.append(str(servers.PIECE_BYTES))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"begun\n"
        deadline = time.monotonic() + 10
        while not (tmp_path / "copy").exists() or not (tmp_path / "copy").stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        process.wait(5)
    assert list(tmp_path.iterdir()) == []
