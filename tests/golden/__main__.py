"""``python -m tests.golden``: what every command writes, to compare versions and engines.

    python -m tests.golden run FOLDER [--engine NAME] [--program COMMAND] [--as NAME] [--only CASE]…
    python -m tests.golden compare FOLDER/NAME FOLDER/OTHER

``run`` makes inputs in FOLDER/inputs, the same for every version, and runs each case: in
FOLDER/NAME/CASE are its result, what it printed, and its exit code; NAME is the engine if none is
given. So run it with the commands of two versions (``--program`` of another checkout's
environment), or with two engines, and ``compare`` prints which cases differ and where; it exits
with 1 if any do. All write to FOLDER/results, so that names of files are the same.

Tables are compared as tables, whatever files they are divided into; documents and rejects byte for
byte, unpacked; reports and summaries but for what ``VARIES`` and ``NOT_OF_SUMMARY`` name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.result_tables import unpacked
from tests.golden.inputs import make_inputs
from tests.storage import servers
from tests.storage.stores import AUTHORIZED, environment, request, settings_of_s3

ENGINES: dict[str, list[str]] = {
    "memory": [],
    "spilling": ["-r", "memory", "--memory", "64MB"],
    "inline": ["-r", "inline"],
    "local": ["-r", "local"],
    "spark": ["-r", "spark", "--master", "local[2]"],
    "hadoop": ["-r", "hadoop", "--python-bin", sys.executable],
}

VARIES = {
    "report.html": r"[0-9.,]+ (ms|s|min|MB|GB|KB)\b|mr-dedup [0-9.a-z+]+|2[0-9-]{9}[T ][0-9:+]+",
    "said": r"\b[0-9.,]+ (ms|s|min|us|ns|MB|GB|KB)\b",
}
"""Parts of texts that differ from run to run."""

NOT_COMPARED = re.compile(
    r"\.(index|store)(/|$)|/cost.*\.svg$|/results\.csv$|/\.files\.json$|^compare\.said$"
)
"""Stores, of which the printed answers are compared; times, and checksums of these."""


NOT_OF_SUMMARY = re.compile(r"^version$|_checksum$")


@dataclass(frozen=True)
class Case:
    """Commands, one after the other, each but the last a preparation.

    ``{in}`` are the inputs, ``{out}`` is where the result goes, ``{of:CASE}`` the result of an
    earlier case. ``*`` is where the arguments of the engine go, in commands that have engines.
    """

    name: str
    commands: tuple[str, ...]
    kills: bool
    fails: bool


def read_cases() -> list[Case]:
    """Return the cases of cases.txt, a line each: a name and commands.

    A name ends with ! if a first run is killed, with ? if the command fails.
    """
    found = []
    for line in Path(__file__).with_name("cases.txt").read_text().splitlines():
        name, _, commands = line.partition(": ")
        marks = name[len(name.rstrip("!?")) :]
        found.append(
            Case(name.rstrip("!?"), tuple(commands.split(" && ")), "!" in marks, "?" in marks)
        )
    return found


CASES = read_cases()


def contents(path: Path) -> dict[str, Any]:
    """Return what a result consists of, by name; what varies between runs is left out.

    The tables and records of a folder are put together, whatever files they are in.
    """
    found: dict[str, Any] = {}
    if NOT_COMPARED.search(path.name):
        return found
    if path.is_file():
        return {"": _content(path)}
    for folder in sorted({path, *(each for each in path.rglob("*") if each.is_dir())}):
        name = str(folder.relative_to(path))
        parts = sorted(folder.glob("part-*.parquet"))
        if parts:
            found[name] = _rows(pa.concat_tables(map(pq.read_table, parts)))
        for file in sorted(folder.iterdir()):
            key = re.sub(r"(-\d{5})+(?=\.)", "", str(file.relative_to(path)))
            if file.is_dir() or file in parts or NOT_COMPARED.search(f"/{key}"):
                continue
            content = _content(file)
            if isinstance(content, bytes) and key in found:
                content = found[key] + content
            elif file.suffix == ".parquet" and key in found:
                content = {name: found[key][name] + values for name, values in content.items()}
            found[key] = content
    return found


def _rows(table: pa.Table) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = table.to_pydict()
    if "file" in rows:
        rows["file"] = [re.sub(r"(-\d{5})+(?=\.)", "", name) for name in rows["file"]]
    return rows


def _content(file: Path) -> Any:
    if file.suffix == ".parquet":
        return _rows(pq.read_table(file))
    content = unpacked(file)
    if file.suffix == ".json":
        read: dict[str, Any] = json.loads(content)
        # of the package, and of files: parts follow the division into chunks
        return {name: each for name, each in read.items() if not NOT_OF_SUMMARY.search(name)}
    if file.name == "report.html":
        return re.sub(VARIES["report.html"].encode(), b"", content)
    return content


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Yield where two values differ, a line each."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other:
                yield f"{at}/{key}: only in the {'second' if key not in one else 'first'}"
            else:
                yield from differences(one[key], other[key], f"{at}/{key}")
    elif one != other:
        place = ""
        if isinstance(one, list | bytes) and isinstance(other, list | bytes):
            index = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
            place = f" of {len(one)} and {len(other)} at {index}"
            width = 60 if isinstance(one, bytes) else 1
            one, other = one[index : index + width], other[index : index + width]
        yield f"{at}{place}: {str(one)[:100]} {str(other)[:100]}"


class Runner:
    """Runs cases by one engine, with the results in a folder."""

    def __init__(self, program: Sequence[str], folder: Path, engine: str, s3: str) -> None:
        self.program, self.engine, self.s3 = program, engine, s3
        self.inputs, self.folder = folder / "inputs", folder / "results"
        ids = [json.loads(line)["id"] for line in (self.inputs / "docs.jsonl").open()]
        self.ids = [ids[0], ids[50], ids[-1]]

    def has(self, case: Case) -> bool:
        """Return whether a case has this engine: each has memory."""
        if self.engine == "memory":
            return True
        # lists of URLs have tasks in processes alone
        in_processes = case.name == "urls-bulk" and self.engine == "spilling"
        return "*" in " ".join(case.commands).split() and not in_processes

    def run(self, case: Case) -> bool:
        """Run a case, and print its exit code and how long it took; return if that is as it is."""
        out = self.folder / case.name
        for left in self.folder.iterdir():
            # unfinished results too
            if left.name.lstrip(".").partition(".")[0] == case.name:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        started = time.monotonic()
        for command in case.commands:
            words = self.words(command, case)
            if case.kills:
                self.killed([word for word in words if word != "--resume"], out)
            done = subprocess.run([*self.program, *words], capture_output=True, check=False)
        seconds = time.monotonic() - started
        last = done.stderr.strip().rpartition(b"\n")[2]
        said = done.stdout + last if done.returncode else done.stdout
        (self.folder / f"{case.name}.said").write_bytes(re.sub(VARIES["said"].encode(), b"", said))
        (self.folder / f"{case.name}.code").write_text(str(done.returncode))
        if "{s3}" in command:
            store = fsspec.filesystem("s3")
            store.get(f"{self.s3}/{case.name}", str(out), recursive=True)
        print(f"{case.name}: {done.returncode}, {seconds:.1f} s", flush=True)
        is_expected = bool(done.returncode) == case.fails
        if not is_expected:
            print(last.decode())
        return is_expected

    def words(self, command: str, case: Case) -> list[str]:
        """Return the arguments of a command."""
        places = {
            "{in}": str(self.inputs),
            "{out}": str(self.folder / case.name),
            "{s3}": self.s3,
            "{case}": case.name,
            "{first}": self.ids[0],
            "{second}": self.ids[1],
        }
        words: list[str] = []
        for word in command.split():
            named = re.sub(r"\{of:([^}]*)\}", lambda name: str(self.folder / name[1]), word)
            for place, value in places.items():
                named = named.replace(place, value)
            words += {"{ids}": self.ids, "*": ENGINES[self.engine]}.get(named, [named])
        return words

    def killed(self, words: list[str], out: Path) -> None:
        """Begin a run and kill it once it has left something."""
        process = subprocess.Popen(
            [*self.program, *words], stderr=subprocess.DEVNULL, start_new_session=True
        )
        unfinished = out.parent / f".{out.name}.unfinished"
        while len(list(unfinished.rglob("*"))) < 4 and process.poll() is None:
            time.sleep(0.001)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(arguments: argparse.Namespace) -> int:
    """Run the cases, a line each; 1 if one ends otherwise than it should."""
    folder: Path = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "inputs").exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            make_inputs(Path(made))
            (Path(made) / "inputs").rename(folder / "inputs")
    # of a run that was interrupted
    shutil.rmtree(folder / "results", ignore_errors=True)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with servers.moto() as uri, environment(**settings_of_s3(uri)):
        request("PUT", f"{uri}/golden", headers=AUTHORIZED)
        store = fsspec.filesystem("s3")
        for name in ("docs.jsonl", "docs.jsonl.gz"):
            store.put(str(folder / "inputs" / name), f"golden/{name}")
        results, kept = folder / "results", folder / (arguments.name or arguments.engine)
        if kept.exists():
            kept.rename(results)
        results.mkdir(exist_ok=True)
        unexpected = 0
        runner = Runner(arguments.program.split(), folder, arguments.engine, "s3://golden")
        for each in CASES:
            if runner.has(each) and (not arguments.only or each.name in arguments.only):
                unexpected += not runner.run(each)
                if "{s3}" in each.commands[-1]:
                    store.rm(f"golden/{each.name}", recursive=True)
        results.rename(kept)
    return int(unexpected > 0)


def compare(arguments: argparse.Namespace) -> int:
    """Print which cases differ, and where; 1 if any do."""
    different = compared = 0
    for each in CASES:
        both = [folder / f"{each.name}.code" for folder in (arguments.folder, arguments.other)]
        if not all(path.exists() for path in both):
            continue
        found = [
            {
                path.name: contents(path)
                for path in sorted(folder.glob(f"{each.name}*"))
                if path.name.partition(".")[0] == each.name
            }
            for folder in (arguments.folder, arguments.other)
        ]
        compared += 1
        lines = list(differences(*found))
        different += bool(lines)
        for line in lines[: arguments.lines]:
            print(f"{each.name}{line}")
    print(f"{different} of {compared} cases differ")
    return int(different > 0 or not compared)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    actions = parser.add_subparsers(required=True)
    of_run = actions.add_parser("run")
    of_run.add_argument("folder", type=Path)
    of_run.add_argument("--engine", choices=list(ENGINES), default="memory")
    of_run.add_argument("--as", dest="name", metavar="NAME")
    of_run.add_argument("--program", default=f"{sys.executable} -m mr_dedup")
    of_run.add_argument("--only", action="append", choices=[each.name for each in CASES])
    of_run.set_defaults(action=run)
    of_compare = actions.add_parser("compare")
    of_compare.add_argument("folder", type=Path)
    of_compare.add_argument("other", type=Path)
    of_compare.add_argument("--lines", type=int, default=5, metavar="N", help="of a case")
    of_compare.set_defaults(action=compare)
    given = parser.parse_args()
    sys.exit(given.action(given))
