"""``python -m bench.counts --pages N``: whether duplicates are counted as they were planted.

It makes five weekly crawls of N pages with planted repeats, de-duplicates them, chained in several
ways, and compares ``duplicates_total``, ``first_seen`` and ``last_seen`` of every decision of each
run, of every record with ``--add-counts``, and of every kept page over all runs (``mr-dedup
counts``) with what was planted; a difference is an error. One run of each chain is killed by
SIGKILL at several moments, and resumed. CPU seconds and memory are printed by week.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.machine import describe
from bench.measure import Mismatch
from bench.processes import Usage, measure
from bench.weekly_crawls import Chain, Expected, Week, crawls, date

SEED = 20240101
WEEKS = 5
KILLED_WEEK = 3
KILLS = 4
"""How often its run is killed at most, after parts of the time that the week before took."""

_LAST = [[week - 1] if week else [] for week in range(WEEKS)]
CHAINS: dict[str, Chain] = {
    "each week against all before": [(range(week), False) for week in range(WEEKS)],
    "each week against the last one": [(named, False) for named in _LAST],
    "each week against the last one, --follow": [(named, True) for named in _LAST],
    "two branches, --follow": [(named, True) for named in ([], [0], [0], [1], [2, 3])],
}


def main() -> int:
    """Print what was measured; return 1 if a count is not the planted one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200_000, help="a week (default 200,000)")
    parser.add_argument("--work", type=Path, help="where files go (default: a temporary directory)")
    arguments = parser.parse_args()
    print(describe(), flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        try:
            run(Path(folder), arguments.pages)
        except Mismatch as mismatch:
            print(f"bench: {mismatch}", file=sys.stderr)
            return 1
    return 0


def run(folder: Path, pages: int, chains: Mapping[str, Chain] = CHAINS) -> None:
    """Make the crawls, and compare the counts of every chain."""
    weeks = crawls(WEEKS, pages, SEED)
    for week in weeks:
        path = _source(folder, week.number) / "pages.jsonl"
        path.parent.mkdir()
        week.write(path, SEED)
    size = sum(path.stat().st_size for path in folder.glob("week*/pages.jsonl"))
    sources = 1 + max(int(week.sources.max()) for week in weeks)
    print(
        f"\n{WEEKS} weeks of {pages:,} pages, {size / 1e9:.2f} GB; {sources:,} sources", flush=True
    )
    for name, chain in chains.items():
        print(f"\n{name}", flush=True)
        expected = Expected.of(weeks, chain)
        with tempfile.TemporaryDirectory(dir=folder) as results:
            run_chain(folder, Path(results), weeks, chain, expected)


def _source(folder: Path, week: int) -> Path:
    return folder / f"week{week}"


def run_chain(
    folder: Path, results: Path, weeks: Sequence[Week], chain: Chain, expected: Expected
) -> None:
    """De-duplicate every week, and compare its decisions; then compare the totals over all."""
    seconds, usage = 0.0, Usage(0, 0, 0)
    for week, (named, follow) in zip(weeks, chain, strict=True):
        out = results / f"kept{week.number}"
        command = [
            *(sys.executable, "-m", "mr_dedup", "dedup", str(_source(folder, week.number))),
            *("-o", str(out), "--seen", "crawled", "--add-counts"),
            *(word for each in named for word in ("--against", str(results / f"kept{each}"))),
            *(["--follow"] if follow and named else []),
        ]
        kills = _killed(command, out, seconds) if week.number == KILLED_WEEK else 0
        if not out.exists():
            usage = measure([*command, "--resume"] if _is_unfinished(out) else command)
            seconds = usage.seconds
        rows = check_decisions(results, weeks, expected, week.number)
        records = check_records(results, weeks, expected, week.number)
        name = f"week {week.number + 1}: {rows:,} decisions, {records:,} records"
        if week.number == KILLED_WEEK:
            print(f"  {name}, resumed after {kills} kills", flush=True)
        else:
            _print(name, usage)
    out = results / "totals.parquet"
    names = [str(results / f"kept{week.number}") for week in weeks]
    usage = measure([sys.executable, "-m", "mr_dedup", "counts", *names, "-o", str(out)])
    _print(f"counts: {check_totals(out, weeks, expected):,} kept pages", usage)


def _print(name: str, usage: Usage) -> None:
    print(
        f"  {name:<50} CPU {usage.cpu_seconds:6.1f} s, peak {usage.peak_bytes / 1e6:6,.0f} MB",
        flush=True,
    )


def _killed(command: Sequence[str], out: Path, seconds: float) -> int:
    """Start a run, and kill it after parts of ``seconds``, until it ends before it is killed.

    Returns how often it left something that can be resumed.
    """
    kills = 0
    for number in range(1, KILLS + 1):
        if out.exists() and not _is_unfinished(out):
            break  # it was killed when all but its lock was gone
        process = subprocess.Popen(
            [*command, "--resume"] if _is_unfinished(out) else command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(seconds * number / (KILLS + 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += _is_unfinished(out)
        else:
            if process.returncode:
                raise Mismatch(f"a run that was resumed ended with {process.returncode}")
            break
    return kills


def _is_unfinished(out: Path) -> bool:
    return any((out.parent / f".{out.name}.{name}").exists() for name in ("unfinished", "ended"))


# comparisons


def check_decisions(results: Path, weeks: Sequence[Week], expected: Expected, number: int) -> int:
    """Compare the counts of each decision of a run; return how many there are."""
    names = ["id", "kept_id", "duplicates", "duplicates_total", "first_seen", "last_seen"]
    table = pq.read_table(results / f"kept{number}" / "decisions", columns=names)
    week = weeks[number]
    sources = week.sources[_indices(table["id"], number)]
    if sources.size != week.sources.size:
        raise Mismatch(f"week {number}: {sources.size:,} decisions")
    is_kept = pc.equal(table["id"], table["kept_id"]).to_numpy()
    holders = expected.kept_by[number][sources]
    _require(
        f"week {number}: kept", np.sort(sources[is_kept]), expected.is_kept[number].nonzero()[0]
    )
    own = np.where(is_kept, expected.dropped[number][sources] * (holders == number), 0)
    _require(f"week {number}: duplicates", table["duplicates"].to_numpy(), own)
    for holder in np.unique(holders).tolist():
        of = holders == holder
        kept = table.filter(pa.array(of))
        # the page that it duplicates is one of its source, in the result that keeps one
        found = weeks[holder].sources[_indices(kept["kept_id"], holder)]
        _require(f"week {number}: kept_id", found, sources[of])
        runs = [*expected.compared[number], number]
        _require_counts(f"week {number}", kept, expected, holder, sources[of], runs)
    return len(table)


def check_records(results: Path, weeks: Sequence[Week], expected: Expected, number: int) -> int:
    """Compare the counts in the records of kept pages; return how many there are."""
    ids, rows = [], []
    for path in sorted((results / f"kept{number}" / "documents").iterdir()):
        with path.open("rb") as file:
            for line in file:
                record = json.loads(line)
                ids.append(record["id"])
                rows.append({name: record[name] for name in _COUNTED})
    sources = weeks[number].sources[_indices(pa.chunked_array([ids]), number)]
    _require(f"week {number}: records", np.sort(sources), expected.is_kept[number].nonzero()[0])
    table = pa.Table.from_pylist(rows)
    _require_counts(f"week {number}: records", table, expected, number, sources, [number])
    return len(ids)


def check_totals(path: Path, weeks: Sequence[Week], expected: Expected) -> int:
    """Compare the totals over all runs; return how many kept pages there are."""
    table = pq.read_table(path)
    pages = 0
    for week in weeks:
        name = pc.utf8_slice_codeunits(table["result"], -1)
        of_week = table.filter(pc.equal(name, str(week.number)))
        sources = week.sources[_indices(of_week["id"], week.number)]
        kept = expected.is_kept[week.number].nonzero()[0]
        _require(f"totals of week {week.number}: pages", np.sort(sources), kept)
        every = range(len(weeks))
        _require_counts(
            f"totals of week {week.number}", of_week, expected, week.number, sources, every
        )
        pages += sources.size
    dropped = sum(week.sources.size for week in weeks) - pages
    if pc.sum(table["duplicates_total"]).as_py() != dropped or len(table) != pages:
        raise Mismatch(f"{len(table):,} kept pages, and not each other page counted once")
    return pages


_COUNTED = ("duplicates_total", "first_seen", "last_seen")


def _indices(ids: pa.ChunkedArray, week: int) -> NDArray[np.int64]:
    """Return the number of each page of a week; raise Mismatch for a page of another one."""
    if not pc.all(pc.starts_with(ids, f"{week}-")).as_py():
        raise Mismatch(f"week {week}: a page of another week")
    numbers: NDArray[np.int64] = pc.utf8_slice_codeunits(ids, 2).cast(pa.int64()).to_numpy()
    return numbers


def _require_counts(
    name: str,
    table: pa.Table,
    expected: Expected,
    holder: int,
    sources: NDArray[Any],
    runs: Sequence[int],
) -> None:
    """Raise Mismatch unless rows have the counts of pages that ``holder`` keeps, over ``runs``."""
    total, first, last = expected.totals(holder, runs)
    days = np.array([date(day) for day in range(7 * len(expected.compared))])
    _require(f"{name}: duplicates_total", table["duplicates_total"].to_numpy(), total[sources])
    for column, wanted in (("first_seen", first), ("last_seen", last)):
        found = np.array(table[column].to_pylist(), dtype=str)
        _require(f"{name}: {column}", found, days[wanted[sources]])


def _require(name: str, found: NDArray[Any], wanted: NDArray[Any]) -> None:
    if found.shape != wanted.shape:
        raise Mismatch(f"{name}: {found.size:,} rows, not {wanted.size:,}")
    if wrong := np.flatnonzero(found != wanted).tolist():
        first = wrong[0]
        raise Mismatch(
            f"{name}: {len(wrong):,} of {found.size:,} rows differ, the first in row {first}: "
            f"{found[first]}, not {wanted[first]}"
        )


if __name__ == "__main__":
    sys.exit(main())
