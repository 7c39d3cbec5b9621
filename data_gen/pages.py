"""Pages as sites make them: an article, and around it what all pages of the site share.

A page is drawn part by part, and put into words last: so a change to it (``changes``) is a change
to one part. ``blocks`` says what a reader sees, in order; text and HTML are made from it.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import statistics
from dataclasses import dataclass, replace
from math import exp, log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from data_gen.languages import (
    COMMA,
    FIRST,
    FORMS,
    LAST,
    Language,
    chinese,
    draw_words,
    english,
    frequency_table,
)
from data_gen.streams import Choices, Stream

LANGUAGES = ("english", "chinese", "mixed")
# an article is never shorter than what its site puts around it: so pages that have nothing but
# that in common stay far from near-duplicates
MIN_WORDS, MAX_WORDS = 64, 1_000_000
SITES, ADVERTS = 256, 64

# of the logarithm of an article's length: between news sites (0.6) and the web at large (1.1)
_LENGTH_SIGMA = 0.8
_LENGTHS = 1 << 12
_FIRST_DAY, _DAYS = datetime.date(2015, 1, 1).toordinal(), 3653
MOST_VIEWS = 100_000

# the least of each, and how many lengths there are from it up
_SENTENCE_WORDS, _PARAGRAPH_SENTENCES = (5, 20), (2, 5)

# a word and its form in one number, as languages has it
Paragraph: TypeAlias = list[list[int]]


@dataclass(frozen=True)
class Site:
    """What the pages of one site share."""

    host: str
    navigation: tuple[str, ...]
    footer: str


@dataclass(frozen=True)
class Page:
    """A page before it is put into words.

    ``paragraphs`` are lists of sentences, these of words; before paragraph ``advert_place``
    stands ``advert``, unless it is empty. ``ending`` follows the last paragraph. ``html`` is
    whether the page is HTML, ``in_file`` whether it is a file of its own, and ``encoding`` how it
    is written (``markup.ENCODINGS``).
    """

    language: Language
    site: Site
    html: bool
    in_file: bool
    title: str
    date: datetime.date
    views: int
    paragraphs: list[Paragraph]
    advert: str
    advert_place: int
    ending: str = ""
    encoding: str = "plain"

    def blocks(self) -> list[tuple[str, str]]:
        """Return (role, text) of all that a reader sees, from the top: what the truth compares.

        The roles: item (of the navigation), title, byline, paragraph, advert, footer.
        """
        article = [("paragraph", self.language.paragraph(each)) for each in self.paragraphs]
        if self.ending:
            article[-1] = ("paragraph", article[-1][1] + self.ending)
        if self.advert:
            article.insert(self.advert_place, ("advert", self.advert))
        return [
            *(("item", item) for item in self.site.navigation),
            ("title", self.title),
            ("byline", self.language.byline(self.date, self.views)),
            *article,
            ("footer", self.site.footer),
        ]


@dataclass(frozen=True)
class Web:
    """Sites and adverts of one seed, in any language: each is made at its first use, and kept."""

    seed: int

    @functools.lru_cache(maxsize=2 * SITES)  # noqa: B019 (a web lives as long as its data set)
    def site(self, language: Language, number: int) -> Site:
        """Return site ``number`` of a language, from 0 to SITES - 1."""
        choices = Choices(Stream(self.seed, f"{language.name} sites", number))
        items = tuple(language.phrase(choices, 1 + choices.below(2)) for _ in range(8))
        name = language.phrase(choices, 2)
        claim = language.phrase(choices, 8 + choices.below(7))
        return Site(
            host=f"{language.code}{number:03}.example",
            navigation=items[: 5 + choices.below(4)],
            footer=f"© {2015 + choices.below(10)} {name} & {items[0]} | {claim}",
        )

    @functools.lru_cache(maxsize=2 * ADVERTS)  # noqa: B019
    def advert(self, language: Language, number: int) -> str:
        """Return advert ``number`` of a language, from 0 to ADVERTS - 1: 12 to 24 words."""
        choices = Choices(Stream(self.seed, f"{language.name} adverts", number))
        return "! ".join(language.phrase(choices, 6 + choices.below(7)) for _ in range(2)) + "!"

    def any_site(self, language: Language, choices: Choices) -> Site:
        """Return a site, drawn by Zipf's law: some have many pages."""
        slots = frequency_table(SITES)
        return self.site(language, int(slots[choices.below(slots.size)]))

    def any_advert(self, language: Language, choices: Choices) -> str:
        """Return an advert, each as likely as any other."""
        return self.advert(language, choices.below(ADVERTS))


class PageMaker:
    """Makes pages of one seed.

    ``language`` is one of LANGUAGES: mixed draws English or Chinese for each page. Articles have
    ``mean_words`` on average; a share ``html_share`` of the pages is HTML. ``in_files`` is
    whether pages are files of their own.
    """

    def __init__(
        self, seed: int, language: str, mean_words: int, html_share: float, in_files: bool
    ) -> None:
        self.web = Web(seed)
        self._in_files = in_files
        makers = {"english": [english], "chinese": [chinese], "mixed": [english, chinese]}
        self._languages = [make() for make in makers[language]]
        self._lengths = length_table(mean_words)
        self._html_limit = round(html_share * (1 << 32))

    def page(self, stream: Stream) -> Page:
        """Return a page of some site, which sites have by Zipf's law."""
        choices = Choices(stream)
        language = self._languages[choices.below(len(self._languages))]
        return self._page(choices, stream, language, self.web.any_site(language, choices))

    def near_miss(self, stream: Stream, page: Page) -> Page:
        """Return another page of the same site, with the same advert: the article is its own."""
        other = self._page(Choices(stream), stream, page.language, page.site)
        return replace(other, advert=page.advert, advert_place=1)

    def _page(self, choices: Choices, stream: Stream, language: Language, site: Site) -> Page:
        words = int(self._lengths[choices.below(_LENGTHS)])
        paragraphs = _paragraphs(stream, words)
        has_advert = choices.below(2)
        return Page(
            language=language,
            site=site,
            html=choices.below(1 << 32) < self._html_limit,
            in_file=self._in_files,
            title=language.phrase(choices, 4 + choices.below(5)),
            date=any_date(choices),
            views=1 + choices.below(MOST_VIEWS),
            paragraphs=paragraphs,
            advert=self.web.any_advert(language, choices) if has_advert else "",
            advert_place=1 + choices.below(len(paragraphs) - 1),
        )


def any_date(choices: Choices) -> datetime.date:
    """Return a day of the years 2015 to 2024."""
    return datetime.date.fromordinal(_FIRST_DAY + choices.below(_DAYS))


def length_table(mean_words: int) -> NDArray[np.int64]:
    """Return 4,096 equally likely lengths, ascending: the quantiles of a log-normal distribution.

    Its mean is ``mean_words``, the sigma of its logarithm 0.8; shorter ones are MIN_WORDS. They
    are rounded, so that the last digit of a platform's exp does not show.
    """
    normal = statistics.NormalDist(log(mean_words) - _LENGTH_SIGMA**2 / 2, _LENGTH_SIGMA)
    quantiles = [normal.inv_cdf((slot + 0.5) / _LENGTHS) for slot in range(_LENGTHS)]
    return np.array([max(MIN_WORDS, round(exp(each))) for each in quantiles])


def _paragraphs(stream: Stream, words: int) -> list[Paragraph]:
    """Return ``words`` drawn words in sentences, and these in two or more paragraphs."""
    raw = stream.raw(words)
    article = draw_words(raw) * FORMS
    article[(raw & np.uint64(15)) == 0] += COMMA  # by bits that the words are not drawn by
    ends = _cuts(stream, words, *_SENTENCE_WORDS)
    starts = np.append(0, ends[:-1])
    article[starts] += FIRST - article[starts] % FORMS
    article[ends - 1] += LAST - article[ends - 1] % FORMS
    in_print = article.tolist()
    edges = zip(starts.tolist(), ends.tolist(), strict=True)
    sentences = [in_print[start:end] for start, end in edges]
    last = _cuts(stream, len(sentences), *_PARAGRAPH_SENTENCES).tolist()
    if len(last) == 1:
        last.insert(0, len(sentences) // 2)
    return [sentences[start:end] for start, end in itertools.pairwise([0, *last])]


def _cuts(stream: Stream, size: int, least: int, spread: int) -> NDArray[np.int64]:
    """Return where 0..size ends in parts of least..least + spread - 1: ascending, size the last.

    The last part takes what is left, if that is less than ``least``.
    """
    ends = np.cumsum(stream.below(spread, size // least + 1).astype(np.int64) + least)
    return np.append(ends[ends <= size - least], size)
