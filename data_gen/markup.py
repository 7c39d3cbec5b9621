"""Pages as text and as HTML, in several encodings."""

from __future__ import annotations

import html
from html.entities import codepoint2name

from data_gen.pages import Page

# Encodings of a page. With entities resolved, bytes decoded and Unicode normalised (NFKC), the text
# has the same tokens in all of them.
# - plain
# - spaces: paragraphs indented by wide spaces; no-break spaces, tabs and line breaks
# - rewritten: Language.rewritten, with the same spaces
# - entities: all characters outside ASCII as entities, named or numeric; HTML only
# - charset: an encoding older than UTF-8; HTML files only, for JSONL cannot contain bytes
ENCODINGS = ("plain", "spaces", "rewritten", "entities", "charset")

_NAMED = {point: f"&{name};" for point, name in codepoint2name.items() if point > 127}
_ARTICLE = {
    "title": "<h1>{}</h1>",
    "byline": '<p class="byline">{}</p>',
    "paragraph": "<p>{}</p>",
    "advert": '<aside class="advert"><p>{}</p></aside>',
}


def encodings(page: Page) -> tuple[str, ...]:
    """Return the encodings of a page other than plain."""
    return ENCODINGS[1 : 3 + page.html + (page.html and page.in_file)]


def to_text(page: Page) -> str:
    """Return a page as text, with blank lines between its blocks."""
    texts = [_encoded(text, page) for _, text in page.blocks()]
    return ("\n\n" if page.encoding == "plain" else "\r\n\r\n").join(texts)


def to_html(page: Page) -> str:
    """Return a page as an HTML document with its blocks in order."""
    blocks = [
        (role, html.escape(_encoded(text, page), quote=False)) for role, text in page.blocks()
    ]
    items = [text for role, text in blocks if role == "item"]
    lines = [
        "<!DOCTYPE html>",
        f'<html lang="{page.language.code}">',
        f'<head><meta charset="{_charset(page)}"><title>{page.title}</title></head>',
        "<body>",
        "<nav><ul>",
        *(f'<li><a href="/{number}/">{item}</a></li>' for number, item in enumerate(items)),
        "</ul></nav>",
        "<main>",
        *(_ARTICLE[role].format(text) for role, text in blocks if role in _ARTICLE),
        "</main>",
        *(f"<footer><p>{text}</p></footer>" for role, text in blocks if role == "footer"),
        "</body>",
        "</html>",
        "",
    ]
    document = "\n".join(lines)
    if page.encoding == "entities":
        document = document.translate(_NAMED).encode("ascii", "xmlcharrefreplace").decode()
    return document


def to_html_bytes(page: Page) -> bytes:
    """Return a page as an HTML file, in the charset that it declares."""
    return to_html(page).encode(_charset(page), "xmlcharrefreplace")


def _charset(page: Page) -> str:
    return page.language.charset if page.encoding == "charset" else "utf-8"


def _encoded(text: str, page: Page) -> str:
    if page.encoding == "rewritten":
        text = page.language.rewritten(text)
    if page.encoding in ("spaces", "rewritten"):
        return "\u3000\u3000" + text.replace(", ", ",\u00a0").replace(". ", ".\r\n\t")
    return text
