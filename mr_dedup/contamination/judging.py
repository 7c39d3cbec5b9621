"""Which items a document is contaminated by: the rules on questions, passages and answers."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import Field, ItemIndex
from mr_dedup.contamination.matching import TextMatch


class Verdict(Enum):
    """Why a document counts as contaminated by an item, or does not; the strongest reason first."""

    QUESTION_AND_ANSWER = "question_and_answer"
    QUESTION = "question"
    NEAR_QUESTION_AND_ANSWER = "near_question_and_answer"
    NEAR_QUESTION = "near_question"
    PASSAGE = "passage"
    NEAR_PASSAGE = "near_passage"
    PASSAGE_ALONE = "passage_alone"
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


_Answers = tuple[list[int], list[NDArray[np.uint64]]]
"""Where answers of an item begin in a document, ascending, and the tokens of all of them."""


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
        strongest: Verdict | None = None
        for each in found:
            verdict = self._verdict(item, each, (starts, answers), hashes)
            if strongest is None or _ORDER[verdict] < _ORDER[strongest]:
                strongest = verdict
            if _ORDER[strongest] == min(_ORDER.values()):
                break
        assert strongest is not None
        return strongest

    def _verdict(
        self, item: int, found: FieldMatch, answers: _Answers, hashes: NDArray[np.uint64]
    ) -> Verdict:
        """Return what one of the texts of an item in a document means by itself."""
        match, options = found.match, self._options
        if found.field == Field.ANSWER:
            return Verdict.ANSWER_ALONE
        if found.field == Field.PASSAGE and not self._index.by_passage[item]:
            if options.passages != "alone":
                return Verdict.PASSAGE_ALONE
            if match.is_exact:
                return Verdict.PASSAGE
            if match.coverage < options.min_coverage:
                return Verdict.LOW_COVERAGE
            is_short = self._lengths[match.text] < options.sure_tokens
            return Verdict.SHORT_WITHOUT_ANSWER if is_short else Verdict.NEAR_PASSAGE
        has_answer = self._follows(answers, match, hashes)
        if match.is_exact:
            return Verdict.QUESTION_AND_ANSWER if has_answer else Verdict.QUESTION
        if self._lengths[match.text] < options.sure_tokens:
            if match.coverage < options.min_coverage:
                return Verdict.LOW_COVERAGE
            if not has_answer:
                return Verdict.SHORT_WITHOUT_ANSWER
        needed = options.with_answer if has_answer else options.min_coverage
        if match.coverage < needed:
            return Verdict.LOW_COVERAGE
        return Verdict.NEAR_QUESTION_AND_ANSWER if has_answer else Verdict.NEAR_QUESTION

    def _answers(self, item: int) -> list[int]:
        index = self._index
        answers: list[int] = index.answers[
            index.answer_starts[item] : index.answer_starts[item + 1]
        ].tolist()
        return answers

    def _follows(self, answers: _Answers, question: TextMatch, hashes: NDArray[np.uint64]) -> bool:
        """Return whether one of the answers begins within the window after a question."""
        window = self._options.answer_window
        starts, texts = answers
        next_start = bisect.bisect_left(starts, question.stop)
        if next_start < len(starts) and starts[next_start] <= question.stop + window:
            return bool(texts)
        after = hashes[question.stop :]
        return any(_begins_within(after, text, window) for text in texts)

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
