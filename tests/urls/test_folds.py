"""What forms fold, against sets of strings, and the reasons."""

import random
from collections import defaultdict

import pytest

from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.folds import FoldTally, reason

ALL = UrlForm(drop_index=True, drop_tracking=True, mirrors=(("a.org", "b.org"),))

PLAIN = b"http://a.org/x?b=1&a=2"
SPELLINGS = {
    b"http://a.org/x?a=2&b=1": "",
    PLAIN: "the order or escapes of parameters",
    b"HTTP://a.org/x?a=2&b=1": "capitals in the scheme",
    b"http://A.org/x?a=2&b=1": "capitals in the host",
    b"http://a.org./x?a=2&b=1": "a dot after the host",
    b"http://a.org:80/x?a=2&b=1": "a default port",
    b"http://b.org/x?a=2&b=1": "a mirror",
    b"http://a.org/y/../x?a=2&b=1": "dots or escapes in the path",
    b"http://a.org/%78?a=2&b=1": "dots or escapes in the path",
    b"http://a.org/x?a=2&b=1&utm_source=c": "tracking parameters",
    b"http://a.org/x?a=2&b=1#part": "a fragment",
    b" http://a.org/x?a=2&b=1 ": "blanks around it",
    b"http://a.org/x?gclid=3&a=2&b=1#part": "tracking parameters and a fragment",
    b"http://user@A.org:80/x": "capitals in the host and a default port",
    b"http://a.org": "no path",
    b"http://a.org?": "no path",
    b"http://a.org/x?": "an empty part",
    b"http://a.org/x/Index.HTML": "a default page",
    "http://\u00e4.org/".encode(): "a host not in ASCII",
    b"http://[::1]:80/": "a default port",
    b"http://a.org/\xff": "dots or escapes in the path",
}


@pytest.mark.parametrize(("url", "wanted"), SPELLINGS.items())
def test_reasons(url, wanted):
    form = ALL.of(url)
    assert (reason(url, form) if form != url else "") == wanted


@pytest.mark.parametrize("buffered_urls", [1, 1 << 20])
def test_counts_equal_those_of_sets(buffered_urls):
    """With any buffer each spelling counts once, and single ones do not."""
    rng = random.Random(buffered_urls)
    urls = [rng.choice([*SPELLINGS]) + b"" for _ in range(60)]
    tally = FoldTally(buffered_urls)
    for start in range(0, 60, 7):
        part = urls[start : start + 7]
        tally.add(part, ALL.of_each(part))
    groups = defaultdict(set)
    for url in urls:
        groups[ALL.of(url)].add(url)
    reasons = defaultdict(int)
    for group in groups.values():
        for url in group:
            if len(group) > 1 and SPELLINGS[url]:
                reasons[SPELLINGS[url]] += 1
    found = tally.folds()
    assert (found.urls, found.distinct, found.distinct_in_form) == (60, len(set(urls)), len(groups))
    assert found.reasons == reasons
    assert list(found.reasons.values()) == sorted(reasons.values(), reverse=True)


def test_nothing_is_folded_as_given():
    tally = FoldTally()
    assert tally.folds().distinct == 0
    tally.add([*SPELLINGS], UrlForm(canonical=False).of_each([*SPELLINGS]))
    found = tally.folds()
    assert (found.distinct, found.distinct_in_form, found.reasons) == (21, 21, {})
