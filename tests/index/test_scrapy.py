"""The pipeline in real crawls by Scrapy of a site with near-duplicate pages."""

import contextlib
import json
import random
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from mr_dedup.errors import MrDedupError
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.scrapy import NearDuplicatePipeline
from tests.server.running import TOKEN, running

CLASS = "mr_dedup.index.scrapy.NearDuplicatePipeline"

SPIDER = """
import scrapy


class Spider(scrapy.Spider):
    name = "spider"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        if response.css("p"):
            yield {"url": response.url, "text": response.css("p::text").get(default="")}
        else:
            yield {"links": len(response.css("a"))}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""

COPIES = 3
DISTINCT = 12


def texts():
    """Pages by their path: each of a dozen texts at some addresses, a word longer at the last."""
    rng = random.Random(5)
    pages = {}
    for number in range(DISTINCT):
        words = [f"word{rng.randrange(5000)}" for _ in range(400)]
        for copy in range(COPIES):
            pages[f"/{number}-{copy}"] = " ".join(
                [*words[copy:], *words[:copy], *["more"] * (copy > 1)]
            )
    pages["/empty"] = " "
    return pages


@pytest.fixture
def site():
    """The address of the site."""
    pages = texts()
    links = "".join(f'<a href="{path}">x</a>' for path in pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            text = pages.get(self.path)
            content = (links if text is None else f"<p>{text}</p>").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def crawl(folder, site, *settings, name="items"):
    """Crawl the site; return the items that came through, and what was logged."""
    (folder / "spider.py").write_text(SPIDER)
    options = [
        f'ITEM_PIPELINES={{"{CLASS}": 300}}',
        "CONCURRENT_REQUESTS=8",
        "TELNETCONSOLE_ENABLED=0",
        *settings,
    ]
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py", "-O", f"{name}.jsonl"]
    for option in options:
        command += ["-s", option]
    done = subprocess.run(
        [*command, "-a", f"site={site}"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    out = folder / f"{name}.jsonl"
    items = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return items, done.stderr


def numbers(items):
    """Which text each item has, ascending."""
    paths = [item["url"].rpartition("/")[2] for item in items if "text" in item]
    return sorted(int(path.split("-")[0]) for path in paths if path != "empty")


def counted(said, name):
    """A statistic of a crawl, 0 if it has none."""
    return int(said.partition(f"'near_duplicates/{name}': ")[2].partition(",")[0] or 0)


@contextlib.contextmanager
def in_process(folder):
    yield [f"NEAR_DUPLICATES_INDEX={folder / 'seen'}"], lambda: HammingIndex.open(folder / "seen")


@contextlib.contextmanager
def by_http(folder):
    (folder / "token").write_text(f"{TOKEN}\n")
    with (
        HammingIndex.create(folder / "seen", made_from=FingerprintOptions()) as index,
        running(index, token=TOKEN) as server,
    ):
        settings = [
            f"NEAR_DUPLICATES_INDEX={server.url}",
            f"NEAR_DUPLICATES_TOKEN_FILE={folder / 'token'}",
        ]
        yield settings, lambda: contextlib.nullcontext(index)


@pytest.mark.parametrize("opened_by", [in_process, by_http])
def test_near_duplicates_are_dropped_and_known_to_the_next_crawl(opened_by, site, tmp_path):
    with opened_by(tmp_path) as (settings, opened):
        items, said = crawl(tmp_path, site, *settings)
        assert "Traceback" not in said, said
        assert numbers(items) == list(range(DISTINCT)), said
        # what is not a document passes, and so does the one page without words
        assert {"links": DISTINCT * COPIES + 1} in items
        assert len(items) == DISTINCT + 2
        assert counted(said, "dropped") == DISTINCT * (COPIES - 1)
        assert counted(said, "new") == DISTINCT + 1
        assert counted(said, "not_compared") == 1
        assert "Overridden" in said
        assert TOKEN not in said
        with opened() as index:
            assert len(index) == DISTINCT + 1
        other, said = crawl(tmp_path, site.replace("127.0.0.1", "localhost"), *settings)
        assert numbers(other) == [], said
        assert counted(said, "dropped") == DISTINCT * COPIES + 1


@pytest.mark.parametrize("opened_by", [in_process, by_http])
def test_near_duplicates_are_tagged(opened_by, site, tmp_path):
    with opened_by(tmp_path) as (settings, opened):
        items, said = crawl(
            tmp_path, site, *settings, "NEAR_DUPLICATES_ACTION=tag", "NEAR_DUPLICATES_TAG=near"
        )
        assert "Traceback" not in said, said
        assert numbers(items) == sorted([*range(DISTINCT)] * COPIES), said
        assert counted(said, "tagged") == DISTINCT * (COPIES - 1)
        tags = {item["url"]: item["near"] for item in items if "text" in item}
        for number in range(DISTINCT):
            of_text = [f"{site}{number}-{copy}" for copy in range(COPIES)]
            # each comes after others, and lists all of them
            assert sorted(len(tags[url]) for url in of_text) == list(range(COPIES))
            assert all(set(tags[url]) <= set(of_text) - {url} for url in of_text)
        with opened() as index:
            assert len(index) == DISTINCT * COPIES + 1


def test_a_crawl_without_its_index_ends_before_it_begins(site, tmp_path):
    with HammingIndex.create(tmp_path / "seen", made_from=FingerprintOptions()):
        items, said = crawl(tmp_path, site, f"NEAR_DUPLICATES_INDEX={tmp_path / 'seen'}")
        assert items == []
        assert "has it open for writing" in said
    items, said = crawl(tmp_path, site, "NEAR_DUPLICATES_INDEX=http://127.0.0.1:9")
    assert items == []
    assert "cannot be reached: Connection refused" in said


def test_mistakes_in_settings(tmp_path):
    def made(**settings):
        return NearDuplicatePipeline.from_crawler(
            get_crawler(settings_dict={f"NEAR_DUPLICATES_{k}": v for k, v in settings.items()})
        )

    with pytest.raises(NotConfigured, match="NEAR_DUPLICATES_INDEX"):
        made()
    with pytest.raises(ValueError, match="neither drop nor tag"):
        made(INDEX=tmp_path / "a", ACTION="keep")
    with pytest.raises(MrDedupError, match="NEAR_DUPLICATES_K: expected a number, not 'few'"):
        made(INDEX=tmp_path / "a", K="few")
    first = made(INDEX=tmp_path / "a", K=2, FEATURES="words:3")
    first.open_spider()
    first.close_spider()
    with pytest.raises(MrDedupError, match="from 0 to 2"):
        made(INDEX=tmp_path / "a", K=3).open_spider()
    with HammingIndex.open(tmp_path / "a") as index:
        assert index.made_from == FingerprintOptions("words:3")
    HammingIndex.create(tmp_path / "b").close()
    with pytest.raises(MrDedupError, match="of fingerprints, not of documents"):
        made(INDEX=tmp_path / "b").open_spider()
    HammingIndex.open(tmp_path / "b").close()
