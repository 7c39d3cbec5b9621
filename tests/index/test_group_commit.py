"""Group commit: changes that wait share one force to the disk, and none is seen before it is."""

import errno
import os
import random
import threading

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from mr_dedup.index.reader import IndexReader
from tests.index.index_oracle import Oracle
from tests.index.test_hamming_index import add_numbers, found, pages, spread, values, wait_for


class Forces:
    """Counts how often changes are forced to the disk; may have one wait, or fail."""

    def __init__(self, monkeypatch):
        self.count, self.failures = 0, 0
        # so many succeed before those that fail
        self.succeed = 0
        self.allowed, self.reached = threading.Event(), threading.Event()
        self.allowed.set()
        self._force = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, handle):
        self.count += 1
        self.reached.set()
        assert self.allowed.wait(60)
        if self.failures and self.count > self.succeed:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._force(handle)


@pytest.fixture
def forces(monkeypatch):
    return Forces(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


def test_changes_that_wait_share_one_force(folder, forces):
    """While the first is forced eight others are appended; one more force is for all of them."""
    with HammingIndex.create(folder) as index, IndexReader.open(folder) as reader:
        forces.allowed.clear()
        threads = [
            threading.Thread(target=add_numbers, args=(index, [number])) for number in range(9)
        ]
        threads[0].start()
        assert forces.reached.wait(60)
        log = folder / "log-00000001"
        record_bytes = log.stat().st_size - 64
        for thread in threads[1:]:
            thread.start()
        wait_for(lambda: log.stat().st_size == 64 + 9 * record_bytes)
        # nobody sees what is not on the disk
        assert len(index) == len(reader) == 0
        assert found(index, range(9)) == found(reader, range(9)) == []
        forces.allowed.set()
        for thread in threads:
            thread.join()
        assert forces.count == 2
        assert sorted(found(index, range(9))) == sorted(found(reader, range(9))) == pages(range(9))


def test_a_group_is_forced_once_and_seen_as_a_whole(folder, forces):
    with HammingIndex.create(folder) as index, IndexReader.open(folder) as reader:
        with index.group():
            for number in range(50):
                add_numbers(index, [number])
            assert index.remove(pages([3, 99])).tolist() == [True, False]
            # those that come later see those before
            twice = [values([spread(7)]), ["page 60"]]
            assert not index.check_and_add(*twice, only_new=True).added.any()
            assert len(index) == index.stats().documents == len(reader) == 0
            assert found(index, range(50)) == found(reader, range(50)) == []
        assert forces.count == 1
        expected = sorted(pages(set(range(50)) - {3}))
        assert sorted(found(index, range(50))) == sorted(found(reader, range(50))) == expected


def test_what_looked_at_a_change_is_not_acknowledged_before_it(folder, forces):
    """A document that is refused as known is known by one that is on the disk then."""
    with HammingIndex.create(folder) as index:
        forces.allowed.clear()
        first = threading.Thread(target=add_numbers, args=(index, [1]))
        first.start()
        assert forces.reached.wait(60)
        answers = []

        def ask(call):
            with_failure = None
            try:
                call()
            except MrDedupError as error:
                with_failure = str(error)
            answers.append(with_failure)

        others = [
            threading.Thread(target=ask, args=(call,))
            for call in (
                lambda: index.check_and_add(values([spread(1)]), ["page 2"], only_new=True),
                lambda: index.remove(["page 2"]),
            )
        ]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join(0.2)
        assert answers == []
        forces.allowed.set()
        for thread in [first, *others]:
            thread.join()
        assert answers == [None, None]


def test_a_force_that_fails_refuses_the_whole_group(folder, forces):
    with HammingIndex.create(folder) as index:
        add_numbers(index, [1])
        forces.failures = 1

        def add_in_group():
            with index.group():
                for number in range(2, 6):
                    add_numbers(index, [number])
                index.remove(["page 1"])

        with pytest.raises(MrDedupError, match="cannot be written: Input/output error"):
            add_in_group()
        # what is on the disk is not known: nothing more is written, and what was seen still is
        with pytest.raises(MrDedupError, match="open the index anew"):
            add_numbers(index, [9])
        assert found(index, range(10)) == ["page 1"]
        assert len(index) == 1
        with IndexReader.open(folder) as reader:
            assert found(reader, range(10)) == ["page 1"]
    with HammingIndex.open(folder) as index:
        add_numbers(index, [9])
        assert "page 9" in found(index, range(10))
    assert not list(verify(folder))


def test_a_force_that_fails_refuses_all_that_wait(folder, forces):
    with HammingIndex.create(folder) as index:
        forces.allowed.clear()
        forces.failures = 1
        refused = []

        def add(number):
            try:
                add_numbers(index, [number])
            except MrDedupError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=add, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        assert forces.reached.wait(60)
        forces.allowed.set()
        for thread in threads:
            thread.join()
        assert len(refused) == 5
        assert len(index) == 0
        assert forces.count == 1


def test_a_change_that_is_refused_leaves_the_others_of_its_group(folder):
    with HammingIndex.create(folder, memory_documents=5, background=False) as index:
        with index.group():
            add_numbers(index, [1])
            with pytest.raises(ValueError, match="ids"):
                index.add(values([2]), [""])
            # the memory table is full in the midst of the group
            for number in range(3, 12):
                add_numbers(index, [number])
        kept = pages([1, *range(3, 12)])
        assert sorted(found(index, range(12))) == sorted(kept)
    with IndexReader.open(folder) as reader:
        assert sorted(found(reader, range(12))) == sorted(kept)


def test_groups_of_threads_are_as_one_change_after_another(folder):
    """Each thread adds documents of its own in groups, while segments are sealed and merged."""
    with HammingIndex.create(folder, memory_documents=20) as index:
        failed = []

        def work(thread):
            rng = random.Random(thread)
            oracle = Oracle()
            try:
                for _ in range(12):
                    with index.group():
                        for _ in range(rng.randrange(5)):
                            ids = [
                                f"{thread} {rng.randrange(40)}" for _ in range(rng.choice([1, 7]))
                            ]
                            numbers = [spread(rng.randrange(1000)) for _ in ids]
                            if rng.random() < 0.3:
                                assert index.remove(ids).tolist() == oracle.remove(ids)
                            else:
                                assert index.add(values(numbers), ids) == oracle.add(numbers, ids)
                    all_of = {
                        match.id: match.fingerprint
                        for match in index.query(values([spread(n) for n in range(1000)]), 0)
                        if match.id.startswith(f"{thread} ")
                    }
                    assert all_of == oracle.documents
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
    assert not list(verify(folder))


def test_a_relaxed_group_is_seen_when_it_ends(folder, forces):
    with HammingIndex.create(folder, relaxed=True) as index, IndexReader.open(folder) as reader:
        with index.group():
            for number in range(5):
                add_numbers(index, [number])
            assert len(index) == len(reader) == 0
        assert len(index) == len(reader) == 5
        assert forces.count <= 1
