"""Weekly crawls of made-up pages that repeat, and how often each kept one has to be counted.

A page is one of a source: its text as it was, or with one word changed. Texts have 350 words, so
that two of one source have a similarity of 0.95 or more, and of two sources hardly a shingle in
common: which pages are near-duplicates is certain.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_gen.languages import FORMS, draw_words, english
from data_gen.streams import Stream

WORDS = 350
NEW_SHARE = 0.5
"""The share of sources that no week before had."""

_FIRST_DAY = datetime.date(2024, 1, 1)
_DAYS = 7

Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Week:
    """The pages of a week in their order: int32[n] each.

    Args:
        number: of the week, from 0.
        sources: the source of each page.
        changes: 0 for the text as it is, else a number that names the changed word.
    """

    number: int
    sources: Numbers
    changes: Numbers

    def id(self, index: int) -> str:
        """Return the id of a page."""
        return f"{self.number}-{index}"

    @property
    def days(self) -> Numbers:
        """The day on which each page was seen, from 0 in the first week: int32[n]."""
        return (self.number * _DAYS + np.arange(self.sources.size) % _DAYS).astype(np.int32)

    def write(self, path: Path, seed: int) -> None:
        """Write the pages as lines of JSON; takes 0.1 ms of CPU a page."""
        with path.open("w") as file:
            pages = zip(
                self.sources.tolist(), self.changes.tolist(), self.days.tolist(), strict=True
            )
            for index, (source, change, day) in enumerate(pages):
                record = {
                    "id": self.id(index),
                    "text": text(seed, source, change),
                    "crawled": date(day),
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def date(day: int) -> str:
    """Return a day by its number."""
    return (_FIRST_DAY + datetime.timedelta(days=day)).isoformat()


def text(seed: int, source: int, change: int) -> str:
    """Return the text of a page: about 2.5 KB."""
    forms = english().forms
    words = (draw_words(Stream(seed, "sources", source).raw(WORDS)) * FORMS).tolist()
    printed = [forms[word] for word in words]
    if change:
        printed[change % WORDS] = f"changed{change} "
    return "".join(printed).rstrip()


def crawls(weeks: int, pages: int, seed: int) -> list[Week]:
    """Return weeks of so many pages: half of them of new sources, the others of any before.

    Sources repeat in their own week too, the first ones thousands of times; of the repeats half are
    exact copies, half have a changed word.
    """
    random = np.random.default_rng(seed)
    found = []
    known = 0
    for number in range(weeks):
        new = max(1, int(pages * (NEW_SHARE if number else 0.9)))
        fresh = np.arange(known, known + new)
        known += new
        again = (known * random.random(pages - new) ** 3).astype(np.int64)
        sources = np.concatenate([fresh, again]).astype(np.int32)
        changes = np.zeros(pages, np.int32)
        near = new + np.flatnonzero(random.random(pages - new) < 0.5)
        changes[near] = 1 + near + number * pages
        order = random.permutation(pages)
        found.append(Week(number, sources[order], changes[order]))
    return found


Chain = Sequence[tuple[Sequence[int], bool]]
"""For each week the earlier ones that it is compared with, and whether with all of these too."""


@dataclass
class Expected:
    """What de-duplicating each week has to find.

    Attributes:
        compared: of each run, the weeks that it is compared with, in their order.
        is_kept: bool[weeks, sources], whether a week keeps a page of a source.
        kept_by: int8[runs, sources], in a run, the week whose page of a source is kept.
        dropped: int32[runs, sources], the pages of a source that a run drops for that page.
        first_days, last_days: int32[runs, sources], the days of these, and of a page that it keeps.
    """

    compared: list[list[int]]
    is_kept: NDArray[np.bool_]
    kept_by: NDArray[np.int8]
    dropped: Numbers
    first_days: Numbers
    last_days: Numbers

    @classmethod
    def of(cls, weeks: Sequence[Week], chain: Chain) -> Expected:
        """Return what is expected where runs are chained so."""
        sources = 1 + max(int(week.sources.max()) for week in weeks)
        shape = len(weeks), sources
        found = cls(
            [],
            np.zeros(shape, np.bool_),
            np.full(shape, -1, np.int8),
            np.zeros(shape, np.int32),
            np.full(shape, np.iinfo(np.int32).max, np.int32),
            np.full(shape, -1, np.int32),
        )
        for week, (named, follow) in zip(weeks, chain, strict=True):
            found._add(week, named, follow)
        return found

    def _add(self, week: Week, named: Sequence[int], follow: bool) -> None:
        every = [
            each for name in named for each in [*(self.compared[name] if follow else []), name]
        ]
        compared = list(dict.fromkeys(every))
        self.compared.append(compared)
        run = week.number
        known = np.full(self.is_kept.shape[1], -1, np.int8)
        for each in reversed(compared):  # the first one that has it counts it
            known[self.is_kept[each]] = each
        pages = np.bincount(week.sources, minlength=known.size)
        self.is_kept[run] = (known < 0) & (pages > 0)
        self.kept_by[run] = np.where(self.is_kept[run], run, known)
        self.dropped[run] = pages - self.is_kept[run]
        np.minimum.at(self.first_days[run], week.sources, week.days)
        np.maximum.at(self.last_days[run], week.sources, week.days)

    def totals(self, week: int, runs: Sequence[int]) -> tuple[Numbers, Numbers, Numbers]:
        """Return what ``runs`` dropped for the pages that a week kept, by source: int32[n] each.

        Args:
            week: the week that kept them.
            runs: different runs, that of this week among them.

        Returns:
            How many pages, the first day on which the page or one of these was seen, the last one.
        """
        counted = self.kept_by[list(runs)] == week
        return (
            (self.dropped[list(runs)] * counted).sum(0, dtype=np.int32),
            np.where(counted, self.first_days[list(runs)], np.iinfo(np.int32).max).min(0),
            np.where(counted, self.last_days[list(runs)], -1).max(0),
        )
