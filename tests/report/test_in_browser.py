"""The report in Chromium: it loads nothing, fits any width, and its list can be searched."""

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mr_dedup.jobs.shares import Share
from mr_dedup.report.data import Cluster, Sample
from tests.accessibility import violations
from tests.report.reports import (
    HOSTILE,
    SAMPLE,
    hostile_report,
    report,
    warnings_of,
    written,
)

pytestmark = pytest.mark.browser

WIDTHS = (1280, 360)
SCHEMES = ("light", "dark")


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


@pytest.fixture
def show(chromium, tmp_path):
    """Return a function that shows data, by default with all folded parts opened."""
    contexts = []

    def shown(data, width=1280, scheme="light", *, opened=True, **options) -> Shown:
        path = tmp_path / "report.html"
        path.write_bytes(written(data))
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, **options
        )
        contexts.append(context)
        seen = Shown(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.said.append(message.text))
        seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
        seen.page.on("dialog", lambda dialog: seen.said.append(dialog.message))
        seen.page.goto(path.as_uri())
        folded = seen.page.locator("details:not([open]) > summary")
        while opened and folded.count():
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
        warnings=warnings_of(long, 20),
        clusters=[
            Cluster(
                -(1 << 63),
                10**12,
                10**11,
                [long, "short"],
                7,
                0.5,
                [Sample(long, long, 64, 0.5, "w" * 9000, "v " * 4000, long)] * (number == 0),
            )
            for number in range(30)
        ],
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
            !element.closest('.scroll, .text, .name, svg')
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
    assert seen.page.evaluate("[document.scripts.length, document.images.length]") == [1, 0]
    shown = seen.page.locator("h1").inner_text()
    assert shown.startswith("<script>alert(1)</script></style></title>-->")
    assert len(shown) == 100
    # cut in the middle; the whole name is beside it
    title = seen.page.locator("h1 bdi").get_attribute("title")
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
    marks = show(report()).page.locator(".text :is(del, ins)")
    assert marks.all_inner_texts() == ["two", "2"]
    styles = [mark.evaluate("e => getComputedStyle(e).backgroundColor") for mark in marks.all()]
    assert styles == ["rgb(255, 225, 208)", "rgb(211, 238, 226)"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [report, hostile_report, wide_report])
def test_axe_finds_nothing(show, make, width, scheme):
    assert violations(show(make(), width, scheme).page) == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_first_screen(show, width, height):
    page = show(report(), width, opened=False).page
    last = page.locator(".cards > section").last.bounding_box()
    assert last["y"] + last["height"] <= height


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_what_may_be_lost(show, width, scheme):
    seen = show(report(warnings=warnings_of("shop.example", 2)), width, scheme, opened=False)
    seen.check_quiet()
    page = seen.page
    section = page.locator("section[aria-labelledby=warnings]")
    assert section.locator("h3").all_inner_texts() == [
        "Clusters that look like templates", "Sources that lose over half of their documents"
    ]  # fmt: skip
    rows = section.locator("table").first.locator("tbody tr")
    assert rows.count() == 2
    assert rows.first.inner_text().split() == [
        "shop.example", "12,345", "1", "0.813", "-9223372036854775808"
    ]  # fmt: skip
    assert "4 more are not shown." in section.inner_text()
    page.locator("nav a[href='#warnings']").click()
    top = section.locator("h2").bounding_box()["y"]
    assert -1 < top < 800
    # wide tables scroll in their boxes
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not show(report(), width, scheme).page.locator("#warnings").count()


def many_clusters():
    """Clusters of 2, 3, 4, … documents; similarities rise, but for the last; one has a text."""
    texts = "The quick brown fox\njumps over the lazy dog.", "The quick red fox jumps over a dog."
    clusters = [
        Cluster(n, n + 2, 1, [f"https://{n}.example/"], 0, 0.8 + n / 1000) for n in range(50)
    ]
    clusters[49] = clusters[49]._replace(similarity=0.5)
    clusters[0] = clusters[0]._replace(
        samples=[SAMPLE._replace(id="https://Dropped.example/", text=texts[0], kept_text=texts[1])]
    )
    return report(clusters=clusters, cluster_sizes=np.full(70, 2))


def names(page):
    return page.locator("#cluster-list .name").all_inner_texts()


def test_clusters_are_searched_and_sorted(show):
    seen = show(many_clusters(), opened=False)
    page, found = seen.page, seen.page.locator("#found")
    assert found.inner_text() == "20 of 50 listed clusters"
    assert names(page)[:2] == ["https://Dropped.example/", "https://1.example/"]
    more = page.get_by_role("button", name="Show 20 more")
    more.click()
    assert len(names(page)) == 40
    # the first of the new ones
    assert page.evaluate("document.activeElement.innerText").startswith("https://20.example/")
    page.get_by_role("button", name="Show 10 more").click()
    assert len(names(page)) == 50
    assert page.locator("#more").is_hidden()
    page.get_by_label("Order").select_option("most documents")
    assert names(page)[0] == "https://49.example/"
    page.get_by_label("Order").select_option("least similar")
    assert names(page)[:3] == [f"https://{n}.example/" for n in ("49", "Dropped", "1")]
    search = page.get_by_label("Search ids, URLs and texts")
    for query, matching in [
        ("//4", ["49", "4", *range(40, 49)]), ("dropped.EXAMPLE", ["Dropped"]),
        # a text as the dropped and as the kept document has it, over a line break
        ("brown fox jumps over the lazy", ["Dropped"]), ("red  fox", ["Dropped"]),
        ("brown red", []), ("nothing", []),
    ]:  # fmt: skip
        search.fill(query)
        assert names(page) == [f"https://{n}.example/" for n in matching]
        count = len(matching)
        expected = f"{count} of {count} matching clusters"
        assert found.inner_text() == (expected if count else "No listed cluster has this text.")
    search.fill("")
    assert found.inner_text() == "20 of 50 listed clusters"
    seen.check_quiet()


def test_the_search_by_keyboard(show):
    seen = show(many_clusters(), opened=False)
    page, keyboard = seen.page, seen.page.keyboard
    keyboard.press("/")
    keyboard.type("17.example/")
    assert names(page) == ["https://17.example/"]
    keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    keyboard.press("Enter")
    assert page.locator(".cluster details[open]").count() == 1
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    keyboard.press("Shift+Tab")
    keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "query"
    keyboard.press("Escape")
    assert len(names(page)) == 20
    seen.check_quiet()
    # links first, then the search, the order, and the list
    page.reload()
    order = []
    for _ in range(14):
        keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert [name for name in order if name != "A"][:3] == ["query", "order", "SUMMARY"]


def test_without_scripts_the_list_is_whole(show):
    seen = show(many_clusters(), opened=False, java_script_enabled=False)
    page = seen.page
    assert page.locator("#search").is_hidden()
    assert page.locator("#more").is_hidden()
    assert len(names(page)) == 20
    page.locator("#folded-clusters > summary").click()
    assert page.locator(".cluster:visible").count() == 50
    page.locator(".cluster summary").first.click()
    assert page.locator(".text ins").first.is_visible()
    assert seen.said == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_printed_without_controls(show, scheme):
    page = show(many_clusters(), scheme=scheme).page
    page.emulate_media(media="print")
    for selector in ("nav", "#search", "#more"):
        assert page.locator(selector).is_hidden()
    assert page.locator(".text").first.evaluate("e => getComputedStyle(e).maxHeight") == "none"


def test_it_is_shown_in_the_frame_of_a_notebook(show, tmp_path):
    """As the Python API embeds it: in a frame of 700 pixels, from an attribute."""
    seen = show(many_clusters(), opened=False)
    page = html.escape(written(many_clusters()).decode())
    outer = tmp_path / "notebook.html"
    outer.write_text(
        '<!DOCTYPE html><html lang="en"><title>Notebook</title><body style="margin: 0">'
        f'<iframe srcdoc="{page}" title="report" width="100%" height="700" style="border: 0">'
        "</iframe></body></html>"
    )
    seen.page.set_viewport_size({"width": 800, "height": 720})
    seen.page.goto(outer.as_uri())
    frame = seen.page.frame_locator("iframe")
    frame.get_by_label("Search ids, URLs and texts").fill("17.example")
    assert frame.locator("#cluster-list .name").all_inner_texts() == ["https://17.example/"]
    cards = frame.locator(".cards").bounding_box()
    assert cards["x"] + cards["width"] <= 800
    # a link to a part of the page scrolls, and loads no other page
    frame.get_by_role("link", name="Options").click()
    assert frame.locator("h1").count() == 1
    top = frame.locator("#run").bounding_box()["y"]
    assert 0 <= top < 700
    assert seen.said == []
