"""Which items a document is contaminated by: the rules on questions, passages and answers."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.contamination.evidence import Evidence, evidence_of
from mr_dedup.contamination.item_index import Field, ItemIndex
from mr_dedup.contamination.matching import TextMatch

_WITH_ANSWER = Evidence(0.3, 0.7, 0.5)
_WITHOUT_ANSWER = Evidence(0.4, 0.75, 0.6)
_SHORT_WITHOUT_ANSWER = Evidence(0.4, 0.8, 0.8)
"""What of a question must be there, besides its coverage: with its answer, without, and of a short
one without. Of 1,489 questions of MMLU's validation set that are not in its test set, 130 counted
without these conditions, 21 with them."""


class Verdict(Enum):
    """Why a document counts as contaminated by an item, or does not; the strongest reason first."""

    QUESTION_AND_ANSWER = "question_and_answer"
    QUESTION = "question"
    NEAR_QUESTION_AND_ANSWER = "near_question_and_answer"
    NEAR_QUESTION = "near_question"
    PASSAGE = "passage"
    NEAR_PASSAGE = "near_passage"
    PASSAGE_ALONE = "passage_alone"
    QUESTION_ALONE = "question_alone"
    STEM_ALONE = "stem_alone"
    SHORT_WITHOUT_ANSWER = "short_without_answer"
    LOW_COVERAGE = "low_coverage"
    ANSWER_ALONE = "answer_alone"

    @property
    def is_contaminated(self) -> bool:
        """Whether the document counts as contaminated."""
        return _ORDER[self] <= _ORDER[Verdict.NEAR_PASSAGE]


_ORDER = {verdict: number for number, verdict in enumerate(Verdict)}


class FieldMatch(NamedTuple):
    """A text of an item in a document; of several answers the one with a number."""

    field: Field
    match: TextMatch
    answer: int = 0


class Judgement(NamedTuple):
    """What a document has of an item.

    Attributes:
        item: The row of the item.
        verdict: Whether that counts, and why.
        found: The texts that were found, in their order in the document.
    """

    item: int
    verdict: Verdict
    found: list[FieldMatch]

    @property
    def is_exact(self) -> bool:
        """Whether a question or passage is there as it is."""
        return any(each.match.is_exact and each.field != Field.ANSWER for each in self.found)

    @property
    def coverage(self) -> float:
        """The largest coverage of a question or passage, else of an answer."""
        decisive = [each for each in self.found if each.field != Field.ANSWER] or self.found
        return max(each.match.coverage for each in decisive)


class _OfItem(NamedTuple):
    """What is known of an item in a document.

    Attributes:
        hashes: uint64[m], the tokens of the document.
        answer_starts: Where its long answers begin, ascending.
        answers: The tokens of its answers.
        needs_passage: Whether it has a passage besides a question.
        has_passage: Whether the document has that.
    """

    hashes: NDArray[np.uint64]
    answer_starts: list[int]
    answers: list[NDArray[np.uint64]]
    needs_passage: bool
    has_passage: bool


class Judge:
    """Applies the rules to what a ``Matcher`` has found."""

    def __init__(self, index: ItemIndex) -> None:
        self._index = index
        self._options = index.options
        self._lengths = index.lengths
        table = index.table
        used = table.word_ids > 0
        words = np.empty(table.word_weights.size, np.uint64)
        words[table.word_ids[used]] = table.word_keys[used]
        self._words = words

    def judgements(
        self, hashes: NDArray[np.uint64], matches: Sequence[TextMatch]
    ) -> Iterator[Judgement]:
        """Yield what a document has of each item, ascending by item.

        Args:
            hashes: uint64[m], the tokens of the document.
            matches: The texts in it.
        """
        uses = self._index.uses
        of_item: dict[int, list[FieldMatch]] = {}
        numbers: dict[int, dict[int, int]] = {}
        for match in matches:
            these = slice(uses.starts[match.text], uses.starts[match.text + 1])
            for item, field in zip(
                uses.items[these].tolist(), uses.fields[these].tolist(), strict=True
            ):
                answer = 0
                if field == Field.ANSWER:
                    if item not in numbers:
                        answers = [*enumerate(self._answers(item))]
                        # of an answer that is repeated the first
                        numbers[item] = {text: number for number, text in reversed(answers)}
                    answer = numbers[item][match.text]
                of_item.setdefault(item, []).append(FieldMatch(Field(field), match, answer))
        for item, found in sorted(of_item.items()):
            found.sort(key=lambda each: (each.match.start, each.field, each.match.stop))
            yield Judgement(item, self._strongest(item, found, hashes), found)

    def _strongest(
        self, item: int, found: Sequence[FieldMatch], hashes: NDArray[np.uint64]
    ) -> Verdict:
        """Return the strongest verdict on the texts of an item in a document, by their starts."""
        # linear in the matches: a document may repeat a question a million times
        starts = [each.match.start for each in found if each.field == Field.ANSWER]
        answers = [self._hashes_of(text) for text in self._answers(item) if text >= 0]
        has_passage = any(
            each.field == Field.PASSAGE for each in found if not self._index.by_passage[item]
        )
        of_item = _OfItem(hashes, starts, answers, bool(self._index.has_passage[item]), has_passage)
        strongest: Verdict | None = None
        for each in found:
            verdict = self._verdict(item, each, of_item)
            if strongest is None or _ORDER[verdict] < _ORDER[strongest]:
                strongest = verdict
            if _ORDER[strongest] == min(_ORDER.values()):
                break
        assert strongest is not None
        return strongest

    def _verdict(self, item: int, found: FieldMatch, of_item: _OfItem) -> Verdict:
        """Return what one of the texts of an item in a document means by itself."""
        match, options = found.match, self._options
        if found.field == Field.ANSWER:
            return Verdict.ANSWER_ALONE
        if found.field == Field.PASSAGE and not self._index.by_passage[item]:
            if options.passages != "alone":
                return Verdict.PASSAGE_ALONE
            return self._whole_or_near(match, Verdict.PASSAGE, Verdict.NEAR_PASSAGE)
        answer = self._answer_after(match, of_item)
        if found.field == Field.PASSAGE:
            return self._of_passage(item, match, of_item, answer > 0)
        length = self._lengths[match.text]
        if match.is_exact and answer:
            return Verdict.QUESTION_AND_ANSWER
        is_long = length >= options.sure_tokens and not of_item.needs_passage
        if match.is_exact and (of_item.has_passage or is_long):
            return Verdict.QUESTION
        if length < options.sure_tokens and match.coverage < options.min_coverage:
            return Verdict.LOW_COVERAGE
        if length < options.near_tokens and not answer:
            return Verdict.SHORT_WITHOUT_ANSWER
        if match.coverage < (options.with_answer if answer else options.min_coverage):
            return Verdict.LOW_COVERAGE
        if answer < options.near_tokens:
            verdict = self._not_of_question(match, of_item, answer > 0)
            if verdict is not None:
                return verdict
        if match.is_exact:
            return Verdict.QUESTION
        return Verdict.NEAR_QUESTION_AND_ANSWER if answer else Verdict.NEAR_QUESTION

    def _not_of_question(
        self, match: TextMatch, of_item: _OfItem, has_answer: bool
    ) -> Verdict | None:
        """Return why most of a question may be of another one; None if it is of this one."""
        table, text = self._index.table, match.text
        piece = slice(int(table.starts[text]), int(table.starts[text + 1]))
        evidence = evidence_of(
            self._words[table.tokens[piece]],
            self._index.is_own[piece] > 0,
            int(self._index.last_sentences[text]),
            of_item.hashes[match.start : match.stop],
        )
        is_long = self._lengths[text] >= self._options.sure_tokens
        needed = _WITHOUT_ANSWER if is_long or of_item.has_passage else _SHORT_WITHOUT_ANSWER
        needed = _WITH_ANSWER if has_answer else needed
        if not evidence.is_enough(needed):
            is_one_sentence = self._index.last_sentences[text] == 0
            if is_one_sentence or evidence.last_sentence >= needed.last_sentence:
                return Verdict.STEM_ALONE
            return Verdict.PASSAGE_ALONE
        needs_passage = of_item.needs_passage and not (has_answer or of_item.has_passage)
        return (
            Verdict.QUESTION_ALONE if needs_passage and not (match.is_exact and is_long) else None
        )

    def _of_passage(
        self, item: int, match: TextMatch, of_item: _OfItem, has_answer: bool
    ) -> Verdict:
        """Return what a passage means that is judged in place of a question that is too short."""
        question = int(self._index.short_questions[item])
        if question >= 0 and not has_answer and self._options.passages != "alone":
            window, wanted = self._options.answer_window, self._hashes_of(question)
            before = of_item.hashes[max(0, match.start - window - wanted.size) : match.start]
            after = of_item.hashes[match.stop :]
            if not any(_begins_within(each, wanted, window) for each in (before, after)):
                return Verdict.PASSAGE_ALONE
        if has_answer:
            return self._whole_or_near(
                match, Verdict.QUESTION_AND_ANSWER, Verdict.NEAR_QUESTION_AND_ANSWER
            )
        return self._whole_or_near(match, Verdict.QUESTION, Verdict.NEAR_QUESTION)

    def _whole_or_near(self, match: TextMatch, whole: Verdict, near: Verdict) -> Verdict:
        """Return what a passage means by itself."""
        if match.is_exact:
            return whole
        if match.coverage < self._options.min_coverage:
            return Verdict.LOW_COVERAGE
        is_short = self._lengths[match.text] < self._options.sure_tokens
        return Verdict.SHORT_WITHOUT_ANSWER if is_short else near

    def _answers(self, item: int) -> list[int]:
        index = self._index
        answers: list[int] = index.answers[
            index.answer_starts[item] : index.answer_starts[item + 1]
        ].tolist()
        return answers

    def _answer_after(self, question: TextMatch, of_item: _OfItem) -> int:
        """Return the tokens of the longest answer that begins in the window after a question."""
        window = self._options.answer_window
        # the last words of a question may be matched within its answer, which is then in between
        first = question.start + 1 if question.inserted else question.stop
        next_start = bisect.bisect_left(of_item.answer_starts, first)
        next_starts = of_item.answer_starts[next_start : next_start + 1]
        if of_item.answers and next_starts and next_starts[0] <= question.stop + window:
            # only answers of so many tokens are looked for
            return self._options.near_tokens
        after = of_item.hashes[question.stop :]
        return max(
            (text.size for text in of_item.answers if _begins_within(after, text, window)),
            default=0,
        )

    def _hashes_of(self, text: int) -> NDArray[np.uint64]:
        table = self._index.table
        return self._words[table.tokens[int(table.starts[text]) : int(table.starts[text + 1])]]


def _begins_within(hashes: NDArray[np.uint64], wanted: NDArray[np.uint64], window: int) -> bool:
    """Return whether ``wanted`` begins at one of the first tokens, the one after ``window`` too."""
    last = min(window, hashes.size - wanted.size)
    if last < 0:
        return False
    begins = np.flatnonzero(hashes[: last + 1] == wanted[0]).tolist()
    return any(np.array_equal(hashes[at : at + wanted.size], wanted) for at in begins)
