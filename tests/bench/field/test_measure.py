"""Tools that end well, fail, are not installed or leave nothing; rounds, results, the page."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import bench.results
from bench.field import __main__ as command
from bench.field import page, quick, results
from bench.field.measure import (
    ABSENT,
    NOT_RUN,
    Corpus,
    Measured,
    Setting,
    as_json,
    measure,
    of_json,
)
from bench.field.running import DONE, FAILED, OVER_TIME, Limits
from bench.field.spark_events import shuffled_bytes
from bench.field.tools import chosen
from bench.field.tools.tool import Tool
from tests.bench.field.made_corpus import write_corpus, write_truth

KEEPS_PARTS = """
import os, shutil, sys
open(os.environ["COUNT"], "a").write("x")
os.mkdir("kept")
for part in sys.argv[2:]:
    shutil.copy(os.path.join(sys.argv[1], part), "kept")
"""


@pytest.fixture
def made(tmp_path):
    """Return the directory of a corpus and its truth."""
    write_corpus(tmp_path / "corpus")
    write_truth(tmp_path / "truth")
    return tmp_path


def tool(name, text, *options, environment=""):
    """Return a tool that is a program in Python, called with the corpus and options."""
    return Tool(
        name,
        environment,
        "as it is",
        lambda task: [sys.executable, "-c", text, str(task.corpus), *options],
        variables={"COUNT": "../count"},
    )


def setting(made, rounds=1, seconds=60):
    return Setting(Limits(seconds, 1 << 30), rounds, made / "environments", made / "work")


def test_what_is_kept_is_counted_and_compared_with_the_truth(made):
    corpus = Corpus.read(made / "corpus", made / "truth")
    assert (corpus.documents, corpus.content_sha256) == (32, "00ff")
    all_but_copies = tool("one", KEEPS_PARTS, "part-0000.parquet")
    all_of_them = tool("two", KEEPS_PARTS, "part-0000.parquet", "part-0001.parquet")
    only_copies = tool("three", KEEPS_PARTS, "part-0001.parquet")
    found = list(measure([all_but_copies, all_of_them, only_copies], corpus, setting(made)))
    assert [(each.state, each.kept, each.dropped) for each in found] == [
        (DONE, 30, 2),
        (DONE, 32, 0),
        (DONE, 2, 30),
    ]
    at_threshold = [each.quality[0] for each in found]
    assert [(quality.recall, quality.precision) for quality in at_threshold] == [
        (1.0, 1.0),
        (0.0, None),
        (1.0, 2 / 30),
    ]


def test_rounds_are_interleaved_and_outputs_removed(made):
    corpus = Corpus.read(made / "corpus")
    tools = [tool(name, KEEPS_PARTS, "part-0000.parquet") for name in ("one", "two")]
    found = [each.tool for each in measure(tools, corpus, setting(made, rounds=3))]
    assert found == ["one", "two"] * 3
    assert (made / "work" / "count").read_text() == "xxxxxx"
    assert {each.name for each in (made / "work").iterdir()} == {"count", "inputs"}


def test_a_tool_runs_in_its_active_environment_and_leaves_its_files_in_its_directory(made):
    """As Spark starts its workers by the ``python3`` of PATH."""
    corpus = Corpus.read(made / "corpus")
    environment = made / "environments" / "tool"
    (environment / "bin").mkdir(parents=True)
    (environment / "made").write_text("tool 1.2\n")
    report = "import os; print(os.environ['PATH'].split(':')[0], os.environ['TMPDIR'], os.getcwd())"
    shows = tool("shows", f"{report}; raise SystemExit(1)", environment="tool")
    [measured] = measure([shows], corpus, setting(made))
    # paths of this machine have names in what is stored
    assert measured.said.split() == ["ENVIRONMENT/bin", "OUT/tmp", "OUT"]
    assert measured.version == "tool 1.2"


def test_a_median_is_of_all_rounds(made):
    corpus = Corpus.read(made / "corpus")
    *_, last = measure([tool("one", KEEPS_PARTS, "part-0000.parquet")], corpus, setting(made, 3))
    seconds = sorted(each["seconds"] for each in last.rounds)
    assert len(seconds) == 3
    assert last.median("seconds") == seconds[1]


def test_a_tool_that_does_not_end_well_is_run_once_and_says_why(made):
    corpus = Corpus.read(made / "corpus")
    fails = tool("fails", "raise SystemExit('no memory for 7 tables')")
    sleeps = tool("sleeps", "import time; print('30 %', flush=True); time.sleep(600)")
    leaves_nothing = tool("leaves nothing", "print('ready')")
    damaged = tool(
        "damaged", "import os; os.mkdir('kept'); open('kept/a.parquet', 'wb').write(b'PAR1')"
    )
    absent = tool("absent", KEEPS_PARTS, environment="absent")
    tools = [fails, sleeps, leaves_nothing, damaged, absent]
    found = {each.tool: each for each in measure(tools, corpus, setting(made, 2, seconds=3))}
    assert {name: (each.state, len(each.rounds)) for name, each in found.items()} == {
        "absent": (ABSENT, 0),
        "fails": (FAILED, 1),
        "sleeps": (OVER_TIME, 1),
        "leaves nothing": (FAILED, 1),
        "damaged": (FAILED, 1),
    }
    assert found["fails"].said == "no memory for 7 tables"
    assert found["sleeps"].said == "30 %"
    assert "contains no documents" in found["leaves nothing"].said
    assert all(each.kept is None and not each.quality for each in found.values())


def test_a_corpus_without_files_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="contains no Parquet files"):
        Corpus.read(tmp_path)


def test_results_are_read_as_they_were_written(made):
    corpus = Corpus.read(made / "corpus", made / "truth")
    chosen_setting = setting(made)
    [measured] = measure([tool("one", KEEPS_PARTS, "part-0000.parquet")], corpus, chosen_setting)
    assert of_json(json.loads(json.dumps(as_json(measured)))) == measured
    result = results.result_of(corpus, chosen_setting.limits, measured)
    path = made / "field-0.json"
    results.write(path, result)
    assert results.read(path) == result
    assert [each.name for each in made.glob("field-0*")] == ["field-0.json"]


def test_earlier_results_stay_unless_a_tool_is_run_again(made):
    corpus = Corpus.read(made / "corpus")
    one, two = (
        next(measure([tool(name, KEEPS_PARTS, "part-0000.parquet")], corpus, setting(made)))
        for name in ("one", "two")
    )
    limits = setting(made).limits
    earlier = results.result_of(corpus, limits, one, two)
    again = replace(two, own_lines=99)
    later = results.updated(earlier, results.result_of(corpus, limits, again))
    assert later.tools == [one, again]
    other = results.result_of(corpus._replace(documents=7), limits, one)
    with pytest.raises(ValueError, match="documents of earlier results differs"):
        results.updated(earlier, other)


def test_a_tool_that_would_take_too_long_is_not_run_and_has_a_row(made):
    corpus = Corpus.read(made / "corpus")
    rounds = [{"seconds": 20.0}, {"seconds": 30.0}, {"seconds": 90.0}]
    states = {"slow": DONE, "ended": OVER_TIME, "failed": FAILED, "quick": DONE, "no": NOT_RUN}
    tools = {
        name: Measured(name, "1", "", "", 1, state, rounds=rounds) for name, state in states.items()
    }
    tools["quick"].rounds = rounds[:1]
    tools["no"].said = "over time for 0.02 GB"
    smaller = results.result_of(corpus, Limits(60, 1 << 30), *tools.values())
    assert results.not_to_be_run(smaller, 2 * corpus.text_bytes, Limits(50, 1 << 30)) == {
        "slow": "it took 30 s for 0.00 GB, so 0.00 GB would take 60 s; the limit is 50 s",
        "ended": "over time for 0.00 GB",
        "failed": "failed for 0.00 GB",
        "no": "over time for 0.02 GB",
    }
    slow, quick = (tool(name, KEEPS_PARTS, "part-0000.parquet") for name in ("slow", "quick"))
    stated = setting(made, rounds=2)._replace(not_run={"slow": "it took 30 s"})
    found = [(each.tool, each.state) for each in measure([quick, slow], corpus, stated)]
    assert found == [("slow", NOT_RUN), ("quick", DONE), ("quick", DONE)]
    (made / "work" / "count").unlink()
    [measured, *_] = measure([slow], corpus, stated)
    text = page.section(results.result_of(corpus, stated.limits, measured))
    assert "| slow | not run |" in text
    assert "as it is; not run: it took 30 s" in text
    assert not (made / "work" / "count").exists()


def test_the_figure_of_a_tool_that_was_ended_is_of_its_last_run():
    rounds = [{"seconds": 2.0}, {"seconds": 4.0}, {"seconds": 300.0}]
    measured = Measured("one", "1", "", "", 1, DONE, rounds=rounds)
    assert measured.median("seconds") == 4
    assert replace(measured, state=OVER_TIME).median("seconds") == 300
    assert measured.median("shuffled_bytes") is None


def test_a_run_that_was_ended_has_its_progress_date_machine_and_limit(made):
    corpus = Corpus.read(made / "corpus")
    sleeps = replace(
        tool("sleeps", "import time; print('3 of 8', flush=True); time.sleep(600)"),
        progress=lambda task, said: f"{said} files",
    )
    [measured] = measure([sleeps], corpus, setting(made, seconds=2))
    assert (measured.state, measured.progress) == (OVER_TIME, "3 of 8 files")
    assert measured.limit_seconds == 2
    text = page.section(results.result_of(corpus, setting(made).limits, measured))
    assert f"; 1 on {measured.date}, at most 2 s; over time after 3 of 8 files" in text
    assert f"Machine: {measured.machine}, of which a tool may use 2 cores" in text


def test_what_spark_moved_is_read_from_its_logs(tmp_path):
    assert shuffled_bytes(tmp_path) is None
    end = {"Event": "SparkListenerTaskEnd", "Task Metrics": {
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 700}}}  # fmt: skip
    lost = {"Event": "SparkListenerTaskEnd", "Task Metrics": None}
    lines = [{"Event": "SparkListenerJobEnd"}, end, lost, end]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "local-1").write_text(text + text[-60:-30])
    (tmp_path / "local-2").write_text(json.dumps(end) + "\n" + json.dumps(end)[:-5])
    (tmp_path / ".local-2.crc").write_bytes(b"\xff")
    assert shuffled_bytes(tmp_path) == 2100


def test_the_truth_of_another_corpus_is_refused(made):
    (made / "truth" / "corpus.json").write_text('{"content_sha256": "00fe"}')
    with pytest.raises(ValueError, match=r"truth: the truth of another corpus than .*corpus"):
        Corpus.read(made / "corpus", made / "truth")


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 5000])
def test_a_report_that_is_none_is_an_error_of_one_line(made, capsys, text):
    (made / "corpus" / "corpus.json").write_text(text)
    with pytest.raises(SystemExit) as ended:
        command.main([str(made / "corpus"), "--out", str(made / "field-0.json")])
    assert ended.value.code == 2
    assert "corpus.json: not the report of a corpus" in capsys.readouterr().err


def test_results_of_another_corpus_are_refused_before_a_tool_is_run(made, capsys):
    corpus = Corpus.read(made / "corpus")
    out = made / "field-0.json"
    results.write(out, results.result_of(corpus._replace(documents=7), Limits(60, 16 << 30)))
    before = out.read_bytes()
    with pytest.raises(SystemExit) as ended:
        command.main([str(made / "corpus"), "--out", str(out), "--work", str(made)])
    assert ended.value.code == 2
    assert "documents of earlier results differs: write to another file" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_stored_results_are_read_and_are_no_results_of_other_benchmarks():
    stored = [results.read(path) for path in bench.results.FOLDER.glob("field-*.json")]
    assert all(result.tools for result in stored)
    assert not [each.name for each in bench.results.read() if each.name.startswith("field")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tools": [{}]}', "[" * 5000])
def test_another_file_is_not_a_result(tmp_path, text):
    path = tmp_path / "field-1.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a result"):
        results.read(path)


def test_the_command_measures_adds_and_reports(made, capsys):
    environment = made / "environments" / "mr-dedup"
    (environment / "bin").mkdir(parents=True)
    (environment / "made").write_text("mr-dedup 1.0\n")
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    out = made / "field-0.json"
    words = [str(made / "corpus"), "--out", str(out), "--truth", str(made / "truth")]
    words += ["--environments", str(made / "environments"), "--work", str(made)]
    assert command.main([*words, "--tools", "mr-dedup", "datasketch"]) == 0
    assert command.main([*words, "--tools", "mr-dedup exact"]) == 0
    assert "mr-dedup exact: done" in capsys.readouterr().err
    found = {each.tool: each for each in results.read(out).tools}
    assert {name: each.state for name, each in found.items()} == {
        "datasketch": ABSENT,
        "mr-dedup": DONE,
        "mr-dedup exact": DONE,
    }
    assert (found["mr-dedup"].kept, found["mr-dedup exact"].kept) == (30, 31)
    assert found["mr-dedup"].quality[0].recall == found["mr-dedup"].quality[0].precision_named == 1
    text = page.sections(made)
    assert "| mr-dedup | done |" in text
    assert "32 documents" in text


ENDED = """
import sys
from bench.field import __main__ as command
from bench.field.tools.tool import Tool
sleeps = "import os, time; open('../pid', 'w').write(str(os.getpid())); time.sleep(600)"
command.TOOLS = [Tool("sleeps", "", "", lambda task: [sys.executable, "-c", sleeps])]
command.main(sys.argv[1:])
"""


def test_a_tool_is_ended_with_the_command(made):
    words = [sys.executable, "-c", ENDED, str(made / "corpus"), "--out", str(made / "field-0.json")]
    process = subprocess.Popen([*words, "--work", str(made)])
    while not (pids := list(made.glob("field-*/pid"))) or not pids[0].read_text():
        assert process.poll() is None
        time.sleep(0.1)
    pid = int(pids[0].read_text())
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(made.glob("field-*"))


@pytest.mark.parametrize("words", [["--tools", "other"], ["--truth", "nothing"]])
def test_a_usage_error_is_one_line_and_nothing_is_written(made, capsys, words):
    out = made / "field-0.json"
    with pytest.raises(SystemExit) as ended:
        command.main([str(made / "corpus"), "--out", str(out), *words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err
    assert not out.exists()


def test_quality_below_a_floor_is_reported(made):
    corpus = Corpus.read(made / "corpus", made / "truth")
    tools = [
        replace(tool(name, KEEPS_PARTS, *parts), name=name)
        for name, parts in {
            "mr-dedup": ["part-0000.parquet"],
            "mr-dedup local": ["part-0000.parquet", "part-0001.parquet"],
            "mr-dedup exact": [],
            "datasketch aligned": [],
        }.items()
    ]
    found = list(measure(tools, corpus, setting(made)))
    lines = quick.below_floors(found)
    assert "mr-dedup: precision_named is None, less than 1.0" in lines
    assert "mr-dedup local: recall is 0.0, less than 0.998" in lines
    assert any(line.startswith("mr-dedup exact: failed") for line in lines)
    assert not any(line.startswith("datasketch") for line in lines)


def test_ours_is_not_below_its_floors_on_a_small_corpus(made):
    corpus = Corpus.read(made / "corpus", made / "truth")
    tools = [replace(tool, environment="") for tool in chosen(["mr-dedup", "mr-dedup local"])]
    found = list(measure(tools, corpus, setting(made)))
    assert quick.below_floors(found) == []


def test_the_table_has_no_share_that_was_rounded_up(made):
    corpus = Corpus.read(made / "corpus", made / "truth")
    [measured] = measure([tool("one", KEEPS_PARTS, "part-0000.parquet")], corpus, setting(made))
    almost = replace(measured, quality=[replace(measured.quality[0], recall=0.99996)])
    assert "| 0.9999 |" in page.table([almost], corpus.documents, corpus.text_bytes)
