"""What is in a page of HTML: what the pass before the parser finds, and the names it looks for."""

from __future__ import annotations

import msgspec

FURNITURE_NAMES = frozenset([
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

FURNITURE_IDS = (
    "div-gpt-ad", "google_ads", "taboola-", "outbrain",
    "onetrust-", "cybotcookiebot", "cookie-law-info",
)  # fmt: skip
"""What ids of furniture begin with."""


class Markup(msgspec.Struct, array_like=True, frozen=True):
    """What is in a page, found in one pass before it is parsed.

    Attributes:
        tags: How many.
        longest: run of bytes without < or without >.
        options: Their tags, 0 without a select element.
        reopened: About how many formatting elements the parser would open again.
        depth, xml_depth: The greatest of elements, by the rules of HTML, and of XML.
        may_be_xml: Whether it has an empty element, a CDATA section, or a namespace.
        has_role, has_label, has_advert_data: Whether it has these attributes.
        furniture: Names and beginnings of furniture that are in its classes and ids.
    """

    tags: int
    longest: int
    options: int
    reopened: int
    depth: int
    xml_depth: int
    may_be_xml: bool
    has_role: bool
    has_label: bool
    has_advert_data: bool
    furniture: list[str]
