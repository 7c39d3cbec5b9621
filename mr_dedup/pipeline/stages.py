"""Stages of a long run: each leaves files and an entry in a manifest, so that it can go on later.

A finished stage is not repeated while its files are unchanged. The manifest also contains inputs
and options; a run with others cannot be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import msgspec
import xxhash

from mr_dedup.engines.events import log_event
from mr_dedup.errors import FormatError, MrDedupError, newer
from mr_dedup.files.outputs import whole_file

RESULT = "result"
"""The directory, below that of a run, that becomes the result."""

MANIFEST = "manifest.json"
_VERSION = 6
_READ_BYTES = 1 << 20


class Stages:
    """The stages of a run in its working directory.

    ``run`` are inputs and options under the names users know, as JSON types. With ``resume`` an
    interrupted run continues. Raises MrDedupError if its inputs or options differ, FormatError if
    its manifest is damaged. In a ``dry_run`` nothing is written, and no stage can be finished.
    ``called`` is what messages call inputs and options, by their names; members of a mapping by
    ``NAME.MEMBER``.
    ``later`` are options that may be others when a run is resumed, each with the last stage, which
    runs again then.
    ``recorded`` is called at the beginning, and as each stage is finished, with the names of its
    files in ``folder``, that of the manifest last.
    """

    def __init__(
        self,
        folder: Path,
        run: Mapping[str, Any],
        *,
        resume: bool,
        dry_run: bool = False,
        called: Mapping[str, str] = MappingProxyType({}),
        later: Mapping[str, str] = MappingProxyType({}),
        recorded: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        self.folder = folder
        self._recorded = recorded
        self._called = called
        self._later = later
        self._path = folder / MANIFEST
        self._run = json.loads(json.dumps(run))
        self._done: dict[str, dict[str, Any]] = {}
        if resume and self._path.exists():
            self._done = self._read()
            return
        if resume and not folder.exists():
            raise MrDedupError(f"{folder}: nothing to resume: no run was interrupted")
        if dry_run:
            return
        # a run that was killed before it had a manifest
        folder.mkdir(exist_ok=resume)
        self._write()
        recorded([MANIFEST])

    def is_done(self, stage: str) -> bool:
        """Return whether a stage was finished, and its files are unchanged."""
        entry = self._done.get(stage)
        if entry is None:
            return False
        return all(
            (self.folder / name).is_file() and checksum(self.folder / name) == expected
            for name, expected in entry["files"].items()
        )

    def values(self, stage: str) -> dict[str, Any]:
        """Return the values of a finished stage."""
        values: dict[str, Any] = self._done[stage]["values"]
        return values

    def finish(self, stage: str, files: Sequence[str], values: Mapping[str, Any]) -> None:
        """Record that a stage is done, with its files and values.

        Later stages must run again, as they were made from its previous files.
        """
        names = list(self._done)
        if stage in names:
            for later in names[names.index(stage) :]:
                del self._done[later]
        sums = {name: checksum(self.folder / name) for name in files}
        self._done[stage] = {"files": sums, "values": json.loads(json.dumps(values))}
        self._write()
        self._recorded([*files, MANIFEST])
        log_event("stage", stage=stage, **values)

    def _read(self) -> dict[str, dict[str, Any]]:
        version, run, done = _manifest(self._path)
        if version > _VERSION:
            raise MrDedupError(f"{self._path}: {newer(version, _VERSION)}")
        if version != _VERSION:
            raise MrDedupError(
                f"{self._path}: is of version {version}, this mr_dedup continues runs of version "
                f"{_VERSION}; start again with --overwrite"
            )
        for name in dict.fromkeys((*run, *self._run)):
            before, now = run.get(name), self._run.get(name)
            if before != now and name in self._later:
                # no stage follows the one that is run again
                done.pop(self._later[name], None)
            elif before != now:
                name, before, now = _first_difference(name, before, now)
                shown = self._called.get(name, name.replace("_", " "))
                raise MrDedupError(
                    f"--resume: {shown} was {_shown(before)}, is {_shown(now)}; start another run"
                )
        return done

    def _write(self) -> None:
        content = {"run": self._run, "done": self._done}
        manifest = {"version": _VERSION, **content, "checksum": _content_checksum(content)}
        with whole_file(self._path, overwrite=True) as file:
            file.write(json.dumps(manifest, indent=1).encode() + b"\n")


def recorded_value(folder: Path, name: str) -> Any:
    """Return what the run in ``folder`` has under ``name``; None if it has no such value."""
    try:
        return json.loads((folder / MANIFEST).read_bytes())["run"].get(name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def has_finished(folder: Path, stage: str) -> bool:
    """Return whether a run in ``folder`` finished a stage; its files may be gone."""
    try:
        return stage in json.loads((folder / MANIFEST).read_bytes())["done"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def files_of_stages(folder: Path) -> list[str]:
    """Return the files of the finished stages of the run in ``folder``; FormatError for damage."""
    _, _, done = _manifest(folder / MANIFEST)
    return [name for entry in done.values() for name in entry["files"]]


class _Done(msgspec.Struct):
    files: dict[str, str]
    values: dict[str, Any]


class _Manifest(msgspec.Struct):
    version: int
    run: dict[str, Any]
    done: dict[str, _Done]
    checksum: str = ""


def _content_checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest: what stages read of each other is as they wrote it."""
    return xxhash.xxh3_128_hexdigest(json.dumps(content).encode())


def _manifest(path: Path) -> tuple[Any, dict[str, Any], dict[str, dict[str, Any]]]:
    """Return version, inputs and options, and finished stages; FormatError for damage."""
    try:
        content = json.loads(path.read_bytes())
        found = msgspec.convert(content, _Manifest)
        expected = _content_checksum({name: content[name] for name in ("run", "done")})
        if found.version == _VERSION and found.checksum != expected:
            raise ValueError("its checksum is wrong")
        done = msgspec.to_builtins(found.done)
        for name in (name for entry in done.values() for name in entry["files"]):
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError(f"names a file elsewhere: {name}")
        return found.version, found.run, done
    except (RecursionError, ValueError) as error:
        raise FormatError(path, None, f"is damaged: {error}") from error


def checksum(path: Path) -> str:
    """Return the XXH3-128 of a file, in hex; about the rate of reading it."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def identity(path: Path) -> list[Any]:
    """Return what identifies a file without reading it: name, size and time of change."""
    status = os.stat(path)  # noqa: PTH116 (nanoseconds)
    return [str(path), status.st_size, status.st_mtime_ns]


def _first_difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """Return what differs first in two mappings, or lists of one length, else both as they are.

    With its name: of a member of the mapping ``NAME.MEMBER``.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        member = next(key for key in (*before, *now) if before.get(key) != now.get(key))
        return f"{name}.{member}", before.get(member), now.get(member)
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return name, *next(pair for pair in zip(before, now, strict=True) if pair[0] != pair[1])
    return name, before, now


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
