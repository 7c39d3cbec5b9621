"""What tells a question from others, against slow answers over lists of words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.contamination.evidence import Evidence, evidence_of, last_sentence
from tests.contamination.items import index_of, item, spans_of

WORDS = st.lists(st.sampled_from("abcdef"), min_size=3, max_size=20)


def grams(words, size):
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_own_ngrams_are_those_of_one_question(questions, answer):
    items = [item(" ".join(words), answers=[" ".join(answer)]) for words in questions]
    index = index_of(items, min_tokens=3)
    distinct = {tuple(words) for words in questions}
    for text in range(index.table.totals.size):
        of_text = slice(*index.uses.starts[text : text + 2].tolist())
        rows = index.uses.items[of_text][index.uses.fields[of_text] == 0]
        flags = index.is_own[int(index.table.starts[text]) : int(index.table.starts[text + 1])]
        if rows.size == 0:
            assert not flags.any()
            continue
        words = questions[rows[0]]
        others = {gram for other in distinct - {tuple(words)} for gram in grams(other, 3)}
        own = [gram not in others for gram in grams(words, 3)]
        assert flags.tolist() == [*own, False, False]


def hashed(words):
    return np.array([ord(word) * 0x9E3779B97F4A7C15 % (1 << 64) for word in words], np.uint64)


def in_a_gram(words, size, is_chosen):
    """Which words are in an n-gram that is chosen."""
    inside = [False] * len(words)
    for at, gram in enumerate(grams(words, size)):
        for k in range(size):
            inside[at + k] |= is_chosen(at, gram)
    return inside


@given(WORDS, WORDS, st.data())
def test_evidence_is_counted_as_by_hand(question, found, data):
    own = data.draw(st.lists(st.booleans(), min_size=len(question), max_size=len(question)))
    own[-2:] = [False, False]
    last = data.draw(st.integers(0, len(question) - 3))
    there, pairs = set(grams(found, 3)), set(grams(found, 2))
    shares = [
        gram in there for gram, is_own in zip(grams(question, 3), own[:-2], strict=True) if is_own
    ]
    evidence = evidence_of(hashed(question), np.array(own), last, hashed(found))
    if not shares:
        assert evidence == (0, 0, 0)
        return
    present = in_a_gram(question, 2, lambda _, gram: gram in pairs)
    of_own = in_a_gram(question, 3, lambda at, _: own[at])
    tokens = [here for here, mine in zip(present, of_own, strict=True) if mine]
    of_last = [here for here, mine in zip(present[last:], of_own[last:], strict=True) if mine]
    of_last = of_last or present[last:]
    grams_of_last = [
        gram in there
        for gram, mine in zip(grams(question[last:], 3), own[last:-2], strict=True)
        if mine
    ]
    share = sum(of_last) / len(of_last)
    if len(grams_of_last) >= 5 and not any(grams_of_last):
        share = 0
    expected = (sum(shares) / len(shares), sum(tokens) / len(tokens), share)
    assert evidence == pytest.approx(expected)


def test_all_shares_are_needed():
    assert Evidence(0.4, 0.8, 0.8).is_enough(Evidence(0.4, 0.8, 0.8))
    for less in (Evidence(0.3, 1, 1), Evidence(1, 0.7, 1), Evidence(1, 1, 0.7)):
        assert not less.is_enough(Evidence(0.4, 0.8, 0.8))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One sentence of these words", 0),
        ("Some words. What are the five words here?", 2),
        ("Some words! Which? What are the five words here?", 3),
        ("Some words.\nWhat are the five words here", 2),
        ("Some words: what are the five words here", 0),
        ("Some words. What are they?", 0),
        ("It costs 3.50 in all of the shops", 0),
        ("一个农夫有十九只羊。现在他有几只羊？", 9),
        ("", 0),
        ("...", 0),
    ],
)
def test_the_last_sentence(text, first):
    spans = spans_of([text])
    assert last_sentence(text, spans.starts) == first


@given(st.text(st.sampled_from("ab .!?\n。é"), max_size=200))
def test_a_last_sentence_begins_in_the_text_and_has_five_tokens(text):
    starts = spans_of([text]).starts
    first = last_sentence(text, starts)
    assert first == 0 or first <= starts.size - 5
