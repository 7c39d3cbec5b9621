"""Outputs that may be on a cluster: which names they may have, and those that stay here."""

import argparse
from pathlib import Path

import pytest

from mr_dedup.cli.on_cluster import output_name, output_path
from mr_dedup.errors import MrDedupError


def test_an_output_is_a_path_or_one_address():
    assert output_name("a/b*.tsv") == Path("a/b*.tsv")
    for address in ("hdfs:///a b/c.parquet", "s3://bucket/x#1.tsv"):
        assert output_name(address) == address
    for odd in ("*", "?", "[a]", "{a,b}", "\\", "a\tb", "a\nb", "folder/"):
        with pytest.raises(argparse.ArgumentTypeError, match="not a plain name of a file"):
            output_name(f"hdfs:///found/{odd}")


def test_an_output_here_is_written_where_it_is_to_be(tmp_path):
    path = tmp_path / "a.tsv"
    arguments = argparse.Namespace(overwrite=False)
    with output_path(path, arguments, tmp_path, None) as out:
        assert out == path
    path.write_text("old")
    with (
        pytest.raises(MrDedupError, match=r"a\.tsv: exists; give --overwrite"),
        output_path(path, arguments, tmp_path, None),
    ):
        raise AssertionError("it is not refused")
    arguments.overwrite = True
    with output_path(path, arguments, tmp_path, None) as out:
        assert out.read_text() == "old"
