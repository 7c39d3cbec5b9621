"""Items, and what is found of them in documents, for tests."""

import pyarrow as pa

from mr_dedup.contamination.item_index import ItemIndex
from mr_dedup.contamination.judging import Judge
from mr_dedup.contamination.matching import Matcher
from mr_dedup.contamination.options import MatchOptions
from mr_dedup.features.token_spans import token_spans
from mr_dedup.formats.benchmark_items import ITEMS


def item(question=None, passage=None, answers=(), id=None, set="exam"):
    return {"question": question, "passage": passage, "answers": list(answers), "item": id,
            "set": set}  # fmt: skip


def table_of(items):
    """A table of ITEMS; ids are numbers."""
    rows = [
        {**each, "item": each["item"] or str(row), "file": "exam.jsonl", "position": row}
        for row, each in enumerate(items)
    ]
    return pa.Table.from_pylist(rows, ITEMS)


def index_of(items, **options):
    return ItemIndex.build(table_of(items), MatchOptions(**options))


def spans_of(texts):
    return token_spans(pa.array(texts, pa.large_string()))


def found_in(index, texts, **settings):
    """The matches of each text, by its number."""
    return dict(Matcher(index, **settings).find(spans_of(texts)))


def judged(items, text, **options):
    """The verdict on each item, by its row, of one document."""
    index = index_of(items, **options)
    spans = spans_of([text])
    matches = dict(Matcher(index).find(spans)).get(0, [])
    return {
        each.item: each.verdict.value for each in Judge(index).judgements(spans.hashes, matches)
    }
