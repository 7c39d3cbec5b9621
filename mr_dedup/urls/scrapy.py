"""The filter for crawls by Scrapy: exact, mostly from memory, kept on the disk or in Redis.

In a project's settings::

    DUPEFILTER_CLASS = "mr_dedup.urls.scrapy.ImpCbDupeFilter"

- ``IMPCB_STORE``: a folder, or ``redis://host:port/database#NAME`` for several crawlers. By default
  the folder ``impcb`` in JOBDIR, or without JOBDIR one that goes with the crawl.
- ``IMPCB_CANONICAL``: False takes URLs as Scrapy has them (default True).
- ``IMPCB_KEEP_FRAGMENTS``, ``IMPCB_DROP_INDEX``, ``IMPCB_DROP_TRACKING``: True for what UrlForm
  says of these (default False).
- ``IMPCB_MIRRORS``: a file of hosts that mirror one another, for ``canonical.read_mirrors``.
- ``IMPCB_CAPACITY``: the URLs that new counters are for (default 1,000,000); they grow.
- ``DUPEFILTER_DEBUG``: True logs every duplicate, as for Scrapy's own.

A crawl that was stopped goes on with what it has seen, if it has a JOBDIR or a store; a store that
an earlier crawl filled makes this one fetch only what is new. A store keeps the form of URLs that
it was made with: settings may ask for no other one.

A request is what its URL is, if it is a GET without a body: so a store is filled and asked by
``mr-dedup urls`` too. Any other is known by its method, URL and body together. Where
REQUEST_FINGERPRINTER_CLASS is not Scrapy's own, requests are what that says, and URLs have no form.
"""

from __future__ import annotations

import contextlib
import logging
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.job import job_dir
from scrapy.utils.request import RequestFingerprinter

from mr_dedup.formats.temporary import temporary_folder
from mr_dedup.urls.canonical import NotAUrlError, UrlForm, read_mirrors
from mr_dedup.urls.counting_bloom import BloomShape
from mr_dedup.urls.digests import from_bytes
from mr_dedup.urls.filter import UrlFilter
from mr_dedup.urls.opening import DEFAULT_CAPACITY, open_filter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.utils.request import RequestFingerprinterProtocol
    from typing_extensions import Self

FOLDER_NAME = "impcb"
"""The folder of the store in JOBDIR."""

_logger = logging.getLogger(__name__)


class ImpCbDupeFilter(BaseDupeFilter):
    """Scrapy's filter of duplicate requests; see the module.

    A request is kept when it is told to be new: what was seen survives the end of the process,
    however it comes. One takes 80 microseconds.
    """

    def __init__(
        self,
        place: str | Path | None = None,
        form: UrlForm | None = None,
        capacity: int = DEFAULT_CAPACITY,
        *,
        fingerprinter: RequestFingerprinterProtocol | None = None,
        debug: bool = False,
    ) -> None:
        """Have the store at ``place`` as in ``open_filter``; in a temporary folder if None."""
        self._place = place
        self._form = form
        self._shape = BloomShape.of_paper(capacity)
        self._fingerprinter = fingerprinter
        self._debug = debug
        self._temporary = contextlib.ExitStack()
        self._filter: UrlFilter | None = None
        self._told = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter that a crawler's settings ask for; raises as ``read_mirrors``."""
        settings = crawler.settings
        jobs = job_dir(settings)
        place = settings.get("IMPCB_STORE") or (Path(jobs, FOLDER_NAME) if jobs else None)
        own = type(crawler.request_fingerprinter) is not RequestFingerprinter
        return cls(
            place,
            _form(settings),
            settings.getint("IMPCB_CAPACITY", DEFAULT_CAPACITY),
            fingerprinter=crawler.request_fingerprinter if own else None,
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )

    def open(self) -> None:
        """Open the store; raises as ``open_filter``."""
        place = self._place
        if place is None:
            place = self._temporary.enter_context(temporary_folder())
        self._filter = open_filter(place, form=self._form, shape=self._shape)
        if self._filter.rebuilt:
            _logger.warning("%s: the counters were filled anew", self._filter.rebuilt)

    def request_seen(self, request: Request) -> bool:
        """See ``request``; return whether it was seen before."""
        assert self._filter is not None
        key = self._key(request, self._filter.form)
        digests = from_bytes(md5(key, usedforsecurity=False).digest())
        return not self._filter.add_digests(digests)[0]

    def close(self, reason: str) -> None:
        """Let go of the store, which stays if it has a place of its own."""
        if self._filter is not None:
            self._filter.close()
        self._temporary.close()

    def log(self, request: Request, spider: Spider) -> None:
        """Count a duplicate and log it: the first one, or each if so asked."""
        if self._debug:
            _logger.debug("Filtered duplicate request: %s", request, extra={"spider": spider})
        elif not self._told:
            self._told = True
            _logger.debug(
                "Filtered duplicate request: %s - DUPEFILTER_DEBUG would show all others too",
                request,
                extra={"spider": spider},
            )
        if spider.crawler.stats is not None:
            spider.crawler.stats.inc_value("dupefilter/filtered")

    def _key(self, request: Request, form: UrlForm) -> bytes:
        """Return what the digest of ``request`` is taken of."""
        if self._fingerprinter is not None:
            # no URL begins so
            return b"\0" + self._fingerprinter.fingerprint(request)
        url = request.url.encode()
        # Scrapy asks for such as they are
        if not request.meta.get("verbatim_url"):
            # a file, or data: there is one way to spell it
            with contextlib.suppress(NotAUrlError):
                url = form.of(url)
        if request.method == "GET" and not request.body:
            return url
        # methods have no zero bytes, nor have URLs
        return b"\0".join([request.method.encode(), url, request.body])


def _form(settings: BaseSettings) -> UrlForm | None:
    """Return the form that the settings ask for; None if they ask for none."""
    if not settings.getbool("IMPCB_CANONICAL", True):
        return UrlForm(canonical=False)
    names = ("keep_fragments", "drop_index", "drop_tracking")
    given = {name: settings.getbool(f"IMPCB_{name.upper()}") for name in names}
    mirrors = settings.get("IMPCB_MIRRORS")
    if not mirrors and not any(given.values()):
        return None
    return UrlForm(**given, mirrors=read_mirrors(Path(mirrors)) if mirrors else ())
