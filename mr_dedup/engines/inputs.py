"""Inputs, settings and results of a run of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mr_dedup.storage.uris import is_uri


@dataclass(frozen=True)
class Input:
    """The input of a map task.

    Attributes:
        location: Its path or URI.
        name: What the user calls it, for messages.
        lines_bytes: The size of a file of lines, which a cluster may split among tasks; else 0.
        cost_bytes: About how many bytes of documents take a task as long to read; 0 if it is not
            known. Engines whose tasks take seconds to start have one task read several inputs.
    """

    location: str
    name: str
    lines_bytes: int = 0
    cost_bytes: int = 0

    @classmethod
    def file(cls, path: Path) -> Input:
        """Return the input that is a local file, called by its path."""
        return cls(str(path), str(path))

    @property
    def is_remote(self) -> bool:
        """Whether the location is a URI."""
        return is_uri(self.location)


@dataclass(frozen=True)
class JobResult:
    """The output files of a finished job, in order, and its counters by name.

    A job with an output directory on a cluster has no files here.
    """

    parts: tuple[Path, ...]
    counters: dict[str, int]


@dataclass(frozen=True)
class ClusterSettings:
    """How to run on a cluster; None leaves a setting to mrjob.conf and to the cluster.

    ``output_dir`` is a URI for the result, fetched into JobResult.parts otherwise; it is replaced
    only if ``overwrite``. ``default_reducers`` is the number of reducers if neither ``reducers``,
    ``properties`` nor ``conf`` state one. ``tables_at`` is a directory, a URI, for the tables
    between the steps of jobs, by default in Hadoop's own shuffle. ``properties`` are Hadoop's,
    ``NAME=VALUE``. ``archive`` is a packed environment, a .tar.gz, .tgz, .tar or .zip here or on
    the cluster, unpacked as the directory ``environment`` in the working directory of each task and
    put on its PYTHONPATH.
    ``python_bin`` is the tasks' Python, ``hadoop_bin`` the client's command, which EMR needs none
    of, ``conf`` an mrjob.conf.
    """

    output_dir: str | None = None
    overwrite: bool = False
    reducers: int | None = None
    default_reducers: int | None = None
    tables_at: str | None = None
    task_memory_bytes: int | None = None
    properties: tuple[str, ...] = ()
    archive: str | None = None
    python_bin: str | None = None
    hadoop_bin: str | None = None
    conf: Path | None = None

    def __post_init__(self) -> None:
        for text in self.properties:
            if not re.match(r"[^=\s]+=", text):
                raise ValueError(f"properties: expected NAME=VALUE, got {text!r}")
