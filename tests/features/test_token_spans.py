"""Tokens and where texts have them, against Python's own Unicode and grapheme clusters."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
import regex
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.features.token_spans import token_spans
from tests.features import text_oracle
from tests.features.test_normalisation import (
    DECOMPOSED,
    FOLDED,
    JAMO,
    KNOWN,
    LASTS,
    MARKS,
    PLAIN,
    SPECIAL,
)
from tests.strategies import TEXTS

FORMS = [*text_oracle.NORMALIZE]
MIXED = ["a", "Z", " ", ".", "½", "ﷺ", "ﬃ", "ß", "İ", "\u00ad", "\u200b", "\u0338", "=", "\n"]
EMOJI = ["👩", "\u200d", "🏽", "\ufe0f", "\u20e3", "🇩", "🇪", "1", "\U000e0067", "\u0600"]
SCRIPTS = ["ก", "ำ", "ิ", "ไ", "中", "ガ", "ｶ", "ﾞ", "ភ", "ា", "한", "न", "्", "द", "ि"]
texts = st.text(
    st.one_of(
        *map(
            st.sampled_from,
            (MARKS, DECOMPOSED, JAMO, PLAIN, SPECIAL, FOLDED, MIXED, EMOJI, SCRIPTS),
        )
    ),
    max_size=25,
)
CLUSTER = regex.compile(r"\X")
ATTACHED = regex.compile(r"[\p{Default_Ignorable_Code_Point}🏻-🏿]+$")


def large(texts):
    return pa.array(texts, pa.large_string())


def spans_of(text, form):
    """The slices of code points, and the hashes."""
    found = token_spans(large([text]), form)
    read = text.encode()
    edges = [[len(read[:edge].decode()) for edge in part] for part in (found.starts, found.stops)]
    return list(zip(*edges, strict=True)), found.hashes.tolist()


def tokens_of(text, form):
    return [token for token, _ in text_oracle.tokens(text_oracle.NORMALIZE[form](text))]


def check(text, form):
    spans, hashes = spans_of(text, form)
    tokens = tokens_of(text, form)
    assert hashes == [xxhash.xxh3_64_intdigest(token.encode()) for token in tokens]
    clusters = [match.span() for match in CLUSTER.finditer(text)]
    edges = {edge for cluster in clusters for edge in cluster}
    ends = [0, *(stop for _, stop in spans)]
    for i, ((start, stop), token) in enumerate(zip(spans, tokens, strict=True)):
        assert start in edges, (start, spans)
        assert stop in edges, (stop, spans)
        found = tokens_of(text[start:stop], form)
        is_alone = ends[i] <= start and (i + 1 == len(spans) or stop <= spans[i + 1][0])
        assert found == [token] if is_alone else token in found, (i, found)
        first = CLUSTER.match(text, start).group()
        # what may combine with a space is normalised with it
        joins = text[start + 1 : start + 2] in LASTS
        assert tokens_of(first, form) or joins, "begins with what is of no token"
        shown = ATTACHED.sub("", text[start:stop])
        while shown and not text_oracle.NORMALIZE[form](shown[-1]):
            shown = shown[:-1]
        last = [match.group() for match in CLUSTER.finditer(shown)]
        assert not last or tokens_of(last[-1], form), "ends with what is of no token"
    assert ends == sorted(ends)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    # what is between tokens has none
    for before, after in itertools.pairwise([(0, 0), *spans, (len(text), len(text))]):
        assert not tokens_of(text[before[1] : max(after[0], before[1])], form)


@pytest.mark.parametrize("form", FORMS)
@given(text=texts | TEXTS)
@example("")
@example("\u00adso\u00adft hy\u00ad phen")
@example("x½½y ﷺ \u0301x")
@example("👩\u200d👩 1\ufe0f\u20e3 a\u200db \u0600 9")
def test_spans_equal_the_oracle(form, text):
    check(text, form)


@pytest.mark.parametrize("form", FORMS)
def test_every_character_equals_the_oracle(form):
    """By thousands of characters in a text, as a text has its own cost."""
    for shown in ("{} ", "a{}b "):
        for some in range(0, len(KNOWN), 997):
            text = "".join(map(shown.format, KNOWN[some : some + 3]))
            check(text, form)
    read = "".join(f"{character} " for character in KNOWN)
    hashes = token_spans(large([read]), form).hashes.tolist()
    expected = [xxhash.xxh3_64_intdigest(token.encode()) for token in tokens_of(read, form)]
    assert hashes == expected


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("Straße 7, eﬃcient.", "nfkc", ["Straße", "7", "eﬃcient"]),
        ("cafe\u0301 x½y", "nfkc", ["cafe\u0301", "x½", "½y"]),
        ("ＡＢ　ＣＤ！ａ", "nfkc", ["ＡＢ", "ＣＤ", "ａ"]),
        ("so\u00adft hy\u00ad", "nfkc", ["so\u00adft", "hy\u00ad"]),
        ("so\u00adft", "nfc", ["so", "ft"]),
        ("한국어 \u1112\u1161\u11ab", "nfkc", ["한국어", "\u1112\u1161\u11ab"]),
        ("ไทย abc中文def", "nfkc", ["ไ", "ท", "ย", "abc", "中", "文", "def"]),
        ("1\ufe0f\u20e3 🙂 a\u200d", "none", ["1\ufe0f\u20e3", "a\u200d"]),
    ],
)
def test_spans_of_texts(text, form, expected):
    spans, _ = spans_of(text, form)
    assert [text[start:stop] for start, stop in spans] == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shift", [0, 1, 30, 61, 62, 63, 64, 65, 127])
def test_tokens_at_the_edges_of_blocks_equal_the_oracle(form, shift):
    for filler in ("a", " ", "é ", "中"):
        for word in ("word", "e\u0301", "ﬁ", "ﷺ", "x\u00ad"):
            check(filler * shift + word + filler * (130 - shift) + word, form)


@pytest.mark.parametrize("form", FORMS)
@given(batch=st.lists(st.none() | texts, max_size=6), first=st.integers(0, 3))
def test_batches_with_nulls_and_slices_equal_each_text(form, batch, first):
    found = token_spans(large(batch)[first:], form)
    assert len(found) == len(batch[first:])
    for number, text in enumerate(batch[first:]):
        of_text = slice(found.offsets[number], found.offsets[number + 1])
        alone = token_spans(large(["" if text is None else text]), form)
        for name in ("hashes", "starts", "stops"):
            assert getattr(found, name)[of_text].tolist() == getattr(alone, name).tolist()


@given(st.lists(st.binary(max_size=80), max_size=4), st.sampled_from(FORMS))
def test_any_bytes_are_read_within_bounds(content, form):
    """What tokens bytes that are no UTF-8 have is not defined, but that spans are within them."""
    offsets = np.append(0, np.cumsum([len(each) for each in content])).astype(np.int64)
    data = pa.py_buffer(b"".join(content))
    bad = pa.LargeStringArray.from_buffers(len(content), pa.py_buffer(offsets), data)
    found = token_spans(pa.concat_arrays([large(["e\u0301 a"]), bad, large(["b"])]), form)
    sizes = [5, *(len(each) for each in content), 1]
    for number, size in enumerate(sizes):
        of_text = slice(found.offsets[number], found.offsets[number + 1])
        assert (found.starts[of_text] <= found.stops[of_text]).all()
        assert (found.stops[of_text] <= size).all()
    assert found.stops[-1] == 1


def test_marks_without_end_take_no_more_than_linear_time():
    found = token_spans(large(["a" + "\u0316\u0301" * 500_000]), "nfkc")
    assert found.stops.tolist() == [2_000_001]


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="LargeStringArray"):
        token_spans(pa.array(["a"]))
