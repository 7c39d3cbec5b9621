"""Files of a cluster by the ``hadoop fs`` command, every failure of it as one line.

Each call starts a JVM, which takes one or two seconds, so requests are combined.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mrjob.fs.hadoop import HadoopFilesystem

from mr_dedup.errors import MrDedupError

# a host that does not respond is tried twice for 20 s, not 45 times
_GENERIC = ["-D", "ipc.client.connect.max.retries.on.timeouts=1"]

_COMMAND_SAYS = re.compile(
    r"^-?(?:ls|mkdir|put|get|rm|mv|test|cat|copyToLocal|copyFromLocal): (?P<reason>.*)"
)

_REFUSED = re.compile(
    r"Call From \S+ to (?P<address>\S+) failed on (?:connection|socket timeout) exception: "
    r"[\w.]+: (?P<reason>[^;]*)"
)


def utf8_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment so that Java reads arguments as UTF-8.

    Without a locale of UTF-8, as in cron jobs, it takes names of files for ASCII.
    """
    values = [environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    locale = next(filter(None, values), "")
    return {} if re.search(r"utf-?8", locale, re.IGNORECASE) else {"LC_ALL": "C.UTF-8"}


def refuse_others(name: str, files: Iterable[str]) -> None:
    """Raise MrDedupError if a directory, called ``name``, has files that no job has written."""
    for file in files:
        if not re.fullmatch(r"part-\d+|_SUCCESS", file):
            raise MrDedupError(
                f"{name}: contains {file!r}, which is not of a job, and is not replaced"
            )


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
                env={**os.environ, **utf8_locale(os.environ)},
            )
        except OSError as error:
            raise no_command(command[0], error) from error
        fine = any(pattern.match(done.stderr) for pattern in ok_stderr or ())
        if not fine and done.returncode not in (ok_returncodes or [0]):
            reason = reason_of(done.stderr.decode("utf-8", "replace"))
            shown = " ".join(command[1:2] + [word for word in args if word.startswith("-")][-1:])
            raise HadoopCommandError(f"hadoop {shown}: {reason}", reason)
        return done.stdout if return_stdout else done.returncode

    def exists(self, uri: str) -> bool:
        """Return whether there is a file or directory ``uri``; raises HadoopCommandError."""
        return self.invoke_hadoop(["fs", "-test", "-e", uri], ok_returncodes=[0, 1]) == 0

    def put(self, local: str | Path, uri: str) -> None:
        """Copy a local file or directory, as ``uri``; raises HadoopCommandError."""
        # it takes a local name for a URI
        self.invoke_hadoop(["fs", "-put", Path(local).absolute().as_uri(), uri])

    def put_new(self, local: Path, uri: str) -> None:
        """Copy a local directory as ``uri``, which must not exist, and make its parents.

        Raises HadoopCommandError.
        """
        try:
            self.put(local, uri)
        except HadoopCommandError as error:
            if "No such file or directory" not in error.reason:
                raise
            # only for the first job of a user: to make them before each costs a Java
            self.mkdir(uri.rpartition("/")[0])
            self.put(local, uri)

    def get(self, uri: str, local: Path) -> None:
        """Copy a file or directory to ``local``; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-get", uri, local.absolute().as_uri()])

    def rename(self, uri: str, new: str) -> None:
        """Rename a file or directory, at once and as a whole; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-mv", uri, new])

    def replace(self, new: str, uri: str) -> None:
        """Rename the file or directory ``new`` to ``uri``, and remove the previous ``uri``.

        If ``new`` cannot be renamed, both are as they were. Raises HadoopCommandError, and
        MrDedupError as ``require_output``.
        """
        folder, _, name = uri.rpartition("/")
        previous = f"{folder}/_{name}.{secrets.token_hex(4)}.replaced"
        self.rename(uri, previous)
        try:
            self.require_output(previous, uri)
            self.rename(new, uri)
        except BaseException:
            self.rename(previous, uri)
            raise
        self.remove([previous])

    def require_output(self, uri: str, name: str) -> None:
        """Raise MrDedupError if a directory, called ``name``, has files that no job has written."""
        listed = self.invoke_hadoop(["fs", "-ls", "-C", "-R", _literal(uri)], return_stdout=True)
        assert isinstance(listed, bytes)
        paths = listed.decode("utf-8", "replace").splitlines()
        refuse_others(name, [path.rpartition("/")[2] for path in paths])

    def remove(self, uris: Sequence[str]) -> None:
        """Remove those of the files and directories that exist; raises HadoopCommandError."""
        self.invoke_hadoop(["fs", "-rm", "-R", "-f", "-skipTrash", *map(_literal, uris)])

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
