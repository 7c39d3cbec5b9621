"""Text and HTML in every encoding, read back by the standard library's parser."""

import dataclasses
import re

import pytest

from data_gen.markup import ENCODINGS, encodings, to_html, to_html_bytes, to_text
from data_gen.pages import Page, PageMaker
from data_gen.streams import Stream
from tests.data_gen.document_oracles import body_text, decoded, slow_tokens

languages = pytest.mark.parametrize("language", ["english", "chinese"])


def pages(language: str, encoding: str = "plain") -> list[Page]:
    maker = PageMaker(5, language, 150, 1.0, in_files=True)
    drawn = [maker.page(Stream(5, "pages", number)) for number in range(40)]
    return [dataclasses.replace(page, encoding=encoding) for page in drawn]


def shown(page: Page) -> list[str]:
    return [token for _, text in page.blocks() for token in slow_tokens(text)]


@languages
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_all_encodings_have_the_same_tokens(language: str, encoding: str) -> None:
    for page in pages(language, encoding):
        document = to_html(page)
        assert slow_tokens(body_text(document)) == shown(page)
        assert slow_tokens(body_text(decoded(to_html_bytes(page)))) == shown(page)
        if encoding in ("plain", "spaces", "rewritten"):
            assert slow_tokens(to_text(page)) == shown(page)


def test_a_plain_text_has_its_blocks_between_blank_lines() -> None:
    for page in pages("english"):
        assert to_text(page).split("\n\n") == [text for _, text in page.blocks()]


def test_an_html_document_marks_its_parts() -> None:
    for page in pages("english"):
        document = to_html(page)
        assert document.count("<li>") == len(page.site.navigation)
        assert f"<title>{page.title}</title>" in document
        assert f"<h1>{page.title}</h1>" in document
        assert ("<aside" in document) == bool(page.advert)
        assert '<html lang="en">' in document
        assert f"<p>{page.site.footer.replace('&', '&amp;')}</p></footer>" in document
        assert re.findall(r"&(?!amp;)", document) == []


@languages
def test_entities_leave_ascii_only(language: str) -> None:
    documents = [to_html(page) for page in pages(language, "entities")]
    assert all(document.isascii() for document in documents)
    assert all("&copy;" in document for document in documents)
    assert any("&eacute;" in document for document in documents) == (language == "english")
    assert any(re.search("&#[0-9]{5};", document) for document in documents) == (
        language == "chinese"
    )


@pytest.mark.parametrize(
    ("language", "charset"), [("english", "windows-1252"), ("chinese", "gb18030")]
)
def test_a_charset_is_declared_and_used(language: str, charset: str) -> None:
    for page in pages(language, "charset"):
        data = to_html_bytes(page)
        assert f'<meta charset="{charset}">'.encode() in data
        assert data.decode(charset) == to_html(page)
        with pytest.raises(UnicodeDecodeError):
            data.decode()


@languages
def test_other_files_are_utf_8(language: str) -> None:
    for encoding in set(ENCODINGS) - {"charset"}:
        for page in pages(language, encoding):
            data = to_html_bytes(page)
            assert b'<meta charset="utf-8">' in data
            assert data.decode() == to_html(page)


def test_spaces_differ_from_plain_ones() -> None:
    for page in pages("english", "spaces"):
        text = to_text(page)
        assert text.startswith("\u3000\u3000")
        assert "\u00a0" in text
        assert ".\r\n\t" in text
        assert "\n" not in text.replace("\r\n", "")


def test_which_encodings_there_are() -> None:
    (page, *_) = pages("english")
    assert set(encodings(page)) == set(ENCODINGS) - {"plain"}
    line = dataclasses.replace(page, in_file=False)
    assert set(encodings(line)) == {"spaces", "rewritten", "entities"}
    text = dataclasses.replace(line, html=False)
    assert set(encodings(text)) == {"spaces", "rewritten"}
