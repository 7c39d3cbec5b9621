"""The measurement of quality, on a small set whose near-duplicates were planted."""

import gzip
import itertools
import json

import numpy as np
import pytest

from bench import quality
from mr_dedup.features.options import FeatureOptions
from mr_dedup.fingerprints.simhash import simhash


@pytest.fixture
def document_set(tmp_path):
    """Eight families of a page, a near copy and a far one, and a document without words."""
    rng = np.random.default_rng(3)
    folder = tmp_path / "planted"
    folder.mkdir()
    documents, pairs = [], []
    for family in range(8):
        words = [f"w{n}" for n in rng.integers(0, 4000, 300)]
        texts = [words, [*words[:298], "other", "end"], [f"v{n}" for n in range(family, 90)]]
        documents += [
            {"id": f"{family}-{i}", "text": " ".join(text)} for i, text in enumerate(texts)
        ]
        pairs.append((f"{family}-0", f"{family}-1", 0.97))
    documents.append({"id": "empty", "text": "…"})
    with gzip.open(folder / "docs.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)
    with gzip.open(folder / "pairs.tsv.gz", "wt") as file:
        file.write("id_a\tid_b\tjaccard\n")
        file.writelines(f"{b}\t{a}\t{similarity}\n" for a, b, similarity in pairs)
    return quality.DocumentSet.read(folder), folder


def test_recall_and_precision_equal_an_oracle(document_set):
    documents, _ = document_set
    options = FeatureOptions("words", 1, "log-tf")
    values = simhash(documents.texts, options).values.tolist()
    n = len(values)
    truth = {divmod(int(pair), n) for pair in documents.pairs}
    found = quality.measure(documents, options, seeds=1, rows=5)
    for k in range(quality.MAX_BITS + 1):
        near = {
            (i, j)
            for i, j in itertools.combinations(range(n - 1), 2)
            if (values[i] ^ values[j]).bit_count() <= k
        }
        assert found.recall_8[k] == found.recall_9[k] == len(near & truth) / len(truth)
        assert found.precision[k] == (len(near & truth) / len(near) if near else 1)


def test_the_tables_are_printed(document_set, capsys):
    _, folder = document_set
    assert quality.main([str(folder)], features=["words:2"], seeds=2) == 0
    printed = capsys.readouterr().out
    assert "### planted\n25 documents, 8 pairs at 0.8 and above, 8 at 0.9." in printed
    assert printed.count("| words:2, log-tf |") == 1
    assert "| 0 to 29 |" in printed
    assert "| 300 to 999 |" in printed
