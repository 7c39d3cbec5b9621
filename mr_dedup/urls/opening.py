"""Open a filter in its directory on this machine, or under its name in a Redis server.

A directory has ``store`` (RocksDB's files), ``counters.cbf`` and ``lock``, which the writing
process has locked until it ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder, FolderFile
from mr_dedup.files.io_errors import cannot_be_read
from mr_dedup.urls.canonical import OtherFormError, UrlForm
from mr_dedup.urls.counters import UNSAVED_DIGESTS
from mr_dedup.urls.counting_bloom import BloomShape
from mr_dedup.urls.filter import UrlFilter
from mr_dedup.urls.redis_store import SCHEMES, RedisStore
from mr_dedup.urls.rocks_store import CONVERTED_KEYS, MAX_BATCH, RocksStore
from mr_dedup.urls.store import MAX_COUNT, DigestStore, StoreInUseError

DEFAULT_CAPACITY = 1_000_000

STORE_NAME, COUNTERS_NAME, LOCK_NAME = "store", "counters.cbf", "lock"


class FilterLimits(NamedTuple):
    """Limits of a filter.

    Args:
        max_count: where reference counts stop.
        unsaved_digests: added and removed digests after which the counters are saved.
        batch_digests: digests of a change, in a directory.
        converted_keys: digests that are Python objects at a time, in a directory.
    """

    max_count: int = MAX_COUNT
    unsaved_digests: int = UNSAVED_DIGESTS
    batch_digests: int = MAX_BATCH
    converted_keys: int = CONVERTED_KEYS


FILTER_LIMITS = FilterLimits()


def open_filter(
    location: str | Path,
    *,
    form: UrlForm | None = None,
    shape: BloomShape | None = None,
    sync: bool = False,
    create: bool = True,
    limits: FilterLimits = FILTER_LIMITS,
) -> UrlFilter:
    """Open the filter at ``location``.

    If a directory is moved, removed or replaced while it is open, changes raise MrDedupError, and
    what is at its path then is not touched.

    Args:
        location: a directory, or ``redis://host:port/database#NAME``.
        form: of a new filter's URLs, by default the canonical one; an old filter has its own, and
            refuses another.
        shape: of the counters of a new filter, and of one in Redis, whose counters are this
            process's own; by default the paper's for a million URLs.
        sync: force each batch to the disk, in a directory; in Redis its settings decide.
        create: make the filter if it is missing.
        limits: of batches.

    Raises:
        StoreInUseError: another process has the directory open.
        MrDedupError: ``form`` is not that of the store, or the store cannot be opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_filter(folder) as urls:
    ...         urls.add("http://example.org/")
    ...     with open_filter(folder) as urls:
    ...         urls.add("http://example.org/")
    True
    False
    """
    shape = shape or BloomShape.of_paper(DEFAULT_CAPACITY)
    wanted = None if form is None else form.to_text()
    new = wanted or UrlForm().to_text()
    if isinstance(location, str) and location.partition(":")[0].lower() in SCHEMES:
        store: DigestStore = RedisStore(location, new, create=create)
        return _filter(store, str(location), wanted, shape, limits)
    folder = Path(location)
    _prepare(folder, create)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(Folder(folder))
        lock = FolderLock(opened, LOCK_NAME, StoreInUseError)
        stack.callback(lock.release)
        with _making(folder):
            (folder / STORE_NAME).mkdir(exist_ok=True)
        files = stack.enter_context(Folder(folder / STORE_NAME))
        store = RocksStore(
            folder / STORE_NAME, new, sync=sync, fixed_path=files.fixed_path(),
            require_same=lock.require_same, max_batch=limits.batch_digests,
            converted_keys=limits.converted_keys,
        )  # fmt: skip
        unlock = stack.pop_all().close
        return _filter(store, str(folder), wanted, shape, limits, opened / COUNTERS_NAME, unlock)


def _filter(
    store: DigestStore,
    location: str,
    wanted: str | None,
    shape: BloomShape,
    limits: FilterLimits,
    counters_file: FolderFile | None = None,
    unlock: Callable[[], object] = lambda: None,
) -> UrlFilter:
    try:
        form = UrlForm.from_text(store.form)
    except OtherFormError as error:
        store.close()
        unlock()
        raise MrDedupError(f"{location}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        store.close()
        unlock()
        reason = f"the form of its URLs cannot be parsed: {error!r}"
        raise FormatError(location, "about", reason) from error
    if wanted is not None and store.form != wanted:
        store.close()
        unlock()
        forms = [UrlForm.from_text(text).describe() for text in (store.form, wanted)]
        more = ", with other mirrors" if forms[0] == forms[1] else f" ({forms[0]}), not {forms[1]}"
        raise MrDedupError(f"{location}: was made with URLs of another form{more}")
    return UrlFilter(
        store, form, shape, counters_file, unlock,
        max_count=limits.max_count, unsaved_digests=limits.unsaved_digests,
    )  # fmt: skip


def contains_store(folder: Path) -> bool:
    """Return whether ``folder`` is a filter's; MrDedupError if it contains other files."""
    try:
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise cannot_be_read(folder, error) from error
    is_filter = STORE_NAME in names
    if names and not is_filter and names != {LOCK_NAME}:
        raise MrDedupError(
            f"{folder}: contains files, but no store of URLs; name another directory"
        )
    return is_filter


def _prepare(folder: Path, create: bool) -> None:
    """Make ``folder`` if it is missing; MrDedupError if it is not and cannot become a filter's."""
    if not contains_store(folder) and not create:
        raise MrDedupError(f"{folder}: contains no store of URLs")
    with _making(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _making(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MrDedupError(f"{folder}: cannot be made: {error.strerror}") from error
