"""What is found in a page in one pass, and by a pattern for each question."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.formats.documents.html_scan import markup_of
from mr_dedup.formats.documents.html_text import text_of_html
from mr_dedup.formats.documents.markup import FURNITURE_IDS, FURNITURE_NAMES

ALONE = [
    "area",
    "base",
    "br",
    "col",
    "dd",
    "dt",
    "embed",
    "hr",
    "img",
    "input",
    "li",
    "link",
    "meta",
    "option",
    "p",
    "param",
    "source",
    "td",
    "th",
    "tr",
    "track",
    "wbr",
]
VOID = [
    "area",
    "base",
    "br",
    "col",
    "embed",
    "frame",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "param",
    "source",
    "track",
    "wbr",
]
FORMATTING = ["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"]
TAG = re.compile("<(/?)([a-zA-Z][a-zA-Z0-9]*)?([^<]?)", re.DOTALL)
VALUE = re.compile(
    r"(?:class|id)[ \t\n\r\f\v]*=[ \t\n\r\f\v]*"
    r"""(?:["']([^"'>]*)|([^"'>\s]*))"""
)

PIECES = [
    *(f"<{end}{name}{rest}" for name in ("div", "b", "FONT", "option", "select", "p", "codex", "h1")
      for end in ("", "/") for rest in (">", " ", "/>", "-x>", "")),
    "<br/>", "<br />", "<div />", " class=", " ID = '", 'class="', "data-id=", "ad", "AD ", "share",
    "newsletter ", "onetrust-x", "Outbrain", "taboola-", " data-ad", "data-AD-slot=", "role=dialog",
    "Role =", "aria-label='", '"', "'", ">", "<", "</", "=", "-", "<!--", "-->", "<!-->",
    "<![CDATA[", "]]>", "<!doctype html>", "\n", " ", "\t", "text", "é", "xmlns:h=", "<?xml ?>",
]  # fmt: skip


def expected(html):
    """Return what ``markup_of`` does of a page, slowly."""
    depth = deepest = reopened = kind = 0
    opened = dict.fromkeys(FORMATTING, 0)
    in_comment = False
    for token in re.finditer(r"<|>|=", html):
        at = token.start()
        if token[0] == ">":
            in_comment &= html[max(at - 2, 0) : at] != "--"
        if token[0] != "<":
            continue
        reopened += sum(opened.values())
        in_comment |= html.startswith("<!--", at)
        end, name, behind = TAG.match(html, at).groups()
        name = (name or "").lower()
        if name and name not in ALONE:
            depth = max(0, depth - 1) if end else depth + 1
            deepest = max(deepest, depth)
        if name in FORMATTING and behind and behind in " \t\n\r\f\v/>":
            if not end:
                opened[name] += behind != ">" or opened[name] < 3
            elif not in_comment:
                opened[name] = max(0, opened[name] - 1)
        kind += name == "option" and behind != "" and behind in " \t\n\r\f\v/>"
    has_select = re.search(r"</?select[\s/>]", html, re.IGNORECASE | re.ASCII)
    lowered = html.lower()
    furniture = set()
    values_end = 0
    for found in re.finditer(r"(?:class|id)[ \t\n\r\f\v]*=", lowered):
        if found.end() - 1 < values_end:
            continue
        value = VALUE.match(lowered, found.start())
        values_end = value.end()
        for word in re.split(r"[ \t\n\r\f\v]+", value[1] or value[2] or ""):
            furniture |= {word} & FURNITURE_NAMES
            furniture |= {start for start in FURNITURE_IDS if word.startswith(start)}
    return {
        "tags": html.count("<"),
        "options": kind if has_select else 0,
        "reopened": reopened,
        "depth": deepest,
        "has_role": bool(re.search(r"role[ \t\n\r\f\v]*=", lowered)),
        "has_label": bool(re.search(r"label[ \t\n\r\f\v]*=", lowered)),
        "has_advert_data": "data-ad" in lowered,
        "furniture": sorted(furniture),
    }


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("")
@example("=" * 9)
@example("<b>" * 9 + "</b>" * 4 + "<b class=x>" * 3 + "<p>")
def test_markup_is_that_of_patterns(html):
    markup = markup_of(html.encode())
    found = {name: getattr(markup, name) for name in expected("")}
    assert found == expected(html)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_what_xml_may_change_is_noticed(html):
    names = re.findall(r"<([^<>]*)/>", html)
    is_empty = any(re.split(r"[\s/>]", name, maxsplit=1)[0].lower() not in VOID for name in names)
    if is_empty or "xmlns:" in html or "<![" in html:
        assert markup_of(html.encode()).may_be_xml


def test_depth_by_the_rules_of_xml():
    markup = markup_of(b"<div>" * 2 + b"<div/><h1 />" * 5 + b"<p/><span>")
    assert (markup.depth, markup.xml_depth) == (13, 3)


@pytest.mark.parametrize("mark", ["", "'", "<b>", "><"])
def test_the_longest_run_without_a_bracket(mark):
    html = "<p>" + mark.join("x" * 100 for _ in range(30)) + "<p>"
    runs = re.findall("[^<]+", html) + re.findall("[^>]+", html)
    assert abs(markup_of(html.encode()).longest - max(map(len, runs))) <= 1


def test_well_nested_formatting_is_not_renamed():
    """However much there is, its elements are not opened again."""
    html = "<p><b class=x>one <code>two</code></b> <em>three</em>" * 20_000
    assert markup_of(html.encode()).reopened <= 3 * html.count("<")
    assert markup_of(b"<p><b id=1>x</p>" * 1000).reopened > 400_000


@pytest.mark.parametrize(
    "piece", ["class=", "class= ", "id='", " = ", "<", "data-", "<b ", "<x/>", "<!--", "a" * 9]
)
def test_a_scan_takes_linear_time(piece):
    page = (piece * (4_000_000 // len(piece))).encode()
    begun = time.process_time()
    markup_of(page)
    assert time.process_time() - begun < 1


def test_elements_in_capitals_that_need_no_end_tag_do_not_nest():
    html = "<BODY><NAV>menu</NAV>" + "<P>one<BR><LI>two" * 2_000
    assert "menu" not in text_of_html(html, "main").text
