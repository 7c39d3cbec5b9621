"""Arguments that are URIs: which names they may have, and which stay on this machine."""

import argparse
from pathlib import Path

import pytest

from mr_dedup.cli.remote_files import local_path, output_file


def test_an_output_is_a_path_or_one_uri():
    assert output_file("a/b*.tsv") == Path("a/b*.tsv")
    for uri in ("hdfs:///a b/c.parquet", "s3://bucket/x#1.tsv"):
        assert output_file(uri) == uri
    for odd in ("*", "?", "[a]", "{a,b}", "\\", "a\tb", "a\nb", "folder/"):
        with pytest.raises(argparse.ArgumentTypeError, match="not a plain name of a file"):
            output_file(f"hdfs:///found/{odd}")


def test_an_index_is_on_this_machine():
    assert local_path("a") == Path("a")
    with pytest.raises(argparse.ArgumentTypeError, match="expected a path of this machine"):
        local_path("s3://bucket/index")
