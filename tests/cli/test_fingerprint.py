"""mr-dedup fingerprint from outside: what it writes, counts and refuses."""

import contextlib
import gzip
import io
import json
import resource
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from mr_dedup.cli import document_inputs
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.documents import chunks
from tests.cli.documents import read_jsonl, write_jsonl
from tests.cli.running import Command, by_turns
from tests.fingerprints.test_simhash import oracle
from tests.formats.documents.reading import bomb
from tests.formats.documents.test_document_warc import page

DEFAULTS = FeatureOptions()
BOTH = pytest.mark.parametrize("runner", RUNNERS)

TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "网页去重是一个很老的问题",
    "...",
    "A counter: 1,234 visitors since 1999",
    "",
    "Über den Wolken muss die Freiheit wohl grenzenlos sein",
]
DOCUMENTS = [
    {"id": f"doc-{number}", "text": f"{text} {number // 6 or ''}", "lang": ["en", None][number % 2]}
    for number, text in enumerate(TEXTS * 20)
]


fingerprint = Command("fingerprint")
done, mistake = fingerprint.messages, fingerprint.mistake


def expected(documents, options=DEFAULTS):
    """The rows that documents must become: id, fingerprint, bytes of text."""
    rows = []
    for document in documents:
        value = oracle(document["text"], options)
        signed = None if value is None else value - (value >> 63 << 64)
        rows.append((document["id"], signed, len(document["text"].encode())))
    return rows


def rows_of(path):
    table = pq.read_table(path)
    return list(zip(*(table[name].to_pylist() for name in ("id", "fingerprint", "length"))))  # noqa: B905


@pytest.fixture
def small_chunks(monkeypatch):
    """Let the small inputs of the tests take several tasks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 100)


@by_turns(("ending",), [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_files_and_runners_give_one_answer(tmp_path, capfd, small_chunks, runner, ending):
    path = tmp_path / f"docs{ending}"
    lines = "".join(json.dumps(document) + "\n" for document in DOCUMENTS).encode()
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(DOCUMENTS), path, row_group_size=17)
    else:
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(lines))
    out = tmp_path / "out.parquet"
    said = done(capfd, path, "-o", out, "-r", runner, "--keep-field", "lang")
    assert rows_of(out) == expected(DOCUMENTS)
    assert pq.read_table(out)["lang"].to_pylist() == [d["lang"] for d in DOCUMENTS]
    assert "files: 1, documents: 120, " in said
    # those without a letter or a digit have one as well
    assert ", rejected: 0\n" in said
    assert f"wrote {out} in " in said
    assert [file.name for file in tmp_path.iterdir()] == [path.name, out.name] or len(
        list(tmp_path.iterdir())
    ) == 2


def test_documents_keep_their_order_over_many_tasks(tmp_path, capfd, small_chunks):
    for number in range(0, 120, 10):
        write_jsonl(tmp_path / f"{number:03}.jsonl", DOCUMENTS[number : number + 10])
    outs = []
    for runner in RUNNERS:
        outs.append(tmp_path / f"{runner}.out.parquet")
        said = done(capfd, tmp_path / "*.jsonl", "-o", outs[-1], "-r", runner, "--cores", 3)
        assert "files: 12, " in said
    assert rows_of(outs[0]) == expected(DOCUMENTS)
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_longs_and_text_leave_out_what_has_no_fingerprint(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    rows = [(id, value) for id, value, _ in expected(DOCUMENTS) if value is not None]
    done(capfd, path, "-o", tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "".join(f"{value}\t{id}\n" for id, value in rows)
    done(capfd, path, "-o", tmp_path / "a.longs")
    longs = (tmp_path / "a.longs").read_bytes()
    assert [int.from_bytes(longs[i : i + 8], "big", signed=True) for i in range(0, len(longs), 8)] \
        == [value for _, value in rows]  # fmt: skip


@pytest.mark.parametrize(
    ("features", "weights"), [("words:2", "tf"), ("characters:4", "binary"), ("words", "log-tf")]
)
def test_features_are_those_asked_for_and_told_in_the_file(tmp_path, capfd, features, weights):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS[:12])
    options = FeatureOptions.parse(features, weights)
    out = tmp_path / "out.parquet"
    done(capfd, path, "-o", out, "--features", features, "--weights", weights)
    assert rows_of(out) == expected(DOCUMENTS[:12], options)
    assert pq.read_schema(out).metadata[b"mr_dedup.features"].decode() == str(options)


def test_a_folder_of_pages(tmp_path, capfd):
    folder = tmp_path / "pages"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(TEXTS[0])
    (folder / "deep" / "b.html").write_text(f"<html><script>x</script><p>{TEXTS[3]}</p></html>")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    said = done(capfd, folder, "-o", tmp_path / "out.parquet", "--html", "page")
    rows = rows_of(tmp_path / "out.parquet")
    assert [(id, value) for id, value, _ in rows] == [
        (id, value)
        for id, value, _ in expected(
            [{"id": "a.txt", "text": TEXTS[0]}, {"id": "deep/b.html", "text": TEXTS[3]}]
        )
    ]
    assert "files: 2 (1 of other kinds skipped: 1 .png), documents: 2, " in said


def test_standard_input(tmp_path):
    out = tmp_path / "out.parquet"
    lines = "".join(json.dumps(document) + "\n" for document in DOCUMENTS)
    command = fingerprint.program("-", "-o", out)
    run = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert rows_of(out) == expected(DOCUMENTS)
    run = subprocess.run(
        [*command, "--overwrite", "-r", "local"], input=lines, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == (
        "mr-dedup: error: -r local: standard input is read by one process, -r memory\n"
    )


BAD = [
    (b"not json\n", "is not JSON"),
    (b'{"id": "x"}\n', "has neither 'text' nor 'html'"),
    (b'{"id": "x", "text": "\\ud800"}\n', "its 'text' has half of a surrogate pair"),
    (b'{"id": "x", "text": "\xff"}\n', "is not UTF-8"),
    (b"[" * 5000 + b"]" * 5000 + b"\n", ""),
]


@BOTH
def test_bad_records_are_kept_with_their_places(tmp_path, capfd, small_chunks, runner):
    path = tmp_path / "docs.jsonl"
    good = [json.dumps(document).encode() + b"\n" for document in DOCUMENTS]
    path.write_bytes(b"".join(good[:50] + [line for line, _ in BAD] + good[50:]))
    out = tmp_path / "out.parquet"
    said = done(capfd, path, "-o", out, "-r", runner)
    assert rows_of(out) == expected(DOCUMENTS)
    rejects = read_jsonl(tmp_path / "out.parquet.rejects.jsonl")
    offset = sum(map(len, good[:50]))
    for reject, (line, reason) in zip(rejects, BAD, strict=True):
        assert reject["file"] == str(path)
        assert f"byte {offset}" in reject["position"]
        assert reject["reason"].startswith(reason)
        offset += len(line)
    assert f"5 records could not be read; {out}.rejects.jsonl says why\n" in said
    assert "rejected: 5\n" in said


def test_rejects_go_where_they_are_wanted_and_old_ones_go(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "a"}\nbad\n')
    out, rejects = tmp_path / "out.parquet", tmp_path / "why"
    done(capfd, path, "-o", out, "--rejects", rejects)
    assert len(rejects.read_text().splitlines()) == 1
    assert f"{rejects}: exists" in mistake(
        capfd, path, "-o", tmp_path / "other.parquet", "--rejects", rejects
    )
    path.write_text('{"text": "a"}\n')
    done(capfd, path, "-o", out, "--rejects", rejects, "--overwrite")
    assert not rejects.exists()


@BOTH
def test_strict_ends_at_the_first_bad_record_and_writes_nothing(tmp_path, capfd, runner):
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "a"}\nbad\n{"text": "b"}\n')
    err = mistake(capfd, path, "-o", tmp_path / "out.parquet", "--strict", "-r", runner)
    assert f"{path}, line 2 (byte 14): is not JSON" in err
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_is_one_line(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS[:2])
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.dat").write_text("x")
    out = tmp_path / "out.parquet"
    for arguments, said in [
        ([tmp_path / "no.jsonl", "-o", out], "no.jsonl: no such file"),
        ([tmp_path / "empty", "-o", out], "empty: contains no files"),
        ([tmp_path / "odd.dat", "-o", out], "name it with --format"),
        ([path, "-o", path, "--overwrite"], "docs.jsonl"),
        ([path, "-o", tmp_path / "out.fpz"], "mr-dedup convert makes it packed"),
        ([path, "-o", tmp_path / "out.csv"], "out.csv: expected a name that ends in .parquet"),
        ([path, "-o", tmp_path / "no" / "out.parquet"], "does not exist"),
        ([path, "-o", tmp_path / "a.tsv", "--keep-field", "lang"], "--keep-field: needs OUT"),
        ([path, "-o", out, "--keep-field", "length"], "--keep-field: length is the name"),
        ([path, "-o", out, "--features", "words:0"], "--features"),
        ([path, "-o", out, "--features", "bytes"], "--features"),
        ([path, "-o", out, "--weights", "heavy"], "--weights"),
        ([path, "-o", out, "--id-field", "text"], "--id-field"),
        ([path, "-o", out, "--python-bin", "python3"], "--python-bin: needs -r hadoop"),
        (["s4://x/x.jsonl", "-o", out], "s4://x/x.jsonl: not a URI of a known store"),
        ([path, "-o", "https://x/x.longs"], "https://x/x.longs: https:// is only read"),
        ([path, "-o", out, "--rejects", "hf://x/y"], "hf://x/y: hf:// is only read"),
    ]:
        assert said in mistake(capfd, *arguments), arguments
        assert not out.exists()
    assert path.read_text().count("\n") == 2


def test_an_output_that_exists_is_replaced_only_on_demand(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS[:2])
    out = tmp_path / "out.parquet"
    out.write_text("old")
    assert "exists; give --overwrite" in mistake(capfd, path, "-o", out)
    assert out.read_text() == "old"
    done(capfd, path, "-o", out, "--overwrite")
    assert len(rows_of(out)) == 2


def test_a_file_of_odd_name_and_no_documents(tmp_path, capfd):
    path = tmp_path / "odd 'name' #[1]*.jsonl"
    path.write_text("")
    said = done(capfd, path, "-o", tmp_path / "out.parquet", "-r", "local")
    assert "documents: 0, " in said
    assert rows_of(tmp_path / "out.parquet") == []


def hostile_set(folder: Path) -> None:
    """Write files that are meant to break whoever reads them, with documents among them."""
    folder.mkdir()
    good = b'{"id": "%d", "text": "a good document %d"}\n'
    packed = gzip.compress(b"".join(good % (n, n) for n in range(2000)))
    (folder / "a_broken.jsonl.gz").write_bytes(packed[: len(packed) // 2] + b"\0" * 100)
    (folder / "b_not_utf8.jsonl").write_bytes(
        good % (1, 1) + b'{"id": "2", "text": "\xc3\x28"}\n' + good % (3, 3)
    )
    (folder / "c_surrogates.jsonl").write_bytes(
        good % (4, 4) + b'{"id": "5", "text": "\\ud83d alone"}\n'
    )
    with (folder / "d_long_line.jsonl").open("wb") as file:
        file.write(good % (6, 6))
        file.seek(1 << 30, io.SEEK_CUR)
        file.write(b"\n" + good % (7, 7))
    (folder / "e_deep.html").write_bytes(b"<div>" * 100_000 + b"deep text")
    (folder / "f_tags.html").write_bytes(b"<b>" * 600_000 + b"many")
    (folder / "g_cut.warc").write_bytes(page(1) + page(2)[:-30])
    (folder / "h_bomb.jsonl.gz").write_bytes(
        gzip.compress(good % (8, 8)) + bomb(1 << 30) + gzip.compress(b"\n" + good % (9, 9))
    )
    (folder / "i_parquet.parquet").write_bytes(b"PAR1 is not all it takes PAR1")
    # in another encoding than UTF-8
    (folder / "j_page.txt").write_bytes(b"\xfa\xfb\xfc not text")


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_hostile_set_takes_bounded_memory_and_each_is_accounted_for(tmp_path, runner):
    folder, out = tmp_path / "hostile", tmp_path / "out.parquet"
    hostile_set(folder)
    command = fingerprint.program(folder, "-o", out)
    limit = 2 << 30

    def bound_memory():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    run = subprocess.run(
        [*command, "-r", runner, "--max-record-size", "8MB", "--cores", "2",
         "--max-rejected", "20%"],
        capture_output=True, text=True, check=False, preexec_fn=bound_memory,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    rejects = read_jsonl(Path(f"{out}.rejects.jsonl"))
    reasons = {}
    for reject in rejects:
        reasons.setdefault(reject["file"], []).append(reject["reason"])
    assert {file: len(found) for file, found in reasons.items()} == {
        "a_broken.jsonl.gz": 1,
        "b_not_utf8.jsonl": 1,
        "c_surrogates.jsonl": 1,
        "d_long_line.jsonl": 1,
        "f_tags.html": 1,
        "g_cut.warc": 1,
        "h_bomb.jsonl.gz": 1,
        "i_parquet.parquet": 1,
    }
    assert "gzip" in reasons["a_broken.jsonl.gz"][0]
    assert reasons["d_long_line.jsonl"] == ["is longer than 8388608 bytes"]
    ids = [id for id, _, _ in rows_of(out)]
    assert {"3", "4", "6", "7", "8", "9", "e_deep.html", "urn:uuid:1", "j_page.txt"} <= set(ids)
    # of the broken file what stands before the damage
    assert 100 < len(ids) < 2000
    records = sum(reject.get("records", 1) for reject in rejects)
    assert f"rejected: {records}, files not read to the end: 2\n" in run.stderr


def test_progress_is_for_terminals(tmp_path):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    command = fingerprint.program(path)
    run = subprocess.run(
        [*command, "-o", str(tmp_path / "out.parquet")], capture_output=True, text=True, check=True
    )
    assert "\r" not in run.stderr
    assert run.stderr.count("\n") == 2


def test_an_interrupted_run_leaves_nothing(tmp_path):
    path = tmp_path / "docs.jsonl"
    with path.open("w") as file:
        for number in range(400_000):
            file.write(json.dumps({"id": str(number), "text": TEXTS[0] * 5}) + "\n")
    command = fingerprint.program(path, "-r", "local")
    process = subprocess.Popen([*command, "-o", str(tmp_path / "out.parquet")])
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.7)
    process.terminate()
    assert process.wait(30) in (130, 0)
    if process.returncode == 130:
        assert list(tmp_path.iterdir()) == [path]


def test_one_process_reads_documents_by_default(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    chosen = []
    usual = document_inputs._chunk_bytes
    monkeypatch.setattr(
        document_inputs, "_chunk_bytes", lambda *a, **k: chosen.append(a[1]) or usual(*a, **k)
    )
    done(capfd, path, "-o", tmp_path / "a.parquet")
    assert chosen == ["memory"]
