"""``mr_dedup.counts``: how often kept documents were found, over several results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from mr_dedup.api.commands import call_command
from mr_dedup.api.options import CountsOptions
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.tables import read_table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.options import Names


def counts(results: Names, **options: Unpack[CountsOptions]) -> pa.Table:
    """Return how often each document that results of ``dedup`` kept was found.

    Args:
        results: The directory or URI of a result, or several; each run is counted once, however
            results were chained.
        **options: Those of the command.

    Returns:
        A row for each kept document: ``result``, ``row``, its number there, ``id``, ``file``,
        ``duplicates_total``, and with ``seen`` ``first_seen`` and ``last_seen``.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option that does not exist.

    Example:
        >>> from mr_dedup.api.deduplication import dedup
        >>> page = "the quick brown fox jumps over the lazy dog on a sunny day"
        >>> week_1 = dedup([page, page + " today"])
        >>> week_2 = dedup([page, "something else altogether"], against=week_1.folder)
        >>> counts([week_1.folder, week_2.folder])["duplicates_total"].to_pylist()
        [2, 0]
    """
    names = [results] if isinstance(results, str | os.PathLike) else list(results)
    with temporary_folder() as folder:
        out = folder / "counts.parquet"
        call_command(
            "counts", [os.fspath(name) for name in names], CountsOptions, options, {"out": str(out)}
        )
        return read_table(out)
