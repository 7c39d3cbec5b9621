"""Weekly crawls with planted repeats: how similar they are, what is expected of them, and found."""

import itertools
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.counts import CHAINS, check_totals, run
from bench.measure import Mismatch
from bench.weekly_crawls import Expected, Week, crawls, date, text

PAGES = 60


def slow(weeks, chain):
    """By dictionaries: the counts of each kept page, by week and source, after all runs."""
    compared, kept, counts = [], [], {}
    for week, (named, follow) in zip(weeks, chain, strict=True):
        of = []
        for each in named:
            of += [*(compared[each] if follow else []), each]
        compared.append(of)
        kept.append(set())
        for index, source in enumerate(week.sources.tolist()):
            day = week.number * 7 + index % 7
            holder = next((each for each in of if source in kept[each]), week.number)
            if holder == week.number and source not in kept[-1]:
                kept[-1].add(source)
                counts[week.number, source] = [0, day, day]
            else:
                count = counts[holder, source]
                counts[holder, source] = [count[0] + 1, min(count[1], day), max(count[2], day)]
    return counts


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_expected(name, seed):
    weeks = crawls(5, PAGES, seed)
    expected = Expected.of(weeks, CHAINS[name])
    found = {}
    for week in range(5):
        columns = [each.tolist() for each in expected.totals(week, range(5))]
        for source in expected.is_kept[week].nonzero()[0].tolist():
            found[week, source] = [column[source] for column in columns]
    assert found == slow(weeks, CHAINS[name])
    assert any(total for total, _, _ in found.values())


def test_pages_of_a_source_are_similar_and_others_are_not():
    weeks = crawls(3, 100, 1)
    assert len({week.sources.size for week in weeks}) == 1
    pages = [
        (source, text(1, source, change))
        for week in weeks
        for source, change in zip(week.sources.tolist(), week.changes.tolist(), strict=True)
    ]
    of = {}
    for source, content in pages:
        of.setdefault(source, []).append(content)
    changed = [each for each in of.values() if len(set(each)) > 1]
    assert changed
    for texts in changed:
        assert min(similarity(*pair) for pair in itertools.combinations(texts, 2)) >= 0.95
    drawn = random.Random(1).sample(sorted(of), 40)
    pairs = itertools.combinations([of[source][0] for source in drawn], 2)
    assert max(similarity(*pair) for pair in pairs) < 0.5
    sizes = [len(content.encode()) for _, content in pages]
    assert 2000 < np.mean(sizes) < 3000


def similarity(one, other):
    sets = [
        set(zip(*(words[start:] for start in range(3)), strict=False))
        for words in ([w.strip(".,").lower() for w in each.split()] for each in (one, other))
    ]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_a_week_is_written_as_it_is_described(tmp_path):
    week = crawls(2, PAGES, 2)[1]
    week.write(tmp_path / "pages.jsonl", 2)
    rows = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"1-{number}" for number in range(PAGES)]
    assert rows[9]["crawled"] == "2024-01-10" == date(9)
    changed = int(week.changes.argmax())
    assert f"hanged{week.changes[changed]}" in rows[changed]["text"]


def test_counts_of_small_crawls_are_as_planted(tmp_path, capsys):
    name = "each week against the last one, --follow"
    run(tmp_path, PAGES, {name: CHAINS[name]})
    said = capsys.readouterr().out
    assert "counts: 174 kept pages" in said
    assert "week 4: 60 decisions, 30 records, resumed after " in said


def test_a_wrong_total_is_noticed(tmp_path):
    weeks = [Week(0, np.array([0, 1, 0], np.int32), np.zeros(3, np.int32))]
    expected = Expected.of(weeks, [((), False)])
    rows = {
        "result": ["kept0", "kept0"],
        "id": ["0-0", "0-1"],
        "duplicates_total": [1, 0],
        "first_seen": [date(0), date(1)],
        "last_seen": [date(2), date(1)],
    }
    path = tmp_path / "totals.parquet"
    pq.write_table(pa.table(rows), path)
    assert check_totals(path, weeks, expected) == 2
    for name, wrong in (
        ("duplicates_total", [0, 1]), ("last_seen", [date(1)] * 2), ("id", ["0-1", "0-1"]),
    ):  # fmt: skip
        pq.write_table(pa.table(rows | {name: wrong}), path)
        with pytest.raises(Mismatch):
            check_totals(path, weeks, expected)
