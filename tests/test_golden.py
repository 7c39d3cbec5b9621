"""The comparison of what commands write finds what differs."""

import shutil
import subprocess
import sys


def golden(*words):
    return subprocess.run(
        [sys.executable, "-m", "tests.golden", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_results_of_two_runs_are_equal_until_one_is_changed(tmp_path):
    folder = tmp_path / "golden"
    for name in ("one", "two"):
        done = golden("run", folder, "--as", name, "--only", "dedup-strict", "--only", "dedup-gzip")
        assert done.returncode == 0, done.stderr
        assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
            "dedup-gzip: 0", "dedup-strict: 2",
        ]  # fmt: skip
    done = golden("compare", folder / "one", folder / "two")
    assert (done.returncode, done.stdout) == (0, "0 of 2 cases differ\n")
    path = folder / "two" / "dedup-gzip" / "documents" / "new.jsonl"
    path.write_bytes(path.read_bytes()[:-2] + b" \n")
    shutil.rmtree(folder / "two" / "dedup-gzip" / "clusters")
    done = golden("compare", folder / "one", folder / "two")
    assert done.returncode == 1
    assert "dedup-gzip/clusters: only in the first" in done.stdout
    assert "documents/new.jsonl" in done.stdout
    assert done.stdout.endswith("1 of 2 cases differ\n")
