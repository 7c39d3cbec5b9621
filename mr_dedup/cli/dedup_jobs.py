"""The jobs of a de-duplication, each with a staging folder of its own."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.document_arguments import shipped_frequencies
from mr_dedup.cli.document_inputs import (
    HELD_BYTES,
    DocumentWork,
    bundled_chunk,
    described_chunk,
)

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import ClusterSettings, HeldResult, Input, JobResult
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.formats.documents.files import DocumentFile
    from mr_dedup.jobs.held_sets import HeldSets
    from mr_dedup.jobs.job import Job
    from mr_dedup.pipeline.fingerprint_clusters import JoinEngine


class Jobs:
    """Runs jobs over the documents where the arguments say, or over other files on this machine."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        work: DocumentWork,
        staging: Path,
        settings: ClusterSettings | None,
    ) -> None:
        self._arguments = arguments
        self._work = work
        self._staging = staging
        self._settings = settings
        self._held = _held_sets(arguments) if work.held else None
        self.clustering = threading.Event()
        """Documents have been read, and clusters are found, mostly by one thread."""

    @contextlib.contextmanager
    def __call__(
        self,
        job_class: type[Job],
        options: Sequence[str],
        name: str,
        earlier: Sequence[DocumentFile] = (),
    ) -> Iterator[JobResult | HeldResult]:
        """Run a job over the documents, and files of earlier ones, a task each, after them."""
        with self._folder(name) as folder:
            options = [*options, *shipped_frequencies(self._arguments, folder)]
            inputs = list(self._work.inputs)
            if earlier:
                first, more = self._inputs_of(earlier, folder)
                options.append(f"--earlier-from={first}")
                inputs += more
            work = self._work
            run = self._run(
                job_class, options, inputs, folder, work.runner, held=work.held, holds=self._held
            )
            with run as result:
                yield result

    @contextlib.contextmanager
    def here(
        self,
        job_class: type[Job],
        options: Sequence[str],
        name: str,
        chunks: Sequence[DocumentChunk],
    ) -> Iterator[JobResult | HeldResult]:
        """Run a job over chunks of this machine, and on it, whichever the runner of others."""
        from mr_dedup.formats.documents.chunks import content_bytes

        size = content_bytes([part.file for chunk in chunks for part in chunk.parts])
        held = size <= HELD_BYTES
        runner = self._work.runner
        if runner not in ("inline", "local"):
            runner = "inline" if held else "local"
        with self._folder(name) as folder:
            inputs = [described_chunk(chunk, folder) for chunk in chunks]
            # chunks of other documents have the numbers of those whose sets are held
            run = self._run(job_class, options, inputs, folder, runner, held=held, holds=None)
            with run as result:
                yield result

    @contextlib.contextmanager
    def join_engine(self) -> Iterator[JoinEngine]:
        """Return what jobs over fingerprints run on: what those over documents do."""
        from mr_dedup.pipeline.fingerprint_clusters import JoinEngine

        self.clustering.set()
        arguments = self._arguments
        with self._folder("cluster") as folder:
            yield JoinEngine(
                self._work.runner, folder, arguments.cores, self._settings, arguments.join
            )

    @contextlib.contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        folder = self._staging / name
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)

    @contextlib.contextmanager
    def _run(
        self,
        job_class: type[Job],
        options: Sequence[str],
        inputs: Sequence[Input],
        folder: Path,
        runner: str,
        *,
        held: bool,
        holds: HeldSets | None,
    ) -> Iterator[JobResult | HeldResult]:
        from mr_dedup.engines import streaming

        cores = self._arguments.cores
        if runner == "inline" and held:
            with streaming.run_directly(job_class, options, inputs, cores, held=holds) as result:
                yield result
            if holds is not None:
                holds.parts.clear()
            return
        if runner == "local":
            job_class.warm_up()
        with streaming.run(
            job_class, options, inputs, folder, runner=runner, cores=cores, cluster=self._settings
        ) as result:
            yield result

    def _inputs_of(self, files: Sequence[DocumentFile], folder: Path) -> tuple[int, list[Input]]:
        """Return what the number of the first chunk will be, and an input for each file.

        They go to clusters in bundles, which say what they are, whatever the other files are.
        """
        from mr_dedup.formats.documents.chunks import DocumentChunk
        from mr_dedup.jobs.inputs import order_of

        number = len(self._work.inputs)
        chunks = [DocumentChunk(number + i, (file.whole(),)) for i, file in enumerate(files)]
        if self._settings is None:
            return number, [described_chunk(chunk, folder) for chunk in chunks]
        return order_of(number), [bundled_chunk(chunk, folder) for chunk in chunks]


def _held_sets(arguments: argparse.Namespace) -> HeldSets | None:
    """Return where one process leaves the sets that are compared; None if none are."""
    if arguments.verify is None:
        return None
    from mr_dedup.clusters.keepers import KeepPolicy
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.jobs.held_sets import HeldSets

    shingles = FeatureOptions.parse(arguments.shingles, "binary", arguments.normalize)
    return HeldSets(shingles, KeepPolicy.parse(arguments.keep or ["first"]).fields)
