"""What mr-dedup dedup warns of: clusters that look like templates, sources that lose most."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.clusters.criterion import Criterion
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.formats.documents import chunks
from tests.cli.documents import write_jsonl
from tests.cli.running import Command
from tests.report.reports import elements, shown

dedup = Command("dedup")


@pytest.fixture
def small_chunks(monkeypatch):
    for name in ("CHUNK_BYTES", "_MIN_BYTES"):
        monkeypatch.setattr(chunks, name, 9000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


@pytest.fixture
def pages():
    """40 pages of one template, 60 of a site of which 50 are mirrored, and copies of one page."""
    rng = random.Random(4)

    def page():
        return [f"v{rng.randrange(900)}" for _ in range(60)]

    documents = []

    def add(host, number, words):
        documents.append(
            {"id": f"https://{host}/{number}", "text": " ".join(words), "kind": host[0]}
        )

    template = page()
    for number in range(40):
        words = list(template)
        words[5], words[30] = f"x{number}", f"y{number}"
        add("shop.example", number, words)
    for number in range(60):
        words = page()
        add("news.example", number, words)
        if number < 50:
            add("mirror.example", number, words)
    copied = page()
    for number in range(30):
        add("copies.example", number, copied)
    for number in range(19):
        add("few.example", number, copied)
    return documents


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kept", ["same", "parquet"])
def test_templates_and_sources(capfd, tmp_path, pages, kept):
    path = write_jsonl(tmp_path / "pages.jsonl", pages)
    out = tmp_path / "out"
    words = ["--share-by", "kind", "--documents", kept]
    said = dedup.messages(capfd, path, "-o", out, *words)
    found = json.loads((out / "summary.json").read_text())["warnings"]
    assert found["template_clusters"] == 1
    (template,) = found["template_clusters_listed"]
    assert template["host"] == "shop.example"
    assert (template["documents"], template["documents_kept"]) == (40, 1)
    # of 58 shingles each page has 6 of its own
    assert template["mean_similarity"] == pytest.approx(52 / 64, abs=1e-4)
    assert found["losing_sources_listed"] == [
        {"field": "host", "value": "mirror.example", "documents": 50, "dropped": 50},
        {"field": "kind", "value": "m", "documents": 50, "dropped": 50},
        {"field": "host", "value": "shop.example", "documents": 40, "dropped": 39},
        {"field": "kind", "value": "s", "documents": 40, "dropped": 39},
        {"field": "host", "value": "copies.example", "documents": 30, "dropped": 29},
        {"field": "kind", "value": "c", "documents": 30, "dropped": 29},
    ]
    assert found["losing_sources"] == 6
    assert (
        "warning: 1 cluster of 20 documents and more of one host or directory, similar but not "
        "equal, as pages of one template are; the largest has 40 of shop.example and keeps 1; "
        "see report.html"
    ) in said
    assert "most of host mirror.example: 50 of 50; see report.html" in said
    report = shown(elements((out / "report.html").read_bytes()))
    assert "What may be lost" in report
    assert "Clusters that look like templates" in report
    assert "Sources that lose over half of their documents" in report


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("named", [["crawl"], ["crawl/shop", "crawl/news"], ["crawl/**/*.txt"]])
@pytest.mark.parametrize("start", ["", "below"])
def test_directories_that_lose_most(capfd, tmp_path, pages, monkeypatch, named, start):
    """However they are named: by a path from here, or from the root."""
    for page in pages[:60]:
        file = tmp_path / "crawl" / page["id"].removeprefix("https://").replace(".example/", "/p/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".txt").write_text(page["text"])
    monkeypatch.chdir(tmp_path)
    names = [str(tmp_path / name) for name in named] if start else named
    out = tmp_path / "out"
    said = dedup.messages(capfd, *names, "-o", out)
    found = json.loads((out / "summary.json").read_text())["warnings"]
    (template,) = found["template_clusters_listed"]
    assert (template["host"], template["documents"]) == ("shop", 40)
    assert found["losing_sources_listed"] == [
        {"field": "directory", "value": "shop", "documents": 40, "dropped": 39}
    ]
    assert "most of directory shop: 39 of 40; see report.html" in said


@pytest.mark.usefixtures("small_chunks")
def test_nothing_to_look_at(capfd, tmp_path, pages):
    path = write_jsonl(tmp_path / "pages.jsonl", pages[40:60])
    said = dedup.messages(capfd, path, "-o", tmp_path / "out")
    assert "warning" not in said
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["warnings"]
    assert found == {
        "template_clusters": 0, "template_clusters_listed": [],
        "losing_sources": 0, "losing_sources_listed": [],
    }  # fmt: skip
    assert b"What may be lost" not in (tmp_path / "out" / "report.html").read_bytes()


@pytest.mark.usefixtures("small_chunks")
def test_hosts_that_are_hostile(capfd, tmp_path, pages):
    for page in pages:
        page["id"] = page["id"].replace("shop.example", "shop\x1b<b>.example")
    path = write_jsonl(tmp_path / "pages.jsonl", pages)
    said = dedup.messages(capfd, path, "-o", tmp_path / "out")
    assert "\x1b" not in said
    assert "1 cluster of 20 documents" in said
    assert b"<b>.example" not in (tmp_path / "out" / "report.html").read_bytes()


def test_rank_chooses_what_is_kept(capfd, tmp_path):
    text = " ".join(f"w{n}" for n in range(40))
    names = ["blog", "wiki", "news", "forum", None]
    for order, kept in ("wiki,*,news", "wiki"), ("*,blog", "a1"), ("news", "news"):
        documents = [
            {"id": name or "none", "text": text, **({"source": name} if name else {})}
            for name in names
        ]
        path = write_jsonl(tmp_path / "pages.jsonl", documents)
        words = ["--keep", f"rank:source={order}", "--keep", "longest", "--overwrite"]
        dedup.done(capfd, path, "-o", tmp_path / "out", *words)
        (line,) = (tmp_path / "out" / "documents" / "pages.jsonl").read_text().splitlines()
        assert json.loads(line)["id"] == {"a1": "forum"}.get(kept, kept)


@pytest.mark.parametrize(("extent", "dropped"), [("main", 39), ("page", 0)])
def test_pages_that_are_similar_only_without_what_was_cut(capfd, tmp_path, extent, dropped):
    rng = random.Random(5)
    site = tmp_path / "sites" / "site.example"
    site.mkdir(parents=True)
    notice = "".join(
        f"<p>The same sentence, number {n}, stands in all pages.</p>" for n in range(9)
    )
    for number in range(40):
        words = [
            f"<li><a href=/{rng.random()}>{' '.join(f'v{rng.randrange(9000)}' for _ in range(4))}"
            "</a></li>"
            for _ in range(90)
        ]
        html = f"<body><nav><ul>{''.join(words)}</ul></nav><main>{notice}</main></body>"
        (site / f"{number}.html").write_text(html)
    (tmp_path / "sites" / "other.html").write_text("<p>Of another directory.</p>")
    _, err = dedup.done(capfd, tmp_path / "sites", "-o", tmp_path / "out", "--html", extent)
    assert f"dropped {dropped}" in err
    assert ("--html page compares whole pages" in err) == bool(dropped)


def titles(count):
    """Texts of nine words; every third differs from the one before in its last word."""
    rng = random.Random(7)
    words = [rng.choices([f"w{n}" for n in range(5000)], k=9) for _ in range(count)]
    return [
        " ".join([*words[n - 1][:-1], "other"] if n % 3 == 2 else words[n]) for n in range(count)
    ]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("arguments", "below", "said"),
    [
        ([], 56, "0.8 by shingles of 3 words (5 characters in Chinese)"),
        (["--verify", 0.5], 20, "0.5 by shingles of 3 words (5 characters in Chinese)"),
        (["--shingles", "words:1"], 18, "0.8 by shingles of 1 word"),
        (["--method", "simhash", "--shingles", "words:2"], 37, "0.8 by shingles of 2 words"),
    ],
)
def test_short_texts(capfd, tmp_path, arguments, below, said):
    """With one title too many for half, and as many longer texts."""
    long = [" ".join(f"x{n}y{m}" for m in range(below)) for n in range(19)]
    documents = [{"id": str(n), "text": text} for n, text in enumerate([*titles(20), *long])]
    path = write_jsonl(tmp_path / "titles.jsonl", documents)
    out = tmp_path / "out"
    messages = dedup.messages(capfd, path, "-o", out, *arguments)
    assert (
        f"warning: 20 of 39 documents have fewer than {below} words, of which two cannot differ at "
        f"a similarity of {said}; for titles and other short texts give"
    ) in messages
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["documents_of_few_words"], summary["short_below_words"]) == (20, below)
    report = shown(elements((out / "report.html").read_bytes()))
    assert f"Over half of the documents are short: 20 have fewer than {below} words" in report
    # and one fewer is not over half
    path = write_jsonl(tmp_path / "titles.jsonl", documents[1:])
    messages = dedup.messages(capfd, path, "-o", out, "--overwrite", *arguments)
    assert "fewer than" not in messages
    assert "short_below_words" not in json.loads((out / "summary.json").read_text())
    assert "are short" not in (out / "report.html").read_text()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--verify", 1],
        ["--verify", "contained:0.9"],
        ["--verify", "off"],
        ["--shingles=characters:4"],
    ],
)
def test_short_texts_that_the_threshold_is_for(capfd, tmp_path, arguments):
    documents = [{"id": str(n), "text": text} for n, text in enumerate(titles(20))]
    path = write_jsonl(tmp_path / "titles.jsonl", documents)
    assert "fewer than" not in dedup.messages(capfd, path, "-o", tmp_path / "out", *arguments)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.63, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_two_words_of_a_text_may_differ_from_so_many_words_on(threshold, length):
    options = FeatureOptions("words", length)

    def similarity(words):
        text = [f"w{n}" for n in range(words)]
        changed = list(text)
        # as far from each other and from the ends as they can be
        changed[words // 3], changed[2 * words // 3] = "one", "two"
        sets = shingle_sets(
            pa.array([" ".join(text), " ".join(changed)], pa.large_string()), options
        )
        return sets.jaccard(np.array([0]), np.array([1]))[0]

    least = Criterion(threshold).min_words(length)
    assert similarity(least) >= threshold
    if least > 6 * length:
        assert similarity(least - 1) < threshold
