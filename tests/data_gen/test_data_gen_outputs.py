"""Folders appear complete or not at all, and files of others are never removed."""

import re
from pathlib import Path

import pytest

from data_gen.outputs import OutputError, whole_folder

OWN = re.compile(r"a|b|part-[0-9]")


def fill(folder: Path, *, overwrite: bool = False, content: str = "new") -> None:
    with whole_folder(folder, OWN, overwrite=overwrite) as new:
        (new / "a").write_text(content)


def listing(folder: Path) -> dict[str, str]:
    """Return every file below ``folder`` with its content, and every folder with "/"."""
    return {
        str(path.relative_to(folder)): "/" if path.is_dir() else path.read_text()
        for path in sorted(folder.rglob("*"))
    }


def test_a_folder_appears_when_the_block_ends_and_not_before(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with whole_folder(target, OWN) as new:
        (new / "a").write_text("1")
        assert not target.exists()
        assert new.parent == tmp_path
        assert new.name.startswith(".")
    assert listing(tmp_path) == {"out": "/", "out/a": "1"}


def test_it_has_the_permissions_of_any_new_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    fill(tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("before", ["missing", "empty", "old"])
def test_an_error_in_the_block_changes_nothing(
    tmp_path: Path, error: BaseException, before: str
) -> None:
    target = tmp_path / "out"
    if before != "missing":
        target.mkdir()
    if before == "old":
        fill(target, content="old")
    was = listing(tmp_path)
    with (
        pytest.raises(type(error)) as raised,
        whole_folder(target, OWN, overwrite=True) as new,
    ):
        (new / "a").write_text("new")
        (new / "b").write_text("new")
        raise error
    assert raised.value is error
    assert listing(tmp_path) == was


def test_an_error_of_the_system_names_the_folder(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(OutputError) as raised, whole_folder(target, OWN) as new:
        (new / "missing" / "a").write_text("1")
    assert str(raised.value) == f"{target}: cannot be written: No such file or directory"
    assert listing(tmp_path) == {}


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out")
    assert listing(tmp_path) == {"out": "/", "out/a": "new"}


def test_a_folder_that_is_filled_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with (
        pytest.raises(OutputError, match="cannot be written: Directory not empty"),
        whole_folder(target, OWN),
    ):
        target.mkdir()
        (target / "a").write_text("another's")
    assert listing(tmp_path) == {"out": "/", "out/a": "another's"}


def test_a_filled_folder_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    for name in ("a", "b", "part-7"):
        (target / name).write_text("old")
    was = listing(tmp_path)
    with pytest.raises(OutputError, match=r"out: not empty; give --overwrite to replace it$"):
        fill(target)
    assert listing(tmp_path) == was
    fill(target, overwrite=True)
    assert listing(tmp_path) == {"out": "/", "out/a": "new"}


@pytest.mark.parametrize("foreign", ["c", "part-77", "a.bak", ".hidden"])
def test_foreign_files_are_never_replaced(tmp_path: Path, foreign: str) -> None:
    target = tmp_path / "out"
    fill(target, content="old")
    (target / foreign).write_text("precious")
    was = listing(tmp_path)
    with pytest.raises(OutputError, match=rf"out: contains {re.escape(foreign)}, which is not"):
        fill(target, overwrite=True)
    assert listing(tmp_path) == was


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_folder_or_a_link_under_our_name_is_foreign(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    fill(target, content="old")
    if kind == "folder":
        (target / "b").mkdir()
    else:
        (tmp_path / "precious").write_text("1")
        (target / "b").symlink_to(tmp_path / "precious")
    was = listing(tmp_path)
    with pytest.raises(OutputError, match=r"out: contains b, which is not"):
        fill(target, overwrite=True)
    assert listing(tmp_path) == was


def test_a_foreign_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    fill(target, content="old")
    with (
        pytest.raises(OutputError, match=r"out: contains precious, which is not"),
        whole_folder(target, OWN, overwrite=True) as new,
    ):
        (new / "a").write_text("new")
        (target / "precious").write_text("1")
    assert listing(tmp_path) == {"out": "/", "out/a": "old", "out/precious": "1"}


def test_the_old_folder_is_restored_if_the_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    fill(target, content="old")
    rename = Path.rename

    def interrupted(self: Path, to: Path) -> Path:
        if self.suffix == ".part":
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(target, overwrite=True)
    assert listing(tmp_path) == {"out": "/", "out/a": "old"}


def test_an_interrupt_during_the_removal_keeps_the_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    fill(target, content="old")
    unlink, interrupts = Path.unlink, iter([True])

    def interrupted(self: Path) -> None:
        if next(interrupts, False):
            raise KeyboardInterrupt
        unlink(self)

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(target, overwrite=True)
    assert listing(tmp_path) == {"out": "/", "out/a": "new"}


def test_links_stay_and_what_they_point_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    fill(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert listing(tmp_path / "real") == {"a": "new"}


def test_names_that_cannot_be_a_new_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, reason in {
        tmp_path / "file": "not a directory",
        tmp_path / "no" / "out": f"its directory {tmp_path / 'no'} does not exist",
        tmp_path / "file" / "out": f"its directory {tmp_path / 'file'} does not exist",
        Path(): "is the current directory and cannot be replaced; name a directory inside it",
        Path("/proc"): "is a mount point and cannot be replaced; name a directory inside it",
    }.items():
        with pytest.raises(OutputError) as raised:
            fill(name, overwrite=True)
        assert str(raised.value) == f"{name}: {reason}"
    assert listing(tmp_path) == {"file": "1", "here": "/"}


def test_a_full_disk_is_refused_before_the_work(tmp_path: Path) -> None:
    worked = False
    with (
        pytest.raises(
            OutputError, match=r"out: needs 1,[0,]+ bytes, but its disk has [0-9,]+ free$"
        ),
        whole_folder(tmp_path / "out", OWN, min_bytes=10**18),
    ):
        worked = True
    assert not worked
    assert listing(tmp_path) == {}
