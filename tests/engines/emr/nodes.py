"""The nodes of a cluster, in one folder of this machine: their commands, and what runs on them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent

_COUNTER = re.compile(r"reporter:counter:([^,]*),([^,]*),(-?\d+)\s*$")
_STATUS = re.compile(r"reporter:status:")

_SUDO = '#!/bin/sh\nexec "$@"\n'
_PACKAGES = '#!/bin/sh\necho "$0 $*: nothing to do"\n'


@dataclass(frozen=True)
class Ended:
    """A process that ended: its exit code, its counters by group and name."""

    code: int
    counters: dict[tuple[str, str], int]


class Nodes:
    """The commands that nodes have, and the processes that run on them."""

    def __init__(self, folder: Path, s3_url: str, cache: Path) -> None:
        self.folder = folder
        self._s3_url = s3_url
        self._cache = cache
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        _install(folder)

    def environment(self) -> dict[str, str]:
        """What processes on nodes find in their environment: nothing of this process's."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "MR_DEDUP_TEST_S3": self._s3_url,
            "MR_DEDUP_CACHE_DIR": str(self._cache),
        }

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: Path,
        stderr: Path,
    ) -> Ended:
        """Run a command; its counters are taken from stderr, as Hadoop streaming does."""
        counters: dict[tuple[str, str], int] = {}
        with stdout.open("wb") as out, stderr.open("wb") as errors:
            with self._lock:
                if self._stopped:
                    return Ended(143, {})
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**self.environment(), **(environment or {})},
                    stdin=stdin,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
                self._running.add(process)
            assert process.stderr is not None
            with process.stderr:
                for line in process.stderr:
                    counter = _COUNTER.match(line.decode("utf-8", "replace"))
                    if counter:
                        key = counter[1], counter[2]
                        counters[key] = counters.get(key, 0) + int(counter[3])
                    elif not _STATUS.match(line.decode("utf-8", "replace")):
                        errors.write(line)
            code = process.wait()
        with self._lock:
            self._running.discard(process)
        return Ended(128 - code if code < 0 else code, counters)

    @property
    def running(self) -> int:
        """How many processes run."""
        return len(self._running)

    def stop(self) -> None:
        """End all that runs, at once, and let nothing run any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                os.killpg(process.pid, signal.SIGKILL)

    def cancel(self) -> None:
        """End all that runs."""
        with self._lock:
            for process in self._running:
                os.killpg(process.pid, signal.SIGKILL)


def _install(folder: Path) -> None:
    """Lay out commands: a Python with what is installed here, but without this project's code."""
    venv.create(folder, with_pip=False, symlinks=True)
    code = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # a folder named in a .pth file has none of its own .pth files read: by such mr_dedup is here
    found = [sysconfig.get_paths()["purelib"], *site.getsitepackages()]
    lines = [*dict.fromkeys(found)]
    if sys.version_info >= (3, 12):
        lines.append("import _distutils_hack; _distutils_hack.add_shim()")
    (code / "installed.pth").write_text("\n".join(lines) + "\n")
    commands = folder / "bin"
    if not (commands / "python3.11").exists():
        (commands / "python3.11").symlink_to(commands / "python3")
    shell = commands / "hadoop"
    shutil.copy2(HERE / "bin" / "s3_shell.py", shell)
    shell.chmod(0o755)
    (commands / "aws").symlink_to(shell)
    for name, text in (("sudo", _SUDO), ("dnf", _PACKAGES)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
