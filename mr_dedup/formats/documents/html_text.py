"""The text of HTML, by Resiliparse: the main content, or the whole page.

Main content is the default for what it does to near-duplicates. Of 250 pages of a library's
reference in two releases, 99 % are similar by main content (Jaccard of word 3-grams from 0.8 up)
and 89 % by the whole page; of 250 short ones 73 and 38 %; of two manuals 97 to 99 % by either.
Different pages are as rarely similar by either. Main content takes two or three times
as long: 20 to 40 MB of HTML a second, a fifth to a half of it for furniture that is named as such,
which without it was left in: ``python -m bench.boilerplate``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from mr_dedup.formats.documents.options import HtmlText

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

_SHORT_PAGE = 1 << 15
"""Pages up to this size are not searched for tags of too many attributes (4 ns a character): they
parse fast anyway."""

_CONTAINERS = "div,section,aside,ins,p,span,ul,ol,li,form,figure,iframe,table,td,a"
"""Elements that may be page furniture: classes of body, main and article mean something else."""

_FURNITURE_NAMES = [
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
]  # fmt: skip
"""Classes and ids; Resiliparse finds some of them itself, but not at all depths, and no .ad."""

_FURNITURE = [
    # first the attributes that most elements lack: 1.6 times as fast
    ":is([class],[id])"
    f":is({','.join(f'[class~={name} i],[id={name} i]' for name in _FURNITURE_NAMES)})"
    f":is({_CONTAINERS})",
    "[id^=div-gpt-ad i]", "[id^=google_ads i]", "[id^=taboola- i]", "[id^=outbrain i]", "[data-ad]",
    "[data-ad-slot]", "[data-ad-client]", "[data-ad-unit]", "[aria-label=advertisement i]",
    "[id^=onetrust- i]", "[id^=CybotCookiebot i]", "[id^=cookie-law-info i]",
    "[role=banner i]", "[role=complementary i]", "[role=contentinfo i]", "[role=navigation i]",
    "[role=search i]", "[role=dialog i]", "[role=alertdialog i]",
]  # fmt: skip
"""What is not main content, as CSS selectors: adverts, consent, related pages, sharing, sign-up.

In any case of letters, which .name and #name mind in pages with a doctype: 2 to 10 % more time.
"""

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
_FORMATTING = re.compile(rf"(</?){_FORMATTING_NAME}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)
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
        cut_share: of the characters of the page's text, those that are not in it.
    """

    text: str
    cut_share: float = 0.0


def text_of_html(html: str, extent: HtmlText) -> PageText:
    """Return the text of ``html``; scripts and styles are not text.

    Main content is that of Resiliparse, without the elements whose class, id or role marks adverts,
    notices of cookies, related pages, or links for sharing. Where it is
    empty, or the page nested more than a thousand deep, it is the text of the whole page. Raises
    HtmlError for more than 500,000 tags or a tag of thousands of attributes.
    """
    from resiliparse.extract.html2text import extract_plain_text

    _check(html)
    html = _renamed(html)
    # without formatting: lists nested n deep are indented by 2n each, 25 MB for 45 KB of HTML
    if extent == "main" and not _is_deep(html):
        text = extract_plain_text(
            html,
            preserve_formatting=False,
            list_bullets=False,
            main_content=True,
            skip_elements=_FURNITURE,
        )
        if text.strip():
            return PageText(text)
    return PageText(extract_plain_text(html, preserve_formatting=False, list_bullets=False))


def _check(html: str) -> None:
    """Raise HtmlError for what the parser would spend minutes or gigabytes on."""
    if html.count("<") > _MAX_TAGS:
        raise HtmlError(f"its HTML has more than {_MAX_TAGS} tags")
    if len(html) > _SHORT_PAGE:
        for tag in _TAG.finditer(html):
            is_long = tag.end() - tag.start() > _MAX_ATTRIBUTES
            if is_long and _attributes(tag.group()) > _MAX_ATTRIBUTES:
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
            html = _FORMATTING.sub(r"\1var", html)
    return html


def _count(pattern: re.Pattern[str], html: str) -> int:
    return sum(1 for _ in pattern.finditer(html))


def _attributes(tag: str) -> int:
    """Return at least about how many attributes there are in a tag."""
    return len(_ATTRIBUTE_ENDS.findall(_QUOTED.sub("=", tag)))


def _is_deep(html: str) -> bool:
    """Return whether elements may be nested too deep."""
    if html.count("<") <= _MAX_DEPTH:
        return False
    depth = 0
    for tag in _NESTING.finditer(html):
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False
