"""``python -m bench.boilerplate``: how well main content is separated from boilerplate.

Boilerplate is planted into pages of data_gen with the markup of common templates: adverts, cookie
notices, related pages, sharing links, newsletter forms. Printed are precision and recall of the
extracted words, and the share of the boilerplate of each kind that is removed: by the whole page,
by the main content of Resiliparse, and by ours.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence

from resiliparse.extract.html2text import extract_plain_text

from data_gen.markup import to_html
from data_gen.pages import Page, PageMaker
from data_gen.streams import Stream
from mr_dedup.formats.documents.html_text import text_of_html

BOILERPLATE = {
    "advert": [
        '<div class="ad">{}</div>', '<div class="ads">{}</div>', '<div class="advert">{}</div>',
        '<div class="ad-slot ad-slot--top">{}</div>', '<div id="div-gpt-ad-12">{}</div>',
        '<ins class="adsbygoogle" data-ad-client="x">{}</ins>', '<p class="sponsored">{}</p>',
        '<section aria-label="Advertisement">{}</section>', '<div class="banner_ad_300">{}</div>',
        '<aside class="promo">{}</aside>', '<div class="OUTBRAIN">{}</div>',
        '<div class="commercial-unit">{}</div>', '<div class="c-ad c-ad--wide">{}</div>',
    ],
    "cookies": [
        '<div class="cookie-banner">{}</div>', '<div id="onetrust-banner-sdk">{}</div>',
        '<div id="CybotCookiebotDialog" role="dialog">{}</div>', '<div class="gdpr">{}</div>',
        '<div id="cookie-law-info-bar">{}</div>', '<div class="cc-window cc-banner">{}</div>',
        '<div role="dialog" aria-label="Privacy">{}</div>', '<div class="cookie-notice">{}</div>',
    ],
    "related": [
        '<div class="related-posts"><ul><li><a href="/a">{}</a></li></ul></div>',
        '<section class="read-next"><h3>{}</h3></section>', '<div class="you-may-like">{}</div>',
        '<aside><a href="/b">{}</a></aside>', '<div class="recommended">{}</div>',
        '<div class="jp-relatedposts">{}</div>', '<div class="teaser-list">{}</div>',
    ],
    "sharing": [
        '<div class="share-buttons">{}</div>', '<ul class="social-links"><li>{}</li></ul>',
        '<div class="newsletter-signup"><form>{}</form></div>', '<div class="subscribe">{}</div>',
        '<div class="addtoany_share_save_container">{}</div>', '<div class="sharedaddy">{}</div>',
    ],
    "site": [
        '<div role="banner">{}</div>', '<div class="breadcrumbs">{}</div>',
        '<div class="sidebar">{}</div>', '<div role="complementary">{}</div>',
        '<div id="footer">{}</div>', '<nav>{}</nav>', '<div class="site-header">{}</div>',
    ],
}  # fmt: skip
"""Markup of common templates by kind, whether the extractor knows the names or not."""

_WRAPPERS = ["{}", "<div>{}</div>", '<div class="page"><div class="row">{}</div></div>']
_MAINS = ["main", "div", 'div id="content"', "article"]


def planted(page: Page, rng: random.Random) -> tuple[str, Counter[str]]:
    """Return the HTML of a page with boilerplate, and the counts of the words of its article.

    Words of boilerplate consist of its kind and a number.
    """
    html = to_html(page)
    for kind, templates in BOILERPLATE.items():
        words = " ".join(f"{kind}{rng.randrange(10**6)}" for _ in range(rng.randrange(5, 25)))
        block = rng.choice(templates).format(words)
        marks = ["</h1>", "</p>"] if kind in ("advert", "related", "sharing") else ["</nav>"]
        mark = rng.choice(marks)
        offsets = [at for at in range(len(html)) if html.startswith(mark, at)]
        # not into the footer or the advert
        at = rng.choice(offsets[: max(1, len(offsets) - 2)]) + len(mark)
        html = html[:at] + block + html[at:]
    tag = rng.choice(_MAINS)
    html = html.replace("<main>", f"<{tag}>").replace("</main>", f"</{tag.split()[0]}>")
    body = rng.choice(_WRAPPERS)
    begin, end = html.index("<body>") + len("<body>"), html.index("</body>")
    html = html[:begin] + body.format(html[begin:end]) + html[end:]
    article = [text for role, text in page.blocks() if role in ("title", "byline", "paragraph")]
    return html, Counter(" ".join(article).split())


def resiliparse_main(html: str) -> str:
    """Return the main content by Resiliparse."""
    return extract_plain_text(
        html, preserve_formatting=False, list_bullets=False, main_content=True
    )


READERS: dict[str, Callable[[str], str]] = {
    "whole page": lambda html: text_of_html(html, "page").text,
    "Resiliparse's main content": resiliparse_main,
    "`--html main`": lambda html: text_of_html(html, "main").text,
}


def measured(pages: int, seed: int, read: Callable[[str], str]) -> tuple[float, float, list[float]]:
    """Return precision and recall of words, and the share of each kind of boilerplate removed."""
    maker = PageMaker(seed, "english", 300, 1.0, in_files=True)
    rng = random.Random(seed)
    positives = predicted = true = 0
    of_kind: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for number in range(pages):
        html, article = planted(maker.page(Stream(seed, "furniture", number)), rng)
        words = Counter(read(html).split())
        positives += (words & article).total()
        predicted += words.total()
        true += article.total()
        for kind in BOILERPLATE:
            of_kind[kind] += html.count(f"{kind}") > 0
            left[kind] += any(word.startswith(kind) and word[-1].isdigit() for word in words)
    return (
        positives / predicted,
        positives / true,
        [1 - left[kind] / of_kind[kind] for kind in BOILERPLATE],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.boilerplate", description=__doc__)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    print("| text | precision | recall | " + " | ".join(BOILERPLATE) + " |")
    print("|---" * (3 + len(BOILERPLATE)) + "|")
    for name, read in READERS.items():
        precision, recall, removed = measured(arguments.pages, arguments.seed, read)
        shares = " | ".join(f"{share:.2f}" for share in removed)
        print(f"| {name} | {precision:.3f} | {recall:.3f} | {shares} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
