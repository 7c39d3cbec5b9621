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
from mr_dedup.files.file_lists import FILE_LIST, Sizes, require_own
from mr_dedup.files.io_errors import reading
from mr_dedup.storage.errors import is_missing, is_transient, storage_errors
from mr_dedup.storage.listing import exists, file_info, files_below
from mr_dedup.storage.retries import repeated
from mr_dedup.storage.stores import open_store, require_writable, store_of
from mr_dedup.storage.transfers import TRANSFERS
from mr_dedup.storage.uris import file_name, joined, name_below, parent_of, without_secrets

_REQUESTS = 16
_COMPARED_BYTES = 1 << 20
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
    try:
        if store_of(uri).renames:
            _put_and_rename(path, uri, system, target, overwrite)
        else:
            # an object appears when it is complete
            mode = "overwrite" if overwrite else "create"
            options = store_of(uri).put_options
            repeated(uri, lambda: system.put_file(str(path), target, mode=mode, **options))
    except MrDedupError as error:
        # the store may have taken it, and only the response be lost
        if not (_may_be_there(error) and _is_copy(uri, path)):
            raise
    TRANSFERS.add_written(size_bytes)


def _may_be_there(error: MrDedupError) -> bool:
    """Return whether a request that ended with an error may have been carried out before."""
    cause = error.__cause__
    if cause is None:
        return False
    # of an upload in parts that was completed the store knows nothing any more
    return is_transient(cause) or is_missing(cause) or isinstance(cause, FileExistsError)


def _is_copy(uri: str, path: Path) -> bool:
    """Return whether a file has the content of a local one, as far as the store says.

    It is read, but only after a failure.
    """
    with contextlib.suppress(MrDedupError, OSError):
        system, target = open_store(uri)
        if repeated(uri, lambda: file_info(uri)).size_bytes != path.stat().st_size:
            return False
        with path.open("rb") as local, storage_errors(uri), system.open(target, "rb") as remote:
            while data := local.read(_COMPARED_BYTES):
                if remote.read(len(data)) != data:
                    return False
        return True
    return False


def create(uri: str, content: bytes) -> bool:
    """Write a small file on the condition that there is none; return whether it is written.

    Stores that know no such condition, which are few by now, replace it. Raises MrDedupError.
    """
    system, path = open_store(uri)

    def request() -> None:
        if store_of(uri).renames:
            # HDFS has a name once only
            with system.client.create(path) as file:
                file.write(content)
        else:
            system.pipe_file(path, content, mode="create")

    try:
        repeated(uri, request)
    except MrDedupError as error:
        if error.__cause__ is None or not _may_be_there(error):
            raise
        # also if the response was lost
        return read_if_there(uri) == content
    return True


def _put_and_rename(path: Path, uri: str, system: Any, target: str, overwrite: bool) -> None:
    aside = joined(parent_of(uri), f"_{file_name(uri)}.{secrets.token_hex(4)}")
    _, hidden = open_store(aside)
    try:
        with storage_errors(uri):
            system.makedirs(system._parent(target), exist_ok=True)
        repeated(uri, lambda: system.put_file(str(path), hidden))
        with storage_errors(uri):
            _renamed(system, hidden, target, overwrite=overwrite)
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


def read_if_there(uri: str) -> bytes | None:
    """Return the content of a small file, None if there is none; raises MrDedupError."""
    try:
        return read_small(uri)
    except MrDedupError as error:
        if error.__cause__ is not None and is_missing(error.__cause__):
            return None
        raise


def remove(uri: str) -> None:
    """Remove a file, or a directory with all in it, if there is one; raises MrDedupError."""
    system, path = open_store(uri)
    if store_of(uri).renames:
        repeated(uri, lambda: _ignoring_missing(lambda: system.rm(path, recursive=True)))
        return
    # not fsspec's rm of a directory, which takes a name such as "kept[1]" for a pattern
    remove_files([file.uri for file in files_below(uri)])


def remove_files(uris: Sequence[str]) -> None:
    """Remove files, those that there are; raises MrDedupError."""

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


def sizes_at(directory: str) -> dict[str, int | None]:
    """Return the sizes of all files below a directory, by name."""
    return {name_below(file.uri, directory): file.size_bytes for file in files_below(directory)}


def require_replaceable(
    directory: str, name: str | None = None, lists: Sequence[bytes] = ()
) -> Sizes:
    """Return the files below a directory, if all are of its list or of further ones.

    Raises MrDedupError otherwise; messages call it ``name``, by default its URI.
    """
    there = sizes_at(directory)
    if there:
        listed = read_if_there(joined(directory, FILE_LIST))
        require_own(without_secrets(name or directory), there, listed, *lists)
    return there


Check = Callable[[str, str], Sizes]
"""Returns the files below a directory; raises MrDedupError if it is not to be replaced.

It is called by its first argument, and named to users by its second one.
"""


def move_directory(made: str, target: str, last: str, check: Check = require_replaceable) -> None:
    """Make the directory ``made`` the directory ``target``, and remove an existing ``target``.

    Where directories are renamed, at once. In an object store the file ``last`` of an existing
    target is removed first, the other files are replaced, and ``last`` is written last: a directory
    without it is incomplete. Copies are made within the store. If that fails, the copies that
    replaced no file are removed. Of ``target`` only files that ``check`` returns are removed.
    Raises MrDedupError.
    """
    if store_of(target).renames:
        _rename_directory(made, target, check)
        return
    files = list(sizes_at(made))
    before = {joined(target, name) for name in check(target, target)}
    after = {joined(target, name) for name in files}
    remove_files([joined(target, last)])
    before.discard(joined(target, last))
    try:
        _copied([(joined(made, name), joined(target, name)) for name in files if name != last])
        remove_files(sorted(before - after))
        _copied([(joined(made, name), joined(target, name)) for name in files if name == last])
    except BaseException as error:
        # the last one may be there, and only the response be lost
        if not (isinstance(error, MrDedupError) and _is_there(joined(target, last))):
            with contextlib.suppress(MrDedupError):
                remove_files(sorted(after - before))
            raise
    with contextlib.suppress(MrDedupError):
        remove_files([joined(made, name) for name in files])


def _is_there(uri: str) -> bool:
    """Return whether there is a file, as far as the store says."""
    with contextlib.suppress(MrDedupError):
        return exists(uri)
    return False


def _rename_directory(made: str, target: str, check: Check) -> None:
    system, source = open_store(made)
    _, path = open_store(target)
    replaced = joined(parent_of(target), f"_{file_name(target)}.{secrets.token_hex(4)}.old")
    _, old = open_store(replaced)
    had = exists(target)
    with storage_errors(target):
        system.makedirs(system._parent(path), exist_ok=True)
        if had:
            _renamed(system, path, old)
        try:
            if had:
                # by this name nobody adds files
                check(replaced, target)
            _renamed(system, source, path)
        except BaseException:
            if had:
                _renamed(system, old, path)
            raise
    if had:
        with contextlib.suppress(MrDedupError):
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


def _renamed(system: Any, source: str, target: str, *, overwrite: bool = False) -> None:
    """Rename a file or directory; a response that is lost does not make it a failure."""
    try:
        system.mv(source, target, overwrite=overwrite)
    except Exception:
        if system.exists(source) or not system.exists(target):
            raise
