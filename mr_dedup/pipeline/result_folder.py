"""The directory of a result of a de-duplication, and what an unfinished run leaves beside it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from mr_dedup.engines.reporting import transferring
from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lists import (
    FILE_LIST,
    Sizes,
    encoded_list,
    require_replaceable,
)
from mr_dedup.files.inputs import require_not_read, require_utf8
from mr_dedup.files.io_errors import cannot_be_written, reading
from mr_dedup.files.output_folders import (
    is_empty,
    locked,
    put_in_place,
    remove_replaced,
    require_parent,
)
from mr_dedup.files.temporary import hidden_prefix
from mr_dedup.pipeline.results import SUMMARY
from mr_dedup.pipeline.stages import MANIFEST, RESULT, files_of_stages, has_finished, recorded_value
from mr_dedup.storage import writing
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.leases import Lease
from mr_dedup.storage.listing import RemoteFile, exists, file_info, files_below
from mr_dedup.storage.stores import require_writable
from mr_dedup.storage.uris import file_name, joined, name_below, parent_of, without_secrets


class ResultFolder(Protocol):
    """The directory of a result, and beside it what an unfinished run has left.

    Attributes:
        work: A directory of this machine, where the stages of a run leave their files.
    """

    work: Path

    @property
    def name(self) -> str:
        """What the user calls the result."""

    @property
    def address(self) -> str:
        """The directory, a path or URI, where tasks write what ``publish`` makes appear."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What a run records of where its tasks write, if that is another directory each time."""

    @property
    def unfinished(self) -> str:
        """Where an interrupted run leaves what --resume needs."""

    def locked(self, warn: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        """Keep other runs from writing the result in a block."""

    def exists(self) -> bool:
        """Return whether there is a directory of the result, or anything else in its place."""

    def has_unfinished(self) -> bool:
        """Return whether a run was interrupted."""

    def check(self, *, resume: bool, overwrite: bool, read: Iterable[str]) -> None:
        """Raise MrDedupError if there is a result or an unfinished run that must stay.

        Also if the result is among the directories that are ``read``.
        """

    def was_published(self) -> bool:
        """Return whether a run was killed after its result had appeared."""

    def fetch_unfinished(self) -> None:
        """Have in ``work`` what an interrupted run has left."""

    def discard(self) -> None:
        """Remove what an interrupted run has left."""

    def record(self, files: Sequence[str]) -> None:
        """Keep files of a stage that is finished, named relative to ``work``, the manifest last.

        Raises TakenOverError as ``require_own`` does.
        """

    def require_own(self) -> None:
        """Raise TakenOverError if another run has begun to write the result."""

    def publish(self) -> None:
        """Make the result appear, and remove everything else."""

    def end(self) -> None:
        """Remove everything but the result."""

    def local_copy(self, name: str) -> Path | None:
        """Return a local copy of a file or directory of the result; None if there is none."""


class TakenOverError(MrDedupError):
    """Another run has begun to write the result of this one."""


class LocalResult:
    """A result on this machine, and beside it the working directory.

    Which of them exist shows how far a run got: when the result has appeared, the working directory
    is renamed before its files are removed.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.work = out.parent / f".{out.name}.unfinished"
        self._ended = out.parent / f".{out.name}.ended"
        self._replaces = False

    @property
    def name(self) -> str:
        """See ResultFolder.name."""
        return str(self.out)

    @property
    def address(self) -> str:
        """See ResultFolder.address."""
        return str(self.work.absolute())

    @property
    def identity(self) -> Mapping[str, str]:
        """See ResultFolder.identity."""
        return {}

    @property
    def unfinished(self) -> str:
        """See ResultFolder.unfinished."""
        return str(self.work)

    def locked(self, warn: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        """Keep other runs from writing the result in a block; as ``output_folders.locked``."""
        return locked(self.out, warn)

    def exists(self) -> bool:
        """See ResultFolder.exists."""
        return self.out.exists()

    def has_unfinished(self) -> bool:
        """See ResultFolder.has_unfinished."""
        return self.work.exists()

    def fetch_unfinished(self) -> None:
        """Do nothing: ``work`` is where it was left."""

    def discard(self) -> None:
        """See ResultFolder.discard."""
        _remove_run(self.work)

    def record(self, files: Sequence[str]) -> None:
        """Do nothing: they stay where they are."""

    def require_own(self) -> None:
        """Do nothing: the result is locked."""

    def local_copy(self, name: str) -> Path | None:
        """See ResultFolder.local_copy."""
        path = self.out / name
        return path if path.exists() else None

    def check(self, *, resume: bool, overwrite: bool, read: Iterable[str]) -> None:
        """See ResultFolder.check."""
        out = self.out
        require_utf8(out)
        require_parent(out)
        for folder in (self.work, self._ended):
            if os.path.lexists(folder) and not _is_of_run(folder):
                raise MrDedupError(f"{folder}: {_NOT_OF_RUN}")
        require_not_read(out, map(Path, read))
        self._replaces = overwrite
        _refuse(self, is_there=os.path.lexists(out), resume=resume, overwrite=overwrite)
        if os.path.lexists(out):
            require_replaceable(out)

    def was_published(self) -> bool:
        """Return whether a run was killed after its result had appeared."""
        if not self.out.exists():
            return False
        if not self.work.exists():
            return _is_of_run(self._ended)
        is_done = _is_of_run(self.work) and has_finished(self.work, "keep")
        return is_done and not (self.work / RESULT).exists()

    def publish(self) -> None:
        """Rename the result to ``out``, and remove the working directory.

        Raises MrDedupError if ``out`` is there now and was not to be replaced.
        """
        if self.out.exists() and not self._replaces and not is_empty(self.out):
            raise _appeared(self)
        put_in_place(self.work / RESULT, self.out, keeps_old=True)
        self.end()

    def end(self) -> None:
        """Remove everything but the result."""
        if self.work.exists():
            _remove_run(self._ended)
            try:
                os.rename(self.work, self._ended)  # noqa: PTH104 (a directory onto nothing)
            except OSError as error:
                raise cannot_be_written(self._ended, error) from error
        remove_replaced(self.out)
        _remove_run(self._ended)


_MANIFESTS = re.compile(rf"{re.escape(MANIFEST)}|_{re.escape(MANIFEST)}\.\w+")
"""The manifest in a store; that which is being written, where files are renamed."""

_NOT_OF_RUN = "not a directory of a run; move it away"


def _is_of_run(folder: Path) -> bool:
    """Return whether a path is a directory with a manifest, or with nothing else yet."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    with reading(folder):
        names = [path.name for path in folder.iterdir()]
    return MANIFEST in names or all(
        name.startswith(hidden_prefix(folder / MANIFEST)) for name in names
    )


def _remove_run(folder: Path) -> None:
    """Remove the directory of a run, if it is there, and its manifest when nothing else is left.

    What cannot be removed, such as a file that is open elsewhere in NFS, stays in the directory of
    a run. Raises MrDedupError for any other file or directory.
    """
    if not os.path.lexists(folder):
        return
    if not _is_of_run(folder):
        raise MrDedupError(f"{folder}: {_NOT_OF_RUN}")
    manifest = folder / MANIFEST
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path != manifest:
                with contextlib.suppress(OSError):
                    path.unlink()
        if not set(folder.iterdir()) - {manifest}:
            manifest.unlink(missing_ok=True)
            folder.rmdir()


ADDRESS, DIRECTORY = "address", "directory"
"""The names of what ``ResultFolder.identity`` has: a URI, and the name of a directory."""


_FETCHED = "fetched"
"""A file in the working directory of a result that has been copied, and is renamed next."""


class FetchedResult(LocalResult):
    """A result on this machine that the tasks of a cluster write to a store, from where it comes.

    Args:
        out: The directory of the result.
        address: The URI of a directory that tasks may write; a run that is resumed has its own.
    """

    def __init__(self, out: Path, address: str) -> None:
        super().__init__(out)
        self._address = address

    @property
    def address(self) -> str:
        """See ResultFolder.address."""
        recorded = recorded_value(self.work, ADDRESS)
        is_ours = isinstance(recorded, str) and parent_of(recorded) == parent_of(self._address)
        return recorded if is_ours else self._address

    @property
    def identity(self) -> Mapping[str, str]:
        """See ResultFolder.identity."""
        return {ADDRESS: self.address}

    def discard(self) -> None:
        """See ResultFolder.discard."""
        if self.work.exists():
            writing.remove(self.address)
        super().discard()

    def was_published(self) -> bool:
        """See ResultFolder.was_published. Before it is copied nothing of a result is here."""
        if self.work.exists() and not (self.work / _FETCHED).exists():
            return False
        return super().was_published()

    def publish(self) -> None:
        """Copy what tasks have written; then as a result of this machine."""
        made = joined(self.address, RESULT)
        files = [
            file for file in files_below(made) if not is_unfinished(name_below(file.uri, made))
        ]

        def copy(file: RemoteFile) -> None:
            path = self.work / RESULT / name_below(file.uri, made)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            fetch(file, path)

        total = sum(file.size_bytes or 0 for file in files)
        with transferring("fetching", total), ThreadPoolExecutor(_TRANSFERS) as pool:
            for _ in pool.map(copy, files):
                pass
        (self.work / _FETCHED).touch()
        super().publish()

    def end(self) -> None:
        """See ResultFolder.end."""
        if self.work.exists():
            writing.remove(self.address)
        super().end()


class RemoteResult:
    """A result in a store, and beside it what finished stages have left.

    The stages work on this machine; their files are copied to the store as each is finished, so
    that a run can be resumed from any machine. The result appears by renaming its directory or, in
    an object store, by copies within it, of which summary.json is the last.

    Beside the result is a directory with the manifest of the run that began last, and in it one for
    each run: what a run writes that goes on meanwhile is not taken for another's.

    Args:
        uri: The URI of the result.
        folder: A temporary directory of this machine.
    """

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri.rstrip("/")
        self.work = folder / "work"
        self._copies = folder / "result"
        self._beside = joined(parent_of(self.uri), f".{file_name(self.uri)}.unfinished")
        self._directory = secrets.token_hex(8)
        self._lease: Lease | None = None
        self._replaces = False

    @property
    def name(self) -> str:
        """See ResultFolder.name."""
        return self.uri

    @property
    def address(self) -> str:
        """See ResultFolder.address."""
        return joined(self._beside, self.identity[DIRECTORY])

    @property
    def identity(self) -> Mapping[str, str]:
        """See ResultFolder.identity."""
        recorded = recorded_value(self.work, DIRECTORY)
        return {DIRECTORY: recorded if _is_directory(recorded) else self._directory}

    @property
    def unfinished(self) -> str:
        """See ResultFolder.unfinished."""
        return self._beside

    def locked(self, warn: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        """Keep other runs from writing the result in a block; see ``Lease``."""
        return self._locked()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        require_writable(self.uri)
        lease = joined(parent_of(self.uri), f".{file_name(self.uri)}.lock")
        with Lease(lease, self.uri) as self._lease:
            yield

    def exists(self) -> bool:
        """See ResultFolder.exists."""
        return bool(files_below(self.uri)) or exists(self.uri)

    def has_unfinished(self) -> bool:
        """See ResultFolder.has_unfinished."""
        return exists(joined(self._beside, MANIFEST))

    def check(self, *, resume: bool, overwrite: bool, read: Iterable[str]) -> None:
        """See ResultFolder.check."""
        if any(f"{name.rstrip('/')}/".startswith(f"{self.uri}/") for name in read):
            raise MrDedupError(f"{self.uri}: is read as well; choose another name for the result")
        require_writable(self.uri)
        beside = without_secrets(self._beside)
        for file in files_below(self._beside):
            if file.uri == self._beside:
                raise MrDedupError(f"{beside}: {_NOT_OF_RUN}")
            name = name_below(file.uri, self._beside)
            directory, below, _ = name.partition("/")
            if not (_is_directory(directory) if below else _MANIFESTS.fullmatch(name)):
                raise MrDedupError(f"{beside}: contains {name!r}: {_NOT_OF_RUN}")
        self._replaces = overwrite
        _refuse(self, is_there=self._is_there(), resume=resume, overwrite=overwrite)
        self._require_own(self.uri)

    def _is_there(self) -> bool:
        """Return whether there is anything but copies that a killed run was making."""
        if exists(joined(self.uri, SUMMARY)):
            return True
        return self.exists() and not self._lists_of_move()

    def _require_own(self, uri: str, name: str = "") -> Sizes:
        """Return what is in the directory of the result, which is at ``uri`` now.

        Raises MrDedupError, with its ``name``, if that is more than a run has made.
        """
        return writing.require_replaceable(uri, name or self.uri, self._lists_of_move())

    def _lists_of_move(self) -> list[bytes]:
        """Return the lists of what a killed run was replacing, and what it replaces that with."""
        directory = self._recorded_directory()
        names = (_MOVING, f"{RESULT}/{FILE_LIST}") if directory else ()
        found = [
            writing.read_if_there(joined(self._beside, f"{directory}/{name}")) for name in names
        ]
        return [content for content in found if content is not None]

    def _recorded_directory(self) -> str | None:
        """Return the directory of the run that began last; None if there is none."""
        content = writing.read_if_there(joined(self._beside, MANIFEST))
        return None if content is None else _directory_of(content)

    def was_published(self) -> bool:
        """See ResultFolder.was_published."""
        if not (self.has_unfinished() and exists(joined(self.uri, SUMMARY))):
            return False
        self._fetch([MANIFEST])
        if not has_finished(self.work, "keep"):
            return False
        made = joined(self.address, RESULT)
        lists = [writing.read_if_there(joined(uri, FILE_LIST)) for uri in (made, self.uri)]
        # moved, or copied and not yet removed
        return lists[0] == lists[1] is not None or not files_below(made)

    def fetch_unfinished(self) -> None:
        """See ResultFolder.fetch_unfinished."""
        if self.has_unfinished():
            self._fetch([MANIFEST])
            self._fetch(files_of_stages(self.work))

    def _fetch(self, names: Sequence[str]) -> None:
        def fetch_one(name: str) -> None:
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            fetch(file_info(self._at(name)), path)

        with ThreadPoolExecutor(_TRANSFERS) as pool:
            for _ in pool.map(fetch_one, names):
                pass

    def _at(self, name: str) -> str:
        """Return the URI of a file of the run."""
        return joined(self._beside if name == MANIFEST else self.address, name)

    def discard(self) -> None:
        """See ResultFolder.discard. What it has copied of its result is no result, and goes too."""
        if self._lists_of_move() and not exists(joined(self.uri, SUMMARY)):
            writing.remove_files([joined(self.uri, name) for name in self._require_own(self.uri)])
        shutil.rmtree(self.work, ignore_errors=True)
        writing.remove(self._beside)

    def record(self, files: Sequence[str]) -> None:
        """See ResultFolder.record. The last file is written after all others."""
        self.require_own()
        *others, last = files
        total = sum((self.work / name).stat().st_size for name in files)
        with transferring("copying", total), ThreadPoolExecutor(_TRANSFERS) as pool:
            list(pool.map(self._put, others))
        self._put(last)

    def _put(self, name: str) -> None:
        writing.put(self.work / name, self._at(name), overwrite=True)

    def require_own(self) -> None:
        """See ResultFolder.require_own. What is there is the other's, and stays."""
        if self._lease is not None and not self._lease.is_owned():
            raise TakenOverError(
                f"{without_secrets(self.uri)}: another run has begun to write it, so this one ends"
            )

    def publish(self) -> None:
        """See ResultFolder.publish."""
        made_there = joined(self.address, RESULT)
        in_result = f"{RESULT}/"
        recorded = {name for name in files_of_stages(self.work) if name.startswith(in_result)}
        known = set()
        for file in files_below(self.address):
            name = name_below(file.uri, self.address)
            is_stale = recorded and name.startswith(in_result) and name not in recorded
            if is_stale or is_unfinished(name):
                # of a stage that was run again, or a task that was killed
                writing.remove(file.uri)
            else:
                known.add(file.uri)
        if not self._replaces and self._is_there():
            raise _appeared(self)
        made = sorted(path for path in (self.work / RESULT).rglob("*") if path.is_file())
        names = [str(path.relative_to(self.work)) for path in made]
        # report and summary, which no stage has recorded
        self.record(
            [name for name in names if self._at(name) not in known] + [f"{RESULT}/{SUMMARY}"]
        )
        lists = {
            f"{RESULT}/{FILE_LIST}": encoded_list(writing.sizes_at(made_there)),
            _MOVING: encoded_list(self._require_own(self.uri)),
        }
        self.require_own()
        for name, content in lists.items():
            (self.work / name).write_bytes(content)
            self._put(name)
        writing.move_directory(made_there, self.uri, SUMMARY, self._require_own)
        # what is left is removed by --resume
        with contextlib.suppress(MrDedupError):
            self.end()

    def end(self) -> None:
        """See ResultFolder.end."""
        writing.remove(self._beside)

    def local_copy(self, name: str) -> Path | None:
        """See ResultFolder.local_copy."""
        path = self._copies / name
        for file in files_below(joined(self.uri, name)):
            copy = self._copies / name_below(file.uri, self.uri)
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                fetch(file, copy)
        return path if path.exists() else None


_TRANSFERS = 8

_MOVING = "moving.json"
"""What a result replaces, in the directory of its run: its list while files are copied."""


def _directory_of(manifest: bytes) -> str | None:
    """Return the directory of the run that a manifest is of; None if it states none."""
    try:
        found = json.loads(manifest)["run"][DIRECTORY]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if _is_directory(found) else None


def _is_directory(name: object) -> bool:
    """Return whether a manifest states the directory of a run: not one that leads elsewhere."""
    return isinstance(name, str) and re.fullmatch("[0-9a-f]{16}", name) is not None


def is_unfinished(name: str) -> bool:
    """Return whether a file below a result is one that a task was writing, by its name."""
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _appeared(folder: ResultFolder) -> MrDedupError:
    return MrDedupError(
        f"{without_secrets(folder.name)}: has appeared since the run began; --resume with "
        "--overwrite replaces it"
    )


def _refuse(folder: ResultFolder, *, is_there: bool, resume: bool, overwrite: bool) -> None:
    """Raise MrDedupError if there is a result or an unfinished run that must stay."""
    name = without_secrets(folder.name)
    if is_there and not overwrite:
        raise MrDedupError(f"{name}: exists; give --overwrite to replace it")
    if not resume and not overwrite and folder.has_unfinished():
        raise MrDedupError(
            f"{name}: a run was interrupted; --resume continues it, --overwrite discards it"
        )
