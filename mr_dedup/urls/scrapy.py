"""A duplicate filter for Scrapy: exact, mostly from memory, stored on the disk or in Redis.

In a project's settings::

    DUPEFILTER_CLASS = "mr_dedup.urls.scrapy.ImpCbDupeFilter"

- ``IMPCB_STORE``: a directory, or ``redis://host:port/database#NAME`` for several crawlers
  (default: the directory ``impcb`` in JOBDIR; without JOBDIR a temporary one).
- ``IMPCB_CANONICAL``: False takes URLs as Scrapy has them (default True).
- ``IMPCB_KEEP_FRAGMENTS``, ``IMPCB_DROP_INDEX``, ``IMPCB_DROP_TRACKING``: as the parameters of
  UrlForm (default False).
- ``IMPCB_MIRRORS``: a file of hosts that mirror one another, for ``canonical.read_mirrors``.
- ``IMPCB_CAPACITY``: the URLs that new counters are for (default 1,000,000); they grow.
- ``DUPEFILTER_DEBUG``: True logs every duplicate, as for Scrapy's own filter.

A crawl that was stopped continues with the requests that it has seen, if it has a JOBDIR or a
store; with the store of an earlier crawl it fetches only what is new. A store keeps the form of
URLs that it was made with; settings of another form are refused.

A GET request without a body is identified by its URL alone, so that ``mr-dedup urls`` works on the
same store. Other requests are identified by method, URL and body together. Where
REQUEST_FINGERPRINTER_CLASS is not Scrapy's own, requests are identified by its fingerprints, and
URLs have no form.
"""

from __future__ import annotations

import contextlib
import logging
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.extras import imports_for
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.urls.canonical import NotAUrlError, UrlForm, read_mirrors
from mr_dedup.urls.counting_bloom import BloomShape
from mr_dedup.urls.digests import from_bytes
from mr_dedup.urls.filter import UrlFilter
from mr_dedup.urls.opening import DEFAULT_CAPACITY, open_filter

with imports_for(__name__, "scrapy"):
    from scrapy.dupefilters import BaseDupeFilter
    from scrapy.utils.job import job_dir
    from scrapy.utils.request import RequestFingerprinter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.utils.request import RequestFingerprinterProtocol
    from typing_extensions import Self

FOLDER_NAME = "impcb"
"""The name of the store's directory in JOBDIR."""

_logger = logging.getLogger(__name__)


class ImpCbDupeFilter(BaseDupeFilter):
    """Scrapy's filter of duplicate requests; see the module.

    A request that is reported as new is stored: it survives the end of the process. 80 microseconds
    a request.

    Args:
        location: of the store, as for ``open_filter``; a temporary directory if None.
        form: of URLs, by default the canonical one.
        capacity: the URLs that new counters are for.
        fingerprinter: by whose fingerprints requests are identified; by their URLs if None.
        debug: log every duplicate.
    """

    def __init__(
        self,
        location: str | Path | None = None,
        form: UrlForm | None = None,
        capacity: int = DEFAULT_CAPACITY,
        *,
        fingerprinter: RequestFingerprinterProtocol | None = None,
        debug: bool = False,
    ) -> None:
        self._location = location
        self._form = form
        self._shape = BloomShape.of_paper(capacity)
        self._fingerprinter = fingerprinter
        self._debug = debug
        self._temporary = contextlib.ExitStack()
        self._filter: UrlFilter | None = None
        self._logged = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of a crawler's settings; raises as ``read_mirrors``."""
        settings = crawler.settings
        jobs = job_dir(settings)
        location = settings.get("IMPCB_STORE") or (Path(jobs, FOLDER_NAME) if jobs else None)
        own = type(crawler.request_fingerprinter) is not RequestFingerprinter
        return cls(
            location,
            _form(settings),
            settings.getint("IMPCB_CAPACITY", DEFAULT_CAPACITY),
            fingerprinter=crawler.request_fingerprinter if own else None,
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )

    def open(self) -> None:
        """Open the store; raises as ``open_filter``."""
        location = self._location
        if location is None:
            location = self._temporary.enter_context(temporary_folder())
        self._filter = open_filter(location, form=self._form, shape=self._shape)
        if self._filter.rebuilt:
            _logger.warning("%s: the counters were rebuilt", self._filter.rebuilt)

    def request_seen(self, request: Request) -> bool:
        """Add ``request``; return whether it was seen before."""
        assert self._filter is not None
        key = self._key(request, self._filter.form)
        digests = from_bytes(md5(key, usedforsecurity=False).digest())
        return not self._filter.add_digests(digests)[0]

    def close(self, reason: str) -> None:
        """Close the store; a temporary one is removed."""
        if self._filter is not None:
            self._filter.close()
        self._temporary.close()

    def log(self, request: Request, spider: Spider) -> None:
        """Count a duplicate and log it: the first one, or each if ``debug``."""
        if self._debug:
            _logger.debug("Filtered duplicate request: %s", request, extra={"spider": spider})
        elif not self._logged:
            self._logged = True
            _logger.debug(
                "Filtered duplicate request: %s - DUPEFILTER_DEBUG would show all others too",
                request,
                extra={"spider": spider},
            )
        if spider.crawler.stats is not None:
            spider.crawler.stats.inc_value("dupefilter/filtered")

    def _key(self, request: Request, form: UrlForm) -> bytes:
        """Return the bytes whose digest identifies ``request``."""
        if self._fingerprinter is not None:
            # no URL begins with a zero byte
            return b"\0" + self._fingerprinter.fingerprint(request)
        url = request.url.encode()
        # Scrapy fetches these as they are
        if not request.meta.get("verbatim_url"):
            # file: and data: URLs have no other spelling
            with contextlib.suppress(NotAUrlError):
                url = form.of(url)
        if request.method == "GET" and not request.body:
            return url
        # methods have no zero bytes, nor have URLs
        return b"\0".join([request.method.encode(), url, request.body])


def _form(settings: BaseSettings) -> UrlForm | None:
    """Return the form of the settings; None for the default."""
    if not settings.getbool("IMPCB_CANONICAL", True):
        return UrlForm(canonical=False)
    names = ("keep_fragments", "drop_index", "drop_tracking")
    given = {name: settings.getbool(f"IMPCB_{name.upper()}") for name in names}
    mirrors = settings.get("IMPCB_MIRRORS")
    if not mirrors and not any(given.values()):
        return None
    return UrlForm(**given, mirrors=read_mirrors(Path(mirrors)) if mirrors else ())
