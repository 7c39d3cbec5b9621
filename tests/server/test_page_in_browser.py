"""The page in Chromium: state, neighbours and bits; requests to its own server; any width."""

import contextlib
import re

import numpy as np
import pytest

from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.hamming_index import HammingIndex
from tests.accessibility import violations
from tests.server.running import TOKEN, running

pytestmark = pytest.mark.browser

HOSTILE = (
    "<script>document.title = 'ran'</script><img src=https://evil.example/x onerror=alert(1)>"
    "\u202e\x00</textarea></title> ' \" & "
) + "w" * 600


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
        self.page.click("#form button")
        self.page.wait_for_selector("#result:not([hidden]), #failure:not([hidden])")

    def find(self, kind, wanted, distance=None):
        """The title of the result or the failure, and the matches."""
        self.page.get_by_role("radio", name=kind, exact=True).check()
        self.page.fill("#wanted", wanted)
        if distance is not None:
            self.page.fill("#distance", str(distance))
        self.page.get_by_role("button", name="Find").click()
        self.page.wait_for_selector("#find-form button:not([disabled])")
        self.page.wait_for_selector("#found-documents:not([hidden]), #find-failure:not([hidden])")
        said = self.page.locator("#found-title:visible, #find-failure:visible").inner_text()
        return said, self.page.locator("#matches > li").all_inner_texts()

    def state(self):
        """What the page says of the index: values and notes by name."""
        self.page.wait_for_selector("#state dt")
        entries = [e.inner_text().split("\n") for e in self.page.locator("#state > div").all()]
        return {name: said for name, *said in entries}


@pytest.fixture
def show(chromium, tmp_path):
    """Return a function that shows the page of an index that is filled by a function."""
    with contextlib.ExitStack() as stack:

        def shown(fill=lambda index: None, width=1280, token=None, scheme="light", **options):
            index = stack.enter_context(HammingIndex.create(tmp_path / "index", **options))
            fill(index)
            server = stack.enter_context(running(index, token=token))
            context = chromium.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme
            )
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
    assert page.title() == "Find near-duplicates - mr-dedup"
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
    verdict = page.locator("#verdict").inner_text()
    assert verdict == "2 bits of 64 differ: for k = 3 near-duplicates"
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
    failure = seen.page.locator("#state-failure")
    assert failure.inner_text() == "Needs the bearer token."
    seen.page.fill("#token", "wrong")
    seen.page.get_by_role("button", name="Open the index").click()
    failure.wait_for()
    seen.page.fill("#token", TOKEN)
    seen.page.get_by_role("button", name="Open the index").click()
    assert seen.state()["Access"][0] == "with a token"
    assert seen.page.locator("#token").is_hidden()
    assert failure.is_hidden()
    seen.compare("one text", "one text")
    assert seen.page.locator("#verdict").inner_text().startswith("0 bits of 64 differ")
    seen.page.fill("#first", "...")
    seen.page.click("#form button")
    # a locator waits without evaluating code, which the page's policy forbids
    changed = seen.page.locator("#verdict", has_text=re.compile(r"^[1-9]\d* bits of 64 differ"))
    changed.wait_for()
    assert not seen.page.locator("#failure").is_visible()


def test_the_state_of_the_index(show):
    def fill(index):
        index.add(np.arange(1000, dtype=np.uint64), [f"{number}" for number in range(1000)])
        index.compact()
        index.remove(["3"])
        index.add(np.array([5], np.uint64), ["more"])

    seen, _ = show(fill, made_from=FingerprintOptions(features="words:2"))
    state = seen.state()
    assert state["Documents"] == ["1,000", "1 of them not in a segment yet"]
    assert state["Matches"] == ["within 3 bits", "k = 3"]
    assert state["Fingerprints"] == [
        "of texts", "words:2, log-tf, normalize nfkc", "documents have ids",
    ]  # fmt: skip
    assert state["Segments"][0] == "1"
    assert state["Segments"][2] == "1 document removed or replaced"
    assert re.fullmatch(r"[\d.]+ MB", state["On disk"][0])
    assert re.fullmatch(r"[\d.]+ MB", state["In memory"][0])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", state["Last segment"][0])
    assert state["Access"][:2] == ["without a token", "from this machine only"]
    seen.page.get_by_text("All segments").click()
    assert seen.page.locator("#segment-rows tr").count() == 1
    assert seen.messages == []


def test_an_empty_index_and_one_without_ids_or_texts(show):
    seen, _ = show(named=False)
    state = seen.state()
    assert state["Documents"][0] == "0"
    assert state["Segments"] == ["0", "0 tables"]
    assert state["Last segment"] == ["none yet", "all changes are in the log"]
    assert state["Fingerprints"] == [
        "of clients", "it does not record how they are made", "documents have no ids of their own",
    ]  # fmt: skip
    assert seen.page.get_by_label("Fingerprint", exact=True).is_visible()
    for kind in ("text", "id"):
        assert seen.page.get_by_role("radio", name=kind, exact=True).count() == 0
    assert seen.find("fingerprint", "0x7") == ("No document is within 3 bits", [])


def test_the_neighbours_of_a_text_an_id_and_a_fingerprint(show):
    def fill(index):
        values = np.array([8, 9, 11, 0xFF << 32], np.uint64)
        index.add(values[:2], ["a/b c", "b"])
        index.compact()
        index.add(np.append(values[2:], maker_of(index, "one two three")), ["c", "d", "text"])

    seen, _ = show(fill, made_from=FingerprintOptions())
    title, found = seen.find("id", "a/b c")
    assert title == "2 other documents within 3 bits"
    assert [match.split("\n")[:2] for match in found] == [["b", "1 bit away"], ["c", "2 bits away"]]
    strips = seen.page.locator("#matches .strip")
    assert strips.nth(1).get_attribute("aria-label") == "bits that differ: 1, 0"
    assert strips.nth(1).locator(".differs").count() == 2
    seen.page.locator("#matches summary").nth(1).click()
    seen.page.locator("#matches .row").first.wait_for()
    rows = seen.page.locator("#matches li").nth(1).locator(".row")
    bits = [row.inner_text().replace("\n", "") for row in rows.all()]
    assert "".join(bits[0::2]) == f"{8:064b}"
    assert "".join(bits[1::2]) == f"{11:064b}"
    title, found = seen.find("fingerprint", "8", distance=1)
    assert title == "2 documents within 1 bit"
    assert found[0].split("\n")[:2] == ["a/b c", "same fingerprint"]
    title, found = seen.find("text", "Three, two, one!", distance=3)
    assert title == "1 document within 3 bits"
    assert found[0].startswith("text\nsame fingerprint")
    assert seen.find("id", "d")[0] == "No other document is within 3 bits"
    assert seen.messages == []


def test_a_search_waits_until_the_state_is_known(show):
    def fill(index):
        index.add(np.array([7], np.uint64), ["a"])

    seen, _ = show(fill)
    seen.state()
    waiting = []
    seen.page.route("**/v1/designs", lambda route: waiting.append(route))
    seen.page.reload()
    seen.page.get_by_role("radio", name="fingerprint").check()
    seen.page.fill("#wanted", "7")
    seen.page.get_by_role("button", name="Find").click()
    seen.page.wait_for_timeout(200)
    assert seen.page.locator("#find-failure").is_hidden()
    assert len(waiting) == 1
    waiting[0].continue_()
    seen.page.wait_for_selector("#found-documents:not([hidden])")
    assert seen.page.locator("#found-title").inner_text() == "1 document within 3 bits"


def test_only_the_nearest_are_shown(show):
    def fill(index):
        index.add(np.full(70, 7, np.uint64), [f"{number}" for number in range(70)])

    seen, _ = show(fill)
    for kind, title in [("fingerprint", ""), ("id", "other ")]:
        said, found = seen.find(kind, "7")
        assert said == f"The nearest 50 {title}documents within 3 bits"
        assert len(found) == 50


def test_failures_of_a_search_are_readable(show):
    seen, server = show(made_from=FingerprintOptions())
    for kind, wanted, distance, expected in [
        ("text", "  ", 3, "Give a text first."),
        ("id", "", 3, "Give an id first."),
        ("id", "nobody", 3, "No document has this id."),
        ("id", "x" * 70_000, 3, "The id is too long to be sent."),
        ("fingerprint", "twelve", 3, "Fingerprint: 'twelve' is not a number of 64 bits."),
        ("fingerprint", "12", 4, "The largest distance is a number from 0 to 3, the k of the"),
        ("text", "word " * 2_000_000, 3, "The body is larger than 4,194,304 bytes."),
    ]:
        said, _ = seen.find(kind, wanted, distance)
        assert said.startswith(expected)
        assert seen.page.locator("#found-documents").is_hidden()
    server.stop()
    assert seen.find("text", "a", 3)[0] == "The server does not respond. Is it still running?"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_and_it_fits(show, width, scheme):
    def fill(index):
        index.add(maker_of(index, "one two"), ["w" * 300])
        index.compact()
        index.add(maker_of(index, "one two"), ["second"])

    seen, _ = show(fill, width, scheme=scheme, made_from=FingerprintOptions())
    seen.find("text", "one two")
    seen.page.locator("#matches summary").first.click()
    seen.page.get_by_text("All segments").click()
    seen.compare("one", "two")
    assert violations(seen.page) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width


def test_the_page_by_keyboard(show):
    def fill(index):
        index.add(np.array([7, 6], np.uint64), ["a", "b"])

    seen, _ = show(fill)
    seen.state()
    page, keyboard = seen.page, seen.page.keyboard
    order = []
    for _ in range(6):
        keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert order == ["INPUT", "wanted", "distance", "BUTTON", "first", "second"]
    page.focus("#wanted")
    keyboard.type("a")
    keyboard.press("Tab")
    keyboard.press("Enter")
    page.wait_for_selector("#found-documents:not([hidden])")
    # what was found is read next
    assert page.evaluate("document.activeElement.id") == "found-title"
