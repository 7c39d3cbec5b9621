"""Where this machine has the configuration of a Hadoop cluster."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

_OF_PACKAGES = Path("/etc/hadoop/conf")
"""Where packages of Linux distributions, EMR and Dataproc have it."""


def configuration_directory(hadoop_bin: str | None = None) -> Path | None:
    """Return the directory with core-site.xml, or None if there is none.

    It is HADOOP_CONF_DIR, else ``etc/hadoop`` in HADOOP_HOME, else that beside the hadoop command,
    as for the command itself.

    Args:
        hadoop_bin: The hadoop command; by default the one in PATH.
    """
    return next(
        (path for path in _candidates(hadoop_bin) if (path / "core-site.xml").is_file()), None
    )


def _candidates(hadoop_bin: str | None) -> Iterator[Path]:
    if os.environ.get("HADOOP_CONF_DIR"):
        # what is set is meant, even if it is wrong
        yield Path(os.environ["HADOOP_CONF_DIR"])
        return
    if os.environ.get("HADOOP_HOME"):
        yield Path(os.environ["HADOOP_HOME"]) / "etc" / "hadoop"
    words = shlex.split(hadoop_bin) if hadoop_bin else ["hadoop"]
    command = shutil.which(words[0]) if words else None
    if command is not None:
        # bin/hadoop, or a link to it
        yield Path(command).resolve().parent.parent / "etc" / "hadoop"
    yield _OF_PACKAGES
