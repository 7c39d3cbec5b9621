"""What a tool is: the command that runs it, and how its output is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.field.outcomes import kept_documents, with_keepers
from bench.field.quality import Outcome
from bench.field.running import CORES

PROGRAMS = Path(__file__).parent.parent / "programs"

PARQUET, JSON_LINES, ONE_PARQUET = "Parquet files", "JSON lines", "one Parquet file"
"""Forms of a corpus: as it is made, or converted before the tool is measured."""


class Task(NamedTuple):
    """What a tool is given.

    Attributes:
        corpus: a directory of files with id and text, or one file, as the tool reads them.
        documents: how many there are.
        out: an empty directory, where the tool runs and leaves its output.
        environment: the directory of its environment.
        workers: how many processes or threads it may use.
    """

    corpus: Path
    documents: int
    out: Path
    environment: Path
    workers: int = CORES

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(self.environment / "bin" / "python")

    @property
    def kept(self) -> Path:
        """Where programs of our own write the documents that they keep."""
        return self.out / "kept"


def kept_by_program(task: Task) -> Outcome:
    """Return what a program wrote to ``kept`` and, if it names keepers, ``dropped.parquet``."""
    dropped = task.out / "dropped.parquet"
    kept = kept_documents(task.kept)
    return with_keepers(kept, dropped) if dropped.exists() else kept


def parts_done(task: Task, said: str) -> str:
    """Return how many files a program has done, by the last of its lines ``NAME is done``.

    >>> from pathlib import Path
    >>> parts_done(Task(Path("absent"), 1, Path(), Path()), "part-0004.parquet is done")
    '5 of 0 files done'
    """
    done = re.findall(r"^part-(\d+)\S* is done$", said, re.M)
    files = len(list(task.corpus.glob("part-*")))
    return f"{int(done[-1]) + 1 if done else 0} of {files} files done"


@dataclass(frozen=True)
class Tool:
    """A tool with its options.

    Attributes:
        name: the tool, and how it is set up.
        environment: the name of its environment; empty for that of this process.
        settings: in words, what is compared and how.
        command: returns the program and its arguments.
        program: the file in ``programs`` that its user writes; empty if it is a command.
        outcome: reads what it kept.
        progress: returns how far a run came, by what it wrote and the end of what it printed.
        reads: the form of the corpus that it reads.
        variables: of its environment.
    """

    name: str
    environment: str
    settings: str
    command: Callable[[Task], Sequence[str]]
    program: str = ""
    outcome: Callable[[Task], Outcome] = kept_by_program
    progress: Callable[[Task, str], str] = lambda task, said: ""
    reads: str = PARQUET
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_lines(self) -> int:
        """Lines of code that a user writes: of the program, or 1 for a command."""
        return code_lines((PROGRAMS / self.program).read_text()) if self.program else 1


def program(
    name: str,
    environment: str,
    settings: str,
    file: str,
    *options: str,
    progress: Callable[[Task, str], str] = parts_done,
    variables: Mapping[str, str] | None = None,
) -> Tool:
    """Return a tool that is a Python program, called with CORPUS, KEPT and options."""

    def command(task: Task) -> Sequence[str]:
        return [task.python, str(PROGRAMS / file), str(task.corpus), str(task.kept), *options]

    return Tool(
        name, environment, settings, command, file, progress=progress, variables=variables or {}
    )


def code_lines(text: str) -> int:
    """Return how many lines of a program are neither empty nor comments nor its docstring.

    >>> code_lines('\"\"\"What it does.\"\"\"\\n\\nimport sys\\n# note\\nprint(sys.argv)\\n')
    2
    """
    lines = [line.strip() for line in text.splitlines()]
    if lines and lines[0].startswith('"""'):
        is_one_line = len(lines[0]) > 5 and lines[0].endswith('"""')
        lines = lines[1 if is_one_line else lines.index('"""', 1) + 1 :]
    return sum(1 for line in lines if line and not line.startswith("#"))
