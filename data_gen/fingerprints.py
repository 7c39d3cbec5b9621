"""Fingerprints with planted near-duplicates: random queries, and a corpus that contains copies of
them with a few bits flipped, scattered among filler.

The planted pairs are the truth for tests of a search: all of them are within k bits. A correct
search may find more: a filler value may be within k bits of a query by chance, and a value planted
for one query within k bits of another. For uniform values the probability is about C(64, k) / 2**64
a pair, 2e-15 for k = 3; in the dense distributions such pairs are certain.

Queries and planted values are in memory; the corpus is streamed in blocks.
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
MAX_CHUNKS = 100_000  # five digits: names sort like numbers
MAX_COUNT = 1 << 48

# pairs that are sorted and formatted at a time: some 50 MB of Python integers and text
_TRUTH_PAIRS = 1 << 18


@dataclass(frozen=True)
class FingerprintParameters:
    """The parameters of a data set, which determine every byte of it.

    Args:
        queries: how many queries.
        corpus: how many fingerprints the corpus has, planted ones included.
        duplicates_per_query: copies of each query in the corpus with random bits flipped.
        k: the largest number of flipped bits of a duplicate.
        seed: of the random numbers, from 0 to 2**64 - 1.
        flips: how many bits of a duplicate are flipped: "up-to" k, uniformly, or "exactly" k.
        near_misses: copies of each query with k + 1, k + 2, k + 1, … bits flipped.
        distribution: of queries and filler. Flipped bits are uniform in any case.
        chunk_bytes: the size of each file of the corpus but the last; it changes no value.

    Raises:
        ValueError: for a parameter out of range, naming it and its value.
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
                f"corpus must be at least {self.planted}, to contain {self.duplicates_per_query} "
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
        """The number of files of the corpus; an empty corpus is one empty file."""
        return max(1, -(-self.corpus * LONG_BYTES // self.chunk_bytes))

    @property
    def steps(self) -> int:
        """The sum of the numbers that ``write`` passes to ``progress``."""
        return self.queries + self.corpus


@dataclass(frozen=True)
class Summary:
    """The number of distinct pairs in truth.tsv, of files, and of bytes written."""

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
    """Return the near-duplicates of each query, uint64[queries, duplicates_per_query]."""
    k = parameters.k

    def flips(stream: Stream, copies: NDArray[np.int64]) -> Longs:
        if parameters.flips == "exactly":
            return np.full(copies.size, k, dtype=np.uint64)
        return stream.below(k + 1, copies.size)

    return _flipped(parameters, queries, parameters.duplicates_per_query, "duplicates", flips)


def make_near_misses(parameters: FingerprintParameters, queries: Longs) -> Longs:
    """Return the near misses of each query, uint64[queries, near_misses].

    Columns 0, 2, … are k + 1 bits from the query, columns 1, 3, … are k + 2.
    """
    k = parameters.k

    def flips(stream: Stream, copies: NDArray[np.int64]) -> Longs:
        return (k + 1 + copies % 2).astype(np.uint64)

    return _flipped(parameters, queries, parameters.near_misses, "near misses", flips)


def corpus_blocks(parameters: FingerprintParameters, planted: Longs) -> Iterator[Longs]:
    """Yield the corpus in order, uint64[BLOCK_LONGS] at a time, the last block shorter.

    Takes 16 bytes of memory for each planted value (32 while they are sorted) and a few blocks.

    Args:
        parameters: of the data set.
        planted: up to ``corpus`` values, which get distinct random positions; all others are
            filler.
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

    A line is ``query TAB duplicate TAB duplicate…`` and a newline, in signed decimals, with
    distinct ascending duplicates. Lines ascend by query, with one for equal queries, and there are
    none for d = 0. Takes about 0.7 microseconds a pair.
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
    """Write queries.longs, corpus-00000.longs, … and truth.tsv to a directory, or nothing.

    Longs are 8 bytes, big-endian, two's complement; truth.tsv has the lines of ``truth_lines``.
    Takes 8 bytes of memory a query, 40 a planted value, and about 100 MB. Takes 10 to 40 ns a
    uniform value including writing, 80 ns more for a clustered or a Zipf one, 0.7 microseconds for
    a planted one.

    Args:
        parameters: of the data set.
        folder: new or empty; with ``overwrite`` it may contain only such files.
        overwrite: replace the files of ``folder``.
        progress: is called with numbers of steps, ``parameters.steps`` in total.

    Raises:
        OutputError: if the directory cannot be written.
    """
    min_bytes = LONG_BYTES * (parameters.queries + parameters.corpus)
    with whole_folder(folder, OWN_FILES, overwrite=overwrite, min_bytes=min_bytes) as new_folder:
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
    """Write truth.tsv by slices of the sorted queries; return its number of pairs."""
    order = np.argsort(queries.view(np.int64), kind="stable")
    ordered = queries.view(np.int64)[order]
    step = max(1, _TRUTH_PAIRS // max(1, duplicates.shape[1]))
    # equal queries are in the same slice
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
    pieces = _split(corpus_blocks(parameters, planted), chunk_longs)
    if not parameters.corpus:
        (folder / "corpus-00000.longs").touch()
    for chunk, chunk_pieces in itertools.groupby(pieces, key=itemgetter(0)):
        with (folder / f"corpus-{chunk:05}.longs").open("wb") as file:
            for _, piece in chunk_pieces:
                file.write(piece.astype(">u8").data)
                progress(piece.size)


def _split(blocks: Iterator[Longs], chunk_longs: int) -> Iterator[tuple[int, Longs]]:
    """Yield (chunk number, piece): blocks split at the ends of chunks."""
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

    ``flips(stream, copies)`` returns how many bits to flip, given the number of each copy.
    """
    flipped = np.empty(queries.size * copies_per_query, dtype=np.uint64)
    for stream, part in _blocks(parameters.seed, purpose, flipped.size):
        rows, copies = np.divmod(np.arange(part.start, part.stop), copies_per_query)
        flipped[part] = queries[rows] ^ flip_masks(stream, flips(stream, copies))
    return flipped.reshape(queries.size, copies_per_query)


def _blocks(seed: int, purpose: str, total: int) -> Iterator[tuple[Stream, slice]]:
    """Yield the stream of each block, and its slice of 0..total."""
    for block, size in enumerate(block_sizes(total)):
        start = block * BLOCK_LONGS
        yield Stream(seed, purpose, block), slice(start, start + size)
