"""The text of HTML, by Resiliparse: the main content, or the whole page.

Main content is the default for what it does to near-duplicates. Of 250 pages of a library's
reference in two releases, 99 % are similar by main content (Jaccard of word 3-grams from 0.8 up)
and 89 % by the whole page; of 250 short ones 73 and 38 %; of two manuals 97 to 99 % by either.
Different pages are as rarely similar by either. Main content takes two or three times
as long. Furniture that is named as such would be left in: ``python -m bench.boilerplate``. Of all
the time, 0.4 to 0.5 are Resiliparse's for main content: 10 to 25 MB a second, of documentation.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

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

_DEPTH_BLOCK = 4096
"""Characters of which tags are counted at once; a tag takes at least three."""

_MAX_ATTRIBUTES = 4_000
"""The parser's time is quadratic in those of one tag: 17 s for 100,000."""

_SHORT_PAGE = 1 << 15
"""Pages up to this size are not searched for tags of too many attributes (4 ns a character): they
parse fast anyway."""

_CONTAINERS = "div,section,aside,ins,p,span,ul,ol,li,form,figure,iframe,table,td,a"
"""Elements that may be page furniture: classes of body, main and article mean something else."""

_FURNITURE_NAMES = frozenset([
    "ad", "ads", "adv", "advert", "adverts", "advertisement", "advertisements", "advertising",
    "advertorial", "adsbygoogle", "adsense", "ad-banner", "ad-block", "ad-box", "ad-container",
    "ad-frame", "ad-holder", "ad-label", "ad-placeholder", "ad-slot", "ad-space", "ad-unit",
    "ad-wrap", "ad-wrapper", "ad-zone", "ads-box", "ads-container", "ads-wrapper", "adbox",
    "adslot", "adunit", "ad_banner", "ad_box", "ad_container", "ad_slot", "ad_unit",
    "ad_wrapper", "article-ad", "banner-ad", "banner-ads", "bottom-ad", "content-ad", "dfp-ad",
    "gpt-ad", "header-ad", "inline-ad", "leaderboard-ad", "native-ad", "sidebar-ad", "text-ad",
    "top-ad", "video-ad", "sponsor", "sponsored", "sponsored-content", "sponsored-post",
    "promoted", "promoted-content", "promo-box", "outbrain", "taboola", "cookie-bar",
    "cookie-box", "cookie-law-info-bar", "cookie-message", "cookie-popup", "cookies-banner",
    "cookiebar", "gdpr", "gdpr-banner", "consent-banner", "privacy-banner", "related-content",
    "read-next", "you-may-like", "you-may-also-like", "more-from", "more-stories", "share",
    "share-bar", "share-buttons", "share-links", "sharing", "addtoany", "addthis_toolbox",
    "sharedaddy", "social", "social-bar", "social-buttons", "social-icons", "social-links",
    "social-media", "social-share", "newsletter", "newsletter-box", "newsletter-form",
    "newsletter-signup", "subscribe", "subscribe-box", "subscribe-form",
])  # fmt: skip
"""Classes and ids; Resiliparse finds some of them itself, but not at all depths, and no .ad."""

_CONSENT = "cookie", "gdpr", "consent", "privacy"
"""What names of notices that may be long begin with."""

_FURNITURE_IDS = (
    "div-gpt-ad", "google_ads", "taboola-", "outbrain",
    "onetrust-", "cybotcookiebot", "cookie-law-info",
)  # fmt: skip
"""What ids of furniture begin with."""

_ADVERTS = {
    "data-ad": "[data-ad],[data-ad-slot],[data-ad-client],[data-ad-unit]",
    "aria-label": "[aria-label=advertisement i]",
}
_LANDMARKS = ",".join(
    f"[role={role} i]"
    for role in (
        "banner", "complementary", "contentinfo", "navigation", "search", "dialog", "alertdialog"
    )
)  # fmt: skip
"""CSS selectors of what is not main content; of adverts, by the attribute."""

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

_FEW_OF_MAIN = 3 * _FEW_WORDS
"""Main content of more words is not looked at again."""

_AROUND = ["nav", "header", "footer", "aside", _LANDMARKS]
_CONTENT = "main,[role=main],article,#content,#main,.content"

_NO_PROSE = "a,button,iframe,noscript,script,select,style,template,textarea"

# names of attributes are in one case each in nearly all pages: five times as fast
_NAMES = [
    re.compile(rf"""{attribute}\s*=\s*["']?([^"'>]*)""")
    for attribute in ("class", "id", "CLASS", "ID")
]
# elements that do not nest, or need no end tag
_NESTING = re.compile(
    "<(/?)(?!(?:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source"
    r"|td|th|tr|track|wbr)\b)[a-zA-Z]"
)
# values beyond the maximum number of attributes are not matched: each takes memory
_TAG = re.compile(
    rf"""<[a-zA-Z][^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*){{0,{_MAX_ATTRIBUTES + 1}}}"""
)
# the common beginning first: twice as fast. Without a and nobr, which close one another
_FORMATTING_NAME = "(?=[bcefistuBCEFISTU])(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)"
_FORMATTING_START = re.compile(rf"<{_FORMATTING_NAME}[\t\n\f\r />]", re.IGNORECASE | re.ASCII)
_FORMATTING, _FORMATTING_END = (
    re.compile(rf"{start}{_FORMATTING_NAME}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)
    for start in ("<", "</")
)
_SELECT = re.compile(r"<select[\t\n\f\r />]", re.IGNORECASE)
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


def text_of_html(html: str, extent: HtmlText) -> PageText:
    """Return the text of ``html``; scripts and styles are not text.

    Main content is that of Resiliparse, without the elements whose class, id or role marks adverts,
    notices of cookies, related pages, or links for sharing; those that hold a long text stay. Where
    it has less than half of the page's text outside of links, or the page is nested more than a
    thousand deep, it is the text of the whole page. Of a body with next to nothing but links or
    form fields it is the text of these. Raises HtmlError for more than 500,000 tags or
    a tag of thousands of attributes.
    """
    from resiliparse.parse.html import HTMLTree

    _check(html)
    html = _renamed(as_html(html))
    tree = HTMLTree.parse(html)
    # what scripts would replace, and forms, where there is nothing else
    page = _extracted(tree) or _extracted(tree, noscript=True, form_fields=True)
    if extent == "page" or _is_deep(html):
        return PageText(page, 0)
    text = _main_content(tree, html, page)
    return PageText(text, max(0, 1 - len(text) / len(page)) if page else 0)


def _main_content(tree: HTMLTree, html: str, page: str) -> str:
    """Return the main content, or ``page`` if it is less than half of the text."""
    adverts, others = _furniture(html)
    if adverts:
        _rename_long(tree, adverts, 8 * len(html))
    # our names of furniture are the likelier mistake
    for selectors in dict.fromkeys([",".join(filter(None, (adverts, others))), ""]):
        named = [selectors] if selectors else []
        text = _extracted(tree, main_content=True, skip_elements=named)
        if _is_most(tree, text, page, named):
            is_short = _words(text) < _FEW_OF_MAIN
            return (is_short and _text_of_lists(tree, named)) or text
    return _text_of_lists(tree, named) or page


def _text_of_lists(tree: HTMLTree, named: list[str]) -> str:
    """Return the text of a body that consists of links or form fields; "" of any other.

    Pages of one site may have nothing else in which they differ. A stub in an element for content
    is no such body, whatever stands beside it.
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
    return words > 0 and all(
        words >= share * _words(_extracted(tree, skip_elements=["a", *skipped]))
        for share, skipped in ((_MIN_MAIN, named), (_MIN_MAIN_OF_ALL, []))
    )


def _words(text: str) -> int:
    """Return the number of words, or what it would be without the spaces that some scripts lack."""
    return max(len(text.split()), len(text) // _MAX_WORD)


def _extracted(tree: HTMLTree, **options: Any) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    # without formatting: lists nested n deep are indented by 2n each, 25 MB for 45 KB of HTML
    return extract_plain_text(tree, preserve_formatting=False, list_bullets=False, **options)


def _furniture(html: str) -> tuple[str, str]:
    """Return CSS selectors of the furniture in ``html``: of adverts and the like, and of others.

    Only for names that are in the page: selectors for all of them take as long as the rest.
    """
    values: set[str] = set()
    for pattern in _NAMES:
        values.update(pattern.findall(html))
    tokens = set(" ".join(values).lower().split())
    adverts = [selector for key, selector in _ADVERTS.items() if _has(html, key)]
    others = [_LANDMARKS] if _has(html, "role") else []
    for name in sorted(tokens & _FURNITURE_NAMES):
        selector = f":is([class~={name} i],[id={name} i]):is({_CONTAINERS})"
        (others if name.startswith(_CONSENT) else adverts).append(selector)
    if any(token.startswith(_FURNITURE_IDS) for token in tokens):
        others += [f"[id^={name} i]" for name in _FURNITURE_IDS]
    return ",".join(adverts), ",".join(others)


def _has(html: str, word: str) -> bool:
    return word in html or word.upper() in html


def _rename_long(tree: HTMLTree, selector: str, max_characters: int) -> None:
    """Take the names from elements of a long text, so that nobody takes them for furniture.

    Stops after ``max_characters``, which nested elements may repeat.
    """
    document = tree.document
    assert document is not None
    for node in document.query_selector_all(selector):
        text = node.text or ""
        max_characters -= len(text)
        if max_characters < 0:
            break
        if len(text) > _MAX_FURNITURE:
            others = node.query_selector_all(_NO_PROSE)
            prose = _length(text) - sum(_length(other.text or "") for other in others)
            if prose > _MAX_FURNITURE:
                for name in node.attribute_names:
                    node.remove_attribute(name)


def _length(text: str) -> int:
    """Return the length of a text with white space as it is displayed."""
    return len(" ".join(text.split()))


def _check(html: str) -> None:
    """Raise HtmlError for what the parser would spend minutes or gigabytes on."""
    if html.count("<") > _MAX_TAGS:
        raise HtmlError(f"its HTML has more than {_MAX_TAGS} tags")
    if len(html) > _SHORT_PAGE:
        # a third of the time of a loop over matches
        for tag in [tag for tag in _TAG.findall(html) if len(tag) > _MAX_ATTRIBUTES]:
            if _attributes(tag) > _MAX_ATTRIBUTES:
                raise HtmlError(f"its HTML has a tag of more than {_MAX_ATTRIBUTES} attributes")


def _renamed(html: str) -> str:
    """Return ``html`` with elements renamed where so many of them make parsing quadratic.

    The text of the page stays the same, but for source code in an xmp or title element of its body;
    of tags that are not nested well, main content may be other parts of it. Names in comments,
    scripts and values may change too, which are not text.
    """
    tags = html.count("<")
    if tags > _MAX_OPTIONS and _SELECT.search(html) and _count(_OPTION, html) > _MAX_OPTIONS:
        # neither element changes the text, and a select element ignores labels
        html = _OPTION.sub(r"\1label", html)
    if tags * tags > _MAX_REOPENED:
        starts = Counter(_FORMATTING_START.findall(html))
        # of equal elements, those without attributes, at most three are reopened
        reopened = sum(
            min(count, 3) if start.endswith(">") else count for start, count in starts.items()
        )
        if reopened * tags > _MAX_REOPENED:
            # an inline element that is not reopened; its start tag also ends an svg element
            # a constant each: twice as fast as one pattern with a group
            html = _FORMATTING_END.sub("</var", _FORMATTING.sub("<var", html))
    return html


def _count(pattern: re.Pattern[str], html: str) -> int:
    return sum(1 for _ in pattern.finditer(html))


def _attributes(tag: str) -> int:
    """Return at least about how many attributes there are in a tag."""
    return len(_ATTRIBUTE_ENDS.findall(_QUOTED.sub("=", tag)))


def _is_deep(html: str) -> bool:
    """Return whether elements may be nested too deep."""
    # as if all elements nested: ten times as fast, and enough for most pages
    highest = depth = 0
    for at in range(0, len(html), _DEPTH_BLOCK):
        ends = html.count("</", at, at + _DEPTH_BLOCK)
        starts = html.count("<", at, at + _DEPTH_BLOCK) - ends
        highest = max(highest, depth + starts)
        depth = max(depth + starts - ends, starts)
    if highest <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING.finditer(html):
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False
