"""Clusters whose texts are many megabytes are decided as small ones are."""

import itertools
import json
import random

import pyarrow.parquet as pq

from tests.cli.documents import KEPT, write_jsonl
from tests.cli.test_dedup import done


def test_a_large_cluster_of_variants_is_decided_whole(capfd, tmp_path):
    """70 MB of variants of one page: no two of those that are kept are similar."""
    rng = random.Random(8)
    pages = []
    for _ in range(700):
        page = list(range(200))
        for place in rng.sample(page, rng.randrange(3, 10)):
            page[place] = rng.randrange(200, 30_000)
        pages.append(page)
    texts = (" ".join(f"{number:05}" * 100 for number in page) for page in pages)
    documents = [{"id": str(row), "text": text} for row, text in enumerate(texts)]
    file = write_jsonl(tmp_path / "pages.jsonl", documents)
    done(capfd, file, "-o", tmp_path / "out", "--verify", 0.8)
    reasons = pq.read_table(tmp_path / "out" / "decisions")["reason"].to_pylist()
    kept = [page for page, reason in zip(pages, reasons, strict=True) if reason in KEPT]
    sets = [set(zip(page, page[1:], page[2:], strict=False)) for page in kept]
    assert 100 < len(sets) < 600
    assert max(len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)) < 0.8
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["clusters_split"] == 0
