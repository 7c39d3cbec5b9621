"""Each change changes the part in its name, always, and no other."""

import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from data_gen.changes import CHANGES
from data_gen.languages import FORMS, FUNCTION_WORDS
from data_gen.markup import to_html_bytes, to_text
from data_gen.pages import Page, PageMaker
from data_gen.streams import Choices, Stream

PAGES = 150


def changed(
    kind: str, language: str, html: float = 0.0, mean: int = 80
) -> Iterator[tuple[Page, Page]]:
    maker = PageMaker(3, language, mean, html, in_files=bool(html))
    for number in range(PAGES):
        page = maker.page(Stream(3, "pages", number))
        before = repr(page)
        yield page, CHANGES[kind](page, maker.web, Choices(Stream(3, "changes", number)))
        assert repr(page) == before


def differing(one: Page, other: Page) -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(Page)
        if getattr(one, field.name) != getattr(other, field.name)
    }


languages = pytest.mark.parametrize("language", ["english", "chinese"])


@languages
@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("html", [0.0, 1.0])
def test_every_change_but_exact_shows(kind: str, language: str, html: float) -> None:
    for page, other in changed(kind, language, html):
        is_same = (
            to_html_bytes(other) == to_html_bytes(page) if html else to_text(other) == to_text(page)
        )
        assert is_same == (kind == "exact")


@languages
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("exact", set()),
        ("advert", {"advert"}),
        ("date", {"date"}),
        ("counter", {"views"}),
        ("navigation", {"site"}),
        ("reordered", {"paragraphs"}),
        ("re-encoded", {"encoding"}),
        ("spun", {"paragraphs"}),
    ],
)
def test_a_change_changes_one_thing(kind: str, field: set[str], language: str) -> None:
    assert all(differing(*pair) == field for pair in changed(kind, language))


@languages
def test_an_advert_is_inserted_or_exchanged(language: str) -> None:
    before = [bool(page.advert) for page, other in changed("advert", language) if other.advert]
    assert len(before) == PAGES
    assert 40 < sum(before) < 110
    for page, other in changed("advert", language):
        blocks = [block for block in other.blocks() if block != ("advert", other.advert)]
        assert blocks == [block for block in page.blocks() if block[0] != "advert"]


def test_a_counter_only_goes_up() -> None:
    assert all(page.views < other.views for page, other in changed("counter", "english"))


@languages
def test_navigation_is_that_of_another_site_in_the_language(language: str) -> None:
    for page, other in changed("navigation", language):
        assert other.site.host != page.site.host
        assert other.site.host[:2] == page.site.host[:2]
        assert other.site.footer != page.site.footer


@languages
def test_reordered_pages_have_the_same_paragraphs(language: str) -> None:
    for page, other in changed("reordered", language):
        assert other.paragraphs != page.paragraphs
        assert sorted(other.paragraphs) == sorted(page.paragraphs)


@languages
def test_a_truncated_article_is_a_beginning_and_an_ellipsis(language: str) -> None:
    shares = []
    for page, other in changed("truncated", language):
        whole, kept = (
            [word for paragraph in each.paragraphs for sentence in paragraph for word in sentence]
            for each in (page, other)
        )
        assert kept == whole[: len(kept)]
        shares.append(len(kept) / len(whole))
        assert all(sentence for paragraph in other.paragraphs for sentence in paragraph)
        printed = [text for role, text in other.blocks() if role == "paragraph"]
        assert printed[-1].endswith(" …")
        assert not any("…" in text for text in printed[:-1])
        assert differing(page, other) - {"advert_position"} == {"paragraphs", "ending"}
        assert (("advert", page.advert) in other.blocks()) == bool(page.advert)
    assert 0.48 < min(shares) < 0.55
    assert 0.85 < max(shares) < 0.9


@languages
def test_one_sentence_is_spun(language: str) -> None:
    for page, other in changed("spun", language):
        both = [list(itertools.chain.from_iterable(each.paragraphs)) for each in (page, other)]
        ((one, spun),) = [pair for pair in zip(*both, strict=True) if pair[0] != pair[1]]
        for word, new in zip(one, spun, strict=True):
            # ranks 2i and 2i + 1 are synonyms
            if word // FORMS < FUNCTION_WORDS:
                assert new == word
            else:
                assert (new // FORMS // 2, new % FORMS) == (word // FORMS // 2, word % FORMS)
                assert new != word


def test_a_sentence_of_function_words_is_spun_too() -> None:
    page = PageMaker(3, "english", 80, 0, in_files=False).page(Stream(3, "pages"))
    page = dataclasses.replace(page, paragraphs=[[[2, 7]], [[2, 9, 7]]])
    maker = PageMaker(3, "english", 80, 0, in_files=False)
    other = CHANGES["spun"](page, maker.web, Choices(Stream(3, "changes")))
    assert other.paragraphs in ([[[6, 3]], [[2, 9, 7]]], [[[2, 7]], [[6, 13, 3]]])


@languages
@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (0.0, {"spaces", "rewritten"}),
        (1.0, {"spaces", "rewritten", "entities", "charset"}),
    ],
)
def test_every_encoding_occurs_where_it_can(language: str, html: float, expected: set[str]) -> None:
    assert {other.encoding for _, other in changed("re-encoded", language, html)} == expected
