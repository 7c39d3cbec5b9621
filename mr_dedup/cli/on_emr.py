"""What running on Amazon EMR adds to a command: files that are in S3."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli import on_hadoop

if TYPE_CHECKING:
    from mr_dedup.runners import HadoopSettings, Input


def hadoop_settings(arguments: argparse.Namespace) -> HadoopSettings:
    """Return what the arguments say of the cluster; raises MrDedupError if they disagree."""
    from mr_dedup.errors import MrDedupError

    if arguments.hadoop_bin is not None:
        raise MrDedupError("--hadoop-bin: means nothing to EMR, which needs no such command here")
    return on_hadoop.hadoop_settings(arguments)


def fetched(name: str, staging: Path, arguments: argparse.Namespace) -> str:
    """Return a copy here of the file ``name`` if it is in S3, or ``name``."""
    if not on_hadoop.is_address(name):
        return name
    from mr_dedup.runners.amazon import emr_module

    folder = staging / "fetched"
    folder.mkdir()
    path = folder / name.rpartition("/")[2]
    emr_module().fetch(name, path, arguments.conf_path)
    return str(path)


def remote_inputs(names: Sequence[str], arguments: argparse.Namespace) -> tuple[list[Input], int]:
    """Return the files that addresses stand for, and how many fingerprints the largest may have.

    A task each, whatever their size. Raises MrDedupError for an address that stands for no file,
    UnknownFormatError for a file whose format nobody says.
    """
    from mr_dedup.formats.fingerprint_files import format_by_ending
    from mr_dedup.runners import Input
    from mr_dedup.runners.amazon import emr_module

    files = emr_module().list_files(names, arguments.conf_path)
    if arguments.corpus_format is None:
        for uri, _ in files:
            format_by_ending(uri)
    largest = max((size_bytes // 8 for _, size_bytes in files), default=0)
    return [Input(uri, uri) for uri, _ in files], largest
