"""What names on a command line stand for."""

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.inputs import expand


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("b.longs", "a.longs", "c d#%.txt", "[x]*.longs", ".hidden", "_SUCCESS"):
        (tmp_path / name).touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "z.longs").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_globs_folders_and_addresses(folder):
    def names(*arguments):
        return [path.name for path in expand(arguments)]

    assert names("b.longs", "a.longs") == ["b.longs", "a.longs"]
    assert names("?.longs") == ["a.longs", "b.longs"]
    assert names(str(folder / "*.txt")) == ["c d#%.txt"]
    assert names("**/z.longs") == ["z.longs"]
    assert names("[x]*.longs") == ["[x]*.longs"]
    assert names(".") == ["[x]*.longs", "a.longs", "b.longs", "c d#%.txt"]
    assert names((folder / "c d#%.txt").as_uri()) == ["c d#%.txt"]
    assert names((folder / "inner").as_uri()) == ["z.longs"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.longs", "nothing.longs: no such file"),
        ("*.fpz", r"\*.fpz: no such file"),
        ("file://host/a.longs", "names another machine, host"),
        ("empty", "empty: holds no files"),
        ("", "an input has no name"),
    ],
)
def test_names_of_nothing_are_errors(folder, name, said):
    (folder / "empty").mkdir()
    with pytest.raises(MrDedupError, match=said):
        expand(["a.longs", name])
