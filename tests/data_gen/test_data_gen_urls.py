"""data-gen urls: truth, aliases, popularity, and the same bytes each time."""

from collections import Counter
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from data_gen.cli import main
from data_gen.urls import KINDS, UrlParameters, write

FIRST_LINES = ["https://about0.example.org/career/course-57", "https://blog4.example.org/sport-38"]
FIRST_TRUTH = ["https://article2.example.net/catalogue-0/?id=5327&view=school", "310", "0"]


def made(folder, **options):
    """Write a small data set; return its lines, truth, removals, mirrors."""
    fields = {"pages": 500, "visits": 4000, "seed": 3, "hosts": 20, "removals": 50, **options}
    write(UrlParameters(**fields), folder)
    lines = [
        line for path in sorted(folder.glob("visits-*")) for line in path.read_text().splitlines()
    ]
    truth = [line.split("\t") for line in (folder / "truth.tsv").read_text().splitlines()]
    removals = (folder / "removals.txt").read_text().splitlines()
    mirrors = dict(
        reversed(line.split()) for line in (folder / "mirrors.txt").read_text().splitlines()
    )
    return lines, truth, removals, mirrors


def folded(url, mirrors):
    """One spelling for all of a page's, by rules of its own: scheme, host, path, parameters."""
    parts = urlsplit(url)
    host = parts.hostname
    path = unquote(parts.path).replace("/./x/..", "").removesuffix("index.html")
    names = {"utm_source", "gclid"}
    query = frozenset(item for item in parse_qsl(parts.query) if item[0] not in names)
    return parts.scheme, mirrors.get(host, host), path, query


def test_the_truth_counts_visits_by_all_aliases(tmp_path):
    lines, truth, removals, mirrors = made(tmp_path / "out", alias_share=0.6)
    assert truth[0] == ["url", "visits", "removed"]
    counted = Counter(folded(line, mirrors) for line in lines)
    assert len(lines) == 4000
    assert {folded(url, mirrors): int(visits) for url, visits, _ in truth[1:]} == counted
    assert [url for url, _, removed in truth[1:] if removed == "1"] == removals
    assert len(set(removals)) == 50


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_alias_differs(tmp_path, kind):
    lines, truth, _, _ = made(tmp_path / "out", alias_share=1.0, kinds=(kind,))
    canonical = {url for url, _, _ in truth[1:]}
    others = [line for line in lines if line not in canonical]
    # pages without a query, a mirror or a folder have no such alias
    assert len(others) > len(lines) / 10
    assert (len(others) == len(lines)) == (kind not in ("order", "index", "mirror"))


def test_without_aliases_all_visits_are_canonical(tmp_path):
    lines, truth, _, _ = made(tmp_path / "out", alias_share=0.0)
    assert {url: int(visits) for url, visits, _ in truth[1:]} == Counter(lines)


def test_few_pages_have_most_visits(tmp_path):
    _, flat, _, _ = made(tmp_path / "flat", zipf_exponent=0.0)
    _, steep, _, _ = made(tmp_path / "steep", zipf_exponent=1.2)
    assert len(flat) > 490
    assert max(int(visits) for _, visits, _ in flat[1:]) < 30
    assert max(int(visits) for _, visits, _ in steep[1:]) > 600


def test_chunk_sizes_do_not_change_lines(tmp_path):
    whole = made(tmp_path / "whole")
    assert made(tmp_path / "parts", chunk_bytes=5000) == whole
    sizes = [path.stat().st_size for path in (tmp_path / "parts").glob("visits-*")]
    assert len(sizes) > 20
    assert max(sizes) <= 5000


def test_the_same_seed_gives_the_same_files(tmp_path):
    assert made(tmp_path / "a") == made(tmp_path / "b")
    assert made(tmp_path / "c", seed=4)[0] != made(tmp_path / "d")[0]


def test_the_first_lines_of_a_seed(tmp_path):
    lines, truth, _, _ = made(tmp_path / "out", removals=0)
    assert lines[:2] == FIRST_LINES
    assert truth[1] == FIRST_TRUTH


def test_the_summary_of_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    numbers = ["--pages", "100", "--visits", "1000", "--seed", "1", "--removals", "5"]
    assert main(["urls", *numbers, "--hosts", "3", "--kinds", "case,port", "--out", str(out)]) == 0
    pages = len((out / "truth.tsv").read_text().splitlines()) - 1
    size = sum(path.stat().st_size for path in out.iterdir())
    said = capsys.readouterr().err
    assert f"1,000 visits of {pages} pages, " in said
    assert f"by aliases, and 5 removals: 4 files, {size:,} bytes in {out}, " in said
    assert main(["urls", *numbers, "--out", str(out)]) == 2
    assert "not empty; give --overwrite" in capsys.readouterr().err
    assert main(["urls", *numbers, "--out", str(out), "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--pages", "0"], "pages must be from 1 to 16,777,216, not 0"),
        (["--visits", "-1"], "visits must be from 0 to"),
        (["--hosts", "0"], "hosts must be from 1 to"),
        (["--alias-share", "nan"], "alias_share must be from 0 to 1, not nan"),
        (["--zipf-exponent", "-1"], "zipf_exponent must be from 0 to 1,000, not -1.0"),
        (["--kinds", "case,odd"], "kinds must be of case, port, "),
        (["--seed", "-1"], "seed must be from 0 to 2**64 - 1, not -1"),
        (["--removals", "11"], "removals must be at most 10, the pages visited, not 11"),
    ],
)
def test_usage_errors(tmp_path, capsys, option, message):
    base = ["--pages", "10", "--visits", "1000", "--seed", "1", "--out", str(tmp_path / "out")]
    assert main(["urls", *base, *option]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
