"""Pages as they are drawn: lengths, sentences, paragraphs, and what a site shares."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen.languages import COMMA, FIRST, FORMS, LAST, PLAIN, chinese, english
from data_gen.pages import ADVERTS, MIN_WORDS, SITES, Page, PageMaker, Web, length_table
from data_gen.streams import Choices, Stream
from tests.data_gen.document_oracles import slow_tokens


def pages(count: int, language: str = "english", mean: int = 120, html: float = 0.0) -> list[Page]:
    maker = PageMaker(7, language, mean, html, in_files=False)
    return [maker.page(Stream(7, "pages", number)) for number in range(count)]


def words_of(page: Page) -> int:
    return sum(len(sentence) for paragraph in page.paragraphs for sentence in paragraph)


@pytest.mark.parametrize("mean", [300, 1000, 100_000])
def test_lengths_are_log_normal(mean: int) -> None:
    lengths = length_table(mean)
    assert lengths.size == 4096
    assert lengths.min() >= MIN_WORDS
    assert abs(lengths.mean() / mean - 1) < 0.02
    assert (np.diff(lengths) >= 0).all()
    # the median, and one sigma up from it
    median = mean / math.exp(0.8**2 / 2)
    assert abs(lengths[2048] / median - 1) < 0.02
    index = round(4096 * statistics.NormalDist().cdf(1))
    assert abs(lengths[index] / (median * math.exp(0.8)) - 1) < 0.02


def test_the_shortest_articles_are_longer_than_navigation_and_footer() -> None:
    assert set(length_table(MIN_WORDS)[:2000]) == {MIN_WORDS}
    for page in pages(300, "english", MIN_WORDS):
        around = [text for role, text in page.blocks() if role not in ("paragraph", "title")]
        assert len(slow_tokens(" ".join(around))) <= MIN_WORDS + 16


def test_articles_have_the_lengths_of_the_table() -> None:
    drawn = [words_of(page) for page in pages(2000, mean=300)]
    table = length_table(300)
    assert set(drawn) <= set(table.tolist())
    for quantile in (0.1, 0.5, 0.9):
        expected = float(np.quantile(table, quantile))
        assert abs(float(np.quantile(drawn, quantile)) / expected - 1) < 0.15


@given(st.integers(0, 2**64 - 1), st.sampled_from([64, 65, 100, 3000]))
def test_sentences_and_paragraphs(seed: int, mean: int) -> None:
    page = PageMaker(1, "english", mean, 0, in_files=False).page(Stream(seed, "page"))
    assert words_of(page) >= MIN_WORDS
    assert len(page.paragraphs) >= 2
    for paragraph in page.paragraphs:
        assert 1 <= len(paragraph) <= 7
        for sentence in paragraph:
            assert 5 <= len(sentence) <= 28
            forms = [word % FORMS for word in sentence]
            assert (forms[0], forms[-1]) == (FIRST, LAST)
            assert set(forms[1:-1]) <= {PLAIN, COMMA}
    assert 1 <= page.advert_position < len(page.paragraphs)


def test_one_word_in_sixteen_has_a_comma() -> None:
    forms = [w % FORMS for page in pages(200) for p in page.paragraphs for s in p for w in s[1:-1]]
    assert abs(forms.count(COMMA) / len(forms) - 1 / 16) < 0.005


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_the_blocks_of_a_page(language: str) -> None:
    for page in pages(100, language):
        assert page.language.name == language
        blocks = page.blocks()
        items = page.site.navigation
        assert 5 <= len(items) <= 8
        assert [text for _, text in blocks[: len(items)]] == list(items)
        assert blocks[len(items)] == ("title", page.title)
        assert blocks[len(items) + 1] == ("byline", page.language.byline(page.date, page.views))
        assert blocks[-1] == ("footer", page.site.footer)
        article = blocks[len(items) + 2 : -1]
        printed = [text for role, text in article if role == "paragraph"]
        assert printed == [page.language.paragraph(each) for each in page.paragraphs]
        adverts = [index for index, (role, _) in enumerate(article) if role == "advert"]
        assert adverts == ([page.advert_position] if page.advert else [])


def test_random_parts_vary() -> None:
    drawn = pages(2000, "mixed", html=0.25)
    assert abs(sum(page.language is english() for page in drawn) - 1000) < 100
    assert abs(sum(page.html for page in drawn) - 500) < 90
    assert abs(sum(bool(page.advert) for page in drawn) - 1000) < 100
    assert {page.date.year for page in drawn} == set(range(2015, 2025))
    assert len({page.title for page in drawn}) > 1990
    for language, code in (("english", "en"), ("chinese", "zh")):
        hosts = [page.site.host for page in drawn if page.language.name == language]
        assert all(host.startswith(code) and host.endswith(".example") for host in hosts)
        assert len(set(hosts)) > 100
        # by Zipf's law, the first of 256 sites has 16 % of the pages
        assert abs(hosts.count(f"{code}000.example") / len(hosts) - 0.163) < 0.05


def test_a_near_miss_only_shares_site_and_advert() -> None:
    maker = PageMaker(7, "mixed", 100, 0.5, in_files=False)
    for number in range(50):
        page = maker.page(Stream(7, "pages", number))
        other = maker.near_miss(Stream(7, "others", number), page)
        assert (other.site, other.language, other.advert) == (page.site, page.language, page.advert)
        assert other.title != page.title
        assert other.paragraphs != page.paragraphs
        shared = {text for _, text in page.blocks()} & {text for _, text in other.blocks()}
        assert shared == {*page.site.navigation, page.site.footer, page.advert} - {""}


def test_sites_and_adverts_depend_on_seed_language_and_number() -> None:
    web = Web(1)
    sites = [web.site(language, n) for language in (english(), chinese()) for n in range(SITES)]
    assert len({site.host for site in sites}) == 2 * SITES
    assert len({site.footer for site in sites}) == 2 * SITES
    adverts = [web.advert(english(), number) for number in range(ADVERTS)]
    assert len(set(adverts)) == ADVERTS
    assert all(12 <= len(slow_tokens(advert)) <= 24 for advert in adverts)
    again = Web(1)
    assert [again.advert(english(), number) for number in range(ADVERTS)] == adverts
    assert again.site(chinese(), 5) == web.site(chinese(), 5)
    assert Web(2).site(chinese(), 5) != web.site(chinese(), 5)
    choices = Choices(Stream(1, "any"))
    assert {web.any_advert(english(), choices) for _ in range(1000)} == set(adverts)
