"""The fingerprint job: its options, and what its tasks yield."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from mr_dedup.engines.streaming.table_lines import read_tables
from mr_dedup.engines.streaming.task_environment import (
    BYTES_VARIABLE,
    HADOOP_VARIABLE,
    LENGTH_VARIABLE,
    LINES,
    NUMBER_VARIABLE,
    START_VARIABLE,
)
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.fingerprint import FingerprintJob
from mr_dedup.jobs.reading import chunk_of, is_rejects, reject_lines
from tests import text_input

TEXTS = ["one page", "另一个网页", "", "page one, once more"]


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        lines = [
            json.dumps({"id": f"{number}-{place}\t", "text": f"{text} {number if text else ''}"})
            for place, text in enumerate(TEXTS)
        ]
        (tmp_path / f"{number}.jsonl").write_text("\n".join([*lines, "bad"]) + "\n")
    return tmp_path


def test_options_are_checked_when_a_job_is_made():
    with pytest.raises(ValueError, match="length is the name of a column that is written"):
        FingerprintJob(fields=("length",))
    with pytest.raises(ValueError, match="idf: expected a file for weights by rarity alone"):
        FingerprintJob(idf="frequencies.parquet")
    with pytest.raises(ValueError, match="idf: expected a file for weights by rarity alone"):
        FingerprintJob(features=FeatureOptions(weighting="tf-idf"))


def test_options_come_back_from_json():
    job = FingerprintJob(
        reading=ReadOptions(id_names=("a", "b"), html="page", strict=True),
        format="jsonl",
        features=FeatureOptions(unit="auto", weighting="tf", stop_words="en"),
        methods=("minhash:bands=20,rows=5",),
        fields=("site",),
    )
    assert msgspec.json.decode(msgspec.json.encode(job), type=FingerprintJob) == job


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_each_chunk_leaves_a_shard_also_of_several_that_a_task_reads(folder, order):
    """As tasks of Hadoop do; a file may have blank lines alone, or a WARC file no pages."""
    (folder / "1.jsonl").write_text("\n\n")
    job = FingerprintJob(shards=str(folder / "rows"))
    counters = Counters()
    for number in order:
        part = TaskInput(folder / f"{number}.jsonl", f"{number}.jsonl", number)
        keys = [key for key, _ in job.map_task(part, counters)]
        assert keys == [chunk_of(part, None).number]
    assert len(list((folder / "rows").iterdir())) == 2


def run_task(folder, number, path, uri, stdin=b"", **environment):
    """Run one map task as a cluster would; return the file that it leaves."""
    (folder / "job.json").write_bytes(msgspec.json.encode(FingerprintJob()))
    command = [sys.executable, "-m", "mr_dedup.engines.streaming.table_job", "--mapper"]
    command += ["--job", "mr_dedup.jobs.fingerprint:FingerprintJob", "--job-options", "job.json"]
    done = subprocess.run(
        [*command, path, uri], cwd=folder, input=stdin, capture_output=True, check=False,
        env={**os.environ, NUMBER_VARIABLE: str(number), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    left = folder / f"part-{len(list(folder.glob('part-*'))):05}"
    left.write_bytes(done.stdout)
    return left


# what the hadoop command does that is called with fs -copyToLocal
COPY = 'import shutil, sys; shutil.copy(sys.argv[3].removeprefix("file://"), sys.argv[4])'


def test_tasks_that_share_a_file_leave_what_one_would(folder):
    content = (folder / "0.jsonl").read_bytes()
    uri = (folder / "0.jsonl").as_uri()
    whole = [
        run_task(folder, number, f"{name}.jsonl", uri.replace("0.jsonl", f"{name}.jsonl"))
        for number, name in ((6, 1), (7, 0), (8, 2))
    ]
    shared = [whole[0], whole[2]]
    # one line is missing, as if it were too long for Hadoop
    missing = content.index(b"\n") + 1
    [parts] = text_input.splits([len(content)], 1, 70, 1)
    assert len(parts) > 2
    for start, length in reversed(parts):
        lines = text_input.lines(content, start, length, 1000)
        variables = {START_VARIABLE: start, LENGTH_VARIABLE: length, BYTES_VARIABLE: len(content)}
        stdin = b"".join(b"%d\t%s\n" % line for line in lines if line[0] != missing)
        environment = {name: str(value) for name, value in variables.items()}
        environment[HADOOP_VARIABLE] = f"{sys.executable} -c '{COPY}'"
        shared.append(run_task(folder, 7, LINES, uri, stdin, **environment))
        (folder / "whole-input").unlink(missing_ok=True)
    rows, rejects = read_left(whole)
    assert read_left(shared)[0] == rows
    (before, why), (place, why), (behind, why) = rejects
    assert place.startswith("line 5 (byte ")
    # of a part the numbers of lines are not known
    assert read_left(shared)[1] == [(before, why), (place[8:-1], why), (behind, why)]


def read_left(files):
    """Return the rows that tasks left, and the places and reasons of rejects."""
    rows, rejects = [], []
    for _, table in read_tables(files):
        if is_rejects(table):
            rejects += [json.loads(line) for line in reject_lines(table).splitlines()]
        else:
            rows += table.to_pylist()
    return rows, [(reject["position"], reject["reason"]) for reject in rejects]
