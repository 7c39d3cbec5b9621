"""What the plan of a de-duplication says of stages, tasks, bytes and core-hours."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mr_dedup.cli.streams import counted

if TYPE_CHECKING:
    from mr_dedup.cli.document_inputs import DocumentInputs
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.pipeline.stages import Stages

_LINE = "{:<12} {}"


class Rates(NamedTuple):
    """What was measured (docs/benchmarks.md), of made-up pages, all but a few in clusters.

    Attributes:
        start_seconds: CPU seconds of the start of Java, of Python and of kernels.
        seconds_a_gigabyte: CPU seconds for each GB of documents.
        shuffled: Bytes that are shuffled for each byte of documents.
        left: Bytes that stages leave beside the result, for each byte of documents.
        task_bytes: Memory of the Python of a task.
        client_bytes: Memory of the command.
        beside: What a task needs memory for beside its Python.
    """

    start_seconds: float = 12
    seconds_a_gigabyte: float = 26
    shuffled: float = 1.1
    left: float = 0.2
    task_bytes: float = 0.9e9
    client_bytes: float = 0.6e9
    beside: str = "spark.executor.memory"


RATES = {
    "spark": Rates(),
    "hadoop": Rates(
        start_seconds=35, seconds_a_gigabyte=85, shuffled=0.5, client_bytes=0.7e9,
        beside="the Java of its container",
    ),
}  # fmt: skip
"""By runner."""


def cost_lines(arguments: argparse.Namespace, work: DocumentInputs) -> Iterator[str]:
    """Yield what a run takes, by what was measured."""
    rates = RATES[work.runner]
    gigabytes = work.content_bytes / 1e9
    hours = (rates.start_seconds + rates.seconds_a_gigabyte * gigabytes) / 3600
    memory = f"{rates.task_bytes / 1e9:.1f} GB"
    yield _LINE.format(
        "memory",
        f"about {memory} for the Python of each core, beside {rates.beside}; this command up to "
        f"{rates.client_bytes / 1e9:.1f} GB",
    )
    yield _LINE.format(
        "shuffled",
        f"about {_size(rates.shuffled * work.content_bytes)}; stages leave about "
        f"{_size(rates.left * work.content_bytes)} until the run ends",
    )
    line = f"about {hours:,.3g} core-hours"
    if arguments.price is not None:
        line += f", ${hours * arguments.price:,.3g} at ${arguments.price:g} a core-hour"
    yield _LINE.format(
        "cost",
        f"{line}: {rates.seconds_a_gigabyte:g} CPU seconds a GB, as measured of made-up pages "
        "of which all but a few are in clusters",
    )


def _size(size_bytes: float) -> str:
    unit, name = (1e9, "GB") if size_bytes >= 1e9 else (1e6, "MB")
    return f"{float(f'{size_bytes / unit:.2g}'):,g} {name}"


def stage_lines(work: DocumentInputs, options: DedupOptions, stages: Stages) -> Iterator[str]:
    """Yield a line a stage: whether it is done, what it runs, reads and leaves."""
    from mr_dedup.pipeline.dedup import stages_of

    earlier = sum(len(result.files) for result in options.against)
    maps = _tasks(work.runner, len(work.inputs))
    both = _tasks(work.runner, len(work.inputs) + earlier)
    methods = len(options.method_names)
    described = {
        "columns": (maps, "JSON lines, footers of Parquet files", "columns.arrow"),
        "fingerprint": (maps, "the documents", "rows/"),
        "cluster": (
            f"{counted(methods, 'job')} for keys or pairs, some rounds for labels, one for chunks, "
            "each with map tasks of up to 64 MB of rows",
            "rows/",
            "attached/",
        ),
        "resolve": (
            f"{both}, a reduce key for each 32 MB of texts in clusters",
            "the documents of chunks with clusters",
            "decided/",
        ),
        "keep": (maps, "the documents", "result/, by the tasks"),
    }
    resumed = True
    for stage in stages_of(options):
        resumed = resumed and stages.is_done(stage)
        runs, reads, leaves = described[stage]
        yield f"{stage}: {'done, is not run again' if resumed else runs}"
        yield f"  reads   {reads}"
        yield f"  writes  {leaves}"
    yield "then report.html and summary.json are written, and OUT appears"


def _tasks(runner: str, parts: int) -> str:
    """Return by how many map tasks so many parts of documents are read."""
    if runner == "hadoop":
        return f"{counted(parts, 'part')}, about 1 GB of them a map task"
    return counted(parts, "map task")
