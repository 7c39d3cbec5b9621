"""Outputs: whole or not at all."""

import os
import stat

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.outputs import whole_file


def test_a_file_appears_with_the_permissions_of_any_new_file(tmp_path):
    path, other = tmp_path / "out", tmp_path / "other"
    with whole_file(path) as file:
        file.write(b"all")
        assert not path.exists()
    other.touch()
    assert path.read_bytes() == b"all"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error), whole_file(path, overwrite=True) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_replaced_unasked(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(MrDedupError, match="exists; give --overwrite"), whole_file(path):
        pass
    with whole_file(path, overwrite=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_link_to_an_output_is_followed_only_as_far_as_replacing_it(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with whole_file(link, overwrite=True) as file:
        file.write(b"new")
    assert link.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["", "no/out"])
def test_impossible_places_are_named(tmp_path, name):
    with pytest.raises(MrDedupError, match=str(tmp_path)), whole_file(tmp_path / name):
        pass


def test_errors_of_the_disk_name_the_output(tmp_path):
    path = tmp_path / "out"
    message = f"{path}: cannot be written: No space left"
    with pytest.raises(MrDedupError, match=message), whole_file(path):
        raise OSError(28, os.strerror(28))
    assert list(tmp_path.iterdir()) == []
