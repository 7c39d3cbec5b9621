"""The filter in real crawls by Scrapy of a site with many aliases: stopped, resumed, anew."""

import contextlib
import signal
import subprocess
import sys
import time

import pytest
import scrapy
from scrapy.utils.test import get_crawler

from mr_dedup.errors import MrDedupError
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.opening import open_filter
from mr_dedup.urls.scrapy import ImpCbDupeFilter
from mr_dedup.urls.store import StoreInUseError
from tests.urls.crawled_site import SPIDER, Site

CLASS = "mr_dedup.urls.scrapy.ImpCbDupeFilter"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "spider.py").write_text(SPIDER)
    (tmp_path / "mirrors.txt").write_text("localhost 127.0.0.1\n")
    return tmp_path


@contextlib.contextmanager
def crawl(project, site, *settings):
    """A crawl that was started, and is killed where it has not ended."""
    options = [
        f"DUPEFILTER_CLASS={CLASS}",
        "IMPCB_DROP_INDEX=1",
        "IMPCB_DROP_TRACKING=1",
        f"IMPCB_MIRRORS={project / 'mirrors.txt'}",
        "CONCURRENT_REQUESTS=4",
        "TELNETCONSOLE_ENABLED=0",
        f"LOG_FILE={project / 'log'}",
        "LOG_FILE_APPEND=0",
        *settings,
    ]
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py"]
    for option in options:
        command += ["-s", option]
    command += ["-a", f"site=http://localhost:{site.port}/"]
    with subprocess.Popen(command, cwd=project) as process:
        try:
            yield process
        finally:
            process.kill()


def logged(process, project):
    """What a crawl logged, once it has ended by itself."""
    code = process.wait(timeout=300)
    log = (project / "log").read_text()
    assert code == 0, log
    assert "Traceback" not in log, log
    return log


def run(project, site, *settings):
    """What a whole crawl logged."""
    with crawl(project, site, *settings) as process:
        return logged(process, project)


def test_a_crawl_that_is_stopped_and_resumed_fetches_each_page_once(project):
    job = f"JOBDIR={project / 'job'}"
    with Site(delay_seconds=0.03).served() as site:
        stopped = 0
        for fetches in (10, 30):
            with crawl(project, site, job) as process:
                deadline = time.monotonic() + 300  # kernels may be compiled first
                while site.fetched.total() < fetches:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                assert "'finish_reason': 'shutdown'" in logged(process, project)
            assert stopped < site.fetched.total() < site.all_once.total()
            stopped = site.fetched.total()
        log = run(project, site, job)
        assert "'finish_reason': 'finished'" in log
        assert site.fetched == site.all_once
        assert "'dupefilter/filtered'" in log
        assert log.count("Filtered duplicate request") == 1
        # all of it is known now
        run(project, site, job)
        assert site.fetched == site.all_once
    with open_filter(project / "job" / "impcb", create=False) as url_filter:
        assert len(url_filter) == site.all_once.total()
        page = f"http://localhost:{site.port}/page?b=2&id=7"
        assert url_filter.count(page) > 1
        assert f"http://localhost:{site.port}/page?b=2&id=600" not in url_filter


def test_scrapys_own_filter_fetches_aliases(project):
    """So the crawl of the test above shows something."""
    with Site(delay_seconds=0).served() as site:
        own = "DUPEFILTER_CLASS=scrapy.dupefilters.RFPDupeFilter"
        run(project, site, own)
        assert set(site.fetched) == set(site.all_once)
        assert site.fetched.total() > 2 * site.all_once.total()


def test_a_store_outlives_crawls_and_may_be_filled_before(project):
    with Site(delay_seconds=0).served() as site:
        store = project / "seen"
        with open_filter(store, form=form_of(project)) as url_filter:
            # pages that an earlier run has seen are not fetched, so only one leads further
            for number in (1, 3):
                url_filter.add(f"http://127.0.0.1:{site.port}/page?id={number}&b=2")
        run(project, site, f"IMPCB_STORE={store}")
        assert site.fetched["GET", "page", 1] == site.fetched["GET", "page", 3] == 0
        assert site.fetched["GET", "page", 2] == 1
        assert max(site.fetched.values()) == 1
        # of another form
        with crawl(project, site, f"IMPCB_STORE={store}", "IMPCB_DROP_INDEX=0") as process:
            process.wait(timeout=300)
        assert "was made with URLs of another form" in (project / "log").read_text()


def form_of(project):
    return UrlForm(drop_index=True, drop_tracking=True, mirrors=(("localhost", "127.0.0.1"),))


def made(settings):
    """The filter that settings ask for, open."""
    found = ImpCbDupeFilter.from_crawler(get_crawler(settings_dict=settings))
    found.open()
    return found


def test_requests_are_known_by_method_and_body_too():
    found = made({})
    base = "http://a.org/page?b=2&a=1"
    new = [
        scrapy.Request(base),
        scrapy.Request(base, method="HEAD"),
        scrapy.Request(base, method="POST"),
        scrapy.Request(base, method="POST", body=b"x"),
        scrapy.Request(base, method="POST", body=b"y"),
        scrapy.Request(base, method="GET", body=b"x"),
        scrapy.Request("http://a.org/page"),
        scrapy.Request("data:,a"),
        scrapy.Request("file:///a"),
        scrapy.Request("http://a.org/p#1", meta={"verbatim_url": True}),
        scrapy.Request("http://a.org/p#2", meta={"verbatim_url": True}),
    ]
    assert [found.request_seen(request) for request in new] == [False] * len(new)
    old = [
        *new,
        scrapy.Request("HTTP://A.org:80/page?a=1&b=2#x"),
        scrapy.Request("http://a.org/./page?a=1&b=2", method="POST", body=b"x"),
    ]
    assert [found.request_seen(request) for request in old] == [True] * len(old)
    found.close("finished")


def test_another_fingerprinter_decides_what_requests_are():
    found = made({"REQUEST_FINGERPRINTER_CLASS": Fingerprinter})
    urls = ["http://a.org/1", "http://a.org/2", "http://b.org/1"]
    assert [found.request_seen(scrapy.Request(url)) for url in urls] == [False, True, False]
    found.close("finished")


class Fingerprinter:
    """A site is one request."""

    def fingerprint(self, request):
        return request.url.split("/")[2].encode()


def test_where_the_store_is(tmp_path, monkeypatch):
    job = made({"JOBDIR": str(tmp_path / "job")})
    assert not job.request_seen(scrapy.Request("http://a.org/"))
    with pytest.raises(StoreInUseError):
        made({"IMPCB_STORE": str(tmp_path / "job" / "impcb")})
    job.close("finished")
    again = made({"JOBDIR": str(tmp_path / "job"), "IMPCB_CAPACITY": 10})
    assert again.request_seen(scrapy.Request("http://a.org/#x"))
    again.close("finished")
    given = made({"JOBDIR": str(tmp_path / "job"), "IMPCB_STORE": str(tmp_path / "seen")})
    assert not given.request_seen(scrapy.Request("http://a.org/"))
    given.close("finished")
    before = {*tmp_path.iterdir()}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary = made({})
    (folder,) = {*tmp_path.iterdir()} - before
    temporary.close("finished")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "seen"]
    with pytest.raises(MrDedupError, match="contains no store"):
        open_filter(folder, create=False)


def test_forms_are_those_of_the_settings(tmp_path):
    mirrors = tmp_path / "mirrors.txt"
    mirrors.write_text("a.org b.org\n")
    settings = {
        "IMPCB_KEEP_FRAGMENTS": "True",
        "IMPCB_DROP_INDEX": True,
        "IMPCB_MIRRORS": str(mirrors),
    }
    for given, form in (
        ({}, UrlForm()),
        ({"IMPCB_CANONICAL": False}, UrlForm(canonical=False)),
        (settings, UrlForm(True, True, True, False, (("a.org", "b.org"),))),
    ):
        found = made({**given, "IMPCB_STORE": str(tmp_path / str(len(given)))})
        assert found._filter.form == form
        found.close("finished")
