"""URLs seen before: IMP-CB against what else remembers them, in time and memory, as they get many.

Each way runs alone in a process of its own (url_rivals.py), on URLs that are seen twice, and on
distinct ones, by which the paper compares it with a store alone (its figure 3). Seconds are all
processors' time, RocksDB's threads included; where memory is limited, by a cgroup that counts the
file cache too, the clock's: there batches are small, so that they do not go through all of the
store anyway. What a Bloom filter takes for seen and was not is lost. Then, of a crawler's real list
of seeds (``--seeds``), what canonicalisation folds in it and why.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Mismatch, Row
from bench.url_rivals import BATCH
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.folds import FoldTally
from mr_dedup.urls.opening import open_filter

_NAME = "urls"
_OURS, _STORE = "IMP-CB", "store alone"
_SMALL, _SMALLEST = "IMP-CB, counters of 2 bits", "IMP-CB, counters of 1 bit"
_EXACT = (_OURS, _SMALL, _SMALLEST, _STORE, "store with RocksDB's Bloom filters", "Python set")
_INEXACT = ("rbloom",)
_SIZES = (1_000_000, 5_000_000, 20_000_000)
_QUICK_SIZES = (20_000,)
_REDIS_SIZE = 20_000
_LITTLE_MEMORY = ((3_000_000, 270 << 20), (6_000_000, 330 << 20))
_SMALL_BATCH = 1 << 13
_CGROUP = Path("/sys/fs/cgroup/memory")


def run(quick: bool, rounds: int, seeds: Path | None = None) -> Iterator[Row]:
    """Yield the table's rows; raises Mismatch if a way that is exact was wrong once.

    ``seeds`` is as for seed_rows.
    """
    for size in _QUICK_SIZES if quick else _SIZES:
        # counters and Bloom filters of other sizes take minutes each at the largest size
        few = (_OURS, _STORE, "Python set", *_INEXACT)
        ways = few if size == max(_SIZES) else (*_EXACT, *_INEXACT)
        found = {way: _measured(way, size) for way in ways}
        yield from _rows(found, size, "processor", "")
        found = {way: _measured(way, size, visits=1) for way in (_OURS, _STORE)}
        yield from _rows(found, size, "processor", " distinct")
    yield from _rows({"Bloom filter in Redis": _measured("Bloom filter in Redis", _REDIS_SIZE)},
                     _REDIS_SIZE, "seconds", "")  # fmt: skip
    for size, limit_bytes in () if quick else _LITTLE_MEMORY:
        with _limited_memory(limit_bytes) as prefix:
            if prefix is None:
                yield Row(_NAME, "in little memory", note="skipped: needs a cgroup (root)")
                break
            where = f", in {limit_bytes >> 20} MB"
            for visits, ways in (
                (2, (_OURS, _SMALL, _SMALLEST, _STORE)),
                (1, (_OURS, _SMALL, _STORE)),
            ):
                found = {way: _measured(way, size, prefix, _SMALL_BATCH, visits) for way in ways}
                of = " distinct" if visits == 1 else ""
                yield from _rows(found, size, "seconds", f"{of}{where}")
    yield from seed_rows(seeds)


def _measured(
    way: str, size: int, prefix: tuple[str, ...] = (), batch: int = BATCH, visits: int = 2
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        command = [*prefix, sys.executable, "-m", "bench.url_rivals", way, str(size), folder]
        command += [str(batch), str(visits)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise Mismatch(f"{way} of {size:,} URLs ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    if way in _EXACT and found["wrong"]:
        raise Mismatch(f"{way} of {size:,} URLs was wrong {found['wrong']:,} times")
    return found


def _rows(found: dict[str, dict[str, Any]], size: int, clock: str, where: str) -> Iterator[Row]:
    for way, each in found.items():
        notes = [f"{each['visits'] / each[clock]:,.0f} URLs a second"]
        if clock == "seconds":
            notes.append(f"{each['processor']:#.3g} s of processors")
        if "filter_bytes" in each:
            notes.append(f"{each['filter_bytes'] / size:.2f} bytes a URL before the store")
        if each.get("in_store"):
            notes.append(f"{each['in_store'] / each['asked']:.1%} of lookups reach the store")
            notes.append(f"{each['in_vain']:,} in vain")
        if each["wrong"]:
            notes.append(f"{each['wrong']:,} URLs lost")
        ratio = None
        if way != _OURS and _OURS in found:
            ratio = each[clock] / found[_OURS][clock]
        yield Row(
            _NAME, f"{way}, {size:,}{where}", each[clock], ratio, _OURS, each["added_bytes"],
            "; ".join(notes),
        )  # fmt: skip


@contextlib.contextmanager
def _limited_memory(limit_bytes: int) -> Iterator[tuple[str, ...] | None]:
    """Yield what runs a command in a group of limited memory; None where that is not ours to do."""
    group = _CGROUP / "mr_dedup-bench"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
    except OSError:
        yield None
        return
    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    finally:
        group.rmdir()


def seed_rows(seeds: Path | None) -> Iterator[Row]:
    """Yield what the form folds in a list of a URL a line, also .gz; a row that says so if none."""
    if seeds is None:
        yield Row(_NAME, "seeds", note="skipped: needs a list of URLs (--seeds)")
        return
    content = seeds.read_bytes()
    lines = (gzip.decompress(content) if seeds.suffix == ".gz" else content).splitlines()
    distinct = set(lines)
    with (
        tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder,
        open_filter(Path(folder, "urls"), form=UrlForm(canonical=False)) as url_filter,
    ):
        found = int(url_filter.add_many(lines).sum())
    if found != len(distinct):
        raise Mismatch(f"{found:,} distinct of {len(lines):,} seeds, not {len(distinct):,}")
    yield Row(_NAME, "seeds", note=f"{len(lines):,} lines, {len(distinct):,} distinct")
    for name, form in (
        ("canonical", UrlForm()),
        ("without index and tracking", UrlForm(drop_index=True, drop_tracking=True)),
    ):
        tally = FoldTally()
        tally.add(lines, form.of_each(lines))
        folds = tally.folds()
        told = ", ".join(f"{count} {reason}" for reason, count in folds.reasons.items())
        note = f"{folds.distinct_in_form:,} distinct; folded with another one, and spelled with: "
        yield Row(_NAME, f"seeds, {name}", note=note + told)
