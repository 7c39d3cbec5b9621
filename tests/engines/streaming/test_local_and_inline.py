"""The runners of this machine: tasks that fail, are killed, are interrupted; what they leave."""

import errno
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from mrjob.job import MRJob
from mrjob.step import MRStep

from mr_dedup.engines import streaming
from mr_dedup.errors import MAX_MESSAGE, FormatError, MrDedupError, OutOfMemoryError
from mr_dedup.formats.documents import extraction

LOCAL_AND_INLINE = pytest.mark.parametrize("runner", streaming.RUNNERS)


class Acts(MRJob):
    """Does to each input what its text says; counts what it read."""

    def configure_args(self):
        super().configure_args()
        self.add_file_arg("--side")

    def steps(self):
        return [MRStep(mapper_raw=self.act, reducer=self.add)]

    def act(self, path, uri):
        text = Path(path).read_text("utf-8", "surrogateescape")
        if text == "damaged":
            raise FormatError("the user's file", "byte 8", "is damaged")
        if text == "refuse":
            raise MrDedupError("will not")
        if text == "disk full":
            raise OSError(28, "No space left on device")
        if text == "memory":
            raise MemoryError
        if text == "bug":
            raise ZeroDivisionError("one line\nand another")
        if text.startswith("long"):
            raise FormatError("the user's file", None, text[4:] + " is why")
        if text.startswith("odd name"):
            raise FileNotFoundError(2, "No such file or directory", text[8:])
        if text.startswith("bug of"):
            raise ZeroDivisionError(text[6:])
        if text == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "slow":
            time.sleep(60)
        self.increment_counter("acts", "inputs", 1)
        side = Path(self.options.side).read_text() if self.options.side else ""
        yield text + side, 1

    def add(self, key, values):
        yield key, sum(values)


class Steps(MRJob):
    """Counts what it reads in each of two steps, under one name in both, and in two groups."""

    def steps(self):
        return [
            MRStep(mapper_raw=self.read, reducer=self.add),
            MRStep(mapper=self.hand_on, reducer=self.add),
        ]

    def read(self, path, uri):
        self.increment_counter("acts", "mapped", 5)
        yield Path(path).read_text(), 1

    def hand_on(self, key, value):
        self.increment_counter("acts", "mapped", 7)
        self.increment_counter("other acts", "mapped", 100)
        self.increment_counter("acts", "of the second step", 1)
        yield key, value

    def add(self, key, values):
        yield key, sum(values)


def inputs(folder, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"in put #{number}"
        path.write_text(text, "utf-8", "surrogateescape")
        paths.append(path)
    return paths


def act(tmp_path, runner, *texts, options=(), cores=None):
    with (
        streaming.staging_folder() as staging,
        streaming.run(
            Acts, options, inputs(tmp_path, *texts), staging, runner=runner, cores=cores
        ) as result,
    ):
        lines = sorted("".join(part.read_text() for part in result.parts).splitlines())
        return staging, lines, result.counters


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """Whatever happens, the temporary directory is empty afterwards and no process is left."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    # idle processes of tests before
    extraction._end_all()
    yield
    assert list(folder.iterdir()) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@LOCAL_AND_INLINE
@pytest.mark.parametrize("cores", [1, 3])
def test_tasks_run_and_their_counters_add_up(tmp_path, runner, cores):
    side = tmp_path / "side.txt"
    side.write_text("!")
    options = ["--side", str(side)]
    _, lines, counters = act(tmp_path, runner, "a", "b", "a", "c", options=options, cores=cores)
    assert lines == ['"a!"\t2', '"b!"\t1', '"c!"\t1']
    assert counters == {"inputs": 4}


@LOCAL_AND_INLINE
def test_counters_of_one_name_are_added_over_steps_and_groups(tmp_path, runner):
    paths = inputs(tmp_path, "a", "b", "a")
    with (
        streaming.staging_folder() as staging,
        streaming.run(Steps, [], paths, staging, runner=runner) as result,
    ):
        counters = result.counters
    # three inputs, and two words that are left of them
    assert counters == {"mapped": 3 * 5 + 2 * 7 + 2 * 100, "of the second step": 2}


@LOCAL_AND_INLINE
def test_damage_is_told_as_the_task_told_it(tmp_path, runner):
    with pytest.raises(MrDedupError) as raised:
        act(tmp_path, runner, "a", "damaged", "b")
    assert str(raised.value) == "the user's file, byte 8: is damaged"


def test_a_task_that_fails_names_its_input(tmp_path):
    with pytest.raises(MrDedupError, match=r"map task 1 on .*in put #1: will not"):
        act(tmp_path, "local", "a", "refuse")


@LOCAL_AND_INLINE
def test_a_full_disk_in_a_task_is_told(tmp_path, runner):
    with pytest.raises(
        MrDedupError,
        match=r"map task 0 on .*in put #0: a temporary file in .*: No space left on device",
    ):
        act(tmp_path, runner, "disk full", "b")


@LOCAL_AND_INLINE
def test_a_task_short_of_memory_is_told(tmp_path, runner):
    with pytest.raises(OutOfMemoryError, match=r"map task 1 on .*in put #1: out of memory$"):
        act(tmp_path, runner, "a", "memory")


def test_a_bug_in_a_task_is_no_mistake_of_the_user(tmp_path):
    expected = (
        r"map task 0 .*: ZeroDivisionError: one line\nand another \(test_local_and_inline.py:\d+\)"
    )
    with pytest.raises(RuntimeError, match=expected):
        act(tmp_path, "local", "bug")


LONG = pytest.mark.parametrize(
    "text",
    [6000 * character for character in ("a", "\N{GRINNING FACE}", "\udc80", "\1", "e\u0301")],
    ids=["ASCII", "astral", "not UTF-8", "control", "combining"],
)


@LOCAL_AND_INLINE
@LONG
def test_a_long_error_is_reported_without_its_middle(tmp_path, runner, text):
    with pytest.raises(MrDedupError) as raised:
        act(tmp_path, runner, f"long{text}")
    message = str(raised.value)
    assert len(message) <= MAX_MESSAGE
    assert message.startswith(f"the user's file: {text[:900]}")
    assert message.endswith(f"{text[-900:]} is why")


@LOCAL_AND_INLINE
@LONG
def test_a_long_name_in_an_error_of_the_system_is_reported(tmp_path, runner, text):
    with pytest.raises(
        MrDedupError, match=r"map task 0 on .*: No such file or directory$"
    ) as raised:
        act(tmp_path, runner, f"odd name{text}")
    assert len(str(raised.value)) <= MAX_MESSAGE


@LONG
def test_a_long_bug_in_a_task_is_reported(tmp_path, text):
    expected = r"map task 0 on .*: ZeroDivisionError: .* … .* \(test_local_and_inline.py:\d+\)$"
    with pytest.raises(RuntimeError, match=re.compile(expected, re.S)):
        act(tmp_path, "local", f"bug of{text}")


def test_a_task_killed_by_the_system_is_told_with_its_input(tmp_path):
    expected = r"map task 2 on .*in put #2: killed by the system \(SIGKILL\); out of memory\?"
    with pytest.raises(MrDedupError, match=expected):
        act(tmp_path, "local", "a", "b", "killed", "slow", cores=2)


@pytest.fixture
def interrupted_soon():
    """Interrupt this thread in half a second, by a signal that is blocked around forks."""
    main = threading.main_thread().ident
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    yield
    timer.cancel()


def test_an_interrupt_ends_the_running_tasks(tmp_path, interrupted_soon):
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        act(tmp_path, "local", "slow", "slow", "slow", cores=2)
    # a task sleeps for a minute: only an ended one lets us go on before that
    assert time.monotonic() - started < 30


def test_an_unknown_runner_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"inline, local, hadoop.*, not 'cluster'"):
        act(tmp_path, "cluster", "a")


@LOCAL_AND_INLINE
def test_an_input_is_called_what_its_user_calls_it(tmp_path, runner):
    [path] = inputs(tmp_path, "disk full")
    given = streaming.Input(str(path), "the crawl of May")
    with (
        pytest.raises(MrDedupError, match=r"^map task 0 on the crawl of May: .*: No space left"),
        streaming.staging_folder() as staging,
        streaming.run(Acts, [], [given], staging, runner=runner),
    ):
        pass


def test_tasks_end_with_a_parent_that_is_killed(tmp_path):
    """A parent that SIGKILL ends can end nothing itself."""
    [path] = inputs(tmp_path, "slow")
    pid = os.fork()
    if pid == 0:
        with streaming.staging_folder() as staging, streaming.run(Acts, [], [path], staging):
            os._exit(0)
    children = Path(f"/proc/{pid}/task/{pid}/children")
    task = until(lambda: children.read_text().split())[0]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: not Path(f"/proc/{task}").exists())
    shutil.rmtree(next(Path(tempfile.gettempdir()).iterdir()))


def until(condition, seconds=20):
    """Wait until ``condition`` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not in {seconds} s")


def test_a_task_that_cannot_be_started_is_not_blamed_on_the_temporary_folder(tmp_path, monkeypatch):
    def refuse():
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(MrDedupError, match=r"^Resource temporarily unavailable"):
        act(tmp_path, "local", "a", "b")
