"""``mr_dedup.pairs``, ``query`` and ``fingerprint``: results as tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from mr_dedup.api.commands import call_command
from mr_dedup.api.engines import runner_of
from mr_dedup.api.options import (
    FingerprintCommandOptions,
    PairsOptions,
    QueryOptions,
    ReadingOptions,
)
from mr_dedup.api.sources import Documents
from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.id_text import unescape_id, unescape_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from mr_dedup.api.engines import Engine
    from mr_dedup.api.sources import Source


def pairs(
    source: Source | NDArray[np.uint64],
    *,
    engine: Engine = "auto",
    **options: Unpack[PairsOptions],
) -> pa.Table:
    """Return all pairs of near-duplicates, as ``mr-dedup pairs`` finds them.

    Args:
        source: Documents, as for ``dedup``, if ``method`` is given. Else fingerprints: files of
            them, or uint64[n].
        engine: As for ``dedup``.
        **options: Those of the command.

    Returns:
        Of documents ``id_a``, ``id_b`` and ``similarity``, in the order of the documents. Of
        fingerprints ``left`` and ``right``, int64, and ``distance``, uint8.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.

    Example:
        >>> pairs(np.array([5, 7, 1 << 40], np.uint64), k=1).to_pylist()
        [{'left': 5, 'right': 7, 'distance': 1}]
    """
    with _source(source, options) as (documents, folder):
        out = folder / "pairs.tsv"
        given = {"out": str(out), "runner": runner_of(engine)}
        call_command(
            "pairs", documents.names, PairsOptions, options, given, called=documents.called
        )
        if options.get("method"):
            return _document_pairs(out)
        return _fingerprint_pairs(out)


def query(
    source: Source | NDArray[np.uint64],
    queries: Source | NDArray[np.uint64],
    *,
    engine: Engine = "auto",
    **options: Unpack[QueryOptions],
) -> pa.Table:
    """Return the near-duplicates of queries in a corpus, as ``mr-dedup query`` finds them.

    Args:
        source: The corpus: documents as for ``dedup``, or fingerprints, files of them or uint64[n].
        queries: What to search for, of the same kinds; of files one.
        engine: As for ``dedup``.
        **options: Those of the command.

    Returns:
        A row a match: ``query`` and ``match``, ids as text, of two arrays the fingerprints as
        int64; and ``distance``, uint8.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.

    Example:
        >>> corpus, wanted = np.array([5, 1 << 40], np.uint64), np.array([7], np.uint64)
        >>> query(corpus, wanted, k=3).to_pylist()
        [{'query': 7, 'match': 5, 'distance': 1}]
    """
    with (
        _source(source, options) as (corpus, folder),
        _source(queries, options) as (wanted, _),
    ):
        out = folder / "found.tsv"
        if len(wanted.names) != 1:
            raise MrDedupError(f"queries: expected one file, got {len(wanted.names)}")
        given = {
            "queries": wanted.names[0], "with_distance": True, "out": str(out),
            "runner": runner_of(engine),
        }  # fmt: skip
        called = {**corpus.called, **wanted.called}
        call_command("query", corpus.names, QueryOptions, options, given, called=called)
        found = _matches(out)
    if isinstance(source, np.ndarray) and isinstance(queries, np.ndarray):
        values = [found[name].cast(pa.int64()) for name in ("query", "match")]
        return pa.table([*values, found["distance"]], found.column_names)
    return found


def fingerprint(
    source: Source, *, engine: Engine = "auto", **options: Unpack[FingerprintCommandOptions]
) -> pa.Table:
    """Return the fingerprints of documents, as ``mr-dedup fingerprint`` computes them.

    Args:
        source: Documents, as for ``dedup``.
        engine: As for ``dedup``.
        **options: Those of the command.

    Returns:
        A row a document: ``id``, ``fingerprint`` int64 (null without features), ``length`` and
        kept fields.

    Raises:
        MrDedupError: In one line, as the command reports it.
        TypeError: An option or a source that does not exist.

    Example:
        >>> table = fingerprint(["a text", "another text", "a text"])
        >>> table["id"].to_pylist(), table["fingerprint"][0] == table["fingerprint"][2]
        (['0', '1', '2'], True)
    """
    with _source(source, options) as (documents, folder):
        out = folder / "fingerprints.parquet"
        call_command(
            "fingerprint", documents.names, FingerprintCommandOptions, options,
            {"out": str(out), "runner": runner_of(engine)}, called=documents.called,
        )  # fmt: skip
        return pq.read_table(out)


@contextlib.contextmanager
def _source(source: Any, options: ReadingOptions) -> Iterator[tuple[Documents, Path]]:
    """Yield the files of documents or fingerprints, and a temporary directory."""
    with temporary_folder() as folder:
        if isinstance(source, np.ndarray):
            if source.dtype != np.uint64 or source.ndim != 1:
                raise TypeError(
                    f"source: fingerprints are uint64[n], not {source.dtype}{list(source.shape)}"
                )
            path = folder / "source.longs"
            path.write_bytes(source.astype(">u8").tobytes())
            source = path
        yield Documents(source, folder, options.get("id_field")), folder


def _document_pairs(path: Path) -> pa.Table:
    names = ["id_a", "id_b", "similarity"]
    kinds = [pa.large_string(), pa.large_string(), pa.float64()]
    table = _read(path, dict(zip(names, kinds, strict=True)))
    ids = [unescape_ids(table[name].combine_chunks()) for name in names[:2]]
    return pa.table([*ids, table["similarity"]], names)


def _fingerprint_pairs(path: Path) -> pa.Table:
    table = _read(path, {"left": pa.int64(), "right": pa.int64()})
    left, right = (table[name].to_numpy() for name in ("left", "right"))
    return table.append_column("distance", pa.array(np.bitwise_count(left ^ right)))


def _read(path: Path, columns: dict[str, pa.DataType]) -> pa.Table:
    if not path.stat().st_size:
        return pa.table({name: pa.array([], kind) for name, kind in columns.items()})
    return pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(column_names=list(columns)),
        parse_options=pa_csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pa_csv.ConvertOptions(column_types=columns, strings_can_be_null=False),
    )


def _matches(path: Path) -> pa.Table:
    queries: list[str] = []
    matches: list[str] = []
    distances: list[int] = []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            wanted, *found = line.rstrip("\n").split("\t")
            for field in found:
                match, _, distance = field.rpartition(":")
                queries.append(wanted)
                matches.append(match)
                distances.append(int(distance))
    return pa.table(
        {
            "query": pa.array(map(unescape_id, queries), pa.large_string()),
            "match": pa.array(map(unescape_id, matches), pa.large_string()),
            "distance": pa.array(distances, pa.uint8()),
        }
    )
