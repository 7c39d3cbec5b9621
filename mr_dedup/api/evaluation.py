"""``mr_dedup.evaluate`` and ``compare``: how good pairs, decisions and methods are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from mr_dedup.api.commands import call_command
from mr_dedup.api.deduplication import DedupResult
from mr_dedup.api.options import CompareOptions, EvaluateOptions
from mr_dedup.api.sources import Documents
from mr_dedup.cli import compare as compare_command
from mr_dedup.cli import evaluate as evaluate_command
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.id_text import escape_ids
from mr_dedup.formats.pair_files import SIMILARITY_COLUMNS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mr_dedup.api.sources import ArrowStream, Source


def evaluate(
    found: DedupResult | ArrowStream | str | os.PathLike[str],
    truth: ArrowStream | str | os.PathLike[str],
    **options: Unpack[EvaluateOptions],
) -> dict[str, Any]:
    """Return precision and recall of pairs or decisions, as ``mr-dedup evaluate --json`` prints.

    Args:
        found: A result of ``dedup`` or its directory; a table of pairs, ``id_a`` and ``id_b``, of
            pandas, polars, DuckDB or PyArrow; or a file of either.
        truth: All similar pairs: a table of ``id_a``, ``id_b`` and their similarity ``jaccard``, or
            a file of such.
        **options: Those of the command.

    Returns:
        Counts, and in ``bands`` for each minimum similarity ``precision``, ``recall`` and ``f1``.

    Raises:
        ValueError: A table has not these columns, or nulls in them.
        MrDedupError: In one line, as the command reports it.

    Example:
        >>> truth = pa.table({"id_a": ["a", "b"], "id_b": ["b", "c"], "jaccard": [0.9, 0.8]})
        >>> report = evaluate(pa.table({"id_a": ["a"], "id_b": ["b"]}), truth)
        >>> report["bands"][0]["precision"], report["bands"][0]["recall"]
        (1.0, 0.5)
    """
    with temporary_folder() as folder:
        named = found.folder if isinstance(found, DedupResult) else found
        path = _file(named, folder / "found.tsv")
        given = {"truth": _file(truth, folder / "truth.tsv")}
        report: dict[str, Any] = call_command(
            "evaluate", [path], EvaluateOptions, options, given, run=evaluate_command.evaluated,
            called={str(folder / "found.tsv"): "found", str(folder / "truth.tsv"): "truth"},
        )  # fmt: skip
    return report


def compare(
    source: Source,
    truth: ArrowStream | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    **options: Unpack[CompareOptions],
) -> pa.Table:
    """Return how well, and how fast, methods find known similar pairs.

    Args:
        source: Documents, as for ``dedup``.
        truth: All similar pairs of them, as for ``evaluate``.
        out: A directory for the table, plots and a page, as ``mr-dedup compare`` writes them.
        **options: Those of the command.

    Returns:
        A row a method and minimum similarity.

    Raises:
        ValueError: A table has not these columns, or nulls in them.
        MrDedupError: In one line, as the command reports it.
    """
    with temporary_folder() as folder:
        documents = Documents(source, folder, options.get("id_field"))
        results = Path(out) if out is not None else folder / "out"
        given = {"truth": _file(truth, folder / "truth.tsv"), "out": str(results)}
        called = {**documents.called, str(folder / "truth.tsv"): "truth"}
        call_command(
            "compare", documents.names, CompareOptions, options, given, called=called,
            run=compare_command.compared,
        )  # fmt: skip
        return pa_csv.read_csv(results / "results.csv")


def _file(source: ArrowStream | str | os.PathLike[str], path: Path) -> str:
    """Return the name of a file of pairs; write it if ``source`` is a table."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"{path.stem}: expected a table or a path, not {type(source).__name__}")
    table = pa.table(source)
    missing = {"id_a", "id_b"} - set(table.column_names)
    if missing:
        raise ValueError(f"{path.stem}: has no column {', '.join(sorted(missing))}")
    names = ["id_a", "id_b"]
    if path.stem == "truth":
        similarities = [name for name in SIMILARITY_COLUMNS if name in table.column_names]
        if not similarities:
            raise ValueError("truth: has no column jaccard")
        names.append(similarities[0])
    for name in names:
        if table[name].null_count:
            raise ValueError(f"{path.stem}: column {name} has nulls")
    chosen = table.select(names)
    for number, id in enumerate(names[:2]):
        ids = escape_ids(chosen[id].cast(pa.large_string()).combine_chunks())
        chosen = chosen.set_column(number, id, ids)
    with path.open("w", encoding="utf-8") as file:
        file.write("\t".join(names) + "\n")
        for row in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
            file.write("\t".join(map(str, row)) + "\n")
    return str(path)
