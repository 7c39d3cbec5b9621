"""The report: its contents, that it runs nothing, and that equal data make equal bytes."""

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

from mr_dedup.jobs.shares import Share
from mr_dedup.report.data import LargeCluster, Sample, Totals
from tests.report.reports import elements, hostile_report, report, shown, written
from tests.strategies import costly

TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "h1", "h2", "h3", "h4", "p",
    "div", "span", "dl", "dt", "dd", "nav", "ul", "li", "a", "main", "section", "table", "thead",
    "tbody", "tr", "th", "td", "bdi", "figure", "figcaption", "svg", "g", "rect", "line", "text",
    "details", "summary", "mark",
}  # fmt: skip


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


def check_that_nothing_acts(page: bytes) -> None:
    """No script, no address, no element that we did not write, in a browser's eyes and in XML's."""
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
    assert rows(page, "Kept and dropped documents")[1:] == [
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
        ["some of its documents", "documents", "kept", "cluster"],
        ["firstsecond", "3", "1", "-5"],
    ]
    assert rows(page, "Sources")[1:] == [
        ["a.example", "4", "3", "75.0%", ""],
        ["b.example", "3", "0", "0.0%", ""],
    ]
    assert rows(page, "Options")[1:] == [["k", "3 bits"], ["keep", "first"]]
    check_that_nothing_acts(page)


def test_samples_side_by_side():
    page = written(report())
    (sample,) = (d for d in elements(page).iter("details") if d.get("class") == "sample")
    assert shown(sample[0]) == "second · 2 bits, similarity 0.850"
    dropped, kept = (s for s in sample.iter("div") if s.get("class") == "side")
    assert shown(dropped) == "dropped: second 13 characters one two three"
    assert shown(kept) == "kept: first 11 characters one 2 three"
    assert [shown(mark) for mark in dropped.iter("mark")] == ["two"]
    assert [shown(mark) for mark in kept.iter("mark")] == ["2"]


def test_earlier_documents_are_shown_apart():
    page = elements(
        written(
            report(
                totals=Totals(7, 2, 4, {"near-duplicate": 2, "same text": 1}, 5, 1),
                largest=[LargeCluster(-5, 4, 2, ["first", "second"], 1)],
                samples=[Sample("second", "old", 2, 0.85, "one two", "one 2", "last/week")],
            )
        )
    )
    text = shown(page)
    assert "5 earlier documents: 1 of the dropped documents duplicates one of these." in text
    assert "some of its documentsdocumentsearlierkeptcluster firstsecond412-5" in text
    assert "kept: old A document of an earlier run, last/week." in text
    assert "contain 5 documents, earlier ones included." in text
    assert "earlier" not in shown(elements(written(report())))


def test_long_texts_are_cut_with_a_note():
    long = "word " * 2_000_000
    samples = [
        Sample("a", "b", 1, 0.9999, long + "x", long + "y"),
        Sample("c", "d", 0, 1.0, long, long),
        Sample("e", "f", 0, 1.0, "", ""),
    ]
    page = written(report(samples=samples))
    assert len(page) < 100_000
    whole = shown(elements(page))
    assert whole.count("characters 9,999,701 to 10,000,001 of 10,000,001") == 2
    assert whole.count("characters 1 to 4,000 of 10,000,000") == 2
    assert whole.count("The two texts are equal.") == 2
    assert whole.count("0 characters") == 2


def test_an_empty_run():
    page = written(
        report(
            totals=Totals(0, 0, 0, {}),
            cluster_sizes=np.empty(0, np.int64),
            distances=np.empty(0, np.uint8),
            similarities=np.empty(0),
            fingerprints=np.empty(0, np.uint64),
            shares=[],
            largest=[],
            samples=[],
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
    clusters = [LargeCluster(number, 9, 1, [f"id {number}"]) for number in range(150)]
    samples = [Sample(f"dropped {n}", "kept", 0, 1.0, "a", "a") for n in range(102)]
    page = written(report(shares=[("host", shares)], largest=clusters, samples=samples))
    assert [row[0] for row in rows(page, "Sources") if "host " in row[0]] == [
        f"host {number}" for number in range(1, 101)
    ]
    whole = shown(elements(page))
    assert "90 more by host" in whole
    assert "150 more are not shown." in whole
    assert "90 more clusters" in whole
    assert "50 more are not shown." in whole
    assert "dropped 99" in whole
    assert "dropped 100" not in whole
    assert "2 more are not shown." in whole


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
    assert names == [expected] * len(names)
    assert len(names) == 11
    texts = [shown(e) for e in elements(page).iter("div") if e.get("class") == "text"]
    assert texts == [f"{expected} a b", f"{expected} b c"]


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
    assert tags.count("bdi") == 11


def test_a_long_id_keeps_its_ends():
    page = written(report(title="a" * 5000 + "b" * 5000))
    title = shown(next(elements(page).iter("h1")))
    assert re.fullmatch("a+…b+", title)
    assert len(title) == 200


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
    head = elements(written(report()))[0]
    (policy,) = (m.get("content") for m in head if m.get("http-equiv"))
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    assert head[0].get("charset") == "utf-8"


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
    assert named == linked == set(ids)
    for region in page.iter("div"):
        if region.get("tabindex"):
            assert region.get("role") == "region"
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
