"""Without file descriptors a change is refused and leaves the index as it was."""

import contextlib
import os
import resource

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from tests.index.index_oracle import Oracle
from tests.index.test_hamming_index import add_numbers, found, pages, spread, values


@contextlib.contextmanager
def descriptors(count):
    """Have this process open so many more files and no others."""
    lowest = os.dup(0)
    os.close(lowest)
    # those that are free below the highest one in use are taken
    taken = [os.dup(0) for _ in range(200)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 1, hard))
    for each in taken[:count]:
        os.close(each)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken[count:]:
            os.close(each)


def changes(index, oracle, start):
    """Changes of all kinds, as functions that make them on both."""

    def add(numbers):
        fingerprints = [spread(n) for n in numbers]
        index.add(values(fingerprints), pages(numbers))
        oracle.add(fingerprints, pages(numbers))

    def remove(numbers):
        index.remove(pages(numbers))
        oracle.remove(pages(numbers))

    return [
        lambda: add(range(start, start + 15)),  # seals the memory table
        lambda: add(range(start + 15, start + 20)),
        lambda: remove(range(start, start + 5)),
        lambda: add(range(start + 20, start + 60)),  # a segment of its own
        index.compact,
        lambda: remove(range(start - 200, start + 1, 2)),
        lambda: add(range(start + 60, start + 70)),
    ]


@pytest.mark.parametrize("free", range(8))
def test_changes_without_descriptors_are_refused_and_later_ones_made(tmp_path, free):
    folder, oracle, refused = tmp_path / "index", Oracle(), []
    with HammingIndex.create(folder, memory_documents=20, background=False) as index:
        # with all code loaded
        for change in changes(index, oracle, 0):
            change()
            found(index, range(200))
        with descriptors(free):
            for change in changes(index, oracle, 100):
                try:
                    change()
                except MrDedupError as error:
                    refused.append(str(error))
                assert sorted(found(index, range(200))) == sorted(oracle.documents)
        assert all(each.endswith(": Too many open files") for each in refused)
        assert refused or free > 3
        assert not refused or free < 7
        for change in changes(index, oracle, 300):
            change()
        assert sorted(found(index, range(400))) == sorted(oracle.documents)
        add_numbers(index, [1000])
    with HammingIndex.open(folder) as index:
        assert sorted(found(index, range(400))) == sorted(oracle.documents)
        assert len(index) == len(oracle.documents) + 1
    assert not list(verify(folder))
