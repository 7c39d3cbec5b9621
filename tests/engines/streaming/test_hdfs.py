"""What the hadoop command says, made plain; the command is a stand-in that says it."""

import pytest

from mr_dedup.engines.streaming.hdfs import (
    ClusterFilesystem,
    HadoopCommandError,
    reason_of,
)
from mr_dedup.errors import MrDedupError


@pytest.fixture
def saying(tmp_path):
    """Make a hadoop command that prints and fails as asked; it records its arguments."""

    def make(out="", err="", code=0):
        command = tmp_path / "hadoop"
        (tmp_path / "out").write_text(out)
        (tmp_path / "err").write_text(err)
        command.write_text(
            f"#!/bin/sh\nprintf '%s|' \"$@\" >>{tmp_path}/asked\necho >>{tmp_path}/asked\n"
            f"cat {tmp_path}/out; cat {tmp_path}/err >&2; exit {code}\n"
        )
        command.chmod(0o755)
        return ClusterFilesystem([str(command)])

    return make


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, ""),
        ({"LC_CTYPE": "en_US.utf8", "LANG": "C"}, ""),
    ],
)
def test_names_that_are_not_ascii_reach_java(saying, tmp_path, monkeypatch, locale, expected):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    files = saying()
    command = tmp_path / "hadoop"
    said = f'echo "${{LC_ALL-}}" >{tmp_path}/locale; cat '
    command.write_text(command.read_text().replace("cat ", said, 1))
    files.exists("hdfs:///c")
    assert (tmp_path / "locale").read_text() == f"{expected or locale.get('LC_ALL', '')}\n"


def test_a_command_that_cannot_be_run_is_named(tmp_path):
    with pytest.raises(MrDedupError, match="/hadoop: cannot run this hadoop command: No such file"):
        ClusterFilesystem([f"{tmp_path}/hadoop"]).exists("hdfs:///x")


def test_a_failure_says_which_command_and_why(saying, tmp_path):
    with pytest.raises(HadoopCommandError, match=r"^hadoop fs -put: no room$"):
        saying(err="INFO x\nput: no room\n\tat y\n", code=1).put(tmp_path / "a b", "hdfs:///x")
    assert "|-put|file://" in (tmp_path / "asked").read_text()
    assert "/a%20b|hdfs:///x|" in (tmp_path / "asked").read_text()


def test_reasons_are_found_among_what_java_prints():
    assert reason_of("ERROR: JAVA_HOME is not set.\n") == "ERROR: JAVA_HOME is not set."
    assert reason_of("") == "failed without a message"
    refused = (
        "ls: Call From vm/127.0.0.1 to localhost:9 failed on connection exception: "
        "java.net.ConnectException: Connection refused; For more details see:  http://x"
    )
    assert reason_of(refused) == "the cluster cannot be reached at localhost:9: Connection refused"


@pytest.mark.parametrize("failing", [None, "first", "second", "foreign"])
def test_a_folder_is_replaced_or_stays(failing, tmp_path, monkeypatch):
    """A stand-in of ``hadoop fs`` for folders of this machine, one of whose renames fails."""
    command = tmp_path / "hadoop"
    command.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -mv ] && [ "$1" != -rm ] && [ "$1" != -ls ]; do shift; done\n'
        'if [ "$1" = -ls ]; then exec find "$4" -mindepth 1; fi\n'
        'if [ "$1" = -rm ]; then shift 4; exec rm -r "$1"; fi\n'
        f"echo >>{tmp_path}/renames\n"
        f'if [ "$(wc -l <{tmp_path}/renames)" = "$FAILS" ]; then echo "mv: quota" >&2; exit 1; fi\n'
        'exec mv "$2" "$3"\n'
    )
    command.chmod(0o755)
    new, there = tmp_path / "c" / "_new", tmp_path / "c" / "there"
    for folder in (new, there):
        folder.mkdir(parents=True)
        (folder / "part-00000").write_text(folder.name)
    monkeypatch.setenv("FAILS", {"first": "1", "second": "2"}.get(failing, "0"))
    cluster = ClusterFilesystem([str(command)])
    if failing is None:
        cluster.replace(str(new), str(there))
        assert [path.name for path in (tmp_path / "c").iterdir()] == ["there"]
        assert (there / "part-00000").read_text() == "_new"
        return
    if failing == "foreign":
        (there / "notes.txt").write_text("mine")
    reason = "contains 'notes.txt', which is not of a job" if failing == "foreign" else "quota"
    with pytest.raises(MrDedupError, match=reason):
        cluster.replace(str(new), str(there))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["_new", "there"]
    assert (new / "part-00000").read_text() == "_new"
    assert (there / "part-00000").read_text() == "there"


@pytest.fixture
def copying(tmp_path):
    """A stand-in of ``hadoop fs`` that copies to folders of this machine, as Hadoop does."""
    command = tmp_path / "hadoop"
    command.write_text(
        '#!/bin/sh\nif [ "$1" = version ]; then echo Hadoop 3.4.1; exit; fi\n'
        'while [ "$1" != -mkdir ] && [ "$1" != -put ]; do shift; done\n'
        f"echo $1 >>{tmp_path}/asked\n"
        'if [ "$1" = -mkdir ]; then exec mkdir -p "$3"; fi\n'
        'if ! [ -d "${3%/*}" ]; then\n'
        "    echo \"put: \\`$3': No such file or directory: \\`${3%/*}'\" >&2; exit 1\n"
        "fi\n"
        'exec cp -R "${2#file://}" "$3"\n'
    )
    command.chmod(0o755)
    return ClusterFilesystem([str(command)])


def test_the_parents_of_a_new_folder_are_made_if_they_are_not_there(copying, tmp_path):
    (tmp_path / "job" / "files").mkdir(parents=True)
    for number, asked in [(0, ["-put", "-mkdir", "-put"]), (1, ["-put"])]:
        copying.put_new(tmp_path / "job", f"{tmp_path}/user/tmp/{number}")
        assert (tmp_path / "user" / "tmp" / str(number) / "files").is_dir()
        assert (tmp_path / "asked").read_text().split() == asked
        (tmp_path / "asked").unlink()


def test_a_new_folder_that_cannot_be_copied_is_not_tried_twice(saying, tmp_path):
    with pytest.raises(HadoopCommandError, match=r"^hadoop fs -put: no room$"):
        saying(err="put: no room\n", code=1).put_new(tmp_path / "job", "hdfs:///x/y")
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
