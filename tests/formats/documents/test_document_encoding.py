"""Pages are read in the encoding that they are in, whatever is declared."""

import random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mr_dedup.formats.documents.encoding import decode, encoding_of

CHINESE = "这是一个中文的网页内容，我们需要检测它的编码"
JAPANESE = "これは日本語のテキストです。文字コードを検出します。"
RUSSIAN = "Привет мир как дела сегодня"
META_1251 = b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">'
DECLARED = [
    None, "utf-8", "windows-1251", "gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc-jp",
    "euc-kr", "iso-2022-jp", "iso-8859-1", "iso-8859-2", "koi8-r", "windows-1256", "windows-874",
    "utf-16", "utf-16le", "utf-16be", "us-ascii", "no-such-charset", "", "\xff",
]  # fmt: skip
UNKNOWN = {None, "no-such-charset", "", "\xff"}
EAST_ASIAN = {
    "gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "iso-2022-jp",
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("ü早".encode(), None, "ü早"),
        (b"\xef\xbb\xbf" + "ü".encode(), "latin1", "ü"),
        ("ü早".encode("utf-16"), "utf-8", "ü早"),
        (b"\xfe\xff" + "ü早".encode("utf-16-be"), None, "ü早"),
        (CHINESE.encode("gbk"), "gb2312", CHINESE),
        (CHINESE.encode("gbk"), None, CHINESE),
        (JAPANESE.encode("shift_jis"), None, JAPANESE),
        (JAPANESE.encode("euc-jp"), "EUC-JP", JAPANESE),
        (RUSSIAN.encode("cp1251"), None, RUSSIAN),
        (b'<meta charset="koi8-r">' + "мир".encode("koi8-r"), None, '<meta charset="koi8-r">мир'),
        ("garçon déjà vu".encode("latin1"), "ISO-8859-1", "garçon déjà vu"),
        ("garçon déjà vu".encode("latin1"), None, "garçon déjà vu"),
        ("garçon 早".encode(), "iso-8859-1", "garçon 早"),
        (b"plain " * 30_000 + "ü早".encode(), None, "plain " * 30_000 + "ü早"),
        (b'<meta charset="utf-16">x', None, '<meta charset="utf-16">x'),
        ("ü早".encode() + b"\xff", "utf-8", "ü早\ufffd"),
        (b"a\xe9b", "utf-8", "a\xe9b"),
        ("garçon déjà".encode("latin1"), None, "garçon déjà"),
        ("garçon déjà vu, voilà".encode("latin1"), "utf-8", "garçon déjà vu, voilà"),
        # the last character is cut off
        ("ü早".encode()[:-1], None, "ü\ufffd"),
        ("ü早".encode()[:-1], "windows-1251", "ü\ufffd"),
        # characters that are UTF-8 by chance too, and enough that are not
        ("码".encode("gbk"), "gbk", "码"),
        ("漏码".encode("gbk"), "gbk", "漏码"),
        ("早".encode(), "gbk", "早"),
        ("早早".encode(), "gbk", "早早"),
        ("üü".encode(), "gbk", "眉眉"),
        ("üüüü".encode(), "gbk", "üüüü"),
        (JAPANESE.encode("iso-2022-jp"), None, JAPANESE),
        (JAPANESE.encode("iso-2022-jp"), "iso-2022-jp", JAPANESE),
        (JAPANESE.encode("iso-2022-jp"), "utf-8", JAPANESE),
        (JAPANESE.encode("iso-2022-jp") + b"\x1b$B\x41", "iso-2022-jp", JAPANESE + "\ufffd"),
        (b"plain", "utf-16", "plain"),
        ("plain".encode("utf-16-le"), "utf-16", "plain"),
        ("plain".encode("utf-16-be"), "utf-16be", "plain"),
        (("早 " + RUSSIAN).encode("utf-16-le"), "utf-16le", "早 " + RUSSIAN),
        (b"a zero \0 only", "utf-16", "a zero \0 only"),
        # HTTP is wrong, and the meta element right
        (META_1251 + RUSSIAN.encode("cp1251"), "utf-8", META_1251.decode() + RUSSIAN),
        (META_1251 + RUSSIAN.encode("cp1251"), "iso-2022-jp", META_1251.decode() + RUSSIAN),
        # both are wrong
        (META_1251 + RUSSIAN.encode(), "gb2312", META_1251.decode() + RUSSIAN),
        (b"abc", "no-such-charset", "abc"),
        (b"abc", "rot13", "abc"),
        (b"abc", "\xff", "abc"),
        (b"abc", '"utf-8"', "abc"),
        (b"", None, ""),
    ],
)
def test_encodings(data, charset, text):
    assert decode(data, charset) == text


def test_any_byte_is_decoded():
    for encoding in (None, "utf-8", "windows-1252", "gbk", "shift_jis", "iso-2022-jp", "big5"):
        decode(bytes(range(256)), encoding).encode()


@given(st.text(max_size=40), st.sampled_from(DECLARED), st.sampled_from(DECLARED))
@example("users’ rights", None, None)
@example("users’ rights", "windows-1251", "gbk")
@example("Acme™", "iso-8859-2", None)
def test_utf8_is_read_as_such_under_any_declaration(text, charset, meta):
    """Unless it is one or two characters, and only East Asian encodings are declared."""
    assume("\0" not in text and "\x1b" not in text and not text.startswith("\ufeff"))
    page = f"<html><head><meta charset='{meta}'></head><p>{text}"
    for body, said in (page, {charset, meta} - UNKNOWN), (text, {charset} - UNKNOWN):
        is_short = 0 < sum(byte & 0xC0 == 0x80 for byte in body.encode()) < 4
        if is_short and said and said <= EAST_ASIAN:
            continue
        assert decode(body.encode(), charset, is_html=body is page) == body


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\x1b\ufeff")))
def test_utf8_is_read_as_such_without_a_declaration(text):
    assert decode(text.encode()) == text


CYRILLIC = "абвгдежзиклмнопрстуфхцчшщыьэюя"


@pytest.mark.parametrize(
    ("encoding", "letters"),
    [
        ("windows-1251", CYRILLIC),
        ("koi8-r", CYRILLIC),
        ("iso-8859-5", CYRILLIC),
        ("ibm866", CYRILLIC),
        ("windows-1253", "αβγδεζηθικλμνξοπρστυφχψως"),
        ("iso-8859-2", "aeioąęłóżźćńś"),
        ("windows-1252", "aeioäöüßéèçñ"),
        ("windows-1254", "aeioğışçöü"),
        ("windows-1255", "אבגדהוזחטיכלמנסעפצקרשת"),
        ("windows-1256", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"),
        ("gb2312", CHINESE),
        ("big5", "這是一個中文的網頁內容我們需要檢測它的編碼"),
        ("shift_jis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("iso-2022-jp", JAPANESE),
        ("euc-kr", "안녕하세요세계오늘의문서입니다"),
    ],
)
def test_other_encodings_are_read_as_the_page_says_under_http_with_utf8(encoding, letters):
    """UTF-8, or UTF-16, or nothing by HTTP; right by HTTP, and anything in the meta element."""
    rng = random.Random(1)
    for _ in range(20):
        words = ("".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(12))
        text = "Login Google " + " ".join(words)
        meta = f'<meta charset="{encoding}">'
        page = (meta + text).encode(encoding)
        for charset in ("utf-8", "utf-16", "no-such-charset", None, encoding):
            assert decode(page, charset) == meta + text, charset
        for wrong in ("utf-8", "windows-1252", "gbk", "utf-16"):
            page = f'<meta charset="{wrong}">{text}'.encode(encoding)
            assert decode(page, encoding)[len(wrong) :].endswith(text), wrong


def test_what_a_meta_element_is():
    page = "Москва, мир".encode("koi8-r")
    for before in (
        b"<meta charset=koi8-r>",
        b"<META\nname='x' CHARSET = 'KOI8-R' />",
        b"<meta http-equiv=Content-Type content='text/html;charset=koi8-r'>",
        b"<!-- <meta charset=big5> --><meta charset=koi8-r>",
        b"<title>" + b"x" * 3000 + b"</title><meta charset='koi8-r'/>",
    ):
        assert encoding_of(before + page) == "koi8-r"
    assert encoding_of(b"<!-- <meta charset=koi8-r> --><p>" + "Grüße".encode("latin1")) != "koi8-r"


@given(st.binary(max_size=60), st.sampled_from(DECLARED), st.booleans())
def test_any_bytes_are_decoded(data, charset, is_html):
    decode(data, charset, is_html).encode()
