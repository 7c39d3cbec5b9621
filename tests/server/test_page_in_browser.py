"""The page in Chromium: it compares, sends requests to its own server only, fits any width."""

import contextlib
import re

import numpy as np
import pytest

from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.hamming_index import HammingIndex
from tests.server.running import TOKEN, running

pytestmark = pytest.mark.browser

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-quic"]  # fmt: skip

HOSTILE = (
    "<script>document.title = 'ran'</script><img src=https://evil.example/x onerror=alert(1)>"
    "\u202e\x00</textarea></title> ' \" & "
) + "w" * 600


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=QUIET)
        yield browser
        browser.close()


class Shown:
    """The page, its requests, and the messages of the browser."""

    def __init__(self, context, url):
        self.page, self.requests, self.messages = context.new_page(), [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: self.messages.append(dialog.message))
        self.page.goto(url)

    def compare(self, first, second):
        self.page.fill("#first", first)
        self.page.fill("#second", second)
        self.page.click("button")
        self.page.wait_for_selector("#result:not([hidden]), #failure:not([hidden])")


@pytest.fixture
def show(chromium, tmp_path):
    """Return a function that shows the page of an index that is filled by a function."""
    with contextlib.ExitStack() as stack:

        def shown(fill=lambda index: None, width=1280, token=None, **options):
            index = stack.enter_context(HammingIndex.create(tmp_path / "index", **options))
            fill(index)
            server = stack.enter_context(running(index, token=token))
            context = chromium.new_context(viewport={"width": width, "height": 800})
            stack.callback(context.close)
            return Shown(context, server.url), server

        yield shown


@pytest.mark.parametrize("width", [1280, 360])
def test_hostile_texts_and_ids_are_what_is_seen_of_them(show, width):
    def fill(index):
        values = maker_of(index, HOSTILE)
        index.add(values, [HOSTILE])

    seen, server = show(fill, width, made_from=FingerprintOptions())
    seen.compare(HOSTILE, HOSTILE + " more")
    page = seen.page
    assert seen.messages == []
    assert {address.removeprefix(server.url) for address in seen.requests} <= {
        "/", "data:,", "/v1/stats", "/v1/designs", "/v1/query"
    }  # fmt: skip
    assert page.title() == "Two texts, bit by bit - mr-dedup"
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    name = page.locator(".near bdi").first.inner_text()
    assert name.startswith("<script>document.title = 'ran'</script><img src=https://evil.example")
    assert "\u202e" not in name
    assert "\N{REPLACEMENT CHARACTER}" in name
    assert page.evaluate("document.documentElement.scrollWidth") == width
    outside = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(
            element => element.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert outside == 0


def maker_of(index, text):
    import pyarrow as pa

    return index.made_from.fingerprinter().of(pa.array([text], pa.large_string()))


def test_bits_tables_and_neighbours_are_those_of_the_index(show):
    first, second = 0xF000_0000_0000_0001, 0x7000_0000_0000_0003

    def fill(index):
        index.add(np.array([first ^ 4, 0], np.uint64), ["near", "far"])

    seen, _ = show(fill)
    seen.compare(f"{first:#x}", f"{second:#x}")
    page = seen.page
    assert page.locator("#verdict").inner_text() == (
        "2 bits of 64 differ: for k = 3 near-duplicates"
    )
    rows = page.locator("#bits .row")
    shown = [rows.nth(row).inner_text().replace("\n", "") for row in range(8)]
    assert "".join(shown[0::2]) == f"{first:064b}"
    assert "".join(shown[1::2]) == f"{second:064b}"
    assert page.locator("#bits .differs").count() == 4
    # the first and the last block of 16 bits have a bit each that differs
    page.select_option("#design", label="4-tables")
    assert page.locator("#found").inner_text() == "2 of 4 tables find the pair."
    results = page.locator("#tables li > span").all_inner_texts()
    assert results == ["1 misses it", "2 finds it", "3 finds it", "4 misses it"]
    page.select_option("#design", label="10-tables")
    assert page.locator("#found").inner_text() == "3 of 10 tables find the pair."
    near = page.locator("#near .side").all_inner_texts()
    assert ["near" in side and "far" not in side for side in near] == [True, True]
    assert "1 bit away" in near[0]
    assert "3 bits away" in near[1]
    assert seen.messages == []


def test_failures_are_shown(show):
    seen, _ = show()
    seen.compare("12", "twelve")
    assert "'twelve' is not a number of 64 bits" in seen.page.locator("#failure").inner_text()
    assert not seen.page.locator("#result").is_visible()


def test_the_page_prompts_for_the_token(show):
    seen, _ = show(token=TOKEN, made_from=FingerprintOptions())
    seen.page.wait_for_selector("#token")
    assert seen.page.locator("#failure").inner_text() == "needs the bearer token"
    seen.page.fill("#token", TOKEN)
    seen.compare("one text", "one text")
    assert seen.page.locator("#verdict").inner_text().startswith("0 bits of 64 differ")
    seen.page.fill("#first", "...")
    seen.page.click("button")
    # a locator waits without evaluating code, which the page's policy forbids
    changed = seen.page.locator("#verdict", has_text=re.compile(r"^[1-9]\d* bits of 64 differ"))
    changed.wait_for()
    assert not seen.page.locator("#failure").is_visible()
