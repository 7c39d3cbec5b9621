"""Executors, their Python, the client: killed at any moment, and the result is the same."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from mr_dedup.pipeline.stages import has_finished
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

pytestmark = list(sessions.MARKS)

MASTER = "local-cluster[2,1,1024]"
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


def started(pages, out, *words):
    command = [sys.executable, "-m", "tests.engines.spark.all_by_tasks", "dedup", pages, "-o", out,
               "-r", "spark", "--master", MASTER, "--reducers", "6", *words]  # fmt: skip
    with sessions.master(MASTER):
        return subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )


def below(pid):
    """The processes that a process has started, and those that these have, with their commands."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            commands[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(status[1])
    found, level = {}, {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found |= {child: commands.get(child, "") for child in level}
    return found


def with_one(process, what):
    """Wait until a process has started another one; return all that it has started."""
    while True:
        found = below(process.pid)
        if any(what in command for command in found.values()):
            return found
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


def kill_one(process, what, rng):
    pids = [pid for pid, command in below(process.pid).items() if what in command]
    if pids:
        try:
            os.kill(rng.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return False
    return bool(pids)


@pytest.fixture(scope="module")
def expected(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("expected") / "out"
    assert main(["dedup", str(made / "pages"), "-o", str(out)]) == 0
    return tables_of(out)


@pytest.mark.parametrize("seed", range(8))
def test_executors_that_are_killed(made, expected, tmp_path, seed):
    rng = random.Random(seed)
    out = tmp_path / "out"
    killed = 0
    with started(made / "pages", out) as process:
        while process.poll() is None and killed < 3:
            time.sleep(rng.uniform(0.5, 6))
            killed += kill_one(process, EXECUTOR if seed % 2 else WORKER, rng)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert killed
    assert tables_of(out) == expected


STAGES = {"rows": "fingerprint", "attached": "cluster", "decided": "resolve"}
"""Which stage leaves each directory of shards."""


@pytest.mark.parametrize("after", [None, *STAGES])
def test_a_client_that_is_killed_leaves_no_process_and_is_resumed(made, expected, tmp_path, after):
    """After each stage, or before the first one has ended."""
    out = tmp_path / "out"
    with started(made / "pages", out) as process:
        left = with_one(process, EXECUTOR)
        work = tmp_path / ".out.unfinished"
        while not (has_finished(work, STAGES[after]) if after else work.exists()):
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    wait_for_the_end_of(left)
    assert not out.exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / ".out.unfinished").rglob("0*")}
    with started(made / "pages", out, "--resume") as process:
        done = {}
        while process.poll() is None:
            for path, written in before.items():
                if path.exists() and path.stat().st_mtime_ns != written:
                    done[path] = True
            time.sleep(0.05)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert tables_of(out) == expected
    if after:
        # what the stages before had left was not written again
        ended = list(STAGES)[: list(STAGES).index(after) + 1]
        assert not [path for path in done if path.parent.name in ended]


@pytest.mark.parametrize("seed", range(2))
def test_tasks_that_are_run_twice_at_a_time(made, expected, tmp_path, seed):
    """Speculation starts a second attempt of tasks that take long, as stopped ones do."""
    rng = random.Random(seed)
    out = tmp_path / "out"
    words = ["-D", "spark.speculation=true", "-D", "spark.speculation.multiplier=1",
             "-D", "spark.speculation.quantile=0.2", "-D", "spark.speculation.interval=50ms",
             "-D", "spark.speculation.minTaskRuntime=0ms"]  # fmt: skip
    with started(made / "pages", out, *words) as process:
        while process.poll() is None:
            time.sleep(rng.uniform(0.2, 1))
            pids = [pid for pid, command in below(process.pid).items() if WORKER in command]
            for pid in rng.sample(pids, min(1, len(pids))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(rng.uniform(0.1, 0.8))
                    os.kill(pid, signal.SIGCONT)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert tables_of(out) == expected


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 2, [signal.SIGINT, signal.SIGTERM]],
)
def test_a_signal_ends_all(made, tmp_path, numbers):
    out = tmp_path / "out"
    with started(made / "pages", out) as process:
        left = with_one(process, WORKER)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)
        begun = time.monotonic()
        said = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "mr-dedup: error: interrupted"
    assert "Traceback" not in said
    assert time.monotonic() - begun < 5
    wait_for_the_end_of(left)
    assert not out.exists()


def wait_for_the_end_of(processes):
    deadline = time.monotonic() + 30
    while any(_is_there(pid, command) for pid, command in processes.items()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_there(pid, command):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") == command != ""
    except (FileNotFoundError, ProcessLookupError):
        return False
