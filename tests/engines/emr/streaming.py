"""Hadoop streaming as far as our jobs use it: tasks as processes, a sort between them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import text_input
from tests.engines.emr.nodes import Nodes

_N_LINES = "org.apache.hadoop.mapred.lib.NLineInputFormat"
_TEXT = "org.apache.hadoop.mapred.TextInputFormat"

_BLOCK_BYTES = 64 << 20

_TASKS_AT_A_TIME = 2


class StepError(Exception):
    """The step failed; what it says is in its log."""


@dataclass
class Arguments:
    """The arguments of ``hadoop-streaming``."""

    inputs: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Sequence[str]) -> Arguments:
        """Return what an argument list says; raises StepError for one that is not known."""
        arguments = cls()
        for name, value in zip(words[::2], words[1::2], strict=True):
            if name == "-D":
                key, _, text = value.partition("=")
                arguments.properties[key] = text
            elif name == "-cmdenv":
                key, _, text = value.partition("=")
                arguments.environment[key] = text
            elif name == "-input":
                arguments.inputs.append(value)
            elif name in ("-files", "-archives"):
                getattr(arguments, name[1:]).extend(value.split(","))
            elif name in ("-inputformat", "-output", "-mapper", "-reducer"):
                arguments.others[name[1:]] = value
            else:
                raise StepError(f"Unrecognized option: {name}")
        return arguments

    @property
    def reducers(self) -> int:
        """How many reduce tasks there are."""
        return int(self.properties.get("mapreduce.job.reduces", 1))

    def attempts(self, kind: str) -> int:
        """How often a task is tried."""
        name = {"m": "map", "r": "reduce"}[kind]
        return int(self.properties.get(f"mapreduce.{name}.maxattempts", 4))


class Job:
    """One run of hadoop-streaming on nodes, its files in a folder of its own."""

    def __init__(
        self, number: int, arguments: Arguments, nodes: Nodes, files: Any, folder: Path, logs: Path
    ) -> None:
        self.id = f"{int(time.time())}000_{number:04}"
        self._arguments = arguments
        self._nodes = nodes
        self._files = files
        self._folder = folder
        self._logs = logs / "containers" / f"application_{self.id}"
        self._counters: dict[tuple[str, str], int] = {}
        self._containers = iter(range(2, 1 << 30))
        self._said: list[str] = []
        self.failed = False

    @property
    def syslog(self) -> str:
        """What the client said."""
        return "".join(f"{line}\n" for line in self._said)

    def run(self) -> None:
        """Run the job; raises StepError."""
        # as the paths of Hadoop
        output = self._arguments.others["output"].rstrip("/")
        try:
            if self._files.exists(output):
                raise StepError(f"Output directory {output} already exists")
            self._say("YarnClientImpl", f"Submitted application application_{self.id}")
            self._say("mapreduce.Job", f"Running job: job_{self.id}")
            self._localise()
            splits = list(self._splits())
            maps = self._phase("m", self._arguments.others["mapper"], splits)
            parts = maps
            if self._arguments.reducers:
                reduces = [(given, {}) for given in self._sorted(maps)]
                parts = self._phase("r", self._arguments.others["reducer"], reduces)
            for number, part in enumerate(parts):
                self._files.put(_as_text_output(part), f"{output}/part-{number:05}")
            self._files.put(b"", f"{output}/_SUCCESS")
        except StepError as error:
            self._say("streaming.StreamJob", f"Error Launching job : {error}", "ERROR")
            raise
        finally:
            self._say_counters()

    def _localise(self) -> None:
        """Fetch files and archives, under the names that tasks see them by."""
        for kind in ("files", "archives"):
            (self._folder / kind).mkdir(parents=True)
            for item in getattr(self._arguments, kind):
                uri, _, name = item.partition("#")
                path = self._folder / kind / name
                if kind == "files":
                    path.write_bytes(self._files.get(uri))
                    path.chmod(0o755)
                    continue
                packed = self._folder / uri.rpartition("/")[2]
                packed.write_bytes(self._files.get(uri))
                if packed.suffix == ".zip":
                    with zipfile.ZipFile(packed) as archive:
                        archive.extractall(path)
                else:
                    # by tar, as YARN does: not every release of 3.10 and 3.11 has a filter
                    path.mkdir()
                    subprocess.run(["tar", "-xf", packed, "-C", path], check=True)

    def _splits(self) -> Iterator[tuple[bytes, dict[str, str]]]:
        """Yield what each map task is given, and what more its environment has."""
        for named in self._arguments.inputs:
            if not self._files.exists(named):
                raise StepError(f"Input path does not exist: {named}")
        uris = [uri for named in self._arguments.inputs for uri in self._files.inputs(named)]
        contents = [self._files.get(uri) for uri in uris]
        wanted = self._arguments.others.get("inputformat")
        if wanted == _TEXT:
            yield from self._text_splits(uris, contents)
        elif wanted == _N_LINES:
            for content in contents:
                offset = 0
                for line in content.splitlines(keepends=True):
                    yield b"%d\t%s" % (offset, line), {}
                    offset += len(line)
        else:
            yield from ((content, {}) for content in contents)

    def _text_splits(
        self, uris: Sequence[str], contents: Sequence[bytes]
    ) -> Iterator[tuple[bytes, dict[str, str]]]:
        properties = self._arguments.properties
        assert properties["stream.map.input.ignoreKey"] == "false"
        assert properties["textinputformat.record.delimiter"] == "\n"
        least = int(properties["mapreduce.input.fileinputformat.split.minsize"])
        longest = int(properties["mapreduce.input.linerecordreader.line.maxlength"])
        maps = int(properties["mapreduce.job.maps"])
        files = text_input.splits([len(content) for content in contents], maps, least, _BLOCK_BYTES)
        for uri, content, parts in zip(uris, contents, files, strict=True):
            for start, length in parts:
                lines = text_input.lines(content, start, length, longest)
                yield (
                    b"".join(b"%d\t%s\n" % line for line in lines),
                    {
                        "mapreduce_map_input_file": uri,
                        "mapreduce_map_input_start": str(start),
                        "mapreduce_map_input_length": str(length),
                    },
                )

    def _sorted(self, maps: Sequence[Path]) -> Iterator[bytes]:
        """Yield the input of each reducer; of equal keys, the last task's come first."""
        shares: list[list[tuple[bytes, bytes]]] = [[] for _ in range(self._arguments.reducers)]
        for part in reversed(maps):
            for line in part.read_bytes().splitlines():
                key = line.partition(b"\t")[0]
                shares[_hash(key) % len(shares)].append((key, line))
        for share in shares:
            share.sort(key=lambda item: item[0])
            yield b"".join(line + b"\n" for _, line in share)

    def _phase(
        self, kind: str, command: str, inputs: Sequence[tuple[bytes, dict[str, str]]]
    ) -> list[Path]:
        with ThreadPoolExecutor(_TASKS_AT_A_TIME) as pool:
            tasks = [
                pool.submit(self._task, kind, number, command, given, properties)
                for number, (given, properties) in enumerate(inputs)
            ]
            return [task.result() for task in tasks]

    def _task(
        self, kind: str, number: int, command: str, given: bytes, properties: dict[str, str]
    ) -> Path:
        for attempt in range(self._arguments.attempts(kind)):
            if self.failed:
                raise StepError("a task failed before")
            name = f"attempt_{self.id}_{kind}_{number:06}_{attempt}"
            done = self._attempt(name, command, given, properties)
            if done is not None:
                return done
        self.failed = True
        task = f"task_{self.id}_{kind}_{number:06}"
        self._say(
            "mapreduce.Job",
            f"Job job_{self.id} failed with state FAILED due to: Task failed {task}\n"
            "Job failed as tasks failed. failedMaps:1 failedReduces:0\n",
        )
        raise StepError("Job not successful!")

    def _attempt(
        self, name: str, command: str, given: bytes, properties: dict[str, str]
    ) -> Path | None:
        container = f"container_{self.id}_01_{next(self._containers):06}"
        folder, logs = self._folder / container, self._logs / container
        folder.mkdir()
        logs.mkdir(parents=True)
        for kind in ("files", "archives"):
            for path in (self._folder / kind).iterdir():
                (folder / path.name).symlink_to(path)
        out, errors = self._folder / f"{name}.out", logs / "stderr"
        (self._folder / f"{name}.in").write_bytes(given)
        with (self._folder / f"{name}.in").open("rb") as stdin:
            ended = self._nodes.run(
                shlex.split(command),
                folder,
                environment={**self._task_environment(name), **properties},
                stdin=stdin,
                stdout=out,
                stderr=errors,
            )
        shutil.rmtree(folder)
        log = [f"INFO [main] org.apache.hadoop.mapred.Task: Task:{name} starts"]
        if ended.code == 0:
            for key, amount in ended.counters.items():
                self._counters[key] = self._counters.get(key, 0) + amount
        else:
            trouble = _trouble(ended.code)
            log.append(
                "WARN [main] org.apache.hadoop.mapred.YarnChild: Exception running child : "
                f"{trouble}"
            )
            with errors.open("a") as stderr:
                stderr.write(f"{trouble}\n")
            self._say("mapreduce.Job", f"Task Id : {name}, Status : FAILED\nError: {trouble}")
        (logs / "syslog").write_text("".join(f"{_now()} {line}\n" for line in log))
        return out if ended.code == 0 else None

    def _task_environment(self, name: str) -> dict[str, str]:
        properties = {**self._arguments.properties, "mapreduce.task.attempt.id": name}
        return {
            **{key.replace(".", "_"): value for key, value in properties.items()},
            **self._arguments.environment,
            "NM_HOST": "ip-10-0-0-1.ec2.internal",
        }

    def _say(self, logger: str, message: str, level: str = "INFO") -> None:
        self._said.append(f"{_now()} {level} org.apache.hadoop.{logger} (main): {message}")

    def _say_counters(self) -> None:
        groups: dict[str, list[str]] = {"Map-Reduce Framework": ["\t\tCPU time spent (ms)=17"]}
        for (group, name), amount in self._counters.items():
            groups.setdefault(group, []).append(f"\t\t{name}={amount}")
        lines = [line for group, shown in groups.items() for line in (f"\t{group}", *shown)]
        self._say("mapreduce.Job", "\n".join([f"Counters: {len(self._counters) + 1}", *lines]))


def _trouble(code: int) -> str:
    said = f"PipeMapRed.waitOutputThreads(): subprocess failed with code {code}"
    return (
        f"java.lang.RuntimeException: {said}\n"
        "\tat org.apache.hadoop.streaming.PipeMapRed.waitOutputThreads(PipeMapRed.java:326)\n"
        "\tat org.apache.hadoop.mapred.YarnChild.main(YarnChild.java:174)"
    )


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S,000")


def _hash(key: bytes) -> int:
    """Return Hadoop's hash of a Text, without its sign, by which keys are partitioned."""
    value = 1
    for byte in key:
        value = (31 * value + (byte if byte < 128 else byte - 256)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def _as_text_output(part: Path) -> bytes:
    """Return lines as TextOutputFormat writes them: one without a tab gains one."""
    lines = part.read_bytes().splitlines()
    return b"".join(line + (b"\n" if b"\t" in line else b"\t\n") for line in lines)
