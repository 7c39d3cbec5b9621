"""The end of a process that is interrupted while its main thread cannot listen."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

HASHING = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"
"""C code that runs for minutes, without Python's lock, and listens to no signal."""


SOON = """
import sys, threading
def soon():
    # when the main thread is where it is to be
    threading.Timer(0.3, print, ["now"], {"flush": True}).start()
"""


def started(code, *arguments):
    """Start Python code that says when it is to be interrupted."""
    words = [sys.executable, "-c", SOON + textwrap.dedent(code), *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    return process


def ended(process, number):
    """Send a signal; return the exit code, and what was said. Ends within its limit, or fails."""
    os.kill(process.pid, number)
    try:
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, said.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("where", ["the main thread", "a thread that is waited for"])
def test_a_process_ends_while_a_kernel_runs(tmp_path, number, where):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "x").write_text("x")
    file.write_text("x")
    code = f"""
        import hashlib, pathlib, signal, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from mr_dedup import interrupts
        from mr_dedup.cli.main import _interrupt
        for each in interrupts.INTERRUPTS:
            signal.signal(each, _interrupt)
        folder, file = map(pathlib.Path, sys.argv[1:3])
        work = lambda: {HASHING}
        with (
            interrupts.Watcher(130),
            interrupts.at_forced_end(lambda: print("outer", file=sys.stderr)),
            interrupts.removed_at_forced_end(folder),
            interrupts.at_forced_end(lambda: 1 / 0),
            interrupts.removed_at_forced_end(file),
            interrupts.at_forced_end(lambda: print("inner", file=sys.stderr)),
        ):
            with interrupts.at_forced_end(lambda: print("left", file=sys.stderr)):
                pass
            soon()
            if {where == "the main thread"}:
                work()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(work).result()
        """
    assert ended(started(code, folder, file), number) == (130, "inner\nouter\n")
    assert not folder.exists()
    assert not file.exists()


def test_what_ends_in_order_is_not_ended_by_force():
    code = """
        import sys, time
        from mr_dedup import interrupts
        from mr_dedup.cli import main
        def run(argv, is_own_process):
            soon()
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                time.sleep(0.3)
                interrupts.claim_end()
                print("removed", file=sys.stderr)
                return 130
        main._complete = run
        main.command()
        """
    assert ended(started(code), signal.SIGTERM) == (130, "removed\n")


def test_what_must_end_in_order_has_its_time():
    code = """
        import signal, sys, time
        from mr_dedup import interrupts
        signal.signal(signal.SIGTERM, lambda *_: print("heard", file=sys.stderr))
        interrupts.GRACE_SECONDS = interrupts.CLEANUP_SECONDS = 0.01
        with interrupts.Watcher(130):
            with interrupts.no_forced_end():
                soon()
                time.sleep(1)
                print("ended", file=sys.stderr)
            time.sleep(600)
        """
    process = started(code)
    assert ended(process, signal.SIGTERM) == (130, "heard\nended\n")


def test_what_follows_on_what_must_end_in_order_has_its_time_too():
    code = """
        import signal, sys, time
        from mr_dedup import interrupts
        signal.signal(signal.SIGTERM, lambda *_: None)
        interrupts.GRACE_SECONDS, interrupts.CLEANUP_SECONDS = 1.0, 0.001
        with interrupts.Watcher(130):
            with interrupts.no_forced_end():
                soon()
                time.sleep(2)
            # the time that began with the signal is over, and the thread looks all the time
            time.sleep(0.1)
            print("closed", file=sys.stderr)
        """
    assert ended(started(code), signal.SIGTERM) == (0, "closed\n")


def test_a_signal_that_comes_while_nobody_watches_counts():
    code = f"""
        import hashlib, os, signal, sys
        from mr_dedup import interrupts
        signal.signal(signal.SIGTERM, lambda *_: None)
        with interrupts.Watcher(130):
            with interrupts.unwatched():
                os.kill(os.getpid(), signal.SIGTERM)
            print("now", flush=True)
            {HASHING}
        """
    process = started(code)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, b"")


def test_a_cleanup_that_does_not_end_is_not_waited_for():
    code = f"""
        import hashlib, signal, time
        from mr_dedup import interrupts
        signal.signal(signal.SIGTERM, lambda *_: None)
        with interrupts.Watcher(130), interrupts.at_forced_end(lambda: time.sleep(600)):
            soon()
            {HASHING}
        """
    process = started(code)
    before = time.monotonic()
    assert ended(process, signal.SIGTERM)[0] == 130
    assert time.monotonic() - before < 30
