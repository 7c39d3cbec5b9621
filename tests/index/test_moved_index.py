"""An index that is moved while it is open, with another in its place: neither is damaged."""

import os
import random
import shutil

import numpy as np
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.index import merging
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from mr_dedup.index.reader import IndexReader


def fingerprints(ids):
    """A fingerprint for each id, far from the others."""
    return np.array([random.Random(id).getrandbits(64) for id in ids], np.uint64)


def names(kind, numbers):
    return [f"{kind} {number}" for number in numbers]


def add(index, ids):
    index.add(fingerprints(ids), ids)


def found(index, ids):
    return list(index.query(fingerprints(ids), 0).ids)


def created(folder, **options):
    return HammingIndex.create(folder, memory_documents=100, background=False, **options)


def moved_away(folder):
    folder.rename(folder.with_name("moved"))
    return folder.with_name("moved")


def emptied(folder):
    """Move what is in a folder elsewhere."""
    elsewhere = folder.with_name("moved")
    elsewhere.mkdir()
    for path in folder.iterdir():
        path.rename(elsewhere / path.name)
    return elsewhere


def copied_and_removed(folder):
    shutil.copytree(folder, folder.with_name("moved"))
    shutil.rmtree(folder)
    return folder.with_name("moved")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("move", [moved_away, emptied, copied_and_removed])
def test_neither_index_is_touched_by_the_writer_of_the_other(tmp_path, move):
    folder = tmp_path / "index"
    old_ids, new_ids = names("old", range(150)), names("new", range(50))
    old = created(folder)
    add(old, old_ids)
    elsewhere = move(folder)
    with created(folder) as new:
        add(new, new_ids)
        before = contents(folder)
        for change in (
            lambda: add(old, names("lost", range(60))),
            lambda: add(old, names("lost", range(200))),
            lambda: old.remove(old_ids[:3]),
            lambda: old.check_and_add(fingerprints(["lost"]), ["lost"]),
            old.compact,
        ):
            with pytest.raises(MrDedupError, match=f"{folder}: was moved, removed or replaced"):
                change()
        assert found(old, [*old_ids, *new_ids]) == old_ids
        old.close()
        assert contents(folder) == before
        add(new, names("newer", range(200)))
    for path, ids in ((folder, [*new_ids, *names("newer", range(200))]), (elsewhere, old_ids)):
        assert not list(verify(path))
        with HammingIndex.open(path, background=False) as index:
            assert len(index) == len(ids)
            assert found(index, ids) == ids


def test_an_index_that_is_moved_back_is_changed_again(tmp_path):
    folder = tmp_path / "index"
    with created(folder) as index:
        elsewhere = moved_away(folder)
        with pytest.raises(MrDedupError, match="was moved"):
            add(index, ["a"])
        elsewhere.rename(folder)
        add(index, ["b"])
    with IndexReader.open(folder) as reader:
        assert found(reader, ["a", "b"]) == ["b"]


def test_a_merge_in_which_the_index_is_moved(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    ids = names("old", range(250))
    with created(folder) as index:
        for start in range(0, 250, 50):
            add(index, ids[start : start + 50])
        merge = merging.merge

        def merge_and_move(*arguments):
            moved_away(folder)
            created(folder).close()
            merge(*arguments)

        monkeypatch.setattr(merging, "merge", merge_and_move)
        with pytest.raises(MrDedupError, match="was moved"):
            index.compact()
    assert set(contents(folder)) == {"LOCK", "MANIFEST", "log-00000001"}
    for path, expected in ((folder, []), (tmp_path / "moved", ids)):
        assert not list(verify(path))
        with HammingIndex.open(path, background=False) as index:
            assert found(index, ids) == expected


def test_a_process_that_changes_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with created("index") as index, IndexReader.open("index") as reader:
        os.chdir("elsewhere")
        add(index, names("old", range(150)))
        add(index, ["b"])
        assert found(index, ["b"]) == ["b"]
        assert found(reader, ["b"]) == ["b"]
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not list(verify(tmp_path / "index"))


def test_a_reader_follows_an_index_of_the_same_kind(tmp_path):
    folder = tmp_path / "index"
    old_ids, new_ids = names("old", range(150)), names("new", range(150))
    with created(folder) as index:
        add(index, old_ids)
    with created(tmp_path / "rebuilt") as index:
        add(index, new_ids)
    # files of one name and size, so that a reader may take one for the other
    segments = [next(path.glob("segment-*")) for path in (folder, tmp_path / "rebuilt")]
    assert segments[0].name == segments[1].name
    with IndexReader.open(folder) as reader:
        snapshot = reader.snapshot()
        assert found(reader, [*old_ids, *new_ids]) == old_ids
        moved_away(folder)
        for _ in range(2):
            with pytest.raises(MrDedupError, match=f"{folder}: not a directory"):
                found(reader, old_ids)
        (tmp_path / "rebuilt").rename(folder)
        assert found(reader, [*old_ids, *new_ids]) == new_ids
        assert reader.stats().documents == 150
        assert found(snapshot, [*old_ids, *new_ids]) == old_ids
        with HammingIndex.open(folder, background=False) as index:
            add(index, ["c"])
            assert found(reader, ["c"]) == ["c"]


@pytest.mark.parametrize("other", [{"k": 2}, {"named": False}, {"features": "words:2"}])
def test_a_reader_refuses_an_index_of_another_kind(tmp_path, other):
    folder = tmp_path / "index"
    with created(folder) as index:
        add(index, ["a"])
    with IndexReader.open(folder) as reader:
        elsewhere = moved_away(folder)
        created(folder, **other).close()
        with pytest.raises(MrDedupError, match=f"{folder}: was replaced by an index of another"):
            found(reader, ["a"])
        shutil.rmtree(folder)
        elsewhere.rename(folder)
        assert found(reader, ["a"]) == ["a"]
