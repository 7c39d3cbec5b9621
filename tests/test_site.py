"""The site that make docs has built: its links, its notebooks, and its pages in Chromium."""

import functools
import http.server
import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from bench import results
from mr_dedup.cli.main import COMMANDS

pytestmark = pytest.mark.site

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs/_build/html"
TUTORIALS = sorted(
    path.stem for path in (ROOT / "docs/tutorials").glob("*.md") if path.stem != "index"
)
VIEWS = {"desktop": (1280, 800), "phone": (360, 740)}


class Links(HTMLParser):
    """The ids of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()
        self.images_without_text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.update(filter(None, (found.get("id"), found.get("name"))))
        for name in "href", "src":
            if found.get(name):
                self.targets.add(found[name])
        if tag == "img" and not found.get("alt"):
            self.images_without_text.append(found["src"])


@functools.cache
def links(path: Path) -> Links:
    return Links(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    # but a template of the theme
    found = sorted(set(SITE.rglob("*.html")) - set((SITE / "_static").rglob("*")))
    assert found, "make docs has not built the site"
    return found


def test_links_lead_to_pages_and_anchors(pages):
    dead = []
    for page in pages:
        for target in links(page).targets:
            name, anchor = urldefrag(target)
            if re.match(r"[a-z]+:|//", name):
                continue
            path = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            exists = path.exists() and path.is_relative_to(SITE)
            if exists and anchor and path.suffix == ".html" and anchor != "/":
                exists = unquote(anchor) in links(path).ids
            if not exists:
                dead.append((page.relative_to(SITE).as_posix(), target))
    assert dead == []


def test_images_have_a_text_for_those_who_do_not_see_them(pages):
    without = {page.name: links(page).images_without_text for page in pages}
    assert not {name: images for name, images in without.items() if images}


def test_each_benchmark_has_a_table_of_what_it_measured():
    text = (SITE / "performance/measured.html").read_text()
    measured = results.read()
    assert measured
    assert text.count("<table") == len(measured)
    for result in measured:
        assert f">{result.rows[0].cells()[1]}<" in re.sub("</?p>", "", text)


def test_each_command_has_its_page_of_reference():
    for name in COMMANDS:
        text = (SITE / f"reference/commands/mr-dedup-{name}.html").read_text()
        assert f"usage: mr-dedup {name}" in re.sub("<.*?>", "", text)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_can_be_downloaded_with_its_outputs(name):
    (path,) = SITE.glob(f"_downloads/*/{name}.ipynb")
    cells = json.loads(path.read_text())["cells"]
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert ran
    assert all(cell["execution_count"] for cell in ran)
    outputs = [output for cell in ran for output in cell["outputs"]]
    assert outputs
    assert "error" not in {output["output_type"] for output in outputs}
    # a command that fails does not end a notebook
    printed = "".join("".join(output.get("text", "")) for output in outputs)
    assert not re.search(r"(mr-dedup|data-gen): (error|.*not found)", printed)


def test_there_is_an_overview_for_language_models():
    text = (SITE / "llms.txt").read_text()
    assert text.startswith("# mr_dedup\n")
    for source in re.findall(r"\]\(/(.*?)\)", text):
        assert (SITE / source).exists(), source
    assert "mr_dedup.dedup(" in (SITE / "llms-full.txt").read_text()


@pytest.fixture(scope="module")
def address(pages):
    """The site on a server, as its search needs one."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            """The browser has gone on to the next page."""

    handler = functools.partial(Handler, directory=str(SITE))
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(
    params=[(view, scheme) for view in VIEWS for scheme in ("light", "dark")], ids="-".join
)
def browsed(request, chromium):
    """A page of the browser, and what it reported."""
    view, scheme = request.param
    width, height = VIEWS[view]
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, reported = context.new_page(), []

    def on_console(message):
        if message.type == "error":
            reported.append((page.url, message.text))

    def on_failure(request):
        # the test goes on before every picture is there
        if request.failure != "net::ERR_ABORTED":
            reported.append((page.url, request.url))

    page.on("console", on_console)
    page.on("pageerror", lambda error: reported.append((page.url, str(error))))
    page.on("requestfailed", on_failure)
    yield page, reported
    context.close()


def test_pages_fit_the_screen_and_report_no_error(browsed, address, pages):
    page, reported = browsed
    width = page.viewport_size["width"]
    too_wide = []
    for path in pages:
        name = path.relative_to(SITE).as_posix()
        page.goto(f"{address}/{name}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            too_wide.append(name)
    assert (too_wide, reported) == ([], [])


def test_the_search_finds_a_page(browsed, address):
    page, _ = browsed
    page.goto(f"{address}/search.html?q=shingles")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").count() > 3
