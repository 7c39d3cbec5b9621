"""Directories that commands replace: only those that a command has made, with nothing else."""

import os
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.pipeline.result_folder import LocalResult
from tests.cli.documents import files_of, made_up_documents, write_jsonl


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    docs = write_jsonl(folder / "docs.jsonl", made_up_documents(7))
    question = " ".join(f"word{number}" for number in range(30))
    exam = write_jsonl(folder / "exam.jsonl", [{"question": question}])
    cut = folder / "cut"
    assert main(["passages", str(docs), "--cut", "all", "-o", str(cut)]) == 0
    commands = {
        "dedup": ["dedup", docs],
        "passages": ["passages", docs],
        "decontaminate": ["decontaminate", docs, "--evals", exam],
        "restore": ["restore", cut],
    }
    for name, words in commands.items():
        assert main([*map(str, words), "-o", str(folder / f"of-{name}")]) == 0
    return folder, commands


def put_note(out):
    (out / "note.txt").write_text("mine")


def put_hidden(out):
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("mine")


def put_empty_directory(out):
    (out / "plans").mkdir()


def put_link(out):
    (out / "elsewhere").symlink_to(out.parent)


def put_dangling_link(out):
    (out / "nowhere").symlink_to("nothing")


def change(out):
    path = max(path for path in out.rglob("[!.]*") if path.is_file())
    path.write_bytes(path.read_bytes() + b"mine")


def link_instead(out):
    path = max(path for path in out.rglob("[!.]*") if path.is_file())
    path.rename(out.parent / "moved")
    path.symlink_to(out.parent / "moved")


def put_note_below(out):
    folder = next(path for path in [*out.glob("documents"), *out.glob("*"), out] if path.is_dir())
    (folder / "note.txt").write_text("mine")


def remove_list(out):
    (out / ".files.json").unlink()


def replace_list(out):
    (out / ".files.json").write_text('{"files": {}, "checksum": ""}')


def become_foreign(out):
    shutil.rmtree(out)
    out.mkdir()
    (out / "summary.json").write_text('{"documents_read": 1, "format_version": 3}')
    (out / "documents").mkdir()
    (out / "documents" / "a.jsonl").write_text("mine")


CHANGES = [
    put_note, put_hidden, put_empty_directory, put_link, put_dangling_link, change, link_instead,
    put_note_below, remove_list, replace_list, become_foreign,
]  # fmt: skip


@pytest.mark.parametrize("name", ["dedup", "passages", "decontaminate", "restore"])
def test_what_is_no_whole_result_is_not_replaced(made, tmp_path, capfd, name):
    folder, commands = made
    words = [*map(str, commands[name]), "-o", str(tmp_path / "out"), "--overwrite"]
    for change in CHANGES:
        out = tmp_path / "out"
        shutil.copytree(folder / f"of-{name}", out)
        change(out)
        before = files_of(tmp_path)
        assert main(words) == 2, change.__name__
        error = capfd.readouterr().err.splitlines()[-1]
        assert error.startswith(f"mr-dedup: error: {out}: "), change.__name__
        assert error.endswith(", and is not replaced"), change.__name__
        assert files_of(tmp_path) == before
        shutil.rmtree(out)
        (tmp_path / "moved").unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["dedup", "passages", "decontaminate", "restore"])
def test_a_whole_result_is_replaced_where_it_was_copied(made, tmp_path, capfd, name):
    folder, commands = made
    out = tmp_path / "out"
    shutil.copytree(folder / "of-dedup", out)
    assert main([*map(str, commands[name]), "-o", str(out), "--overwrite"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / ".files.json").read_bytes() == (folder / f"of-{name}/.files.json").read_bytes()


def test_a_directory_in_the_way_is_not_removed(made, tmp_path, capfd):
    """By the name that the replaced result has meanwhile."""
    folder, commands = made
    shutil.copytree(folder / "of-restore", tmp_path / "out")
    (tmp_path / ".out.old").mkdir()
    (tmp_path / ".out.old" / "thesis.tex").write_text("mine")
    before = files_of(tmp_path)
    words = [*map(str, commands["restore"]), "-o", str(tmp_path / "out"), "--overwrite"]
    assert main(words) == 2
    assert ".out.old: not a result of mr-dedup" in capfd.readouterr().err
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("how", [[], ["--resume"], ["--overwrite"], ["--resume", "--overwrite"]])
@pytest.mark.parametrize("name", ["dedup", "passages", "decontaminate"])
def test_nothing_is_written_through_a_link_to_a_directory(made, tmp_path, capfd, name, how):
    """By the name of what an unfinished run leaves."""
    _, commands = made
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("mine")
    (tmp_path / ".out.unfinished").symlink_to("precious")
    before = files_of(tmp_path)
    assert main([*map(str, commands[name]), "-o", str(tmp_path / "out"), *how]) == 2
    assert ".out.unfinished: not a directory of a run; move it away" in capfd.readouterr().err
    assert files_of(tmp_path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", [[], ["--resume"], ["--overwrite"], ["--resume", "--overwrite"]])
@pytest.mark.parametrize("kind", ["unfinished", "ended"])
@pytest.mark.parametrize("name", ["dedup", "passages", "decontaminate"])
@pytest.mark.parametrize("is_there", [False, True])
def test_directories_by_the_names_of_those_of_runs_stay(
    made, tmp_path, capfd, name, kind, how, is_there
):
    folder, commands = made
    if is_there:
        shutil.copytree(folder / f"of-{name}", tmp_path / "out")
    (tmp_path / f".out.{kind}").mkdir()
    (tmp_path / f".out.{kind}" / "thesis.tex").write_text("mine")
    before = files_of(tmp_path)
    assert main([*map(str, commands[name]), "-o", str(tmp_path / "out"), *how]) == 2
    assert f".out.{kind}: not a directory of a run; move it away" in capfd.readouterr().err
    assert files_of(tmp_path) == before


@pytest.fixture(scope="module")
def files(made):
    folder, _ = made
    docs = folder / "docs.jsonl"
    for words in (["fingerprint", docs, "-o", folder / "a.longs"],
                  ["fingerprint", docs, "-o", folder / "b.longs"],
                  ["idf", docs, "-o", folder / "idf.parquet"]):  # fmt: skip
        assert main([*map(str, words)]) == 0
    pq.write_table(pa.Table.from_pylist(made_up_documents(7)), folder / "docs.parquet")
    return folder


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["counts", "of-dedup"], "of-dedup/decisions/part-00000.parquet"),
        (["counts", "of-dedup"], "of-dedup/fingerprints/part-00000.parquet"),
        (["convert", "a.longs", "b.longs"], "b.longs"),
        (["pairs", "a.longs", "b.longs"], "b.longs"),
        (["pairs", "docs.jsonl", "--method", "minhash"], "docs.jsonl"),
        (["query", "a.longs", "--queries", "b.longs"], "a.longs"),
        (["query", "a.longs", "--queries", "b.longs"], "b.longs"),
        (["fingerprint", "docs.parquet"], "docs.parquet"),
        (
            ["fingerprint", "docs.jsonl", "--weights", "tf-idf", "--idf", "idf.parquet"],
            "idf.parquet",
        ),
        (["idf", "docs.parquet"], "docs.parquet"),
    ],
)
def test_files_that_are_read_are_not_replaced(
    files, tmp_path, monkeypatch, capfd, words, out, is_link
):
    folder = tmp_path / "all"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    named = out
    if is_link:
        named = f"link{out[out.rindex('.') :]}"
        (folder / named).symlink_to(out)
    before = files_of(folder)
    assert main([*words, "-o", named, "--overwrite"]) == 2
    assert f"{named}: is read as well; choose another name" in capfd.readouterr().err
    assert files_of(folder) == before


@pytest.fixture
def published(made, tmp_path, monkeypatch):
    """A run that was killed when its result had appeared; its arguments."""
    _, commands = made
    words = [*map(str, commands["dedup"]), "-o", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr(LocalResult, "end", lambda self: os.kill(os.getpid(), signal.SIGINT))
        assert main(words) == 130
    assert sorted(path.name for path in tmp_path.glob(".out.*[!k]")) == [".out.unfinished"]
    return words


@pytest.mark.parametrize("name", ["thesis.tex", "a/thesis.tex"])
def test_a_directory_by_the_name_of_a_run_that_ended_stays(published, tmp_path, capfd, name):
    ended = tmp_path / ".out.ended"
    (ended / name).parent.mkdir(parents=True)
    (ended / name).write_text("mine")
    for how in (["--resume"], ["--overwrite"]):
        assert main([*published, *how]) == 2
        assert f"{ended}: not a directory of a run; move it away" in capfd.readouterr().err
        assert (ended / name).read_text() == "mine"
    shutil.rmtree(ended)
    assert main([*published, "--resume"]) == 0
    assert not (tmp_path / ".out.unfinished").exists()
    assert not ended.exists()


def test_no_run_is_ended_through_a_link(published, tmp_path, capfd):
    (tmp_path / ".out.unfinished").rename(tmp_path / "precious")
    (tmp_path / "precious" / "thesis.tex").write_text("mine")
    (tmp_path / ".out.unfinished").symlink_to("precious")
    before = files_of(tmp_path)
    for how in ([], ["--resume"], ["--overwrite"]):
        assert main([*published, *how]) == 2
        assert "not a directory of a run; move it away" in capfd.readouterr().err
        assert files_of(tmp_path) == before


def test_what_could_not_be_removed_is_still_of_a_run(published, tmp_path, monkeypatch):
    def removed(path, **_):
        """As in NFS, where a file that is open elsewhere stays by another name."""
        (Path(path) / ".nfs1").touch()

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", removed)
        assert main([*published, "--resume"]) == 0
    assert main([*published, "--overwrite"]) == 0
    assert not (tmp_path / ".out.ended").exists()
    assert not (tmp_path / ".out.unfinished").exists()
