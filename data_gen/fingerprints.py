"""Fingerprints with planted near-duplicates: random queries, and a corpus that holds copies of
them with a few bits flipped, scattered among filler.

What is planted is known, so it is the truth that a search is measured against: every planted
pair lies within k bits. It is a lower bound of what a correct search finds: values of the filler
may lie within k of a query by chance, and what was planted for one query within k of another.
Uniform values do so with a probability of about C(64, k) / 2**64 a pair, 2e-15 for k = 3; in the
dense distributions it is certain.

Only the queries and what is planted for them are held in memory; the corpus streams through it a
block at a time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_gen.distributions import Distribution, Draw, Uniform
from data_gen.outputs import whole_folder
from data_gen.streams import BLOCK_LONGS, Longs, Stream, block_sizes, flip_masks, scattered

LONG_BYTES = 8
QUERIES_FILE, TRUTH_FILE = "queries.longs", "truth.tsv"
OWN_FILES = re.compile(r"queries\.longs|truth\.tsv|corpus-[0-9]{5}\.longs")

FLIPS = ("up-to", "exactly")
MAX_CHUNKS = 100_000  # five digits: names sort as the chunks do
MAX_COUNT = 1 << 48

# pairs that a step of the truth sorts and prints at once: some 50 MB of Python numbers and text
_TRUTH_PAIRS = 1 << 18


@dataclass(frozen=True)
class FingerprintParameters:
    """What to make; everything follows from it, byte for byte.

    - ``queries``, ``corpus``: how many fingerprints each holds. The corpus has room for all that
      is planted; the rest of it is filler.
    - ``duplicates_per_query``: copies planted for each query, with flipped bits at distinct
      uniform positions: a number uniform in 0..k (``flips`` = "up-to"), or k (``"exactly"``).
    - ``near_misses``: copies planted for each query with k + 1, k + 2, k + 1, … bits flipped,
      which are no near-duplicates of it.
    - ``distribution``: of the queries and of the filler. Flips fall on all 64 bits in any case.
    - ``chunk_bytes``: the size of each file of the corpus but the last; changes no value.

    Raises ValueError, naming the parameter and its value, where these do not fit.
    """

    queries: int
    corpus: int
    duplicates_per_query: int
    k: int
    seed: int
    flips: str = "up-to"
    near_misses: int = 0
    distribution: Distribution = field(default_factory=Uniform)
    chunk_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("queries", "corpus", "duplicates_per_query", "near_misses"):
            if not 0 <= getattr(self, name) <= MAX_COUNT:
                raise ValueError(
                    f"{name} must be from 0 to {MAX_COUNT:,}, not {getattr(self, name)}"
                )
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {self.seed}")
        if not 0 <= self.k <= 64:
            raise ValueError(f"k must be from 0 to 64, not {self.k}")
        if self.near_misses and self.k > 62:
            raise ValueError(f"k must be at most 62 for near misses at k + 2 bits, not {self.k}")
        if self.flips not in FLIPS:
            raise ValueError(f"flips must be one of {', '.join(FLIPS)}, not {self.flips!r}")
        if self.corpus < self.planted:
            raise ValueError(
                f"corpus must be at least {self.planted}, to hold {self.duplicates_per_query} "
                f"duplicates and {self.near_misses} near misses of each of {self.queries} "
                f"queries, not {self.corpus}"
            )
        if self.chunk_bytes <= 0 or self.chunk_bytes % LONG_BYTES:
            raise ValueError(
                f"chunk_bytes must be a positive multiple of {LONG_BYTES}, not {self.chunk_bytes}"
            )
        if self.chunks > MAX_CHUNKS:
            raise ValueError(
                f"chunk_bytes must be large enough for at most {MAX_CHUNKS:,} files, "
                f"not {self.chunk_bytes}, which needs {self.chunks:,}"
            )

    @property
    def planted(self) -> int:
        """How many fingerprints of the corpus are planted, near misses included."""
        return self.queries * (self.duplicates_per_query + self.near_misses)

    @property
    def chunks(self) -> int:
        """How many files the corpus makes; an empty corpus is one empty file."""
        return max(1, -(-self.corpus * LONG_BYTES // self.chunk_bytes))

    @property
    def steps(self) -> int:
        """What the numbers that ``write`` reports to its ``progress`` add up to."""
        return self.queries + self.corpus


@dataclass(frozen=True)
class Summary:
    """What was written: the distinct pairs of truth.tsv, and the files and bytes of it all."""

    truth_pairs: int
    files: int
    bytes: int


def make_queries(parameters: FingerprintParameters) -> Longs:
    """Return the queries, uint64[queries], in the order of their file; some may be equal."""
    draw = parameters.distribution.prepare(parameters.seed)
    queries = np.empty(parameters.queries, dtype=np.uint64)
    for stream, part in _blocks(parameters.seed, "queries", parameters.queries):
        queries[part] = draw(stream, part.stop - part.start)
    return queries


def make_duplicates(parameters: FingerprintParameters, queries: Longs) -> Longs:
    """Return the near-duplicates planted for each query, uint64[queries, duplicates_per_query]."""
    k = parameters.k

    def flips(stream: Stream, copies: NDArray[np.int64]) -> Longs:
        if parameters.flips == "exactly":
            return np.full(copies.size, k, dtype=np.uint64)
        return stream.below(k + 1, copies.size)

    return _flipped(parameters, queries, parameters.duplicates_per_query, "duplicates", flips)


def make_near_misses(parameters: FingerprintParameters, queries: Longs) -> Longs:
    """Return the decoys planted for each query, uint64[queries, near_misses].

    Columns 0, 2, … are k + 1 bits from the query, columns 1, 3, … are k + 2.
    """
    k = parameters.k

    def flips(stream: Stream, copies: NDArray[np.int64]) -> Longs:
        return (k + 1 + copies % 2).astype(np.uint64)

    return _flipped(parameters, queries, parameters.near_misses, "near misses", flips)


def corpus_blocks(parameters: FingerprintParameters, planted: Longs) -> Iterator[Longs]:
    """Yield the corpus in order, uint64[BLOCK_LONGS] at a time, the last block shorter.

    Each value of ``planted``, uint64[at most corpus], takes a position of its own, scattered
    over the whole corpus (``streams.scattered``); everything else is filler. Holds 16 bytes a
    planted value (32 while it sorts them) and a few blocks, whatever the length of the corpus.
    """
    draw: Draw = parameters.distribution.prepare(parameters.seed)
    positions = scattered(
        Stream(parameters.seed, "positions"), parameters.corpus, planted.size
    ).view(np.int64)
    order = np.argsort(positions)
    positions, planted = positions[order], planted[order]
    del order
    for stream, part in _blocks(parameters.seed, "filler", parameters.corpus):
        block = draw(stream, part.stop - part.start)
        first, end = np.searchsorted(positions, [part.start, part.stop])
        block[positions[first:end] - part.start] = planted[first:end]
        yield block


def truth_lines(queries: Longs, duplicates: Longs) -> list[str]:
    """Return the lines of truth.tsv for uint64[n] queries and their uint64[n, d] duplicates.

    A line is ``query TAB duplicate TAB duplicate…`` and a newline, in signed decimals, its
    duplicates ascending, each once; lines ascend by query, and equal queries share one. None for
    d = 0. Costs about 0.7 microseconds a pair.
    """
    count = duplicates.shape[1]
    if not duplicates.size:
        return []
    keys, values = np.repeat(queries.view(np.int64), count), duplicates.view(np.int64).ravel()
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    starts_line = np.append(True, keys[1:] != keys[:-1])
    distinct = starts_line | np.append(True, values[1:] != values[:-1])
    keys, values, starts_line = keys[distinct], values[distinct], starts_line[distinct]
    starts = np.flatnonzero(starts_line)
    words = list(map(str, values.tolist()))
    ends = [*starts[1:].tolist(), len(words)]
    return [
        "\t".join([str(query), *words[start:end]]) + "\n"
        for query, start, end in zip(keys[starts].tolist(), starts.tolist(), ends, strict=True)
    ]


def write(
    parameters: FingerprintParameters,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] = lambda steps: None,
) -> Summary:
    """Write queries.longs, corpus-00000.longs, … and truth.tsv into ``folder``, or nothing.

    Longs are 8 bytes, big-endian, two's complement; truth.tsv is what ``truth_lines`` returns
    for all queries. ``folder`` is new or empty, or, with ``overwrite``, holds nothing but such
    files. Raises OutputError otherwise, and where it cannot be written. ``progress`` is called
    with numbers of steps that add up to ``parameters.steps``.

    Memory: 8 bytes a query and 40 a planted value at the peak, and about 100 MB; none for the
    length of the corpus. Time: 10 to 40 ns a uniform value with the writing, 80 ns more a
    clustered or a Zipf one, 0.7 microseconds a planted one. Any ``chunk_bytes``
    gives the same bytes, cut in other places.
    """
    least_bytes = LONG_BYTES * (parameters.queries + parameters.corpus)
    with whole_folder(
        folder, OWN_FILES, overwrite=overwrite, least_bytes=least_bytes
    ) as new_folder:
        queries = make_queries(parameters)
        with (new_folder / QUERIES_FILE).open("wb") as file:
            file.write(queries.astype(">u8").data)
        duplicates = make_duplicates(parameters, queries)
        pairs = _write_truth(new_folder / TRUTH_FILE, queries, duplicates, progress)
        near_misses = make_near_misses(parameters, queries)
        planted = np.concatenate([duplicates.ravel(), near_misses.ravel()])
        del queries, duplicates, near_misses
        _write_corpus(new_folder, parameters, planted, progress)
        written = [entry.stat().st_size for entry in new_folder.iterdir()]
    return Summary(truth_pairs=pairs, files=len(written), bytes=sum(written))


def _write_truth(
    path: Path, queries: Longs, duplicates: Longs, progress: Callable[[int], object]
) -> int:
    """Write truth.tsv a slice of the sorted queries at a time; return its number of pairs."""
    order = np.argsort(queries.view(np.int64), kind="stable")
    ordered = queries.view(np.int64)[order]
    step = max(1, _TRUTH_PAIRS // max(1, duplicates.shape[1]))
    # a slice starts where its first query does, so that equal queries are never parted
    edges = np.unique(np.searchsorted(ordered, ordered[::step]))
    pairs = 0
    with path.open("w", encoding="ascii", newline="") as file:
        for start, end in itertools.pairwise([*edges.tolist(), ordered.size]):
            rows = order[start:end]
            lines = truth_lines(queries[rows], duplicates[rows])
            file.writelines(lines)
            pairs += sum(line.count("\t") for line in lines)
            progress(rows.size)
    return pairs


def _write_corpus(
    folder: Path,
    parameters: FingerprintParameters,
    planted: Longs,
    progress: Callable[[int], object],
) -> None:
    chunk_longs = parameters.chunk_bytes // LONG_BYTES
    pieces = _cut(corpus_blocks(parameters, planted), chunk_longs)
    if not parameters.corpus:
        (folder / "corpus-00000.longs").touch()
    for chunk, chunk_pieces in itertools.groupby(pieces, key=itemgetter(0)):
        with (folder / f"corpus-{chunk:05}.longs").open("wb") as file:
            for _, piece in chunk_pieces:
                file.write(piece.astype(">u8").data)
                progress(piece.size)


def _cut(blocks: Iterator[Longs], chunk_longs: int) -> Iterator[tuple[int, Longs]]:
    """Yield (chunk number, piece) for blocks cut where a chunk ends."""
    done = 0
    for block in blocks:
        while block.size:
            chunk, filled = divmod(done, chunk_longs)
            room = chunk_longs - filled
            piece, block = block[:room], block[room:]
            yield chunk, piece
            done += piece.size


def _flipped(
    parameters: FingerprintParameters,
    queries: Longs,
    copies_per_query: int,
    purpose: str,
    flips: Callable[[Stream, NDArray[np.int64]], Longs],
) -> Longs:
    """Return flipped copies of the queries, uint64[queries, copies_per_query].

    ``flips(stream, copies)`` says how many bits of each to flip, given which of its query's
    copies each is.
    """
    flipped = np.empty(queries.size * copies_per_query, dtype=np.uint64)
    for stream, part in _blocks(parameters.seed, purpose, flipped.size):
        rows, copies = np.divmod(np.arange(part.start, part.stop), copies_per_query)
        flipped[part] = queries[rows] ^ flip_masks(stream, flips(stream, copies))
    return flipped.reshape(queries.size, copies_per_query)


def _blocks(seed: int, purpose: str, total: int) -> Iterator[tuple[Stream, slice]]:
    """Yield each block's own stream, and the slice of 0..total that it makes."""
    for block, size in enumerate(block_sizes(total)):
        start = block * BLOCK_LONGS
        yield Stream(seed, purpose, block), slice(start, start + size)
