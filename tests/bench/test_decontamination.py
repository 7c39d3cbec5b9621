"""The kinds of edits that items are planted with, and the judgement of labelled documents."""

import json
import random

import pytest

from bench.decontamination import KINDS, find_unseen, judge_fixtures, plant_and_find
from tests.cli.documents import write_jsonl

ITEM = [f"word{number}" for number in range(30)]
PAGE = [f"page{number}" for number in range(40)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_item_leaves_the_page_as_it_is(kind):
    words = KINDS[kind](PAGE, ITEM, ["42"], random.Random(3))
    assert [word for word in words if word.startswith("page")] == PAGE
    assert words.count("42") == 1
    planted = [word for word in words if word.lower().strip(".,-!* ").startswith("word")]
    planted += [word for word in words if word.startswith("wor-")]
    missing = len(ITEM) - len(planted)
    edited = {"a word deleted": 1, "a word changed": 1, "three words changed": 3}
    cut = {"the first nine tenths": 3, "the last nine tenths": 3}
    assert missing == {**edited, **cut}.get(kind, 0)


def test_labelled_documents_are_judged(tmp_path, capsys):
    for name in ("training", "reference"):
        (tmp_path / name).mkdir()
    item = {"doc_id": 1, "question": " ".join(ITEM)}
    write_jsonl(tmp_path / "reference" / "exam.jsonl", [item])
    write_jsonl(tmp_path / "training" / "contaminated_a.jsonl", [{"text": " ".join(ITEM)}])
    write_jsonl(tmp_path / "training" / "clean.jsonl", [{"text": " ".join(PAGE)}])
    judge_fixtures(tmp_path)
    said = capsys.readouterr().out
    assert "right  contaminated_a.jsonl 0: contaminated  question of 1: question exact 1.00" in said
    assert said.endswith("\nwrong: 0\n")


def test_planted_items_are_found(tmp_path, capsys):
    draw = random.Random(1)
    items = [
        {
            "doc_id": str(number),
            "answer": "so many",
            "question": " ".join(f"w{draw.randrange(900)}" for _ in range(40)),
        }
        for number in range(5)
    ]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in items))
    (tmp_path / "work").mkdir()
    plant_and_find(path, 260, tmp_path / "work", None)
    said = capsys.readouterr().out
    assert said.count("| 2 | 2 | 1.0000 |") == len(KINDS)
    assert "false alarms: 0 of 234 pages without an item" in said


def test_unseen_items_are_not_found(capsys):
    draw = random.Random(1)

    def items(count, passage=""):
        return [
            (passage, " ".join(f"w{draw.randrange(900)}" for _ in range(20)), "so many")
            for _ in range(count)
        ]

    passage = " ".join(f"p{number}" for number in range(60))
    ours = [*items(3, passage), *items(3)]
    find_unseen(ours, [*items(5, passage), *items(5), ours[0]])
    said = capsys.readouterr().out
    assert "6 items, 10 unseen" in said
    assert "| unseen | 0 of 10 | 0 of 10 |" in said
    assert "| whole, anywhere | 6 of 6 | 6 of 6 |" in said
    assert "| 18 words in it | 6 of 6 | 6 of 6 |" in said
