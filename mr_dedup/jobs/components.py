"""The components job: pairs of fingerprints to labels, the smallest fingerprints of components.

One run is one round of clusters/partitioned_components.py. A map task reads one file of pairs, or
of what an earlier round left, and hands on a forest in place of its edges: for each node a link to
the smallest that the task knows of in its component. A first reducer merges what a partition was
handed, and says what it has to tell others; a second merges what they were told. The counter of
unsettled labels says how much that was: where it is 0 the labels are final, else the output is to
go through another round.

Runs alone, a round at a time: python -m mr_dedup.jobs.components -r local pairs.tsv > labels.tsv
Exit code 3 says that labels are unsettled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.clusters.partitioned_components import (
    MAX_PARTITIONS,
    Links,
    PartitionLinks,
    Partitions,
    Requests,
    messages,
    partition_of,
    partitioned,
    requests,
)
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.fingerprint_files import (
    FingerprintFile,
    UnknownFormatError,
    format_by_ending,
)
from mr_dedup.jobs.batches import (
    BatchProtocol,
    Kind,
    LinesProtocol,
    decode_columns,
    encode_columns,
    kind_of,
)
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, Job, errors_naming, total_counters

Fingerprints = NDArray[np.uint64]
Edges = tuple[Fingerprints, Fingerprints]

FORMATS = ("batches", "text")
"""What pairs are read from: arrays that other jobs left, or lines of text."""

EDGES = "edges"
"""The counter of edges that were read."""

UNSETTLED = "unsettled labels"
"""The counter of links that partitions told one another: where it is 0 the labels are final."""

NODES, COMPONENTS = "nodes", "components"
"""The counters of what was found; components are too many as long as labels are unsettled."""

UNSETTLED_CODE = 3
"""The exit code of a job run alone whose labels are not final."""

_HELD_LINKS = 1 << 20
"""Links for others that a reduce task holds before it sends them: 18 MB."""


class ComponentsJob(Job):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add = self.add_passthru_arg
        add("--partitions", type=int, default=16, help="of the nodes, each a reduce key (16)")
        add("--input-format", choices=FORMATS, help="default: text if named .txt or .tsv")
        add("--as-batches", action="store_true", help="write batches for mr_dedup, not lines")

    def check_options(self) -> None:
        """Raise ValueError for options that cannot be."""
        wanted = self.options.partitions
        if not 1 <= wanted <= MAX_PARTITIONS:
            raise ValueError(f"--partitions must be from 1 to {MAX_PARTITIONS}, not {wanted}")

    def check_inputs(self) -> None:
        """Raise MrDedupError for inputs that cannot be."""
        if not self.options.args or "-" in self.options.args:
            # mrjob would copy it to a file whose name says nothing
            raise MrDedupError("no files of pairs; standard input is not read")

    def output_protocol(self) -> BatchProtocol | LinesProtocol:
        """Return the protocol of what the job writes."""
        return BatchProtocol() if self.options.as_batches else LinesProtocol()

    def steps(self) -> list[MRStep]:
        """Return the two steps."""
        return [
            MRStep(
                mapper_raw=self.map_edges,
                reducer_init=self.start_telling,
                reducer=self.reduce_links,
                reducer_final=self.tell_the_rest,
            ),
            MRStep(
                reducer_init=self.start_counting,
                reducer=self.reduce_what_was_told,
                reducer_final=self.count_labels,
            ),
        ]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.clusters.components import components

        labels = components(np.zeros(1, np.uint64), np.zeros(1, np.uint64))
        format_lines(labels.nodes, labels.labels)

    def run_job(self) -> None:
        """Run the job alone; end with an exit code of its own if labels are unsettled."""
        super().run_job()
        unsettled = unsettled_labels(total_counters(self._engine.counters()))
        if unsettled:
            name = Path(sys.argv[0]).name
            print(
                f"{name}: {unsettled:,} labels are unsettled: run it again, over this output",
                file=sys.stderr,
            )
            sys.exit(UNSETTLED_CODE)

    def make_runner(self) -> Any:
        """Return what runs the job, and keep it: it has the counters in the end."""
        self._engine = super().make_runner()
        return self._engine

    # the map task

    def map_edges(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield a forest in place of the edges in one file, and the questions that arise from it.

        In memory: the forest; see UnionFind.
        """
        from mr_dedup.clusters.components import UnionFind

        forest, edges = UnionFind(), 0
        for left, right in self._edges(path, input_name(uri)):
            forest.add(left, right)
            edges += left.size
        labels, partitions = forest.labels(), self.options.partitions
        requested = requests(labels, partitions)
        for kind, nodes, values in (
            (Kind.LABELS, labels.nodes, labels.labels),
            (Kind.QUESTIONS, requested.nodes, requested.senders),
        ):
            for key, columns in partitioned(partition_of(nodes, partitions), nodes, values):
                for batch in encode_columns(kind, columns):
                    yield key, batch
        self.increment_counter(COUNTERS, EDGES, edges)

    def _edges(self, path: str, name: str) -> Iterator[Edges]:
        """Yield the edges in a file that is called ``name``; FormatError if it is damaged."""
        if (self.options.input_format or _format_by_ending(name)) == "batches":
            yield from _edges_of_batches(Path(path), name)
            return
        from mr_dedup.formats import pairs
        from mr_dedup.formats.content import open_content

        with errors_naming(name, path):
            compression = FingerprintFile.detect(path, format="text").compression
        with open_content(Path(path), name, compression) as content:
            yield from pairs.read(content, name)

    # the first reducer

    def start_telling(self) -> None:
        """Begin a reduce task."""
        self.outbox = _Outbox()

    def reduce_links(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Merge the links that a partition was handed; yield them, and now and then the outbox.

        In memory: a forest of the partition's links, a question a task and asker for each node
        that is asked for, and the outbox.
        """
        from mr_dedup.clusters.components import UnionFind

        forest, asked = UnionFind(), [np.empty((2, 0), np.uint64)]
        for batch in batches:
            if kind_of(batch) == Kind.QUESTIONS:
                asked.append(np.stack(decode_columns(Kind.QUESTIONS, batch, 2)))
            else:
                forest.add(*decode_columns(Kind.LABELS, batch, 2))
        partitions = self.options.partitions
        held = PartitionLinks.of(forest.labels(), key, partitions)
        yield from _link_batches(key, held.own)
        yield from _link_batches(key, held.others)
        requested = Requests(*np.concatenate(asked, axis=1))
        self.outbox.put(*messages(held, requested, partitions))
        if self.outbox.size >= _HELD_LINKS:
            yield from self.outbox.emptied()

    def tell_the_rest(self) -> Iterator[tuple[int, bytes]]:
        """End a reduce task: a counter costs a flush, so each is told once."""
        yield from self.outbox.emptied()
        self.increment_counter(COUNTERS, UNSETTLED, self.outbox.total)

    # the second reducer

    def start_counting(self) -> None:
        """Begin a reduce task."""
        self.nodes = self.components = 0

    def reduce_what_was_told(
        self, key: int, batches: Iterable[bytes]
    ) -> Iterator[tuple[int | None, bytes]]:
        """Yield the labels of a partition's nodes, and what it knows of others' that is news."""
        from mr_dedup.clusters.components import UnionFind

        forest = UnionFind()
        for batch in batches:
            forest.add(*decode_columns(Kind.LABELS, batch, 2))
        held = PartitionLinks.of(forest.labels(), key, self.options.partitions)
        self.nodes += len(held.own)
        self.components += int(np.count_nonzero(held.own.nodes == held.own.labels))
        for links in (held.own, held.others):
            if self.options.as_batches:
                yield from _link_batches(key, links)
            elif len(links):
                yield None, format_lines(links.nodes, links.labels)

    def count_labels(self) -> None:
        """End a reduce task."""
        self.increment_counter(COUNTERS, NODES, self.nodes)
        self.increment_counter(COUNTERS, COMPONENTS, self.components)


class _Outbox:
    """Links for other partitions, from many to many: held until they make arrays."""

    def __init__(self) -> None:
        self.size = self.total = 0
        self._held: list[tuple[Partitions, Links]] = []

    def put(self, to: Partitions, links: Links) -> None:
        """Take links, and the partition that each is for."""
        self._held.append((to, links))
        self.size += len(links)
        self.total += len(links)

    def emptied(self) -> Iterator[tuple[int, bytes]]:
        """Yield all as batches, and be empty."""
        if self.size:
            to = np.concatenate([to for to, _ in self._held])
            nodes = np.concatenate([links.nodes for _, links in self._held])
            labels = np.concatenate([links.labels for _, links in self._held])
            self.size, self._held = 0, []
            for key, columns in partitioned(to, nodes, labels):
                yield from _link_batches(key, Links(*columns))


def unsettled_labels(counters: dict[str, int]) -> int:
    """Return how many labels a round left unsettled, by its counters.

    Raises MrDedupError if they were not read, as may be on a cluster: nobody knows then.
    """
    if EDGES not in counters:
        raise MrDedupError(
            "the counters of the job were not read, and only they say whether labels are final"
        )
    return counters.get(UNSETTLED, 0)


def decode_links(batch: bytes) -> Edges:
    """Return the nodes and labels, or the ends of edges, in one batch; raises MrDedupError."""
    kind = Kind.LABELS if kind_of(batch) == Kind.LABELS else Kind.MATCHES
    left, right = decode_columns(kind, batch, 2)
    return left, right


def format_lines(nodes: Fingerprints, labels: Fingerprints) -> bytes:
    """Return lines ``node TAB label``, signed decimals."""
    # numba takes half a second to import: the client does without
    from mr_dedup.formats.decimal_kernels import signed_decimals

    separators = np.tile(np.frombuffer(b"\t\n", np.uint8), nodes.size)
    return signed_decimals(np.stack([nodes, labels], axis=1).ravel(), separators)


def _link_batches(key: int, links: Links) -> Iterator[tuple[int, bytes]]:
    for batch in encode_columns(Kind.LABELS, [links.nodes, links.labels]):
        yield key, batch


def _format_by_ending(name: str) -> str:
    """Return what pairs are to be read from; MrDedupError for a format that holds none."""
    try:
        format = format_by_ending(name)
    except UnknownFormatError:
        return "batches"
    if format != "text":
        raise MrDedupError(f"{name}: is a file of fingerprints by its ending, expected pairs")
    return "text"


def _edges_of_batches(path: Path, name: str) -> Iterator[Edges]:
    """Yield the edges in a file of batches; FormatError where it is damaged."""
    protocol = BatchProtocol()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                _, batch = protocol.read(line)
                yield decode_links(batch)
            except MrDedupError as error:
                raise FormatError(name, f"line {number}", str(error)) from error


if __name__ == "__main__":
    ComponentsJob.run()
