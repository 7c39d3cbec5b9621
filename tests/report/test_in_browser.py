"""The report in Chromium: it loads and runs nothing, and fits any width."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mr_dedup.jobs.shares import Share
from mr_dedup.report.data import LargeCluster, Sample
from tests.report.reports import HOSTILE, hostile_report, report, written

pytestmark = pytest.mark.browser

WIDTHS = (1280, 360)
SCHEMES = ("light", "dark")

# without these it asks for what has nothing to do with the page
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-quic"]  # fmt: skip


@dataclass
class Shown:
    """A page in the browser, with its requests and messages."""

    page: Any
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def check_quiet(self) -> None:
        assert self.said == []
        assert [address for address in self.requests if not address.startswith("data:,")] == [
            self.page.url
        ]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, tmp_path):
    """Return a function that shows data, all folded parts opened."""
    contexts = []

    def shown(data, width=1280, scheme="light") -> Shown:
        path = tmp_path / "report.html"
        path.write_bytes(written(data))
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        contexts.append(context)
        seen = Shown(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.said.append(message.text))
        seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
        seen.page.on("dialog", lambda dialog: seen.said.append(dialog.message))
        seen.page.goto(path.as_uri())
        folded = seen.page.locator("details:not([open]) > summary")
        while folded.count():
            folded.first.click(timeout=5000)
        return seen

    yield shown
    for context in contexts:
        context.close()


def wide_report():
    """One whose ids, values and texts are longer than a screen is wide."""
    long = "https://a.example/" + "x" * 300
    return report(
        title="x" * 300,
        options=[("documents", long), ("y" * 100, "z" * 300)],
        cluster_sizes=2 + 10 ** np.arange(12),
        shares=[(long, [Share(long, 3, 1), *(Share(f"{n}", 9, n % 9) for n in range(99))])],
        largest=[LargeCluster(-(1 << 63), 10**12, 10**11, [long, "short"]) for _ in range(12)],
        samples=[Sample(long, long, 64, 0.5, "w" * 9000, "v " * 4000)],
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [report, hostile_report, wide_report])
def test_it_fits_and_sends_no_requests(show, make, width, scheme):
    seen = show(make(), width, scheme)
    seen.check_quiet()
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    # what is wider than the screen is in a box that scrolls
    outside = seen.page.evaluate(
        """() => [...document.querySelectorAll('main *, header *')].filter(element =>
            !element.closest('.scroll, .text, svg')
            && element.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert outside == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_colours_follow_the_scheme(show, scheme):
    page = show(report(), scheme=scheme).page
    colours = page.evaluate(
        """() => {
            const colour = (selector, name) =>
                getComputedStyle(document.querySelector(selector))[name];
            return {
                page: colour('body', 'backgroundColor'), ink: colour('body', 'color'),
                axis: colour('svg .tick text', 'fill'), column: colour('svg .columns rect', 'fill'),
                ground: colour('svg > g > rect', 'fill'),
            };
        }"""
    )
    expected = {
        "light": [(251, 250, 247), (28, 30, 33), (88, 93, 99), (47, 106, 163)],
        "dark": [(20, 22, 24), (231, 229, 224), (165, 171, 177), (121, 178, 230)],
    }
    colours_of_scheme = [f"rgb{colour}" for colour in expected[scheme]]
    assert list(colours.values()) == [*colours_of_scheme, "none"]


def test_hostile_text_is_shown_as_text(show):
    seen = show(hostile_report())
    seen.check_quiet()
    assert seen.page.evaluate("document.scripts.length + document.images.length") == 0
    title = seen.page.locator("h1").inner_text()
    assert title.startswith("<script>alert(1)</script></style></title>--><!-- ]]> \"'><img src=")
    assert title.count("\N{REPLACEMENT CHARACTER}") == HOSTILE.count("\u202e") + 5


def test_scripts_and_requests_are_blocked_by_the_policy(show, tmp_path):
    seen = show(report())
    page = written(report()).replace(
        b"<h1>", b"<script>document.title = 'ran'</script><img src='https://evil.example/x'><h1>"
    )
    (tmp_path / "changed.html").write_bytes(page)
    seen.page.goto((tmp_path / "changed.html").as_uri())
    assert seen.page.title() == "Seven pages"
    assert sum("Content Security Policy" in said for said in seen.said) == 2


def test_words_that_differ_are_marked_and_boxes_scroll(show):
    page = show(wide_report(), 360).page
    (box,) = page.locator(".text").all()[:1]
    assert box.evaluate("e => e.scrollHeight > e.clientHeight && e.scrollWidth <= e.clientWidth")
    marks = show(report()).page.locator(".text mark")
    assert marks.all_inner_texts() == ["two", "2"]
    styles = {mark.evaluate("e => getComputedStyle(e).backgroundColor") for mark in marks.all()}
    assert styles == {"rgb(255, 225, 208)", "rgb(211, 238, 226)"}
