"""Why a job failed on a cluster, in one line, by reports of its tasks and messages of Hadoop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.hdfs import plain_reason
from mr_dedup.engines.streaming.task_script import ENVIRONMENT
from mr_dedup.errors import shortened

_REPORT = re.compile(r"^failed: (?P<attempt>\S*) (?P<code>\d+) (?P<node>\S*)\n(?P<input>.*)$", re.M)

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.S)
_FRAME = re.compile(r'  File "(?P<path>[^"]*)", line (?P<line>\d+)')

_ATTEMPT = re.compile(r"attempt_\d+_\d+_(?P<kind>[mr])_(?P<number>\d+)_\d+")
_TASK = re.compile(r"task_\d+_\d+_(?P<kind>[mr])_(?P<number>\d+)")

# what precedes the message of a Java exception
_EXCEPTION = re.compile(r"^(?:Error: )?(?:[\w$]+\.)+[\w$]+(?:Exception|Error)(?:\([\w.$]*\))?: ")

# YARN's words for a container that was given less memory than it took
_OUTGROWN = re.compile(
    r"running .*?beyond the '?\w+'? memory limit.*?Current usage: (.*? of physical memory|"
    r".*? physical memory) used",
    re.S | re.I,
)

_OUR_ERRORS = "mr_dedup.errors."

_NODES_NEED = (
    f"install mr-dedup there, name a Python that has it by --python-bin, or send one by --archive, "
    f"which is unpacked as {ENVIRONMENT}"
)

# what is wrong with a node or with its resources, not with our code
_OUTAGES = ("ImportError", "OSError", "PermissionError", "FileNotFoundError", "SyntaxError")


@dataclass(frozen=True)
class Failure:
    """A task that failed: its attempt, exit code, node, input if it had one, and its last words."""

    attempt: str
    code: int
    node: str
    input: str
    said: str


@dataclass(frozen=True)
class Explanation:
    """One line on why a job failed, and whether it is a bug of ours."""

    message: str
    is_bug: bool = False


def read_failures(reports: str) -> list[Failure]:
    """Return the failures in the reports of task_script, one after the other."""
    starts = list(_REPORT.finditer(reports))
    ends = [*(match.start() for match in starts), len(reports)][1:]
    return [
        Failure(
            match["attempt"],
            int(match["code"]),
            match["node"],
            match["input"],
            re.sub("^ ", "", reports[match.end() : end].strip("\n"), flags=re.M),
        )
        for match, end in zip(starts, ends, strict=True)
    ]


def explain(log: ClientLog, failures: Sequence[Failure]) -> Explanation:
    """Return why the job failed: the report of the failed task, else the message of Hadoop."""
    task = _TASK.search(log.job_failure or "")
    if task is None:
        said = next((text for text in (log.job_failure, *log.errors) if text), None)
        if said is not None:
            return Explanation(_shortened(f"the job failed: {_of_hadoop(said)}"))
        return Explanation("the job failed, and Hadoop gave no reason; see its logs")
    reports = [failure for failure in failures if _is_of(failure.attempt, task)]
    if reports:
        return _of_task(max(reports, key=lambda failure: failure.attempt))
    reasons = [said for attempt, said in log.failed_attempts if _is_of(attempt, task)]
    name = _task_name(task["kind"], task["number"])
    if reasons:
        return Explanation(_shortened(f"{name}: {_of_hadoop(reasons[-1])}"))
    return Explanation(_shortened(f"{name} failed; why is in its log on the cluster only"))


def _is_of(attempt: str, task: re.Match[str]) -> bool:
    match = _ATTEMPT.match(attempt)
    return match is not None and match.groups() == task.groups()


def _of_task(failure: Failure) -> Explanation:
    attempt = _ATTEMPT.match(failure.attempt)
    name = _task_name(*attempt.groups()) if attempt else "a task"
    name += f" on {failure.input}" if failure.input else ""
    said = failure.said
    if _TRACEBACK not in said:
        return Explanation(_shortened(f"{name}: {_without_traceback(failure)}"))
    kind, message, location = _last_raised(said)
    if kind.startswith(_OUR_ERRORS):
        named = kind == f"{_OUR_ERRORS}FormatError"
        return Explanation(_shortened(message if named else f"{name}: {message}"))
    if kind in ("ModuleNotFoundError", "ImportError"):
        return Explanation(
            _shortened(f"{name}: the Python of the node {failure.node}: {message}; {_NODES_NEED}")
        )
    if kind == "MemoryError":
        return Explanation(f"{name}: out of memory; try a larger --task-memory")
    outage = kind in _OUTAGES
    where = f" on {failure.node}" if outage and failure.node else ""
    return Explanation(_shortened(f"{name}{where}: {kind}: {message} ({location})"), not outage)


def _without_traceback(failure: Failure) -> str:
    lines = [line for line in failure.said.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else f"exit code {failure.code}"
    where = f"on the node {failure.node}: " if failure.node else ""
    if failure.code == 127:  # the shell's: command not found
        return f"{where}{last}; {_NODES_NEED}"
    if failure.code > 128:
        return f"{where}ended by signal {failure.code - 128}; out of memory? try --task-memory"
    return f"{where}{plain_reason(last)}"


def _last_raised(said: str) -> tuple[str, str, str]:
    """Return type, message and location of the last exception."""
    lines = said[said.rindex(_TRACEBACK) :].splitlines()[1:]
    frames = [match for line in lines if (match := _FRAME.match(line))]
    start = next((n for n, line in enumerate(lines) if not line.startswith(" ")), len(lines))
    raised = _RAISED.fullmatch(" ".join(line.strip() for line in lines[start:]))
    location = f"{frames[-1]['path'].rpartition('/')[2]}:{frames[-1]['line']}" if frames else ""
    if raised is None:
        return "error", " ".join(lines[start:]), location
    return raised["type"], raised["message"] or "", location


def _of_hadoop(said: str) -> str:
    """Return the reason in a Java error or diagnosis."""
    outgrown = _OUTGROWN.search(said)
    if outgrown:
        return f"used {outgrown[1]} and was killed for it; try a larger --task-memory"
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "..."))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    telling = causes[-1] if causes else " ".join(lines[:3])
    return plain_reason(_EXCEPTION.sub("", telling))


def _task_name(kind: str, number: str) -> str:
    return f"{'map' if kind == 'm' else 'reduce'} task {int(number)}"


def _shortened(message: str) -> str:
    return shortened(" ".join(message.split()))
