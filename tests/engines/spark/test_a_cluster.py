"""A cluster of Spark: a master and workers of their own, to which this package is sent."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from tests.cli.result_tables import tables_of
from tests.engines.environments import pack_python
from tests.engines.spark import sessions

pytestmark = list(sessions.MARKS)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """Yield the URL of a master with two workers, whose Python does not find this package."""
    with cluster(tmp_path_factory.mktemp("cluster")) as (url, _):
        yield url


@contextlib.contextmanager
def cluster(folder, disks=(None, None)):
    """Yield the URL of a master with two workers, and these; ``disks`` are their directories."""
    from pyspark.find_spark_home import _find_spark_home

    run = [str(Path(_find_spark_home()) / "bin" / "spark-class")]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    deploy = "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:

        def start(name, *words, disk=None):
            local = {} if disk is None else {"SPARK_LOCAL_DIRS": str(disk), "TMPDIR": str(disk)}
            log = (folder / f"{name}.log").open("wb")
            stack.callback(log.close)
            process = subprocess.Popen(
                [*run, *words], stdout=log, stderr=log, env=variables | local, cwd=folder
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            processes.append(process)
            return folder / f"{name}.log"

        processes = []

        log = start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0",
                    "--webui-port", "0")  # fmt: skip
        found = said(log, r"spark://127\.0\.0\.1:\d+")
        for number, disk in enumerate(disks):
            worker = start(f"worker-{number}", f"{deploy}.worker.Worker", "--cores", "1",
                           "--memory", "1g", "--webui-port", "0",
                           "--work-dir", str(folder / "work"), found, disk=disk)  # fmt: skip
            said(worker, "Successfully registered with master")
        yield found, processes[1:]


def said(log, pattern):
    deadline = time.monotonic() + 60
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
    return found[0]


def test_a_command_on_a_cluster(master, made, tmp_path):
    assert main(["dedup", str(made / "pages"), "-o", str(tmp_path / "here")]) == 0
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(made / "pages"), "-o",
               str(tmp_path / "out"), "-r", "spark", "--master", master, "--reducers", "3",
               "--python-bin", sys.executable, "-D", "spark.executor.memory=512m"]  # fmt: skip
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=root, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("mr-dedup: ") for line in done.stderr.splitlines()), done.stderr
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "here")


@pytest.mark.parametrize("command", ["mr-dedup", "spark-submit"])
def test_a_python_that_is_sent(master, made, tmp_path, command):
    assert main(["dedup", str(made / "pages"), "-o", str(tmp_path / "here")]) == 0
    seen = tmp_path / "seen"
    seen.mkdir()
    name = {"mr-dedup": "an env.tar.gz", "spark-submit": "env.tar.gz"}[command]
    environment = pack_python(tmp_path / name, seen=seen)
    words = ["dedup", str(made / "pages"), "-o", str(tmp_path / "out"), "-r", "spark"]
    root = Path(__file__).parents[3]
    variables = {**os.environ, "PYTHONPATH": str(root)}
    if command == "mr-dedup":
        words = [sys.executable, "-m", "mr_dedup", *words, "--master", master,
                 "--archive", environment, "--python-bin", "environment/bin/python",
                 "-D", "spark.executor.memory=512m"]  # fmt: skip
    else:
        words = [Path(sys.executable).with_name("spark-submit"), "--master", master,
                 "--archives", f"{environment}#environment",
                 "--conf", "spark.executor.memory=512m",
                 root / "examples" / "spark_step.py", *words]  # fmt: skip
        variables |= {
            "PYSPARK_PYTHON": "./environment/bin/python",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
    done = subprocess.run(
        list(map(str, words)), env=variables, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "here")
    assert list(seen.iterdir())


def test_a_path_of_python_that_is_given_is_used_too(master, made, tmp_path):
    """That of this package is before it; what executors import is at both."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'imported')!r}).touch()\n"
    )
    command = [sys.executable, "-m", "mr_dedup", "pairs", str(made / "pages"), "-o",
               str(tmp_path / "out"), "-r", "spark", "--master", master, "--method", "minhash",
               "--python-bin", sys.executable, "-D", "spark.executor.memory=512m",
               "-D", f"spark.executorEnv.PYTHONPATH={site}"]  # fmt: skip
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=root, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "imported").exists()


def test_a_python_without_this_packages_needs(master, made, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(made / "pages"), "-o",
               str(tmp_path / "out"), "-r", "spark", "--master", master,
               "--python-bin", str(bare / "bin" / "python")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mr-dedup: error: Spark: the Python of executors lacks a package")
    assert "No module named" in last


def test_a_cluster_out_of_reach_is_one_line(made, tmp_path):
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(made / "pages"), "-o",
               str(tmp_path / "out"), "-r", "spark", "--master", "spark://127.0.0.1:9"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("mr-dedup: error: Spark")


def started(pages, out, master, *words):
    command = [sys.executable, "-m", "tests.engines.spark.all_by_tasks", "dedup", str(pages),
               "-o", str(out), "-r", "spark", "--master", master, "--reducers", "6",
               "--python-bin", sys.executable, "-D", "spark.executor.memory=512m",
               *words]  # fmt: skip
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=root)


def test_a_worker_that_is_lost_for_good(made, tmp_path):
    assert main(["dedup", str(made / "pages"), "-o", str(tmp_path / "here")]) == 0
    (tmp_path / "cluster").mkdir()
    with (
        cluster(tmp_path / "cluster") as (url, workers),
        started(made / "pages", tmp_path / "out", url) as process,
    ):
        while not (tmp_path / ".out.unfinished" / "rows").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        # its executor ends with it
        workers[0].kill()
        said = process.communicate(timeout=200)[1]
    assert process.returncode == 0, said
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "here")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_on_one_worker(made, tmp_path):
    """Tasks that need its disk are run on the other one."""
    assert main(["dedup", str(made / "pages"), "-o", str(tmp_path / "here")]) == 0
    (tmp_path / "cluster").mkdir()
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    try:
        with cluster(tmp_path / "cluster", (small, large)) as (url, _):
            words = ["-D", "spark.excludeOnFailure.enabled=true",
                     "-D", "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor=1",
                     "-D", "spark.excludeOnFailure.task.maxTaskAttemptsPerNode=3"]  # fmt: skip
            with started(made / "pages", tmp_path / "out", url, *words) as process:
                filled = False
                while process.poll() is None:
                    # whatever Spark needs to start is there
                    if not filled and (tmp_path / ".out.unfinished" / "rows").exists():
                        with contextlib.suppress(OSError), (small / "full").open("wb") as file:
                            while True:
                                file.write(bytes(4096))
                        filled = True
                    time.sleep(0.1)
                said = process.communicate(timeout=200)[1]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert process.returncode == 0, said
    assert filled
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "here")
