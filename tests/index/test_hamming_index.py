"""The index on disk: who may write, what survives, reports of damage and of a full disk."""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.index import merging
from mr_dedup.index.folder import IndexInUseError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.ids import Ids
from mr_dedup.index.integrity import verify
from mr_dedup.index.log import Record, open_log
from mr_dedup.index.reader import IndexReader
from mr_dedup.index.segment import Segment
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.state import State
from tests.files.paths import file_at
from tests.index.index_oracle import Oracle

ROOT = Path(__file__).parent.parent.parent
HEAD_BYTES = 64


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


def values(numbers):
    return np.array(numbers, dtype=np.uint64)


def spread(number):
    """A fingerprint that is far from those of other numbers."""
    return random.Random(number).getrandbits(64)


def add_numbers(index, numbers):
    index.add(values([spread(n) for n in numbers]), [f"page {n}" for n in numbers])


def found(index, numbers):
    """The ids that an index has for the fingerprints of numbers."""
    return list(index.query(values([spread(n) for n in numbers]), 0).ids)


def pages(numbers):
    return [f"page {n}" for n in numbers]


def filled(folder):
    """An index with segments, removals of several ages, and documents that are in its log."""
    index = HammingIndex.create(folder, memory_documents=100, background=False)
    with index:
        for start in range(0, 500, 50):
            add_numbers(index, range(start, start + 50))
        index.remove(pages([0, 1, 150]))
        add_numbers(index, range(500, 540))
        add_numbers(index, range(540, 630))
        index.remove(pages([2, 629]))


def test_one_process_writes(folder):
    with HammingIndex.create(folder) as index:
        add_numbers(index, [1])
        with pytest.raises(IndexInUseError, match=r"process \d+ has it open for writing"):
            HammingIndex.open(folder)
        code = (
            f"from mr_dedup.index.hamming_index import HammingIndex as H; H.open({str(folder)!r})"
        )
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert b"IndexInUseError" in other.stderr
        assert found(index, [1]) == ["page 1"]
    with HammingIndex.open(folder) as index:
        assert found(index, [1]) == ["page 1"]


def test_what_cannot_be_made_or_opened(folder, tmp_path):
    for options, message in (
        ({"k": -1}, "k must be from 0"),
        ({"k": 99}, "k must be from 0"),
        ({"design": "5-tables"}, "design for k = 3 must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            HammingIndex.create(folder, **options)
    with pytest.raises(MrDedupError, match="not a directory"):
        HammingIndex.open(folder)
    folder.mkdir()
    for opened in (HammingIndex.open, IndexReader.open):
        with pytest.raises(MrDedupError, match="contains no index"):
            opened(folder)
    HammingIndex.create(folder).close()
    with pytest.raises(MrDedupError, match="contains an index already"):
        HammingIndex.create(folder)
    with pytest.raises(ValueError, match="design for k = 3"), HammingIndex.open(folder) as index:
        index.compact("7-tables")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(MrDedupError, match="contains other files"):
        HammingIndex.create(tmp_path / "other")
    with pytest.raises(MrDedupError, match="not a directory"):
        HammingIndex.create(tmp_path / "other" / "file")


def test_leftovers_of_a_killed_process_are_removed(folder):
    HammingIndex.create(folder, background=False).close()
    left = ("segment-00000009", "log-00000044", "dead-00000003", ".MANIFEST.abc.part")
    for name in left:
        (folder / name).write_bytes(b"half")
    (folder / "notes").write_text("not ours")
    HammingIndex.open(folder).close()
    names = {path.name for path in folder.iterdir()}
    assert names == {"MANIFEST", "LOCK", "log-00000001", "notes"}
    # of one that was killed while it made the index
    for name in ("MANIFEST", "notes"):
        (folder / name).unlink()
    (folder / "segment-00000002").write_bytes(b"half")
    HammingIndex.create(folder, background=False).close()
    assert {path.name for path in folder.iterdir()} == {"MANIFEST", "LOCK", "log-00000001"}


def test_a_flipped_bit_in_any_file_is_told(folder):
    filled(folder)
    rng = random.Random(1)
    kinds = set()
    for path in sorted(folder.iterdir()):
        if path.name == "LOCK":
            continue
        content = path.read_bytes()
        few = 3 if path.name.startswith("segment") else 60
        offsets = {0, 9, len(content) - 1, *rng.choices(range(len(content)), k=few)}
        for offset in offsets:
            damaged = bytearray(content)
            damaged[offset] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            for opened in (HammingIndex.open, IndexReader.open):
                with pytest.raises(FormatError, match=path.name):
                    opened(folder).close()
        damages = list(verify(folder))
        assert damages
        assert path.name in str(damages[0])
        path.write_bytes(content)
        kinds.add(path.name.partition("-")[0])
    assert kinds == {"MANIFEST", "segment", "log", "dead"}
    assert not list(verify(folder))


def test_missing_and_shortened_files_are_told(folder):
    filled(folder)
    for path in sorted(folder.iterdir()):
        if path.name == "LOCK":
            continue
        content = path.read_bytes()
        path.write_bytes(content[:-3])
        for opened in (HammingIndex.open, IndexReader.open):
            with pytest.raises(FormatError, match=path.name):
                opened(folder).close()
        assert path.name in str(next(iter(verify(folder))))
        path.unlink()
        if path.name != "MANIFEST":
            for opened in (HammingIndex.open, IndexReader.open):
                with pytest.raises(FormatError, match=f"{path.name}: is missing"):
                    opened(folder).close()
            assert f"{path.name}: is missing" in str(next(iter(verify(folder))))
        path.write_bytes(content)


def test_all_damage_is_named(folder):
    filled(folder)
    for path in folder.glob("segment-*"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert len(list(verify(folder))) == len(list(folder.glob("segment-*"))) > 1


def test_a_newer_version_says_what_to_do(folder):
    HammingIndex.create(folder).close()
    manifest, log = folder / "MANIFEST", folder / "log-00000001"
    content = manifest.read_bytes()
    manifest.write_bytes(content.replace(b"version 1", b"version 2"))
    with pytest.raises(FormatError, match=r"version 2 is newer .* upgrade mr_dedup"):
        HammingIndex.open(folder)
    manifest.write_bytes(content)
    log.write_bytes(log.read_bytes()[:8] + b"\x02" + log.read_bytes()[9:])
    with pytest.raises(FormatError, match=r"version 2 is newer .* upgrade mr_dedup"):
        IndexReader.open(folder)


def test_a_torn_record_is_cut_and_all_before_it_kept(folder, tmp_path):
    log = folder / "log-00000001"
    with HammingIndex.create(folder) as index:
        add_numbers(index, [1, 2])
        acknowledged = log.read_bytes()
        add_numbers(index, [3, 4])
        whole = log.read_bytes()
    for end in range(len(acknowledged), len(whole) + 1):
        # what is behind the last record that was acknowledged may be cut anywhere, or be garbage
        for tail in (b"", bytes(20)):
            log.write_bytes(acknowledged[:HEAD_BYTES] + whole[HEAD_BYTES:end] + tail)
            complete = end == len(whole)
            with HammingIndex.open(folder, background=False) as index:
                kept = [1, 2, 3, 4] if complete else [1, 2]
                assert found(index, [1, 2, 3, 4]) == pages(kept)
                good = len(whole) if complete else len(acknowledged)
                assert index.cut_bytes == end + len(tail) - good
                add_numbers(index, [9])
            with IndexReader.open(folder) as reader:
                assert found(reader, [1, 9]) == pages([1, 9])


def test_ids_beyond_the_offsets_of_a_record_are_refused():
    ids = Ids(np.zeros(1, np.uint8), np.array([0, 1 << 32]))
    with pytest.raises(ValueError, match="ids: 4,294,967,296 bytes at once; up to 4,294,967,295"):
        Record("add", values([1]), ids).encode()


@contextlib.contextmanager
def files_up_to(size_bytes):
    """Have no file of this process grow past a size: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_stops_changes_and_not_queries(folder):
    with HammingIndex.create(folder, memory_documents=100, background=False) as index:
        add_numbers(index, range(90))
        log = folder / "log-00000001"
        # in the midst of a record; then no room for a segment
        for room in (log.stat().st_size + 30, 10_000):
            with files_up_to(room):
                for _ in range(2):
                    with pytest.raises(MrDedupError, match="cannot be written: File too large"):
                        add_numbers(index, range(200, 230))
                assert found(index, [5, 200]) == ["page 5"]
                assert len(index) == 90
                with IndexReader.open(folder) as reader:
                    assert found(reader, [5, 200]) == ["page 5"]
        with files_up_to(10_000):
            with pytest.raises(MrDedupError, match="cannot be written"):
                add_numbers(index, range(1000, 1200))
            with pytest.raises(MrDedupError, match="cannot be written"):
                index.compact()
            # removals need no segment
            assert index.remove(["page 7"]).all()
        add_numbers(index, range(200, 230))
        assert len(index) == 119
        index.compact()
    with HammingIndex.open(folder) as index:
        assert found(index, [5, 6, 7, 200]) == pages([5, 6, 200])
        assert len(index) == 119
    assert not list(verify(folder))


def test_a_merge_that_fails_is_told_and_tried_again(folder):
    with HammingIndex.create(folder, memory_documents=10, background=False) as index:
        for start in range(0, 50, 10):
            add_numbers(index, range(start, start + 10))
    with files_up_to(1000), HammingIndex.open(folder, memory_documents=10) as index:
        wait_for(lambda: index.stats().merge_failure)
        assert "File too large" in index.stats().merge_failure
        assert found(index, range(50)) == pages(range(50))
    with HammingIndex.open(folder, memory_documents=10) as index:
        wait_for(lambda: len(index.stats().segments) == 1)
        assert index.stats().merge_failure is None
        assert found(index, range(50)) == pages(range(50))


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_segments_are_merged_in_the_background(folder):
    with HammingIndex.create(folder, memory_documents=10) as index:
        for start in range(0, 400, 10):
            add_numbers(index, range(start, start + 10))
        # ten of them are in the memory table
        wait_for(lambda: len(index.stats().segments) < 4)
        assert found(index, range(400)) == pages(range(400))
        index.remove(pages(range(350)))
        add_numbers(index, range(400, 420))
        # what is mostly dead is written anew
        wait_for(lambda: sum(each.dead for each in index.stats().segments) == 0)
        assert found(index, range(420)) == pages(range(350, 420))


def test_changes_while_segments_are_merged(folder):
    """Two threads: one compacts all the time, one adds, replaces and removes."""
    rng = random.Random(1)
    oracle = Oracle()
    with HammingIndex.create(folder, memory_documents=50, background=False) as index:
        stop = threading.Event()
        failed = []

        def compact_always():
            try:
                while not stop.is_set():
                    index.compact()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=compact_always)
        thread.start()
        for _ in range(60):
            numbers = [rng.randrange(300) for _ in range(rng.choice([1, 20, 70]))]
            fingerprints = [spread(rng.randrange(1000)) for _ in numbers]
            index.add(values(fingerprints), pages(numbers))
            oracle.add(fingerprints, pages(numbers))
            gone = pages([rng.randrange(300) for _ in range(10)])
            assert index.remove(gone).tolist() == oracle.remove(gone)
            assert len(index) == len(oracle.documents)
        stop.set()
        thread.join()
        assert not failed
        for value in [spread(n) for n in range(1000)]:
            assert [tuple(m) for m in index.query(values([value]), 0)] == oracle.matches(value, 0)


def test_queries_of_several_threads_while_documents_are_added(folder):
    with HammingIndex.create(folder, memory_documents=50) as index:
        failed = []
        stop = threading.Event()

        def query_always():
            try:
                while not stop.is_set():
                    before = len(index)
                    seen = found(index, range(before))
                    assert seen[: len(seen)] == pages(range(before))[: len(seen)]
                    assert len(seen) == before
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=query_always) for _ in range(3)]
        for thread in threads:
            thread.start()
        for start in range(0, 600, 20):
            add_numbers(index, range(start, start + 20))
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed


READER = """
import sys
import numpy as np
from mr_dedup.index.reader import IndexReader
from mr_dedup.index.segment import Segment
from tests.index.test_hamming_index import found, pages
with IndexReader.open(sys.argv[1]) as reader:
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        print(found(reader, range(count + 5)) == pages(range(count)), flush=True)
"""


def test_readers_of_other_processes_see_what_was_acknowledged(folder):
    with HammingIndex.create(folder, memory_documents=30) as index:
        command = [sys.executable, "-c", READER, folder]
        readers = [
            subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for reader in readers:
            assert reader.stdout.readline() == "ready\n"
        for count in range(0, 200, 7):
            add_numbers(index, range(count, count + 7))
            if count % 5 == 0:
                index.compact()
            for reader in readers:
                print(count + 7, file=reader.stdin, flush=True)
            assert [reader.stdout.readline() for reader in readers] == ["True\n"] * 2
        for reader in readers:
            reader.communicate()
            assert reader.returncode == 0


# a file that was opened in the very moment is closed when it is collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_interrupts_at_any_moment(folder):
    """Ctrl-C in a change: what was acknowledged stays, and nothing is written to a wrong file."""

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    rng = random.Random(3)
    before = signal.signal(signal.SIGALRM, interrupt)
    kept, refused, number = set(), 0, 0
    HammingIndex.create(folder).close()
    try:
        for _ in range(30):
            with HammingIndex.open(folder, memory_documents=7, background=False) as index:
                assert set(found(index, range(number))) == kept
                with contextlib.suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0005, 0.03))
                    # not for ever: one that comes while something is collected is lost
                    for _ in range(100):
                        number += 1
                        add_numbers(index, [number - 1])
                        kept.add(f"page {number - 1}")
                        if number % 5 == 0:
                            index.compact()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                # what was in flight is there or not, and what is said to be kept, is
                try:
                    add_numbers(index, [number])
                    kept.add(f"page {number}")
                except MrDedupError as error:
                    refused += "open the index anew" in str(error)
                number += 1
            with IndexReader.open(folder) as reader:
                seen = set(found(reader, range(number)))
            with HammingIndex.open(folder, background=False) as index:
                recovered = set(found(index, range(number)))
            assert kept <= seen <= recovered
            assert recovered - kept <= {f"page {number - 2}"}
            kept = recovered
            assert not list(verify(folder))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert refused


def test_memory_that_runs_out_while_it_looks_stops_no_change(folder, monkeypatch):
    def short(*arguments):
        raise MemoryError

    with HammingIndex.create(folder) as index:
        add_numbers(index, [1])
        with monkeypatch.context() as patched:
            patched.setattr(Snapshot, "neighbours", short)
            with pytest.raises(MemoryError):
                index.check_and_add(values([spread(2)]), ["page 2"])
        assert index.check_and_add(values([spread(2)]), ["page 2"]).added.all()
        # in the midst of a change it does: what is in memory may be half of it
        with monkeypatch.context() as patched:
            patched.setattr(State, "add", short)
            with pytest.raises(MemoryError):
                add_numbers(index, [3])
        for change in (
            lambda: add_numbers(index, [4]),
            lambda: index.check_and_add(values([spread(1)]), ["page 9"], only_new=True),
        ):
            with pytest.raises(MrDedupError, match="open the index anew"):
                change()
        assert found(index, [1, 2, 4]) == pages([1, 2])


def test_a_closed_index_refuses_changes_and_answers_queries(folder):
    index = HammingIndex.create(folder)
    add_numbers(index, [1])
    index.close()
    # what it wrote to may be another file by now
    with HammingIndex.open(folder) as other:
        for change in (
            lambda: add_numbers(index, [2]),
            lambda: index.remove(["page 1"]),
            lambda: index.check_and_add(values([spread(1)]), ["page 2"], only_new=True),
            index.compact,
            index.force,
        ):
            with pytest.raises(MrDedupError, match="is closed"):
                change()
        index.close()
        assert found(index, [1, 2]) == pages([1])
        add_numbers(other, [3])
    with HammingIndex.open(folder) as index:
        assert found(index, [1, 2, 3]) == pages([1, 3])
    assert not list(verify(folder))


def test_a_relaxed_index_forces_its_log_when_it_is_closed(folder):
    with HammingIndex.create(folder, relaxed=True) as index:
        add_numbers(index, [1])
        add_numbers(index, [2])
        with open_log(file_at(folder / "log-00000001")) as log:
            written, forced = log.marks()
            assert forced < written
        index.force()
        with open_log(file_at(folder / "log-00000001")) as log:
            assert log.marks() == (written, written)
        add_numbers(index, [3])
    with HammingIndex.open(folder) as index:
        assert found(index, [1, 2, 3]) == pages([1, 2, 3])
        assert index.cut_bytes == 0


def test_what_was_replaced_during_a_merge_is_not_lost_with_what_replaces_it(folder, monkeypatch):
    """A relaxed log is forced before removals that are in it are in other files."""
    with HammingIndex.create(folder, relaxed=True, background=False) as index:
        add_numbers(index, range(50))
        merge = merging.merge

        def merge_and_replace(*arguments):
            merge(*arguments)
            index.add(values([spread(99)]), ["page 7"])

        monkeypatch.setattr(merging, "merge", merge_and_replace)
        index.compact()
        # all that a loss of power may leave of the log
        (log,) = folder.glob("log-*")
        with open_log(file_at(log)) as records:
            forced = records.marks()[1]
        left = folder.with_name("left")
        shutil.copytree(folder, left)
        os.truncate(left / log.name, forced)
    with HammingIndex.open(left) as index:
        assert len(index) == 50
        assert len(found(index, [7, 99])) == 1


def test_many_at_once_become_a_segment(folder):
    with HammingIndex.create(folder, memory_documents=50, background=False) as index:
        add_numbers(index, range(60))
        index.add(values([spread(n) for n in range(1000, 1200)]), pages(range(50, 250)))
        assert len(index) == 250
        assert [each.dead for each in index.stats().segments] == [10, 0]
        assert found(index, [49, 50, 1000]) == pages([49, 50])
    with IndexReader.open(folder) as reader:
        assert len(reader) == 250
        assert found(reader, [49, 50, 1000]) == pages([49, 50])


def test_fingerprints_of_ids(folder):
    with HammingIndex.create(folder) as index:
        add_numbers(index, range(200))
        index.compact()
        index.remove(["page 7"])
        index.add(values([5, 6]), ["page 8", "last"])
        numbers = [0, 199, 7, 8, 201]
        asked = [*pages(numbers), "last"]
        expected = [spread(0), spread(199), None, 5, None, 6]
        assert index.fingerprints_of(asked) == expected
        assert index.fingerprints_of([]) == []
        with pytest.raises(ValueError, match="ids"):
            index.fingerprints_of([""])
    with HammingIndex.open(folder, check=False) as index:
        assert index.fingerprints_of(asked) == expected
    with pytest.raises(MrDedupError):
        index.fingerprints_of(asked)


def test_compaction_changes_the_design(folder):
    with HammingIndex.create(folder, memory_documents=50, design="10-tables") as index:
        add_numbers(index, range(70))
        assert {each.design for each in index.stats().segments} == {"10-tables"}
        for name, tables in (("16-tables-nested", 16), ("auto", 4), ("20-tables", 20)):
            index.compact(name)
            assert [each.tables for each in index.stats().segments] == [tables]
            assert found(index, range(70)) == pages(range(70))
    with HammingIndex.open(folder) as index:
        add_numbers(index, range(70, 90))
        index.compact()
        stats = index.stats()
        assert [each.tables for each in stats.segments] == [20]
        assert (stats.documents, stats.k, stats.memory_documents) == (90, 3, 0)
        assert stats.disk_bytes == stats.segments[0].bytes + stats.log_bytes


def test_an_index_that_lost_everything_is_empty(folder):
    with HammingIndex.create(folder, memory_documents=20) as index:
        add_numbers(index, range(30))
        index.remove(pages(range(30)))
        index.compact()
        assert not index.stats().segments
        assert len(index) == 0
        add_numbers(index, [3])
        assert found(index, range(5)) == ["page 3"]


def test_a_reader_of_damage_that_came_later_is_told(folder):
    """Opened without reading everything, a block is still looked at before it is believed."""
    filled(folder)
    path = sorted(folder.glob("segment-*"))[0]
    content = bytearray(path.read_bytes())
    for offset in range(1 << 16, len(content) - 700, 1 << 15):
        content[offset] ^= 255
    path.write_bytes(content)
    with (
        pytest.raises(FormatError, match=path.name),
        IndexReader.open(folder, check=False) as reader,
    ):
        found(reader, range(100))


def flip_tags(path):
    """Damage the middle of what finds ids in a segment; queries do not read it."""
    table = Segment(file_at(path)).description.ids
    content = bytearray(path.read_bytes())
    content[(table.tags_bytes + table.documents_bytes) // 2] ^= 255
    path.write_bytes(content)


def flip_fingerprints(path):
    """Damage what finds fingerprints in a segment."""
    tables = Segment(file_at(path)).description.tables
    content = bytearray(path.read_bytes())
    for table in tables:
        content[table.low_bytes + 1] ^= 255
    path.write_bytes(content)


def cut_end(path):
    os.truncate(path, path.stat().st_size - 100)


@pytest.mark.parametrize(
    ("named", "damage"),
    [(True, flip_tags), (True, cut_end), (False, flip_fingerprints), (False, cut_end)],
)
def test_a_change_that_is_refused_for_a_damaged_segment_is_not_written(folder, named, damage):
    def ids(numbers):
        return pages(numbers) if named else None

    numbers = list(range(2000))
    fingerprints = values([spread(n) for n in numbers])
    with HammingIndex.create(folder, named=named, memory_documents=100, background=False) as index:
        index.add(fingerprints, ids(numbers))
    (path,) = folder.glob("segment-*")
    (log,) = folder.glob("log-*")
    content, log_bytes = path.read_bytes(), log.stat().st_size
    with HammingIndex.open(folder, check=False, background=False) as index:
        damage(path)
        batch = values([spread(n) for n in range(3000, 3050)])
        stored = pages(range(9)) if named else [str(n) for n in fingerprints.astype(np.int64)[:9]]
        for change in (
            lambda: index.add(batch, ids(range(3000, 3050))),
            lambda: index.check_and_add(batch, ids(range(3000, 3050)), 0),
            lambda: index.remove(stored),
        ):
            with pytest.raises(FormatError, match=path.name):
                change()
        assert len(index) == 2000
        assert log.stat().st_size == log_bytes
        # in the same file: the segment that is open is repaired
        path.write_bytes(content)
        assert index.add(batch[:1], ids([3000])) == 1
    with HammingIndex.open(folder, background=False) as index:
        assert len(index) == 2001
        assert found(index, range(2990, 3050)) == (
            ["page 3000"] if named else [str(batch.astype(np.int64)[0])]
        )


def test_an_expected_error_after_the_log_has_grown_stops_changes(folder, monkeypatch):
    def refuse(*arguments):
        raise FormatError("a segment", None, "is damaged")

    with HammingIndex.create(folder) as index:
        add_numbers(index, [1])
        with monkeypatch.context() as patched:
            patched.setattr(State, "add", refuse)
            with pytest.raises(FormatError, match="is damaged"):
                add_numbers(index, [2])
        with pytest.raises(MrDedupError, match="open the index anew"):
            add_numbers(index, [3])
        assert found(index, [1, 2, 3]) == ["page 1"]


def test_a_reader_reports_damage_until_it_is_repaired_and_loses_nothing(folder):
    numbers = range(60_000)
    with HammingIndex.create(folder, background=False) as index:
        index.add(values([spread(n) for n in numbers]), pages(numbers))
        index.compact()
    (path,) = folder.glob("segment-*")
    content = path.read_bytes()
    with (
        HammingIndex.open(folder, check=False, background=False) as index,
        IndexReader.open(folder, check=False) as reader,
    ):
        # the writer looks at the blocks before they are damaged, the reader after
        add_all = [f"page {n}" for n in range(80_000, 80_500)]
        index.add(values([spread(n) for n in range(80_000, 80_500)]), add_all)
        flip_tags(path)
        for _ in range(3):
            with pytest.raises(FormatError, match=path.name):
                len(reader)
        path.write_bytes(content)
        assert len(reader) == len(index) == 60_500
        assert found(reader, [80_499]) == ["page 80499"]
