"""Open a filter where it is kept: a folder of this machine, or a name in a Redis server.

A folder holds ``store`` (RocksDB's files), ``counters.cbf`` and ``lock``, which the process that
writes holds as long as it lives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folder_lock import FolderLock
from mr_dedup.formats.folders import Folder, FolderFile
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.counting_bloom import BloomShape
from mr_dedup.urls.filter import UrlFilter
from mr_dedup.urls.redis_store import SCHEMES, RedisStore
from mr_dedup.urls.rocks_store import RocksStore
from mr_dedup.urls.store import DigestStore, StoreInUseError

DEFAULT_CAPACITY = 1_000_000

STORE_NAME, COUNTERS_NAME, LOCK_NAME = "store", "counters.cbf", "lock"


def open_filter(
    place: str | Path,
    *,
    form: UrlForm | None = None,
    shape: BloomShape | None = None,
    sync: bool = False,
    create: bool = True,
) -> UrlFilter:
    """Open the filter at ``place``, a folder or ``redis://host:port/database#NAME``.

    What is missing is made, unless ``create`` is False. A new one is of ``form``, by default the
    canonical one; an old one keeps the form it was made with. The counters of a new one, and of
    one in Redis, whose counters are this process's own, have ``shape``, by default the paper's
    for a million URLs. ``sync`` has each batch survive a loss of power too, in a folder; in Redis
    that is for its settings to say.

    Raises StoreInUseError if another process has the folder open, MrDedupError if ``form`` is
    given and is not that of the URLs in the store, or where the store cannot be opened. If a folder
    is moved, removed or replaced while it is open, changes raise MrDedupError, and what is at its
    path then is not touched.
    """
    shape = shape or BloomShape.of_paper(DEFAULT_CAPACITY)
    wanted = None if form is None else form.to_text()
    new = wanted or UrlForm().to_text()
    if isinstance(place, str) and place.partition(":")[0].lower() in SCHEMES:
        store: DigestStore = RedisStore(place, new, create=create)
        return _filter(store, str(place), wanted, shape)
    folder = Path(place)
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
            require_same=lock.require_same,
        )  # fmt: skip
        unlock = stack.pop_all().close
        return _filter(store, str(folder), wanted, shape, opened / COUNTERS_NAME, unlock)


def _filter(
    store: DigestStore,
    place: str,
    wanted: str | None,
    shape: BloomShape,
    counters_file: FolderFile | None = None,
    unlock: Callable[[], object] = lambda: None,
) -> UrlFilter:
    try:
        form = UrlForm.from_text(store.form)
    except (ValueError, KeyError, TypeError) as error:
        store.close()
        unlock()
        reason = f"the form of its URLs is not understood: {error!r}"
        raise FormatError(place, "about", reason) from error
    if wanted is not None and store.form != wanted:
        store.close()
        unlock()
        forms = [UrlForm.from_text(text).describe() for text in (store.form, wanted)]
        more = ", with other mirrors" if forms[0] == forms[1] else f" ({forms[0]}), not {forms[1]}"
        raise MrDedupError(f"{place}: was made with URLs of another form{more}")
    return UrlFilter(store, form, shape, counters_file, unlock)


def holds_store(folder: Path) -> bool:
    """Return whether ``folder`` is a filter's; MrDedupError if it is not, nor may become one."""
    try:
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise MrDedupError(f"{folder}: cannot be read: {error.strerror}") from error
    is_filter = STORE_NAME in names
    if names and not is_filter and names != {LOCK_NAME}:
        raise MrDedupError(f"{folder}: holds files, but no store of URLs; name another folder")
    return is_filter


def _prepare(folder: Path, create: bool) -> None:
    """Make ``folder`` if it is missing; raises MrDedupError unless it is a filter's then."""
    if not holds_store(folder) and not create:
        raise MrDedupError(f"{folder}: holds no store of URLs")
    with _making(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _making(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MrDedupError(f"{folder}: cannot be made: {error.strerror}") from error
