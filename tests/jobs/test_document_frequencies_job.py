"""The document frequencies job by engines, and what its tasks yield."""

import json
from functools import partial

import pytest

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming import staging_folder
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.features import feature_counts
from mr_dedup.jobs import document_frequencies
from mr_dedup.jobs.document_frequencies import (
    DOCUMENTS,
    DocumentFrequenciesJob,
    counts_in,
)
from mr_dedup.jobs.reading import is_rejects, reject_lines
from tests.features import frequency_oracle

TEXTS = ["one page of a few words", "另一个网页", "", "page one, once more: words", None]


@pytest.fixture
def folder(tmp_path):
    """Three files of documents, some of them bad."""
    for number in range(3):
        lines = [
            json.dumps({"id": f"{number}-{place}", "text": f"{text} {number}"}) if text else "bad"
            for place, text in enumerate(TEXTS)
        ]
        (tmp_path / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


EVERY = [f"{text} {number}" for number in range(3) for text in TEXTS if text]
NAMES = ["0.jsonl", "1.jsonl", "2.jsonl"]


def left(engine, job, folder):
    """What an engine leaves: counts by feature, numbers of documents, rejects by file."""
    counts, documents, rejects = {}, [], []
    with engine.run(job, [Input(str(folder / name), name) for name in NAMES]) as output:
        for key, table in output:
            if is_rejects(table):
                rejects += [json.loads(line) for line in reject_lines(table).splitlines()]
            elif table.column_names == [DOCUMENTS]:
                documents += table[DOCUMENTS].to_pylist()
            else:
                assert 0 <= key < 256
                hashes, found = counts_in(table)
                counts |= dict(zip(hashes.tolist(), found.tolist(), strict=True))
    assert list(counts) == sorted(counts)
    return counts, documents, [reject["file"] for reject in rejects]


@pytest.mark.parametrize("max_features", [1, 5, 1 << 20])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_yielded_early_is_added_up(folder, monkeypatch, max_features, threads):
    usual = feature_counts.count_features
    monkeypatch.setattr(
        document_frequencies, "count_features", partial(usual, max_features=max_features)
    )
    job = DocumentFrequenciesJob(min_documents=1, buffered_features=2)
    counts, documents, rejects = left(MemoryEngine(threads), job, folder)
    assert counts == frequency_oracle.frequencies(EVERY, "words", 1, 1)
    assert documents == [9]
    # in the order of the inputs
    assert rejects == [name for name in NAMES for _ in range(2)]


@pytest.mark.parametrize("runner", ["inline", "local"])
def test_engines_leave_the_same(folder, runner):
    job = DocumentFrequenciesJob()
    with staging_folder() as staging:
        assert left(StreamingEngine(runner, staging), job, folder) == left(
            MemoryEngine(), job, folder
        )
