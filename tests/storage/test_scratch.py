"""Copies that threads share, within a bound."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.storage import scratch as scratch_module
from mr_dedup.storage.listing import RemoteFile, file_info
from mr_dedup.storage.scratch import Scratch, Wanted, default_scratch_bytes, fetch_range
from tests.files.test_outputs import files_of_at_most
from tests.storage import servers
from tests.storage.servers import Fault
from tests.storage.stores import scratch_files
from tests.storage.test_fetching import LARGE


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def info(place, name):
    return file_info(place.of(name))


def test_copies_last_as_long_as_they_are_used_and_while_there_is_room(web, folder):
    for name in "abc":
        web.write(name, name.encode() * 1000)
    files = {name: Wanted(info(web, name)) for name in "abc"}
    with Scratch(folder, 2000) as scratch:
        for name in "aab":
            with scratch.copies([files[name]]) as [path]:
                assert path.read_bytes() == name.encode() * 1000
        assert scratch.fetched_bytes == 2000
        with scratch.copies([files["a"]]):
            pass
        # the longest unused
        with scratch.copies([files["c"]]) as [path]:
            assert [name[-1] for name in scratch_files(folder)] == ["a", "c"]
        with scratch.copies([files["a"], files["c"], files["a"]]) as paths:
            assert paths[0] == paths[2]
        assert scratch.fetched_bytes == 3000
    assert scratch_files(folder) == []


def test_more_than_the_bound_is_refused(web, folder):
    for name in "abc":
        web.write(name, bytes(1000))
    wanted = [Wanted(info(web, name)) for name in "abc"]
    with Scratch(folder, 2500) as scratch:
        with scratch.copies(wanted[:1]):
            pass
        with (
            pytest.raises(
                MrDedupError, match=r"3,000 bytes are read at a time, more than the 2,500"
            ),
            scratch.copies(wanted),
        ):
            pass
        with scratch.copies(wanted[1:]) as paths:
            assert len(paths) == 2


def test_a_thread_waits_until_there_is_room(web, folder):
    for name in "ab":
        web.write(name, bytes(1000))
    a, b = (Wanted(info(web, name)) for name in "ab")
    order = []
    with Scratch(folder, 1500) as scratch, ThreadPoolExecutor(1) as pool:

        def use():
            with scratch.copies([b]):
                order.append("b")

        with scratch.copies([a]):
            waiting = pool.submit(use)
            time.sleep(0.1)
            order.append("a")
        waiting.result(10)
    assert order == ["a", "b"]


def test_copies_that_are_not_wanted_again_are_removed_at_once(web, folder):
    for name in "ab":
        web.write(name, bytes(1000))
    a, b = (Wanted(info(web, name)) for name in "ab")
    with Scratch(folder, 1 << 20) as scratch:
        with scratch.copies([a, b], is_kept=False), scratch.copies([b], is_kept=False):
            assert len(scratch_files(folder)) == 2
        assert scratch_files(folder) == []
        with scratch.copies([a], is_kept=False) as [path]:
            assert path.read_bytes() == bytes(1000)
        assert scratch.fetched_bytes == 3000


def wait_until(holds):
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_fetched_ahead_is_there_when_it_is_wanted(web, folder):
    for name in "ab":
        web.write(name, LARGE)
    a, b = (Wanted(info(web, name)) for name in "ab")
    with Scratch(folder, 1 << 30) as scratch:
        scratch.fetch_ahead([a, b])
        scratch.fetch_ahead([b])
        wait_until(lambda: scratch.fetched_bytes == 2 * len(LARGE))
        web.server.requests.clear()
        for is_kept in (True, False):
            with scratch.copies([a, b], is_kept) as paths:
                assert all(path.read_bytes() == LARGE for path in paths)
        assert web.server.requests == []
        assert scratch_files(folder) == []


def test_nothing_is_fetched_ahead_without_room(web, folder):
    for name in "abc":
        web.write(name, bytes(1000))
    a, b, c = (Wanted(info(web, name)) for name in "abc")
    with Scratch(folder, 2500) as scratch, scratch.copies([a]):
        scratch.fetch_ahead([b, c])
        scratch.fetch_ahead([b])
        wait_until(lambda: scratch.fetched_bytes == 2000)
        # the copy of b is not in use now, and makes room
        with scratch.copies([c]):
            assert scratch.fetched_bytes == 3000
            scratch.fetch_ahead([b])
        assert scratch.fetched_bytes == 3000


def test_an_error_ahead_is_no_error_of_a_later_attempt(web, quick, folder):
    web.write("a", LARGE)
    wanted = Wanted(info(web, "a"))
    fault = Fault("GET .*/a ", 404, 1)
    web.proxy.faults.append(fault)
    with Scratch(folder, 1 << 30) as scratch:
        scratch.fetch_ahead([wanted])
        wait_until(lambda: fault.met and not scratch._copies)
        web.proxy.faults.clear()
        with scratch.copies([wanted]) as [path]:
            assert path.read_bytes() == LARGE


def test_the_end_waits_for_no_transfer(web, folder):
    web.write("a", LARGE)
    fault = Fault(f"GET .*bytes={servers.PIECE_BYTES}-", "slow")
    web.proxy.faults.append(fault)
    with Scratch(folder, 1 << 30) as scratch:
        scratch.fetch_ahead([Wanted(info(web, "a"))])
        wait_until(lambda: fault.met)
        begun = time.monotonic()
    # the response takes 20 s
    assert time.monotonic() - begun < 10
    assert scratch_files(folder) == []


def test_the_names_of_copies_end_as_those_of_files(web, folder):
    names = ["x" * 250 + ".jsonl.gz", "北" * 80 + ".jsonl.gz", "a b#.jsonl.gz"]
    for name in names:
        web.write(name, b"content")
    with (
        Scratch(folder, 1000) as scratch,
        scratch.copies([Wanted(info(web, name)) for name in names]) as paths,
    ):
        assert all(path.name.endswith(".jsonl.gz") for path in paths)


# ranges


LINES = b"".join(b"x" * size + b"\n" for size in (3, 9, 2, 400_000, 5, 0, 1, 700_000, 3))


def lines_of(data):
    return data.splitlines(keepends=True)


@pytest.mark.parametrize("kind", ["web", "s3"])
def test_ranges_have_the_rest_of_a_line(request, folder, kind):
    """As tasks read them: from the byte before, a line belongs to the range that it begins in."""
    place = request.getfixturevalue(kind)
    place.write("a.jsonl", LINES)
    file = info(place, "a.jsonl")
    rng = random.Random(3)
    with Scratch(folder, 1 << 30) as scratch:
        for count in (1, 2, 3, 7):
            edges = sorted({0, *rng.sample(range(1, len(LINES)), count - 1)})
            read = []
            for start, stop in zip(edges, [*edges[1:], None], strict=True):
                wanted = Wanted(file, max(0, start - 1), stop, b"\n")
                if start == 0 and stop is None:
                    wanted = Wanted(file)
                with scratch.copies([wanted]) as [path]:
                    assert path.stat().st_size == len(LINES)
                    read += read_lines(path, start, stop)
            assert read == lines_of(LINES)


def read_lines(path, start, stop):
    with path.open("rb") as file:
        file.seek(max(0, start - 1))
        if start:
            file.readline()
        while stop is None or file.tell() < stop:
            line = file.readline()
            if not line:
                return
            yield line


@given(st.data())
def test_an_end_of_several_bytes_across_the_edges_of_windows(tmp_path_factory, data):
    content = data.draw(st.binary(max_size=60).map(lambda b: b.replace(b"\r", b"\r\n")))
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    path = tmp_path_factory.mktemp("range") / "copy"
    file = RemoteFile("test://a", len(content), "")

    def copied(file, ranges, handle, pool, stopped=None):
        for piece in ranges:
            os.pwrite(handle, content[piece.start : piece.stop], piece.start)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scratch_module, "copy_ranges", copied)
        patched.setattr(scratch_module, "require_unchanged", lambda file: None)
        patched.setattr(scratch_module, "_CHUNK_BYTES", 4)
        patched.setattr(scratch_module, "_THROUGH_BYTES", 1)
        fetch_range(Wanted(file, start, stop, b"\r\n"), path, None)
    copy = path.read_bytes()
    end = stop
    ends = content[start:stop].endswith(b"\r\n") and stop - start >= 2
    if not ends and (start == 0 or b"\r\n" in content[start:stop]):
        found = content.find(b"\r\n", max(start, stop - 1))
        end = len(content) if found < 0 else found + 2
    assert copy[start:end] == content[start:end]


# failures


def test_an_error_of_one_file_does_not_change_others(web, quick, folder):
    for name in "ab":
        web.write(name, name.encode() * 1000)
    a, b = (Wanted(info(web, name)) for name in "ab")
    fault = Fault("GET .*/a ", 403)
    web.proxy.faults.append(fault)
    with Scratch(folder, 2000) as scratch:
        with pytest.raises(MrDedupError, match="/a: access denied"), scratch.copies([a, b]):
            pass
        with scratch.copies([b]) as [path]:
            assert path.read_bytes() == b"b" * 1000
        assert scratch.fetched_bytes == 1000
        web.proxy.faults.clear()
        # it is fetched anew
        with scratch.copies([a, b]) as paths:
            assert paths[0].read_bytes() == b"a" * 1000
        assert scratch._used_bytes == 2000


def test_a_thread_that_waits_for_a_copy_that_fails_gets_its_error(web, quick, folder):
    web.write("a", bytes(1000))
    wanted = Wanted(info(web, "a"))
    web.proxy.faults.append(Fault("GET ", 403))
    with Scratch(folder, 2000) as scratch, ThreadPoolExecutor(8) as pool:

        def use(_):
            with pytest.raises(MrDedupError, match="/a: access denied"), scratch.copies([wanted]):
                pass

        assert list(pool.map(use, range(50), timeout=30)) == [None] * 50
        assert scratch._used_bytes == 0
        assert scratch._copies == {}
    assert scratch_files(folder) == []


def test_an_interrupt_leaves_no_thread_waiting(web, folder, monkeypatch):
    """Of the main thread, which fetches a large file while others wait for the one after it."""
    for name in "ab":
        web.write(name, LARGE)
    web.write("c", b"small")
    wanted = [Wanted(info(web, name)) for name in "abc"]
    begun = threading.Event()

    def interrupted(*arguments, **options):
        begun.set()
        time.sleep(0.2)
        raise KeyboardInterrupt

    with Scratch(folder, 1 << 30) as scratch, ThreadPoolExecutor(1) as pool:

        def use():
            begun.wait(10)
            with scratch.copies([wanted[1]]) as [path]:
                return path.read_bytes()

        waiting = pool.submit(use)
        with monkeypatch.context() as patched:
            patched.setattr(scratch_module, "fetch", interrupted)
            with pytest.raises(KeyboardInterrupt), scratch.copies(wanted):
                pass
        with pytest.raises(MrDedupError, match="interrupted"):
            waiting.result(20)
        with scratch.copies(wanted[1:]) as paths:
            assert paths[0].read_bytes() == LARGE
    assert scratch_files(folder) == []


def test_a_file_of_unknown_size_counts_once_it_is_copied(web, folder):
    for name in "ab":
        web.write(name, bytes(100_000), has_length=False)
    a, b = (Wanted(info(web, name)) for name in "ab")
    assert a.size_bytes == 0
    with Scratch(folder, 150_000) as scratch:
        with scratch.copies([a]):
            assert scratch._used_bytes == 100_000
        web.write("c", bytes(60_000))
        with scratch.copies([Wanted(info(web, "c"))]):
            assert len(scratch_files(folder)) == 1
        web.write("b", bytes(200_000), has_length=False)
        with (
            pytest.raises(MrDedupError, match="has more than the 150,000 bytes"),
            scratch.copies([b]),
        ):
            pass


def test_a_full_disk(web, folder):
    web.write("a", LARGE)
    with (
        pytest.raises(MrDedupError, match=r"cannot be written: File too large$"),
        files_of_at_most(100_000),
        Scratch(folder, 1 << 30) as scratch,
        scratch.copies([Wanted(info(web, "a"))]),
    ):
        pass
    assert scratch_files(folder) == []


# many threads


@pytest.mark.slow
def test_many_threads_share_copies_within_the_bound(web, folder):
    sizes = [0, 1, 1000, 5000, 20_000, servers.PIECE_BYTES + 1000]
    contents = {f"{n}.bin": LARGE[n : n + sizes[n % len(sizes)]] for n in range(30)}
    for name, content in contents.items():
        web.write(name, content)
    files = {name: info(web, name) for name in contents}
    bound = servers.PIECE_BYTES + 60_000
    stop, largest = threading.Event(), [0]

    def watch():
        while not stop.is_set():
            total = 0
            for path in folder.iterdir():
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue
                total += min(status.st_size, status.st_blocks * 512)
            largest[0] = max(largest[0], total)

    def work(seed):
        rng = random.Random(seed)
        for _ in range(40):
            names = rng.sample(sorted(contents), rng.randrange(1, 4))
            if sum(len(contents[name]) for name in names) > bound:
                continue
            ranged = rng.random() < 0.3
            wanted = [
                Wanted(files[n], len(contents[n]) // 3, len(contents[n]) // 2)
                if ranged
                else Wanted(files[n])
                for n in names
            ]
            if rng.random() < 0.3:
                scratch.fetch_ahead([Wanted(files[name]) for name in rng.sample(names, 1)])
            with scratch.copies(wanted, rng.random() < 0.7) as paths:
                for name, path, each in zip(names, paths, wanted, strict=True):
                    data = path.read_bytes()[each.start : each.stop]
                    assert data == contents[name][each.start : each.stop]

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Scratch(folder, bound) as scratch, ThreadPoolExecutor(12) as pool:
            list(pool.map(work, range(12), timeout=50))
            wait_until(lambda: not any(copy.users for copy in scratch._copies.values()))
            assert 0 <= scratch._used_bytes <= bound
            used = sum(copy.size_bytes for copy in scratch._copies.values())
            assert used == scratch._used_bytes
    finally:
        stop.set()
        watcher.join()
    # a block of the file system may be added to each copy
    assert largest[0] <= bound + 4096 * 12
    assert scratch_files(folder) == []


def test_a_copy_that_several_threads_want_is_fetched_once(web, folder):
    web.write("a.bin", LARGE)
    wanted = Wanted(info(web, "a.bin"))
    web.server.requests.clear()
    with Scratch(folder, 1 << 30) as scratch, ThreadPoolExecutor(12) as pool:

        def use(_):
            with scratch.copies([wanted]) as [path]:
                return path.read_bytes() == LARGE

        assert all(pool.map(use, range(24)))
        assert scratch.fetched_bytes == len(LARGE)
    assert len([each for each in web.server.requests if each[0] == "GET"]) == 3


def test_the_default_is_half_of_what_is_free(tmp_path):
    assert 0 < default_scratch_bytes(tmp_path) <= 16 << 30
    with pytest.raises(MrDedupError, match="none: cannot be written"):
        default_scratch_bytes(tmp_path / "none")
