"""What the benchmark of URLs says of a list that it is given, and without one."""

import gzip

import pytest

from bench import __main__ as bench
from bench.urls import seed_rows

SEEDS = b"http://a.example/\nhttp://a.example/#top\nhttp://b.example/\nhttp://b.example/\n"


@pytest.mark.parametrize("name", ["seeds.txt", "seeds.txt.gz"])
def test_it_says_what_the_form_folds(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(SEEDS) if name.endswith(".gz") else SEEDS)
    told = {row.case: row.note for row in seed_rows(path)}
    assert told["seeds"] == "4 lines, 3 distinct"
    assert told["seeds, canonical"].startswith("2 distinct; ")
    assert told["seeds, canonical"].endswith(": 1 a fragment")


def test_without_a_list_a_row_says_so():
    (row,) = seed_rows(None)
    assert row.note.startswith("skipped: ")


def test_a_list_that_is_missing_is_told_before_anything_is_measured(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--seeds", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
