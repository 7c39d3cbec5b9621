"""Files of one name, and outputs in place of inputs: no document and no file of others is lost."""

import json
import shutil

import pytest

from mr_dedup.pipeline import dedup_stages
from mr_dedup.pipeline.result_folder import FetchedResult
from tests.cli.documents import write_jsonl
from tests.cli.running import Command
from tests.storage.servers import WebFile, web_server

dedup, passages, decontaminate = Command("dedup"), Command("passages"), Command("decontaminate")
restore, fingerprint, urls = Command("restore"), Command("fingerprint"), Command("urls", "folds")
convert = Command("convert")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three files of three documents each, and an item, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        write_jsonl(tmp_path / f"{name}.jsonl", documents(name))
    write_jsonl(tmp_path / "exam.json", [{"question": "Which words are on none of these pages?"}])
    return tmp_path


def documents(name):
    return [{"id": f"{name}{n}", "text": f"text {name}{n} of its own, and more"} for n in range(3)]


def ids_in(folder):
    found = []
    for path in sorted(folder.rglob("[!.]*")):
        if path.is_file():
            found += [json.loads(line)["id"] for line in path.read_text().splitlines()]
    return sorted(found)


ALL = [f"{name}{n}" for name in "abc" for n in range(3)]
EXAM = ("--evals", "exam.json", "--action", "drop")
COMMANDS = [(dedup,), (passages, "--cut", "all"), (decontaminate, *EXAM)]


@pytest.mark.parametrize("runner", ["memory", "local"])
@pytest.mark.parametrize(("command", "w"), [(c, w) for c, *w in COMMANDS])
def test_a_file_that_is_named_twice_is_read_once(folder, capfd, command, w, runner):
    names = ["*a.jsonl", "b.jsonl", "./a.jsonl", "c.jsonl"]
    err = command.messages(capfd, *names, "-o", "out", "-r", runner, *w)
    assert "1 file named more than once, the first a.jsonl; each is read once" in err
    assert ids_in(folder / "out" / "documents") == ALL


def test_a_file_beyond_a_link_is_another_one(folder, capfd):
    (folder / "other" / "below").mkdir(parents=True)
    shutil.move("b.jsonl", folder / "other" / "a.jsonl")
    (folder / "link").symlink_to(folder / "other" / "below")
    (folder / "same").symlink_to(folder)
    err = dedup.messages(capfd, "a.jsonl", "link/../a.jsonl", "same/a.jsonl", "-o", "out")
    assert "1 file named more than once, the first same/a.jsonl; each is read once" in err
    assert ids_in(folder / "out" / "documents") == ALL[:6]


@pytest.mark.parametrize(("command", "w"), [(c, w) for c, *w in COMMANDS])
def test_files_whose_names_are_shown_as_one_have_two(folder, capfd, command, w):
    pages = folder / "pages"
    pages.mkdir()
    for name, shown in (("a", "u\x01.jsonl"), ("b", "u.jsonl"), ("c", r"u\x01.jsonl")):
        write_jsonl(pages / shown, documents(name))
    command.messages(capfd, pages, "-o", "out", *w)
    assert ids_in(folder / "out" / "documents") == ALL
    assert len(list((folder / "out" / "documents").iterdir())) == 3


@pytest.mark.parametrize(("command", "w"), [(c, w) for c, *w in COMMANDS])
def test_web_addresses_that_differ_in_their_query(folder, capfd, command, w):
    with web_server() as web:
        for number, name in enumerate("ab", 1):
            content = (folder / f"{name}.jsonl").read_bytes()
            web.files[f"/x.jsonl?sig=s3cr3t{number}"] = WebFile(content)
        names = [f"{web.uri}/x.jsonl?sig=s3cr3t1", "c.jsonl", f"{web.uri}/x.jsonl?sig=s3cr3t2"]
        command.messages(capfd, *names, "-o", "out", *w)
    out = folder / "out"
    assert ids_in(out / "documents") == ALL
    # as files that are read again
    names = {path.name for path in (out / "documents").iterdir()}
    assert names == {"c.jsonl", "x.jsonl", "x-2.jsonl"}
    assert fingerprint.messages(capfd, out / "documents", "-o", "f.tsv")
    for path in out.rglob("*"):
        assert path.is_dir() or b"s3cr3t" not in path.read_bytes(), path


@pytest.mark.parametrize(("command", "w"), [(c, w) for c, *w in COMMANDS])
@pytest.mark.parametrize("read", ["out/documents", "out", "o*t/documents"])
def test_a_result_is_not_replaced_by_what_is_made_of_it(folder, capfd, command, w, read):
    dedup.messages(capfd, "a.jsonl", "b.jsonl", "-o", "out")
    err = command.mistake(capfd, read, "-o", "out", "--overwrite", *w)
    assert "is read as well; choose another name for the result" in err
    assert ids_in(folder / "out" / "documents") == ALL[:6]


def test_a_result_among_its_inputs_is_not_read_by_the_next_run(folder, capfd):
    pages = folder / "pages"
    pages.mkdir()
    shutil.copy("a.jsonl", pages)
    dedup.messages(capfd, "pages/*", "-o", "pages/kept")
    err = dedup.mistake(capfd, "pages/*", "-o", "pages/kept", "--overwrite")
    assert "pages/kept: is read as well" in err


def test_items_within_the_result_are_not_replaced(folder, capfd):
    decontaminate.messages(capfd, "a.jsonl", "-o", "out", *EXAM)
    shutil.copy("exam.json", folder / "out" / "documents" / "exam.json")
    words = ["--evals", "out/documents/exam.json", "-o", "out", "--overwrite"]
    assert "is read as well" in decontaminate.mistake(capfd, "a.jsonl", *words)


def test_convert_does_not_read_what_it_wrote(folder, capfd):
    (folder / "fp").mkdir()
    (folder / "fp" / "a.txt").write_text("0x0123456789abcdef\n")
    convert.messages(capfd, "fp", "-o", "fp/all.longs")
    assert "is read as well" in convert.mistake(capfd, "fp", "-o", "fp/all.longs", "--overwrite")
    assert (folder / "fp" / "all.longs").stat().st_size == 8


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (fingerprint, ["a.jsonl", "-o", "x.tsv", "--rejects", "./x.tsv"]),
        (fingerprint, ["a.jsonl", "-o", "x.tsv", "--rejects", "a.jsonl"]),
        (fingerprint, ["?.jsonl", "-o", "x.tsv", "--rejects", "b.jsonl"]),
        (urls, ["urls.txt", "--rejects", "urls.txt"]),
    ],
)
def test_rejects_replace_no_other_file(folder, capfd, command, words):
    (folder / "urls.txt").write_text("http://a.example/\n")
    (folder / "x.tsv").write_text("of before")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    err = command.mistake(capfd, *words, "--overwrite")
    assert "is named by another argument as well" in err or "is read as well" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_rejects_may_be_called_as_an_option_is(folder, capfd):
    words = ["a.jsonl", "--format", "jsonl", "-o", "x.tsv", "--rejects", "jsonl"]
    fingerprint.messages(capfd, *words)
    # and not as the output, of which none is there yet
    words = ["a.jsonl", "-o", "y.tsv", "--rejects", folder / "y.tsv"]
    assert "is named by another argument as well" in fingerprint.mistake(capfd, *words)


def test_what_appears_in_place_of_the_result_stays(folder, capfd, monkeypatch):
    usual = dedup_stages.keep

    def late(*arguments):
        made = usual(*arguments)
        (folder / "out").mkdir()
        (folder / "out" / "notes.txt").write_text("precious")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "keep", late)
        code, _, err = dedup(capfd, "a.jsonl", "-o", "out")
    assert code == 2
    assert "out: has appeared since the run began" in err
    assert (folder / "out" / "notes.txt").read_text() == "precious"
    # once it is elsewhere the run goes on
    (folder / "out").rename(folder / "elsewhere")
    dedup.messages(capfd, "a.jsonl", "-o", "out", "--resume")
    assert ids_in(folder / "out" / "documents") == ALL[:3]


@pytest.mark.parametrize("command", [dedup, passages])
@pytest.mark.parametrize("summary", ['{"x": 1}', "[]", "no JSON", '{"documents_read": 3}'])
def test_a_directory_of_others_is_not_replaced(folder, capfd, command, summary):
    thesis = folder / "exp" / "thesis"
    thesis.mkdir(parents=True)
    (folder / "exp" / "summary.json").write_text(summary)
    err = command.mistake(capfd, "a.jsonl", "-o", "exp", "--overwrite")
    assert "and is not replaced" in err
    assert thesis.is_dir()


def test_restore_removes_nothing_of_others(folder, capfd):
    (folder / "project").mkdir()
    passages.messages(capfd, "a.jsonl", "-o", "project/cut", "--cut", "all")
    err = restore.mistake(capfd, "project/cut", "-o", "project", "--overwrite")
    assert "project: is read as well" in err
    (folder / ".fresh.old").mkdir()
    restore.messages(capfd, "project/cut", "-o", "fresh")
    assert (folder / ".fresh.old").is_dir()
    assert ids_in(folder / "fresh") == ALL[:3]


def test_a_result_that_was_not_fetched_yet_is_not_complete(tmp_path):
    """That tasks have written it, and that there is an earlier one, does not make it complete."""
    result = FetchedResult(tmp_path / "out", "hdfs:///run")
    result.out.mkdir()
    result.work.mkdir()
    (result.work / "manifest.json").write_text('{"done": {"keep": {}}}')
    assert not result.was_published()
    (result.work / "fetched").touch()
    assert result.was_published()
    (result.work / "result").mkdir()
    assert not result.was_published()


def test_a_copy_of_a_result_that_is_not_whole_is_not_evaluated(folder, capfd):
    dedup.messages(capfd, "a.jsonl", "-o", "out")
    (folder / "out" / "summary.json").unlink()
    (folder / "truth.tsv").write_text("a0\ta1\t0.9\n")
    err = Command("evaluate").mistake(capfd, "out", "--truth", "truth.tsv")
    assert err == "mr-dedup: error: out: not a result of mr-dedup dedup: no summary.json\n"
