"""Write to stores: whole files, and directories that become results when they are complete."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import storage_errors
from mr_dedup.storage.fetching import repeated
from mr_dedup.storage.listing import exists, files_below
from mr_dedup.storage.stores import open_store, require_writable, store_of
from mr_dedup.storage.uris import file_name, joined, parent_of, without_secrets

_REQUESTS = 16


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
    system, target = open_store(uri)
    if not store_of(uri).renames:
        # an object appears when it is complete
        repeated(uri, lambda: system.put_file(str(path), target))
        return
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

    def request() -> None:
        with contextlib.suppress(FileNotFoundError):
            system.rm(path, recursive=True)

    repeated(uri, request)


def move_directory(made: str, target: str, last: str) -> None:
    """Make the directory ``made`` the directory ``target``, and remove an existing ``target``.

    Where directories are renamed, at once. In an object store the file ``last`` of an existing
    target is removed first, the other files are replaced, and ``last`` is written last: a directory
    without it is incomplete. Copies are made within the store. Raises MrDedupError.
    """
    system, source = open_store(made)
    _, place = open_store(target)
    if store_of(target).renames:
        replaced = joined(parent_of(target), f"_{file_name(target)}.{secrets.token_hex(4)}.old")
        _, old = open_store(replaced)
        had = exists(target)
        with storage_errors(target):
            if had:
                system.mv(place, old)
            try:
                system.mv(source, place)
            except BaseException:
                if had:
                    system.mv(old, place)
                raise
        if had:
            remove(replaced)
        return
    files = [file.uri.removeprefix(made.rstrip("/") + "/") for file in files_below(made)]
    remove(joined(target, last))
    before = {file.uri for file in files_below(target)}
    _in_parallel(
        [(joined(made, name), joined(target, name)) for name in files if name != last], system
    )
    stale = before - {joined(target, name) for name in files}
    for uri in sorted(stale):
        remove(uri)
    _in_parallel([(joined(made, last), joined(target, last))], system)
    remove(made)


def _in_parallel(pairs: Sequence[tuple[str, str]], system: Any) -> None:
    def copy(pair: tuple[str, str]) -> None:
        source, target = (open_store(uri)[1] for uri in pair)
        repeated(pair[1], lambda: system.cp_file(source, target))

    with ThreadPoolExecutor(_REQUESTS) as pool:
        list(pool.map(copy, pairs))


def _rename(system: Any, source: str, target: str) -> None:
    """Rename a file, in place of an existing one."""
    system.mv(source, target, overwrite=True)
