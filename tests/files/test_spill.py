"""Rows set aside on disk come back as they went, and nothing stays."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.files import spill as spill_module
from mr_dedup.files.spill import Spill


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_rows_come_back_in_their_order(folder, monkeypatch, columns):
    monkeypatch.setattr(spill_module, "_ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(columns)
    added: dict[int, list] = {9: [], 0: [], 4: []}
    with Spill(columns) as spill:
        for size in (0, 1, 7, 20, 3):
            for part in added:
                rows = rng.integers(0, 2**64, (columns, size), dtype=np.uint64)
                spill.append(part, list(rows))
                added[part].append(rows)
        assert spill.rows == {0: 31, 4: 31, 9: 31}
        assert list(spill.rows) == [0, 4, 9]
        for part, rows in added.items():
            read = list(spill.read(part))
            assert max(batch[0].size for batch in read) <= 7
            assert np.array_equal(np.concatenate(read, axis=1), np.concatenate(rows, axis=1))
        spill.remove(4)
        spill.remove(5)
        assert list(spill.rows) == [0, 9]
        assert list(spill.read(4)) == []
        (inside,) = folder.iterdir()
        assert len(list(inside.iterdir())) == 2
    assert list(folder.iterdir()) == []


def test_nothing_stays_after_an_error(folder):
    with pytest.raises(KeyboardInterrupt), Spill() as spill:
        spill.append(1, [np.zeros(3, np.uint64)])
        raise KeyboardInterrupt
    assert list(folder.iterdir()) == []


def test_no_room_is_said_of_the_folder(folder, monkeypatch):
    with Spill() as spill:
        (inside,) = folder.iterdir()
        inside.joinpath("3").symlink_to("/dev/full")
        with pytest.raises(
            MrDedupError, match=r"temporary directory .*mr_dedup-tmp.*: No space left"
        ):
            spill.append(3, [np.zeros(3, np.uint64)])
    monkeypatch.setattr(tempfile, "tempdir", str(Path(folder, "missing")))
    with pytest.raises(MrDedupError, match="no temporary directory: No such file"), Spill():
        pass
