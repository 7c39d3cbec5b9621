"""Sorting in runs on disk equals sorting in memory."""

import random

import numpy as np
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.sorted_runs import sorted_distinct
from tests.files.test_outputs import files_of_at_most


@pytest.mark.parametrize("run_count", [1, 2, 7, 100, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("shape", ["random", "ascending", "descending", "equal", "few"])
def test_runs_sort_as_memory_does(tmp_path, run_count, shape):
    rng = random.Random(run_count)
    # each run is an open file: many short runs only for few fingerprints
    count = 1000 if run_count > 10 else 50 * run_count
    values = {
        "random": [rng.getrandbits(64) for _ in range(count)],
        "ascending": list(range(count)),
        "descending": list(range(2**64 - 1, 2**64 - 1 - count, -1)),
        "equal": [3] * count,
        "few": [rng.choice([0, 5, 2**64 - 1]) for _ in range(count)],
    }[shape]
    column = np.array(values, np.uint64)
    batches = (column[start : start + 64] for start in range(0, count, 64))
    found = sorted_distinct(batches, tmp_path / "out", run_count=run_count, batch_count=64)
    assert np.concatenate(list(found)).tolist() == sorted(set(values))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_of_the_directory_of_runs(tmp_path):
    values = np.arange(1000, dtype=np.uint64)
    message = rf"^{tmp_path}/\.out\..*\.part: cannot be written: File too large$"
    with pytest.raises(MrDedupError, match=message), files_of_at_most(1000):
        list(sorted_distinct([values], tmp_path / "out", run_count=500))
    assert list(tmp_path.iterdir()) == []


def test_no_fingerprints(tmp_path):
    assert list(sorted_distinct(iter([]), tmp_path / "out", run_count=8)) == []
