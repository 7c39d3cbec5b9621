"""The ways in which the web makes near-duplicates, one function each: a page in, a page out.

A change never touches the page it is given, and always changes something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from data_gen.languages import FORMS, synonym
from data_gen.markup import encodings
from data_gen.pages import MOST_VIEWS, Page, Paragraph, Web, any_date
from data_gen.streams import Choices


def _exact(page: Page, web: Web, choices: Choices) -> Page:
    """The same page at another address."""
    return page


def _advert(page: Page, web: Web, choices: Choices) -> Page:
    """Another advert in the place of the page's, or one where it has none."""
    advert = page.advert
    while advert == page.advert:
        advert = web.any_advert(page.language, choices)
    return replace(page, advert=advert)


def _date(page: Page, web: Web, choices: Choices) -> Page:
    """Published on another day."""
    date = page.date
    while date == page.date:
        date = any_date(choices)
    return replace(page, date=date)


def _counter(page: Page, web: Web, choices: Choices) -> Page:
    """Seen more often since."""
    return replace(page, views=page.views + 1 + choices.below(MOST_VIEWS))


def _navigation(page: Page, web: Web, choices: Choices) -> Page:
    """The article between the navigation and the footer of another site."""
    site = page.site
    while site.host == page.site.host:
        site = web.any_site(page.language, choices)
    return replace(page, site=site)


def _reordered(page: Page, web: Web, choices: Choices) -> Page:
    """All paragraphs, in another order."""
    order = choices.shuffled(len(page.paragraphs))
    return replace(page, paragraphs=[page.paragraphs[place] for place in order])


def _truncated(page: Page, web: Web, choices: Choices) -> Page:
    """The first 50 to 89 % of the words of the article, cut in mid-sentence, and an ellipsis."""
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
    place = min(page.advert_place, len(kept))
    return replace(page, paragraphs=kept, advert_place=place, ending=" …")


def _re_encoded(page: Page, web: Web, choices: Choices) -> Page:
    """The same words in other characters or bytes: see ``markup.ENCODINGS``."""
    possible = encodings(page)
    return replace(page, encoding=possible[choices.below(len(possible))])


def _spun(page: Page, web: Web, choices: Choices) -> Page:
    """One sentence with synonyms in the place of all its words but function words."""
    paragraphs = [list(paragraph) for paragraph in page.paragraphs]
    paragraph = paragraphs[choices.below(len(paragraphs))]
    place = choices.below(len(paragraph))
    spun = [synonym(word) for word in paragraph[place]]
    if spun == paragraph[place]:  # nothing but function words: these then
        spun = [word ^ FORMS for word in spun]
    paragraph[place] = spun
    return replace(page, paragraphs=paragraphs)


# the order is part of what a seed means, where all kinds are asked for
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
