"""mr_dedup.dedup with a session of Spark that its caller has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup
from mr_dedup.engines.spark.sessions import open_session, stop_session
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

pytestmark = [*sessions.MARKS]


def test_a_session_is_an_engine(tmp_path):
    from pyspark.sql import SparkSession

    pages = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1))
    mr_dedup.dedup(pages, tmp_path / "memory")
    with sessions.master("local[2]"):
        disk = tmp_path / "disk"
        stop_session()
        builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(disk))
        session = builder.getOrCreate()
        try:
            mr_dedup.dedup(pages, tmp_path / "spark", engine=session)
            assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")
            mr_dedup.dedup(pages, tmp_path / "again", engine=session)
            # of each run what executors have cached goes with the next, or with the session
            folder = Path(session.conf.get("spark.local.dir"))
            assert len(list(folder.rglob("mr-dedup-parts-*"))) == 1
            # a session that is not the active one would not be used
            other = session.newSession()
            with pytest.raises(ValueError, match="not the active session of Spark"):
                mr_dedup.dedup(pages, engine=other)
        finally:
            session.stop()
        assert not list(disk.rglob("mr-dedup-parts-*"))


def test_properties_that_are_given_replace_those_of_every_session():
    name = "spark.shuffle.sort.bypassMergeThreshold"
    for given, expected in [((), "1"), ((f"{name}=7",), "7")]:
        with sessions.master("local[1]", properties=given) as settings:
            assert open_session(settings).sparkContext.getConf().get(name) == expected


SETTINGS = """
from mr_dedup.engines.spark.sessions import SparkSettings, open_session
settings = SparkSettings("local[1]", properties=("spark.shuffle.spill.compress=true",))
conf = open_session(settings).sparkContext.getConf()
names = ("compress", "spill.compress", "checksum.enabled")
print(*(conf.get(f"spark.shuffle.{name}") for name in names))
"""


@pytest.mark.parametrize("given", ["file", "spark-submit"])
def test_settings_of_spark_are_not_replaced(tmp_path, given):
    script = tmp_path / "settings.py"
    script.write_text(SETTINGS)
    command = [sys.executable, script]
    root = Path(__file__).parents[3]
    variables = {**os.environ, "PYTHONPATH": str(root), "PYSPARK_PYTHON": sys.executable}
    if given == "file":
        (tmp_path / "spark-defaults.conf").write_text("# of ours\nspark.shuffle.compress  true\n")
        variables["SPARK_CONF_DIR"] = str(tmp_path)
    else:
        submit = Path(sys.executable).with_name("spark-submit")
        command = [submit, "--master", "local[1]", "--conf", "spark.shuffle.compress=true", script]
    done = subprocess.run(
        list(map(str, command)), env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # spark-submit prints warnings too
    assert "true true false" in done.stdout.splitlines()
