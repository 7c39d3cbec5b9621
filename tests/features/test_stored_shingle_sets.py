"""Sets in a temporary file against those in memory."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.features.shingle_sets import ShingleSets
from mr_dedup.features.stored_shingle_sets import MappedSets, StoredSets


def some_sets(seed, most=6):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 10, 20)
    kept = [np.sort(rng.integers(0, 99, min(size, most), dtype=np.uint64)) for size in sizes]
    return ShingleSets.of_sizes(sizes, np.concatenate(kept), most)


NO_SETS = ShingleSets.of_sizes(np.zeros(3, np.int64), np.empty(0, np.uint64), 6)


@pytest.mark.parametrize("memory_bytes", [0, 1, 1000, 1 << 20])
@pytest.mark.parametrize("parts", [[], [NO_SETS], [some_sets(1), NO_SETS, some_sets(2), NO_SETS]])
def test_sets_are_those_that_were_added(parts, memory_bytes):
    expected = ShingleSets.joined([NO_SETS, *parts])
    with StoredSets(memory_bytes) as stored:
        for part in parts:
            stored.append(part)
        found = stored.joined()
        assert isinstance(found, MappedSets) == (
            sum(part.hashes.nbytes for part in parts) > memory_bytes
        )
        for _ in range(2):
            assert found.sizes.tolist() == expected.sizes.tolist()[3:]
            assert found.offsets.tolist() == expected.offsets.tolist()[3:]
            assert found.hashes.tolist() == expected.hashes.tolist()
            found.release()
        if len(found) > 5:
            rows = np.arange(len(found))
            assert (
                found.jaccard(rows, rows[::-1]).tolist()
                == expected.jaccard(rows + 3, rows[::-1] + 3).tolist()
            )


def test_released_sets_are_no_memory_of_the_process():
    code = """
import resource, sys
import numpy as np
from mr_dedup.features.stored_shingle_sets import StoredSets
from mr_dedup.features.shingle_sets import ShingleSets

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

with StoredSets(1 << 20) as stored:
    hashes = np.arange(1 << 20, dtype=np.uint64)
    for part in range(16):
        stored.append(ShingleSets.of_sizes(np.full(1 << 10, 1 << 10), hashes, 1 << 10))
    before = resident()
    sets = stored.joined()
    total = int(sets.hashes.sum())
    read = resident()
    sets.release()
    assert total == 16 * ((1 << 20) * ((1 << 20) - 1) // 2)
    print(read - before, resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    read, released = map(int, done.stdout.split())
    assert read > 100 << 20
    assert released < 16 << 20


def test_sets_that_are_cut_elsewhere_are_refused():
    with StoredSets(0) as stored:
        stored.append(some_sets(1))
        with pytest.raises(ValueError, match="expected sets cut at 6, got 7"):
            stored.append(some_sets(1, 7))


def test_a_full_disk_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    with StoredSets(0) as stored:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))
        try:
            with pytest.raises(
                MrDedupError, match=f"temporary directory {tmp_path}: File too large"
            ):
                stored.append(some_sets(1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(Path("/nowhere/at/all")))
    missing = "temporary directory /nowhere/at/all: No such file"
    with StoredSets(0) as stored, pytest.raises(MrDedupError, match=missing):
        stored.append(some_sets(1))
