"""What the hadoop command says, made plain; the command is a stand-in that says it."""

import pytest

from mr_dedup.engines.streaming.hdfs import (
    ClusterFilesystem,
    HadoopCommandError,
    RemoteFile,
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


LISTING = """\
drwxr-xr-x   - a b          0 2026-11-21 12:52 hdfs:///c/sub
-rw-r--r--   1 a b         16 2026-11-21 12:52 hdfs:///c/sub/x y.longs
-rw-r--r--   1 a b          0 2026-11-21 12:52 hdfs:///c/_SUCCESS
-rw-r--r--   1 a b          8 2026-11-21 12:52 hdfs:///c/_old/z.longs
-rw-rw-rw-+  3 a b         24 2026-11-21 12:53 hdfs:///c/b.longs
"""


def test_a_folder_stands_for_what_is_under_it(saying):
    assert saying(LISTING).files(["hdfs:///c/"]) == [
        RemoteFile("hdfs:///c/sub/x y.longs", 16, "2026-11-21 12:52"),
        RemoteFile("hdfs:///c/b.longs", 24, "2026-11-21 12:53"),
    ]


def test_a_glob_stands_for_what_it_matches(saying):
    found = saying(LISTING).files(["hdfs:///{c,d/e}/*"])
    assert [file.uri for file in found] == ["hdfs:///c/sub/x y.longs", "hdfs:///c/b.longs"]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(saying):
    line = LISTING.splitlines()[2]
    [file] = saying(line).files(["hdfs:///c/_SUCCESS"])
    assert (file.uri, file.size_bytes) == ("hdfs:///c/_SUCCESS", 0)


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
    files = saying(LISTING)
    command = tmp_path / "hadoop"
    said = f'echo "${{LC_ALL-}}" >{tmp_path}/locale; cat '
    command.write_text(command.read_text().replace("cat ", said, 1))
    files.files(["hdfs:///c/"])
    assert (tmp_path / "locale").read_text() == f"{expected or locale.get('LC_ALL', '')}\n"


def test_times_of_files_are_of_one_zone_whatever_the_client_s(saying, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    files = saying(LISTING)
    command = tmp_path / "hadoop"
    command.write_text(
        f"{command.read_text()}\n".replace("cat ", f'echo "$TZ" >{tmp_path}/zone; cat ', 1)
    )
    files.files(["hdfs:///c/"])
    assert (tmp_path / "zone").read_text() == "UTC\n"


def test_names_without_globs_are_asked_for_at_once(saying, tmp_path):
    both = "\n".join(
        f"-rw-r--r--   1 a b  8 2026-11-21 12:52 hdfs:///{name}.longs" for name in "ab"
    )
    found = saying(both).files(["hdfs:///b.longs", "hdfs:///a.longs"])
    assert [file.uri for file in found] == ["hdfs:///b.longs", "hdfs:///a.longs"]
    [asked] = (tmp_path / "asked").read_text().splitlines()
    assert asked.endswith("-ls|-R|hdfs:///b.longs|hdfs:///a.longs|")


@pytest.mark.parametrize(
    ("out", "err", "code", "reason"),
    [
        ("", "ls: `hdfs:///c': No such file or directory\n", 1, "hdfs:///c: no such file in the"),
        (LISTING.splitlines()[2], "", 0, "hdfs:///c: contains no files"),
        ("what?", "", 0, "hdfs:///c: cannot read its listing: 'what?'"),
        ("", "ls: Permission denied: user=x\n", 1, "hdfs:///c: Permission denied: user=x"),
    ],
)
def test_what_cannot_be_listed_is_named(saying, out, err, code, reason):
    with pytest.raises(MrDedupError) as raised:
        saying(out, err, code).files(["hdfs:///c"])
    assert str(raised.value).startswith(reason)


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


@pytest.mark.parametrize("failing", [None, "first", "second"])
def test_a_folder_is_replaced_or_stays(failing, tmp_path, monkeypatch):
    """A stand-in of ``hadoop fs`` for folders of this machine, one of whose renames fails."""
    command = tmp_path / "hadoop"
    command.write_text(
        '#!/bin/sh\nwhile [ "$1" != -mv ] && [ "$1" != -rm ]; do shift; done\n'
        'if [ "$1" = -rm ]; then shift 4; exec rm -r "$1"; fi\n'
        f"echo >>{tmp_path}/renames\n"
        f'if [ "$(wc -l <{tmp_path}/renames)" = "$FAILS" ]; then echo "mv: quota" >&2; exit 1; fi\n'
        'exec mv "$2" "$3"\n'
    )
    command.chmod(0o755)
    new, there = tmp_path / "c" / "_new", tmp_path / "c" / "there"
    for folder in (new, there):
        folder.mkdir(parents=True)
        (folder / folder.name).write_text("x")
    monkeypatch.setenv("FAILS", {None: "0", "first": "1", "second": "2"}[failing])
    cluster = ClusterFilesystem([str(command)])
    if failing is None:
        cluster.replace(str(new), str(there))
        assert [path.name for path in (tmp_path / "c").rglob("*")] == ["there", "_new"]
        return
    with pytest.raises(HadoopCommandError, match="quota"):
        cluster.replace(str(new), str(there))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["_new", "there"]
    assert (new / "_new").exists()
    assert (there / "there").exists()


def test_a_file_is_replaced_or_stays(tmp_path):
    """A stand-in of ``hadoop fs`` for files of this machine, whose second rename fails."""
    command = tmp_path / "hadoop"
    command.write_text(
        "#!/bin/sh\n"
        "while :; do case $1 in -put | -test | -rm | -mv) break ;; esac; shift; done\n"
        "case $1 in\n"
        '-put) exec cp "${2#file://}" "$3" ;;\n'
        '-test) exec test "$2" "$3" ;;\n'
        '-rm) shift $(($# - 1)); exec rm -rf "$1" ;;\n'
        "esac\n"
        "case $2 in *.replaced) ;; */_*)\n"
        '[ "$3" != "$FAILS" ] || { echo "mv: quota" >&2; exit 1; } ;; esac\n'
        'exec mv "$2" "$3"\n'
    )
    command.chmod(0o755)
    (tmp_path / "c").mkdir()
    new, there = tmp_path / "new", tmp_path / "c" / "there"
    new.write_text("new")
    there.write_text("old")
    cluster = ClusterFilesystem([str(command)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAILS", str(there))
        with pytest.raises(HadoopCommandError, match="quota"):
            cluster.put_whole(new, str(there), overwrite=True)
    assert [path.name for path in there.parent.iterdir()] == ["there"]
    assert there.read_text() == "old"
    cluster.put_whole(new, str(there), overwrite=True)
    assert [path.name for path in there.parent.iterdir()] == ["there"]
    assert there.read_text() == "new"
