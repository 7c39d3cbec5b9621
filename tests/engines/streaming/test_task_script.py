"""The scripts of tasks, run by a shell with a stand-in for the hadoop command."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mr_dedup
from mr_dedup.engines.package import FILE_LIST
from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.failures import explain, read_failures
from mr_dedup.engines.streaming.task_environment import LINES, quoted_name
from mr_dedup.engines.streaming.task_script import (
    CODE,
    MANIFEST,
    PACKAGE,
    SPLIT_INPUTS,
    task_script,
)
from mr_dedup.errors import MAX_MESSAGE

# copies, and drops the backslashes that keep a name from being a glob
_HADOOP = r"""#!/bin/sh
shift
case $1 in
    -put) cat >"$4" ;;
    -copyToLocal) cp "$(printf %s "$2" | sed 's/\\\(.\)/\1/g')" "$3" ;;
esac
"""


@pytest.fixture
def node(tmp_path):
    """A node: the folder of a task, and a hadoop command over local files."""
    work = tmp_path / "work folder"
    work.mkdir()
    root = Path(mr_dedup.__file__).parent
    files = [root / "errors.py", *(root / "jobs").glob("*.py")]
    names = ["mr_dedup/__init__.py", *(f"mr_dedup/{path.relative_to(root)}" for path in files)]
    with zipfile.ZipFile(work / PACKAGE, "w") as package:
        package.writestr(names[0], "")
        for name, path in zip(names[1:], files, strict=True):
            package.write(path, name)
        package.writestr(FILE_LIST, "".join(f"{name}\n" for name in names))
    hadoop = tmp_path / "had oop"
    hadoop.write_text(_HADOOP)
    hadoop.chmod(0o755)
    (tmp_path / "failures").mkdir()
    return tmp_path


def run(node, *command, manifest=None, shell="sh", interpreter=sys.executable, **environment):
    lines = task_script(
        [str(node / "had oop")],
        [interpreter],
        str(node / "failures"),
        "d1",
        ["echo set up >&2", "export PYTHONPATH=/of/user:$PYTHONPATH"],
        reads_manifest=manifest is not None,
    )
    work = node / "work folder"
    (work / "task.sh").write_text("\n".join(lines) + "\n")
    return subprocess.run(
        [shell, "task.sh", *command],
        cwd=work,
        env={
            **os.environ,
            "MR_DEDUP_CACHE_DIR": str(node / "cache"),
            "mapreduce_task_attempt_id": "attempt_1_2_m_000003_0",
            "NM_HOST": "node-7",
            **environment,
        },
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )


def python(code):
    return [sys.executable, "-c", code]


def test_variables_that_the_cluster_has_not_set_are_set(node):
    show = "echo $OPENBLAS_NUM_THREADS $ARROW_DEFAULT_MEMORY_POOL $MIMALLOC_PURGE_DELAY >shown"
    assert run(node, "sh", "-c", show, ARROW_DEFAULT_MEMORY_POOL="system").returncode == 0
    assert (node / "work folder" / "shown").read_text() == "1 system 100\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_runs_between_its_streams(node, shell):
    done = run(node, "sh", "-c", "cat; echo 'reporter:counter:a,b,1' >&2", shell=shell)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "set up\nreporter:counter:a,b,1\n"
    assert list((node / "failures").iterdir()) == []


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_copy_of_the_package_that_lost_files_is_made_anew(node, shell):
    copy = node / "cache" / "code-d1"
    for name in ("mr_dedup/jobs/reading.py", FILE_LIST, None):
        (node / "cache").mkdir(0o700, exist_ok=True)
        done = run(node, "sh", "-c", "echo $PYTHONPATH", shell=shell)
        assert done.stdout.startswith(f"{copy}:")
        assert (copy / "mr_dedup" / "jobs" / "reading.py").exists()
        assert list((node / "cache").iterdir()) == [copy]
        if name is not None:
            (copy / name).unlink()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_copy_of_the_package_that_is_whole_is_used_as_it_is(node, shell):
    show = python("import mr_dedup.errors as e; print(e.__file__)")
    first = run(node, *show, shell=shell)
    (node / "work folder" / PACKAGE).write_text("not a zip")
    assert run(node, *show, shell=shell).stdout == first.stdout != ""


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("cache", [None, "/proc/none"])
def test_a_package_that_is_damaged_is_reported(node, shell, cache):
    (node / "work folder" / PACKAGE).write_text("not a zip")
    changed = {} if cache is None else {"MR_DEDUP_CACHE_DIR": cache}
    assert run(node, "true", shell=shell, **changed).returncode == 1
    [failure] = read_failures((node / "failures" / "attempt_1_2_m_000003_0").read_text())
    assert failure.said.endswith("BadZipFile: File is not a zip file")
    assert cache or list((node / "cache").iterdir()) == []


def test_the_path_of_modules_begins_with_the_package(node):
    show = "echo $PYTHONPATH >path"
    assert run(node, "sh", "-c", show, PYTHONPATH="/of/node").returncode == 0
    work = node / "work folder"
    package = node / "cache" / "code-d1"
    expected = f"{package}:/of/user:{work}/environment:/of/node\n"
    assert (work / "path").read_text() == expected


def test_an_input_is_fetched_and_named_with_its_endings(node):
    source = node / "odd [1]*? name.longs.gz"
    source.write_text("content")
    show = python("import sys; print(sys.argv[1:], open(sys.argv[1]).read())")
    done = run(node, *show, manifest=f"17\t{source}\n")
    assert done.returncode == 0, done.stderr
    path = node / "work folder" / "input.longs.gz"
    assert done.stdout == f"{[str(path), str(source)]} content\n"
    assert f"reporter:status:reading {source}\n" in done.stderr


def test_a_task_is_told_the_number_and_the_name_of_its_input(node):
    source = node / "x.longs"
    source.write_text("")
    tell = python(
        "from mr_dedup.engines.streaming import task_environment as i; "
        "print(i.input_number(), i.input_name('-'))"
    )
    for name in ("a b*.jsonl", "hdfs://node:1/é%20\t.longs"):
        manifest = f"5\t{source}\t12\t{quoted_name(name)}\n"
        done = run(node, *tell, manifest=manifest)
        assert done.stdout == f"12 {name}\n", done.stderr
    done = run(node, *tell, manifest=f"5\t{source}\n")
    assert done.stdout == "0 -\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"LC_CTYPE": "en_US.utf8", "LANG": "C"}, None),
    ],
)
def test_names_that_are_not_ascii_reach_the_hadoop_command(
    node, monkeypatch, locale, expected, shell
):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    hadoop = node / "had oop"
    hadoop.write_text(_HADOOP + 'echo "locale: ${LC_ALL-}" >&2\n')
    source = node / "é.longs"
    source.write_text("content")
    done = run(node, "cat", manifest=f"17\t{source}\n", shell=shell, **locale)
    assert f"\nlocale: {expected or locale.get('LC_ALL', '')}\n" in done.stderr


SPLIT = """hdfs:///there/a b.jsonl	3	hdfs:///there/a%20b.jsonl	70
hdfs://host:1/x.jsonl	5	here.jsonl	90
"""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("hdfs://any:9000/there/a b.jsonl", "3 hdfs:///there/a b.jsonl 70"),
        ("hdfs:///there/a b.jsonl", "3 hdfs:///there/a b.jsonl 70"),
        ("hdfs://host:1/x.jsonl", "5 here.jsonl 90"),
    ],
)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_lines_of_a_file_that_is_split_are_not_fetched(node, shell, address, expected):
    (node / "work folder" / SPLIT_INPUTS).write_text(SPLIT)
    tell = python(
        "import os, sys; from mr_dedup.engines.streaming import task_environment as i; "
        "print(sys.argv[1:], i.input_number(), i.input_name(''), os.environ[i.BYTES_VARIABLE], "
        "sys.stdin.read())"
    )
    lines = "0	{}\n3	{}\n"
    done = run(node, *tell, manifest=lines, shell=shell, mapreduce_map_input_file=address)
    number = expected[0]
    [uri] = [line.split("	")[0] for line in SPLIT.splitlines() if f"	{number}	" in line]
    assert done.stdout == f"{[LINES, uri]} {expected} {lines}\n", done.stderr
    assert f"reporter:status:reading {uri}\n" in done.stderr


def test_a_manifest_is_known_by_its_name(node):
    source = node / "x.longs"
    source.write_text("content")
    (node / "work folder" / SPLIT_INPUTS).write_text(SPLIT)
    show = python("import sys; print(open(sys.argv[1]).read())")
    place = f"hdfs://host:1/tmp/inputs-000001{MANIFEST}"
    done = run(node, *show, manifest=f"0	{source}	1	x\n", mapreduce_map_input_file=place)
    assert done.stdout == "content\n", done.stderr


def test_lines_of_a_file_that_nobody_knows_are_reported(node):
    (node / "work folder" / SPLIT_INPUTS).write_text(SPLIT)
    address = "hdfs://other:1/x.jsonl"
    assert run(node, "true", manifest="0	{}\n", mapreduce_map_input_file=address).returncode == 1
    [failure] = read_failures((node / "failures" / "attempt_1_2_m_000003_0").read_text())
    assert failure.said.endswith(f"no input has the URI {address}")


def test_a_file_that_is_split_can_be_had_as_a_whole(node):
    source = node / "x y.jsonl"
    source.write_text("content")
    fetch = (
        "from mr_dedup.engines.streaming.task_environment import fetched as f; "
        "print(open(f({!r})).read())"
    )
    done = run(node, *python(fetch.format(str(source))))
    assert done.stdout == "content\n", done.stderr
    done = run(node, *python(fetch.format("/no/such.jsonl")))
    assert "MrDedupError: cannot be fetched as a whole: cp: " in done.stderr


def test_the_package_has_one_path_whatever_the_task(node):
    show = python("import mr_dedup, os; print(mr_dedup.__file__, os.environ['MR_DEDUP_CACHE_DIR'])")
    for _ in range(2):
        done = run(node, *show)
        place = node / "cache" / "code-d1" / "mr_dedup" / "__init__.py"
        assert done.stdout == f"{place} {node / 'cache'}\n"
    assert [path.name for path in (node / "cache").iterdir()] == ["code-d1"]


def test_without_a_cache_the_package_still_runs(node):
    show = python("import mr_dedup; print(mr_dedup.__file__)")
    done = run(node, *show, MR_DEDUP_CACHE_DIR="/proc/none")
    assert done.stdout == f"{node / 'work folder' / CODE / 'mr_dedup' / '__init__.py'}\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("how", ["link", "group", "others", "owner", "file"])
def test_a_cache_that_others_can_write_to_is_not_used(node, shell, how):
    """Whoever makes it first could have their code run by another user of the node."""
    cache, made = node / "cache", node / "made by others"
    copy = made / "code-d1"
    (copy / "mr_dedup").mkdir(parents=True)
    (copy / "mr_dedup" / "__init__.py").write_text("raise SystemExit('code of others')")
    (copy / FILE_LIST).write_text("mr_dedup/__init__.py\n")
    made.chmod({"group": 0o775, "others": 0o707}.get(how, 0o755))
    if how == "link":
        cache.symlink_to(made)
    elif how == "file":
        cache.write_text("")
    else:
        made.rename(cache)
    if how == "owner":
        if os.getuid() != 0:
            pytest.skip("only root gives directories away")
        os.chown(cache, 54321, -1)
    show = python("import mr_dedup; print(mr_dedup.__file__)")
    done = run(node, *show, shell=shell)
    assert done.stdout == f"{node / 'work folder' / CODE / 'mr_dedup' / '__init__.py'}\n"
    assert list(node.rglob("new-*")) == []


def test_a_failure_is_reported_with_its_input(node):
    source = node / "x.longs"
    source.write_text("")
    fail = python("import sys; print('reporter:status:x', file=sys.stderr); {}['a']")
    done = run(node, *fail, manifest=f"0\t{source}\n")
    assert done.returncode == 1
    [failure] = read_failures((node / "failures" / "attempt_1_2_m_000003_0").read_text())
    assert (failure.attempt, failure.code) == ("attempt_1_2_m_000003_0", 1)
    assert (failure.node, failure.input) == ("node-7", str(source))
    assert failure.said.endswith("KeyError: 'a'")
    # a traceback may show the source, which has the word too
    assert not [line for line in failure.said.splitlines() if line.startswith("reporter:")]


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}],
    ids=["UTF-8", "ASCII"],
)
@pytest.mark.parametrize(
    ("raised", "is_bug"),
    [("MrDedupError('what.jsonl: ' + 4000 * '\N{GRINNING FACE}' + ' is why')", False),
     ("ValueError('what.jsonl: ' + 400_000 * '\N{GRINNING FACE}')", True)],
)  # fmt: skip
def test_a_long_error_is_reported_with_its_traceback(node, locale, raised, is_bug):
    fail = python(f"from mr_dedup.errors import MrDedupError; raise {raised}")
    assert run(node, *fail, **locale).returncode == 1
    report = (node / "failures" / "attempt_1_2_m_000003_0").read_bytes()
    assert len(report) < 100_000
    [failure] = read_failures(report.decode("utf-8", "replace"))
    log = ClientLog(Progress())
    log.job_failure = "task_1_2_m_000003"
    why = explain(log, [failure])
    assert why.is_bug is is_bug
    assert "what.jsonl: " in why.message
    assert why.message.endswith("(<string>:1)" if is_bug else " is why")
    assert len(why.message) <= MAX_MESSAGE


def test_an_input_that_cannot_be_fetched_is_reported(node):
    done = run(node, "true", manifest="0\t/no/such.longs\n")
    assert done.returncode != 0
    [failure] = read_failures((node / "failures" / "attempt_1_2_m_000003_0").read_text())
    assert failure.input == "/no/such.longs"
    assert "No such file" in failure.said


def test_a_command_that_is_not_there_is_reported(node):
    assert run(node, "/no/python", interpreter="/no/python").returncode == 127
    [failure] = read_failures((node / "failures" / "attempt_1_2_m_000003_0").read_text())
    assert (failure.code, failure.input) == (127, "")
    assert "/no/python" in failure.said
