"""Descriptions of remote files, by which tasks fetch them."""

import pytest

from mr_dedup.errors import FormatError
from mr_dedup.storage.descriptions import REMOTE_SUFFIX, describe, fetch_described
from mr_dedup.storage.errors import ChangedError
from mr_dedup.storage.listing import file_info


def test_a_file_is_fetched_by_its_description(place, tmp_path):
    place.write("a.longs.gz", b"content")
    path = tmp_path / f"0{REMOTE_SUFFIX}"
    describe(file_info(place.of("a.longs.gz")), path)
    copy = fetch_described(path, tmp_path)
    # its endings state the format
    assert copy.name == "input.longs.gz"
    assert copy.read_bytes() == b"content"


def test_a_file_that_was_changed_since(place, tmp_path):
    place.write("a", b"content")
    path = tmp_path / f"0{REMOTE_SUFFIX}"
    describe(file_info(place.of("a")), path)
    place.write("a", b"changed")
    with pytest.raises(ChangedError):
        fetch_described(path, tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_description(tmp_path):
    path = tmp_path / f"0{REMOTE_SUFFIX}"
    for text in ("{", "[]", '{"uri": "s3://a/b"}'):
        path.write_text(text)
        with pytest.raises(FormatError, match="not the description of a file"):
            fetch_described(path, tmp_path)
