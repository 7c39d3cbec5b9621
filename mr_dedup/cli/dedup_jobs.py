"""The jobs of a de-duplication, on the engine that the arguments ask for."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.document_inputs import DocumentInputs
from mr_dedup.cli.engine import engine_of, memory_bytes
from mr_dedup.cli.runner_arguments import is_here
from mr_dedup.jobs.contract import Job
from mr_dedup.storage.uris import is_uri, joined

if TYPE_CHECKING:
    from mr_dedup.engines.engine import Engine, JobOutput
    from mr_dedup.engines.inputs import ClusterSettings
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.pipeline.result_folder import ResultFolder
    from mr_dedup.pipeline.sharded_run import ShardedRun

COPIES, EARLIER_COPIES = "documents", "earlier"
"""The directories of a run where files of this machine are copied for the tasks of a cluster."""

TABLES = "tables"
"""The directory of a run where tasks of Hadoop leave tables for those of the next step."""

_MEMORY_SHARES = 3
"""Of the memory that a run may use, one part in so many is for what jobs cache of documents."""

_STORED_SHARES, _STORED_BYTES = 4, 256 << 20
"""The same of what a reduce task has of sets of shingles, and how many bytes that is at most."""

SMALL_BYTES = {"spark": 128 << 20, "hadoop": 256 << 20}
"""Bytes of shards that this process reads sooner than a cluster starts its tasks, by runner."""

_EDGES_SHARES, _EDGES_BYTES = 16, 128 << 20
"""The same of edges that a process links at once, and how many bytes these are at most."""

_TABLES_BYTES = 64 << 20
"""Tables of jobs over few shards that are in memory beside an engine of a cluster."""

_THREADS = 4
"""Of these jobs, which wait for a store to confirm what they write."""


class DocumentJobs:
    """Runs jobs over the documents of a command, or over other files of this machine.

    A context manager, which removes what jobs cache.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        work: DocumentInputs,
        staging: Path,
        settings: ClusterSettings | None,
    ) -> None:
        from mr_dedup.jobs.part_cache import PartCache

        self._arguments = arguments
        self._work = work
        self._staging = staging
        self._settings = settings
        self._cache = PartCache(memory_bytes(arguments) // _MEMORY_SHARES, staging)

    def __enter__(self) -> DocumentJobs:
        return self

    def __exit__(self, *exception: object) -> None:
        self._cache.close()

    @property
    def _stored_bytes(self) -> int:
        """Bytes of sets of shingles that a reduce task may have in memory."""
        if self._work.runner != "memory":
            return _STORED_BYTES
        return min(_STORED_BYTES, memory_bytes(self._arguments) // _STORED_SHARES)

    @contextlib.contextmanager
    def __call__(self, job: Job, name: str) -> Iterator[JobOutput]:
        """Run a job over the documents."""
        with (
            self._engine(self._settings, name) as (engine, _),
            engine.run(job, self._work.inputs) as output,
        ):
            yield output

    @contextlib.contextmanager
    def _engine(self, settings: ClusterSettings | None, name: str) -> Iterator[tuple[Engine, Path]]:
        """Yield an engine and its temporary directory, called ``name``."""
        with self._folder(name) as folder:
            yield (
                engine_of(self._work.runner, self._arguments, folder, settings, self._cache),
                folder,
            )

    def sharded_run(
        self,
        folder: ResultFolder,
        files: Sequence[DocumentFile] = (),
        *,
        at_address: bool = False,
    ) -> ShardedRun:
        """Return a run whose tasks write shards to ``folder``.

        Args:
            folder: The directory of the result.
            files: Earlier documents.
            at_address: Whether tasks of this machine also write to a store, where what they have
                done is found by a run that is resumed, not only what a stage has.
        """
        from mr_dedup.cli.uploads import addressed, uploaded
        from mr_dedup.formats.documents.chunks import DocumentChunk
        from mr_dedup.pipeline.sharded_run import ShardedRun

        if self._settings is not None:
            files = addressed(files, joined(folder.address, EARLIER_COPIES))
        earlier = [DocumentChunk(number, (file.whole(),)) for number, file in enumerate(files)]
        chunks = [
            dataclasses.replace(DocumentChunk.read(Path(item.location)), number=number)
            for number, item in enumerate(self._work.inputs, len(earlier))
        ]
        here = is_here(self._work.runner) and not (at_address and is_uri(folder.address))
        settings = self._settings
        if settings is not None:
            settings = dataclasses.replace(settings, tables_at=joined(folder.address, TABLES))
            earlier = uploaded(earlier, joined(folder.address, EARLIER_COPIES))
            chunks = uploaded(chunks, joined(folder.address, COPIES))
        small_bytes = SMALL_BYTES.get(self._work.runner, 0)
        if here:
            # to link edges takes seven times their bytes
            small_bytes = min(_EDGES_BYTES, memory_bytes(self._arguments) // _EDGES_SHARES)
        return ShardedRun(
            str(folder.work.absolute()) if here else folder.address,
            folder.work,
            chunks,
            partial(self._engine, settings),
            self._engine_here if settings is not None else None,
            small_bytes,
            earlier,
            is_here=here,
            stored_bytes=self._stored_bytes,
        )

    @contextlib.contextmanager
    def _engine_here(self, name: str) -> Iterator[tuple[Engine, Path]]:
        """Yield an engine of this process beside that of a cluster."""
        from mr_dedup.engines.memory import MemoryEngine

        with self._folder(name) as folder:
            yield MemoryEngine(_THREADS, _TABLES_BYTES, folder), folder

    def run_here(self, folder: Path) -> ShardedRun:
        """Return a run of this process without documents, whose shards are in ``folder``."""
        from mr_dedup.pipeline.sharded_run import ShardedRun

        @contextlib.contextmanager
        def open_engine(name: str) -> Iterator[tuple[Engine, Path]]:
            with self._folder(name) as staging:
                yield engine_of("memory", self._arguments, staging, None), staging

        return ShardedRun(str(folder), folder, (), open_engine, is_here=True)

    @contextlib.contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        folder = self._staging / name
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)
