"""Pages as text and as HTML, in every encoding that a change may give them."""

from __future__ import annotations

import html
from html.entities import codepoint2name

from data_gen.pages import Page

# How a page is written. Whatever it is, the text after entities are resolved, bytes decoded and
# Unicode normalised (NFKC) has the same tokens.
# - plain
# - spaces: paragraphs indented by wide spaces, others no-break spaces, tabs or line breaks
# - rewritten: Language.rewritten, with those spaces
# - entities: every character beyond ASCII as an entity, by name or number; of HTML
# - charset: in an encoding from before UTF-8; of HTML that is a file, for JSONL holds no bytes
ENCODINGS = ("plain", "spaces", "rewritten", "entities", "charset")

_NAMED = {point: f"&{name};" for point, name in codepoint2name.items() if point > 127}
_ARTICLE = {
    "title": "<h1>{}</h1>",
    "byline": '<p class="byline">{}</p>',
    "paragraph": "<p>{}</p>",
    "advert": '<aside class="advert"><p>{}</p></aside>',
}


def encodings(page: Page) -> tuple[str, ...]:
    """Return the encodings that a page can have other than plain."""
    return ENCODINGS[1 : 3 + page.html + (page.html and page.in_file)]


def to_text(page: Page) -> str:
    """Return a page as text, its blocks parted by blank lines."""
    texts = [_written(text, page) for _, text in page.blocks()]
    return ("\n\n" if page.encoding == "plain" else "\r\n\r\n").join(texts)


def to_html(page: Page) -> str:
    """Return a page as an HTML document; its body shows the blocks, in order."""
    blocks = [
        (role, html.escape(_written(text, page), quote=False)) for role, text in page.blocks()
    ]
    items = [text for role, text in blocks if role == "item"]
    lines = [
        "<!DOCTYPE html>",
        f'<html lang="{page.language.code}">',
        f'<head><meta charset="{_charset(page)}"><title>{page.title}</title></head>',
        "<body>",
        "<nav><ul>",
        *(f'<li><a href="/{place}/">{item}</a></li>' for place, item in enumerate(items)),
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
    """Return a page as an HTML file, in the character set that it declares."""
    return to_html(page).encode(_charset(page), "xmlcharrefreplace")


def _charset(page: Page) -> str:
    return page.language.charset if page.encoding == "charset" else "utf-8"


def _written(text: str, page: Page) -> str:
    if page.encoding == "rewritten":
        text = page.language.rewritten(text)
    if page.encoding in ("spaces", "rewritten"):
        return "\u3000\u3000" + text.replace(", ", ",\u00a0").replace(". ", ".\r\n\t")
    return text
