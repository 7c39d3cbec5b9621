"""What tasks keep in a directory: all of a part or nothing, and never an error."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mr_dedup.jobs import part_folder
from mr_dedup.jobs.part_folder import PartFolder


def rows(tables):
    return None if tables is None else [table["n"].to_pylist() for table in tables]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["sets", "off sets"]), st.integers(0, 3)),
        st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), min_size=1, max_size=3),
        max_size=5,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_put_is_taken_once(tmp_path, parts):
    folder = tmp_path / "new" / "folder"
    with PartFolder(folder) as cache:
        for (kind, number), lists in parts.items():
            for numbers in lists:
                cache.put(kind, number, pa.table({"n": numbers}))
        # not before the end
        assert all(cache.take(*part) is None for part in parts)
    with PartFolder(folder) as cache:
        assert {part: rows(cache.take(*part)) for part in parts} == parts
        assert all(cache.take(*part) is None for part in parts)
    assert list(folder.iterdir()) == []


def test_a_task_that_fails_keeps_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), PartFolder(tmp_path) as cache:
        cache.put("sets", 1, pa.table({"n": [1]}))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_another_attempt_replaces_what_the_first_kept(tmp_path):
    for number in range(2):
        with PartFolder(tmp_path) as cache:
            cache.put("sets", 1, pa.table({"n": [number]}))
    with PartFolder(tmp_path) as cache:
        assert rows(cache.take("sets", 1)) == [[1]]


def test_without_room_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(part_folder, "_CHECKED_BYTES", 0)
    with PartFolder(tmp_path) as cache:
        cache.put("sets", 1, pa.table({"n": [1]}))
        usage = os.statvfs(tmp_path)
        monkeypatch.setattr(
            part_folder.shutil, "disk_usage", lambda _: type("", (), {"free": 0, "total": usage})
        )
        cache.put("sets", 1, pa.table({"n": [2]}))
        cache.put("sets", 2, pa.table({"n": [3]}))
    assert list(tmp_path.iterdir()) == []


def test_files_that_other_tasks_rename_meanwhile_are_no_error(tmp_path, monkeypatch):
    listed = Path.iterdir
    gone = tmp_path / "sets-000008.cca0a3ac"
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([*listed(folder), gone]))
    monkeypatch.setattr(part_folder, "_CHECKED_BYTES", 1)
    with PartFolder(tmp_path) as cache:
        cache.put("sets", 1, pa.table({"n": [1]}))
        cache.put("sets", 1, pa.table({"n": [2]}))
    with PartFolder(tmp_path) as cache:
        assert rows(cache.take("sets", 1)) == [[1], [2]]


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    with PartFolder(tmp_path / "file" / "folder") as cache:
        cache.put("sets", 1, pa.table({"n": [1]}))
        assert cache.take("sets", 1) is None
