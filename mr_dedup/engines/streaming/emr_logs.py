"""The logs that EMR copies to S3: of the streaming client, of tasks, of a cluster's start."""

from __future__ import annotations

import gzip
import re
from typing import Any

from mrjob.logs.step import _interpret_hadoop_jar_command_stderr

from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.failures import Failure
from mr_dedup.storage.listing import files_below
from mr_dedup.storage.writing import read_small

_BOOTSTRAP_FAILED = re.compile(
    r"\((?:including )?(?P<node>i-[0-9a-f]+).*\).*bootstrap action (?P<number>\d+)"
)

_ATTEMPT = re.compile(r"attempt_\d+_\d+_[mr]_\d+_\d+")
_EXIT_CODE = re.compile(r"subprocess failed with code (\d+)")


class EmrLogs:
    """The logs of one cluster, below ``folder``, a URI in S3."""

    def __init__(self, folder: str) -> None:
        self._folder = folder.rstrip("/")

    def has_step(self, step_id: str) -> bool:
        """Return whether the client's log of a step is there."""
        return bool(self._step_logs(step_id))

    def client_log(self, step_id: str, progress: Progress) -> tuple[ClientLog, dict[str, Any]]:
        """Return the log of the streaming client of a step, and what mrjob reads in it."""
        log = ClientLog(progress)
        lines = [line for uri in self._step_logs(step_id) for line in read_text(uri).splitlines()]
        said: dict[str, Any] = _interpret_hadoop_jar_command_stderr(lines, record_callback=log.see)
        return log, said

    def _step_logs(self, step_id: str) -> list[str]:
        """Return the parts of a client's log, in order: the latest has no date in its name."""
        folder = f"{self._folder}/steps/{step_id}"
        found = [uri for uri in uris_below(folder) if "/syslog" in uri]
        return sorted(found, key=lambda uri: (re.search(r"syslog(\.gz)?$", uri) is not None, uri))

    def failures(self, application_id: str | None) -> list[Failure]:
        """Return what the tasks of a job that failed wrote to stderr."""
        if application_id is None:
            return []
        texts = {}
        for uri in uris_below(f"{self._folder}/containers/{application_id}"):
            container, _, name = uri.rpartition("/")
            texts[container, name.removesuffix(".gz")] = uri
        found = []
        for (container, name), uri in texts.items():
            if name == "stderr" and (syslog := texts.get((container, "syslog"))):
                failure = _failure(read_text(syslog), read_text(uri))
                found += [failure] if failure else []
        return found

    def bootstrap_failure(self, reason: str) -> str:
        """Return the message of the failed bootstrap action that EMR names in ``reason``."""
        failed = _BOOTSTRAP_FAILED.search(reason)
        if failed is None:
            return f"the cluster could not be set up: {reason}"
        number, node = failed["number"], failed["node"]
        folder = f"{self._folder}/node/{node}/bootstrap-actions/{number}"
        logs = [uri for uri in uris_below(folder) if "/stderr" in uri]
        said = "\n".join(read_text(uri) for uri in logs)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        failure = f"the cluster could not be set up: bootstrap action {number} failed on {node}"
        return f"{failure}: {lines[-1] if lines else 'no message'}"


def _failure(syslog: str, stderr: str) -> Failure | None:
    attempt, code = _ATTEMPT.search(syslog), _EXIT_CODE.search(syslog)
    if attempt is None or code is None:
        return None
    # what follows is Java's, or of a report that could not be written
    said = re.split(r"^(?:java\.lang\.RuntimeException: PipeMapRed|put: )", stderr, flags=re.M)[0]
    return Failure(attempt[0], int(code[1]), "", "", said.strip("\n"))


def uris_below(folder: str) -> list[str]:
    """Return the URIs of all files in a directory of S3, by path."""
    return [file.uri for file in files_below(folder)]


def read_text(uri: str) -> str:
    """Return the text of a small file, unpacked if its name ends in .gz."""
    content = read_small(uri)
    return (gzip.decompress(content) if uri.endswith(".gz") else content).decode("utf-8", "replace")
