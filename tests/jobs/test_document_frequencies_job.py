"""The document frequencies job run alone, and what its tasks hand over."""

import json
from functools import partial

import numpy as np
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
    format_lines,
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


def lines_of(counts, documents):
    signed = {value - (value >> 63 << 64): count for value, count in counts.items()}
    return sorted([f"documents\t{documents}", *(f"{f}\t{n}" for f, n in signed.items())])


def test_the_job_runs_alone(folder, run_alone):
    done = run_alone("document_frequencies", "-r", "inline", *NAMES)
    assert done.returncode == 0, done.stderr
    expected = frequency_oracle.frequencies(EVERY, "words", 1)
    assert sorted(done.stdout.splitlines()) == lines_of(expected, 9)
    for counter in ("documents_read=9", "rejected_records=6", f"features_kept={len(expected)}"):
        assert counter in done.stderr


def test_options_of_the_job_alone_are_those_of_what_reads_documents_but_for_weights(
    folder, run_alone
):
    given = ["--features", "characters:3", "--stop-words", "en", "--min-documents", "3"]
    done = run_alone("document_frequencies", "-r", "inline", *given, *NAMES)
    expected = frequency_oracle.frequencies(EVERY, "characters", 3, 3, stop_words="en")
    assert sorted(done.stdout.splitlines()) == lines_of(expected, 9)
    for arguments, said in [
        (["--features", "none"], "unit must be one of"),
        (["--min-documents", "0"], "--min-documents must be at least 1, not 0"),
        (["--weights=tf"], "unrecognized arguments: --weights=tf"),
    ]:
        done = run_alone("document_frequencies", "-r", "inline", *arguments, "0.jsonl")
        assert done.returncode == 2
        assert said in done.stderr


def test_damage_is_one_line(folder, run_alone):
    done = run_alone("document_frequencies", "-r", "inline", "--strict", "0.jsonl")
    assert done.returncode == 2
    assert "0.jsonl, line 3 (byte" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


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


def test_lines():
    numbers = np.array([0, 5, 2**63, 2**64 - 1], np.uint64)
    printed = format_lines(numbers, np.array([1, 2, 3, 10**12], np.uint64))
    assert printed == b"0\t1\n5\t2\n-9223372036854775808\t3\n-1\t1000000000000\n"
