"""The rules: what of an item makes a document contaminated."""

import sys

import pytest

from mr_dedup.contamination import judging
from mr_dedup.contamination.item_index import REASONS
from mr_dedup.contamination.judging import Verdict
from tests.contamination.items import index_of, item, judged

QUESTION = (
    "A farmer who sells wool has nineteen sheep and buys four more on Friday how many sheep does "
    "the farmer have"
)
WORDS = QUESTION.split()
NEAR = " ".join([*WORDS[:8], "goats", *WORDS[9:]])
HALF = " ".join(WORDS[:11])
MOST = " ".join(WORDS[:-5])
PASSAGE = (
    "The wool market of the old harbour opens at seven each Friday and closes when the last bale "
    "is sold to a trader"
)
SHORT = "How many sheep does the farmer have now"
"""Eight tokens."""
FEW = " ".join(SHORT.split()[:7])
"""Seven: they count only as a whole, and with the answer."""


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (QUESTION, "question"),
        (f"{QUESTION}? 23, of course.", "question_and_answer"),
        (f"{QUESTION}? {'so ' * 50} 23", "question_and_answer"),
        (f"{QUESTION}? {'so ' * 51} 23", "question"),
        (f"23. {QUESTION}", "question"),
        (f"{QUESTION}? 230", "question"),
        (NEAR, "near_question"),
        (f"{NEAR}: 23", "near_question_and_answer"),
        (MOST, "low_coverage"),
        (f"{MOST} 23", "near_question_and_answer"),
        (f"{HALF} 23", None),
        ("23", None),
        ("", None),
    ],
)
def test_a_question_with_a_short_answer(text, verdict):
    assert judged([item(QUESTION, answers=["23"])], text) == ({0: verdict} if verdict else {})


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (SHORT, "question"),
        (SHORT.replace("sheep", "goats"), "near_question"),
        (SHORT.replace("sheep", "goats").replace("many", "few"), "low_coverage"),
        (f"{SHORT.replace('sheep', 'goats')}? He has 23.", "near_question_and_answer"),
        ("How many sheep are there now", None),
    ],
)
def test_a_question_of_eight_tokens(text, verdict):
    assert judged([item(SHORT, answers=["23"])], text) == ({0: verdict} if verdict else {})


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"{FEW}? He has 23.", "question_and_answer"),
        (FEW, "short_without_answer"),
        (f"{FEW}? {'so ' * 51} 23", "short_without_answer"),
        (f"{FEW.replace('sheep', 'goats')}? 23", None),
    ],
)
def test_a_question_of_fewer_tokens_counts_only_with_its_answer(text, verdict):
    assert judged([item(FEW, answers=["23"])], text) == ({0: verdict} if verdict else {})


STEM = "Which of the following is the most likely cause of"
CAUSES = ["the disease of the farmer", "the decline of the harbour market", "the disease"]


def test_what_questions_share_does_not_count():
    items = [item(f"{STEM} {cause}", answers=["wool"]) for cause in CAUSES]
    # the third has no three words in a row that no other has
    assert judged(items, f"{STEM} the disease?") == {2: "stem_alone"}
    assert judged(items, f"{STEM} the disease? Wool.") == {2: "question_and_answer"}
    assert judged(items, f"{STEM} the decline of the harbour market?")[1] == "question"
    assert judged(items, f"{STEM} the decline of the harbour bridges?")[1] == "near_question"
    found = judged(items, f"{STEM} the decline of the old town?")
    assert not any(Verdict(verdict).is_contaminated for verdict in found.values())


OTHER = "Who was the first trader that bought a bale in the new year?"


@pytest.mark.parametrize("mark", [".", "!", "?", "\n", "。"])
def test_another_question_on_the_passage_of_a_question_does_not_count(mark):
    passage = f"{PASSAGE}, {PASSAGE.replace('wool', 'fish')}, {PASSAGE.replace('wool', 'corn')}"
    items = [item(f"{passage}{mark} At which hour does the market open?", answers=["seven"])]
    assert judged(items, f"{passage}{mark} At which hour does the market open?") == {0: "question"}
    assert judged(items, f"{passage}. {OTHER}") == {0: "passage_alone"}
    assert judged(items, f"{passage}. At which hour does that market open?") == {0: "near_question"}


def test_a_long_answer_is_enough_evidence():
    items = [item(f"{PASSAGE}. {PASSAGE}. What is it?", answers=[LONG])]
    assert judged(items, f"{PASSAGE}. {PASSAGE}. {LONG}") == {0: "near_question_and_answer"}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (SHORT, "question_alone"),
        (f"{SHORT}? 23", "question_and_answer"),
        (f"{PASSAGE}. {SHORT}", "question"),
        (f"{SHORT}? {PASSAGE}", "question"),
        (f"{PASSAGE.replace('seven', 'nine')}. {SHORT.replace('sheep', 'goats')}", "near_question"),
        (f"{PASSAGE}. {OTHER}", "passage_alone"),
    ],
)
def test_a_question_on_a_passage_counts_with_it_or_with_the_answer(text, verdict):
    assert judged([item(SHORT, PASSAGE, answers=["23"])], text) == {0: verdict}


def test_a_question_of_sixteen_tokens_counts_without_its_passage():
    assert judged([item(QUESTION, PASSAGE)], QUESTION) == {0: "question"}
    assert judged([item(QUESTION, PASSAGE)], NEAR) == {0: "question_alone"}


LONG = "He had nineteen sheep and bought four so that the farmer now has twenty three sheep"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"{QUESTION} {LONG}", "question_and_answer"),
        (f"{QUESTION} {LONG.replace('bought', 'got')}", "question_and_answer"),
        (f"{LONG} {QUESTION}", "question"),
        (f"So: {LONG}", "answer_alone"),
    ],
)
def test_a_long_answer_may_be_near_and_alone_does_not_count(text, verdict):
    assert judged([item(QUESTION, answers=[LONG])], text) == {0: verdict}
    assert Verdict(verdict).is_contaminated == (verdict != "answer_alone")


def test_any_of_several_answers_counts():
    items = [item(QUESTION, answers=["twenty three", "23", ""])]
    assert judged(items, f"{QUESTION} 23") == {0: "question_and_answer"}
    assert judged(items, f"{QUESTION} Twenty-three!") == {0: "question_and_answer"}
    assert judged(items, f"{QUESTION} twenty") == {0: "question"}


@pytest.mark.parametrize(
    ("passages", "text", "verdict"),
    [
        ("alone", PASSAGE, "passage"),
        ("alone", PASSAGE.replace("seven", "nine"), "near_passage"),
        ("alone", " ".join(PASSAGE.split()[:-5]), "low_coverage"),
        ("alone", f"{PASSAGE}. {QUESTION}", "question"),
        ("with-question", PASSAGE, "passage_alone"),
        ("with-question", f"{PASSAGE}. {QUESTION}", "question"),
        ("ignore", PASSAGE, None),
        ("ignore", f"{PASSAGE}. {QUESTION}", "question"),
    ],
)
def test_passages(passages, text, verdict):
    found = judged([item(QUESTION, PASSAGE)], text, passages=passages)
    assert found == ({0: verdict} if verdict else {})


@pytest.mark.parametrize("passages", ["alone", "with-question", "ignore"])
@pytest.mark.parametrize("question", [None, "", "Why?", "..."])
def test_a_passage_is_judged_in_place_of_a_question_that_is_too_short(passages, question):
    items = [item(question, PASSAGE, answers=["wool"])]
    needs_question = question == "Why?" and passages != "alone"
    alone = {0: "passage_alone" if needs_question else "question"}
    assert judged(items, PASSAGE, passages=passages) == alone
    assert judged(items, f"{PASSAGE}. Who knows why?", passages=passages) == {0: "question"}
    assert judged(items, f"Why? {'so ' * 50}{PASSAGE}", passages=passages) == {0: "question"}
    assert judged(items, f"Why? {'so ' * 51}{PASSAGE}", passages=passages) == alone
    assert judged(items, f"{PASSAGE}. Wool!", passages=passages) == {0: "question_and_answer"}


def test_items_that_cannot_be_judged_have_a_reason():
    items = [
        item(QUESTION), item("Why is that?"), item(None, None), item("", "..."),
        item("?", "Yes, so."), item(QUESTION.upper() + "!!"), item(QUESTION, answers=["23"]),
    ]  # fmt: skip
    index = index_of(items)
    assert index.reasons.tolist() == [0, 1, 2, 2, 1, 3, 0]
    assert index.same_as.tolist() == [0, 1, 2, 3, 4, 0, 6]
    assert judged(items, QUESTION) == {0: "question", 6: "question"}


def test_items_of_two_sets_are_judged_each():
    items = [item(QUESTION), item(QUESTION, set="other")]
    assert judged(items, QUESTION) == {0: "question", 1: "question"}


def test_a_text_of_more_than_a_million_tokens_is_not_judged():
    index = index_of([item("no " * ((1 << 20) + 1)), item(QUESTION, "no " * ((1 << 20) + 1))])
    assert [REASONS[reason] for reason in index.reasons] == ["too_long", "too_long"]


def test_the_smallest_number_of_tokens_is_an_option():
    items = [item("Why is that?", answers=["wool"])]
    assert judged(items, "so why is that? Wool.", min_tokens=3) == {0: "question_and_answer"}
    assert judged(items, "so why is that? Wool.") == {}
    assert judged([item(SHORT)], SHORT, min_tokens=20) == {}


def test_rare_words_weigh_more_than_those_of_all_items():
    start = "Which of the following is right about the"
    items = [
        item(f"{start} {rare}")
        for rare in (
            "photosynthesis chlorophyll spinach harvest moonlight pigment leaves stomata",
            "tectonic basalt mantle subduction crust magma ridge trench",
            "sonnet iambic quatrain couplet metre rhyme volta stanza",
        )
    ]
    rare = items[0]["question"].split()[8:]
    # of sixteen words four are missing
    assert judged(items, " ".join([*start.split(), *rare[:4]])) == {}
    assert judged(items, " ".join([*start.split()[4:], *rare])) == {0: "near_question"}
    index = index_of(items)
    weights = index.table.word_weights[index.table.tokens[:16]]
    assert set(weights[:8].tolist()) == {16}
    assert set(weights[8:].tolist()) == {64}


def test_two_items_of_one_question_are_judged_by_their_own_answers():
    items = [item(QUESTION, answers=["23"]), item(QUESTION, answers=["24"])]
    assert judged(items, f"{QUESTION} 24") == {0: "question", 1: "question_and_answer"}


def lines_run(function):
    """Return how many lines of the module of rules ``function`` runs."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "line"
        return seen if frame.f_code.co_filename == judging.__file__ else None

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("answer", ["word", "else", "word " * 7])
def test_an_item_of_one_word_takes_linear_work(answer):
    items = [item("word " * 30, answers=[answer]), item("word " * 40, answers=[answer])]
    few, many = (
        lines_run(lambda times=times: judged(items, "word " * times)) for times in (6_000, 24_000)
    )
    assert many < 5 * few


@pytest.mark.parametrize(
    "options",
    [
        {"min_coverage": 0.4}, {"min_coverage": 1.1}, {"with_answer": 0.9}, {"max_edits": 0.6},
        {"min_tokens": 2}, {"answer_window": -1}, {"passages": "no"},
    ],
)  # fmt: skip
def test_options_out_of_range(options):
    with pytest.raises(ValueError, match=rf"^{next(iter(options))}: expected"):
        index_of([item(QUESTION)], **options)
