"""The changes that make near-duplicates on the web: each a function from a page to a page.

A change always changes something, and never the page that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from data_gen.languages import FORMS, synonym
from data_gen.markup import encodings
from data_gen.pages import MAX_VIEWS, Page, Paragraph, Web, any_date
from data_gen.streams import Choices


def _exact(page: Page, web: Web, choices: Choices) -> Page:
    """The same page at another URL."""
    return page


def _advert(page: Page, web: Web, choices: Choices) -> Page:
    """Another advert, or one where the page has none."""
    advert = page.advert
    while advert == page.advert:
        advert = web.any_advert(page.language, choices)
    return replace(page, advert=advert)


def _date(page: Page, web: Web, choices: Choices) -> Page:
    """Another date of publication."""
    date = page.date
    while date == page.date:
        date = any_date(choices)
    return replace(page, date=date)


def _counter(page: Page, web: Web, choices: Choices) -> Page:
    """A higher count of views."""
    return replace(page, views=page.views + 1 + choices.below(MAX_VIEWS))


def _navigation(page: Page, web: Web, choices: Choices) -> Page:
    """The article with the navigation and the footer of another site."""
    site = page.site
    while site.host == page.site.host:
        site = web.any_site(page.language, choices)
    return replace(page, site=site)


def _reordered(page: Page, web: Web, choices: Choices) -> Page:
    """All paragraphs, in another order."""
    order = choices.shuffled(len(page.paragraphs))
    return replace(page, paragraphs=[page.paragraphs[index] for index in order])


def _truncated(page: Page, web: Web, choices: Choices) -> Page:
    """The first 50 to 89 % of the words of the article, cut within a sentence, and an ellipsis."""
    words = sum(len(sentence) for paragraph in page.paragraphs for sentence in paragraph)
    left = words * (50 + choices.below(40)) // 100
    kept: list[Paragraph] = []
    for paragraph in page.paragraphs:
        sentences = []
        for sentence in paragraph:
            if left:
                sentences.append(sentence[:left])
                left -= len(sentences[-1])
        if sentences:
            kept.append(sentences)
    position = min(page.advert_position, len(kept))
    return replace(page, paragraphs=kept, advert_position=position, ending=" …")


def _re_encoded(page: Page, web: Web, choices: Choices) -> Page:
    """The same words as other characters or bytes: see ``markup.ENCODINGS``."""
    possible = encodings(page)
    return replace(page, encoding=possible[choices.below(len(possible))])


def _spun(page: Page, web: Web, choices: Choices) -> Page:
    """One sentence with all words but function words replaced by synonyms."""
    paragraphs = [list(paragraph) for paragraph in page.paragraphs]
    paragraph = paragraphs[choices.below(len(paragraphs))]
    index = choices.below(len(paragraph))
    spun = [synonym(word) for word in paragraph[index]]
    if spun == paragraph[index]:  # only function words: replace these
        spun = [word ^ FORMS for word in spun]
    paragraph[index] = spun
    return replace(page, paragraphs=paragraphs)


# the order determines the data of a seed if all kinds are used
CHANGES: dict[str, Callable[[Page, Web, Choices], Page]] = {
    "advert": _advert,
    "date": _date,
    "counter": _counter,
    "navigation": _navigation,
    "reordered": _reordered,
    "truncated": _truncated,
    "re-encoded": _re_encoded,
    "spun": _spun,
    "exact": _exact,
}
