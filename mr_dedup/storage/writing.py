"""Write to stores: whole files, and directories that become results when they are complete."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import reading
from mr_dedup.storage.errors import is_missing, storage_errors
from mr_dedup.storage.listing import exists, files_below
from mr_dedup.storage.retries import repeated
from mr_dedup.storage.stores import open_store, require_writable, store_of
from mr_dedup.storage.transfers import TRANSFERS
from mr_dedup.storage.uris import file_name, joined, parent_of, without_secrets

_REQUESTS = 16
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.1, 5.0


def refuse_existing(uri: str, overwrite: bool) -> None:
    """Raise MrDedupError if ``uri`` may not be written, or not be replaced."""
    require_writable(uri)
    if not overwrite and exists(uri):
        raise MrDedupError(f"{without_secrets(uri)}: exists; give --overwrite to replace it")


def put(path: Path, uri: str, overwrite: bool = False) -> None:
    """Copy a local file to ``uri``: whole, or not at all.

    Raises MrDedupError, also if it exists and not ``overwrite``.
    """
    refuse_existing(uri, overwrite)
    with reading(path):
        size_bytes = path.stat().st_size
    system, target = open_store(uri)
    if store_of(uri).renames:
        _put_and_rename(path, uri, system, target)
    else:
        # an object appears when it is complete
        repeated(uri, lambda: system.put_file(str(path), target))
    TRANSFERS.add_written(size_bytes)


def _put_and_rename(path: Path, uri: str, system: Any, target: str) -> None:
    aside = joined(parent_of(uri), f"_{file_name(uri)}.{secrets.token_hex(4)}")
    _, hidden = open_store(aside)
    try:
        with storage_errors(uri):
            system.makedirs(system._parent(target), exist_ok=True)
        repeated(uri, lambda: system.put_file(str(path), hidden))
        with storage_errors(uri):
            _rename(system, hidden, target)
    except BaseException:
        with contextlib.suppress(MrDedupError):
            remove(aside)
        raise


def read_small(uri: str) -> bytes:
    """Return the content of a small file; raises MrDedupError."""
    system, path = open_store(uri)

    def request() -> bytes:
        content: bytes = system.cat_file(path)
        return content

    return repeated(uri, request)


def remove(uri: str) -> None:
    """Remove a file, or a directory with all in it, if there is one; raises MrDedupError."""
    system, path = open_store(uri)
    if store_of(uri).renames:
        repeated(uri, lambda: _ignoring_missing(lambda: system.rm(path, recursive=True)))
        return
    # not fsspec's rm of a directory, which takes a name such as "kept[1]" for a pattern
    _removed([file.uri for file in files_below(uri)])


def _removed(uris: Sequence[str]) -> None:
    """Remove files."""

    def request(uri: str) -> None:
        system, path = open_store(uri)
        repeated(uri, lambda: _ignoring_missing(lambda: system.rm_file(path)))

    _in_parallel([functools.partial(request, uri) for uri in uris])


def _ignoring_missing(request: Callable[[], object]) -> None:
    try:
        request()
    except Exception as error:
        if not is_missing(error):
            raise


def move_directory(made: str, target: str, last: str) -> None:
    """Make the directory ``made`` the directory ``target``, and remove an existing ``target``.

    Where directories are renamed, at once. In an object store the file ``last`` of an existing
    target is removed first, the other files are replaced, and ``last`` is written last: a directory
    without it is incomplete. Copies are made within the store. If that fails, the copies that
    replaced no file are removed. Raises MrDedupError.
    """
    if store_of(target).renames:
        _rename_directory(made, target)
        return
    files = [file.uri.removeprefix(made.rstrip("/") + "/") for file in files_below(made)]
    remove(joined(target, last))
    before = {file.uri for file in files_below(target)}
    after = {joined(target, name) for name in files}
    try:
        _copied([(joined(made, name), joined(target, name)) for name in files if name != last])
        _removed(sorted(before - after))
        _copied([(joined(made, name), joined(target, name)) for name in files if name == last])
    except BaseException:
        with contextlib.suppress(MrDedupError):
            _removed(sorted(after - before))
        raise
    remove(made)


def _rename_directory(made: str, target: str) -> None:
    system, source = open_store(made)
    _, path = open_store(target)
    replaced = joined(parent_of(target), f"_{file_name(target)}.{secrets.token_hex(4)}.old")
    _, old = open_store(replaced)
    had = exists(target)
    with storage_errors(target):
        system.makedirs(system._parent(path), exist_ok=True)
        if had:
            system.mv(path, old)
        try:
            system.mv(source, path)
        except BaseException:
            if had:
                system.mv(old, path)
            raise
    if had:
        remove(replaced)


def _copied(pairs: Sequence[tuple[str, str]]) -> None:
    """Copy files within a store, each from the first URI of a pair to the second."""

    def request(source: str, target: str) -> None:
        system, path = open_store(source)
        copy = open_store(target)[1]
        repeated(target, lambda: system.cp_file(path, copy))
        if store_of(target).protocol == "abfs":
            _await_copy(target)

    _in_parallel([functools.partial(request, *pair) for pair in pairs])


def _await_copy(uri: str) -> None:
    """Wait until Azure, which copies in the background, has copied a file; raises MrDedupError."""
    import fsspec.asyn

    system, path = open_store(uri)
    container, name, _ = system.split_path(path)

    async def status() -> str:
        async with system.service_client.get_blob_client(container, name) as client:
            return str((await client.get_blob_properties()).copy.status)

    wait = _FIRST_WAIT_SECONDS
    while (said := repeated(uri, lambda: fsspec.asyn.sync(system.loop, status))) == "pending":
        time.sleep(wait)
        wait = min(2 * wait, _MAX_WAIT_SECONDS)
    if said != "success":
        raise MrDedupError(f"{without_secrets(uri)}: cannot be written: its copy has {said}")


def _in_parallel(requests: Sequence[Callable[[], None]]) -> None:
    """Do requests; raise the first error, after which no more are begun."""
    with ThreadPoolExecutor(_REQUESTS) as pool:
        futures = [pool.submit(request) for request in requests]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _rename(system: Any, source: str, target: str) -> None:
    """Rename a file, in place of an existing one."""
    system.mv(source, target, overwrite=True)
