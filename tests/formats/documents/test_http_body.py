"""Bodies of HTTP responses: decoded by what they are, whatever their headers say."""

import contextlib
import gzip
import itertools
import random
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents.http_body import UndecodableError, decoded_body, looks_like_html

MAX = 1 << 20


def deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def chunked(data, size=7, end=b"\r\n"):
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x%s%s%s" % (len(p), end, p, end) for p in pieces) + b"0" + end + end


PACK = {
    "": bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "deflate": deflate,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
SAID = ["", "gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "identity", "utf-8", "gzip,gzip"]
RUSSIAN = "<html><body><p>Привет мир, как дела сегодня</p></body></html>"
CHINESE = "这是一个中文的网页内容，我们需要检测它的编码。" * 9
BODIES = {
    "html": b"<!doctype html><html><body><p>some words of a page</p></body></html>",
    "text": b"Some words of a text, and no markup at all.\n" * 20,
    "short": b"<p>one",
    "utf-8": ("文本 и текст. " * 40).encode(),
    "cp1251": RUSSIAN.encode("cp1251"),
    "gbk": CHINESE.encode("gbk"),
    "shift_jis": ("これは日本語のテキストです。" * 9).encode("shift_jis"),
    "iso-2022-jp": ("これは日本語のテキストです。" * 9).encode("iso-2022-jp"),
    "utf-16": "with a byte order mark".encode("utf-16"),
    "a stray zero": b"<html><body>" + b"one\0two " * 2 + b"many other words " * 20,
    "numbers": b"2009\r\nThe year in review\r\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_every_header_over_every_body(body):
    """As many as there are combinations come back whole, in chunks or not, said to be or not."""
    for packing, said, in_chunks, said_chunked in itertools.product(
        PACK, SAID, (False, True), ("", "chunked", "Chunked")
    ):
        stored = PACK[packing](body)
        stored = chunked(stored) if in_chunks else stored
        what = (packing, said, in_chunks, said_chunked, stored[:40])
        assert decoded_body(stored, said_chunked, said, MAX) == body, what


def test_several_codings():
    data = BODIES["html"]
    twice = gzip.compress(gzip.compress(data))
    assert decoded_body(twice, "", "gzip, gzip", MAX) == data
    assert decoded_body(brotli.compress(gzip.compress(data)), "", "gzip, br", MAX) == data
    assert decoded_body(chunked(gzip.compress(data)), "gzip, chunked", "", MAX) == data
    assert decoded_body(chunked(twice), "gzip, chunked", "gzip", MAX) == data
    assert decoded_body(chunked(chunked(data)), "chunked", "", MAX) == chunked(data)
    assert decoded_body(b"", "chunked", "gzip", MAX) == b""


@pytest.mark.parametrize(
    ("stored", "content"),
    [
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n", b"hello world"),
        (b"5\r\nhello\r\n6\r\n world\r\n", b"hello world"),
        (b"5\r\nhello\r\n6\r\n world", b"hello world"),
        (b"5\r\nhello\r\n6\r\n wo", b"hello wo"),
        (b"5\r\nhello\r\n", b"hello"),
        (b"5\nhello\n6\n world\n0\n\n", b"hello world"),
        (b"5;name=x\r\nhello\r\n0006 \r\n world\r\n0;x\r\nTrailer: x\r\n\r\n", b"hello world"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"0\r\n\r\n", b""),
        # cut in what is between
        (b"5\r\nhello\r", b"hello"),
        (b"5\r\nhello\r\n1f", b"hello"),
        (b"5\r\nhello\r\n1f\r", b"hello"),
        (b"ffff\r\n" + gzip.compress(b"<p>page", mtime=0)[:-4], b"<p>page"),
        (b"ffff\r\na page, or what begins one", b"ffff\r\na page, or what begins one"),
        # what follows the end of the last chunk
        (b"5\r\nhello\r\n0\r\n\r\nxx", b"hello"),
        (b"5\r\nhello\r\n0\r\n\r\n<!-- a: b -->\r\n" + bytes(30), b"hello"),
        (b"5\nhello\n0\n\nHTTP/1.1 200 OK\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nX-Time: 1\r\nY: 2\r\n\r\nxx", b"hello"),
        (b"5\r\nhello\r\n0\r\nno field: x", b"hello0\r\nno field: x"),
        # plain, although the first line is that of a last chunk
        (b"0\n", b""),
        (b"0\nmatches: none\n", b"0\nmatches: none\n"),
        (b"0\r\n\r\n<p>of these", b"0\r\n\r\n<p>of these"),
        (b"0\n<a href='http://a/'>b</a>", b"0\n<a href='http://a/'>b</a>"),
        # damaged further on: as it is from there
        (b"5\r\nhello\r\nzz\r\n world\r\n", b"hellozz\r\n world\r\n"),
        # none at all
        (b"zz\r\nplain", b"zz\r\nplain"),
        (b"", b""),
        (b"\r\n5\r\nhello\r\n0\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n"),
        (b"0 of these\r\n", b"0 of these\r\n"),
        (b"1\r\nHello world", b"1\r\nHello world"),
    ],
)
def test_chunks(stored, content):
    assert decoded_body(stored, "chunked", "", MAX) == content


def test_what_is_not_said_to_be_in_chunks_must_be_so_to_its_end():
    for plain in (b"5\r\nhello\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\nand more", b"5\r\nhello"):
        assert decoded_body(plain, "", "", MAX) == plain
    assert decoded_body(b"5\r\nhello\r\n0\r\n\r\n", "", "", MAX) == b"hello"


@pytest.mark.parametrize("packing", ["gzip", "zlib", "deflate", "br"])
def test_what_was_cut_short_counts_as_far_as_it_goes(packing):
    body = b"".join(b"<p>%d words" % n for n in range(2000))
    packed = PACK[packing](body)
    said = "deflate" if packing == "zlib" else packing
    for size in (len(packed) - 1, len(packed) // 2, len(packed) // 3):
        for stored, transfer in ((packed[:size], ""), (chunked(packed)[:size], "chunked")):
            found = decoded_body(stored, transfer, said, MAX)
            assert found
            assert body.startswith(found)


@pytest.mark.parametrize("packing", ["gzip", "zstd", "zlib"])
@pytest.mark.parametrize(
    "more",
    [b"\0" * 20, b"\r\n", b"x", b"<!-- served by x -->", b"\r\n" * 40_000, bytes(range(256))],
)
def test_what_follows_data_with_an_end_is_dropped(packing, more):
    for body in (b"<p>page", b"".join(b"<p>%d words" % n for n in range(20_000))):
        for said in ("", "gzip", "deflate", "zstd"):
            assert decoded_body(PACK[packing](body) + more, "", said, MAX) == body, said


def test_frames_of_zstd_that_end_anywhere_and_what_follows_them():
    """So that the next one's magic number is read in two pieces."""
    rng = random.Random(1)
    skippable = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    for size in range(990, 1030):
        one, two = rng.randbytes(size), rng.randbytes(9)
        frames = zstandard.compress(one) + skippable + zstandard.compress(two)
        for more in (b"", b"\r\n", b"\x28\xb5", b"\x5a\x2a\x4d\x19", b"xxxx"):
            assert decoded_body(frames + more, "", "zstd", MAX) == one + two


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\n\r\n"])
def test_line_ends_after_packed_data_are_dropped(packing, end):
    """Those of a record; data of all lengths, for it may end as a line does."""
    for words in range(1, 300, 7):
        body = b"<p>" + b" ".join(b"w%d" % n for n in range(words))
        for said in ("", "deflate", "br"):
            found = decoded_body(PACK[packing](body) + end * bool(packing), "", said, MAX)
            assert found == body, (words, said)


@pytest.mark.parametrize("packing", ["gzip", "zlib"])
@pytest.mark.parametrize("size", [1, 50, 60_000])
def test_a_wrong_checksum_loses_nothing(packing, size):
    body = b"".join(b"<p>%d words" % n for n in range(size))
    packed = PACK[packing](body)
    for at in range(1, (8 if packing == "gzip" else 4) + 1):
        stored = bytearray(packed)
        stored[-at] ^= 0xFF
        for transfer, whole in (("", bytes(stored)), ("chunked", chunked(stored, 1000))):
            assert decoded_body(whole, transfer, "deflate", MAX) == body, at


def test_what_cannot_be_decoded_is_said_without_the_body():
    rng = random.Random(1)
    packed = gzip.compress(rng.randbytes(5000))
    # a block of a type that there is not
    damaged = packed[:10] + b"\x07" + packed[11:]
    for stored, said, reason in (
        (damaged, "", "cannot be decompressed: not gzip data, or damaged"),
        (b"\x1f\x8bgarbage", "", "cannot be decompressed"),
        (rng.randbytes(3000), "br", r"declared to be compressed \(br\), but is not"),
        (
            rng.randbytes(3000),
            "rot" * 500,
            r"declared to be compressed \(rotrotrotrotrotrotro\), but",
        ),
    ):
        with pytest.raises(UndecodableError, match=reason) as error:
            decoded_body(stored, "", said, MAX)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 200
    # nothing says that it is packed
    noise = bytes(range(256)) * 9
    assert decoded_body(noise, "", "", MAX) == noise


@pytest.mark.parametrize("packing", PACK)
def test_a_bomb_is_unpacked_no_further_than_the_limit(packing):
    stored = PACK[packing](b"a" * (MAX + 1))
    with pytest.raises(UndecodableError, match=f"longer than {MAX} bytes"):
        decoded_body(stored, "", "gzip, deflate, br", MAX)
    assert decoded_body(PACK[packing](b"a" * MAX), "", "gzip", MAX) == b"a" * MAX
    # a bomb in a bomb: what is between counts too
    inner = gzip.compress(bytes(30 * MAX))
    with pytest.raises(UndecodableError, match="longer than 20000 bytes"):
        decoded_body(PACK[packing](inner), "", "gzip, gzip", 20_000)


def test_a_page_in_more_layers_than_anyone_packs_it_in_ends():
    data = b"<p>page"
    for _ in range(50):
        data = gzip.compress(data)
    assert decoded_body(data, "", "gzip", MAX).startswith(b"\x1f\x8b")


@given(st.binary(max_size=400), st.sampled_from(SAID), st.sampled_from(["", "chunked"]))
def test_any_bytes_are_decoded_or_refused(data, said, transfer):
    with contextlib.suppress(UndecodableError):
        assert len(decoded_body(data, transfer, said, 1000)) <= 1000


@given(st.text(min_size=1, max_size=60), st.sampled_from(SAID))
def test_text_is_never_taken_for_packed(text, said):
    text = "".join(character for character in text if character.isprintable())
    assert decoded_body(text.encode(), "", said, MAX) == text.encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b" \r\n\t<HTML>", True),
        (b"\xef\xbb\xbf<!DOCTYPE html>", True),
        (b"<!-- a --><script>x", True),
        (b"<?xml version='1.0'?><html>", True),
        (b"<p\nclass=x>", True),
        (b"<pre>", False),
        (b"<", False),
        (b"", False),
        (b"hello <p>", False),
        (b" " * 5000 + b"<body>", True),
    ],
)
def test_how_html_begins(data, expected):
    assert looks_like_html(data) is expected
