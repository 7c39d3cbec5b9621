"""How items are matched, and when a document counts as contaminated."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from mr_dedup.contamination.kernels import MIN_GRAM

Passages = Literal["alone", "with-question", "ignore"]
PASSAGES: tuple[Passages, ...] = get_args(Passages)


class MatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When a document counts as containing an item.

    Raises ValueError for a value out of range.

    Attributes:
        min_coverage: The smallest share of the weight of a question or passage.
        with_answer: The same of a question whose answer follows.
        max_edits: The largest number of deleted and changed tokens, and of runs of inserted ones,
            as a share of the tokens of the text.
        min_tokens: Texts of fewer tokens are not judged.
        near_tokens: Texts of fewer tokens count only where all of it is there, with an answer.
        sure_tokens: Of texts of fewer tokens, not all of which is there, more must be there.
        answer_window: Within how many tokens after a question an answer follows.
        passages: Whether a passage counts without its question.
    """

    min_coverage: float = 0.8
    with_answer: float = 0.7
    max_edits: float = 0.3
    min_tokens: int = 5
    near_tokens: int = 8
    sure_tokens: int = 16
    answer_window: int = 50
    passages: Passages = "with-question"

    def __post_init__(self) -> None:
        for name in ("min_coverage", "with_answer"):
            value = getattr(self, name)
            if not 0.5 <= value <= 1:
                raise ValueError(f"{name}: expected 0.5 to 1, got {value}")
        if self.with_answer > self.min_coverage:
            raise ValueError(
                f"with_answer: expected at most min_coverage, {self.min_coverage:g}, "
                f"got {self.with_answer:g}"
            )
        if not 0 <= self.max_edits <= 0.5:
            raise ValueError(f"max_edits: expected 0 to 0.5, got {self.max_edits}")
        if not MIN_GRAM <= self.min_tokens <= 1000:
            raise ValueError(f"min_tokens: expected {MIN_GRAM} to 1000, got {self.min_tokens}")
        if not 0 <= self.answer_window <= 10_000:
            raise ValueError(f"answer_window: expected 0 to 10000, got {self.answer_window}")
        if self.passages not in PASSAGES:
            raise ValueError(f"passages: expected one of {PASSAGES}, got {self.passages!r}")
