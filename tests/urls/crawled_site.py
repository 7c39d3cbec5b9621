"""A site on this machine that has few pages under many addresses, and says which were fetched."""

import contextlib
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGES = 60

SPIDER = """
import scrapy


class Spider(scrapy.Spider):
    name = "spider"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
        for form in response.css("form"):
            # the same address for another page
            fields = {each.attrib["name"]: each.attrib["value"] for each in form.css("input")}
            yield scrapy.FormRequest(
                response.urljoin(form.attrib["action"]), formdata=fields, callback=self.parse
            )
"""


def links(number, port):
    """Links from a page to the next ones and to the first, each in several spellings."""
    for target in {number * 2 + 1, number * 2 + 2, (number * 7 + 3) % PAGES, 0}:
        if target < PAGES:
            page = f"page?b=2&id={target}"
            yield f"/{page}"
            yield f"/x/../page?id={target}&b=2#part-{number}"
            yield f"http://LOCALHOST:{port}/./page?id={target}&utm_source=page-{number}&b=2"
            yield f"http://127.0.0.1:{port}/%70age?b=2&id={target}"
    yield "/"
    yield "/index.html"


class Site:
    """``fetched`` counts requests by method, page, and what was posted."""

    def __init__(self, delay_seconds):
        self.fetched = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(delay_seconds)
                query = parse_qs(urlsplit(self.path).query)
                number = int(query.get("id", ["0"])[0])
                site.fetched["GET", "page" if query else "front", number] += 1
                self.answer(number)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                site.fetched["POST", self.path, body] += 1
                self.answer(0)

            def answer(self, number):
                parts = [f'<a href="{link}">x</a>' for link in links(number, site.port)]
                for value in "ab":
                    field = f'<input name="q" value="{value}">'
                    parts.append(f'<form action="/page?b=2&amp;id=0">{field}</form>')
                content = "".join(parts).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def all_once(self):
        """What ``fetched`` is to be."""
        pages = [("GET", "page", number) for number in range(PAGES)]
        posts = [("POST", "/page?b=2&id=0", b"q=a"), ("POST", "/page?b=2&id=0", b"q=b")]
        return Counter([("GET", "front", 0), *pages, *posts])

    @contextlib.contextmanager
    def served(self):
        """Answer requests while the block lasts."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
