"""The canonical form: which spellings are folded, which are not, and what is no URL."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.urls.canonical import (
    INDEX_NAMES,
    NotAUrlError,
    OtherFormError,
    UrlForm,
    read_mirrors,
)
from mr_dedup.urls.folds import reason

PLAIN = UrlForm()
MIRRORS = (("example.org", "www.example.org", "xn--bcher-kva.example"), ("a.net", "b.net"))
FULL = UrlForm(drop_index=True, drop_tracking=True, mirrors=MIRRORS)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTP://Example.ORG/A", "http://example.org/A"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org:80/", "http://example.org/"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("ftp://example.org:21/a", "ftp://example.org/a"),
        ("http://example.org:/", "http://example.org/"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://example.org/a#b", "http://example.org/a"),
        ("http://example.org/a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/%7ea%2fb%c3%a9", "http://example.org/~a%2Fb%C3%A9"),
        ("http://example.org/é b", "http://example.org/%C3%A9%20b"),
        ("http://example.org/?b=2&a=1&b=1&c", "http://example.org/?a=1&b=2&b=1&c="),
        ("http://example.org/?", "http://example.org/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://BÜCHER.example:80/", "http://xn--bcher-kva.example/"),
        ("http://faß.de/", "http://xn--fa-hia.de/"),
        ("http://例え。テスト/", "http://xn--r8jz45g.xn--zckzah/"),
        ("http://User:Pass@Example.org/", "http://User:Pass@example.org/"),
        ("http://[0:0:0::1]:80/", "http://[::1]/"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/"),
        ("http://under_score.example.org/", "http://under_score.example.org/"),
        ("  http://example.org/  ", "http://example.org/"),
        # as browsers read them
        ("http:example.org/", "http://example.org/"),
        ("http:\\\\example.org\\a", "http://example.org/a"),
        ("http://ex%61mple.org/", "http://example.org/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://i\u2764.ws/", "http://xn--i-7iq.ws/"),
        ("http://\u2603.net./", "http://xn--n3h.net/"),
        ("http://r3---sn-x.example.org/", "http://r3---sn-x.example.org/"),
        ("http://-\u00fc.org/", "http://xn----eha.org/"),
        ("http://a@b:c@example.org/", "http://a%40b:c@example.org/"),
        ("custom://Example.org/a/../b", "custom://example.org/b"),
        # escapes that mean nothing, and those that do
        ("http://example.org/%2541%4%", "http://example.org/%2541%254%25"),
        ("http://example.org/%%34%31", "http://example.org/%2541"),
        ("http://example.org/a/%2e%2E/b%2ec", "http://example.org/b.c"),
        ("http://example.org/?a%5fb=%7e&c=x+y%20z", "http://example.org/?a_b=~&c=x+y+z"),
        ("http://example.org/?q=a%26b&&c=%2b", "http://example.org/?c=%2B&q=a%26b"),
        # what the canonical form leaves alone
        ("http://www.example.org/index.html", "http://www.example.org/index.html"),
        ("http://example.org/?utm_source=x", "http://example.org/?utm_source=x"),
        ("http://example.org/a/", "http://example.org/a/"),
        ("http://example.org/A", "http://example.org/A"),
    ],
)
def test_spellings(url, form):
    assert PLAIN.of(url.encode()).decode() == form
    assert PLAIN.of(form.encode()).decode() == form


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("http://example.org/a/index.html", "http://example.org/a/"),
        ("http://example.org/Default.aspx?x=1", "http://example.org/?x=1"),
        ("http://example.org/myindex.html", "http://example.org/myindex.html"),
        ("http://example.org/?utm_source=x&b=1&gclid=2&a=UTM_x", "http://example.org/?a=UTM_x&b=1"),
        ("http://example.org/?UTM_Medium=x", "http://example.org/"),
        ("http://example.org/?utm%5Fsource=x&%67clid=1&a=2", "http://example.org/?a=2"),
        ("http://www.example.org/", "http://example.org/"),
        ("http://WWW.Example.org.:80/", "http://example.org/"),
        ("http://bücher.example/", "http://example.org/"),
        ("https://b.net:8443/", "https://a.net:8443/"),
        ("http://c.net/", "http://c.net/"),
    ],
)
def test_what_is_folded_by_option(url, form):
    assert FULL.of(url.encode()).decode() == form
    assert FULL.of(form.encode()).decode() == form


def test_fragments_may_be_kept():
    assert UrlForm(keep_fragments=True).of(b"http://a.org#x") == b"http://a.org/#x"


def test_bytes_that_are_not_utf8_are_escaped():
    assert PLAIN.of(b"http://a.org/\xff\xe9?q=\xe9") == b"http://a.org/%FF%E9?q=%E9"


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "example.org", "/path", "//example.org/", "mailto:a@example.org", "http://",
        "http://exa mple.org/", "http://example.org:x/", "http://example.org:99999/", "http://./",
        "http://[::1/", "http://a..b/", "http://" + "a." * 200 + "org/", "http://@/",
        "javascript://alert(1)", "http://a.org[::\xff]/x", "http://a.org[v1.x]/p",
        "http://[%zz::\xfe]/", "http://x\u00e0n\uff20y:p@a b/", "file:///a", "http://xn--a.org/",
    ],
)  # fmt: skip
def test_what_is_no_url(url):
    with pytest.raises(NotAUrlError):
        PLAIN.of(url.encode())


@pytest.mark.parametrize("character", "/?#;&=+@:$,!'()*[]|%")
def test_reserved_characters_stay_escaped(character):
    """RFC 3986, 2.2: URLs that differ in the escape of a reserved character are not equivalent."""
    escaped = f"%{ord(character):02X}"
    assert PLAIN.of(f"http://a.org/x{escaped}y".encode()).decode() == f"http://a.org/x{escaped}y"
    assert PLAIN.of(f"http://a.org/?x={escaped}".encode()).decode() == f"http://a.org/?x={escaped}"
    if character not in "?#%":
        assert PLAIN.of(f"http://a.org/x{character}y".encode()).decode() == (
            f"http://a.org/x{character}y"
        )


def test_off_leaves_every_byte():
    form = UrlForm(canonical=False)
    for url in (b"nonsense", b" HTTP://A#b ", b"\xff"):
        assert form.of(url) == url
    with pytest.raises(NotAUrlError, match="is empty"):
        form.of(b"")


@given(
    st.builds(
        "http{}://{}.org:{}/{}?{}#{}".format,
        st.sampled_from(["", "s"]),
        st.text("abcXYZ-ü", min_size=1, max_size=5).map(lambda host: f"x{host}x"),
        st.sampled_from(["", "80", "443", "8080"]),
        st.text(max_size=12).filter(lambda path: not set(path) & set("?#")),
        st.text(max_size=12).filter(lambda query: "#" not in query),
        st.text(max_size=3),
    ),
    st.sampled_from([PLAIN, FULL]),
)
@example("http://a.org/???", PLAIN)
@example("http://a.org/??b&a#?", FULL)
def test_the_form_of_a_form_is_itself(url, form):
    """And the reason why a URL is not in it can be said."""
    try:
        once = form.of(url.encode("utf-8", "surrogatepass"))
    except NotAUrlError:
        return
    assert form.of(once) == once
    assert reason(url.encode("utf-8", "surrogatepass"), once)


def test_forms_as_text():
    for form in (PLAIN, FULL, UrlForm(canonical=False), UrlForm(keep_fragments=True)):
        assert UrlForm.from_text(form.to_text()) == form
    assert FULL.describe() == "canonical, drop index, drop tracking, mirrors"
    assert UrlForm(canonical=False).describe() == "as given"


@pytest.mark.parametrize(
    ("version", "message"),
    [(1, "of an earlier version"), (99, "is newer .*; upgrade")],
)
def test_forms_of_other_versions(version, message):
    fields = json.loads(PLAIN.to_text()) | {"version": version}
    with pytest.raises(OtherFormError, match=message):
        UrlForm.from_text(json.dumps(fields))
    # URLs as they are have no version
    assert UrlForm.from_text(UrlForm(canonical=False).to_text()) == UrlForm(canonical=False)


def test_index_names_are_in_lower_case():
    assert all(name == name.lower() for name in INDEX_NAMES)


@pytest.mark.parametrize("mirrors", [(("a.org", "A.org"),), (("a.org", "b.org"), ("b.org", "c"))])
def test_mirrors_that_cannot_be(mirrors):
    with pytest.raises(ValueError, match="mirrors must be distinct hosts in canonical form"):
        UrlForm(mirrors=mirrors)


def test_a_file_of_mirrors(tmp_path):
    path = tmp_path / "mirrors.txt"
    path.write_text("# mine\nExample.org www.example.org bücher.example # three\n\na.net  b.net\n")
    assert read_mirrors(path) == MIRRORS
    for content, message in (
        (b"a.org b.org\nc.org A.org\n", "line 2: names a.org a second time"),
        (b"a.org b..org\n", "line 1: 'b..org' is not a host"),
        (b"a.org \xff\n", "byte 6: is not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"mirrors.txt, {message}".replace(".", r"\.")):
            read_mirrors(path)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "can_ada", None)
    with pytest.raises(MrDedupError, match=r"needs can_ada: pip install 'mr-dedup\[urls\]'"):
        UrlForm().of(b"http://a.org/")
