"""mr-dedup plan: its output for small sizes and for those of the paper."""

import pytest

from mr_dedup.cli.main import main
from mr_dedup.hamming.design import designs_for


def planned(capsys, *arguments):
    code = main(["plan", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_papers_sizes(capsys):
    code, out, err = planned(capsys, "--corpus", "8e9", "--queries", "1_000_000")
    assert (code, err) == (0, "")
    assert out.startswith(
        "8,000,000,000 corpus fingerprints x 1,000,000 queries, k = 3\n954 map tasks"
    )
    for design in designs_for(3):
        assert out.count(f" {design} ") == 2
    assert out.count("  > ") == 1
    assert "chosen: 4-tables, tables over the queries, probed by the corpus" in out


def test_options_are_used(capsys):
    code, out, _ = planned(
        capsys, "--corpus", "1e6", "--queries", "1e6", "-k", "3", "--design", "10-tables",
        "--index", "corpus", "--table-memory", "10MB", "--chunk-size", "1MB",
    )  # fmt: skip
    assert code == 0
    assert "8 map tasks of up to 131,072 fingerprints" in out
    assert "chosen: 10-tables, tables over the corpus, in 2 slices, probed by the queries" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-k", "70"], "k must be from 0 to 64, not 70"),
        (["--design", "3-tables"], "design for k = 3 must be one of all-pairs, 4-tables"),
        (["-k", "24"], "choose a smaller k"),
    ],
)
def test_usage_errors_are_one_line(capsys, arguments, said):
    code, _, err = planned(capsys, "--corpus", "8e9", "--queries", "1e6", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("size", ["many", "-5", "1.5", "1e30", "nan"])
def test_sizes_are_checked(capsys, size):
    with pytest.raises(SystemExit) as raised:
        main(["plan", "--corpus", size, "--queries", "10"])
    assert raised.value.code == 2
    assert f"{size!r} is not a count" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "64XB", "MB", "-1MB"])
def test_byte_sizes_are_checked(capsys, size):
    with pytest.raises(SystemExit):
        main(["plan", "--corpus", "10", "--queries", "10", f"--table-memory={size}"])
    assert "is not a size such as" in capsys.readouterr().err


def test_empty_sides_have_a_plan(capsys):
    code, out, _ = planned(capsys, "--corpus", "0", "--queries", "0")
    assert code == 0
    assert "0 map tasks" in out


def test_all_pairs_without_queries(capsys):
    code, out, err = planned(capsys, "--corpus", "16e6")
    assert (code, err) == (0, "")
    assert out.startswith("all pairs of 16,000,000 fingerprints, k = 3\n")
    for design in designs_for(3):
        assert out.count(f" {design} ") == 1
    assert out.count("  > ") == 1
    assert "chosen: 4-tables, in one process" in out
    assert "by reducers: 4-tables, 2 map tasks of up to 8,388,608 fingerprints" in out
    assert "64 partitions of about 1,000,000 fingerprints, 0.7 GB between map and reduce" in out


def test_the_design_for_all_pairs_follows_the_size_and_the_memory(capsys):
    chosen = []
    for size in ("1000", "1e6", "64e6"):
        _, out, _ = planned(capsys, "--corpus", size, "--table-memory", "8GB")
        chosen.append(out.partition("chosen: ")[2].partition(",")[0])
    assert chosen == ["all-pairs", "4-tables", "6-tables-in-2"]
    _, out, _ = planned(capsys, "--corpus", "64e6", "--table-memory", "100MB")
    assert "chosen: 4-tables, in 10 slices, in one process" in out
    _, out, _ = planned(capsys, "--corpus", "64e6", "--design", "10-tables", "-k", "3")
    assert "chosen: 10-tables, in" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-k", "70"], "k must be from 0 to 64, not 70"),
        (["--design", "3-tables"], "design for k = 3 must be one of all-pairs, 4-tables"),
        (["--index", "corpus"], "--index: needs --queries"),
        (["-k", "24"], "choose a smaller k"),
        (["-k", "24", "--table-memory", "1TB"], "choose a smaller k"),
    ],
)
def test_usage_errors_for_all_pairs_are_one_line(capsys, arguments, said):
    code, _, err = planned(capsys, "--corpus", "1e9", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
