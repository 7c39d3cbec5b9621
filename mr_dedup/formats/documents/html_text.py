"""The text of HTML, by Resiliparse: the main content, or the whole page.

Main content is the default for what it does to near-duplicates. Of 250 pages of a library's
reference in two releases, 99 % are similar by main content (Jaccard of word 3-grams from 0.8 up)
and 89 % by the whole page; of 250 short ones 73 and 38 %; of two manuals 97 to 99 % by either.
Different pages are as rarely similar by either. Main content takes two or three times
as long. Furniture that is named as such would be left in: ``python -m bench.boilerplate``.

Of all the time, two thirds to four fifths are what Resiliparse takes for the main content alone,
and a sixth to a fifth is the text of the whole page, for the share that is cut. To compute that
from the text of the tree's nodes was wrong by up to 0.24, and saved 0.05 of the time.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from mr_dedup.formats.documents.markup import FURNITURE_IDS, FURNITURE_NAMES, Markup
from mr_dedup.formats.documents.options import HtmlText
from mr_dedup.formats.documents.xhtml import as_html

if TYPE_CHECKING:
    from resiliparse.parse.html import HTMLTree

_MAX_TAGS = 500_000
"""Some 600 bytes of memory each, if the parser makes one element of each: see _MAX_REOPENED."""

_MAX_REOPENED = 100_000
"""Elements that may be made of formatting elements which are not closed.

The parser opens them again in each paragraph: 400 before 4,000 paragraphs, 18 KB of HTML, are
1.6 million elements, 676 MB and 11 s.
"""

_MAX_OPTIONS = 1_000
"""The parser's time is quadratic in the options of one select element: 7 s for 30,000."""

_MAX_DEPTH = 1_000
"""Finding the main content takes a time of nodes x depth: 10 s for 20,000 nested elements."""

_MAX_ATTRIBUTES = 4_000
"""The parser's time is quadratic in those of one tag: 17 s for 100,000."""

_MIN_LONG = 1 << 13
"""Bytes without < or without > from which on a page is searched for tags of too many attributes,
which takes 9 ns a character; one that hides both in its values is left to the bound of time."""

_CONTAINERS = "div,section,aside,ins,p,span,ul,ol,li,form,figure,iframe,table,td,a"
"""Elements that may be page furniture: classes of body, main and article mean something else."""

_CONSENT = "cookie", "gdpr", "consent", "privacy"
"""What names of notices that may be long begin with."""

_ADVERT_DATA = "[data-ad],[data-ad-slot],[data-ad-client],[data-ad-unit]"
_ADVERT_LABEL = "[aria-label=advertisement i]"
_LANDMARKS = ",".join(
    f"[role={role} i]"
    for role in (
        "banner", "complementary", "contentinfo", "navigation", "search", "dialog", "alertdialog"
    )
)  # fmt: skip
"""CSS selectors of adverts, and of what else is not main content."""

_MAX_FURNITURE = 400
"""Characters outside of links; an element of more is content, whatever it is named."""

_MIN_MAIN, _MIN_MAIN_OF_ALL = 1 / 2, 2 / 5
"""Shares of the words outside of links that main content has, or the page is taken whole: of those
that are not in furniture by name, and of all. Of 800 pages with planted furniture the share of all
is below a half in 7 %, below 0.4 in 0.5 %, and nowhere below a third.
"""

_MAX_WORD = 12
"""Mean length of a word, from which on characters are counted."""

_FEW_WORDS = 10
"""Of a body outside of links and form fields: with fewer it consists of these."""

_MANY_LINKS = 10 * _FEW_WORDS
"""Words beside which a title makes no difference."""

_FEW_OF_MAIN = 3 * _FEW_WORDS
"""Main content of more words is not looked at again."""

_DESCRIPTIONS = {
    "meta[name=description i]": "content",
    "meta[property='og:title' i]": "content",
    "meta[property='og:description' i]": "content",
    "input": "alt",
    "svg,[role=img i]": "aria-label",
}
"""Attributes that say what a page shows, by selector; what images have is text anyway."""

_SOURCES = {
    "link[rel=canonical i]": "href",
    "meta[property='og:url' i]": "content",
    "img,source,video,audio,embed,iframe,frame": "src",
    "object": "data",
}
"""Attributes that say where it is, or is shown from."""

_AROUND = ["nav", "header", "footer", "aside", _LANDMARKS]
_CONTENT = "main,[role=main],article,#content,#main,.content"

_FIELDS = "label,button,textarea"
"""Elements of forms, without which a text is extracted, that pages have for content too: questions
and answers that open by a click, or source code."""

_MIN_FIELDS = 0.1
"""Pages that are equal but for less are similar."""

_FIELD = re.compile(r"<(?:label|button|textarea)\b", re.IGNORECASE)

_TEMPLATE, _UNSHOWN = (
    re.compile(rf"(</?)(?:{names})(?=[\t\n\f\r />])", re.IGNORECASE)
    for names in ("template", "template|frameset|iframe|noembed|noframes")
)
"""Elements whose text browsers show in another way, or in place of what they cannot."""

_SHADOW_ROOT = re.compile(r"<template\s[^<>]*shadowrootmode", re.IGNORECASE)
"""A template that browsers display."""

_COMMENT_OR_TAG = re.compile(r"<(?:!--|([a-z][^\s/>]*))", re.IGNORECASE)
_COMMENT_END = re.compile("--!?>")
_VALUE_OR_END = re.compile(r"""=\s*(["'])|/?>""")
_TAG_START = re.compile("<[a-z]", re.IGNORECASE)
_RAW = ("title", "script", "style", "xmp", "iframe", "noembed", "noframes")
"""Elements in which there are no tags."""

_NO_PROSE = "a,button,iframe,noscript,script,select,style,template,textarea"

# values beyond the maximum number of attributes are not matched: each takes memory
_TAG = re.compile(
    rf"""<[a-zA-Z][^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*){{0,{_MAX_ATTRIBUTES + 1}}}"""
)
# the common beginning first: twice as fast
_FORMATTING_NAME = "(?=[bcefistuBCEFISTU])(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)"
_FORMATTING, _FORMATTING_END = (
    re.compile(rf"{start}{_FORMATTING_NAME}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)
    for start in ("<", "</")
)
_OPTION = re.compile(r"(</?)option(?=[\t\n\f\r />])", re.IGNORECASE)
_QUOTED = re.compile(r"""="[^"]*"|='[^']*'""")
_ATTRIBUTE_ENDS = re.compile(r"""[\s/"']""")


class HtmlError(ValueError):
    """HTML that would take unbounded time or memory; its message is the reason of the reject."""


class PageText(NamedTuple):
    """The text of a page.

    Attributes:
        text: on one line.
        cut_share: of the characters of the page's text, those that are not in it; NaN of a text
            that is not of a page.
    """

    text: str
    cut_share: float = math.nan


def text_of_html(html: str, extent: HtmlText, markup: Markup | None = None) -> PageText:
    """Return the text of ``html``; scripts and styles are not text.

    Main content is that of Resiliparse, without the elements whose class, id or role marks adverts,
    notices of cookies, related pages, or links for sharing; those that hold a long text stay. Where
    it has less than half of the page's text outside of links, or the page is nested more than a
    thousand deep, it is the text of the whole page. Labels, buttons and text areas are text if one
    is long, or all together have a tenth of the page's. Of a body with next to nothing but links or
    form fields the text is that of these, and where a page has no other text, that of templates,
    ``noscript``, and what stands in for frames. If it has fewer than ten words outside of links,
    the title and descriptions are added, or if there are none, the URLs of what it shows.
    ``markup`` is what is in the page, found here by default. Raises HtmlError for more than 500,000
    tags, a tag of thousands of attributes, or where all elements are in a tag, comment, title,
    script or style that does not end.
    """
    from resiliparse.parse.html import HTMLTree

    if markup is None:
        # not where processes extract pages: NumPy takes longer to import than the parser
        from mr_dedup.formats.documents.html_scan import markup_of

        markup = markup_of(html.encode("utf-8", "replace"))
    _check(html, markup)
    depth = markup.depth
    if markup.may_be_xml:
        original, html = html, as_html(html)
        depth = markup.depth if html is original else markup.xml_depth
    if _SHADOW_ROOT.search(html):
        html = _TEMPLATE.sub(r"\1div", html)
    tree = HTMLTree.parse(_renamed(html, markup))
    page = _extracted(tree)
    is_deep = depth > _MAX_DEPTH
    has_fields = page and not is_deep and _FIELD.search(html)
    if has_fields and _opened_fields(tree, len(page), 8 * len(html)):
        page = _extracted(tree)
    # what scripts would replace, and forms, where there is nothing else
    page = page or _extracted(tree, noscript=True, form_fields=True)
    if not page:
        _require_ends(html)
        shown = _UNSHOWN.sub(r"\1div", html)
        if shown != html:
            other = HTMLTree.parse(_renamed(shown, markup))
            page = _extracted(other, noscript=True, form_fields=True)
            tree = other if page else tree
    text, cut_share = page, 0.0
    if extent == "main" and not is_deep:
        text = _main_content(tree, markup, 8 * len(html), page)
        cut_share = max(0, 1 - len(text) / len(page)) if page else 0
    if _words(text) < _MANY_LINKS and _words(_extracted(tree, skip_elements=["a"])) < _FEW_WORDS:
        text = " ".join(filter(None, [text, *_what_it_shows(tree)]))
    return PageText(text, cut_share)


def _what_it_shows(tree: HTMLTree) -> list[str]:
    """Return the title and descriptions, each once, or if there are none, the URLs.

    By these the pages of a gallery differ.
    """
    document = tree.document
    assert document is not None
    shown = [tree.title or ""]
    for attributes in (_DESCRIPTIONS, _SOURCES):
        for selector, name in attributes.items():
            shown += [node.getattr(name) or "" for node in document.query_selector_all(selector)[:]]
        shown = [" ".join(each.split()) for each in shown]
        if any(shown):
            break
    return list(dict.fromkeys(filter(None, shown)))


def _main_content(tree: HTMLTree, markup: Markup, max_characters: int, page: str) -> str:
    """Return the main content, or ``page`` if it is less than half of the text."""
    adverts, others = _furniture(markup)
    if adverts:
        _rename_long(tree, adverts, max_characters)
    selectors = ",".join(filter(None, (adverts, others)))
    assert tree.document is not None
    # our names of furniture are the likelier mistake
    for named in ([selectors], []) if selectors else ([],):
        text = _extracted(tree, main_content=True, skip_elements=named)
        if _is_most(tree, text, page, named):
            is_short = _words(text) < _FEW_OF_MAIN
            return (is_short and _text_of_lists(tree, named)) or text
        if named and tree.document.query_selector(selectors) is None:
            # nothing is named so
            break
    return _text_of_lists(tree, named) or page


def _text_of_lists(tree: HTMLTree, named: list[str]) -> str:
    """Return the text of a body that consists of links or form fields; "" of any other.

    Pages of one site may have nothing else in which they differ. A page with a short text in an
    element for main content is not such a body, also if it has many links elsewhere.
    """
    around = [*_AROUND, *named]
    prose = _words(_extracted(tree, skip_elements=["a", *around]))
    if prose >= _FEW_WORDS:
        return ""
    body = _extracted(tree, noscript=True, form_fields=True, skip_elements=around)
    if _words(body) < 2 * max(prose, _FEW_WORDS):
        return ""
    assert tree.document is not None
    content = tree.document.query_selector(_CONTENT)
    if content is None or content.query_selector("input") is not None:
        return body
    # the parser joins the words of elements
    sizes = [len("".join(text.split())) for text in (content.text or "", body)]
    return body if 2 * sizes[0] >= sizes[1] else ""


def _is_most(tree: HTMLTree, text: str, page: str, named: list[str]) -> bool:
    """Return whether main content ``text`` is most of a page, or of what furniture leaves of it."""
    if 2 * len(text) >= len(page) > 0:
        return True
    words = _words(text)
    shares = {_MIN_MAIN: named, _MIN_MAIN_OF_ALL: []} if named else {_MIN_MAIN: []}
    return words > 0 and all(
        words >= share * _words(_extracted(tree, skip_elements=["a", *skipped]))
        for share, skipped in shares.items()
    )


def _words(text: str) -> int:
    """Return the number of words, or what it would be without the spaces that some scripts lack."""
    return max(len(text.split()), len(text) // _MAX_WORD)


def _extracted(tree: HTMLTree, **options: Any) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    # without formatting: lists nested n deep are indented by 2n each, 25 MB for 45 KB of HTML
    return extract_plain_text(tree, preserve_formatting=False, list_bullets=False, **options)


def _furniture(markup: Markup) -> tuple[str, str]:
    """Return CSS selectors of the furniture in a page: of adverts and the like, and of others.

    Only for names that are in the page: selectors for all of them take as long as the rest.
    """
    adverts = [_ADVERT_DATA] if markup.has_advert_data else []
    adverts += [_ADVERT_LABEL] if markup.has_label else []
    others = [_LANDMARKS] if markup.has_role else []
    for name in sorted(FURNITURE_NAMES.intersection(markup.furniture)):
        selector = f":is([class~={name} i],[id={name} i]):is({_CONTAINERS})"
        (others if name.startswith(_CONSENT) else adverts).append(selector)
    if not FURNITURE_NAMES.issuperset(markup.furniture) or "outbrain" in markup.furniture:
        others += [f"[id^={name} i]" for name in FURNITURE_IDS]
    return ",".join(adverts), ",".join(others)


def _rename_long(tree: HTMLTree, selector: str, max_characters: int) -> None:
    """Take the names from elements of a long text, so that nobody takes them for furniture.

    Stops after ``max_characters``, which nested elements may repeat.
    """
    document = tree.document
    assert document is not None
    # as a list: to go through what is found takes quadratic time
    for node in document.query_selector_all(selector)[:]:
        text = node.text or ""
        max_characters -= len(text)
        if max_characters < 0:
            break
        if len(text) > _MAX_FURNITURE:
            others = node.query_selector_all(_NO_PROSE)[:]
            prose = _length(text) - sum(_length(other.text or "") for other in others)
            if prose > _MAX_FURNITURE:
                for name in node.attribute_names:
                    node.remove_attribute(name)


def _require_ends(html: str) -> None:
    """Raise HtmlError if a comment, tag or element that has no end takes elements for its text."""
    at = 0
    while found := _COMMENT_OR_TAG.search(html, at):
        name = (found[1] or "").lower()
        # <!--> is a whole comment
        end = _end_of_tag(html, found.end()) if name else _COMMENT_END.search(html, found.end() - 2)
        # self-closed ones have an end tag where they need one
        if end is not None and name in _RAW and end[0] == ">":
            end = re.compile(f"(?i)</{name}").search(html, end.end())
        if end is None:
            if _TAG_START.search(html, found.start() + 1):
                what = f"<{name}>" if name else "a comment"
                raise HtmlError(f"no text, and {what} without an end")
            return
        at = end.end()


def _end_of_tag(html: str, at: int) -> re.Match[str] | None:
    """Return the end of a tag, after its name and values in quotes; None if it has none."""
    while (found := _VALUE_OR_END.search(html, at)) is not None and found[1]:
        at = html.find(found[1], found.end()) + 1
        if not at:
            return None
    return found


def _opened_fields(tree: HTMLTree, page_characters: int, max_characters: int) -> bool:
    """Replace elements of forms that hold content by others; return whether there were some.

    Those with a long text, or all if together they have more than a tenth of the rest of the page,
    of ``page_characters``. Stops after ``max_characters``, which nested elements may repeat.
    """
    document = tree.document
    assert document is not None
    found = []
    for node in document.query_selector_all(_FIELDS)[:]:
        text = node.text or ""
        max_characters -= len(text)
        if max_characters < 0:
            break
        found.append((node, _length(text)))
    are_many = sum(length for _, length in found) >= _MIN_FIELDS * page_characters
    chosen = [node for node, length in found if are_many or length > _MAX_FURNITURE]
    for node in chosen:
        content, parent = tree.create_element("div"), node.parent
        assert content is not None
        assert parent is not None
        while (child := node.first_child) is not None:
            content.append_child(child)
        parent.replace_child(content, node)
    return bool(chosen)


def _length(text: str) -> int:
    """Return the length of a text with white space as it is displayed."""
    return len(" ".join(text.split()))


def _check(html: str, markup: Markup) -> None:
    """Raise HtmlError for what the parser would spend minutes or gigabytes on."""
    if markup.tags > _MAX_TAGS:
        raise HtmlError(f"its HTML has more than {_MAX_TAGS} tags")
    if markup.longest >= _MIN_LONG:
        # a third of the time of a loop over matches
        for tag in [tag for tag in _TAG.findall(html) if len(tag) > _MAX_ATTRIBUTES]:
            if _attributes(tag) > _MAX_ATTRIBUTES:
                raise HtmlError(f"its HTML has a tag of more than {_MAX_ATTRIBUTES} attributes")


def _renamed(html: str, markup: Markup) -> str:
    """Return ``html`` with elements renamed where so many of them make parsing quadratic.

    The text of the page stays the same, but for source code in an xmp or title element of its body;
    of tags that are not nested well, main content may be other parts of it. Names in comments,
    scripts and values may change too, which are not text.
    """
    if markup.options > _MAX_OPTIONS:
        # neither element changes the text, and a select element ignores labels
        html = _OPTION.sub(r"\1label", html)
    if markup.reopened > _MAX_REOPENED:
        # an inline element that is not reopened; its start tag also ends an svg element
        # a constant each: twice as fast as one pattern with a group
        html = _FORMATTING_END.sub("</var", _FORMATTING.sub("<var", html))
    return html


def _attributes(tag: str) -> int:
    """Return at least about how many attributes there are in a tag."""
    return len(_ATTRIBUTE_ENDS.findall(_QUOTED.sub("=", tag)))
