"""Run jobs as mrjob's users do, without a command of ours."""

import contextlib
import logging
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from mr_dedup import jobs
from mr_dedup.engines.streaming.table_job import UNFINISHED_CODE


class Ended(NamedTuple):
    """How a job ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def logging_as_it_was(name):
    """Take back what is done to a logger meanwhile: handlers that write to captured streams."""
    logger = logging.getLogger(name)
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def run_alone(tmp_path, monkeypatch, capfd):
    """Return a function that runs a job in this process, as ``python -m mr_dedup.jobs.NAME`` does.

    With ``-r local`` tasks are processes of their own. A run that ends well must leave no temporary
    files.
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def run(name, *arguments, folder=tmp_path, stdin=None):
        script = str(Path(jobs.__file__).with_name(f"{name}.py"))
        capfd.readouterr()
        with monkeypatch.context() as patch, logging_as_it_was("mrjob"):
            patch.chdir(folder)
            patch.setattr(sys, "argv", [script, "--no-conf", *map(str, arguments)])
            if stdin is not None:
                patch.setattr(sys, "stdin", stdin)
            code = 0
            try:
                runpy.run_path(script, run_name="__main__")
            except SystemExit as ended:
                code = ended.code or 0
        captured = capfd.readouterr()
        named = re.search(r"Creating temp directory (.*)", captured.err)
        if named:
            # mrjob spells that path out, whatever TMPDIR says
            assert not Path(f"/tmp/wrapper.lock.{Path(named[1]).name}").exists()
        if code in (0, UNFINISHED_CODE):
            assert list(temporary.iterdir()) == []
        return Ended(code, captured.out, captured.err)

    return run
