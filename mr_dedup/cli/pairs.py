"""Print all pairs of fingerprints within k bits of one another: of one corpus, or of two.

CORPUS and OTHER are files, globs or directories of longs (.longs), text (.txt, .tsv) or packed
(.fpz) fingerprints, each also as .gz, .zst or .lz4, or of Parquet (.parquet) with a column
'fingerprint'. A line a pair of different fingerprints of CORPUS, the smaller first, left TAB right:
signed decimals, ascending, each pair once. With OTHER left is of CORPUS and right of OTHER, and
fingerprints that both have are pairs too.

With --method CORPUS are documents, as for mr-dedup dedup: a line for each candidate pair whose
similarity is at least --verify, id TAB id TAB similarity, in the order of the documents.
Records that cannot be read go to OUT.rejects.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import add_search_arguments, planned_for, planned_for_pairs
from mr_dedup.cli.document_pairs import (
    OF_FINGERPRINTS,
    add_document_pair_arguments,
    find_document_pairs,
    refuse_document_arguments,
)
from mr_dedup.cli.fingerprint_inputs import (
    chunks_to_send,
    corpus_files,
    described,
)
from mr_dedup.cli.on_cluster import (
    remote_inputs,
    settings_for,
    staged_files,
    with_output,
)
from mr_dedup.cli.remote_files import corpus_name, output_file
from mr_dedup.cli.runner_arguments import add_runner_arguments
from mr_dedup.cli.streams import output, print_message
from mr_dedup.engines.resources import core_count
from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import require_not_read
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mr_dedup.engines.streaming import ClusterSettings, Input
    from mr_dedup.formats.fingerprint_chunks import FingerprintPart
    from mr_dedup.hamming.planner import Plan
    from mr_dedup.jobs.join import JoinJob

DEFAULT_K = 3

STANDARD_INPUT = "-"

_PRINTED_AT_ONCE = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS

    parser.add_argument(
        "corpus", nargs="+", type=corpus_name, metavar="CORPUS", help="files, globs or directories"
    )
    parser.add_argument(
        "--with", dest="others", type=corpus_name, nargs="+", default=[], metavar="OTHER",
        help="files of another corpus: the pairs of one fingerprint of each",
    )  # fmt: skip
    add_search_arguments(parser, of_pairs=True)
    add_document_pair_arguments(parser)
    parser.add_argument("--with-distance", action="store_true", help="print left TAB right:bits")
    parser.add_argument(
        "-o", "--out", type=output_file, metavar="OUT", help="write here, not to stdout"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--corpus-format", choices=FORMATS, help="if names do not show it")
    parser.add_argument(
        "--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (default big)"
    )
    add_runner_arguments(parser, "pairs")
    parser.set_defaults(k=None)
    defaults = {name: parser.get_default(name) for name in OF_FINGERPRINTS}
    parser.set_defaults(fingerprint_defaults=defaults)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing

    started = time.perf_counter()
    if "method" in arguments:
        return find_document_pairs(arguments)
    refuse_document_arguments(arguments)
    _refuse_standard_input(arguments)
    arguments.k = DEFAULT_K if arguments.k is None else arguments.k
    settings = settings_for(arguments)
    if arguments.out:
        refuse_existing(arguments.out, arguments.overwrite)
    if settings is None:
        corpora = _corpora_here(arguments)
        if arguments.runner != "local" and corpora.fit(arguments.table_memory):
            _find_in_memory(corpora, arguments, started)
            return 0
    with streaming.staging_folder() as staging:
        if settings is None:
            work = _work_here(corpora, arguments, staging)
        else:
            work = _work_on_cluster(arguments, staging)
        _run_job(work, arguments, staging, settings, started)
    return 0


def _refuse_standard_input(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError if fingerprints are to come by standard input."""

    if STANDARD_INPUT in (*arguments.corpus, *arguments.others):
        raise MrDedupError(
            "-: only documents are read from standard input; give --method, or name files of "
            "fingerprints"
        )


# in this process


@dataclass(frozen=True)
class _Corpora:
    """The files of one corpus, or of two, on this machine."""

    parts: Sequence[FingerprintPart]
    others: Sequence[FingerprintPart]

    @property
    def size(self) -> int:
        """How many fingerprints there are, as far as that is known without reading them."""
        return sum(part.size for part in (*self.parts, *self.others))

    def fit(self, memory_bytes: int) -> bool:
        """Return whether all may be in memory, and made distinct there."""
        from mr_dedup.hamming.planner import BUFFERED_BYTES

        return self.size * BUFFERED_BYTES <= memory_bytes


def _corpora_here(arguments: argparse.Namespace) -> _Corpora:
    from mr_dedup.formats.fingerprint_chunks import FingerprintPart

    files = corpus_files(arguments.corpus, arguments)
    others = corpus_files(arguments.others, arguments)
    require_not_read(arguments.out, (file.path for file in [*files, *others]))
    return _Corpora(
        [FingerprintPart.whole(file) for file in files],
        [FingerprintPart.whole(file) for file in others],
    )


def _find_in_memory(corpora: _Corpora, arguments: argparse.Namespace, started: float) -> None:
    from mr_dedup.hamming.distinct import distinct
    from mr_dedup.hamming.pairs import Pairs
    from mr_dedup.hamming.planner import spread_sample
    from mr_dedup.hamming.search import BATCH_SIZE, search
    from mr_dedup.hamming.self_join import pairs_within
    from mr_dedup.jobs.join import format_lines

    read, read_others = _read(corpora.parts), _read(corpora.others)
    left, right = distinct(read), distinct(read_others)
    if arguments.others:
        samples = {"corpus_sample": spread_sample(right), "query_sample": spread_sample(left)}
        planned = planned_for(right.size, left.size, arguments, **samples)
        starts = range(0, right.size, BATCH_SIZE)
        found = search(lambda: (right[i : i + BATCH_SIZE] for i in starts), left, planned)
    else:
        planned = planned_for_pairs(left.size, arguments, sample=spread_sample(left))
        found = pairs_within(left, planned)
    planned.refuse_explosion()
    pairs = Pairs.merged(list(found))
    with output(arguments) as out:
        for start in range(0, len(pairs), _PRINTED_AT_ONCE):
            part = pairs.between(start, start + _PRINTED_AT_ONCE)
            out.write(format_lines(part, arguments.with_distance))
    counts = {"fingerprints": read.size, "others": read_others.size, "pairs": len(pairs)}
    how = f"{planned.chosen.design.name} in memory"
    _summarise(counts, len(corpora.parts) + len(corpora.others), how, arguments, started)


def _read(parts: Sequence[FingerprintPart]) -> NDArray[np.uint64]:
    import numpy as np

    from mr_dedup.formats.fingerprint_chunks import CHUNK_FINGERPRINTS

    batches = [batch for part in parts for batch in part.batches(CHUNK_FINGERPRINTS)]
    return np.concatenate([np.empty(0, np.uint64), *batches])


# as a job


@dataclass(frozen=True)
class _Work:
    """What is run: a job with a task for each input, over so many files."""

    job: JoinJob
    inputs: Sequence[Input]
    files: int


def _work_here(corpora: _Corpora, arguments: argparse.Namespace, staging: Path) -> _Work:
    """Prepare a run on this machine."""
    from mr_dedup.formats.fingerprint_chunks import FingerprintChunk, chunk_size, cut_into_chunks
    from mr_dedup.hamming.planner import SAMPLE_SIZE

    parts, others = corpora.parts, corpora.others
    cores = core_count(arguments.cores)
    size = chunk_size([*parts, *others], cores)
    chunks = cut_into_chunks(parts, size)
    first_other = len(chunks)
    chunks += cut_into_chunks(others, size)
    sample = FingerprintChunk(0, (*parts, *others)).sample(SAMPLE_SIZE)
    planned = planned_for_pairs(corpora.size, arguments, partitioned=True, sample=sample)
    job = _job(planned, arguments, range(first_other, len(chunks)), str(planned.chosen.order))
    return _Work(job, described(chunks, staging), len(parts) + len(others))


def _work_on_cluster(arguments: argparse.Namespace, staging: Path) -> _Work:
    """Prepare a run on a cluster: its files as they are, those of this machine to be sent."""
    inputs: list[Input] = []
    files = size = first_other = 0
    for name, names in (("corpus", arguments.corpus), ("others", arguments.others)):
        folder = staging / name
        folder.mkdir()
        here = corpus_files([text for text in names if not is_uri(text)], arguments)
        require_not_read(arguments.out, (file.path for file in here))
        there = [text for text in names if is_uri(text)]
        remote, sizes = remote_inputs(there, arguments, folder)
        chunks = chunks_to_send(here, arguments.corpus_format)
        first_other = len(inputs)
        inputs += [*staged_files(chunks, folder, arguments), *remote]
        files += len(here) + len(remote)
        size += sum(sizes) + sum(chunk.size for chunk in chunks)
    planned = planned_for_pairs(size, arguments, partitioned=True)
    job = _job(planned, arguments, range(first_other, len(inputs)))
    return _Work(job, inputs, files)


def _job(
    planned: Plan, arguments: argparse.Namespace, others: range, bit_order: str = "interleaved"
) -> JoinJob:
    """Return the job by a plan; raises MrDedupError for endless work.

    ``others`` are the numbers of the inputs that are of the other corpus, if there is one.
    """
    from mr_dedup.hamming.planner import parts_for
    from mr_dedup.jobs.join import JoinJob

    size = max(1, planned.corpus_size)
    job = JoinJob(
        k=arguments.k,
        others=tuple(others) if arguments.others else None,
        design=planned.chosen.design.name,
        bit_order=bit_order,
        expected=size,
        partitions=parts_for(size, arguments.table_memory),
        with_distance=arguments.with_distance,
        corpus_format=arguments.corpus_format,
        byte_order=arguments.byte_order,
        table_bytes=arguments.table_memory,
    )
    planned.refuse_explosion(tasks=job.partition_count)
    return job


def _run_job(
    work: _Work,
    arguments: argparse.Namespace,
    staging: Path,
    settings: ClusterSettings | None,
    started: float,
) -> None:
    from mr_dedup.cli.engine import engine_of

    runner = "memory" if arguments.runner == "auto" else arguments.runner
    settings = None if settings is None else with_output(settings, arguments)
    engine = engine_of(runner, arguments, staging, settings)
    with engine.run(work.job, work.inputs) as found:
        with output(arguments) as out:
            out.writelines(work.job.lines(table) for _, table in found)
        how = f"{work.job.design} in {work.job.partition_count:,} partitions"
        _summarise(found.counters, work.files, how, arguments, started)


def _summarise(
    counters: Mapping[str, int],
    files: int,
    how: str,
    arguments: argparse.Namespace,
    started: float,
) -> None:
    seconds = time.perf_counter() - started
    said = f"files: {files:,}"
    if not counters:
        print_message(
            f"{said}, k = {arguments.k}, {how}, in {seconds:.1f} s; the logs of the cluster, "
            "which have the counts, were not read",
        )
        return
    fingerprints, others = counters.get("fingerprints", 0), counters.get("others", 0)
    if fingerprints == 0:
        print_message("the corpus is empty")
    if arguments.others and others == 0:
        print_message("the other corpus is empty")
    counted = f"fingerprints: {fingerprints:,}"
    if arguments.others:
        counted += f" and {others:,}"
    print_message(f"{said}, {counted}, k = {arguments.k}, {how}")
    if counters.get("partitions_split") or counters.get("keys_sliced"):
        print_message(
            f"more than fitted the memory: {counters.get('partitions_split', 0):,} "
            f"partitions were split, {counters.get('keys_sliced', 0):,} keys joined in slices",
        )
    rate = (fingerprints + others) / seconds / 1e6
    print_message(
        f"{counters.get('pairs', 0):,} pairs in {seconds:.1f} s, "
        f"{rate:.1f} million fingerprints a second",
    )
