"""The report: its contents, that it runs nothing, and that equal data make equal bytes."""

import base64
import hashlib
import itertools
import os
import re
import subprocess
import sys
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters.decisions import Reason
from mr_dedup.jobs.shares import Share
from mr_dedup.report.data import Cluster, Sample, Totals
from tests.report.reports import RUN, SAMPLE, elements, hostile_report, report, shown, written
from tests.strategies import costly

TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "h1", "h2", "h3", "h4", "p",
    "div", "span", "dl", "dt", "dd", "nav", "ul", "li", "a", "main", "section", "table", "thead",
    "tbody", "tr", "th", "td", "bdi", "figure", "figcaption", "svg", "g", "rect", "line", "text",
    "details", "summary", "del", "ins", "br", "wbr", "code", "strong", "time", "form", "label",
    "input", "select", "option", "button", "script",
}  # fmt: skip


NAMES = 20
"""Names in a hostile report."""


def rows(page, heading):
    """The cells of the table under a heading, its head included."""
    section = next(s for s in elements(page).iter("section") if shown(s[0]) == heading)
    return [[shown(cell) for cell in row] for row in section.iter("tr")]


class Parts(HTMLParser):
    """What a browser's parser makes of a page: tags with attributes, comments, declarations."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.others: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))

    def handle_comment(self, data):
        self.others.append(f"comment {data}")

    def handle_decl(self, decl):
        self.others.append(decl)

    def handle_pi(self, data):
        self.others.append(f"instruction {data}")

    unknown_decl = handle_pi


def policy_of(page: bytes) -> dict[str, str]:
    """The Content-Security-Policy: what it allows, by directive."""
    (policy,) = (m.get("content") for m in elements(page)[0] if m.get("http-equiv"))
    return dict(each.split(" ", 1) for each in policy.split("; "))


def check_that_nothing_acts(page: bytes) -> None:
    """No script but its own, no address, no element that we did not write, in HTML and in XML."""
    parts = Parts(page)
    assert parts.others == ["DOCTYPE html"]
    for tag, attributes in parts.tags:
        assert tag in TAGS, tag
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names)
        for name, value in attributes:
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "action", "data", "xlink:href")
            if name == "href":
                assert re.fullmatch("#[a-z]+|data:,", value), value
            if name == "style":
                assert re.fullmatch(r"width: [0-9.]+%", value), value
    trees = [element.tag.rpartition("}")[2] for element in elements(page).iter()]
    assert trees == [tag for tag, _ in parts.tags]
    allowed = policy_of(page)["script-src"]
    for script in elements(page).iter("script"):
        digest = hashlib.sha256(script.text.encode()).digest()
        assert allowed == f"'sha256-{base64.b64encode(digest).decode()}'"
        assert not script.attrib
    (style,) = elements(page).iter("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    for character in page.decode():
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def test_the_numbers_of_a_run():
    page = written(report())
    assert shown(next(elements(page).iter("h1"))) == "Seven pages"
    whole = shown(elements(page))
    assert "4 are kept and 3 (42.9%) dropped as duplicates of a kept document." in whole
    assert "2 records could not be read" in whole
    assert "2 clusters of two or more documents contain 5 of the documents (71.4%)." in whole
    assert "of the 2 that were compared" in whole
    assert rows(page, "Reasons")[1:] == [
        ["kept", "4", "57.1%", ""],
        ["dropped: near-duplicate", "2", "28.6%", ""],
        ["dropped: same text", "1", "14.3%", ""],
    ]
    assert rows(page, "Distances and similarities") == [
        ["distance from the kept document in bits", "documents"],
        ["0", "1"],
        ["2", "2"],
        ["similarity to the kept document", "documents"],
        ["0.85", "1"],
        ["1", "1"],
    ]
    assert rows(page, "Clusters") == [
        ["documents in the cluster", "clusters"],
        ["2", "1"],
        ["3–4", "1"],
    ]
    assert rows(page, "Sources")[1:] == [
        ["a.example", "4", "3", "75.0%", ""],
        ["b.example", "3", "0", "0.0%", ""],
    ]
    assert rows(page, "Options")[1:] == [["k", "3 bits"], ["keep", "first"]]
    check_that_nothing_acts(page)


def first_screen(page):
    """What the cards at the top say, by their headings."""
    cards = next(e for e in page.iter("div") if e.get("class") == "cards")
    return {shown(card[0]): shown(card).removeprefix(shown(card[0])).strip() for card in cards}


def test_the_first_screen_says_what_was_done_and_why():
    page = elements(written(report()))
    counts = next(e for e in page.iter("dl") if e.get("class") == "totals")
    assert [shown(part) for part in counts] == [
        "kept457.1%, 5.2 MB of text",
        "dropped342.9%, 999 bytes of text",
        "clusters2of two or more documents",
        "rejected2unreadable records",
    ]
    cards = first_screen(page)
    assert list(cards) == [
        "What was done", "Why documents were dropped", "What was not compared",
        "What to look at next",
    ]  # fmt: skip
    assert cards["What was done"] == (
        "Inputcrawl/*.jsonl Candidatesby minhash:bands=20,rows=5 "
        "Thresholdtexts are at least 0.8 similar Keepfirst When2024-05-17 09:30 UTC"
    )
    why = cards["Why documents were dropped"]
    assert why.startswith("Each text was compared with that of the kept document: it is the same, ")
    assert "a similarity of at least 0.8 (Jaccard index" in why
    assert "the method finds 99.96% of the pairs of similarity 0.8" in why
    assert cards["What was not compared"] == "2 records that could not be read."
    assert cards["What to look at next"] == (
        "2 records could not be read: rejects/ beside this page has them, and why. "
        "The least similar pairs, with their differences. "
        "Search the clusters by id, URL or text. "
        "How similar dropped documents are: many near 0.8 suggest another threshold. "
        "decisions/ beside this page has every document, and what each dropped one duplicates."
    )


def test_the_first_screen_of_other_runs():
    complete = Totals(7, 0, 4, {"near-duplicate": 3})
    cards = first_screen(elements(written(report(totals=complete))))
    assert cards["What was not compared"].startswith("Nothing was left out")
    lacking = Totals(
        7, 0, 4, {"near-duplicate": 3}, in_split_clusters=5, incomplete_files=1, oversized_keys=2,
        skipped={"HTTP status": 1, "record type": 4},
    )  # fmt: skip
    cards = first_screen(elements(written(report(totals=lacking))))
    assert cards["What was not compared"] == (
        "1 record skipped for its HTTP status. 4 records skipped for their record type. "
        "The rest of 1 file that could not be read to the end. "
        "5 documents are in clusters that were split, because they are too large for one task. "
        "Each was compared only with its part of the cluster, so near-duplicates among them may "
        "be kept. 2 keys are shared by too many documents to compare all of these with one another."
    )
    assert cards["What to look at next"].startswith("Near-duplicates may be kept: see what was not")
    for changes, said in [
        ({"run": RUN._replace(similarity=None)}, "Texts were not compared (--verify off), so some"),
        ({"run": RUN._replace(recalls=())}, "this method finds is not known."),
        ({"run": RUN._replace(recalls=[("a", 0.99999), ("b", 0.5)])}, "a finds 99.99% of the"),
        ({"totals": Totals(7, 0, 7, {})}, "None was dropped: no text has a similarity of at"),
    ]:
        assert said in first_screen(elements(written(report(**changes))))[
            "Why documents were dropped"
        ]  # fmt: skip


def listed_clusters(page):
    return [item for item in elements(page).iter("li") if item.get("class") == "cluster"]


def test_clusters_with_their_differences():
    first, second = listed_clusters(written(report()))
    assert shown(next(first.iter("summary"))) == (
        "second 3 documents 1 kept similarity ≥ 0.850 with texts"
    )
    assert shown(next(second.iter("summary"))) == "third 2 documents 1 kept similarity 1.000"
    assert (first.get("data-documents"), first.get("data-similarity")) == ("3", "0.85")
    (pair,) = (e for e in first.iter("div") if e.get("class") == "pair")
    assert shown(pair) == (
        "dropped secondkept first "
        "Similarity 0.850, 2 bits of the fingerprints differ. Dropped: 13 characters; "
        "kept: 11 characters. one two 2 three"
    )
    assert [shown(e) for e in pair.iter("del")] == ["two"]
    assert [shown(e) for e in pair.iter("ins")] == ["2"]
    assert "Its documents" not in shown(first)
    assert "Some of its documents, in cluster -5 of clusters/ and decisions/: first second" in (
        shown(first)
    )


def test_what_became_of_the_documents_of_a_cluster():
    reasons = [Reason.FIRST_OF_CLUSTER, Reason.DISSIMILAR, Reason.NEAR_DUPLICATE]
    clusters = [
        Cluster(1, 3, 2, ["a", "b", "c"], similarity=0.85, reasons=reasons),
        Cluster(2, 2, 2, ["d", "e"], reasons=reasons[:2]),
    ]
    first, second = listed_clusters(written(report(clusters=clusters)))
    assert shown(first).endswith(
        "a kept: first of its cluster "
        "b kept: dissimilar to every kept document of its cluster "
        "c dropped: near-duplicate"
    )
    # they were compared: both are kept for that
    assert shown(next(second.iter("summary"))) == "d 2 documents 2 kept similarity below 0.8"
    run = RUN._replace(similarity=None)
    (item,) = listed_clusters(written(report(clusters=[Cluster(3, 2, 1, ["f"])], run=run)))
    assert shown(next(item.iter("summary"))) == "f 2 documents 1 kept not compared"


def test_long_equal_texts_are_folded_and_nothing_is_lost():
    words = " ".join(f"word{number}" for number in range(400))
    sample = SAMPLE._replace(
        text=f"{words[:1000]} one {words[1000:2000]} end",
        kept_text=f"{words[:1000]} two {words[1000:2000]} end",
    )
    cluster = Cluster(1, 2, 1, [], 0, 0.9, [sample])
    (item,) = listed_clusters(written(report(clusters=[cluster])))
    text = next(e for e in item.iter("div") if e.get("class") == "text")
    folded = list(text.iter("details"))
    assert [shown(e[0]).partition(" ")[2] for e in folded] == ["equal characters"] * 2
    parts = [e for e in text.iter() if e.tag in ("del", "ins") or e.get("class") == "both"]
    kept = "".join("".join(e.itertext()) for e in parts if e.tag != "del")
    assert " ".join(kept.split()) == sample.kept_text
    # beside a difference some words are not folded
    open_text = ["".join(e.itertext()) for e in text if e.tag == "span"]
    assert [100 < len(part) <= 121 for part in open_text if part != " "] == [True, True]


def test_earlier_documents_are_shown_apart():
    page = elements(
        written(
            report(
                totals=Totals(7, 2, 4, {"near-duplicate": 2, "same text": 1}, 5, 1),
                clusters=[
                    Cluster(
                        -5,
                        4,
                        2,
                        ["first", "second"],
                        1,
                        0.85,
                        [Sample("second", "old", 2, 0.85, "one two", "one 2", "last/week")],
                    )
                ],
            )
        )
    )
    text = shown(page)
    assert "5 earlier documents: 1 of the dropped documents duplicates one of these." in text
    assert "documents in this run, beside 1 earlier one, in cluster -5 of" in text
    assert "The kept document is of an earlier run, last/week." in text
    assert "Inputcrawl/*.jsonl, against 5 earlier documents" in text
    assert "contain 5 documents, earlier ones included." in text
    assert "earlier" not in shown(elements(written(report())))


def test_long_texts_are_cut_with_a_note():
    long = "word " * 2_000_000
    samples = [
        Sample("a", "b", 1, 0.9999, long + "x", long + "y"),
        Sample("c", "d", 0, 1.0, long, long),
        Sample("e", "f", 0, 1.0, "", ""),
    ]
    clusters = [Cluster(1, 4, 1, [], 0, 1.0, samples)]
    page = written(report(clusters=clusters))
    assert len(page) < 100_000
    whole = shown(elements(page))
    cut = "characters 9,999,701 to 10,000,001 of 10,000,001"
    assert f"Dropped: {cut}; kept: {cut}." in whole
    cut = "characters 1 to 4,000 of 10,000,000"
    assert f"The two texts are equal. Dropped: {cut}; kept: {cut}." in whole
    assert "The two texts are equal. Dropped: 0 characters; kept: 0 characters." in whole


def test_an_empty_run():
    page = written(
        report(
            totals=Totals(0, 0, 0, {}),
            cluster_sizes=np.empty(0, np.int64),
            distances=np.empty(0, np.uint8),
            similarities=np.empty(0),
            fingerprints=np.empty(0, np.uint64),
            shares=[],
            clusters=[],
        )
    )
    whole = shown(elements(page))
    for said in ("Of 0 documents, 0 are kept and 0 (–) dropped", "Nothing was dropped.",
                 "There are no near-duplicates.", "There are no fingerprints."):  # fmt: skip
        assert said in whole
    check_that_nothing_acts(page)


def test_texts_that_were_not_compared():
    page = written(report(similarities=np.full(3, np.nan)))
    assert "Texts were not compared." in shown(elements(page))
    assert rows(page, "Distances and similarities")[-1] == ["2", "2"]


def test_long_tables_are_folded_and_cut():
    shares = [Share(f"host {number}", 10, number % 10) for number in range(1, 251)]
    clusters = [Cluster(number, 9, 1, [f"id {number}"]) for number in range(200)]
    samples = [Sample(f"dropped {n}", "kept", 0, 1.0, "a", "a") for n in range(102)]
    clusters[5] = clusters[5]._replace(samples=samples)
    sizes = np.full(9000, 2)
    page = written(report(shares=[("host", shares)], clusters=clusters, cluster_sizes=sizes))
    assert [row[0] for row in rows(page, "Sources") if "host " in row[0]] == [
        f"host {number}" for number in range(1, 101)
    ]
    whole = shown(elements(page))
    assert "90 more by host" in whole
    assert "150 more are not shown." in whole
    assert "Listed is a sample of 150: the largest, and some with texts." in whole
    assert "Search 150 of the clusters" in whole
    assert "130 more clusters" in whole
    assert len(listed_clusters(page)) == 150
    assert sum(e.get("class") == "pair" for e in elements(page).iter("div")) == 50


def test_a_page_of_the_longest_texts_is_bounded():
    """All words differ, and each character is escaped."""
    text = "& < " * 5000
    samples = [
        Sample("&" * 999, "<" * 999, 0, 0.8, text, text.replace("&", '"')) for _ in range(200)
    ]
    clusters = [Cluster(n, 9, 1, ["&" * 999] * 5, 0, 0.8, samples[:3]) for n in range(999)]
    assert len(written(report(clusters=clusters, shares=[]))) < 7_000_000


def test_hostile_text_everywhere():
    page = written(hostile_report())
    check_that_nothing_acts(page)
    expected = (
        "<script>alert(1)</script></style></title>--><!-- ]]> \"'><img src=https://evil.example/x "
        "onerror=alert(2)> &lt; &amp; ␀␇␛[31m␡\N{REPLACEMENT CHARACTER} "
        + "\N{REPLACEMENT CHARACTER}gnp.exe\N{REPLACEMENT CHARACTER} "
        + "\N{REPLACEMENT CHARACTER}" * 2 + " \N{REPLACEMENT CHARACTER}␍"
    )  # fmt: skip
    names = [shown(element) for element in elements(page).iter("bdi")]
    cut = f"{expected[:50]}…{expected[-49:]}"
    assert names == [cut] * len(names)
    titles = [element.get("title") for element in elements(page).iter("bdi")]
    assert set(titles) <= {expected, None}
    assert expected in titles
    assert len(names) == NAMES
    (text,) = (e for e in elements(page).iter("div") if e.get("class") == "text")
    assert shown(text).startswith(expected)


@costly
@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=3),
            st.sampled_from(
                ["</", "<!--", "-->", "]]>", "{{", "{%", "%}", "<b onx=", "&#x3c;", "\r\n"]
            ),
        ),
        max_size=6,
    ).map("".join)
)
def test_texts_do_not_affect_the_page_around_them(text):
    page = written(hostile_report(text))
    if all(unicodedata.category(c) not in ("Cf", "Cc", "Cs") for c in text):
        check_that_nothing_acts(page)
        title = next(elements(page).iter("h1"))
        kept = "".join(c for c in text if unicodedata.category(c) != "Cn")
        shown = "".join(c for c in "".join(title.itertext()) if unicodedata.category(c) != "Cn")
        assert shown.replace("\ufffd", "") == kept.replace("\ufffd", "")
    tags = [tag for tag, _ in Parts(page).tags]
    assert set(tags) <= TAGS
    assert tags.count("bdi") == NAMES


def test_a_long_id_keeps_its_ends():
    page = written(report(title="a" * 5000 + "b" * 5000))
    title = shown(next(elements(page).iter("h1")))
    assert re.fullmatch("a+…b+", title)
    assert len(title) == 100


def test_equal_data_make_equal_bytes_in_any_process():
    program = """
import sys
from tests.report.reports import hostile_report, report, written
sys.stdout.buffer.write(written(report()) + written(hostile_report()))
"""
    pages = {written(report()) + written(hostile_report())}
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True,
        )  # fmt: skip
        pages.add(done.stdout)
    assert len(pages) == 1


def test_the_content_security_policy():
    page = written(report())
    policy = policy_of(page)
    assert re.fullmatch("'sha256-[0-9A-Za-z+/]{43}='", policy.pop("script-src"))
    assert policy == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert elements(page)[0][0].get("charset") == "utf-8"


def test_it_is_accessible():
    page = elements(written(report()))
    assert page.get("lang") == "en"
    for table in page.iter("table"):
        assert {cell.get("scope") for cell in table.iter("th")} == {"col", "row"}
    levels = [int(e.tag[1]) for e in page.iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    plots = [e for e in page.iter() if e.tag.endswith("svg")]
    assert len(plots) == 4
    for plot in plots:
        assert plot.get("role") == "img"
        assert plot[0].tag.endswith("title")
        assert plot[0].text
    ids = [e.get("id") for e in page.iter() if e.get("id")]
    assert len(set(ids)) == len(ids)
    named = {e.get("aria-labelledby") for e in page.iter("section")}
    linked = {e.get("href").removeprefix("#") for e in page.iter("a")}
    assert linked < named < set(ids)
    labelled = {e.get("for") for e in page.iter("label")}
    assert labelled == {e.get("id") for tag in ("input", "select") for e in page.iter(tag)}
    for region in page.iter("div"):
        if region.get("tabindex"):
            assert region.get("role") == "group"
            assert region.get("aria-label")


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_contrast_of_text(scheme):
    (style,) = elements(written(report())).iter("style")
    light, dark = style.text.split("@media (prefers-color-scheme: dark)", 1)
    found = re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark)
    colours = dict(found)
    assert len(found) == 10
    for ground in ("page", "raised"):
        for text in ("ink", "muted", "kept", "dropped", "bar"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for ground in ("only-dropped", "only-kept"):
        assert contrast(colours["ink"], colours[ground]) >= 4.5, ground
