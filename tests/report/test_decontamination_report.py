"""The report of a decontamination, as a page and in Chromium."""

import io
import xml.etree.ElementTree as ElementTree

import pytest

from mr_dedup.contamination.judging import Verdict
from mr_dedup.contamination.options import MatchOptions
from mr_dedup.pipeline.decontamination import Example, SetCounts
from mr_dedup.report.decontamination import (
    PHRASES,
    Contamination,
    write_contamination_report,
)
from tests.accessibility import violations
from tests.report.reports import HOSTILE
from tests.report.test_html import check_that_nothing_acts, policy_of


def example(text="a farmer has twenty sheep", item="A farmer has nineteen sheep?", **fields):
    values = {
        "id": "page-1", "set": "farm", "item": "q1", "field": "question",
        "verdict": "near_question", "contaminated": True, "kind": "near", "coverage": 0.875,
        "start": 1200, "end": 1225, "text": text, "item_text": item,
    }  # fmt: skip
    return Example(**{**values, **fields})


SETS = [
    (SetCounts("farm", 1319, 1300, 20, 15, 300), [example(), example(kind="exact", coverage=1.0)]),
    (SetCounts("town", 40, 40, 0, 0, 0), []),
]


def data(sets=SETS, named=None, **counts):
    summary = {
        "documents_read": 10_000, "documents_contaminated": 300, "items_found": 20, "items": 1359,
        "items_judged": 1340, "documents_searched_in_part": 0, "rejected_records": 1,
        "documents_without_text": 0, "documents_empty": 0,
        "items_not_judged": {"too_short": 12, "no_text": 0, "same_as_another": 7},
        "verdicts": {"question": 200, "near_question": 100, "answer_alone": 3},
    }  # fmt: skip
    named = named or {"documents": "crawl", "evals": "exam.jsonl"}
    return Contamination(named, {**summary, **counts}, MatchOptions(), sets)


def written(*arguments, **counts):
    file = io.BytesIO()
    write_contamination_report(file, data(*arguments, **counts))
    return file.getvalue()


def hostile_sets():
    text = HOSTILE
    examples = [example(text, text, id=text, set=text), example(text * 50, "x")]
    examples[0] = examples[0]._replace(item=text)
    return [(SetCounts(text, 3, 3, 1, 1, 1), examples)]


def text_of(page):
    root = ElementTree.fromstring(page.decode().partition("<!DOCTYPE html>")[2])
    return " ".join(" ".join(root.itertext()).split())


def test_each_verdict_has_a_phrase():
    assert set(PHRASES) == set(Verdict)


def test_what_a_reader_sees():
    text = text_of(written(documents_kept=9_700, documents_dropped=300))
    assert "300 of 10,000 documents (3.0%) contain 20 of 1,359 items." in text
    assert "300 were dropped." in text
    assert "12 items: with too few tokens" in text
    assert "7 items: with the texts of another item of the set" in text
    assert "farm 1,319 1,300 20 15 300" in text
    assert "has nearly the question yes 100" in text
    assert "has the answer alone no 3" in text
    assert "Near, coverage 87.50%, characters 1,201 to 1,225." in text
    page = written().decode()
    assert "<del>twenty</del>" in page
    assert "<ins>nineteen</ins>" in page


def test_nothing_found_and_nothing_read():
    nothing = {"verdicts": {}, "documents_contaminated": 0, "items_found": 0}
    text = text_of(written([SETS[1]], **nothing))
    assert "0 of 10,000 documents (0.0%) contain 0 of" in text
    assert "Examples" not in text
    assert "0 of 0 documents" in text_of(written([SETS[1]], documents_read=0, **nothing))


def test_hostile_texts_do_nothing():
    page = written(hostile_sets(), {"documents": HOSTILE, "evals": HOSTILE})
    check_that_nothing_acts(page)
    assert policy_of(page) == {
        "default-src": "'none'", "script-src": "'none'", "style-src": "'unsafe-inline'",
        "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_many_sets_and_long_texts_are_bounded():
    sets = [
        (SetCounts(f"set {number}", 9, 9, 9, 9, 9), [example("w " * 2000, "v " * 2000)] * 6)
        for number in range(120)
    ]
    page = written(sets)
    assert len(page) < 12 << 20
    assert "And 20 more, in summary.json." in text_of(page)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("make", [lambda: SETS, hostile_sets])
def test_it_fits_and_sends_no_requests(chromium, tmp_path, make, width, scheme):
    path = tmp_path / "report.html"
    path.write_bytes(written(make()))
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page, said, requests = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(path.as_uri())
    folded = page.locator("details:not([open]) > summary")
    while folded.count():
        folded.first.click(timeout=5000)
    assert said == []
    assert [each for each in requests if not each.startswith("data:,")] == [page.url]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    outside = page.evaluate(
        """() => [...document.querySelectorAll('main *, header *')].filter(element =>
            !element.closest('.scroll, .text, .name')
            && element.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert outside == 0
    assert violations(page) == []
    context.close()
