"""The document frequencies job run alone, and what its tasks hand over."""

import json
from functools import partial

import numpy as np
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.features import feature_counts
from mr_dedup.jobs import document_frequencies
from mr_dedup.jobs.batches import Kind, decode_bytes, encode_columns, kind_of
from mr_dedup.jobs.document_frequencies import (
    DocumentFrequenciesJob,
    decode_counts,
    decoded_count,
    format_lines,
)
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
    for counter in ("documents=9", "rejected records=6", f"features kept={len(expected)}"):
        assert counter in done.stderr


def test_options_are_those_of_what_reads_documents_but_for_weights(folder):
    asked = ["--features", "characters:3", "--stop-words", "en", "--min-documents", "3"]
    job = job_of(*asked)
    emitted = [pair for name in NAMES for pair in job.map_documents(str(folder / name), name)]
    expected = frequency_oracle.frequencies(EVERY, "characters", 3, 3, stop_words="en")
    assert counts_in(reduced(job, emitted)) == expected
    with pytest.raises(ValueError, match="unit must be one of"):
        job_of("--features", "none")
    with pytest.raises(ValueError, match="--min-documents must be at least 1, not 0"):
        job_of("--min-documents", "0")
    with pytest.raises(ValueError, match="unrecognized arguments: --weights=tf"):
        job_of("--weights=tf")


def test_damage_is_one_line(folder, run_alone):
    done = run_alone("document_frequencies", "-r", "inline", "--strict", "0.jsonl")
    assert done.returncode == 2
    assert "0.jsonl, line 3 (byte" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def job_of(*options):
    job = DocumentFrequenciesJob(["--as-batches", *options])
    job.sandbox()
    return job


def reduced(job, emitted):
    """What one reducer makes of what map tasks emitted: by key, in order."""
    grouped = {}
    for key, batch in emitted:
        grouped.setdefault(key, []).append(batch)
    job.start_counting()
    return [out for key in sorted(grouped) for out in job.reduce_counts(key, iter(grouped[key]))]


def counts_in(output):
    found = {}
    for _, batch in output:
        if kind_of(batch) == Kind.FREQUENCIES:
            hashes, counts = decode_counts(batch)
            found |= dict(zip(hashes.tolist(), counts.tolist(), strict=True))
    assert list(found) == sorted(found)
    return found


@pytest.mark.parametrize("max_features", [1, 5, 1 << 20])
def test_what_is_sent_on_early_is_added_up(folder, monkeypatch, max_features):
    usual = feature_counts.count_features
    monkeypatch.setattr(feature_counts, "count_features", partial(usual, max_features=max_features))
    monkeypatch.setattr(document_frequencies, "_HELD_FEATURES", 2)
    job = job_of("--min-documents", "1")
    emitted = []
    for name in NAMES:
        emitted += job.map_documents(str(folder / name), name)
    output = reduced(job, emitted)
    assert counts_in(output) == frequency_oracle.frequencies(EVERY, "words", 1, 1)
    ranges = [key for key, batch in emitted if kind_of(batch) == Kind.FREQUENCIES]
    assert len(set(ranges)) > 10
    assert all(0 <= key < 256 for key in ranges)
    assert [decoded_count(b) for _, b in output if kind_of(b) == Kind.COUNT] == [9]
    rejects = [decode_bytes(Kind.REJECTS, b) for _, b in output if kind_of(b) == Kind.REJECTS]
    assert sum(count for count, _ in rejects) == 6
    files = [json.loads(line)["file"] for _, lines in rejects for line in lines.splitlines()]
    assert sorted(set(files)) == NAMES


def test_rejects_come_in_the_order_of_their_inputs(folder, monkeypatch):
    emitted = []
    for number, name in reversed(list(enumerate(NAMES))):
        monkeypatch.setenv("MR_DEDUP_INPUT_NUMBER", str(number * 1000))
        emitted += job_of().map_documents(str(folder / name), name)
    rejects = [b for _, b in reduced(job_of(), emitted) if kind_of(b) == Kind.REJECTS]
    files = [json.loads(decode_bytes(Kind.REJECTS, b)[1].splitlines()[0])["file"] for b in rejects]
    assert files == NAMES


def test_damaged_batches_and_those_of_others_are_refused():
    column = np.arange(40, dtype=np.uint64)
    (sound,) = encode_columns(Kind.FREQUENCIES, [column, column])
    (labels,) = encode_columns(Kind.LABELS, [column, column])
    for batch in (sound[:60] + b"////" + sound[64:], sound[:-8], labels):
        with pytest.raises(MrDedupError, match="a batch between tasks"):
            reduced(job_of(), [(0, batch)])
        with pytest.raises(MrDedupError, match="a batch between tasks"):
            reduced(job_of(), [(256, batch)])


def test_lines():
    numbers = np.array([0, 5, 2**63, 2**64 - 1], np.uint64)
    printed = format_lines(numbers, np.array([1, 2, 3, 10**12], np.uint64))
    assert printed == b"0\t1\n5\t2\n-9223372036854775808\t3\n-1\t1000000000000\n"
