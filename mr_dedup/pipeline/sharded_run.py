"""Run jobs whose tasks leave shards below one directory, a path or a URI."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa

from mr_dedup.engines.engine import Engine
from mr_dedup.engines.events import log_event
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.process import release_memory
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.documents.chunks import DocumentChunk, cost_bytes
from mr_dedup.formats.shards import SHARDS_SUFFIX, Shard, ShardList, read_shard, shard_at
from mr_dedup.jobs.contract import Counters, Job, Keyed
from mr_dedup.jobs.reading import DOCUMENTS, TEXT_BYTES
from mr_dedup.pipeline.result_folder import is_unfinished
from mr_dedup.storage import writing
from mr_dedup.storage.listing import files_below
from mr_dedup.storage.uris import is_uri, joined, name_below, without_secrets

_MAX_TASK_BYTES = 64 << 20
_MIN_TASK_BYTES = 2 << 20
"""Bytes of shards that a map task reads."""

_MAX_BYTES_HERE = 8 << 20
"""The same of a job that runs in this process, which is to take little memory."""

_TASKS_PER_SLOT = 2

_SHARD_COST = 4
"""A byte of a shard takes a task about as long as so many of documents."""

AnyJob = TypeVar("AnyJob", bound=Job)


@dataclass(frozen=True)
class Left:
    """What a job has left: shards in a directory, by key ascending, and its counters."""

    folder: str
    shards: Sequence[Shard]
    counters: Mapping[str, int]

    @property
    def rows(self) -> int:
        """The rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """The bytes of all shards."""
        return sum(shard.size_bytes for shard in self.shards)

    def tables(self, key: int) -> Iterator[pa.Table]:
        """Yield the tables of a shard; raises as ``read_shard``."""
        return read_shard(self.folder, key)


OpenEngine = Callable[[str], AbstractContextManager[tuple[Engine, Path]]]


@dataclass(frozen=True)
class ShardedRun:
    """The directories and the engine of a run.

    Attributes:
        work: The directory, a path or URI, that the tasks of the engine read and write.
        records: A directory of this machine for what is known of shards.
        chunks: The documents, a map task each.
        open_engine: Yields an engine, given a name for its temporary directory, and that.
        open_here: The same with an engine of this process, for jobs over few shards.
        small_bytes: Shards of fewer bytes are few; by default there are none.
        is_here: Whether ``work`` is ``records``, and all tasks are of this machine.
        stored_bytes: Bytes of sets of shingles that a reduce task may have in memory.
        earlier: Chunks of documents that earlier results kept; numbers of others follow.
    """

    work: str
    records: Path
    chunks: Sequence[DocumentChunk]
    open_engine: OpenEngine
    open_here: OpenEngine | None = None
    small_bytes: int = 0
    earlier: Sequence[DocumentChunk] = field(default=())
    is_here: bool = False
    stored_bytes: int = 256 << 20

    @property
    def chunk_count(self) -> int:
        """The number of chunks, earlier ones too."""
        return len(self.earlier) + len(self.chunks)

    def at(self, name: str) -> str:
        """Return the path or URI of a directory of the run."""
        return joined(self.work, name)

    def over_documents(
        self, job: AnyJob, name: str, chunks: Sequence[DocumentChunk], folder: str | None
    ) -> tuple[Left, list[Keyed]]:
        """Run a job over chunks of documents; see ``_run``."""

        def describe(_: Engine, staging: Path) -> Iterator[Input]:
            for chunk in chunks:
                path = staging / f"{chunk.number:06}{DESCRIPTION_SUFFIX}"
                path.write_text(chunk.describe())
                yield Input(str(path), chunk.name, cost_bytes=cost_bytes(chunk))

        return self._run(job, name, folder, describe, self.open_engine)

    def over_shards(self, job: AnyJob, folder: str | None, inputs: Sequence[Left]) -> Left:
        """Run a job over all shards of ``inputs``, several a map task; it leaves shards.

        If there are few, it is run in this process: on a cluster tasks would take longer to start
        than to run.
        """
        return self._over_shards(job, folder, inputs)[0]

    def yielded_over_shards(self, job: AnyJob, inputs: Sequence[Left]) -> list[Keyed]:
        """Run a job over all shards of ``inputs`` in the same way; return what it yields."""
        return self._over_shards(job, None, inputs)[1]

    def _over_shards(
        self, job: AnyJob, folder: str | None, inputs: Sequence[Left]
    ) -> tuple[Left, list[Keyed]]:
        name = folder or "shards"
        total = _size_of(inputs)
        is_here = self.open_here is not None and self.is_small(inputs)

        def describe(engine: Engine, staging: Path) -> Iterator[Input]:
            wanted = total // (_TASKS_PER_SLOT * engine.tasks)
            max_bytes = _MAX_BYTES_HERE if is_here else _MAX_TASK_BYTES
            size_bytes = max(_MIN_TASK_BYTES, min(max_bytes, wanted))
            folders = tuple(left.folder for left in inputs)
            for number, (shards, size) in enumerate(_grouped(inputs, size_bytes)):
                path = staging / f"{number:06}{SHARDS_SUFFIX}"
                ShardList(folders, shards).write(path)
                yield Input(str(path), f"shards {number}", cost_bytes=_SHARD_COST * size)

        open_engine = self.open_engine
        if is_here:
            assert self.open_here is not None
            open_engine = self.open_here
        return self._run(job, name, folder, describe, open_engine)

    def is_small(self, inputs: Sequence[Left]) -> bool:
        """Return whether one task may read all shards of ``inputs``."""
        return _size_of(inputs) < self.small_bytes

    def _run(
        self,
        job: AnyJob,
        name: str,
        folder: str | None,
        describe: Callable[[Engine, Path], Iterable[Input]],
        open_engine: OpenEngine,
    ) -> tuple[Left, list[Keyed]]:
        """Run a job; return the shards that it has left in ``folder``, and what else it yields.

        Raises:
            MrDedupError: As ``Engine.run``, and if tasks write where this command does not read.
        """
        address = None if folder is None else self.at(folder)
        if address is not None:
            job = msgspec.structs.replace(job, shards=address)
        begun = time.perf_counter()
        with open_engine(name) as (engine, staging):
            inputs = list(describe(engine, staging))
            with engine.run(job, inputs) as output:
                tables = list(output)
                counters = Counters(output.counters)
        # else a job of this process would begin with what the last one has freed
        release_memory()
        seconds = time.perf_counter() - begun
        log_event(
            "job",
            job=name,
            tasks=len(inputs),
            seconds=round(seconds, 3),
            **_rates(counters, seconds),
            counters=dict(counters),
        )
        if address is None:
            return Left("", (), counters), tables
        shards = [
            Shard(key, table["rows"][0].as_py(), table["size_bytes"][0].as_py())
            for key, table in tables
        ]
        left = Left(address, sorted(shards), counters)
        _check_there(left)
        return left, []

    def record(self, name: str, left: Left) -> list[str]:
        """Record what a stage has left; return the files of this machine that it is in."""
        content = {"shards": [list(shard) for shard in left.shards], "counters": left.counters}
        with whole_file(self.records / f"{name}.json", overwrite=True) as file:
            file.write(json.dumps(content).encode() + b"\n")
        shards = left.shards if self.is_here else ()
        return [f"{name}.json", *(shard_at(name, shard.key) for shard in shards)]

    def recorded(self, name: str) -> Left:
        """Return what a stage has left, by its record."""
        path = self.records / f"{name}.json"
        try:
            content = json.loads(path.read_bytes())
            shards = [Shard(*map(int, each)) for each in content["shards"]]
            return Left(self.at(name), shards, dict(content["counters"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(path, None, f"is damaged: {error}") from error

    def is_whole(self, name: str) -> bool:
        """Return whether all shards are there that a stage has left."""
        try:
            _check_there(self.recorded(name))
        except (MrDedupError, OSError):
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a directory of shards, if there is one."""
        remove(self.at(name))


def _size_of(inputs: Sequence[Left]) -> int:
    return sum(left.size_bytes for left in inputs)


def _rates(counters: Mapping[str, int], seconds: float) -> dict[str, int]:
    """Return how many documents, and bytes of their texts, a job has read a second."""
    counts = {"documents_a_second": DOCUMENTS, "bytes_a_second": TEXT_BYTES}
    return {
        rate: round(counters[name] / max(seconds, 1e-3))
        for rate, name in counts.items()
        if counters.get(name)
    }


def remove(folder: str) -> None:
    """Remove a directory of this machine or of a store, if there is one."""
    if is_uri(folder):
        writing.remove(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what tasks that were killed were writing in a directory of this machine."""
    for path in list(folder.rglob(".*")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def files_in(folder: str) -> dict[str, int | None]:
    """Return the files below a directory, a path or URI, by name, with their sizes in bytes.

    Without what tasks that were killed were writing.
    """
    sizes: dict[str, int | None]
    if is_uri(folder):
        sizes = {name_below(file.uri, folder): file.size_bytes for file in files_below(folder)}
    else:
        root = Path(folder)
        found = (path for path in root.rglob("*") if path.is_file())
        sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in found}
    return {name: size for name, size in sizes.items() if not is_unfinished(name)}


def _check_there(left: Left) -> None:
    """Raise MrDedupError if a shard is missing, or of another size."""
    sizes: dict[str, int | None] = {}
    if is_uri(left.folder):
        for file in files_below(left.folder):
            sizes[name_below(file.uri, left.folder)] = file.size_bytes
    for shard in left.shards:
        address = shard_at(left.folder, shard.key)
        if is_uri(left.folder):
            size = sizes.get(name_below(address, left.folder))
        else:
            size = None
            with contextlib.suppress(OSError):
                size = Path(address).stat().st_size
        if size != shard.size_bytes:
            raise MrDedupError(
                f"{without_secrets(address)}: is not what a task has written there; do all nodes "
                "and this command share the directory? A result at a URI needs no shared directory"
            )


def _grouped(
    inputs: Sequence[Left], size_bytes: int
) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
    """Yield lists of shards of about ``size_bytes``, each with its size.

    A shard is given as the index of its directory and its key.
    """
    group: list[tuple[int, int]] = []
    size = 0
    for number, left in enumerate(inputs):
        for shard in left.shards:
            if group and size + shard.size_bytes > size_bytes:
                yield tuple(group), size
                group, size = [], 0
            group.append((number, shard.key))
            size += shard.size_bytes
    if group:
        yield tuple(group), size
