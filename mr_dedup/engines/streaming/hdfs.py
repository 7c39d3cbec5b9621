"""Files of a cluster by the ``hadoop fs`` command, every failure of it as one line.

Each call starts a JVM, which takes one or two seconds, so requests are combined.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mrjob.fs.hadoop import HadoopFilesystem

from mr_dedup.engines.inputs import RemoteFile
from mr_dedup.errors import MrDedupError

# a host that does not respond is tried twice for 20 s, not 45 times
_GENERIC = ["-D", "ipc.client.connect.max.retries.on.timeouts=1"]

# permissions, replication (or -), owner, group, size, date, time, path
_LISTED = re.compile(
    r"(?P<kind>[-d])\S{9}\S?\s+\S+\s+\S+\s+\S+\s+(?P<size>\d+) "
    r"(?P<written>\d{4}-\d\d-\d\d \d\d:\d\d) (?P<uri>.+)"
)

_GLOB = re.compile(r"[*?\[{\\]")

_COMMAND_SAYS = re.compile(
    r"^-?(?:ls|mkdir|put|get|rm|mv|test|cat|copyToLocal|copyFromLocal): (?P<reason>.*)"
)

_REFUSED = re.compile(
    r"Call From \S+ to (?P<address>\S+) failed on (?:connection|socket timeout) exception: "
    r"[\w.]+: (?P<reason>[^;]*)"
)


# listings have times of the client's zone, which may be another one when a run is resumed
_UTC = {"TZ": "UTC"}


def utf8_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment so that Java reads arguments as UTF-8.

    Without a locale of UTF-8, as in cron jobs, it takes names of files for ASCII.
    """
    values = [environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    locale = next(filter(None, values), "")
    return {} if re.search(r"utf-?8", locale, re.IGNORECASE) else {"LC_ALL": "C.UTF-8"}


class HadoopCommandError(MrDedupError):
    """The hadoop command failed; ``reason`` is its message, in one line."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClusterFilesystem(HadoopFilesystem):  # type: ignore[misc]
    """mrjob's wrapper of ``hadoop fs``, with errors for users, and calls that do much at once."""

    def invoke_hadoop(
        self,
        args: Sequence[str],
        ok_returncodes: Iterable[int] | None = None,
        ok_stderr: Iterable[re.Pattern[bytes]] | None = None,
        return_stdout: bool = False,
    ) -> bytes | int:
        """Run the command; return its output or its exit code. See mrjob's.

        Raises HadoopCommandError where mrjob raises CalledProcessError, and MrDedupError if there
        is no such command.
        """
        if args[0] == "fs":
            args = ["fs", *_GENERIC, *args[1:]]
        command = [*self.get_hadoop_bin(), *args]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                env={**os.environ, **_UTC, **utf8_locale(os.environ)},
            )
        except OSError as error:
            raise no_command(command[0], error) from error
        fine = any(pattern.match(done.stderr) for pattern in ok_stderr or ())
        if not fine and done.returncode not in (ok_returncodes or [0]):
            reason = reason_of(done.stderr.decode("utf-8", "replace"))
            shown = " ".join(command[1:2] + [word for word in args if word.startswith("-")][-1:])
            raise HadoopCommandError(f"hadoop {shown}: {reason}", reason)
        return done.stdout if return_stdout else done.returncode

    def files(self, names: Sequence[str]) -> list[RemoteFile]:
        """Return the files that ``names``, URIs of files, directories and globs, stand for.

        In the order given, those of a directory or glob by path. Directories stand for the files in
        them and in their sub-directories; those named ``.…`` or ``_…`` are skipped, as
        Hadoop skips ``_SUCCESS``. Raises MrDedupError for a name that stands for no file.
        """
        literal = [name for name in names if not _GLOB.search(name)]
        listed = self._listing(literal) if literal else []
        files = []
        for name in names:
            if _GLOB.search(name):
                of_name = [file for file in self._listing([name]) if not _hidden(name, file.uri)]
            else:
                of_name = [file for file in listed if _is_in(name, file.uri)]
            if not of_name:
                raise MrDedupError(f"{name}: contains no files")
            files += of_name
        return files

    def _listing(self, names: Sequence[str]) -> list[RemoteFile]:
        try:
            output = self.invoke_hadoop(["fs", "-ls", "-R", *names], return_stdout=True)
        except HadoopCommandError as error:
            missing = re.match(r"`(.*)': No such file or directory", error.reason)
            if missing:
                raise MrDedupError(f"{missing[1]}: no such file in the cluster") from error
            raise MrDedupError(f"{_one_of(names)}: {error.reason}") from error
        assert isinstance(output, bytes)
        files = []
        for line in output.decode("utf-8", "surrogateescape").splitlines():
            entry = _LISTED.fullmatch(line)
            if entry is None:
                raise MrDedupError(f"{_one_of(names)}: cannot read its listing: {line!r}")
            if entry["kind"] == "-":
                files.append(RemoteFile(entry["uri"], int(entry["size"]), entry["written"]))
        return files

    def exists(self, uri: str) -> bool:
        """Return whether there is a file or directory ``uri``; raises HadoopCommandError."""
        return self.invoke_hadoop(["fs", "-test", "-e", uri], ok_returncodes=[0, 1]) == 0

    def _is_file(self, uri: str) -> bool:
        return self.invoke_hadoop(["fs", "-test", "-f", uri], ok_returncodes=[0, 1]) == 0

    def put(self, local: str | Path, uri: str) -> None:
        """Copy a local file or directory, as ``uri``; raises HadoopCommandError."""
        # it takes a local name for a URI
        self.invoke_hadoop(["fs", "-put", Path(local).absolute().as_uri(), uri])

    def put_whole(self, local: Path, uri: str, overwrite: bool) -> None:
        """Copy a local file, as ``uri``: all of it, or nothing; its directory is made if need be.

        Raises HadoopCommandError, also if it is there and not ``overwrite``, or is a directory.
        """
        folder, _, name = uri.rpartition("/")
        # beside it, hidden from Hadoop: renamed when it is whole
        aside = f"{folder}/_{name}.{secrets.token_hex(4)}"
        try:
            try:
                self.put(local, aside)
            except HadoopCommandError:
                # only now, as the directory usually exists
                self.mkdir(folder)
                self.put(local, aside)
            if overwrite and self._is_file(uri):
                self.replace(aside, uri)
                return
            if overwrite:
                # fails for a directory, into which it would be moved
                self.remove_file(uri)
            self.rename(aside, uri)
        except BaseException:
            with contextlib.suppress(MrDedupError):
                self.remove_file(aside)
            raise

    def get(self, uri: str, local: Path) -> None:
        """Copy a file or directory to ``local``; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-get", uri, local.absolute().as_uri()])

    def rename(self, uri: str, new: str) -> None:
        """Rename a file or directory, at once and as a whole; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-mv", uri, new])

    def replace(self, new: str, uri: str) -> None:
        """Rename the file or directory ``new`` to ``uri``, and remove the previous ``uri``.

        If ``new`` cannot be renamed, both are as they were. Raises HadoopCommandError.
        """
        folder, _, name = uri.rpartition("/")
        previous = f"{folder}/_{name}.{secrets.token_hex(4)}.replaced"
        self.rename(uri, previous)
        try:
            self.rename(new, uri)
        except BaseException:
            self.rename(previous, uri)
            raise
        self.remove([previous])

    def remove(self, uris: Sequence[str]) -> None:
        """Remove those of the files and directories that exist; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-rm", "-R", "-f", "-skipTrash", *map(_literal, uris)])

    def remove_file(self, uri: str) -> None:
        """Remove a file, if there is one; raises HadoopCommandError, also for a directory."""
        self.invoke_hadoop(["fs", "-rm", "-f", "-skipTrash", _literal(uri)])

    def read_all(self, glob: str) -> str:
        """Return the texts of the files a glob stands for, one after the other."""
        output = self.invoke_hadoop(["fs", "-cat", glob], return_stdout=True)
        assert isinstance(output, bytes)
        return output.decode("utf-8", "replace")


def _literal(uri: str) -> str:
    """Return the glob that stands for ``uri`` alone."""
    return re.sub(r"[][*?{}\\]", r"\\\g<0>", uri)


def no_command(name: str, error: OSError) -> MrDedupError:
    """Return the error for a hadoop command that cannot be run."""
    return MrDedupError(
        f"{name}: cannot run this hadoop command: {error.strerror}; it is looked for in "
        "HADOOP_HOME and PATH, or --hadoop-bin names it"
    )


def reason_of(stderr: str) -> str:
    """Return the reason in the stderr of a failed ``hadoop`` command, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = [match["reason"] for line in lines if (match := _COMMAND_SAYS.match(line))]
    telling = [line for line in lines if not line.startswith(("at ", "..."))]
    reason = said[0] if said else (telling[-1] if telling else "failed without a message")
    return plain_reason(reason)


def plain_reason(reason: str) -> str:
    """Return a reason of Hadoop's, shortened."""
    refused = _REFUSED.search(reason)
    if refused:
        return f"the cluster cannot be reached at {refused['address']}: {refused['reason'].strip()}"
    return reason


def _is_in(name: str, uri: str) -> bool:
    """Return whether a listed file is ``name``, or is in that directory and not hidden."""
    folder = name.rstrip("/") + "/"
    inside = uri.removeprefix(folder).split("/")
    return uri == name or (uri.startswith(folder) and not _any_hidden(inside))


def _hidden(glob: str, uri: str) -> bool:
    """Return whether a file is matched by a glob, or is in a directory that is, but is hidden."""
    # alternatives may contain slashes
    *above, last = re.sub(r"\{[^{}]*\}", "", glob.rstrip("/")).split("/")
    below = uri.split("/")[len(above) :]
    return _any_hidden(below[1:] if last.startswith((".", "_")) else below)


def _any_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}, …"
