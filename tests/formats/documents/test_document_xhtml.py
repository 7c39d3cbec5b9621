"""XHTML: what is there by the rules of XML, whatever elements are empty; no page loses text."""

import time
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents.html_text import text_of_html
from mr_dedup.formats.documents.xhtml import as_html

NAMES = [
    "title", "script", "style", "textarea", "iframe", "noscript", "noframes", "noembed", "xmp",
    "template", "select", "option", "object", "canvas", "audio", "video", "button", "label", "p",
    "div", "a", "span", "svg", "math", "nav", "aside", "footer", "table", "td", "ul", "li", "h1",
    "frameset", "plaintext", "form", "fieldset",
]  # fmt: skip
EMPTY = ["<{}/>", "<{} />", "<{}\n id='a' data-x=\"/>\" />", "<{} class='b'></{}>"]
PROLOGS = {
    "prolog": "<?xml version='1.0' encoding='utf-16'?>\n<html xmlns='http://www.w3.org/1999/xhtml'>",
    "namespace": '<html xmlns="http://www.w3.org/1999/xhtml" lang="en">',
    "doctype": '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd"><html>',
    "subset": "<!DOCTYPE html [<!ENTITY a 'b'><!-- ]> -->]>\n<!-- <title/> --><html>",
    "none": "<html>",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prolog", PROLOGS.values(), ids=PROLOGS)
@pytest.mark.parametrize("extent", ["main", "page"])
def test_no_text_is_lost_after_an_empty_element(name, prolog, extent):
    for empty in EMPTY[: 3 if name in ("plaintext", "frameset") else 4]:
        element = empty.replace("{}", name)
        for head, body in ((element, ""), ("", element)):
            page = f"{prolog}<head>{head}</head><body>{body}<p>some words</p></body></html>"
            assert text_of_html(page, extent).text.split() == ["some", "words"]
            truncated = page[: page.index("</body>")]
            assert text_of_html(truncated, extent).text.split() == ["some", "words"]


@pytest.mark.parametrize(
    "name", ["title", "SCRIPT", "style", "textarea", "iframe", "noscript", "xmp", "select", "video"]
)
@pytest.mark.parametrize("slash", ["/", " /", " src=a/", " src='a>b' / ", ' id="a"/'])
def test_no_text_is_lost_where_a_page_is_not_well_formed(name, slash):
    slash = slash.rstrip()
    page = (
        f"<!doctype html><body><p>one<br><{name}{slash}><p>two <{name}>hidden</{name}> &nbsp; <b>"
    )
    words = text_of_html(page, "page").text.split()
    assert words[:2] == ["one", "two"]


@pytest.mark.parametrize(
    "page",
    [
        # browsers ignore the slash
        "<body><p>a<br><script/>var b = '<p>no';</script>c",
        "<body><p>a<br><style/>x</style>c",
        "<body><p>a<br><!-- <title/> -->c",
        "<body><p>a<br><script>x = '<title/>'</script>c",
        "<body><p>a<br><svg><title/><path d=x /></svg>c",
        "<body><p>a<br><script>//<![CDATA[\n'</p>'//]]></script>c",
    ],
)
def test_pages_that_are_not_well_formed_are_html(page):
    assert text_of_html(page, "page").text.split() == ["a", "c"]


def test_the_slash_of_a_text_area_is_ignored_too():
    page = f"<body><p>a<br>{'word ' * 60}<textarea/>x</textarea>c"
    assert set(text_of_html(page, "page").text.split()) == {"a", "word", "c"}


def test_text_by_the_rules_of_xml():
    page = (
        "<h:html xmlns:h='http://www.w3.org/1999/xhtml' xmlns:e='urn:e'><h:head><h:title/>"
        "<h:script>x</h:script></h:head><h:body><h:p title='>'>one&nbsp;<![CDATA[<b> & two]]>"
        "<?php a > b ?> &amp; three</h:p><h:a id='x'/><e:switch><u:x>four</u:x></e:switch>"
    )
    assert text_of_html(page, "page").text.split() == [
        "one",
        "<b>",
        "&",
        "two",
        "&",
        "three",
        "four",
    ]


def test_entities_of_a_page_do_not_grow_and_nothing_is_loaded(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    laughs = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 9))
    for subset in (
        f"<!ENTITY a0 'ha'>{laughs}",
        f"<!ENTITY a0 '{'ha' * 50_000}'>",
        f"<!ENTITY a8 SYSTEM '{secret.as_uri()}'>",
        f"<!ENTITY % a SYSTEM '{secret.as_uri()}'> %a;",
    ):
        page = f"<!DOCTYPE html [{subset}]><html><p title='&a0;'>one &a8;&a0;</p><p/>two</html>"
        text = text_of_html(page, "page").text
        assert {"one", "two"} <= set(text.split())
        assert "secret" not in text
        assert len(text) < 300_000


@pytest.mark.parametrize(
    "piece",
    ["<title/>", "<!--", "<![CDATA[", "<html><![CDATA[", "<?", '<script a="', "<a b=\"/>'", "<a/",
     "/>", "<title ", "<p/>", "<", "<script/><![CDATA[<!--<?", "<x:y xmlns:x='"],
)  # fmt: skip
def test_pages_made_to_be_slow_take_linear_time(piece):
    for before, after in (("", ""), ("<html>", "<title/>"), ("<html><p/>", "'/>\"/>")):
        begun = time.process_time()
        as_html(before + piece * (600_000 // len(piece)) + after)
        assert time.process_time() - begun < 2


WORDS = st.integers(0, 99).map("w{} ".format)
XML = st.recursive(
    WORDS | st.sampled_from(["<a/>", "<div id='x'/>", "<br/>", "<![CDATA[ w<w& ]]>", "<!-- w -->"]),
    lambda inside: st.builds(
        "<{0}>{1}</{0}>".format,
        st.sampled_from(["div", "span", "section", "b"]),
        st.lists(inside, max_size=4).map("".join),
    ),
    max_leaves=10,
)


@given(XML)
def test_words_are_those_of_a_parser_of_xml(body):
    page = f"<html><head><title/></head><body>{body}</body></html>"
    expected = "".join(ET.fromstring(page).itertext()).split()
    assert "".join(text_of_html(page, "page").text.split()) == "".join(expected)
