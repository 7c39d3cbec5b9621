"""Each encoding as pages have it: declared in every way, undeclared, wrongly declared, damaged."""

import random

import pytest

from mr_dedup.formats.documents.charsets import codec_of
from mr_dedup.formats.documents.encoding import decode, encoding_of
from mr_dedup.formats.documents.plausibility import implausible_share
from tests.formats.documents.languages import CODEC, LANGUAGES, texts

COUNT = 4
PAIRS = [(encoding, language) for encoding, names in LANGUAGES.items() for language in names]
NARROW = [pair for pair in PAIRS if not pair[0].startswith(("utf-16", "utf-32"))]
# in these damage moves what follows it
SHIFTED = ("iso-2022-jp", "gbk", "gb18030", "big5", "big5-hkscs", "shift_jis", "utf-16", "utf-32")


def pages(encoding, language, head="", words=80):
    return [f"{head}<p>{text}</p>" for text in texts(language, encoding, COUNT, words)]


def encoded(page, encoding):
    return page.encode(CODEC.get(encoding, encoding))


@pytest.mark.parametrize(("encoding", "language"), PAIRS)
@pytest.mark.parametrize("words", [8, 80])
def test_what_http_declares_is_decoded_as_it_was_written(encoding, language, words):
    for page in pages(encoding, language, words=words):
        for name in (encoding, encoding.upper(), f'"{encoding}"'):
            assert decode(encoded(page, encoding), name) == page


@pytest.mark.parametrize(("encoding", "language"), NARROW)
def test_what_the_page_declares_is_decoded_as_it_was_written(encoding, language):
    for head in (
        f"<meta charset={encoding}>",
        f'<?xml version="1.0" encoding="{encoding}"?>\n<html>',
        f"<?xml version='1.0' standalone='yes' encoding = '{encoding}' ?>\n<html>",
    ):
        for page in pages(encoding, language, head, words=8):
            assert decode(encoded(page, encoding)) == page
            # a server's default
            assert decode(encoded(page, encoding), "utf-8") == page


@pytest.mark.parametrize(("encoding", "language"), PAIRS)
def test_without_a_declaration(encoding, language):
    for page in pages(encoding, language):
        assert decode(encoded(page, encoding)) == page
        assert decode(encoded(page, encoding), "utf-8") == page
        assert decode(encoded(page, encoding), is_html=False) == page


@pytest.mark.parametrize("wrong", ["gb2312", "shift_jis", "euc-kr", "iso-8859-1", "windows-1251"])
@pytest.mark.parametrize(
    ("encoding", "language"),
    [
        pair
        for pair in PAIRS
        # the alphabet is neither Latin nor Cyrillic, or its letters have one or two bytes in UTF-8
        if pair[1] in ("greek", "thai", "arabic", "japanese", "chinese", "taiwanese", "korean")
        or pair[0].startswith("utf-8")
    ],
)
def test_under_the_name_of_another(encoding, language, wrong):
    if codec_of(wrong) == codec_of(encoding):
        return
    for page in pages(encoding, language, f"<meta charset={wrong}>"):
        assert decode(encoded(page, encoding), wrong) == page


@pytest.mark.parametrize(("encoding", "language"), PAIRS)
def test_one_wrong_byte_changes_a_few_characters(encoding, language):
    """Of the page that says what it is in, or HTTP another if it is UTF-8."""
    rng = random.Random(encoding)
    for page in pages(encoding, language):
        data = bytearray(encoded(page, encoding))
        at = rng.randrange(8, len(data) - 8)
        data[at] ^= 0xA5
        for charset in ("iso-8859-1", "windows-1251", None) if encoding == "utf-8" else (encoding,):
            found = decode(bytes(data), charset)
            # what precedes the damage, and what follows it
            differs = map(str.__ne__, found, page)
            same = next((index for index, differ in enumerate(differs) if differ), 0)
            assert same >= len(page) * at // len(data) - 48
            if not encoding.startswith(SHIFTED):
                assert found[-8:] == page[-8:] or at > len(data) - 40
                assert abs(len(found) - len(page)) <= 4


def test_short_korean():
    """Words of a few syllables, which are common characters of other encodings too."""
    rng = random.Random(1)
    hangul = bytes(b for lead in range(0xB0, 0xC9) for t in range(0xA1, 0xFF) for b in (lead, t))
    syllables = hangul.decode("euc_kr")
    right = {"utf-8": 0, "windows-1252": 0, None: 0, "euc-kr": 0}
    for _ in range(200):
        words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(3)]
        page = f"<title>{words[0]}</title><p>{' '.join(words)}</p>"
        for charset in right:
            right[charset] += decode(page.encode("cp949"), charset) == page
    assert right.pop("euc-kr") == 200
    assert min(right.values()) >= 196, right


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("x-mac-cyrillic", "mac-cyrillic"), ("x-mac-ukrainian", "mac-cyrillic"),
        ("macintosh", "mac-roman"), ("x-mac-roman", "mac-roman"), ("x-mac-greek", "mac-greek"),
        ("x-mac-turkish", "mac-turkish"), ("x-mac-ce", "mac-latin2"),
        ("x-mac-centraleurroman", "mac-latin2"), ("x-mac-croatian", "mac-croatian"),
        ("x-mac-icelandic", "mac-iceland"), ("x-mac-romanian", "mac-romanian"),
        ("ks_c_5601-1987", "cp949"), ("UHC", "cp949"), ("x-windows-949", "cp949"),
        ("EUC_KR", "cp949"), ("x-sjis", "shift_jis"), ("windows-31j", "cp932"),
        ("gb2312", "gb18030"), ("x-gbk", "gb18030"), ("big5-hkscs", "big5hkscs"),
        ("hz-gb-2312", "hz"), ("csISO2022KR", "iso2022_kr"), ("latin1", "cp1252"),
        ("ISO-8859-9", "cp1254"), ("tis-620", "cp874"), ("cp866", "cp866"), ("cp437", "cp437"),
        ("utf8", "utf-8"), ("UTF-32", "utf-32-le"), ("UCS-2", "utf-16-le"), (" utf-8\n", "utf-8"),
        ("rot13", None), ("base64", None), ("utf-7", None), ("", None), ("é", None), ("a\0", None),
    ],
)  # fmt: skip
def test_names_of_encodings(name, codec):
    assert codec_of(name) == codec


def test_encodings_that_are_parts_of_others_are_read_as_these():
    for page, charset in (
        ("똠방각하 펲시콜라", "euc-kr"),
        ("‘quoted’ – €", "iso-8859-1"),
        ("鎔基 €", "gb2312"),
        ("①高橋 髙橋", "shift_jis"),
    ):
        wider = {"euc-kr": "cp949", "iso-8859-1": "cp1252", "gb2312": "gb18030"}
        assert decode(page.encode(wider.get(charset, "cp932")), charset) == page


def test_padding_and_binary_data_are_not_utf16():
    assert encoding_of(b"text\0\0\0\0" * 40) == "utf-8"
    assert encoding_of(bytes(range(256)) * 8, "iso-8859-1") not in ("utf-16-le", "utf-32-le")


def test_text_as_people_write_it_is_plausible():
    for text in (
        "McDonald’s iPhone, 5 €, 20 °C, m², ½ l; ¿Qué? ¡No! «là» „ja“ – naïve ÄÖÜ",
        "Программа на Python, 5 ₽; № 7; МОСКВА",
        "日本語のテキスト①、Python。ＡＢＣ　ﾃｽﾄ",
        "中文Python的文本，和iPhone。",
        "한국어 텍스트, Python 코드 – 大韓民國",
    ):
        assert implausible_share(text) <= 0.1, text
    for text in ("Ã©tÃ© Ã  la", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "ÇÑ±¹¾î", "ПрІвет\ufffd\ufffd", "縺薙ｌ縺ｯ"):
        assert implausible_share(text) >= 0.2, text
