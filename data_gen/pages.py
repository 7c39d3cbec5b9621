"""Pages of web sites: an article with the navigation and the footer of its site.

A page is generated part by part and converted to text last: so a change (``changes``) is a change
of one part. ``blocks`` returns its visible text in order, from which text and HTML are made.
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
# an article is longer than navigation and footer, so that pages which only have these in common
# are not near-duplicates
MIN_WORDS, MAX_WORDS = 64, 1_000_000
SITES, ADVERTS = 256, 64

# of the logarithm of the length of articles: between news sites (0.6) and the whole web (1.1)
_LENGTH_SIGMA = 0.8
_LENGTHS = 1 << 12
_FIRST_DAY, _DAYS = datetime.date(2015, 1, 1).toordinal(), 3653
MAX_VIEWS = 100_000

# the minimum of each, and the number of possible lengths
_SENTENCE_WORDS, _PARAGRAPH_SENTENCES = (5, 20), (2, 5)

# words with their forms, as defined in languages
Paragraph: TypeAlias = list[list[int]]


@dataclass(frozen=True)
class Site:
    """What all pages of a site have in common."""

    host: str
    navigation: tuple[str, ...]
    footer: str


@dataclass(frozen=True)
class Page:
    """The parts of a page.

    Args:
        language: of the text.
        site: the site of the page.
        html: whether the page is HTML.
        in_file: whether it is a file of its own.
        title: of the page.
        date: of publication.
        views: how often it was viewed.
        paragraphs: lists of sentences, which are lists of words.
        advert: the text of an advert, "" for none.
        advert_position: the number of the paragraph that the advert precedes.
        ending: text after the last paragraph.
        encoding: one of ``markup.ENCODINGS``.
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
    advert_position: int
    ending: str = ""
    encoding: str = "plain"

    def blocks(self) -> list[tuple[str, str]]:
        """Return (role, text) of all visible text, from the top: the truth compares these.

        Roles are item (of the navigation), title, byline, paragraph, advert, footer.
        """
        article = [("paragraph", self.language.paragraph(each)) for each in self.paragraphs]
        if self.ending:
            article[-1] = ("paragraph", article[-1][1] + self.ending)
        if self.advert:
            article.insert(self.advert_position, ("advert", self.advert))
        return [
            *(("item", item) for item in self.site.navigation),
            ("title", self.title),
            ("byline", self.language.byline(self.date, self.views)),
            *article,
            ("footer", self.site.footer),
        ]


@dataclass(frozen=True)
class Web:
    """The sites and adverts of a seed, generated and cached at their first use."""

    seed: int

    @functools.lru_cache(maxsize=2 * SITES)  # noqa: B019 (an instance exists as long as its data set)
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
        """Return a random site, by Zipf's law: some have many pages."""
        slots = frequency_table(SITES)
        return self.site(language, int(slots[choices.below(slots.size)]))

    def any_advert(self, language: Language, choices: Choices) -> str:
        """Return a random advert, uniformly."""
        return self.advert(language, choices.below(ADVERTS))


class PageMaker:
    """Generates the pages of a seed."""

    def __init__(
        self, seed: int, language: str, mean_words: int, html_share: float, in_files: bool
    ) -> None:
        """Prepare to generate pages.

        Args:
            seed: of the random numbers.
            language: one of LANGUAGES; mixed is English or Chinese for each page.
            mean_words: the mean length of articles.
            html_share: the share of pages that are HTML.
            in_files: whether pages are files of their own.
        """
        self.web = Web(seed)
        self._in_files = in_files
        makers = {"english": [english], "chinese": [chinese], "mixed": [english, chinese]}
        self._languages = [make() for make in makers[language]]
        self._lengths = length_table(mean_words)
        self._html_limit = round(html_share * (1 << 32))

    def page(self, stream: Stream) -> Page:
        """Return a page of a random site."""
        choices = Choices(stream)
        language = self._languages[choices.below(len(self._languages))]
        return self._page(choices, stream, language, self.web.any_site(language, choices))

    def near_miss(self, stream: Stream, page: Page) -> Page:
        """Return another page of the same site with the same advert and another article."""
        other = self._page(Choices(stream), stream, page.language, page.site)
        return replace(other, advert=page.advert, advert_position=1)

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
            views=1 + choices.below(MAX_VIEWS),
            paragraphs=paragraphs,
            advert=self.web.any_advert(language, choices) if has_advert else "",
            advert_position=1 + choices.below(len(paragraphs) - 1),
        )


def any_date(choices: Choices) -> datetime.date:
    """Return a random day from 2015 to 2024."""
    return datetime.date.fromordinal(_FIRST_DAY + choices.below(_DAYS))


def length_table(mean_words: int) -> NDArray[np.int64]:
    """Return 4,096 equally likely lengths: ascending quantiles of a log-normal distribution.

    Its mean is ``mean_words``, the sigma of its logarithm 0.8, its minimum MIN_WORDS. Lengths are
    rounded, so that they do not depend on the last digit of a platform's exp.
    """
    normal = statistics.NormalDist(log(mean_words) - _LENGTH_SIGMA**2 / 2, _LENGTH_SIGMA)
    quantiles = [normal.inv_cdf((slot + 0.5) / _LENGTHS) for slot in range(_LENGTHS)]
    return np.array([max(MIN_WORDS, round(exp(each))) for each in quantiles])


def _paragraphs(stream: Stream, words: int) -> list[Paragraph]:
    """Return ``words`` random words in sentences, in two or more paragraphs."""
    raw = stream.raw(words)
    article = draw_words(raw) * FORMS
    article[(raw & np.uint64(15)) == 0] += COMMA  # by bits that do not determine the words
    ends = _ends(stream, words, *_SENTENCE_WORDS)
    starts = np.append(0, ends[:-1])
    article[starts] += FIRST - article[starts] % FORMS
    article[ends - 1] += LAST - article[ends - 1] % FORMS
    words_and_forms = article.tolist()
    edges = zip(starts.tolist(), ends.tolist(), strict=True)
    sentences = [words_and_forms[start:end] for start, end in edges]
    last = _ends(stream, len(sentences), *_PARAGRAPH_SENTENCES).tolist()
    if len(last) == 1:
        last.insert(0, len(sentences) // 2)
    return [sentences[start:end] for start, end in itertools.pairwise([0, *last])]


def _ends(stream: Stream, size: int, minimum: int, spread: int) -> NDArray[np.int64]:
    """Return the ends of random parts of 0..size, ascending up to ``size``.

    A part has ``minimum`` to ``minimum + spread - 1`` elements, the last up to ``minimum`` more.
    """
    ends = np.cumsum(stream.below(spread, size // minimum + 1).astype(np.int64) + minimum)
    return np.append(ends[ends <= size - minimum], size)
