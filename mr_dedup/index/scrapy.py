"""An item pipeline for Scrapy that drops or tags near-duplicate pages.

In a project's settings::

    ITEM_PIPELINES = {"mr_dedup.index.scrapy.NearDuplicatePipeline": 300}
    NEAR_DUPLICATES_INDEX = "seen"

- ``NEAR_DUPLICATES_INDEX``: the directory of an index, made if it is missing; or for several
  crawlers the URL of a server, ``http://host:port``, that ``mr-dedup serve`` runs.
- ``NEAR_DUPLICATES_TOKEN_FILE``: the file with the token of that server (default: the environment
  variable MR_DEDUP_TOKEN).
- ``NEAR_DUPLICATES_ACTION``: ``drop`` (default) raises DropItem for a near-duplicate and does not
  add it to the index; ``tag`` adds all, and lists the ids of near-duplicates in the item.
- ``NEAR_DUPLICATES_TEXT``, ``NEAR_DUPLICATES_ID``, ``NEAR_DUPLICATES_TAG``: the item's fields of
  the text, of the id (default ``text`` and ``url``), and of the list (``near_duplicates``).
- ``NEAR_DUPLICATES_K``: the largest distance of a near-duplicate, in bits (default: the index's; of
  a new one 3).
- ``NEAR_DUPLICATES_FEATURES``, ``NEAR_DUPLICATES_WEIGHTS``: what the fingerprints of a new index
  are made from, as for ``mr-dedup index create``; an existing index has its own.

Each item is compared and added as one change, so that of items that come at the same time, from any
number of crawlers, none is missed. An item that comes again under its id replaces itself. Items
without such text pass unchanged; and so, with an error in the log, do items that could not be
compared, as when the server cannot be reached. The crawl's statistics count all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.extras import imports_for
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.folder import MANIFEST_NAME
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_token import read_token

with imports_for(__name__, "scrapy"):
    from itemadapter import ItemAdapter
    from scrapy.exceptions import DropItem, NotConfigured
    from scrapy.utils.defer import maybe_deferred_to_future
    from twisted.internet.threads import deferToThread

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from mr_dedup.index.http_client import HttpIndex

DROP, TAG = "drop", "tag"
_MAX_IDS = 10
"""Ids of near-duplicates that are listed, the nearest."""


class Fields(NamedTuple):
    """The names of an item's fields: of its text, its id, and the list of near-duplicates."""

    text: str = "text"
    id: str = "url"
    tag: str = "near_duplicates"


class NearDuplicatePipeline:
    """Scrapy's pipeline that drops or tags near-duplicates; see the module.

    An item that goes on is in the index, on the disk. That takes some milliseconds, in a thread.

    Args:
        index: the directory of an index, or the URL of a server.
        action: ``drop`` or ``tag``.
        fields: the names of the item's fields.
        k: the largest distance of a near-duplicate.
        made_from: how the fingerprints of a new index are made.
        token_file: the file of the server's token.
        count: called with the name of a statistic for each item.

    Raises:
        ValueError: ``action`` is neither of the two.
    """

    def __init__(
        self,
        index: str,
        *,
        action: str = DROP,
        fields: Fields | None = None,
        k: int | None = None,
        made_from: FingerprintOptions | None = None,
        token_file: Path | None = None,
        count: Callable[[str], Any] = lambda name: None,
    ) -> None:
        if action not in (DROP, TAG):
            raise ValueError(f"NEAR_DUPLICATES_ACTION: {action!r} is neither {DROP} nor {TAG}")
        self._location, self._action, self._k = index, action, k
        self._fields = Fields() if fields is None else fields
        self._made_from = FingerprintOptions() if made_from is None else made_from
        self._token_file = token_file
        self._count = count
        self._index: _InProcess | _ByHttp | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the pipeline of a crawler's settings; NotConfigured if they name no index."""
        settings = crawler.settings
        index = settings.get("NEAR_DUPLICATES_INDEX")
        if not index:
            raise NotConfigured("NEAR_DUPLICATES_INDEX is not set")
        token_file = settings.get("NEAR_DUPLICATES_TOKEN_FILE")
        k = settings.get("NEAR_DUPLICATES_K")
        stats = crawler.stats
        return cls(
            str(index),
            action=settings.get("NEAR_DUPLICATES_ACTION", DROP),
            fields=Fields(*_given(settings, Fields._field_defaults)),
            k=None if k is None else _bits(k),
            made_from=FingerprintOptions(
                features=settings.get("NEAR_DUPLICATES_FEATURES", "words:1"),
                weights=settings.get("NEAR_DUPLICATES_WEIGHTS", "log-tf"),
            ),
            token_file=None if token_file is None else Path(token_file),
            count=(lambda name: None) if stats is None else stats.inc_value,
        )

    def open_spider(self, spider: Spider | None = None) -> None:
        """Open the index; MrDedupError if it cannot be opened, or is not of documents."""
        if self._location.startswith(("http://", "https://")):
            self._index = _ByHttp(self._location, self._token_file, self._k)
        else:
            self._index = _InProcess(Path(self._location), self._made_from, self._k)

    async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Return an item, tagged if so configured, or raise DropItem."""
        fields, adapter = self._fields, ItemAdapter(item)
        text, id = adapter.get(fields.text), adapter.get(fields.id)
        if not isinstance(text, str) or not isinstance(id, str):
            self._count("near_duplicates/not_compared")
            return item
        assert self._index is not None
        try:
            matches = await maybe_deferred_to_future(
                deferToThread(self._index.check_and_add, text, id, self._action == DROP)
            )
        except (MrDedupError, ValueError) as error:
            _logger.error("%s was not compared: %s", id, error)
            self._count("near_duplicates/failed")
            return item
        if not matches:
            self._count("near_duplicates/new")
        elif self._action == DROP:
            self._count("near_duplicates/dropped")
            raise DropItem(f"{id} is a near-duplicate of {matches[0]}", log_level="DEBUG")
        else:
            self._count("near_duplicates/tagged")
        if self._action == TAG:
            adapter[fields.tag] = matches
        return item

    def close_spider(self, spider: Spider | None = None) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()


class _InProcess:
    """An index in a directory, of this crawl alone."""

    def __init__(self, folder: Path, made_from: FingerprintOptions, k: int | None) -> None:
        if (folder / MANIFEST_NAME).exists():
            self._index = HammingIndex.open(folder)
        else:
            self._index = HammingIndex.create(folder, k=3 if k is None else k, made_from=made_from)
            _logger.info("%s: a new index", folder)
        try:
            self._k = _reach(k, self._index.k)
            if self._index.made_from is None or not self._index.named:
                raise MrDedupError(f"{folder}: is an index of fingerprints, not of documents")
            self._fingerprinter = self._index.made_from.fingerprinter_for(
                self._index.features, str(folder)
            )
        except BaseException:
            self._index.close()
            raise

    def check_and_add(self, text: str, id: str, only_new: bool) -> list[str]:
        """Return the ids of the near-duplicates of a text."""
        values = self._fingerprinter.of(pa.array([_encodable(text)], pa.large_string()))
        found = self._index.check_and_add(
            values.astype(np.uint64), [id], self._k, limit=_MAX_IDS, only_new=only_new
        )
        return list(found.matches.ids)

    def close(self) -> None:
        """Close the index."""
        self._index.close()


class _ByHttp:
    """An index of a server."""

    def __init__(self, url: str, token_file: Path | None, k: int | None) -> None:
        from mr_dedup.index.http_client import HttpIndex

        self._index: HttpIndex = HttpIndex(url, token=read_token(token_file))
        try:
            self._k = _reach(k, self._index.k)
            if not self._index.takes_texts or not self._index.named:
                raise MrDedupError(f"{url}: is an index of fingerprints, not of documents")
        except BaseException:
            self._index.close()
            raise

    def check_and_add(self, text: str, id: str, only_new: bool) -> list[str]:
        """Return the ids of the near-duplicates of a text."""
        (found,) = self._index.check_and_add_texts(
            [_encodable(text)], [id], self._k, limit=_MAX_IDS, only_new=only_new
        )
        return [match.id for match in found.matches]

    def close(self) -> None:
        """Close the connections."""
        self._index.close()


_logger = logging.getLogger(__name__)


def _given(settings: BaseSettings, defaults: dict[str, str]) -> list[str]:
    """Return the settings that are named like fields, or their defaults."""
    return [
        settings.get(f"NEAR_DUPLICATES_{name.upper()}", default)
        for name, default in defaults.items()
    ]


def _encodable(text: str) -> str:
    """Return a text with lone surrogates, which UTF-8 cannot encode, replaced."""
    return text.encode(errors="replace").decode()


def _bits(value: Any) -> int:
    """Return the number of a setting; MrDedupError if it is none."""
    try:
        return int(value)
    except ValueError:
        raise MrDedupError(f"NEAR_DUPLICATES_K: expected a number, not {value!r}") from None


def _reach(k: int | None, max_k: int) -> int:
    """Return the largest distance of a match; MrDedupError if it is larger than the index's."""
    if k is not None and not 0 <= k <= max_k:
        reason = f"must be from 0 to {max_k}, as the index is, not {k}"
        raise MrDedupError(f"NEAR_DUPLICATES_K: {reason}")
    return max_k if k is None else k
