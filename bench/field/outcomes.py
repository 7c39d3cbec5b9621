"""Read which documents a tool kept, from any of the forms in which tools write them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.field.quality import Outcome
from mr_dedup.formats.compression import compression_by_suffix, decompressed_file


def kept_documents(path: Path, pattern: str = "*") -> Outcome:
    """Return the documents in a file or a directory with all that is below it.

    Args:
        path: of Parquet, Arrow or JSON lines, also as .gz or .zst; others are ignored.
        pattern: of the names of files below it.

    Raises:
        ValueError: if no file has ids, or a line is not a JSON object with an id.
    """
    files = sorted(path.rglob(pattern)) if path.is_dir() else [path]
    all_ids = (_ids_in(file) for file in files if file.is_file())
    found = [ids for ids in all_ids if ids is not None]
    if not found:
        raise ValueError(f"{path}: contains no documents")
    return Outcome(pa.concat_arrays(found))


def with_keepers(outcome: Outcome, path: Path) -> Outcome:
    """Add which kept document each dropped one duplicates, by a Parquet file of id and kept_id."""
    table = pq.read_table(path, columns=["id", "kept_id"])
    return outcome._replace(kept_for=table.cast(pa.schema([("id", _ID), ("kept_id", _ID)])))


def check(outcome: Outcome, corpus: Path) -> int:
    """Return how many documents a corpus has; each kept one must be one of them, and once.

    Raises:
        ValueError: a tool kept a document twice, or one that the corpus does not have.
    """
    tables = [pq.read_table(path, columns=["id"]) for path in corpus.glob("*.parquet")]
    ids = pa.concat_tables(tables)["id"].cast(_ID)
    unknown = outcome.kept.filter(pc.invert(pc.is_in(outcome.kept, ids)))
    if len(unknown):
        raise ValueError(f"kept {len(unknown)} documents not of the corpus, the first {unknown[0]}")
    twice = len(outcome.kept) - len(pc.unique(outcome.kept))
    if twice:
        raise ValueError(f"kept {twice} documents more than once")
    return len(ids)


_ID = pa.large_string()


def _ids_in(file: Path) -> pa.Array | None:
    suffixes = [suffix for suffix in file.suffixes if suffix not in (".gz", ".zst")]
    suffix = suffixes[-1] if suffixes else ""
    if file.name[0] in "._" or suffix not in (".parquet", ".arrow", ".jsonl", ".json"):
        return None
    if suffix == ".parquet":
        return pq.read_table(file, columns=["id"])["id"].cast(_ID).combine_chunks()
    if suffix == ".arrow":
        with pa.OSFile(str(file)) as stream, pa.ipc.open_stream(stream) as reader:
            batches = [batch["id"].cast(_ID) for batch in reader]
        return pa.concat_arrays(batches) if batches else pa.array([], _ID)
    with _opened(file) as stream, io.TextIOWrapper(stream, "utf-8") as lines:
        return pa.array(_ids_of(lines, file), _ID)


def _ids_of(lines: Iterable[str], file: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield str(json.loads(line)["id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{file}:{number}: not a JSON object with an id") from None


def _opened(file: Path) -> io.BufferedReader:
    opened = file.open("rb", buffering=0)
    return decompressed_file(opened, str(file), compression_by_suffix(file))
