"""The report of a decontamination: what was found of each test set, and examples with their items.

A page as that of a de-duplication: it loads nothing, and has no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from mr_dedup.contamination.judging import Verdict
from mr_dedup.contamination.options import MatchOptions
from mr_dedup.pipeline.decontamination import Example, SetCounts
from mr_dedup.report.data import made_now
from mr_dedup.report.differences import Run, compare
from mr_dedup.report.html import template

_MAX_SETS = 50
"""Sets of which examples are shown."""

PHRASES = {
    Verdict.QUESTION_AND_ANSWER: "has the question and its answer",
    Verdict.QUESTION: "has the question",
    Verdict.NEAR_QUESTION_AND_ANSWER: "has nearly the question, and its answer",
    Verdict.NEAR_QUESTION: "has nearly the question",
    Verdict.PASSAGE: "has the passage",
    Verdict.NEAR_PASSAGE: "has nearly the passage",
    Verdict.PASSAGE_ALONE: "has the passage without the question",
    Verdict.QUESTION_ALONE: "has the question without its passage",
    Verdict.STEM_ALONE: "has what other questions have too",
    Verdict.SHORT_WITHOUT_ANSWER: "has a short text, without its answer",
    Verdict.LOW_COVERAGE: "has too little of the item",
    Verdict.ANSWER_ALONE: "has the answer alone",
}
"""What a document has of an item, by verdict."""


@dataclass(frozen=True)
class Contamination:
    """What a report shows.

    Attributes:
        named: What ``documents`` and ``evals`` the run read.
        summary: Its counts, as ``summary.json`` has them.
        options: How items were matched.
        sets: The sets, those of most documents first, each with examples.
    """

    named: dict[str, str]
    summary: dict[str, Any]
    options: MatchOptions
    sets: Sequence[tuple[SetCounts, Sequence[Example]]]


class _Shown(NamedTuple):
    """An example, why it counts or does not, and the differences from its item."""

    example: Example
    phrase: str
    runs: Sequence[Run]


def write_contamination_report(file: BinaryIO, data: Contamination) -> None:
    """Write the report as an HTML page, in UTF-8.

    Equal data make equal bytes but for the time. Texts of documents and items are untrusted: they
    are escaped, and the page forbids scripts and all external resources. Takes some milliseconds
    and up to 16 KB for each example.

    Args:
        file: Where to write the page.
        data: What it shows.
    """
    shown = [(counts, [_shown(each) for each in examples]) for counts, examples in data.sets]
    verdicts = data.summary["verdicts"]
    page = template("decontamination.html").stream(
        data=data,
        counts=data.summary,
        sets=data.sets,
        shown=[each for each in shown[:_MAX_SETS] if each[1]],
        verdicts=[
            (PHRASES[each], each.is_contaminated, verdicts[each.value])
            for each in Verdict
            if verdicts.get(each.value)
        ],
        made=made_now(),
    )
    page.dump(file, "utf-8")


def _shown(example: Example) -> _Shown:
    runs = compare(example.text, example.item_text).runs
    return _Shown(example, PHRASES[Verdict(example.verdict)], runs)
