"""Leases: one run at a time writes a directory of a store, which has no locks.

A lease is a directory of files with ascending numbers; who created the last one has it. A file is
created on the condition that there is none, so of two that want the next number one gets it:
another run that takes over, or the owner, who renews its lease by that. The age of a file is that
by the clock of the store. An owner on this machine that has ended is known by its process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from datetime import datetime
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import BOOT_ID
from mr_dedup.storage.listing import RemoteFile, files_below
from mr_dedup.storage.retries import repeated
from mr_dedup.storage.stores import open_store, require_writable, store_of
from mr_dedup.storage.uris import file_name, joined, without_secrets
from mr_dedup.storage.writing import create, read_if_there, remove_files

LEASE_SECONDS = 120
"""How long a lease is valid that is not renewed."""

_RENEWAL_SECONDS = 30


class Lease:
    """The exclusive right to write a directory of a store during a block; a context manager.

    Args:
        uri: The directory of the files of the lease.
        subject: What it is for, as messages call it.

    Raises:
        MrDedupError: Another run has it, or the store refuses.
    """

    def __init__(self, uri: str, subject: str) -> None:
        self._uri, self._subject = uri, without_secrets(subject)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._number = 0
        self._content = json.dumps({**_this_process(), "token": secrets.token_hex(8)}).encode()

    def __enter__(self) -> Lease:
        require_writable(self._uri)
        files = self._files()
        number = int(time.time())
        if files:
            self._require_ended(files[-1])
            number = max(number, int(file_name(files[-1].uri)) + 1)
        self._take(number)
        if not self.is_owned():
            raise MrDedupError(f"{self._subject}: another run has begun to write it")
        remove_files([file.uri for file in files])
        threading.Thread(target=self._renew, daemon=True, name="lease").start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        with self._lock, contextlib.suppress(MrDedupError):
            remove_files([self._at(self._number)])
            system, path = open_store(self._uri)
            if store_of(self._uri).renames:
                # an empty directory; what another run has begun stays
                with contextlib.suppress(RuntimeError, OSError):
                    system.client.delete(path, False)

    def is_owned(self) -> bool:
        """Return whether no other run has taken over."""
        with self._lock:
            files = self._files()
            return bool(files) and files[-1].uri == self._at(self._number)

    def _take(self, number: int) -> None:
        if not create(self._at(number), self._content):
            raise MrDedupError(f"{self._subject}: another run has begun to write it")
        self._number = number

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWAL_SECONDS):
            try:
                if not self.is_owned():
                    return
                with self._lock:
                    if self._ended.is_set():
                        return
                    before = self._at(self._number)
                    self._take(self._number + 1)
                    remove_files([before])
            except MrDedupError:
                # the store is out of reach, or another run has the number
                continue

    def _files(self) -> list[RemoteFile]:
        """Return the files of the lease, the last one at the end."""
        files = files_below(self._uri)
        if any(file.uri == self._uri for file in files):
            shown = without_secrets(self._uri)
            raise MrDedupError(f"{shown}: a file where runs have a directory; move it away")
        return [file for file in files if file_name(file.uri).isdecimal()]

    def _at(self, number: int) -> str:
        return joined(self._uri, f"{number:012}")

    def _require_ended(self, last: RemoteFile) -> None:
        """Raise MrDedupError if the run that created a file may be writing still."""
        owner = _decoded(read_if_there(last.uri))
        here = _this_process()
        if owner.get("machine") == here["machine"] != "":
            if owner.get("started") != _start_of(owner.get("process")):
                return
            wait = ""
        else:
            left = LEASE_SECONDS - self._age_seconds(last)
            if left < 0:
                return
            wait = f"; if it was killed, the result is free in {left:.0f} s"
        process, host = (str(owner.get(name, "?"))[:80] for name in ("process", "host"))
        raise MrDedupError(
            f"{self._subject}: another run is writing it, process {process!r} on {host!r}{wait}"
        )

    def _age_seconds(self, file: RemoteFile) -> float:
        """Return how long ago a file was written, by the clock of the store."""
        probe = joined(self._uri, f"probe-{os.getpid()}-{time.monotonic_ns()}")
        create(probe, b"")
        try:
            return (_modified(probe) - _modified(file.uri)).total_seconds()
        finally:
            remove_files([probe])


def _modified(uri: str) -> datetime:
    system, path = open_store(uri)
    found: datetime = repeated(uri, lambda: system.modified(path))
    return found


def _this_process() -> dict[str, str]:
    """Return what identifies this process, among all of its machine, and the machine."""
    machine = ""
    with contextlib.suppress(OSError):
        # in another container the same number is another process
        machine = f"{BOOT_ID.read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    process = str(os.getpid())
    return {
        "host": socket.gethostname(),
        "machine": machine,
        "process": process,
        "started": _start_of(process),
    }


def _start_of(process: object) -> str:
    """Return when a process of this machine was started; "" if there is none."""
    if not (isinstance(process, str) and process.isdecimal()):
        return ""
    try:
        # after the name, which may contain spaces
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _decoded(content: bytes | None) -> dict[str, object]:
    try:
        found = json.loads(content or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
