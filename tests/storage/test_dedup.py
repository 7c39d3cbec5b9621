"""Results in stores: whole or not at all, whether tasks write there or on this machine.

Tasks of this machine leave their files here, and a stage's are copied once it is finished; those of
a cluster write to the store themselves.
"""

import itertools

import pytest

from mr_dedup.cli import dedup as command
from mr_dedup.cli.main import main
from mr_dedup.cli.uploads import addressed, uploaded
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.pipeline import dedup_stages
from mr_dedup.pipeline.result_folder import DIRECTORY, FetchedResult
from mr_dedup.pipeline.stages import MANIFEST, Stages, recorded_value
from mr_dedup.storage import leases, writing
from mr_dedup.storage.listing import file_info, files_below
from mr_dedup.storage.uris import name_below
from mr_dedup.storage.writing import put, read_small
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16_000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 16_000)


def ended(*_):
    raise KeyboardInterrupt


def downloaded(uri, folder):
    for file in files_below(uri):
        path = folder / name_below(file.uri, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_small(file.uri))
    return folder


def test_a_result_in_a_store(writable, tasks, tmp_path, capfd, monkeypatch):
    documents = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages/pages.jsonl", documents.read_bytes())
    pages = writable.of("pages")
    assert main(["dedup", pages, "-o", str(tmp_path / "here")]) == 0

    out = writable.of("kept")
    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "resolve", ended)
        assert main(["dedup", pages, "-o", out]) == 130
    capfd.readouterr()
    # what the first stages left is used
    with monkeypatch.context() as patch:
        for stage in ("fingerprint", "cluster"):
            patch.setattr(dedup_stages, stage, ended)
        assert main(["dedup", pages, "-o", out, "--resume"]) == 0, capfd.readouterr().err
    found = downloaded(out, tmp_path / "there")
    assert tables_of(found) == tables_of(tmp_path / "here")
    if tasks == "here":
        expected = {**files_of(tmp_path / "here"), "report.html": b""}
        assert {**files_of(found), "report.html": b""} == expected
    assert not files_below(writable.of(".kept.unfinished"))
    # for later runs
    again = ["dedup", pages, "-o", str(tmp_path / "again"), "--against", out]
    assert main(again) == 0, capfd.readouterr().err
    assert not any((tmp_path / "again" / "documents").iterdir())


def test_a_run_that_is_interrupted_in_its_first_stage_is_resumed(
    writable, tasks, tmp_path, capfd, monkeypatch
):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 50))
    writable.write("pages.jsonl", path.read_bytes())
    words = ["dedup", writable.of("pages.jsonl"), "-o", writable.of("kept")]
    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "fingerprint", ended)
        assert main(words) == 130
    assert "--resume continues" in capfd.readouterr().err
    assert main(words) == 2
    assert "a run was interrupted; --resume continues it" in capfd.readouterr().err
    assert main([*words, "--resume"]) == 0, capfd.readouterr().err
    assert not files_below(writable.of(".kept.unfinished"))


def test_what_killed_tasks_were_writing_is_no_part_of_the_result(
    writable, tasks, tmp_path, capfd, monkeypatch
):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages.jsonl", path.read_bytes())
    usual = dedup_stages.keep

    def keep(plan, *arguments):
        made = usual(plan, *arguments)
        # as in HDFS, where a file gets its name once it is whole
        directory = recorded_value(plan.run.records, DIRECTORY)
        result = writable.of(f".kept.unfinished/{directory}/result")
        put(path, f"{result}/documents/_pages-00000.jsonl.1a2b3c4d", overwrite=True)
        if tasks == "here":
            folder = plan.run.records / "result" / ".1a2b3c4d"
            folder.mkdir()
            (folder / "part-00000.parquet").write_bytes(b"cut")
        return made

    monkeypatch.setattr(dedup_stages, "keep", keep)
    words = ["dedup", writable.of("pages.jsonl"), "-o", writable.of("kept")]
    assert main(words) == 0, capfd.readouterr().err
    found = files_below(writable.of("kept"))
    assert len(found) > 3
    assert not [file.uri for file in found if "1a2b3c4d" in file.uri]
    assert not files_below(writable.of(".kept.unfinished"))


def test_files_of_a_stage_are_copied_once_it_is_finished(writable, tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages.jsonl", path.read_bytes())
    before, after = {}, {}
    finish = Stages.finish

    def noting(stages, stage, files, values):
        before[stage] = there()
        finish(stages, stage, files, values)
        after[stage] = there()

    def there():
        beside = writable.of(".kept.unfinished")
        names = {name_below(file.uri, beside) for file in files_below(beside)}
        return {name if name == MANIFEST else name.partition("/")[2] for name in names}

    monkeypatch.setattr(Stages, "finish", noting)
    assert main(["dedup", writable.of("pages.jsonl"), "-o", writable.of("kept")]) == 0
    capfd.readouterr()
    # tasks write nothing there
    assert before["fingerprint"] == {MANIFEST}
    assert after["fingerprint"] == {MANIFEST, "rows.json", "rows/00000000", "rows/00000001"}
    for stage, earlier in (("cluster", "fingerprint"), ("resolve", "cluster"), ("keep", "resolve")):
        assert before[stage] == after[earlier] < after[stage]
    kept = {name for name in after["keep"] if name.startswith("result/")}
    names = {name_below(file.uri, writable.of("kept")) for file in files_below(writable.of("kept"))}
    assert {f"result/{name}" for name in names} - kept == {
        f"result/{name}" for name in ("report.html", "summary.json", ".files.json")
    }


@pytest.mark.parametrize("lost", ["rows/00000000", "attached/00000000", "rows.json"])
@pytest.mark.parametrize("how", ["cut", "changed", "removed"])
def test_files_of_a_stage_that_have_changed_in_the_store_are_noticed(
    writable, tasks, tmp_path, capfd, interrupted, lost, how
):
    """The stage runs again, or the command ends with a line that names the file."""
    beside = writable.of(".kept.unfinished")
    (uri,) = [file.uri for file in files_below(beside) if file.uri.endswith(f"/{lost}")]
    content = bytearray(read_small(uri))
    if how == "removed":
        writing.remove_files([uri])
    else:
        content[len(content) // 2] ^= how == "changed"
        (tmp_path / "changed").write_bytes(content[: None if how == "changed" else -9])
        put(tmp_path / "changed", uri, overwrite=True)
    capfd.readouterr()
    code = main([*interrupted, "--resume"])
    said = capfd.readouterr().err
    # a shard that tasks of a cluster read is compared by its size, and where it is read
    if how == "changed" and tasks == "there" and lost != "rows.json":
        assert code == 2
        assert f"{uri}, byte " in said
        assert "is damaged" in said
    elif how == "removed" and (tasks == "here" or lost == "rows.json"):
        assert code == 2
        assert said.splitlines()[-1].startswith(f"mr-dedup: error: {uri}: no such ")
    else:
        assert code == 0, said
        found = downloaded(writable.of("kept"), tmp_path / "there")
        assert main([*interrupted[:-1], str(tmp_path / "expected")]) == 0
        assert tables_of(found) == tables_of(tmp_path / "expected")


def test_a_result_that_is_written_again_in_another_format_has_that_alone(
    writable, tasks, tmp_path, capfd, monkeypatch
):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages.jsonl", path.read_bytes())
    words = ["dedup", writable.of("pages.jsonl"), "-o", writable.of("kept")]
    with monkeypatch.context() as patch:
        patch.setattr(command, "write_summaries", ended)
        assert main(words) == 130
    assert main([*words, "--resume", "--documents", "jsonl"]) == 0, capfd.readouterr().err
    found = downloaded(writable.of("kept"), tmp_path / "there")
    assert main([*words[:-1], str(tmp_path / "here"), "--documents", "jsonl"]) == 0
    assert files_of(found).keys() == files_of(tmp_path / "here").keys()
    assert tables_of(found) == tables_of(tmp_path / "here")


TWO_RUNS = itertools.product(["fingerprint", "resolve", "keep"], ["--overwrite", "--resume", None])


@pytest.mark.parametrize(
    ("stage", "option", "tasks"),
    [(*each, tasks) for each, tasks in zip(TWO_RUNS, itertools.cycle(["here", "there"]))],
    indirect=["tasks"],
)
def test_of_two_runs_the_first_one_goes_on(
    writable, tasks, tmp_path, capfd, monkeypatch, stage, option
):
    # of as many documents, as large
    for name, seed in (("first", 1), ("second", 2)):
        path = write_jsonl(tmp_path / f"{name}.jsonl", made_up_documents(seed, 150))
        writable.write(f"{name}.jsonl", path.read_bytes())
    first, out = ["dedup", writable.of("first.jsonl"), "-o"], writable.of("kept")
    assert main([*first, str(tmp_path / "here")]) == 0
    second = ["dedup", writable.of("second.jsonl"), "-o", out, *filter(None, [option])]
    usual = getattr(dedup_stages, stage)

    def meanwhile(*arguments):
        monkeypatch.setattr(dedup_stages, stage, usual)
        made = usual(*arguments)
        capfd.readouterr()
        assert main(second) == 2
        assert "/kept: another run is writing it, process" in capfd.readouterr().err
        return made

    monkeypatch.setattr(dedup_stages, stage, meanwhile)
    assert main([*first, out]) == 0, capfd.readouterr().err
    assert tables_of(downloaded(out, tmp_path / "there")) == tables_of(tmp_path / "here")
    assert not files_below(writable.of(".kept.unfinished"))
    assert not files_below(writable.of(".kept.lock"))


@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_a_run_that_was_taken_over_touches_nothing(
    writable, tasks, tmp_path, capfd, monkeypatch, option
):
    """As one of a machine that was stopped for long."""
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages.jsonl", path.read_bytes())
    words = ["dedup", writable.of("pages.jsonl"), "-o"]
    assert main([*words, str(tmp_path / "here")]) == 0
    out, usual = writable.of("kept"), dedup_stages.resolve

    def taken_over(*arguments):
        monkeypatch.setattr(dedup_stages, "resolve", usual)
        made = usual(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(leases.Lease, "_require_ended", lambda *_: None)
            assert main([*words, out, option]) == 0, capfd.readouterr().err
        return made

    monkeypatch.setattr(dedup_stages, "resolve", taken_over)
    capfd.readouterr()
    assert main([*words, out]) == 2
    err = capfd.readouterr().err
    assert err.endswith("/kept: another run has begun to write it, so this one ends\n")
    assert "--resume continues" not in err
    assert tables_of(downloaded(out, tmp_path / "there")) == tables_of(tmp_path / "here")
    assert not files_below(writable.of(".kept.unfinished"))


def test_a_run_that_reads_nothing_leaves_what_a_later_one_has_written(
    writable, tasks, tmp_path, capfd, monkeypatch
):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages.jsonl", path.read_bytes())
    writable.write("bad.jsonl", b"no JSON\n")
    out = writable.of("kept")
    later = ["dedup", writable.of("pages.jsonl"), "-o", out]
    usual = dedup_stages.fingerprint

    def taken_over(*arguments):
        monkeypatch.setattr(dedup_stages, "fingerprint", usual)
        with monkeypatch.context() as patch:
            patch.setattr(dedup_stages, "keep", ended)
            patch.setattr(leases.Lease, "_require_ended", lambda *_: None)
            assert main([*later, "--overwrite"]) == 130
        return usual(*arguments)

    monkeypatch.setattr(dedup_stages, "fingerprint", taken_over)
    assert main(["dedup", writable.of("bad.jsonl"), "-o", out]) == 2
    err = capfd.readouterr().err
    assert err.endswith("/kept: another run has begun to write it, so this one ends\n")
    assert main([*later, "--resume"]) == 0, capfd.readouterr().err
    assert not files_below(writable.of(".kept.unfinished"))


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("stage", ["resolve", "keep"])
def test_a_result_of_this_machine_that_tasks_write_to_a_store(
    writable, tmp_path, capfd, monkeypatch, stage
):
    documents = str(write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150)))
    assert main(["dedup", documents, "-o", str(tmp_path / "here")]) == 0
    out = tmp_path / "out"
    # each command would take a new one
    addresses = iter(["runs/a", "runs/b", "runs/c"])
    monkeypatch.setattr(
        command, "result_folder", lambda _: FetchedResult(out, writable.of(next(addresses)))
    )
    words = ["dedup", documents, "-o", str(out)]

    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, stage, ended)
        assert main(words) == 130
        assert files_below(writable.of("runs/a"))
        # another run discards what the first has left in the store
        assert main([*words, "--overwrite"]) == 130
    assert not files_below(writable.of("runs/a"))
    assert files_below(writable.of("runs/b"))
    capfd.readouterr()
    monkeypatch.setattr(dedup_stages, "fingerprint", ended)
    assert main([*words, "--resume"]) == 0, capfd.readouterr().err
    assert tables_of(out) == tables_of(tmp_path / "here")
    assert not files_below(writable.of("runs"))
    assert sorted(path.name for path in tmp_path.iterdir() if "unfinished" in path.name) == []


def test_documents_of_this_machine_are_copied_once(writable, tmp_path):
    names = ["a page.jsonl", "b.txt", "page"]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x" * number)
    writable.write("there/c.jsonl", b"{}")
    elsewhere = DocumentFile.of_remote(*map(file_info, [writable.of("there/c.jsonl")]))
    local = [DocumentFile(tmp_path / name, name, "text") for name in names]
    folder = writable.of("copies")
    files = addressed([*local, elsewhere], folder)
    given = [chunks.DocumentChunk(7, (file.whole(),)) for file in files]
    found = uploaded(given, folder)
    assert [chunk.number for chunk in found] == [7] * 4
    assert [chunk.name for chunk in found] == [*names, elsewhere.name]
    uris = [chunk.parts[0].file.remote.uri for chunk in found]
    assert uris == [
        f"{folder}/000000.jsonl", f"{folder}/000001.txt", f"{folder}/000002", elsewhere.remote.uri,
    ]  # fmt: skip
    assert [read_small(uri) for uri in uris] == [b"", b"x", b"xx", b"{}"]
    assert all(part.file.path is None for chunk in found for part in chunk.parts)
    # what is there, with its size, is not copied again
    writable.write("copies/000001.txt", b"y")
    writable.write("copies/000002", b"cut off")
    uploaded(given, folder)
    assert [read_small(uri) for uri in uris] == [b"", b"y", b"xx", b"{}"]


@pytest.fixture
def interrupted(writable, tmp_path, monkeypatch, tasks):
    """The words of a run that was interrupted, and the directory in which it was made."""
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 60))
    writable.write("pages.jsonl", path.read_bytes())
    words = ["dedup", writable.of("pages.jsonl"), "-o", writable.of("kept")]
    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "resolve", ended)
        assert main(words) == 130
    return words


def test_a_run_is_resumed_over_the_same_files_alone(s3, tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 60))
    content, uri = path.read_bytes(), s3.of("pages.jsonl")
    s3.write("pages.jsonl", content)
    words = ["dedup", uri, "-o", s3.of("kept")]
    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "resolve", ended)
        assert main(words) == 130
    resumed = [*words, "--resume", "--dry-run"]
    assert main(resumed) == 0
    # the same content, written anew
    s3.write("pages.jsonl", content)
    assert main(resumed) == 0, capfd.readouterr().err
    # other content of the same size
    s3.write("pages.jsonl", content.replace(b"w1", b"w7", 1))
    capfd.readouterr()
    assert main(resumed) == 2
    said = capfd.readouterr().err
    assert said.startswith(f'mr-dedup: error: --resume: files was ["{uri}", ')
    assert said.endswith("; start another run\n")


@pytest.mark.parametrize("options", [["--resume"], ["--overwrite"], ["--resume", "--overwrite"]])
@pytest.mark.parametrize("name", ["table.csv", "summary.json", "documents/pages.jsonl"])
def test_what_others_put_there_meanwhile_stays(writable, capfd, interrupted, options, name):
    writable.write(f"kept/{name}", b'{"documents_read": 7}')
    assert main([*interrupted, *options]) == 2
    error = capfd.readouterr().err
    reason = "is not replaced" if "--overwrite" in options else "exists; give --overwrite"
    assert f"/kept: {'not a result' if '--overwrite' in options else ''}" in error
    assert reason in error
    assert writable.read(f"kept/{name}") == b'{"documents_read": 7}'


@pytest.mark.parametrize("options", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize("name", ["thesis.tex", "0123/thesis.tex"])
def test_what_others_have_by_the_name_of_an_unfinished_run_stays(
    tmp_path, writable, capfd, options, name
):
    path = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 60))
    writable.write(f".kept.unfinished/{name}", b"mine")
    assert main(["dedup", str(path), "-o", writable.of("kept"), *options]) == 2
    assert f"contains {name!r}: not a directory of a run; move it away" in capfd.readouterr().err
    assert writable.read(f".kept.unfinished/{name}") == b"mine"


@pytest.mark.parametrize("option", ["--resume", "--overwrite"])
@pytest.mark.parametrize("had", [False, True])
def test_a_run_that_was_killed_while_it_copied_its_result(
    request, tasks, tmp_path, capfd, monkeypatch, had, option
):
    s3 = request.getfixturevalue("s3")
    for name, seed in (("old", 2), ("pages", 1)):
        path = write_jsonl(tmp_path / f"{name}.jsonl", made_up_documents(seed, 60))
        s3.write(f"{name}.jsonl", path.read_bytes())
    words = ["dedup", s3.of("pages.jsonl"), "-o", s3.of("kept")]
    assert main([*words[:-1], str(tmp_path / "here")]) == 0
    if had:
        assert main(["dedup", s3.of("old.jsonl"), *words[2:]]) == 0
    usual = writing._copied
    with monkeypatch.context() as patch:

        def killed(pairs):
            # the first of them, and nothing is tidied up
            usual(pairs[:2])
            patch.setattr(writing, "remove_files", lambda uris: None)
            raise KeyboardInterrupt

        patch.setattr(writing, "_copied", killed)
        assert main([*words, *(["--overwrite"] if had else [])]) == 130
    names = [name_below(file.uri, s3.of("kept")) for file in files_below(s3.of("kept"))]
    assert names
    assert "summary.json" not in names
    s3.write("kept/note", b"mine")
    capfd.readouterr()
    assert main([*words, option]) == 2
    assert "contains 'note', which is not of its result, and is not replaced" in (
        capfd.readouterr().err
    )
    writing.remove_files([s3.of("kept/note")])
    assert main([*words, option]) == 0, capfd.readouterr().err
    assert tables_of(downloaded(s3.of("kept"), tmp_path / "there")) == tables_of(tmp_path / "here")
    for left in (".kept.unfinished", ".kept.lock"):
        assert not files_below(s3.of(left))
