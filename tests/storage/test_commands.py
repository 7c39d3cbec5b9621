"""Every command with URIs in place of paths: the same results, in every store."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from data_gen.cli.command import main as data_gen
from mr_dedup.cli.main import main
from mr_dedup.formats.documents import chunks
from mr_dedup.pipeline import dedup_stages
from mr_dedup.pipeline.sharded_run import ShardedRun
from mr_dedup.pipeline.stages import Stages
from mr_dedup.storage import writing
from mr_dedup.storage.listing import files_below

RUNNERS = ("memory", "inline", "local")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Documents in several formats with known pairs, fingerprints, and URLs."""
    root = tmp_path_factory.mktemp("made")
    documents = ["documents", "--documents", "40", "--duplicates-per-document", "2", "--seed", "7"]
    data_gen([*documents, "--chunk-size", "100KB", "--out", str(root / "pages")])
    pages = sorted((root / "pages").glob("*.jsonl"))
    assert len(pages) > 2
    packed = pages[-1].with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(pages[-1].read_bytes(), mtime=0))
    pages[-1].unlink()
    (root / "truth.tsv").write_bytes((root / "pages" / "truth.tsv").read_bytes())
    for name in ("truth.tsv", "near-misses.tsv"):
        (root / "pages" / name).unlink()
    fingerprints = ["fingerprints", "--queries", "20", "--corpus", "500", "-k", "3", "--seed", "1"]
    data_gen([*fingerprints, "--duplicates-per-query", "2", "--near-misses", "1", "--out",
              str(root / "longs")])  # fmt: skip
    urls = [f"http://example.org/{number % 50}?b=1&a={number % 3}\n" for number in range(300)]
    (root / "urls.txt").write_text("".join(urls))
    return root


def uploaded(made, place):
    """The files of ``made`` in a store; returns a function from names to URIs."""
    for path in sorted(made.rglob("*")):
        if path.is_file():
            place.write(str(path.relative_to(made)), path.read_bytes())
    return place.of


def run(capfd, *arguments):
    code = main([str(each) for each in arguments])
    printed = capfd.readouterr()
    assert code == 0, printed.err
    return printed.out


READING = {
    "query": ["query", "{longs/corpus-00000.longs}", "--queries", "{longs/queries.longs}"],
    "query of documents": ["query", "{PAGES}", "--queries", "{PAGE}", "--with-distance"],
    "pairs": ["pairs", "{longs/corpus-00000.longs}", "--with", "{longs/queries.longs}"],
    "pairs of documents": ["pairs", "{PAGES}", "--method", "minhash"],
    "distance": ["distance", "page-0", "page-1", "--in", "{PAGES}", "--json"],
    "evaluate": ["evaluate", "{truth.tsv}", "--truth", "{truth.tsv}", "--json"],
    "folds": ["urls", "folds", "{urls.txt}"],
}
"""Commands that print what they find; a name in braces is a file or files of ``made``."""


def pages_in(made):
    return sorted(path.relative_to(made).as_posix() for path in (made / "pages").iterdir())


def arguments_of(words, made, of):
    """The arguments with paths, or URIs by ``of``, in place of names in braces."""
    for word in words:
        if word == "{PAGES}":
            yield from (of(name) for name in pages_in(made))
        elif word == "{PAGE}":
            yield of(pages_in(made)[0])
        elif word.startswith("{"):
            yield of(word[1:-1])
        else:
            yield word


@pytest.mark.parametrize("name", READING)
def test_what_is_read_from_a_store_is_as_from_this_machine(made, place, capfd, name):
    words = READING[name]
    if name == "distance":
        with (made / pages_in(made)[0]).open() as lines:
            ids = [json.loads(next(lines))["id"] for _ in range(2)]
        words = [words[0], *ids, *words[3:]]
    of = uploaded(made, place)
    here = run(capfd, *arguments_of(words, made, lambda each: made / each))
    there = run(capfd, *arguments_of(words, made, of))
    assert here
    # files are called by their URIs, in the order of the documents
    for each in pages_in(made):
        here = here.replace(str(made / each), of(each))
    assert there == here


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_deduplication_of_a_directory_gives_the_same_files(
    made, listing, capfd, tmp_path, runner
):
    of = uploaded(made, listing)
    run(capfd, "dedup", made / "pages", "-o", tmp_path / "here", "--cores", "2")
    options = ["--cores", "2", "-r", runner, "--scratch", "1MB", "--scratch-dir", tmp_path]
    if (listing.scheme, runner) == ("hdfs", "local"):
        assert main(["dedup", of("pages"), "-o", str(tmp_path / "there"), *map(str, options)]) == 2
        assert "its forked tasks cannot read HDFS" in capfd.readouterr().err
        return
    run(capfd, "dedup", of("pages"), "-o", tmp_path / "there", *options)
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    # no copy is left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


def files_of(folder):
    """The content of the files of a result by name, but for those that name inputs or times."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "report.html"
    }


def test_results_are_written_to_a_store(made, writable, capfd, tmp_path):
    of = uploaded(made, writable)
    pages = [made / name for name in pages_in(made)]
    corpus = made / "longs" / "corpus-00000.longs"
    for name, *words in [
        ("found.tsv", "query", corpus, "--queries", made / "longs" / "queries.longs"),
        ("pairs.tsv", "pairs", corpus),
        ("similar.tsv", "pairs", *pages, "--method", "minhash"),
        ("prints.tsv", "fingerprint", *pages),
        ("idf.parquet", "idf", *pages),
        ("corpus.fpz", "convert", corpus),
        ("distinct.tsv", "urls", "bulk", made / "urls.txt"),
    ]:
        run(capfd, *words, "-o", tmp_path / name)
        assert run(capfd, *words, "-o", of(f"out/{name}")) == "", name
        assert writable.read(f"out/{name}") == (tmp_path / name).read_bytes(), name
        assert main([*map(str, words), "-o", of(f"out/{name}")]) == 2
        error = capfd.readouterr().err
        assert error.endswith(f"{of(f'out/{name}')}: exists; give --overwrite to replace it\n")
        run(capfd, *words, "-o", of(f"out/{name}"), "--overwrite")
    run(capfd, "compare", *pages, "--truth", made / "truth.tsv", "-o", of("compared"),
        "--method", "exact")  # fmt: skip
    assert writable.read("compared/results.csv").startswith(b"method")


def test_a_list_of_names_is_read(made, s3, capfd, tmp_path):
    of = uploaded(made, s3)
    names = [of(name) for name in pages_in(made)]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n\n")
    s3.write("names.txt", (tmp_path / "names.txt").read_bytes())
    expected = run(capfd, "fingerprint", *names, "-o", tmp_path / "a.tsv")
    run(capfd, "fingerprint", f"@{tmp_path / 'names.txt'}", "-o", tmp_path / "b.tsv")
    run(capfd, "fingerprint", f"@{of('names.txt')}", "-o", tmp_path / "c.tsv")
    assert expected == ""
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "c.tsv").read_bytes()


def test_an_index_takes_documents_from_a_store(made, s3, capfd, tmp_path):
    of = uploaded(made, s3)
    pages = pages_in(made)
    run(capfd, "index", "create", tmp_path / "here", *(made / name for name in pages))
    run(capfd, "index", "create", tmp_path / "there", *map(of, pages))
    query = ["index", "query", tmp_path / "there", of(pages[0])]
    assert run(capfd, *query) == run(capfd, "index", "query", tmp_path / "here", made / pages[0])


def test_a_result_in_a_store_is_that_of_this_machine(made, writable, capfd, tmp_path):
    of = uploaded(made, writable)
    run(capfd, "dedup", made / "pages", "-o", tmp_path / "here")
    run(capfd, "dedup", of("pages"), "-o", of("kept"))
    expected = files_of(tmp_path / "here")
    assert {name: writable.read(f"kept/{name}") for name in expected} == expected
    assert main(["dedup", of("pages"), "-o", of("kept")]) == 2
    assert capfd.readouterr().err.endswith("kept: exists; give --overwrite to replace it\n")
    run(capfd, "dedup", of("pages"), "-o", of("kept"), "--overwrite")
    assert {name: writable.read(f"kept/{name}") for name in expected} == expected
    listed = run(capfd, "dedup", of("kept/documents"), "-o", tmp_path / "again")
    assert listed == ""


def test_a_decontamination_of_a_store_is_that_of_this_machine(made, writable, capfd, tmp_path):
    first = next(path for path in sorted((made / "pages").iterdir()) if path.suffix == ".jsonl")
    with first.open() as lines:
        words = [json.loads(next(lines))["text"].split() for _ in range(3)]
    items = [{"id": n, "question": " ".join(each[10:50])} for n, each in enumerate(words)]
    exam = "".join(json.dumps(each) + "\n" for each in items).encode()
    (tmp_path / "exam.jsonl").write_bytes(exam)
    of = uploaded(made, writable)
    writable.write("evals/exam.jsonl", exam)
    cut = ["--action", "cut"]
    run(capfd, "decontaminate", made / "pages", "--evals", tmp_path / "exam.jsonl",
        "-o", tmp_path / "here", *cut)  # fmt: skip
    run(capfd, "decontaminate", of("pages"), "--evals", of("evals/exam.jsonl"),
        "-o", of("found"), *cut)  # fmt: skip
    expected = files_of(tmp_path / "here")
    names = {"summary.json", "items/part-00000.parquet", ".files.json"}
    # which name inputs
    assert {name: writable.read(f"found/{name}") for name in expected.keys() - names} == {
        name: content for name, content in expected.items() if name not in names
    }
    summaries = [json.loads(each) for each in (
        writable.read("found/summary.json"), expected["summary.json"]
    )]  # fmt: skip
    assert summaries[0].pop("evals") == of("evals/exam.jsonl")
    assert summaries[0].pop("documents") == of("pages")
    assert summaries[0] == {
        name: value for name, value in summaries[1].items() if name not in ("evals", "documents")
    }
    assert summaries[1]["items_found"] == 3
    run(capfd, "restore", of("found"), "-o", tmp_path / "restored")
    run(capfd, "restore", tmp_path / "here", "-o", tmp_path / "expected")
    assert files_of(tmp_path / "restored") == files_of(tmp_path / "expected")
    assert main(["restore", of("nowhere"), "-o", str(tmp_path / "none")]) == 2
    assert capfd.readouterr().err == f"mr-dedup: error: {of('nowhere')}: no such directory\n"
    assert main(["restore", of("pages"), "-o", str(tmp_path / "none")]) == 2
    assert "not a result of mr-dedup passages or decontaminate" in capfd.readouterr().err
    again = ["decontaminate", of("pages"), "--evals", of("evals/exam.jsonl"), "-o", of("found")]
    assert main(again) == 2
    assert capfd.readouterr().err.endswith("found: exists; give --overwrite to replace it\n")
    run(capfd, *again, "--overwrite")
    assert json.loads(writable.read("found/summary.json"))["action"] == "report"


def test_items_are_searched_for_in_the_chunks_that_are_not_done(
    made, writable, tasks, capfd, monkeypatch
):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 30_000)
    of = uploaded(made, writable)
    exam = {"question": "Which words does not a single page of these have, and why is that so?"}
    writable.write("evals/exam.jsonl", json.dumps(exam).encode())
    words = ["decontaminate", of("pages"), "--evals", of("evals/exam.jsonl"), "--action", "drop"]
    run(capfd, *words, "-o", of("expected"))
    searched = []
    over_documents = ShardedRun.over_documents

    def counted(self, job, name, some, folder):
        searched.append(len(some))
        return over_documents(self, job, name, some, folder)

    monkeypatch.setattr(ShardedRun, "over_documents", counted)
    with monkeypatch.context() as patch:
        patch.setattr(Stages, "finish", interrupted)
        assert main([*words, "-o", of("found")]) == 130
    assert 3 < searched[0] < 20
    assert ".found.unfinished: completed stages; --resume continues" in capfd.readouterr().err
    left = [file.uri for file in files_below(of(".found.unfinished"))]
    done = [uri for uri in left if "/found/0" in uri]
    assert len(done) == searched[0]
    writing.remove(done[2])
    run(capfd, *words, "-o", of("found"), "--resume")
    assert searched[1:] == [1]
    for name in ("summary.json", "matches/part-00002.parquet"):
        assert writable.read(f"found/{name}") == writable.read(f"expected/{name}")


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_run_is_resumed_from_what_its_stages_left_in_a_store(
    made, writable, capfd, tmp_path, monkeypatch
):
    of = uploaded(made, writable)
    run(capfd, "dedup", made / "pages", "-o", tmp_path / "here")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, "resolve", killed)
        assert main(["dedup", of("pages"), "-o", of("kept")]) == 130
    said = capfd.readouterr().err
    assert ".kept.unfinished: completed stages; --resume continues" in said
    assert main(["dedup", of("pages"), "-o", of("kept")]) == 2
    assert "a run was interrupted; --resume continues it" in capfd.readouterr().err
    with monkeypatch.context() as patch:
        # it was finished, and is not run again
        patch.setattr(dedup_stages, "fingerprint", killed)
        run(capfd, "dedup", of("pages"), "-o", of("kept"), "--resume")
    expected = files_of(tmp_path / "here")
    assert {name: writable.read(f"kept/{name}") for name in expected} == expected


def test_results_in_a_store_are_compared_against(made, writable, capfd, tmp_path):
    of = uploaded(made, writable)
    pages = pages_in(made)
    here, there = (lambda name: tmp_path / name), (lambda name: of(f"runs/{name}"))
    for at, source in ((here, lambda name: made / name), (there, of)):
        run(capfd, "dedup", source(pages[0]), "-o", at("first"))
        run(capfd, "dedup", source(pages[1]), "-o", at("second"), "--against", at("first"))
        run(capfd, "dedup", *map(source, pages[2:]), "-o", at("third"), "--against", at("second"),
            "--follow")  # fmt: skip
    references = json.loads(writable.read("runs/third/summary.json"))["against"]
    assert [each["folder"] for each in references] == ["../first", "../second"]
    for name in ("first", "second", "third"):
        expected = files_of(tmp_path / name)
        for file, content in expected.items():
            if file.startswith("decisions/"):
                # it names files and earlier results
                (tmp_path / "there.parquet").write_bytes(writable.read(f"runs/{name}/{file}"))
                columns = ["id", "cluster", "kept_id", "reason", "similarity"]
                found = pq.read_table(tmp_path / "there.parquet", columns=columns)
                assert found.equals(pq.read_table(tmp_path / name / file, columns=columns))
            elif file != ".files.json":
                # it has the size of the summary, which names files
                assert writable.read(f"runs/{name}/{file}") == content, (name, file)
    counted = {}
    for at in (here, there):
        out = tmp_path / ("here.parquet" if at is here else "there.parquet")
        run(capfd, "counts", *map(at, ("third", "first", "second")), "-o", out, "--overwrite")
        counted[at] = pq.read_table(out).drop_columns("result")
    assert counted[here].equals(counted[there])
    # by a run on this machine, and from another store
    run(capfd, "dedup", made / pages[1], "-o", tmp_path / "mixed", "--against", there("first"))
    [reference] = json.loads((tmp_path / "mixed" / "summary.json").read_bytes())["against"]
    assert reference["folder"] == there("first")
    found = run(capfd, "evaluate", of("runs/second/decisions"), "--truth", made / "truth.tsv")
    assert found == run(
        capfd, "evaluate", tmp_path / "second" / "decisions", "--truth", made / "truth.tsv"
    )
    assert main(["dedup", str(made / pages[0]), "-o", "x", "--against", there("no")]) == 2
    assert capfd.readouterr().err.endswith(f"{there('no')}: no such file\n")
    writable.write("runs/first/fingerprints/part-00000.parquet", b"other")
    assert main(["dedup", str(made / pages[0]), "-o", "x", "--against", there("first")]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"mr-dedup: error: {there('first')}/fingerprints: "), said


def test_a_result_in_a_store_is_not_replaced_by_what_is_made_of_it(made, writable, capfd):
    of = uploaded(made, writable)
    run(capfd, "dedup", of("pages"), "-o", of("kept"))
    before = {file.uri for file in files_below(of("kept"))}
    for read in ("kept/documents", "kept"):
        words = ["dedup", of(read), "-o", of("kept") + "/", "--overwrite"]
        assert main(words) == 2
        assert "is read as well; choose another name" in capfd.readouterr().err
    assert {file.uri for file in files_below(of("kept"))} == before
