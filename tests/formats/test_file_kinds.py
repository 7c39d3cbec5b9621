"""What a path leads to, links followed."""

import os
import socket

import pytest

from mr_dedup.formats.file_kinds import kind_of


def test_every_kind(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for path, kind in (
        (tmp_path / "file", "file"),
        (tmp_path, "folder"),
        (tmp_path / "pipe", "pipe"),
        (tmp_path / "socket", "socket"),
        ("/dev/null", "device"),
    ):
        link = tmp_path / f"link to {kind}"
        link.symlink_to(path)
        assert kind_of(path) == kind_of(link) == kind


def test_a_path_to_nothing(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("link", "nothing"):
        with pytest.raises(FileNotFoundError):
            kind_of(tmp_path / name)
