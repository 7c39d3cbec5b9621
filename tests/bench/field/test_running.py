"""Programs that sleep, need much memory, fail or leave others running, with and without groups."""

import os
import sys
import time
from pathlib import Path

import pytest

from bench import control_groups
from bench.field import running
from bench.field.running import DONE, FAILED, OVER_MEMORY, OVER_TIME, Command, Limits, run

ENOUGH = Limits(60, 1 << 30)


@pytest.fixture(params=["groups", "tree"])
def python(request, tmp_path, monkeypatch):
    """Return what runs a program in Python, measured in one way."""
    if request.param == "groups" and not control_groups.can_make_groups():
        pytest.skip("needs control groups")
    if request.param == "tree":
        monkeypatch.setattr(running, "can_make_groups", lambda: False)
    return lambda text, limits=ENOUGH: run(Command([sys.executable, "-c", text], tmp_path), limits)


def test_a_program_that_ends_is_measured_with_its_children(python):
    # from their first line on: what a process takes before it is in its group is not measured
    busy = "import time\nbegun = time.process_time()\nwhile time.process_time() - begun < 0.5: pass"
    taken = python(
        f"import subprocess, sys\nblock = bytearray(100 << 20)\n"
        f"subprocess.run([sys.executable, '-c', {busy!r}])\n{busy}\nprint('ready')"
    )
    assert taken.state == DONE
    assert taken.said == "ready"
    assert 1 <= taken.cpu_seconds < 10
    assert 100 << 20 <= taken.peak_bytes < 1 << 30
    assert taken.seconds >= 0.5
    assert 0 <= taken.others_share <= 1


def test_a_program_may_use_two_cores(python):
    taken = python("import os; print(len(os.sched_getaffinity(0)))")
    assert int(taken.said) == min(2, len(os.sched_getaffinity(0)))


def test_files_of_a_program_are_measured(python):
    taken = python("open('large', 'wb').write(bytes(range(256)) * 40960)")
    assert 10 << 20 <= taken.disk_bytes < 11 << 20


def test_a_program_that_sleeps_is_ended_with_its_children(python, tmp_path):
    taken = python(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "print('at 10 %', flush=True); time.sleep(600)",
        Limits(2, 1 << 30),
    )
    assert taken.state == OVER_TIME
    assert taken.said == "at 10 %"
    assert 2 <= taken.seconds < 30
    for pid in (tmp_path / "pids").read_text().split():
        assert_ended(int(pid))


def assert_ended(pid):
    """Wait until a process is gone, or waits for its parent to note its end."""
    for _ in range(100):
        try:
            state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"{pid} is {state}")


def test_a_program_that_needs_too_much_memory_is_ended(python):
    eats = "blocks = []\nwhile True: blocks.append(b'x' * (10 << 20))"
    taken = python(eats, Limits(60, 200 << 20))
    assert taken.state == OVER_MEMORY
    assert taken.seconds < 60


def test_a_pool_whose_child_is_ended_for_its_memory_does_not_wait_forever(python):
    taken = python(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'x = b\"x\" * (300 << 20); time.sleep(600)'\n"
        "    .replace('time', '__import__(\"time\")')])\n"
        "time.sleep(600)",
        Limits(60, 200 << 20),
    )
    assert taken.state == OVER_MEMORY
    assert taken.seconds < 60


def test_the_message_of_a_program_that_fails_is_kept(python):
    taken = python("import sys\nprint('at 7')\nsys.exit('x' * 1000 + ' was wrong')")
    assert taken.state == FAILED
    assert taken.said.endswith("x was wrong")
    assert len(taken.said) <= 400


def test_the_end_of_what_was_printed_begins_with_a_whole_line(tmp_path):
    printed = "for i in range(60): print(f'/some/path/{i:02}.py')"
    taken = run(Command([sys.executable, "-c", printed], tmp_path), ENOUGH)
    lines = [f"/some/path/{i:02}.py" for i in range(60)]
    assert taken.said.split("\n") == lines[-len(taken.said.split("\n")) :]
    assert 380 <= len(taken.said) <= 400


def test_bars_that_were_overwritten_are_not_part_of_the_message(python):
    taken = python("import sys; sys.stderr.write('10 %\\r50 %\\r90 %\\nend'); sys.exit(3)")
    assert taken.said == "90 %\nend"


def test_a_program_runs_in_its_folder_with_its_variables(tmp_path):
    words = [sys.executable, "-c", "import os; print(os.getcwd(), os.environ['NAME'])"]
    taken = run(Command(words, tmp_path, {"NAME": "value"}), ENOUGH)
    assert taken.said == f"{os.path.realpath(tmp_path)} value"


def test_modules_are_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    words = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert run(Command(words, tmp_path), ENOUGH).said == "False"


def test_a_program_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(OSError, match="nothing"):
        run(Command([str(tmp_path / "nothing")], tmp_path), ENOUGH)


def test_a_group_counts_what_nobody_waited_for(tmp_path):
    """As of Spark's Python workers, whose parent ignores their end."""
    if not control_groups.can_make_groups():
        pytest.skip("needs control groups")
    busy = "import time\nwhile time.process_time() < 1: pass"
    text = (
        "import signal, subprocess, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {busy!r}])"
    )
    taken = run(Command([sys.executable, "-c", text], tmp_path), ENOUGH)
    assert taken.state == DONE
    assert taken.cpu_seconds >= 1
