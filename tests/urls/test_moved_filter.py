"""A filter of URLs that is moved while it is open, another in its place: neither is damaged."""

import subprocess
import sys

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.urls.opening import open_filter

CREATE = """
import sys
from mr_dedup.urls.opening import open_filter
with open_filter(sys.argv[1]) as filter:
    filter.add_many(sys.argv[2:])
"""


def urls(kind, count):
    return [f"http://{kind}.example/{number}" for number in range(count)]


def moved_away(folder):
    folder.rename(folder.with_name("moved"))


def emptied(folder):
    folder.with_name("moved").mkdir()
    for path in folder.iterdir():
        path.rename(folder.with_name("moved") / path.name)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.mark.parametrize("move", [moved_away, emptied])
def test_neither_filter_is_touched_by_the_writer_of_the_other(tmp_path, move):
    folder = tmp_path / "urls"
    old = open_filter(folder)
    old.add_many(urls("old", 2000))
    move(folder)
    command = [sys.executable, "-c", CREATE, folder, *urls("new", 500)]
    subprocess.run(command, check=True)
    before = contents(folder)
    for change in (
        lambda: old.add_many(urls("lost", 10)),
        lambda: old.add("http://old.example/0"),
        lambda: old.remove("http://old.example/0"),
        old.save,
    ):
        with pytest.raises(MrDedupError, match=f"{folder}: was moved, removed or replaced"):
            change()
    assert old.counts(old.digests_of(urls("old", 2000))).all()
    old.close()
    assert contents(folder) == before
    for path, kept, other in (
        (folder, urls("new", 500), urls("old", 500)),
        (tmp_path / "moved", urls("old", 2000), urls("new", 500)),
    ):
        with open_filter(path) as filter:
            assert len(filter) == len(kept)
            assert filter.counts(filter.digests_of(kept)).tolist() == [1] * len(kept)
            assert not filter.counts(filter.digests_of(other)).any()


def test_a_filter_that_is_moved_back_is_changed_again(tmp_path):
    folder = tmp_path / "urls"
    with open_filter(folder) as filter:
        filter.add("http://a.example/")
        moved_away(folder)
        with pytest.raises(MrDedupError, match="was moved"):
            filter.add("http://b.example/")
        (tmp_path / "moved").rename(folder)
        assert filter.add("http://b.example/")
    with open_filter(folder) as filter:
        assert len(filter) == 2
        assert filter.rebuilt is None
