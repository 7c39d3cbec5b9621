"""Made-up pages with passages planted in one of ten, and what tools left of these."""

from __future__ import annotations

import json
import multiprocessing
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data_gen.documents import Collection, DocumentParameters
from data_gen.markup import to_text
from data_gen.pages import Page

PASSAGES = 40
"""How many passages are planted: the first words of the articles of so many pages."""

SHARE = 10
"""One page in so many has a planted passage."""

RUN = 5
"""A word of a passage is left in a page if one of the runs of so many words with it is."""

_PART_BYTES = 1_000_000_000
_WORD = re.compile(r"[^\W_]+")


class Written(NamedTuple):
    """The number of pages, their size in bytes, and the planted passage of each that has one."""

    pages: int
    size_bytes: int
    planted: dict[str, str]


@dataclass
class Left:
    """What a tool left of planted passages, page by page.

    Args:
        planted: by its id, the passage that was planted in a page.
    """

    planted: dict[str, str]
    pages: int = 0
    characters: int = 0
    characters_left: int = 0
    removed: int = 0
    """Planted passages of which at least nine tenths of the words are gone."""
    removed_share: float = 0.0
    """The sum of the shares of the words of planted passages that are gone."""
    with_new_words: int = 0
    """Pages with a word that the page did not have: the tool divided or joined words."""
    not_utf8: int = 0

    def add(self, id: str, text: str, after: bytes) -> None:
        """Count one page: its id, its text, and what the tool left of that."""
        self.pages += 1
        self.characters += len(text)
        try:
            left = after.decode()
        except UnicodeDecodeError:
            self.not_utf8 += 1
            left = after.decode(errors="replace")
        self.characters_left += len(left)
        if len(left) != len(text):
            self.with_new_words += not set(_WORD.findall(left)) <= set(_WORD.findall(text))
        if id in self.planted:
            share = removed_share(self.planted[id], left)
            self.removed += share >= 0.9
            self.removed_share += share

    def __str__(self) -> str:
        planted = max(1, len(self.planted))
        return (
            f"{self.removed / planted:.2%} of {len(self.planted):,} planted passages are gone, "
            f"{self.removed_share / planted:.2%} of their words, "
            f"{1 - self.characters_left / max(1, self.characters):.2%} of all text; "
            f"words divided or joined in {self.with_new_words:,} pages, "
            f"{self.not_utf8:,} pages no longer UTF-8"
        )


def removed_share(passage: str, text: str) -> float:
    """Return the share of a passage's words that are in no run of RUN words of both."""
    words = [word.casefold() for word in _WORD.findall(passage)]
    left = [word.casefold() for word in _WORD.findall(text)]
    runs = set(zip(*(left[start:] for start in range(RUN)), strict=False))
    is_left = [False] * len(words)
    for start in range(len(words) - RUN + 1):
        if tuple(words[start : start + RUN]) in runs:
            is_left[start : start + RUN] = [True] * RUN
    return 1 - sum(is_left) / len(words)


class Parts:
    """Files of pages of at most a gigabyte, each with sites and passages of its own.

    No page is a permutation or a copy of another. A file is made once, also for several sizes.

    Args:
        folder: where the files are, on the disk of the directories that get them.
        processes: that make files at a time, some 70 to 100 CPU seconds a gigabyte.
    """

    def __init__(self, folder: Path, processes: int = 2) -> None:
        self._folder = folder
        self._processes = processes
        self._made: dict[Path, Written] = {}
        folder.mkdir(parents=True)

    def write(self, source: Path, size_bytes: int) -> Written:
        """Link files of so many bytes into a new directory."""
        parts = max(1, -(-size_bytes // _PART_BYTES))
        part_bytes = size_bytes // parts
        tasks = {
            self._folder / f"{part_bytes}-{seed}": (part_bytes, seed)
            for seed in range(1, parts + 1)
        }
        missing = [(path, *of) for path, of in tasks.items() if path not in self._made]
        if len(missing) == 1:
            written = [write_pages(*missing[0])]
        else:
            with multiprocessing.get_context("spawn").Pool(self._processes) as pool:
                written = pool.starmap(write_pages, missing, chunksize=1)
        self._made |= {path: each for (path, *_), each in zip(missing, written, strict=True)}
        source.mkdir(parents=True)
        for path, (_, seed) in tasks.items():
            (source / f"pages-{seed:05}.jsonl").hardlink_to(path)
        found = [self._made[path] for path in tasks]
        return Written(
            sum(each.pages for each in found),
            sum(each.size_bytes for each in found),
            {id: passage for each in found for id, passage in each.planted.items()},
        )


def write_pages(path: Path, size_bytes: int, seed: int = 1) -> Written:
    """Write made-up pages, one in SHARE with a passage, and a third that quote others at length.

    The text of each passage is in a page before, so all that are planted repeat something.
    """
    draw = random.Random(seed)
    parameters = DocumentParameters(documents=1 << 30, duplicates_per_document=0, seed=seed)
    passages: list[str] = []
    before: list[str] = []
    planted: dict[str, str] = {}
    written = number = 0
    with path.open("w") as file:
        for number, made in enumerate(Collection(parameters).documents()):
            text = to_text(made.page)
            id = f"{seed}-{number}"
            if len(passages) < PASSAGES:
                # without what pages of one site, or with one advert, have in common
                if not made.page.advert:
                    passages.append(_first_words(made.page, draw.randint(60, 200)))
            elif number % SHARE == 0:
                words = text.split(" ")
                at = draw.randint(0, len(words))
                planted[id] = draw.choice(passages)
                text = " ".join([*words[:at], planted[id], *words[at:]])
            elif number % 3 == 0 and before:
                # as pages that quote a large part of another
                words = draw.choice(before).split(" ")
                start = draw.randint(0, len(words) // 2)
                text += "\n\n" + " ".join(words[start : start + draw.randint(30, 400)])
            # a quotation across the edge of a planted passage would be a passage of its own
            if len(before) < 2000 and id not in planted:
                before.append(text)
            line = json.dumps({"id": id, "text": text}) + "\n"
            file.write(line)
            written += len(line)
            if written >= size_bytes:
                break
    return Written(number + 1, written, planted)


def _first_words(page: Page, words: int) -> str:
    paragraphs = [text for role, text in page.blocks() if role == "paragraph"]
    return " ".join(" ".join(paragraphs).split()[:words])


def texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield id and text of each page."""
    for path in sorted(paths):
        with path.open("rb") as file:
            for line in file:
                record = json.loads(line)
                yield record["id"], record["text"]
