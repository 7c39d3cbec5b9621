"""De-duplication of contained documents, from JSON lines to kept documents, beside the default.

Made-up English pages, and parts of them of one tenth to nine tenths of their words: from the
beginning, the end and the middle, from the middle with words changed, each of them in 3 shingles,
up to what the threshold allows, and passages in another order. Recall is the share of parts that
are dropped for a page, precision the share of dropped documents of which the threshold is in the
kept document by Python's sets of their words. On few pages all decisions are compared with those
of comparing all documents with all. CPU seconds are those of whole processes.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from bench import processes
from bench.inputs import SEED, page_texts
from bench.measure import Mismatch, Row, case_row, interleaved, wall_clock

THRESHOLD = 0.9
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
KINDS = ("prefix", "suffix", "middle", "edited", "shuffled")
_NAME = "containment"
_OURS, _DEFAULT = "dedup --verify contained:0.9", "dedup, the default"
_MAX_ROUNDS = 3
_EDIT_EVERY = 31
_SENTENCE = 25

Shingles = frozenset[tuple[str, ...]]


class Document(NamedTuple):
    """A document; of a part its kind and its share of the page, of a page ``page`` and 1."""

    text: str
    kind: str = "page"
    share: float = 1.0


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table: quality on few pages, then quality and cost on many."""
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        few = documents_of(120 if quick else 600)
        out = _deduplicated(few, Path(folder, "few"), ["--verify", f"contained:{THRESHOLD}"])
        kept = _kept_rows(out, few)
        expected = by_comparing_all(few)
        same = sum(kept[row] == expected[row] for row in range(len(few)))
        missed = sum(kept[row] == row != expected[row] for row in range(len(few)))
        yield Row(
            _NAME, f"{len(few):,} documents, against comparing all",
            note=f"equal decisions {same:,}, contained documents missed {missed:,}",
        )  # fmt: skip
        yield from _measured(1000 if quick else 85_000, min(rounds, _MAX_ROUNDS), Path(folder))


def documents_of(pages: int) -> list[Document]:
    """Return made-up pages, a part of each second of them, in a random order."""
    rng = random.Random(SEED)
    found = []
    for number, text in enumerate(page_texts(pages)):
        found.append(Document(text))
        if number % 2 == 0:
            found.append(_part(text.split(), rng.choice(KINDS), rng.choice(SHARES), rng))
    rng.shuffle(found)
    return found


def _part(words: list[str], kind: str, share: float, rng: random.Random) -> Document:
    size = round(share * len(words))
    begin = {"prefix": 0, "suffix": len(words) - size}.get(
        kind, rng.randrange(len(words) - size + 1)
    )
    part = words[begin : begin + size]
    if kind == "edited":
        for at in range(_EDIT_EVERY, size - 2, _EDIT_EVERY):
            part[at] = f"changed{rng.randrange(10**6)}"
    if kind == "shuffled":
        sentences = [part[at : at + _SENTENCE] for at in range(0, size, _SENTENCE)]
        rng.shuffle(sentences)
        part = [word for sentence in sentences for word in sentence]
    return Document(" ".join(part), kind, share)


def by_comparing_all(documents: Sequence[Document]) -> list[int]:
    """Return the row of the kept document of each, by comparing all with all."""
    sets = [shingles(document.text) for document in documents]
    found = list(range(len(documents)))
    kept: list[int] = []
    for row in sorted(found, key=lambda row: -len(sets[row])):
        shares = [len(sets[row] & sets[other]) / len(sets[row]) for other in kept]
        best = max(shares, default=0.0)
        found[row] = kept[shares.index(best)] if best >= THRESHOLD else row
        if found[row] == row:
            kept.append(row)
    return found


def shingles(text: str) -> Shingles:
    """Return the sequences of three words of a text of plain words, as ``words:3`` has them."""
    words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
    return frozenset(zip(words, words[1:], words[2:], strict=False)) or frozenset([tuple(words)])


def _measured(pages: int, rounds: int, folder: Path) -> Iterator[Row]:
    documents = documents_of(pages)
    usages: dict[str, list[processes.Usage]] = {_DEFAULT: [], _OURS: []}
    words = {_DEFAULT: [], _OURS: ["--verify", f"contained:{THRESHOLD}"]}
    path = _written(documents, folder / "many.jsonl")

    def measured(name: str) -> float:
        command = _command(path, folder / "out", words[name])
        usages[name].append(processes.measure(command))
        return usages[name][-1].cpu_seconds

    cases = {name: lambda name=name: measured(name) for name in usages}
    timings = interleaved(cases, rounds, _NAME, wall_clock)
    size = f"{len(documents):,} documents, {path.stat().st_size / 1e6:,.0f} MB"
    for name in usages:
        out = _deduplicated(documents, folder / "many", words[name])
        kept = _kept_rows(out, documents)
        dropped = [row for row in range(len(documents)) if kept[row] != row]
        peak = max(usage.peak_bytes for usage in usages[name])
        note = f"{size}; dropped {len(dropped):,}"
        if name == _OURS:
            right = sum(_is_contained(documents[row], documents[kept[row]]) for row in dropped)
            if right != len(dropped):
                raise Mismatch(f"{len(dropped) - right} dropped documents are not contained")
            note += "; precision 1"
        yield case_row(_NAME, name, timings, _DEFAULT, memory_bytes=peak, note=note)
        yield from _recalls(name, documents, kept)


def _recalls(name: str, documents: Sequence[Document], kept: Sequence[int]) -> Iterator[Row]:
    """Yield the recall of parts by kind and share."""
    parts: Counter[tuple[str, float]] = Counter()
    found: Counter[tuple[str, float]] = Counter()
    for row, (_, kind, share) in enumerate(documents):
        parts[kind, share] += 1
        found[kind, share] += kept[row] != row
    for kind in KINDS:
        recalls = ", ".join(
            f"{share:g}: {found[kind, share] / parts[kind, share]:.4f}"
            for share in SHARES
            if parts[kind, share]
        )
        yield Row(_NAME, f"recall of {kind}, {name}", note=recalls)


def _is_contained(one: Document, other: Document) -> bool:
    sets = shingles(one.text), shingles(other.text)
    return len(sets[1]) >= len(sets[0]) and len(sets[0] & sets[1]) >= THRESHOLD * len(sets[0])


def _written(documents: Sequence[Document], path: Path) -> Path:
    with path.open("w") as file:
        for row, document in enumerate(documents):
            file.write(json.dumps({"id": str(row), "text": document.text}) + "\n")
    return path


def _command(path: Path, out: Path, words: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(path), "-o", str(out), "--overwrite"]
    # documents are contained by their words
    return [*command, "--symbols=ignore", *words]


def _deduplicated(documents: Sequence[Document], folder: Path, words: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    path = _written(documents, folder / "documents.jsonl")
    processes.run(_command(path, folder / "out", words))
    return folder / "out"


def _kept_rows(out: Path, documents: Sequence[Document]) -> list[int]:
    found = list(map(int, pq.read_table(out / "decisions")["kept_id"].to_pylist()))
    if len(found) != len(documents):
        raise Mismatch(f"{len(found)} decisions on {len(documents)} documents")
    return found
