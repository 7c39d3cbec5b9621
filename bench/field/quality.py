"""``python -m bench.field.quality TRUTH --decisions DIR``: what a tool kept, beside the truth.

TRUTH is what ``bench.field.truth`` wrote: a sample of documents, and all that are similar to them.
With ``--decisions``, the directory of an output of ``mr-dedup dedup``; for other tools ``--kept``,
the documents they kept: a file or directory of Parquet or JSON lines with ``id``, or lines of ids.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

THRESHOLDS = (0.8, 0.7)

_REPORT = "corpus.json"

_DROPPED = ("near_duplicate", "exact_duplicate", "contained", "same_cluster")
"""The reasons of decisions for which documents are dropped."""


class Truth(NamedTuple):
    """The documents of a sample, and what is similar to them.

    Attributes:
        sample: string[n], distinct ids.
        pairs: id, in the sample; other, any document; jaccard. All with a similarity of
            0.7 at least.
        content_sha256: of the corpus; empty if it is not known.
    """

    sample: pa.Array
    pairs: pa.Table
    content_sha256: str = ""

    @classmethod
    def read(cls, folder: Path) -> Truth:
        """Return what ``bench.field.truth`` wrote to a directory."""
        sample = pq.read_table(folder / "sample.parquet", columns=["id"])["id"].combine_chunks()
        return cls(sample, pq.read_table(folder / "pairs.parquet"), content_sha256(folder))


def content_sha256(folder: Path) -> str:
    """Return the SHA-256 of all texts, by the ``corpus.json`` of a corpus or its truth.

    Without that file it is an empty string.

    Raises:
        ValueError: the file is not such a report.
    """
    report = folder / _REPORT
    if not report.exists():
        return ""
    try:
        return str(json.loads(report.read_text())["content_sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{report}: not the report of a corpus") from None


def write_corpus_sha256(folder: Path, sha256: str) -> None:
    """Write what ``content_sha256`` returns of the corpus to the directory of its truth."""
    (folder / _REPORT).write_text(json.dumps({"content_sha256": sha256}) + "\n")


class Outcome(NamedTuple):
    """What a tool made of a corpus.

    Attributes:
        kept: string[k], the ids of kept documents.
        dropped: string[d], those of dropped ones; None if they are all others.
        kept_for: id and kept_id, for which kept document each one was dropped; None if the tool
            does not say.
    """

    kept: pa.Array
    dropped: pa.Array | None = None
    kept_for: pa.Table | None = None


@dataclass(frozen=True)
class Quality:
    """How good an outcome is at a threshold J, for the documents of a sample.

    Shares are None where they are of nothing.

    Attributes:
        threshold: J.
        sample: documents in the sample.
        kept: those that were kept.
        pairs: pairs of a document in the sample and a document that is at least J similar.
        pairs_left: those of which both were kept.
        recall: the share of pairs of which at most one was kept.
        left: kept documents that have another kept document at least J similar: they were missed.
        left_share: of the kept ones.
        found_share: of the documents that have a similar one, those that were not missed.
        precision: the share of the dropped documents that have a kept one at least J similar.
        precision_named: the share of those whose kept document is named, and is J similar itself.
    """

    threshold: float
    sample: int
    kept: int
    pairs: int
    pairs_left: int
    recall: float | None
    left: int
    left_share: float | None
    found_share: float | None
    precision: float | None
    precision_named: float | None


def measure(truth: Truth, outcome: Outcome, threshold: float) -> Quality:
    """Compare an outcome with the truth.

    Raises:
        ValueError: a document of the sample was neither kept nor dropped, or both.

    Example:
        >>> pairs = {"id": ["a", "b"], "other": ["b", "a"], "jaccard": [0.9, 0.9]}
        >>> truth = Truth(pa.array(["a", "b", "c"]), pa.table(pairs))
        >>> measure(truth, Outcome(pa.array(["a", "c"])), 0.8).recall
        1.0
        >>> measure(truth, Outcome(pa.array(["a", "b"])), 0.8).precision
        0.0
    """
    is_kept = _is_in(truth.sample, outcome.kept)
    if outcome.dropped is not None:
        wrong = truth.sample.filter(pc.equal(is_kept, _is_in(truth.sample, outcome.dropped)))
        if len(wrong):
            raise ValueError(f"{wrong[0]} was neither kept nor dropped, or both")
    kept, dropped = truth.sample.filter(is_kept), truth.sample.filter(pc.invert(is_kept))
    pairs = truth.pairs.filter(pc.greater_equal(truth.pairs["jaccard"], threshold))
    with_kept = pairs.filter(_is_in(pairs["other"], outcome.kept))
    missed = _is_in(kept, with_kept["id"])
    left = _count(missed)
    pairs_left = _count(_is_in(with_kept["id"], outcome.kept))
    similar = _count(_is_in(truth.sample, pairs["id"]))
    return Quality(
        threshold=threshold,
        sample=len(truth.sample),
        kept=len(kept),
        pairs=pairs.num_rows,
        pairs_left=pairs_left,
        recall=_share(pairs.num_rows - pairs_left, pairs.num_rows),
        left=left,
        left_share=_share(left, len(kept)),
        found_share=_share(similar - left, similar),
        precision=_share(_count(_is_in(dropped, with_kept["id"])), len(dropped)),
        precision_named=_named_precision(dropped, with_kept, outcome.kept_for),
    )


def _named_precision(
    dropped: pa.Array, with_kept: pa.Table, kept_for: pa.Table | None
) -> float | None:
    if kept_for is None:
        return None
    named = kept_for.select(["id", "kept_id"]).filter(_is_in(kept_for["id"], dropped))
    similar = {*zip(with_kept["id"].to_pylist(), with_kept["other"].to_pylist(), strict=True)}
    rows = zip(named["id"].to_pylist(), named["kept_id"].to_pylist(), strict=True)
    return _share(sum(row in similar for row in rows), named.num_rows)


def _is_in(values: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.is_in(values.cast(pa.large_string()), others.cast(pa.large_string()))


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def decisions_of(folder: Path) -> Outcome:
    """Return what ``mr-dedup dedup`` decided, by the directory ``decisions`` of its output."""
    columns = ["id", "reason", "kept_id"]
    rows = pa.concat_tables([pq.read_table(path, columns=columns) for path in _files(folder)])
    is_dropped = pc.is_in(rows["reason"], pa.array(_DROPPED))
    dropped = rows.filter(is_dropped)
    kept_for = dropped.select(["id", "kept_id"])
    return Outcome(rows["id"].filter(pc.invert(is_dropped)), dropped["id"], kept_for)


def kept_of(path: Path) -> Outcome:
    """Return what a tool kept, of which all others are dropped.

    Raises:
        ValueError: for lines that are not JSON objects with ``id``.
    """
    return Outcome(pa.chunked_array([_ids_in(file) for file in _files(path)], pa.large_string()))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.name[0] not in "._" and each.is_file())
    if not files:
        raise ValueError(f"{path}: contains no files")
    return files


def _ids_in(path: Path) -> pa.Array:
    if path.suffix == ".parquet":
        column = pq.read_table(path, columns=["id"])["id"]
        return column.cast(pa.large_string()).combine_chunks()
    with path.open(encoding="utf-8") as lines:
        ids: Iterable[str] = (line.rstrip("\n") for line in lines)
        if path.suffix == ".jsonl":
            ids = [_id_of(line, f"{path}:{number}") for number, line in enumerate(ids, 1)]
        return pa.array(ids, pa.large_string())


def _id_of(line: str, position: str) -> str:
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{position}: not a JSON object with id") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Print a JSON object with the quality at each threshold."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.quality")
    parser.add_argument("truth", type=Path, help="the output of bench.field.truth")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--decisions", type=Path, metavar="DIR", help="of mr-dedup dedup")
    what.add_argument("--kept", type=Path, metavar="PATH", help="the documents a tool kept")
    options = parser.parse_args(argv)
    try:
        truth = Truth.read(options.truth)
        outcome = decisions_of(options.decisions) if options.decisions else kept_of(options.kept)
        found = [asdict(measure(truth, outcome, threshold)) for threshold in THRESHOLDS]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
