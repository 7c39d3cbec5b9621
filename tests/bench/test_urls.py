"""The rows of the benchmark of URLs for a list of seeds, and without one."""

import gzip

import pytest

from bench import __main__ as bench
from bench.urls import seed_rows

SEEDS = b"http://a.example/\nhttp://a.example/#top\nhttp://b.example/\nhttp://b.example/\n"


@pytest.mark.parametrize("name", ["seeds.txt", "seeds.txt.gz"])
def test_urls_with_equal_canonical_forms(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(SEEDS) if name.endswith(".gz") else SEEDS)
    notes = {row.case: row.note for row in seed_rows(path)}
    assert notes["seeds"] == "4 lines, 3 distinct"
    assert notes["seeds, canonical"].startswith("2 distinct; ")
    assert notes["seeds, canonical"].endswith(": 1 a fragment")


def test_without_a_list_a_row_says_so():
    (row,) = seed_rows(None)
    assert row.note.startswith("skipped: ")


def test_a_missing_list_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--seeds", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
