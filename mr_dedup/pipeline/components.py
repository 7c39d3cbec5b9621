"""Connected components of graphs too large for one task: rounds of a job until nothing is news."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mr_dedup.clusters.components import Labels
from mr_dedup.clusters.partitioned_components import MAX_PARTITIONS
from mr_dedup.engines.streaming import (
    CLUSTER_RUNNERS,
    ClusterSettings,
    Input,
    JobResult,
    list_files,
    remove,
    run,
)
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.jobs.batches import BatchProtocol
from mr_dedup.jobs.components import (
    COMPONENTS,
    NODES,
    ComponentsJob,
    decode_links,
    unsettled_labels,
)

_PARTITION_BYTES = 32 << 20
"""Bytes of pairs to a partition: 1.6 million in batches, which take up to 170 MB to merge."""

_PARTITIONS_A_TASK = 4
"""Partitions for each reduce task, so that these are of about one length."""

_LEAST_REDUCERS = 16
"""Reduce tasks that a cluster is taken to have if nobody says how many."""

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Connected:
    """What rounds came to: files of labels, a batch of ascending nodes a line.

    ``unsettled`` has the labels that each round left so: 0 in the end.
    """

    parts: tuple[Input, ...]
    nodes: int
    components: int
    unsettled: tuple[int, ...]

    def batches(self) -> Iterator[Labels]:
        """Yield the labels of all nodes in ascending order, each node once, about a million a time.

        Reads the files twice. In memory besides: 4 MB a partition. Raises ValueError for files of a
        cluster, FormatError if they are damaged.
        """
        firsts = sorted(_first_nodes(self.parts))
        held = [_NO_LABELS]
        size = last = 0
        for number, (_, path, offset) in enumerate(firsts, 1):
            held.append(_read_batch(path, offset))
            size += len(held[-1])
            if size - last < max(last, _ROWS_AT_ONCE) and number < len(firsts):
                continue
            ordered = _merged(held)
            # before what the next batch begins with, nothing is to come
            sure = (
                int(np.searchsorted(ordered.nodes.view(np.int64), firsts[number][0]))
                if number < len(firsts)
                else size
            )
            if sure:
                yield _between(ordered, 0, sure)
            held = [_between(ordered, sure, size)]
            size = last = size - sure

    def read(self) -> Labels:
        """Return the labels of all nodes, ascending; 48 bytes a node. Raises as ``batches``."""
        return _merged([_NO_LABELS, *self.batches()])


_NO_LABELS = Labels(*np.empty((2, 0), np.uint64))


def connect(
    inputs: Sequence[Path | Input],
    staging: Path,
    *,
    runner: str = "local",
    cores: int | None = None,
    cluster: ClusterSettings | None = None,
    folder: str | None = None,
    partitions: int | None = None,
) -> Connected:
    """Return the components of the graph whose edges ``inputs`` hold, files of pairs or of labels.

    Runs rounds of ComponentsJob, a map task an input, until no label is unsettled: two or three for
    clusters of near-duplicates, more by the logarithm of a chain's length. The same labels whatever
    the inputs are split into, the ``partitions`` (by default as many as the size of the inputs asks
    for) and the runner. ``runner``, ``cores`` and ``cluster`` are as for ``streaming.run``. What a
    round leaves stays in ``staging`` until the next is done, the result for good; on a cluster in
    ``folder`` instead, the URI of one, if that is given. Raises ValueError for arguments that
    contradict each other, MrDedupError as ``streaming.run``, and if the counters of a cluster are
    not read.
    """
    if folder is not None and runner not in CLUSTER_RUNNERS:
        raise ValueError(f"folder: needs a runner of clusters, not {runner!r}")
    settings = cluster or ClusterSettings()
    if settings.output_dir is not None:
        raise ValueError(f"cluster: expected no output_dir, which a job has, but {settings}")
    given = [item if isinstance(item, Input) else Input.file(item) for item in inputs]
    if not given:
        raise ValueError("inputs: expected at least one file")
    if partitions is None:
        partitions = _partitions_for(given, runner, cores, settings)
    if runner == "local":
        ComponentsJob.warm_up()
    with _Rounds(staging, folder, runner, cores, settings, partitions) as rounds:
        unsettled: list[int] = []
        while not unsettled or unsettled[-1]:
            given, counters = rounds.next(given)
            unsettled.append(unsettled_labels(counters))
    nodes, components = counters.get(NODES, 0), counters.get(COMPONENTS, 0)
    return Connected(tuple(given), nodes, components, tuple(unsettled))


class _Rounds:
    """Runs one round after the other, each over what the one before left.

    A context manager: of what the rounds leave only the last is kept, and nothing on failure.
    """

    def __init__(
        self,
        staging: Path,
        folder: str | None,
        runner: str,
        cores: int | None,
        settings: ClusterSettings,
        partitions: int,
    ) -> None:
        self._here = Path(tempfile.mkdtemp(prefix="components-", dir=staging))
        self._folder = folder
        self._runner = runner
        self._cores = cores
        self._settings = settings
        self._options = ["--as-batches", "--partitions", str(partitions)]
        self._number = 0
        self._left: str | None = None

    def __enter__(self) -> _Rounds:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            with contextlib.suppress(MrDedupError):
                self._remove_left()
            shutil.rmtree(self._here)

    def next(self, inputs: Sequence[Input]) -> tuple[list[Input], dict[str, int]]:
        """Run a round; return what it left, and its counters."""
        self._number += 1
        place, settings = f"{self._folder or self._here}/labels-{self._number:03}", self._settings
        if self._folder is not None:
            settings = replace(settings, output_dir=place)
        with (
            tempfile.TemporaryDirectory(prefix="round-", dir=self._here) as work,
            run(
                ComponentsJob, self._options, inputs, Path(work),
                runner=self._runner, cores=self._cores, cluster=settings,
            ) as result,
        ):  # fmt: skip
            parts = self._kept(result, place)
        self._remove_left()
        self._left = place
        return parts, result.counters

    def _kept(self, result: JobResult, place: str) -> list[Input]:
        """Return the files of a result, once they are at ``place``."""
        if self._folder is not None:
            found = list_files([place], self._runner, self._settings)
            return [Input(file.uri, file.uri) for file in found]
        Path(place).mkdir()
        return [Input.file(part.rename(Path(place, part.name))) for part in result.parts]

    def _remove_left(self) -> None:
        if self._left is not None and self._folder is not None:
            remove(self._left, self._runner, self._settings)
        elif self._left is not None:
            shutil.rmtree(self._left)


def _partitions_for(
    inputs: Sequence[Input], runner: str, cores: int | None, cluster: ClusterSettings
) -> int:
    """Return partitions that fit into memory: one, or enough to keep all reduce tasks busy.

    One partition, where it will do, is settled by one round.
    """
    here = [Path(item.place) for item in inputs if not item.is_remote]
    there = [item.place for item in inputs if item.is_remote]
    try:
        size_bytes = sum(path.stat().st_size for path in here)
    except OSError as error:
        raise MrDedupError(f"{error.filename}: cannot be read: {error.strerror}") from error
    if there:
        size_bytes += sum(file.size_bytes for file in list_files(there, runner, cluster))
    if size_bytes <= _PARTITION_BYTES:
        return 1
    if runner in CLUSTER_RUNNERS:
        tasks = cluster.reducers or _LEAST_REDUCERS
    else:
        tasks = cores or len(os.sched_getaffinity(0))
    wanted = max(_PARTITIONS_A_TASK * tasks, -(-size_bytes // _PARTITION_BYTES))
    return min(wanted, MAX_PARTITIONS)


def _first_nodes(parts: Sequence[Input]) -> Iterator[tuple[int, Path, int]]:
    """Yield of each batch its first node, as a signed number, its file and where it begins."""
    for part in parts:
        if part.is_remote:
            raise ValueError(f"parts: {part.place} is on a cluster; fetch the files first")
        path, offset = Path(part.place), 0
        with path.open("rb") as file:
            for line in file:
                first = _decoded(line, path, offset).nodes.view(np.int64)[0]
                yield int(first), path, offset
                offset += len(line)


def _read_batch(path: Path, offset: int) -> Labels:
    with path.open("rb") as file:
        file.seek(offset)
        return _decoded(file.readline(), path, offset)


def _decoded(line: bytes, path: Path, offset: int) -> Labels:
    try:
        return Labels(*decode_links(BatchProtocol().read(line)[1]))
    except MrDedupError as error:
        raise FormatError(path, f"byte {offset}", str(error)) from error


def _merged(parts: Sequence[Labels]) -> Labels:
    """Return the labels of all parts, ascending by node."""
    nodes = np.concatenate([part.nodes for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    order = np.argsort(nodes.view(np.int64))
    return Labels(nodes[order], labels[order])


def _between(labels: Labels, start: int, stop: int) -> Labels:
    return Labels(labels.nodes[start:stop], labels.labels[start:stop])
