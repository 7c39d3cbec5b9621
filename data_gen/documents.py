"""Documents with planted near-duplicates, made the way the web makes them, and their similarity.

Each document is drawn by itself, from streams named by its number: so the collection is written
in a scattered order without ever being held, and the truth is made by drawing the documents of a
cluster again. A document has an index, 0 upwards cluster by cluster, and a position, its place in
the files, which is what its id says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_gen.changes import CHANGES
from data_gen.document_files import FORMATS, open_writer
from data_gen.outputs import whole_folder
from data_gen.pages import LANGUAGES, MAX_WORDS, MIN_WORDS, Page, PageMaker
from data_gen.similarity import jaccards
from data_gen.streams import Choices, Permutation, Stream

KINDS = tuple(CHANGES)
ORIGINAL, NEAR_MISS = "original", "near-miss"
TRUTH_FILE, NEAR_MISSES_FILE = "truth.tsv", "near-misses.tsv"
OWN_FILES = re.compile(
    r"truth\.tsv|near-misses\.tsv|documents-[0-9]{5}\.jsonl(\.gz|\.zst)?|[0-9]{8,}\.html"
)
MAX_COUNT = 1 << 40
MAX_PER_DOCUMENT = 1000

_HEADER = "id_a\tid_b\tjaccard\n"
# positions and indices turned into each other at once
_BATCH = 1 << 12
# no document takes less, however well its file is compressed
_LEAST_BYTES = 32


@dataclass(frozen=True)
class DocumentParameters:
    """What to make; everything follows from it, byte for byte.

    - ``documents``: how many originals.
    - ``duplicates_per_document``: near-duplicates planted for each, each with one change, of the
      ``kinds`` in turn.
    - ``near_misses``: other pages of the same site planted for each, which have nothing in
      common with it but what that site's pages share, and the advert.
    - ``language``: english, chinese, or mixed, where half of the originals are of either.
    - ``length``: the mean length of an article, in words (``pages.length_table``).
    - ``format``: of the files (``document_files.FORMATS``).
    - ``html_share``: the share of the originals that are HTML, as their duplicates then are; all
      of them where the format is html.
    - ``chunk_bytes``: the most that a file of lines holds, before it is compressed, unless a
      single line is longer; changes no document.

    Raises ValueError, naming the parameter and its value, where these do not fit.
    """

    documents: int
    duplicates_per_document: int
    seed: int
    near_misses: int = 0
    language: str = "english"
    length: int = 300
    kinds: tuple[str, ...] = KINDS
    format: str = "jsonl"
    html_share: float = 0.0
    chunk_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for name, least, most in (
            ("documents", 0, MAX_COUNT),
            ("duplicates_per_document", 0, MAX_PER_DOCUMENT),
            ("near_misses", 0, MAX_PER_DOCUMENT),
            ("length", MIN_WORDS, MAX_WORDS),
            ("html_share", 0, 1),
        ):
            value = getattr(self, name)
            if not least <= value <= most:  # so written, it refuses NaN as well
                raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value}")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {self.seed}")
        for name, value, choices in (
            ("language", self.language, LANGUAGES),
            ("format", self.format, FORMATS),
            *(("kinds", kind, KINDS) for kind in self.kinds),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if not self.kinds:
            raise ValueError("kinds must be one or more, not none")
        if self.chunk_bytes <= 0:
            raise ValueError(f"chunk_bytes must be positive, not {self.chunk_bytes}")

    @property
    def stride(self) -> int:
        """How many documents each original brings, itself included."""
        return 1 + self.duplicates_per_document + self.near_misses

    @property
    def total(self) -> int:
        """How many documents there are in all."""
        return self.documents * self.stride

    @property
    def steps(self) -> int:
        """What the numbers that ``write`` reports to its ``progress`` add up to."""
        return 2 * self.total


@dataclass(frozen=True)
class Document:
    """A page with what is known of it. A near miss is a cluster of its own."""

    id: str
    cluster: int
    kind: str
    page: Page

    def record(self) -> dict[str, Any]:
        """Return all fields of its line but the content."""
        page = self.page
        return {
            "id": self.id,
            "url": f"https://{page.site.host}/{page.date:%Y/%m}/{self.id}.html",
            "site": page.site.host,
            "date": page.date.isoformat(),
            "language": page.language.code,
            "cluster": self.cluster,
            "kind": self.kind,
        }


@dataclass(frozen=True)
class Summary:
    """What was written: the pairs of truth.tsv, and the files and bytes of it all."""

    truth_pairs: int
    files: int
    bytes: int


class Collection:
    """All documents of a set of parameters, by position or by cluster; none of them is held."""

    def __init__(self, parameters: DocumentParameters) -> None:
        self._parameters = parameters
        self._order = Permutation.drawn(
            Stream(parameters.seed, "order of documents"), max(1, parameters.total)
        )
        self._id_digits = max(8, len(str(parameters.total - 1)))
        in_files = parameters.format == "html"
        self._maker = PageMaker(
            parameters.seed,
            parameters.language,
            parameters.length,
            1.0 if in_files else parameters.html_share,
            in_files,
        )

    def documents(self) -> Iterator[Document]:
        """Yield every document, by ascending position."""
        total, stride = self._parameters.total, self._parameters.stride
        for start in range(0, total, _BATCH):
            positions = np.arange(start, min(start + _BATCH, total), dtype=np.uint64)
            indices = self._order.images(positions).tolist()
            for position, index in zip(positions.tolist(), indices, strict=True):
                number, member = divmod(index, stride)
                yield self._document(number, member, position, self._original(number))

    def clusters(self) -> Iterator[list[Document]]:
        """Yield what each original brings: itself, its duplicates, its near misses."""
        total, stride = self._parameters.total, self._parameters.stride
        originals = max(1, _BATCH // stride)
        for start in range(0, total, originals * stride):
            end = min(start + originals * stride, total)
            positions = self._order.preimages(np.arange(start, end, dtype=np.uint64))
            for number, places in enumerate(positions.reshape(-1, stride), start // stride):
                original = self._original(number)
                yield [
                    self._document(number, member, position, original)
                    for member, position in enumerate(places.tolist())
                ]

    def _original(self, number: int) -> Page:
        return self._maker.page(Stream(self._parameters.seed, "documents", number))

    def _document(self, number: int, member: int, position: int, original: Page) -> Document:
        parameters = self._parameters
        cluster, kind, page = number, ORIGINAL, original
        if member > parameters.duplicates_per_document:
            miss = number * parameters.near_misses
            miss += member - parameters.duplicates_per_document - 1
            stream = Stream(parameters.seed, "near-miss documents", miss)
            cluster, kind = parameters.documents + miss, NEAR_MISS
            page = self._maker.near_miss(stream, original)
        elif member:
            duplicate = number * parameters.duplicates_per_document + member - 1
            choices = Choices(Stream(parameters.seed, "duplicate documents", duplicate))
            kind = parameters.kinds[duplicate % len(parameters.kinds)]
            page = CHANGES[kind](original, self._maker.web, choices)
        return Document(f"{position:0{self._id_digits}}", cluster, kind, page)


def write(
    parameters: DocumentParameters,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] = lambda steps: None,
) -> Summary:
    """Write documents, truth.tsv and near-misses.tsv to ``folder``, whole or not at all.

    ``folder`` is new or empty, or, with ``overwrite``, holds nothing but such files. Raises
    OutputError otherwise, and where it cannot be written. ``progress`` is called with numbers of
    steps that add up to ``parameters.steps``.

    Memory: of one cluster at a time, a few MB, whatever the number of documents. Time: some 0.3
    to 0.4 milliseconds a document of 300 words. Any ``chunk_bytes`` gives the same lines, cut
    elsewhere.
    """
    collection = Collection(parameters)
    with whole_folder(
        folder, OWN_FILES, overwrite=overwrite, least_bytes=parameters.total * _LEAST_BYTES
    ) as new_folder:
        with open_writer(new_folder, parameters.format, parameters.chunk_bytes) as write_document:
            for document in collection.documents():
                write_document(document.record(), document.page)
                progress(1)
        pairs = _write_truth(new_folder, collection, progress)
        written = [entry.stat().st_size for entry in new_folder.iterdir()]
    return Summary(truth_pairs=pairs, files=len(written), bytes=sum(written))


def _write_truth(
    folder: Path,
    collection: Collection,
    progress: Callable[[int], object],
) -> int:
    """Write both lists of pairs, cluster by cluster; return the pairs of truth.tsv."""
    pairs = 0
    with (
        (folder / TRUTH_FILE).open("w", encoding="ascii", newline="") as truth,
        (folder / NEAR_MISSES_FILE).open("w", encoding="ascii", newline="") as near_misses,
    ):
        truth.write(_HEADER)
        near_misses.write(_HEADER)
        for members in collection.clusters():
            lines, others = pair_lines(members)
            truth.writelines(lines)
            near_misses.writelines(others)
            pairs += len(lines)
            progress(len(members))
    return pairs


def pair_lines(members: list[Document]) -> tuple[list[str], list[str]]:
    """Return lines ``id_a TAB id_b TAB jaccard`` for a cluster, original first, near misses last.

    The first list has every pair of the original and its duplicates, the second the original
    with each near miss. Within a line the smaller id is first; lines ascend. A Jaccard index is
    spelled with as many digits as tell it from every other float64.
    """
    texts = [[text for _, text in member.page.blocks()] for member in members]
    similar = jaccards(texts, members[0].page.language.shingle_tokens).tolist()
    lines: list[str] = []
    others: list[str] = []
    for first, one in enumerate(members):
        for second, other in enumerate(members[first + 1 :], first + 1):
            low, high = sorted((one.id, other.id))
            line = f"{low}\t{high}\t{similar[first][second]}\n"
            if other.kind != NEAR_MISS:
                lines.append(line)
            elif not first:
                others.append(line)
    return sorted(lines), sorted(others)
