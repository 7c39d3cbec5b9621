"""Messages and events of a command as lines of JSON."""

import datetime
import json
import logging

import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines import events
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.running import Command

dedup = Command("dedup")


@pytest.fixture
def pages(tmp_path):
    return write_jsonl(
        tmp_path / "pages.jsonl",
        [document for document in made_up_documents(1) if document["text"].strip()],
    )


@pytest.mark.parametrize("runner", ["memory", "inline"])
def test_messages_and_events(capfd, pages, tmp_path, monkeypatch, runner):
    monkeypatch.setattr(events, "_PROGRESS_SECONDS", 0)
    # only equal texts, since of short ones there is a warning
    words = [pages, "-o", tmp_path / "out", "-r", runner, "--log-format", "json", "--verify", 1]
    out, err = dedup.done(capfd, *words)
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    for line in lines:
        assert datetime.datetime.fromisoformat(line["time"]).utcoffset() == datetime.timedelta(0)
    stages = [line for line in lines if line.get("event") == "stage"]
    assert [line["stage"] for line in stages] == ["fingerprint", "cluster", "resolve", "keep"]
    assert stages[0]["documents_read"] == 51
    assert lines[-1]["message"].startswith("kept ")
    assert {line["level"] for line in lines} == {"info"}
    jobs = [line for line in lines if line.get("event") == "job"]
    assert jobs
    for job in jobs:
        assert job["tasks"] == 1
        assert job["seconds"] > 0
    assert jobs[0]["counters"]["documents_read"] == 51
    assert jobs[0]["documents_a_second"] > 0
    if runner == "memory":
        progress = [line for line in lines if line.get("event") == "progress"]
        assert {"done": 1, "total": 1}.items() <= progress[0].items()


def test_errors_too_and_only_for_that_command(capfd, pages, tmp_path):
    missing = tmp_path / "missing.jsonl"
    code, _, err = dedup(capfd, missing, "-o", tmp_path / "out", "--log-format", "json")
    assert code == 2
    found = json.loads(err)
    assert (found["level"], found["message"]) == ("error", f"{missing}: no such file")
    assert not logging.getLogger("mr_dedup.events").handlers
    dedup.done(capfd, pages, "-o", tmp_path / "out")
    assert dedup.mistake(capfd, missing, "-o", tmp_path / "other").startswith("mr-dedup: error: ")


@pytest.mark.parametrize(
    "option", [["--log-format", "json"], ["--log-format=json"], ["--log-f=json"]]
)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dedup", "--bad"], "unrecognized arguments: --bad"),
        (["dedup"], "the following arguments are required: DOCS"),
        (["dedup", "a", "-o"], "argument -o/--out: expected one argument"),
        (["dedup", "a", "-o", "b", "--html", "x"], "argument --html: invalid choice: 'x'"),
        (["dedup", "a", "-o", "b", "--max-rejected", "x"], "argument --max-rejected: "),
        (["index", "quary"], "argument ACTION: invalid choice: 'quary'"),
        (["dedpu"], "argument COMMAND: invalid choice: 'dedpu'"),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_usage_errors_too(capfd, words, said, option, is_first):
    with pytest.raises(SystemExit) as ended:
        main([*option, *words] if is_first else [*words, *option])
    assert ended.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    found = json.loads(err)
    assert (found["level"], found["message"][: len(said)]) == ("error", said)
    # the next one is as it was
    with pytest.raises(SystemExit):
        main(words)
    assert capfd.readouterr().err.startswith("mr-dedup")
