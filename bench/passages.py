"""``python -m bench.passages``: whether passages are those of a suffix array, and what they cost.

With ``--check MB`` it makes pages of so many megabytes, plants passages in one of ten, and compares
the occurrences that the command writes with those of a suffix array of all words (pydivsufsort); a
difference is an error. With ``--sizes GB …`` it runs the command over made-up pages of each size,
with and without cuts, and prints seconds, CPU seconds and memory. ``--datatrove PYTHON`` is an
interpreter with datatrove, whose de-duplication of sentences gets the same pages.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.machine import describe
from bench.processes import Usage, measure
from data_gen.documents import Collection, DocumentParameters
from data_gen.markup import to_text

SIZE = 50
_WORD = re.compile(r"[^\W_]+")
_PLANTED = 40
_SHARE = 10
"""One page in so many has a planted passage."""

_DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import SentenceDedupFilter, SentenceDedupSignature, SentenceFindDedups
from datatrove.pipeline.dedup.sentence_dedup import SentDedupConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

source, work = sys.argv[1:]
config = SentDedupConfig(n_sentences=3, split_sentences=False, only_dedup_in_index=True)
steps = [
    [JsonlReader(source), SentenceDedupSignature(f"{work}/sigs", config=config)],
    [SentenceFindDedups(f"{work}/sigs", f"{work}/dups", config=config)],
    [
        JsonlReader(source),
        SentenceDedupFilter(f"{work}/dups", config=config),
        JsonlWriter(f"{work}/out"),
    ],
]
for number, pipeline in enumerate(steps):
    LocalPipelineExecutor(pipeline, tasks=1, logging_dir=f"{work}/logs{number}").run()
"""


def main() -> None:
    """Print what was measured; exit with 1 if a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=float, metavar="MB", help="compare with a suffix array")
    parser.add_argument("--sizes", type=float, nargs="*", metavar="GB", default=[])
    parser.add_argument("--datatrove", metavar="PYTHON", help="an interpreter with datatrove")
    parser.add_argument("--work", type=Path, help="where files go (default: a temporary directory)")
    arguments = parser.parse_args()
    print(describe(), flush=True)
    if arguments.check:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            check(Path(folder), int(arguments.check * 1e6))
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            cost(Path(folder), int(size * 1e9), arguments.datatrove)


def write_pages(path: Path, size_bytes: int) -> int:
    """Write made-up pages, a third of them near-duplicates, with planted passages; their number."""
    draw = random.Random(1)
    parameters = DocumentParameters(documents=1 << 30, duplicates_per_document=0, seed=1)
    passages: list[str] = []
    before: list[str] = []
    written = number = 0
    with path.open("w") as file:
        for number, made in enumerate(Collection(parameters).documents()):
            text = to_text(made.page)
            if len(passages) < _PLANTED:
                passages.append(" ".join(text.split()[: draw.randint(60, 200)]))
            elif number % _SHARE == 0:
                words = text.split(" ")
                at = draw.randint(0, len(words))
                text = " ".join([*words[:at], draw.choice(passages), *words[at:]])
            elif number % 3 == 0 and before:
                # as pages that quote a large part of another
                words = draw.choice(before).split(" ")
                start = draw.randint(0, len(words) // 2)
                text += "\n\n" + " ".join(words[start : start + draw.randint(30, 400)])
            if len(before) < 2000:
                before.append(text)
            line = json.dumps({"id": str(number), "text": text}) + "\n"
            file.write(line)
            written += len(line)
            if written >= size_bytes:
                break
    return number + 1


def _command(source: Path, out: Path, *more: str) -> Usage:
    words = [sys.executable, "-m", "mr_dedup", "passages", str(source), "-o", str(out), *more]
    return measure(words)


# equality


def check(folder: Path, size_bytes: int) -> None:
    """Compare the occurrences of passages with those by a suffix array; print their number."""
    source = folder / "pages.jsonl"
    pages = write_pages(source, size_bytes)
    out = folder / "out"
    usage = _command(source, out)
    rows = pq.read_table(out / "occurrences", columns=["id", "start", "end"])
    columns = (rows["id"].to_pylist(), rows["start"].to_pylist(), rows["end"].to_pylist())
    found = list(zip(*columns, strict=True))
    expected = list(_by_suffix_array(source))
    print(
        f"\n{size_bytes / 1e6:,.0f} MB, {pages:,} pages: {len(found):,} occurrences by mr-dedup, "
        f"{len(expected):,} by a suffix array; CPU {usage.cpu_seconds:.1f} s"
    )
    if found != expected:
        print("bench: they differ", file=sys.stderr)
        raise SystemExit(1)
    print("they are equal", flush=True)


def _by_suffix_array(source: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the id and the offsets of each passage, by a suffix array of numbers of words."""
    import pydivsufsort

    numbers: dict[str, int] = {}
    tokens: list[int] = []
    edges, ids, spans = [0], [], []
    for line in source.open():
        record = json.loads(line)
        for word in _WORD.finditer(record["text"]):
            tokens.append(numbers.setdefault(word[0].casefold(), len(numbers)))
            spans.append(word.span())
        ids.append(record["id"])
        edges.append(len(tokens))
    values = np.array(tokens, np.uint32)
    # three bytes a word: only suffixes that begin with a word are looked at
    content = np.stack([values >> 16, values >> 8 & 255, values & 255], 1).astype(np.uint8).ravel()
    order = pydivsufsort.divsufsort(content)
    shared = pydivsufsort.kasai(content, order)
    # of each suffix with the next one; a group has the same first words
    group = np.cumsum(np.append(True, shared[:-1] < 3 * SIZE))
    aligned = order % 3 == 0
    start, group = order[aligned] // 3, group[aligned]
    page = np.searchsorted(edges, start, "right") - 1
    inside = start + SIZE <= np.array(edges)[page + 1]
    start, group, page = start[inside], group[inside], page[inside]
    repeated = start[_in_two(group, page)]
    yield from _joined(np.sort(repeated), edges, ids, spans)


def _in_two(group: NDArray[Any], page: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which windows are in groups of several pages."""
    pairs = np.unique(np.stack([group, page], 1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=int(group.max(initial=0)) + 1)
    found: NDArray[np.bool_] = counts[group] >= 2
    return found


def _joined(
    starts: NDArray[Any], edges: list[int], ids: list[str], spans: list[tuple[int, int]]
) -> Iterator[tuple[str, int, int]]:
    pages = np.searchsorted(edges, starts, "right") - 1
    new = np.append(True, (np.diff(starts) > SIZE) | (np.diff(pages) != 0))[: starts.size]
    first = np.flatnonzero(new)
    last = np.append(first[1:], starts.size) - 1
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        stop = int(starts[end]) + SIZE - 1
        yield ids[int(pages[begin])], spans[int(starts[begin])][0], spans[stop][1]


# cost


def cost(folder: Path, size_bytes: int, datatrove: str | None) -> None:
    """Print what the commands take over made-up pages."""
    source = folder / "pages"
    source.mkdir()
    pages = write_pages(source / "pages.jsonl", size_bytes)
    print(f"\n{size_bytes / 1e9:g} GB, {pages:,} pages", flush=True)
    out = folder / "out"
    _print("passages", _command(source, out), size_bytes)
    summary = json.loads((out / "summary.json").read_text())
    share = summary["tokens_in_passages"] / summary["tokens"]
    print(f"  {share:.1%} of the words are in passages", flush=True)
    cut = _command(source, out, "--overwrite", "--cut", "all-but-first")
    _print("passages --cut all-but-first", cut, size_bytes)
    _print(
        "passages --unit lines", _command(source, out, "--overwrite", "--unit", "lines"), size_bytes
    )
    if datatrove:
        script = folder / "sentences.py"
        script.write_text(_DATATROVE)
        usage = measure([datatrove, str(script), str(source), str(folder / "work")])
        _print("datatrove, 3 sentences", usage, size_bytes)


def _print(name: str, usage: Usage, size_bytes: int) -> None:
    gigabytes = size_bytes / 1e9
    print(
        f"  {name:<30} {usage.seconds:7.1f} s, {gigabytes * 1e3 / usage.seconds:6.1f} MB/s, "
        f"CPU {usage.cpu_seconds / gigabytes:6.1f} s/GB, peak {usage.peak_bytes / 1e6:7,.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
