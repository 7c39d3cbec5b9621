"""Sets of visited URLs: IMP-CB beside other methods, in time and memory, by size.

Each method is a process of its own (url_rivals.py), with URLs that are visited twice, and with
distinct ones, for which the paper compares it with a store alone (its figure 3). Seconds are CPU
time of all threads, including RocksDB's; with limited memory (a cgroup, which includes the page
cache) they are wall time, and batches are small, so that a batch does not read the whole store.
False positives of a Bloom filter are lost URLs. With ``--seeds``: which URLs of a real list have
the same canonical form, and why.
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
_LIMITED_MEMORY = ((3_000_000, 270 << 20), (6_000_000, 330 << 20))
_SMALL_BATCH = 1 << 13
_CGROUP = Path("/sys/fs/cgroup/memory")


def run(quick: bool, rounds: int, seeds: Path | None = None) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if an exact method was wrong.

    ``seeds`` is that of seed_rows.
    """
    for size in _QUICK_SIZES if quick else _SIZES:
        # other sizes of counters and Bloom filters take minutes each at the largest size
        few = (_OURS, _STORE, "Python set", *_INEXACT)
        methods: tuple[str, ...] = few if size == max(_SIZES) else (*_EXACT, *_INEXACT)
        found = {method: _measured(method, size) for method in methods}
        yield from _rows(found, size, "cpu_seconds", "")
        found = {method: _measured(method, size, visits=1) for method in (_OURS, _STORE)}
        yield from _rows(found, size, "cpu_seconds", " distinct")
    yield from _rows({"Bloom filter in Redis": _measured("Bloom filter in Redis", _REDIS_SIZE)},
                     _REDIS_SIZE, "seconds", "")  # fmt: skip
    for size, limit_bytes in () if quick else _LIMITED_MEMORY:
        with _limited_memory(limit_bytes) as prefix:
            if prefix is None:
                yield Row(_NAME, "in limited memory", note="skipped: needs a cgroup (root)")
                break
            where = f", in {limit_bytes >> 20} MB"
            for visits, methods in (
                (2, (_OURS, _SMALL, _SMALLEST, _STORE)),
                (1, (_OURS, _SMALL, _STORE)),
            ):
                found = {
                    method: _measured(method, size, prefix, _SMALL_BATCH, visits)
                    for method in methods
                }
                of = " distinct" if visits == 1 else ""
                yield from _rows(found, size, "seconds", f"{of}{where}")
    yield from seed_rows(seeds)


def _measured(
    method: str, size: int, prefix: tuple[str, ...] = (), batch: int = BATCH, visits: int = 2
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        command = [*prefix, sys.executable, "-m", "bench.url_rivals", method, str(size), folder]
        command += [str(batch), str(visits)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise Mismatch(f"{method} of {size:,} URLs ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    if method in _EXACT and found["wrong"]:
        raise Mismatch(f"{method} of {size:,} URLs was wrong {found['wrong']:,} times")
    return found


def _rows(found: dict[str, dict[str, Any]], size: int, clock: str, where: str) -> Iterator[Row]:
    for method, each in found.items():
        notes = [f"{each['visits'] / each[clock]:,.0f} URLs a second"]
        if clock == "seconds":
            notes.append(f"{each['cpu_seconds']:#.3g} s of CPU time")
        if "filter_bytes" in each:
            notes.append(f"{each['filter_bytes'] / size:.2f} bytes a URL before the store")
        if each.get("in_store"):
            notes.append(f"{each['in_store'] / each['lookups']:.1%} of lookups reach the store")
            notes.append(f"{each['false_positives']:,} false positives")
        if each["wrong"]:
            notes.append(f"{each['wrong']:,} URLs lost")
        ratio = None
        if method != _OURS and _OURS in found:
            ratio = each[clock] / found[_OURS][clock]
        yield Row(
            _NAME, f"{method}, {size:,}{where}", each[clock], ratio, _OURS, each["added_bytes"],
            "; ".join(notes),
        )  # fmt: skip


@contextlib.contextmanager
def _limited_memory(limit_bytes: int) -> Iterator[tuple[str, ...] | None]:
    """Yield a command prefix that limits memory; None if this user cannot create a cgroup."""
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
    """Yield which URLs of a list (one a line, also as .gz) have the same canonical form."""
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
        reasons = ", ".join(f"{count} {reason}" for reason, count in folds.reasons.items())
        note = f"{folds.distinct_in_form:,} distinct; equal to another one but for: {reasons}"
        yield Row(_NAME, f"seeds, {name}", note=note)
