"""The text of HTML: what is in it, and what is refused."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents import html_text
from mr_dedup.formats.documents.html_text import HtmlError, text_of_html

PAGE = """<!doctype html><html><head><title>Title</title><style>p {color: red}</style>
<script>var evil = "<p>no</p>";</script></head><body><nav><a href=/>Home</a></nav>
<main><article><h1>Heading</h1><p onclick="js()">Some <b>bold</b> words &amp; more
than it takes for a page of prose.</p>
<script>more()</script><style>.x {}</style><noscript>turn it on</noscript></article></main>
<footer>Imprint</footer></body></html>"""


def test_main_content_and_the_whole_page():
    text = "Heading Some bold words & more than it takes for a page of prose."
    assert text_of_html(PAGE, "main").text == text
    assert text_of_html(PAGE, "page").text == f"Home {text} Imprint"


def test_a_page_without_main_content_is_taken_whole():
    html = "<body><nav>Only <a href=/>links</a> here</nav></body>"
    assert text_of_html(html, "main").text == text_of_html(html, "page").text == "Only links here"


@pytest.mark.parametrize(
    "element",
    [
        '<div class="ad">x</div>',
        '<div class="box ad">x</div>',
        '<p class="ads">x</p>',
        '<div class="advert"><p>x</p></div>',
        '<ins class="adsbygoogle">x</ins>',
        '<div id="div-gpt-ad-12-0">x</div>',
        '<section aria-label="Advertisement">x</section>',
        '<div data-ad-slot="7">x</div>',
        '<div class="ad-slot ad-slot--top">x</div>',
        '<div class="Ad">x</div>',
        '<div class="box AD-Banner">x</div>',
        '<div id="Sponsored">x</div>',
        '<div id="Div-GPT-Ad-12-0">x</div>',
        '<div class="Cookie-Banner">x</div>',
        '<div class="Related-Posts"><a href=/>x</a></div>',
        '<div role="Dialog">x</div>',
        '<div id="onetrust-banner-sdk">x</div>',
        '<div class="cookie-banner">x</div>',
        '<div class="gdpr">x</div>',
        '<div class="related-posts"><a href=/>x</a></div>',
        '<section class="read-next">x</section>',
        '<div class="share-buttons">x</div>',
        '<div class="newsletter-signup"><form>x</form></div>',
        '<div role="complementary">x</div>',
        '<div role="dialog">x</div>',
        "<aside>x</aside>",
    ],
)
@pytest.mark.parametrize("around", ["{}", "<div><div>{}</div></div>", "<main>{}</main>"])
def test_furniture_that_is_named_as_such_is_not_main_content(element, around):
    html = f"<!doctype html><body>{around.format('<h1>One</h1><p>two ' + element + '<p>three')}"
    assert text_of_html(html, "main").text == "One two three"
    assert text_of_html(html, "page").text == "One two x three"


@pytest.mark.parametrize(
    "html",
    [
        '<body class="ad ads social"><p>{}</p>',
        '<body><main class="ad"><p>{}</p></main>',
        '<body><main class="sponsored"><article class="share social"><p>{}</p></article></main>',
        '<body><div class="download"><p>{}</p></div>',
        '<body><div class="shadow lead adventure headline"><p>{}</p></div>',
        '<body><div class="ad-free readable"><p>{}</p></div>',
        '<body><div class="shareholders"><p>{}</p></div>',
        '<body><div class="advice" id="socialism"><p>{}</p></div>',
        # nothing else is there
        '<body><div class="ad"><p>{}</p></div>',
    ],
)
def test_names_that_only_look_like_those_of_furniture_stay(html):
    words = "words of an article"
    assert text_of_html(html.format(words), "main").text == words


NAMED = [
    '<div class="{}">%s</div>',
    '<section class="box {}">%s</section>',
    '<div id="{}"><div><div>%s</div></div></div>',
    '<table class="{}"><tr><td>%s</td></tr></table>',
    '<table><tr><td class="{}">%s</td></tr></table>',
    '<ul class="{}"><li>%s</li></ul>',
]
CONTENT_NAMES = [*sorted(html_text.FURNITURE_NAMES), "modal", "sidebar", "hidden", "popup", "menu"]
MARKED = [
    "role=dialog", "role=complementary", "role=banner", "data-ad=1", "data-ad-slot=7", "hidden",
    "aria-label=Advertisement", "id=div-gpt-ad-1", "id=onetrust-x", "aria-hidden=true",
    "style='display:none'",
]  # fmt: skip
NOTICE = "<p>Meet the seller in a public place, and never send money in advance.</p>"


@pytest.mark.parametrize(
    "element",
    [
        *(NAMED[number % len(NAMED)].format(name) for number, name in enumerate(CONTENT_NAMES)),
        *(f"<div {mark}>%s</div>" for mark in MARKED),
        *(f"<{tag}>%s</{tag}>" for tag in ("aside", "nav", "footer", "header")),
    ],
)
def test_content_in_an_element_named_as_furniture_stays(element):
    words = [f"word{number}" for number in range(60)]
    for content in (
        element % f"<h1>Item</h1><p>{' '.join(words)}</p>",
        f"<div class=ad>{element % ' '.join(words)}</div>",
        "<hr>".join(element % " ".join(words[at : at + 6]) for at in range(0, 60, 6)),
    ):
        page = f"<!doctype html><body><div id=wrap>{content}</div>{NOTICE}"
        assert set(words) <= set(text_of_html(page, "main").text.split())


@pytest.mark.parametrize("name", ["ad", "advert", "sponsored", "share", "newsletter", "social"])
@pytest.mark.parametrize("template", [*NAMED[:-1], '<ol class="{}"><li>%s</li></ol>'])
def test_a_long_text_is_no_furniture_beside_a_longer_notice(name, template):
    words = [f"word{number}" for number in range(80)]
    element = template.format(name) % f"<p>{' '.join(words)}</p>"
    page = f"<!doctype html><body><div>{element}</div>{NOTICE * 40}"
    assert set(words) <= set(text_of_html(page, "main").text.split())


def test_links_and_scripts_do_not_make_an_advert_content():
    links = "".join(f"<li><a href={n}>link number {n}</a>" for n in range(100))
    scripts = f"<script>{'var x = 1; ' * 100}</script><style>{'p {} ' * 100}</style>"
    page = f"<body><p>{'word ' * 60}</p><div class=ad>x <ul>{links}</ul>{scripts}</div>"
    assert set(text_of_html(page, "main").text.split()) == {"word"}


def test_the_share_that_was_cut():
    assert text_of_html(PAGE, "page").cut_share == 0
    main, page = (text_of_html(PAGE, extent) for extent in ("main", "page"))
    assert main.cut_share == 1 - len(main.text) / len(page.text)
    assert text_of_html("", "main") == ("", 0)


def test_nested_furniture_takes_linear_time():
    inside = "<div class=ad>" * 900 + "word " * 60_000
    begun = time.process_time()
    assert text_of_html(f"<body><p>{inside}", "main").text.count("word") == 60_000
    assert time.process_time() - begun < 4


def test_pages_with_planted_furniture():
    """Less of what surrounds an article than by Resiliparse alone, and all of the article."""
    from bench.boilerplate import READERS, measured

    library, ours = (
        measured(150, 3, READERS[name]) for name in ("Resiliparse's main content", "`--html main`")
    )
    assert ours[1] == library[1] == 1
    assert ours[0] > library[0] + 0.04
    assert ours[0] > 0.95
    assert all(share > 0.7 for share in ours[2])


@pytest.mark.parametrize("html", ["", "<", "<script>only()", "<style>a", "<!-- c -->", "<body>"])
def test_pages_without_text(html):
    assert text_of_html(html, "main").text.strip() in ("", "<")


def test_odd_references_are_replaced():
    text = text_of_html("<p>a&#xD800;b&#0;c&#x110000;d", "page").text
    text.encode()
    assert text == "a\ufffdb\ufffdc\ufffdd"


@pytest.mark.parametrize("tag", ["div", "ul><li", "b", "a", "table><tr><td", "span", "section"])
@pytest.mark.parametrize("extent", ["main", "page"])
def test_deep_nesting_takes_little_time_and_text(tag, extent):
    html = f"<{tag}>x" * 50_000
    begun = time.process_time()
    text = text_of_html(html, extent).text
    assert time.process_time() - begun < 10
    assert text.count("x") == 50_000
    assert len(text) <= 4 * 50_000


def test_depth_is_not_taken_from_elements_that_end_by_themselves():
    html = "<body><nav>menu</nav>" + "<p>one<br><img><li>two" * 2_000
    assert "menu" not in text_of_html(html, "main").text


def test_what_the_parser_would_choke_on_is_refused():
    with pytest.raises(HtmlError, match="more than 500000 tags"):
        text_of_html("<p>" * 500_001, "page")
    for attribute in (' a{}="1"', " a{}", "/a{}=x", ' a{}="<"', " a{}='>'"):
        html = "<p" + "".join(map(attribute.format, range(20_000))) + ">x"
        with pytest.raises(HtmlError, match="attributes"):
            text_of_html(html, "main")


def test_long_tags_and_texts_that_are_fine():
    json = '{"some": "words and spaces"}' * 10_000
    html = f"<p data-x='{json}'>one</p><pre>" + "two words " * 20_000
    assert text_of_html(html, "page").text.startswith("one two words")
    assert "x" in text_of_html("<img src='data:" + "A" * 500_000 + "'>x", "page").text


OLD_PAGE = (
    '<HTML><BODY BGCOLOR="#ffffff"><CENTER><FONT SIZE="+2"><B>Links</B></CENTER><TABLE><TR><TD>'
    + "".join(
        f"<P><FONT COLOR='#{n % 90}0000' face={n}><B>one <I class=x>two{n}</B> three</I>"
        f"<FONT SIZE=1> <A HREF={n}>four</A> <em>five</em>-<small>si</small>x<u id={n}>\n"
        for n in range(400)
    )
    + "</TD></TR></TABLE><form><select><option>not<optgroup><OPTION value=1>text</select> end"
)


@pytest.mark.parametrize("extent", ["main", "page"])
def test_what_the_parser_would_multiply_keeps_its_text(extent):
    words = [word for n in range(400) for word in ["one", f"two{n}", "three", "four", "five-six"]]
    text = text_of_html(OLD_PAGE, extent).text
    assert text.split() == ["Links", *words, "end"]


def text_by_both_names(html, extent):
    """Return the text of ``html``, and that with other names for what is formatting."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(html_text, "_MAX_REOPENED", 1 << 60)
        expected = text_of_html(html, extent).text
        patched.setattr(html_text, "_MAX_REOPENED", -1)
        return expected, text_of_html(html, extent).text


@given(
    st.lists(st.sampled_from(
        ["<b>", "</b>", "<B id=1>", "<i\nclass=a>", "</i >", "<font size=2>", "</font>", "<tt/>",
         "<p>", "</p>", "<div>", "</div>", "<table>", "<tr>", "<td>", "</table>", "<ul>", "<li>",
         "<a href=x>", "</a>", "<code>", "</code>", "<br>", "<span>", "</span>", "<h1>", "</h1>",
         "<svg>", "</svg>", "<strong>", "<bold>", " ", "x", "<"]
    ), max_size=60),
)  # fmt: skip
def test_other_names_leave_the_text(pieces):
    html = "".join(piece + f"w{n} " * (piece == "x") for n, piece in enumerate(pieces))
    expected, text = text_by_both_names(html, "page")
    # white space may come where a tag is not nested well
    assert text.split() == expected.split()


WORDS = st.integers(0, 99).map("w{} ".format)
INLINE = st.recursive(
    WORDS,
    lambda inside: st.builds(
        "<{0} class=y>{1}</{0}>".format,
        st.sampled_from(["b", "I", "code", "em", "font", "small", "strong", "u", "a", "span"]),
        st.lists(inside, max_size=4).map("".join),
    ),
    max_leaves=8,
)
BLOCKS = st.recursive(
    st.builds("<p>{}</p>".format, INLINE),
    lambda inside: st.builds(
        "<{0} id={1}>{2}</{0}>".format,
        st.sampled_from(["div", "ul", "li", "article", "nav", "main", "h2", "blockquote"]),
        st.integers(0, 9),
        st.lists(inside, max_size=4).map("".join),
    ),
    max_leaves=8,
)


@given(BLOCKS, st.sampled_from(["main", "page"]))
def test_other_names_leave_main_content_of_tags_that_are_nested_well(html, extent):
    expected, text = text_by_both_names(f"<body>{html}", extent)
    assert text == expected


@pytest.mark.parametrize("extent", ["main", "page"])
@pytest.mark.parametrize(
    "element",
    [
        "<noscript><p>{}</p></noscript><div id=app></div>",
        "<form><textarea>{}</textarea></form>",
        "<select><option>{}</option></select>",
        "<button>{}</button>",
        '<input value="{}">',
    ],
)
def test_what_is_only_in_forms_or_noscript_is_text(element, extent):
    page = f"<html><body>{element.format('some words')}</body></html>"
    assert text_of_html(page, extent).text.strip("[ ]") == "some words"
    shown = page.replace("<body>", "<body><p>" + "shown " * 50)
    if "noscript" not in page:
        assert text_of_html(shown, extent).text.split() == ["shown"] * 50


LISTS = {
    "links": "<ul>{}</ul>", "a link": '<li><a href="/{0}">{0}</a></li>',
    "form": "<form>{}</form>", "field": "<label>{0}</label><input value='{0}'>",
    "values": "<form>{}</form>", "value": "<input value='{0}'>",
    "select": "<form><select>{}</select></form>", "option": "<option>{0}</option>",
    "buttons": "<div>{}</div>", "button": "<button>{0}</button>",
    "area": "<textarea>{}</textarea>", "line": "{0} ",
    "noscript": "<noscript>{}</noscript>", "paragraph": "<p>{0}</p>",
}  # fmt: skip


@pytest.mark.parametrize(("list_of", "item"), list(zip([*LISTS][::2], [*LISTS][1::2], strict=True)))
@pytest.mark.parametrize("around", ["{}", "<main>{}</main>", "<div class=content>{}</div>"])
@pytest.mark.parametrize("head", ["", "<h1>Index of pages</h1><p>Choose one of these.</p>"])
def test_pages_of_nothing_but_lists_are_compared_by_these(list_of, item, around, head):
    texts = []
    for first in "x", "y":
        words = [f"{first}word{number} and more" for number in range(40)]
        body = LISTS[list_of].format("".join(LISTS[item].format(word) for word in words))
        html = (
            f"<body><nav><a href=/>Home</a></nav>{around.format(head + body)}<footer>Imprint"
            "</footer></body>"
        )
        texts.append(text_of_html(html, "main").text)
        assert all(word in texts[-1] for word in words), texts[-1]
        assert "Imprint" not in texts[-1]
    assert texts[0] != texts[1]


@pytest.mark.parametrize("content", ["<main>{}</main>", "<div id=content>{}</div>"])
def test_a_stub_beside_many_links_stays_one(content):
    links = "".join(f"<li><a href=/{n}>page {n}</a></li>" for n in range(60))
    stub = content.format("<p>This is all there is.</p>")
    text = text_of_html(f"<body><div><ul>{links}</ul></div>{stub}</body>", "main").text
    assert text == "This is all there is."


@pytest.mark.parametrize("extent", ["main", "page"])
@pytest.mark.parametrize("element", ["label", "button", "textarea", "LABEL"])
@pytest.mark.parametrize(("count", "words"), [(1, 80), (12, 8), (1, 35), (2, 80)])
@pytest.mark.parametrize("around", ["{}", "<form>{}</form>", "<ul><li><p>{}</p></li></ul>"])
@pytest.mark.parametrize(
    "page", ["<main>{0}</main>{1}", "<main>{0}{1}</main>", "<div>{1}{0}</div>"]
)
def test_content_in_an_element_of_forms_is_text(extent, element, count, words, around, page):
    """Answers that a click opens, source code: a long one, or more than all else, as in a div."""
    texts = [" ".join(f"own{n}x{i}" for i in range(words)) for n in range(count)]

    def text_in(name, same):
        fields = around.format("".join(f"<{name}>{text}</{name}>" for text in texts))
        shared = f"<h1>A site</h1><p>{'the same words ' * same}</p>"
        return text_of_html(page.format(shared, fields), extent).text

    found = text_in(element, 8)
    assert found == text_in("div", 8)
    assert all(word in found for text in texts for word in text.split())
    assert text_in(element, 33) == text_in("div", 33)
    # those of 400 characters, however long the rest
    assert words < 80 or text_in(element, 150) == text_in("div", 150)


@pytest.mark.parametrize("extent", ["main", "page"])
def test_short_elements_of_forms_are_no_text(extent):
    form = "<form><label>Your address</label><textarea></textarea><button>Send</button></form>"
    page = f"<body><main><p>{'The words of a page. ' * 40}</p>{form}</main>"
    found = text_of_html(page, extent).text
    assert "address" not in found
    assert "Send" not in found


@pytest.mark.parametrize(
    "part",
    [
        "<p>some words here<button>copy</button></p>",
        "<label>a word</label>",
        "<label>",
        "<label><b>x</b> a word ",
        "<label></label>",
        "<textarea>x</textarea>",
        f"<button>{'word ' * 100}</button>",
        "<p class=share>a few words</p>",
        f"<div class=share>{'word ' * 100}<a>b</a></div>",
        f"<p class=related>{'word ' * 100}</p>",
    ],
)
def test_elements_in_numbers_take_linear_time(part):
    taken = []
    for count in (1_000, 8_000):
        begun = time.process_time()
        text_of_html("<p>A text</p>" + part * count, "main")
        taken.append(time.process_time() - begun)
    assert taken[1] < 20 * taken[0] + 0.3


OWN = " ".join(f"own{number}" for number in range(80))


@pytest.mark.parametrize("extent", ["main", "page"])
@pytest.mark.parametrize(
    "page",
    [
        "<body><template>{}</template>",
        "<body><my-page><template shadowrootmode=open><p>{}</template></my-page>",
        "<html><head><title>A</title></head><frameset cols=1,2><frame src=a><noframes><body>{}"
        "</body></noframes></frameset></html>",
        "<NOFRAMES>{}</NOFRAMES>",
        "<noembed>{}</noembed>",
        "<iframe src=a>{}</iframe>",
        "<dialog>{}</dialog>",
        "<noscript>{}",
    ],
)
def test_what_is_shown_in_another_way_is_the_text_of_a_page_without_other(extent, page):
    assert text_of_html(page.format(OWN), extent).text == OWN


@pytest.mark.parametrize("extent", ["main", "page"])
def test_what_is_in_shadow_roots_is_text(extent):
    root = f"<template class=a shadowrootmode='open'><p>{OWN}</p></template>"
    page = f"<p>{'A text of its own. ' * 40}</p><my-page>{root.upper()}</my-page>"
    text = text_of_html(f"{page}<iframe src=a>Frames are off</iframe>", extent).text
    assert OWN.upper() in text
    assert "Frames" not in text


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        ("<title>Hi</head><body><p>", "<title>"),
        ("<title>A</title><body><!-- x <p>", "a comment"),
        ("<script>var a = 1; <p>", "<script>"),
        ("<script>'<!--'</script><STYLE>p {} <p>", "<style>"),
        ("<!--> <!-- --!><title x='>'></title><title><p>", "<title>"),
        ('<p class="<b>', "<p>"),
        ("<p class=a' title = 'b\n<i>", "<p>"),
        ("<frameset><noframes><p>", "<noframes>"),
    ],
)
def test_a_page_whose_text_is_in_what_does_not_end_is_a_reject(begin, name):
    with pytest.raises(HtmlError, match=f"^no text, and {name} without an end$"):
        text_of_html(f"<html>{begin}{OWN}</p></html>", "main")


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html><head><title></title><script>a = '<!--'</script></head><body></body></html>",
        "<frameset><frame></frameset>",
        "<!-- -- > --><!--><!---><div title='a > b' data-x=\"<p '\"></div><br",
        "<script>only() < 5",
    ],
)
def test_a_page_without_a_text_is_an_empty_document(page):
    assert text_of_html(page, "main").text == ""


GALLERY = (
    "<html><head>{head}</head><body><nav><a href=1>Home</a></nav>{body}<a>Next</a></body></html>"
)


@pytest.mark.parametrize(
    ("head", "body", "shown"),
    [
        ("<title>The  sea</title>", "<img src=1.jpg>", "The sea"),
        ("<title>Photos</title>", "<input type=image alt='the sea'>", "Photos the sea"),
        ("<title>Photos</title>", "<svg aria-label='the sea'></svg>", "Photos the sea"),
        ("<title>Photos</title>", "<div role=img aria-label='the sea'></div>", "Photos the sea"),
        ("<title>Sea</title><meta name=Description content=Sea>", "", "Sea"),
        ("<meta property=og:title content='The sea'>", "<div id=root></div>", "The sea"),
        ("<meta property=og:description content='The sea'>", "<script>1</script>", "The sea"),
        ("<title> </title>", "<img src=/sea/1.jpg alt=''>", "/sea/1.jpg"),
        ("", "<video><source src=sea.mp4></video>", "sea.mp4"),
        ("", "<object data=sea.svg></object>", "sea.svg"),
        ("<link rel=canonical href=https://a.example/sea>", "", "https://a.example/sea"),
    ],
)
def test_pages_of_a_gallery_differ_by_what_they_show(head, body, shown):
    page = GALLERY.format(head=head, body=body)
    for extent in ("main", "page"):
        assert text_of_html(page, extent).text.removeprefix("Home ") == f"Next {shown}"


def test_a_text_of_images_is_complete():
    page = GALLERY.format(head="<title>Photos</title>", body="<img src=1.jpg alt='The sea'>")
    assert text_of_html(page, "page").text == "Home The seaNext Photos"


def test_a_title_counts_beside_few_words_and_links_alone():
    titles = [f"<title>A view of the {name}</title>" for name in ("sea", "hills")]
    link = "<a href=1>an album of photos</a> "

    def are_equal(body):
        sea, hills = (text_of_html(GALLERY.format(head=t, body=body), "page") for t in titles)
        return sea.text == hills.text

    assert not are_equal("")
    assert not are_equal("a caption of a few words")
    assert not are_equal(15 * link)
    assert are_equal(40 * link)
    assert are_equal("<p>A caption that has as many words as a sentence has at least.</p>")


def test_many_images_take_linear_time():
    page = "<title>Photos</title>" + "<img src=1.jpg><input alt=x><svg aria-label=y></svg>" * 50_000
    begun = time.process_time()
    assert text_of_html(page, "main").text == "Photos x y"
    assert time.process_time() - begun < 4


@pytest.mark.parametrize(
    "part",
    ["<title ", "<!--", "<!-->", "<script></script>", "<template>", "<iframe></iframe>", '<a b="',
     "<a ", "<a b= ", '<a =""', "<a b=" + " " * 50,
     "<template ", "<p>a</p><template ", "<template shadowrootmode=open>a"],
)  # fmt: skip
def test_pages_without_a_text_take_linear_time(part):
    taken = []
    for count in (5_000, 40_000):
        begun = time.process_time()
        with contextlib.suppress(HtmlError):
            text_of_html(part * count, "main")
        taken.append(time.process_time() - begun)
    assert taken[1] < 24 * taken[0] + 0.5
