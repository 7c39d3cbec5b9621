"""The texts of items in documents, against oracles that compare every word with every word."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.contamination.item_index import MAX_TEXTS, gram_size
from mr_dedup.contamination.matching import Matcher
from tests.contamination.items import found_in, index_of, item, spans_of
from tests.contamination.oracle import alignment_cost, occurrences
from tests.strategies import costly

TEXT = (
    "A farmer who sells wool in the old harbour has nineteen sheep and buys four more on Friday "
    "how many sheep does the farmer have before the market opens again"
)
QUESTION = TEXT.split()


def texts_of(items, index):
    """The numbers of the texts of questions, by their words."""
    numbers = {}
    for text in range(index.table.totals.size):
        for use in range(*index.uses.starts[text : text + 2]):
            numbers[tuple(items[index.uses.items[use]])] = text
    return numbers


def exact(index, document):
    found = found_in(index, [" ".join(document)]).get(0, [])
    return sorted((match.text, match.start, match.stop) for match in found if match.is_exact)


WORDS = st.sampled_from(["a", "b", "c", "the"])
ITEMS_OF_WORDS = st.lists(st.lists(WORDS, min_size=1, max_size=14), min_size=1, max_size=8)


@given(ITEMS_OF_WORDS, st.lists(WORDS, max_size=60), st.data())
def test_no_whole_item_is_missed_in_words_that_repeat(items, document, data):
    for number in data.draw(st.lists(st.integers(0, len(items) - 1), max_size=4)):
        at = data.draw(st.integers(0, len(document)))
        document[at:at] = items[number]
    items = [*items, QUESTION]
    index = index_of([item(" ".join(words)) for words in items])
    numbers = texts_of(items, index)
    expected = [
        (numbers[words], at, at + len(words))
        for words in {tuple(words) for words in items if len(words) >= 5}
        for at in occurrences(document, list(words))
    ]
    assert exact(index, document) == sorted(expected)


@given(st.integers(0, 1 << 30), st.integers(8, 60), st.integers(0, 2), st.data())
def test_no_item_with_one_edit_is_missed(seed, length, kind, data):
    draw = random.Random(seed)
    words = [f"w{draw.randrange(5000)}" for _ in range(length)]
    edited = list(words)
    # at the ends there is nothing beside a deletion to show it
    at = data.draw(st.integers(0, length - 1))
    if kind == 0:
        del edited[at]
    elif kind == 1:
        edited.insert(at, "inserted")
    else:
        edited[at] = "changed"
    around = [f"x{draw.randrange(5000)}" for _ in range(40)]
    index = index_of([item(" ".join(words))])
    found = found_in(index, [" ".join([*around, *edited, *around])])
    whole = occurrences([*around, *edited, *around], words)
    (match,) = found[0]
    assert match.is_exact == bool(whole)
    if not whole:
        assert match.coverage >= 1 - 1 / length - 1e-9
        assert match.deleted + match.inserted + match.changed <= 2
        assert 40 <= match.start <= 41
        assert 39 + len(edited) <= match.stop <= 40 + len(edited)


@costly
@given(st.integers(0, 1 << 30), st.integers(8, 40), st.floats(0, 0.35))
def test_a_match_is_an_alignment_and_no_other_is_much_better(seed, length, share):
    draw = random.Random(seed)
    items = [[f"w{draw.randrange(60)}" for _ in range(length)] for _ in range(3)]
    index = index_of([item(" ".join(words)) for words in items])
    edited = []
    for word in items[0]:
        kind = draw.choice(["delete", "insert", "change"]) if draw.random() < share else "keep"
        edited += {"delete": [], "insert": [word, "new"], "change": ["other"], "keep": [word]}[kind]
    document = [f"w{draw.randrange(60)}" for _ in range(20)] + edited
    numbers = {text: words for words, text in texts_of(items, index).items()}
    weights = word_weights(index, items)
    for match in found_in(index, [" ".join(document)]).get(0, []):
        words, part = numbers[match.text], document[match.start : match.stop]
        kept = len(words) - match.deleted - match.changed
        assert kept == len(part) - match.inserted - match.changed
        total = sum(weights[word] for word in words)
        other = total * (1 - match.coverage) + match.changed * 12
        least = alignment_cost(words, part, weights, 24, 1, 12)
        # so many runs of inserted words as there may be, or one
        assert least <= round(other) + match.inserted * 24
        assert round(other) + match.inserted + 23 * (match.inserted > 0) <= least + 24 * 3
        assert match.coverage >= 0.7
        assert match.deleted + match.changed <= max(1, int(0.3 * len(words)))


@costly
@given(st.integers(0, 1 << 30), st.integers(16, 60), st.integers(1, 30))
def test_an_item_that_other_text_divides_is_one_with_an_insertion(seed, length, size):
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(length)]
    at = draw.randrange(length // 5, length - length // 5)
    advert = [f"x{draw.randrange(50)}" for _ in range(size)]
    index = index_of([item(" ".join(words))])
    (match,) = found_in(index, [" ".join(["y", *words[:at], *advert, *words[at:], "z"])])[0]
    assert match[1:] == (1, 1 + length + size, 1.0, 0, size, 0)


def word_weights(index, items):
    """The weight of each word, by the number that its hash has in the table."""
    table = index.table
    words = sorted({word for words in items for word in words})
    hashes = spans_of([" ".join(words)]).hashes
    ids = {int(key): int(id) for key, id in zip(table.word_keys, table.word_ids, strict=True) if id}
    return {
        word: int(table.word_weights[ids[int(key)]])
        for word, key in zip(words, hashes, strict=True)
    }


def test_the_kinds_of_one_edit():
    words = QUESTION
    index = index_of([item(" ".join(words))])
    cases = {
        "as it is": (words, (0, 0, 0)),
        "deleted": (words[:9] + words[10:], (1, 0, 0)),
        "inserted": ([*words[:9], "also", *words[9:]], (0, 1, 0)),
        "changed": ([*words[:9], "ninety", *words[10:]], (0, 0, 1)),
        "beginning": (words[: len(words) - 5], (5, 0, 0)),
        "end": (words[5:], (5, 0, 0)),
        "middle": (words[3:-3], (6, 0, 0)),
    }
    documents = [" ".join(["before", *case, "after"]) for case, _ in cases.values()]
    found = found_in(index, documents)
    for number, (name, (case, edits)) in enumerate(cases.items()):
        (match,) = found[number]
        assert match[4:] == edits, name
        assert (match.start, match.stop) == (1, 1 + len(case)), name


def test_punctuation_case_and_unicode_forms_make_no_difference():
    question = "Wie viele Straßen führen von Łódź über die Brücke zum Café?"
    index = index_of([item(question)])
    same = [
        question.upper(),
        "wie viele STRASSEN führen – von Łódź! (über) die **Brücke** zum Cafe\u0301",
        "Ｗｉｅ viele Straßen führen\nvon Łódź\u00a0über die Brü\u00adcke zum Café",
    ]
    for number, matches in found_in(index, same).items():
        assert [match.is_exact for match in matches] == [True], same[number]
    assert len(found_in(index, same)) == 3


def test_scripts_without_spaces():
    index = index_of([item("一个农夫有十九只羊，又买了四只，现在他有几只羊？")])
    text = "前言。一个农夫有十九只羊，又买了四只，现在他有几只羊？答案是二十三。"
    (match,) = found_in(index, [text])[0]
    assert match.is_exact
    assert text[match.start + 1 :][: match.stop - match.start].startswith("一个农夫")


def test_items_in_one_another_are_all_found():
    whole, part = " ".join(QUESTION), " ".join(QUESTION[4:14])
    index = index_of([item(whole), item(part)])
    found = found_in(index, [whole, part])
    assert sorted(match.text for match in found[0]) == [0, 1]
    assert [match.text for match in found[1]] == [1]


def test_an_item_that_a_document_repeats_is_found_each_time():
    index = index_of([item(" ".join(QUESTION))])
    (matches,) = found_in(index, [" . ".join([" ".join(QUESTION)] * 5000)]).values()
    size = len(QUESTION)
    assert [match.start for match in matches] == list(range(0, 5000 * size, size))


def test_exact_and_near_matches_of_a_text_do_not_overlap():
    words = QUESTION
    document = [*words[:7], *words, "x", *words[:5], "y", *words[6:], *words]
    index = index_of([item(" ".join(words))])
    (matches,) = found_in(index, [" ".join(document)]).values()
    by_start = sorted((match.start, match.stop, match.is_exact) for match in matches)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(by_start))
    assert [exact for _, _, exact in by_start] == [True, False, True]


def test_the_order_and_division_of_documents_make_no_difference():
    draw = random.Random(5)
    items = [[f"w{draw.randrange(200)}" for _ in range(12)] for _ in range(200)]
    index = index_of([item(" ".join(words)) for words in items])
    documents = []
    for _ in range(300):
        words = [f"w{draw.randrange(200)}" for _ in range(draw.randrange(80))]
        if draw.random() < 0.5:
            words[5:5] = draw.choice(items)[draw.randrange(2) :]
        documents.append(" ".join(words))
    whole = found_in(index, documents)
    assert len(whole) > 100
    for size in (1, 7, 100):
        matcher, parts = Matcher(index), {}
        for start in range(0, len(documents), size):
            for number, matches in matcher.find(spans_of(documents[start : start + size])):
                parts[start + number] = matches
        assert parts == whole


def test_an_ngram_of_many_items_finds_none_by_itself_and_hides_none():
    common = "which of the following statements is right about"
    items = [f"{common} animal number{number} of the list" for number in range(MAX_TEXTS * 3)]
    index = index_of([item(text) for text in items])
    assert index.common_grams > 0
    found = found_in(
        index, [f"{common} nothing at all", items[7], f"so {items[150]} or {items[3]}"]
    )
    assert 0 not in found
    assert [match.text for match in found[1] if match.is_exact] == [7]
    assert sorted(match.text for match in found[2] if match.is_exact) == [3, 150]


def test_texts_of_common_ngrams_alone_are_found():
    words = ["p", "q", "r"]
    items = list(itertools.islice(itertools.product(words, repeat=6), 700))
    index = index_of([item(" ".join(each)) for each in items])
    document = [word for each in items[::50] for word in (*each, "z")]
    found = exact(index, document)
    assert {text for text, _, _ in found} >= set(range(0, 700, 50))


def test_a_document_that_is_hostile_takes_linear_work():
    # each word of the document begins an n-gram of the item, and no place has most of it
    index = index_of([item(" ".join(["no"] * 40 + [f"w{n}" for n in range(60)]))])
    document = " ".join(["no"] * 200_000)
    matcher = Matcher(index, max_work=50)
    assert list(matcher.find(spans_of([document, " ".join(["no"] * 7)]))) == []
    assert matcher.stopped <= 1


def test_a_document_of_many_beginnings_of_an_item():
    items = [" ".join([f"v{n % 7}" for n in range(900)] + [f"end{k}"]) for k in range(20)]
    index = index_of([item(text) for text in items], max_edits=0.0)
    document = " ".join(f"v{n % 7}" for n in range(70_000))
    found = found_in(index, [document, f"{document} {items[3]} {document}"])
    assert [(match.text, match.start) for match in found[1]] == [(3, 70_000)]
    assert 0 not in found


def test_what_takes_too_much_work_is_counted_and_whole_items_are_found():
    text = " ".join(QUESTION)
    index = index_of([item(text)])
    partly = " ".join([*QUESTION[:14], "x", "y", *QUESTION[16:]])
    matcher = Matcher(index, max_work=0)
    ((document, matches),) = matcher.find(spans_of([partly, f"{partly} {text}"]))
    assert (document, [match.is_exact for match in matches], matcher.stopped) == (1, [True], 2)


def test_more_matches_than_there_is_room_for():
    items = [" ".join(QUESTION[start : start + 6]) for start in range(20)]
    index = index_of([item(text) for text in items])
    document = " ".join(QUESTION * 1000)
    (matches,) = found_in(index, [document]).values()
    assert len(matches) == 20 * 1000


def test_no_documents_and_documents_without_tokens():
    index = index_of([item(" ".join(QUESTION))])
    assert found_in(index, []) == {}
    assert found_in(index, ["", None, "...", "\U0001f600", "one"]) == {}


def test_only_whole_texts_without_edits_or_where_texts_are_short():
    words = QUESTION[:7]
    changed = " ".join([*words[:3], "other", *words[4:]])
    assert found_in(index_of([item(" ".join(words))]), [changed]) == {}
    assert (
        found_in(index_of([item(" ".join(QUESTION))], max_edits=0.0), [" ".join(QUESTION[1:])])
        == {}
    )


@pytest.mark.parametrize("length", range(3, 70))
def test_a_text_with_one_edit_has_an_ngram_left(length):
    size = int(gram_size(np.int64(length)))
    if length >= 8:
        assert (length - 1 + 1) // 2 >= size
    assert 3 <= size <= min(5, length)
