"""Run tools on a corpus, in interleaved rounds, and report cost and quality of each."""

from __future__ import annotations

import datetime
import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.field.environments import version_of
from bench.field.inputs import converted
from bench.field.outcomes import check
from bench.field.quality import THRESHOLDS, Outcome, Quality, Truth, content_sha256
from bench.field.quality import measure as measure_quality
from bench.field.running import (
    DONE,
    FAILED,
    OVER_MEMORY,
    OVER_TIME,
    Command,
    Limits,
    Run,
    run,
)
from bench.field.spark_events import EVENTS, shuffled_bytes
from bench.field.tools import Task, Tool
from bench.machine import hardware

ABSENT, NOT_RUN = "not installed", "not run"


class Corpus(NamedTuple):
    """The documents that tools de-duplicate.

    Attributes:
        folder: of Parquet files, with id and text.
        documents: how many there are.
        text_bytes: of all texts.
        content_sha256: of their ids and texts, if it is known.
        truth: what is similar in it, if it is known.
    """

    folder: Path
    documents: int
    text_bytes: int
    content_sha256: str
    truth: Truth | None

    @classmethod
    def read(cls, folder: Path, truth: Path | None = None) -> Corpus:
        """Return the corpus in a directory.

        Raises:
            ValueError: the directory contains no Parquet files, or the truth is of another corpus.
        """
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise ValueError(f"{folder}: contains no Parquet files")
        documents = size = 0
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(8192, columns=["text"]):
                documents += batch.num_rows
                size += pc.sum(pc.binary_length(batch["text"])).as_py() or 0
        sha256 = content_sha256(folder)
        found = Truth.read(truth) if truth else None
        if found and sha256 and found.content_sha256 != sha256:
            raise ValueError(f"{truth}: the truth of another corpus than {folder}; make it again")
        return cls(folder, documents, size, sha256, found)


class Setting(NamedTuple):
    """How tools are run.

    Attributes:
        limits: of one run.
        rounds: how often each tool is run.
        environments: the directory with the environments of tools.
        work: a directory for their outputs, which are removed.
        not_run: by the name of a tool that is not run, the reason.
    """

    limits: Limits
    rounds: int
    environments: Path
    work: Path
    not_run: Mapping[str, str] = {}


@dataclass
class Measured:
    """What was measured of one tool.

    Attributes:
        tool: its name.
        version: of its package, or the commit that was built.
        settings: what it compares and how.
        reads: the form of the corpus that it read.
        own_lines: lines of code that its user writes.
        state: of the last run: ``done``, ``failed``, ``over time``, ``over memory``,
            ``not installed`` or ``not run``.
        said: unless it was done, what it printed last; why it was not run.
        progress: how far a run came that was ended at a limit.
        date: the day of the last run, as ISO 8601.
        machine: the machine of the last run.
        limit_seconds: the wall time that it might take.
        rounds: what each run took.
        kept: how many documents it kept; None if it was not done.
        dropped: all others.
        quality: at each threshold, if there is a truth.
    """

    tool: str
    version: str
    settings: str
    reads: str
    own_lines: int
    state: str = ABSENT
    said: str = ""
    progress: str = ""
    date: str = ""
    machine: str = ""
    limit_seconds: float | None = None
    rounds: list[dict[str, float]] = field(default_factory=list)
    kept: int | None = None
    dropped: int | None = None
    quality: list[Quality] = field(default_factory=list)

    def median(self, name: str) -> float | None:
        """Return the median of ``seconds``, ``cpu_seconds`` or another figure over the rounds.

        Of a tool that was not done in each round it is the figure of its last run; None if nothing
        was measured.
        """
        rounds = self.rounds if self.state == DONE else self.rounds[-1:]
        values = [each[name] for each in rounds if name in each]
        return statistics.median(values) if values else None


def measure(tools: Sequence[Tool], corpus: Corpus, setting: Setting) -> Iterator[Measured]:
    """Run tools in interleaved rounds; yield one after each run, with all its runs so far.

    Tools that are not installed, or not run, are yielded first. One that did not end well is not
    run again.
    """
    found = [_not_yet_run(tool, setting) for tool in tools]
    waiting = [measured.version and measured.state != NOT_RUN for measured in found]
    yield from (measured for measured, waits in zip(found, waiting, strict=True) if not waits)
    for _ in range(setting.rounds):
        for number, (tool, measured) in enumerate(zip(tools, found, strict=True)):
            if waiting[number]:
                _run_once(tool, measured, corpus, setting)
                waiting[number] = measured.state == DONE
                yield measured


def _not_yet_run(tool: Tool, setting: Setting) -> Measured:
    version = version_of(tool.environment, setting.environments)
    measured = Measured(tool.name, version, tool.settings, tool.reads, tool.own_lines)
    if tool.name in setting.not_run:
        measured.state, measured.said = NOT_RUN, setting.not_run[tool.name]
    return measured


def _run_once(tool: Tool, measured: Measured, corpus: Corpus, setting: Setting) -> None:
    """Run a tool, and add what it took and what it kept."""
    out = setting.work / tool.name.replace(" ", "-")
    shutil.rmtree(out, ignore_errors=True)
    (out / EVENTS).mkdir(parents=True)
    documents = converted(corpus.folder, tool.reads, setting.work / "inputs")
    environment = setting.environments / tool.environment if tool.environment else Path(sys.prefix)
    task = Task(documents, corpus.documents, out, environment)
    taken = run(Command(tool.command(task), out, _variables(tool, task)), setting.limits)
    taken = taken._replace(said=_without_paths(taken.said, task))
    _add_cost(measured, taken, shuffled_bytes(out / EVENTS))
    measured.date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    measured.machine, measured.limit_seconds = hardware(), setting.limits.seconds
    try:
        if taken.state == DONE:
            _add_outcome(measured, tool.outcome(task), corpus)
        elif taken.state in (OVER_TIME, OVER_MEMORY):
            measured.progress = tool.progress(task, taken.said)
    except (OSError, ValueError, pa.ArrowException) as error:
        # it ended without an error, and left nothing that can be read
        measured.state, measured.said = FAILED, f"{error}\n{taken.said}"
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _without_paths(said: str, task: Task) -> str:
    """Return what a tool printed, without the paths of this machine.

    >>> task = Task(Path("/a/in"), 1, Path("/a/out"), Path("/home/me/tools/one"))
    >>> _without_paths("/home/me/tools/one/lib/b.py:7: /a/out/kept", task)
    'ENVIRONMENT/lib/b.py:7: OUT/kept'
    """
    named = {task.environment: "ENVIRONMENT", task.corpus: "CORPUS", task.out: "OUT"}
    for path, name in named.items():
        said = said.replace(str(path), name)
    return said


def _variables(tool: Tool, task: Task) -> Mapping[str, str]:
    """Return variables that activate an environment and keep files of a tool in its directory."""
    temporary = task.out / "tmp"
    temporary.mkdir()
    folders = {"TMPDIR": temporary, "HF_HOME": task.out / "hf", "SPARK_LOCAL_DIRS": temporary}
    path = os.pathsep.join([str(task.environment / "bin"), os.environ["PATH"]])
    return {"PATH": path, **{name: str(each) for name, each in folders.items()}, **tool.variables}


def _add_cost(measured: Measured, taken: Run, shuffled: int | None) -> None:
    measured.state = taken.state
    measured.said = "" if taken.state == DONE else taken.said
    figures = {n: v for n, v in taken._asdict().items() if n not in ("state", "said")}
    if shuffled is not None:
        figures["shuffled_bytes"] = shuffled
    measured.rounds.append(figures)


def _add_outcome(measured: Measured, outcome: Outcome, corpus: Corpus) -> None:
    documents = check(outcome, corpus.folder)
    measured.kept, measured.dropped = len(outcome.kept), documents - len(outcome.kept)
    if corpus.truth:
        measured.quality = [measure_quality(corpus.truth, outcome, J) for J in THRESHOLDS]


def as_json(measured: Measured) -> dict[str, object]:
    """Return a JSON object that ``of_json`` reads."""
    return asdict(measured)


def of_json(stored: Mapping[str, object]) -> Measured:
    """Return what ``as_json`` returned an object of."""
    return msgspec.convert(stored, Measured)
