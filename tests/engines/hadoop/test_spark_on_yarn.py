"""De-duplication by Spark on YARN: the driver here, or there as spark-submit starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from mr_dedup.storage.listing import files_below
from mr_dedup.storage.uris import name_below
from mr_dedup.storage.writing import read_small
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.engines.environments import pack_python

pytestmark = pytest.mark.hadoop

# runs the command; looks where executors find PySpark, and that their Python is the driver's
STEP = """
import os
import sys
from mr_dedup.cli.main import main
code = main(sys.argv[1:])
from pyspark.sql import SparkSession
def where(_):
    import pyspark
    return pyspark.__file__, os.path.basename(sys.prefix)
context = SparkSession.getActiveSession().sparkContext
found = context.range(4, numSlices=4).map(where).collect()
assert all("pyspark.zip" in path for path, _ in found), found
assert {prefix for _, prefix in found} == {os.path.basename(sys.prefix)}, found
sys.exit(code)
"""


@pytest.mark.parametrize("python", ["installed", "sent"])
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_dedup(client, in_this_process, tmp_path, mode, python):
    from pyspark.find_spark_home import _find_spark_home

    pages = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 300))
    address = client.put(pages)
    uri, out = f"{address}/pages.jsonl", f"{address}/out"
    assert main(["dedup", uri, "-o", str(tmp_path / "here")]) == 0
    properties = [
        # else all of Spark is copied to HDFS
        f"spark.yarn.jars=local:{_find_spark_home()}/jars/*",
        "spark.executor.memory=512m",
        "spark.executor.instances=2",
    ]
    seen = tmp_path / "seen"
    seen.mkdir()
    executable, archive = sys.executable, None
    if python == "sent":
        executable = "environment/bin/python"
        archive = pack_python(tmp_path / "env.tar.gz", seen=seen, extras=["hdfs"])
    words = ["dedup", uri, "-o", out, "-r", "spark", "--reducers", "3"]
    environment = {name: v for name, v in client.environment.items() if name != "PYTHONPATH"}
    # as in an environment that is activated: spark-submit looks for Spark by its python3
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if mode == "client":
        command = [sys.executable, "-m", "mr_dedup", *words, "--master", "yarn"]
        command += ["--python-bin", executable, *(["--archive", str(archive)] if archive else [])]
        command += [word for each in properties for word in ("-D", each)]
    else:
        step = tmp_path / "step.py"
        step.write_text(STEP)
        properties.append(f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={executable}")
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "yarn"]
        command += ["--deploy-mode", "cluster"]
        command += ["--archives", f"{archive}#environment"] if archive else []
        command += [word for each in properties for word in ("--conf", each)]
        command += [str(step), *words]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert bool(archive) == bool(list(seen.iterdir()))
    for file in files_below(out):
        path = tmp_path / "there" / name_below(file.uri, out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_small(file.uri))
    assert tables_of(tmp_path / "there") == tables_of(tmp_path / "here")
