"""The set-ups of tools; those that need nothing but this environment are run."""

import importlib.util
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.field import environments
from bench.field.environments import OURS
from bench.field.inputs import converted
from bench.field.outcomes import check, kept_documents
from bench.field.running import DONE, Command, Limits, run
from bench.field.tools import TOOLS, Task, chosen
from bench.field.tools.tool import JSON_LINES, ONE_PARQUET, PARQUET, PROGRAMS, code_lines
from tests.bench.field.made_corpus import write_corpus

HERE = [
    *(tool.name for tool in TOOLS if tool.environment == OURS and "spark" not in tool.name),
    *(tool.name for tool in TOOLS if importlib.util.find_spec(tool.environment)),
]
"""Ours, and libraries that are installed here too."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("field") / "corpus"
    write_corpus(folder)
    return folder


def test_names_are_distinct_and_each_environment_is_pinned():
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert {tool.environment for tool in TOOLS} == set(environments.names())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_command_is_made_of_files_that_exist(tool, tmp_path):
    task = Task(tmp_path / "corpus", 32, tmp_path, tmp_path / "environment")
    words = list(tool.command(task))
    assert all(isinstance(word, str) for word in words)
    assert [word for word in words if word.startswith(str(PROGRAMS))] == (
        [str(PROGRAMS / tool.program)] if tool.program else []
    )
    assert tool.own_lines >= (2 if tool.program else 1)
    assert tool.settings


@pytest.mark.parametrize(
    ("name", "said", "progress"),
    [
        ("rensa", "part-0002.parquet is done\npart-0003.parquet is done", "4 of 9 files done"),
        ("gaoya", "", "0 of 9 files done"),
        ("mllib", "[Stage 8:====>      (3 + 2) / 10]", "stage 8 of Spark: 3 of 10 tasks done"),
        ("mllib", "WARN", ""),
        (
            "distributed-curator",
            "INFO - Step 5: x\nINFO - Step 6: Marking duplicates...\n[Stage 9:> (0 + 1) / 2]",
            "step 6 (Marking duplicates), stage 9 of Spark: 0 of 2 tasks done",
        ),
        ("datatrove", "", "stage 2 of 4: 3 tasks done"),
        ("fastdedup", "7", ""),
    ],
)
def test_progress_is_what_a_tool_reported_or_wrote(tmp_path, name, said, progress):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(9):
        (corpus / f"part-{number:04}.parquet").touch()
    for stage, tasks in (("1", 9), ("2", 3)):
        folder = tmp_path / "logs" / stage / "completions"
        folder.mkdir(parents=True)
        for number in range(tasks):
            (folder / f"{number:05}").touch()
    [tool] = chosen([name])
    assert tool.progress(Task(corpus, 32, tmp_path, tmp_path), said) == progress


def test_progress_of_datatrove_before_its_first_stage(tmp_path):
    [tool] = chosen(["datatrove"])
    assert tool.progress(Task(tmp_path, 32, tmp_path, tmp_path), "") == "no stage begun"


def test_an_unknown_tool_is_an_error_that_lists_those_there_are():
    with pytest.raises(ValueError, match=r"other: no such tool; there are mr-dedup, .*datasketch"):
        chosen(["mr-dedup", "other"])


def test_tools_are_chosen_once_in_the_order_of_the_names():
    assert [t.name for t in chosen(["mr-dedup exact", "datasketch", "mr-dedup e*"])] == [
        "mr-dedup exact",
        "datasketch",
    ]


# a changed word is one of the keywords
ONLY_COPIES = {"mr-dedup keywords", *(tool.name for tool in TOOLS if "exact" in tool.name)}


@pytest.mark.parametrize("name", HERE)
def test_a_tool_drops_copies(name, corpus, tmp_path):
    [tool] = chosen([name])
    out = tmp_path / "out"
    out.mkdir()
    documents = converted(corpus, tool.reads, tmp_path / "inputs")
    task = Task(documents, 32, out, Path(sys.prefix))
    taken = run(Command(tool.command(task), out, tool.variables), Limits(300, 4 << 30))
    assert (taken.state, taken.said if taken.state != DONE else "") == (DONE, "")
    outcome = tool.outcome(task)
    assert check(outcome, corpus) == 32
    kept = set(outcome.kept.to_pylist())
    # which of two is kept is the tool's choice
    assert len(kept & {"a/page 0", "b/copy"}) == 1
    assert len(kept & {"a/page 1", "b/near"}) == (2 if name in ONLY_COPIES else 1)
    assert {f"a/page {number}" for number in range(2, 30)} <= kept
    if outcome.kept_for is not None:
        for row in outcome.kept_for.to_pylist():
            assert row["kept_id"] in kept
            assert row["id"] not in kept


@pytest.mark.parametrize("form", [PARQUET, JSON_LINES, ONE_PARQUET])
def test_a_form_has_the_documents_of_the_corpus_in_order(form, corpus, tmp_path):
    made = converted(corpus, form, tmp_path)
    parts = [kept_documents(path).kept for path in sorted(corpus.glob("*.parquet"))]
    expected = pa.concat_arrays(parts)
    assert kept_documents(made).kept.equals(expected)
    assert not list(tmp_path.glob("**/corpus.json"))
    before = made.stat().st_mtime_ns
    assert converted(corpus, form, tmp_path) == made
    assert made.stat().st_mtime_ns == before


def test_texts_are_the_same_in_json_lines(corpus, tmp_path):
    import json

    lines = (converted(corpus, JSON_LINES, tmp_path) / "part-0000.jsonl").read_text().splitlines()
    table = pq.read_table(corpus / "part-0000.parquet", columns=["id", "text"])
    assert [json.loads(line) for line in lines] == table.to_pylist()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""One."""\na = 1\n', 1),
        ('"""Two.\n\nLines.\n"""\n\na = 1\n# b\n\nc = 1\n', 2),
        ("#!/bin/sh\n# what\nls\n", 1),
        ("", 0),
    ],
)
def test_lines_of_code(text, count):
    assert code_lines(text) == count


@pytest.mark.skipif(not shutil.which("uv"), reason="uv is not installed")
def test_an_environment_is_made_as_pinned(tmp_path, monkeypatch):
    """By uv, from the package index."""
    pins = tmp_path / "pins"
    pins.mkdir()
    monkeypatch.setattr(environments, "PINS", pins)
    show = "import six, sys; print(six.__version__, *sys.version_info[:2])"
    words = [str(tmp_path / "tool" / "bin" / "python"), "-c", show]
    other = f"{sys.version_info.major}.{sys.version_info.minor}"
    # again with another version, and with the Python that it names
    for version, line, python in (("1.16.0", "", "3 11"), ("1.17.0", f"# python {other}\n", other)):
        (pins / "tool.txt").write_text(f"# six {version}\n{line}six=={version}\n")
        assert environments.main([str(tmp_path), "tool"]) == 0
        assert environments.version_of("tool", tmp_path) == f"six {version}"
        taken = run(Command(words, tmp_path), Limits(60, 1 << 30))
        assert taken.said == f"{version} {python.replace('.', ' ')}"


@pytest.mark.skipif(not shutil.which("uv"), reason="uv is not installed")
def test_that_of_ours_has_the_newest_wheel(tmp_path, monkeypatch, capsys):
    pins, wheels = tmp_path / "pins", tmp_path / "dist"
    pins.mkdir()
    (pins / "mr-dedup.txt").write_text("# mr-dedup\nsix==1.17.0\n")
    monkeypatch.setattr(environments, "PINS", pins)
    monkeypatch.setattr(environments, "WHEELS", wheels)
    assert environments.main([str(tmp_path), "mr-dedup"]) == 1
    assert f"{wheels}: contains no wheel of mr-dedup; make wheel" in capsys.readouterr().err
    versions = []
    for number in (1, 2):
        write_wheel(wheels / "mr_dedup-1.0-py3-none-any.whl", f"number = {number}\n")
        assert environments.main([str(tmp_path), "mr-dedup"]) == 0
        versions.append(environments.version_of("mr-dedup", tmp_path))
        python = tmp_path / "mr-dedup" / "bin" / "python"
        words = [str(python), "-c", "import mr_dedup_number, six; print(mr_dedup_number.number)"]
        assert run(Command(words, tmp_path), Limits(60, 1 << 30)).said == f"{number}"
    assert all(re.fullmatch(r"mr-dedup 1\.0 \([0-9a-f]{12}\)", version) for version in versions)
    assert versions[0] != versions[1]


def write_wheel(path, text):
    """Write a wheel with one module."""
    path.parent.mkdir(exist_ok=True)
    info = "mr_dedup-1.0.dist-info"
    files = {
        "mr_dedup_number.py": text,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mr-dedup\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, content)


def test_an_environment_that_is_not_made_or_not_known(tmp_path, capsys):
    assert environments.version_of("datasketch", tmp_path) == ""
    assert environments.version_of("", tmp_path).startswith("mr-dedup ")
    assert environments.main([str(tmp_path), "other"]) == 1
    assert "other: no such environment" in capsys.readouterr().err
