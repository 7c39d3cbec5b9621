"""Commands in a session of Spark Connect, which has no RDDs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

pyspark = pytest.importorskip("pyspark")

pytestmark = [
    *sessions.MARKS,
    pytest.mark.skipif(
        int(pyspark.__version__.partition(".")[0]) < 4,
        reason="PySpark 3.5 comes without a server of Spark Connect",
    ),
]

_ROOT = Path(__file__).parents[3]

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession
SparkSession.builder.remote("local[2]").getOrCreate()
from mr_dedup.cli import dedup_jobs
from mr_dedup.cli.main import main
dedup_jobs.SMALL_BYTES.clear()
code = main(sys.argv[1:])
rows = SparkSession.getActiveSession().conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
if rows != "10000":
    print("batches have", rows, "rows now", file=sys.stderr)
    code = 1
sys.stderr.flush()
os._exit(code)
"""


def run(*words):
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_ROOT)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words)],
        env=variables, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["minhash", "simhash:k=3"])
def test_dedup(made, tmp_path, method):
    words = ["dedup", str(made / "pages"), "--method", method, "-o"]
    assert main([*words, str(tmp_path / "here")]) == 0
    done = run(*words, tmp_path / "out", "-r", "spark")
    assert done.returncode == 0, done.stderr
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "here")


def test_another_command(made, tmp_path):
    words = ["pairs", str(made / "pages"), "--method", "minhash", "-o"]
    assert main([*words, str(tmp_path / "here")]) == 0
    done = run(*words, tmp_path / "out", "-r", "spark")
    assert done.returncode == 0, done.stderr
    found = [(tmp_path / name).read_bytes() for name in ("out", "here")]
    assert found[0] == found[1]


def test_a_mistake_is_one_line(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": 1, "text": "a"}\nno JSON\n')
    done = run("dedup", bad, "-o", tmp_path / "out", "--strict", "-r", "spark")
    assert done.returncode == 2
    assert f"mr-dedup: error: {bad}, line 2 (byte 23): is not JSON" in done.stderr
    assert not (tmp_path / "out").exists()


def test_settings_of_another_session_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    words = ["dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out", "-r", "spark"]
    done = run(*words, "--master", "local[2]")
    assert done.returncode == 2
    assert "this process has a Spark session of Spark Connect already" in done.stderr
