"""The report of a de-duplication, from what its stages left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.report.data import LargeCluster, Sample, Share

_LARGEST = 20
_EXAMPLES = 5
_VALUES = 50
_HOST = "host"


def write_dedup_report(
    file: BinaryIO,
    folder: Path,
    summary: Mapping[str, Any],
    options: Sequence[tuple[str, str]],
    share_by: Sequence[str],
) -> None:
    """Write the report of the run whose stages are in ``folder``."""
    import numpy as np
    import pyarrow.compute as pc

    from mr_dedup.formats.parquet_table import read_table
    from mr_dedup.pipeline.dedup import CLUSTERS, DECISIONS, ROWS
    from mr_dedup.report.data import ReportData, Totals
    from mr_dedup.report.html import write_report

    decisions = read_table(folder / DECISIONS)
    clusters = read_table(folder / CLUSTERS)
    rows = read_table(folder / ROWS, columns=["fingerprint", *share_by])
    earlier = summary["earlier documents"]
    rows = rows.slice(earlier)
    dropped = decisions.filter(pc.is_valid(decisions["distance"]))
    reasons = {reason: n for reason, n in summary["reasons"].items() if n}
    data = ReportData(
        title="De-duplication",
        options=options,
        totals=Totals(
            read=summary["read"],
            rejected=summary["rejected"],
            without_features=summary["documents without features"],
            kept=summary["kept"],
            dropped={
                reason.removeprefix("dropped: "): n
                for reason, n in reasons.items()
                if reason.startswith("dropped: ")
            },
            earlier=earlier,
            for_earlier=summary["dropped for earlier documents"],
        ),
        cluster_sizes=clusters["documents"].to_numpy() + clusters["earlier"].to_numpy(),
        distances=dropped["distance"].to_numpy(),
        similarities=dropped["similarity"].fill_null(float("nan")).to_numpy(),
        fingerprints=rows["fingerprint"].drop_null().to_numpy().view(np.uint64),
        shares=list(_shares(decisions, rows, share_by)),
        largest=_largest(clusters, decisions),
        samples=_samples(folder, decisions, earlier),
    )
    write_report(file, data)


def _shares(
    decisions: pa.Table, rows: pa.Table, share_by: Sequence[str]
) -> Iterator[tuple[str, Sequence[Share]]]:
    """Yield the fields asked for, and hosts where ids are addresses, the commonest values first."""
    import pyarrow.compute as pc

    columns: dict[str, Sequence[str | None]] = {}
    if any(pc.match_substring(ids, "://").true_count for ids in decisions["id"].chunks):
        hosts = [_host(id) for id in decisions["id"].to_pylist()]
        columns = {_HOST: hosts} if any(hosts) else {}
    columns |= {name: rows[name].to_pylist() for name in share_by}
    dropped = decisions["distance"].is_valid().to_pylist() if columns else []
    for name, values in columns.items():
        yield name, _counted(values, dropped)


def _counted(values: Sequence[str | None], dropped: Sequence[bool]) -> list[Share]:
    from mr_dedup.report.data import Share

    all_of = Counter(value for value in values if value is not None)
    gone = Counter(v for v, was in zip(values, dropped, strict=True) if was and v is not None)
    ranked = sorted(all_of.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]
    return [Share(value, count, gone[value]) for value, count in ranked]


def _host(id: str) -> str | None:
    if "://" not in id:
        return None
    try:
        return urlsplit(id).hostname
    except ValueError:
        return None


def _largest(clusters: pa.Table, decisions: pa.Table) -> list[LargeCluster]:
    import pyarrow.compute as pc

    from mr_dedup.report.data import LargeCluster

    size = pc.add(clusters["documents"], clusters["earlier"])
    clusters = clusters.append_column("size", size)
    ranked = clusters.sort_by([("size", "descending"), ("cluster", "ascending")])
    found = []
    for row in ranked.slice(0, _LARGEST).to_pylist():
        members = decisions.filter(pc.equal(decisions["cluster"], row["cluster"]))
        examples = members.slice(0, _EXAMPLES)["id"].to_pylist()
        cluster, earlier = row["cluster"], row["earlier"]
        found.append(LargeCluster(cluster, row["size"], row["kept"] + earlier, examples, earlier))
    return found


def _samples(folder: Path, decisions: pa.Table, earlier: int) -> list[Sample]:
    from mr_dedup.pipeline.dedup import SAMPLES, SHOWN
    from mr_dedup.report.data import Sample

    texts = json.loads((folder / SHOWN).read_bytes())
    found = []
    for number, keeper in json.loads((folder / SAMPLES).read_bytes()):
        (row,) = decisions.slice(number - earlier, 1).to_pylist()
        found.append(
            Sample(
                id=row["id"],
                keeper=row["keeper"],
                distance=row["distance"],
                similarity=row["similarity"],
                text=texts[str(number)],
                keeper_text=texts[str(keeper)],
                earlier=row["earlier"],
            )
        )
    return found
