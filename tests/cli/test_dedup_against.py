"""mr-dedup dedup --against from outside: weeks of a crawl against brute force, and its faults."""

import gzip
import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.formats.documents import chunks
from mr_dedup.pipeline.results import dataset_checksum
from mr_dedup.report.hostile_text import shown_name
from tests.cli.documents import (
    KEPT,
    files_of,
    made_up_documents,
    record_at,
    similarity,
    write_jsonl,
)
from tests.cli.test_dedup import DEFAULTS, by_length, by_score, dedup, done, mistake, stopped_after
from tests.fingerprints.test_simhash import oracle
from tests.formats.documents.test_document_warc import page
from tests.report.reports import elements, shown


@pytest.fixture
def small_parts(monkeypatch):
    """Many chunks of documents."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 3000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


def decided_by_hand(earlier, documents, k, threshold=0.8, key=None):
    """Return for each of ``documents`` its original, if that is an earlier one, and if it is kept.

    ``earlier`` are kept documents in their order. Both are joined into clusters by looking at every
    two; then all are looked at in their order.
    """
    everyone = [*earlier, *documents]
    values = [oracle(document["text"], DEFAULTS) for document in everyone]
    clusters = [{n} for n, value in enumerate(values) if value is not None]
    while True:
        for one in clusters:
            near = [
                other
                for other in clusters
                if other is not one
                and any((values[n] ^ values[m]).bit_count() <= k for n in one for m in other)
            ]
            if near:
                one.update(*near)
                clusters = [cluster for cluster in clusters if cluster not in near]
                break
        else:
            break
    found = {n: n for n in range(len(everyone))}
    for cluster in clusters:
        originals = sorted(n for n in cluster if n < len(earlier))
        new = [n for n in cluster if n >= len(earlier)]
        for n in sorted(new, key=lambda n: (key or (lambda m: m))(n - len(earlier))):
            similarities = {
                m: similarity(everyone[n]["text"], everyone[m]["text"]) for m in originals
            }
            best = max(
                originals, key=lambda m: (similarities[m], -originals.index(m)), default=None
            )
            if threshold is None:
                best = originals[0] if originals else None
            if best is None or similarities[best] < (threshold or 0):
                originals.append(n)
            else:
                found[n] = best
    return [found[len(earlier) + n] for n in range(len(documents))]


def check(out, earlier, documents, originals):
    """Assert that a result is what was expected of it; return the documents that it keeps.

    ``earlier`` are pairs of the name of a result and a document that it keeps.
    """
    first = len(earlier)
    everyone = [*earlier, *((None, document) for document in documents)]
    rows = pq.read_table(out / "decisions").to_pylist()
    assert [row["id"] for row in rows] == [document["id"] for document in documents]
    for n, (row, original) in enumerate(zip(rows, originals, strict=True)):
        source, document = everyone[original]
        assert (row["kept_id"], row["earlier_result"]) == (document["id"], source)
        assert record_at(row["file"], row["position"]) == documents[n]
        folder = Path() if source is None else Path(source, "documents")
        assert record_at(folder / row["kept_file"], row["kept_position"]) == document
        assert (row["reason"] in KEPT) == (original == first + n)
        if original != first + n and row["similarity"] is not None:
            both = similarity(documents[n]["text"], document["text"])
            assert row["similarity"] == pytest.approx(both)
    kept = [document for n, document in enumerate(documents) if originals[n] == first + n]
    summary = json.loads((out / "summary.json").read_text())
    assert (
        summary["documents_read"]
        == len(documents)
        == summary["documents_kept"] + summary["documents_dropped"]
    )
    assert summary["documents_kept"] == len(kept)
    assert summary["earlier_documents"] == first
    assert summary["documents_dropped_for_earlier"] == sum(
        original < first for original in originals
    )
    written = [
        json.loads(line)
        for path in sorted((out / "documents").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert written == kept
    table = pq.read_table(out / "fingerprints")
    assert table["id"].to_pylist() == [document["id"] for document in kept]
    assert [v and v % 2**64 for v in table["fingerprint"].to_pylist()] == [
        oracle(document["text"], DEFAULTS) for document in kept
    ]
    return kept


def weeks_of(seed):
    """The documents of three weeks, most of which are like some of another week."""
    documents = made_up_documents(seed, 90)
    rng = random.Random(seed)
    weeks = [[], [], []]
    for document in documents:
        rng.choice(weeks).append(document)
    return weeks


@pytest.mark.parametrize(
    ("runner", "seed", "policy", "k", "verify"),
    [
        ("inline", 1, "first", 7, 0.8),
        ("inline", 2, "longest", 12, 0.5),
        ("inline", 3, "highest:score", 3, 0.9),
        ("inline", 4, "first", 7, None),
        ("local", 2, "longest", 12, 0.5),
        ("local", 5, "first", 7, 0.8),
    ],
)
def test_weeks_equal_brute_force(tmp_path, capfd, small_parts, runner, seed, policy, k, verify):
    earlier, against = [], []
    for number, documents in enumerate(weeks_of(seed)):
        path = write_jsonl(tmp_path / f"week{number}.jsonl", documents)
        out = tmp_path / f"kept{number}"
        options = ["-k", k, "--keep", policy, "--verify", "off" if verify is None else verify]
        said = done(capfd, path, "-o", out, "-r", runner, "--cores", 2, *options, *against)
        assert ("compared against" in said) == bool(against)
        rank = {"longest": by_length, "highest:score": by_score}.get(policy)
        key = rank(documents) if rank else None
        originals = decided_by_hand([d for _, d in earlier], documents, k, verify, key)
        kept = check(out, earlier, documents, originals)
        # earlier results name themselves, and are named by where they are
        earlier += [(str(out), document) for document in kept]
        against += ["--against", out]
    assert any(original < len(earlier) - len(kept) for original in originals)


def test_splits_files_and_the_chain_make_no_difference(tmp_path, capfd, small_parts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second, third = weeks_of(7)
    write_jsonl(tmp_path / "1.jsonl", first)
    (tmp_path / "2").mkdir()
    for number in range(3):
        write_jsonl(tmp_path / "2" / f"{number}.jsonl", second[12 * number : 12 * number + 12])
    assert len(second) <= 36
    write_jsonl(tmp_path / "3.jsonl", third)
    done(capfd, "1.jsonl", "-o", "kept1")
    done(capfd, "2", "-o", "kept2", "--against", "kept1")
    found = set()
    for number, options in enumerate([
        ["--against", "kept1", "--against", "kept2"],
        ["--against", "kept2", "--follow", "-r", "local"],
        # each once, and those that others were made against first
        ["--against", "kept2", "--against", "kept1", "--against", "kept2", "--follow"],
    ]):  # fmt: skip
        out = tmp_path / f"out{number}"
        assert "--follow includes it" not in done(capfd, "3.jsonl", "-o", out, *options)
        files = files_of(out)
        found.add(tuple(sorted(files.items())))
    assert len(found) == 1
    said = done(capfd, "3.jsonl", "-o", "alone", "--against", "kept2")
    assert "kept2 was made against kept1, which is not compared; --follow" in said
    summary = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert [entry["folder"] for entry in summary["against"]] == ["../kept2"]


def test_what_was_kept_stays_whatever_it_is_like(tmp_path, capfd):
    text = " ".join(f"w{n}" for n in range(60))
    for name in ("one", "two"):
        path = write_jsonl(tmp_path / f"{name}.jsonl", [{"id": name, "text": text}])
        done(capfd, path, "-o", tmp_path / name)
    new = [{"id": "longer", "text": f"{text} more"}, {"id": "same", "text": text}]
    path = write_jsonl(tmp_path / "new.jsonl", new)
    out = tmp_path / "out"
    against = ["--against", tmp_path / "one", "--against", tmp_path / "two"]
    done(capfd, path, "-o", out, "--keep", "longest", *against)
    rows = pq.read_table(out / "decisions").to_pylist()
    assert [row["kept_id"] for row in rows] == ["one", "one"]
    assert {row["earlier_result"] for row in rows} == {str(tmp_path / "one")}
    (cluster,) = pq.read_table(out / "clusters").to_pylist()
    assert (cluster["documents"], cluster["documents_kept"], cluster["earlier_documents"]) == (
        2,
        0,
        2,
    )
    assert files_of(out / "documents") == {}


def test_equal_ids_are_two_documents(tmp_path, capfd):
    text = " ".join(f"w{n}" for n in range(60))
    first = write_jsonl(tmp_path / "1.jsonl", [{"id": "x", "text": text}])
    new = [{"id": "x", "text": "of another kind"}, {"id": "x", "text": text}]
    done(capfd, first, "-o", tmp_path / "kept")
    path = write_jsonl(tmp_path / "2.jsonl", new)
    done(capfd, path, "-o", tmp_path / "out", "--against", tmp_path / "kept")
    rows = pq.read_table(tmp_path / "out" / "decisions").to_pylist()
    assert [(row["kept_id"], row["earlier_result"]) for row in rows] == [
        ("x", None),
        ("x", str(tmp_path / "kept")),
    ]
    assert [row["reason"] for row in rows] == ["unclustered", "exact_duplicate"]


def test_earlier_documents_of_every_format(tmp_path, capfd):
    texts = [" ".join(f"{kind}{n}" for n in range(50)) for kind in "pqrstu"]
    folder = tmp_path / "in"
    (folder / "pages").mkdir(parents=True)
    pq.write_table(pa.table({"name": ["p"], "body": [texts[0]]}), folder / "a.parquet")
    line = json.dumps({"name": "q", "body": texts[1], "id": 7}).encode()
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + line + b"\n\n" + line))
    (folder / "c.warc").write_bytes(page(1, f"<p>{texts[2]}".encode()))
    (folder / "pages" / "e.txt").write_text(texts[3])
    (folder / "pages" / "f.html").write_text(f"<p>{texts[4]}")
    (folder / "d.jsonl").write_text(json.dumps({"name": "u", "html": f"<p>{texts[5]}"}))
    read = ["--text-field", "body", "--id-field", "name"]
    done(capfd, folder, "-o", tmp_path / "kept", *read)
    table = pq.read_table(tmp_path / "kept" / "fingerprints")
    names = ["a.parquet", "b.jsonl.gz", "c.warc", "d.jsonl", "pages/e.txt", "pages/f.html"]
    assert table["file"].to_pylist() == names
    ids = dict(zip("pqrust", table["id"].to_pylist(), strict=True))
    # read by other options than it was: each remembers its own
    new = [{"id": str(n), "text": f"{text} more"} for n, text in enumerate(texts)]
    path = tmp_path / "new.data"
    write_jsonl(path, new)
    out = tmp_path / "out"
    done(capfd, path, "-o", out, "--against", tmp_path / "kept", "--format", "jsonl")
    assert pq.read_table(out / "decisions")["kept_id"].to_pylist() == [
        ids[text[0]] for text in texts
    ]


def test_the_report_counts_earlier_documents_by_themselves(tmp_path, capfd):
    first, second, _ = weeks_of(8)
    kept, out = tmp_path / "kept", tmp_path / "out"
    done(capfd, write_jsonl(tmp_path / "1.jsonl", first), "-o", kept)
    path = write_jsonl(tmp_path / "2.jsonl", second)
    done(capfd, path, "-o", out, "--against", kept, "--share-by", "score")
    summary = json.loads((out / "summary.json").read_text())
    text = shown(elements((out / "report.html").read_bytes()))
    assert f"Of {len(second)} documents" in text
    assert (
        f"compared with {summary['earlier_documents']} earlier documents: "
        f"{summary['documents_dropped_for_earlier']} of the dropped documents duplicate one of "
    ) in text
    assert "The kept document is of an earlier run, " in text
    value = shown_name(f"{kept}, {summary['earlier_documents']} documents")
    assert f"against{value}" in text


def test_earlier_results_without_symbols_are_compared_by_words(capfd, tmp_path):
    first = write_jsonl(tmp_path / "1.jsonl", [{"id": "1", "text": "a < b"}])
    second = write_jsonl(tmp_path / "2.jsonl", [{"id": "2", "text": "a > b"}])
    kept, out = tmp_path / "kept", tmp_path / "out"
    done(capfd, first, "-o", kept, "--symbols", "ignore")
    assert mistake(capfd, second, "-o", out, "--against", kept).endswith("; give --symbols ignore")
    assert "kept 0" in done(capfd, second, "-o", out, "--against", kept, "--symbols", "ignore")


def test_earlier_results_that_cannot_be_are_one_line(tmp_path, capfd):
    first, second, _ = weeks_of(9)
    kept, out = tmp_path / "kept", tmp_path / "out"
    path = write_jsonl(tmp_path / "2.jsonl", second)
    done(capfd, write_jsonl(tmp_path / "1.jsonl", first), "-o", kept, "--max-record-size", 9999)
    for arguments, said in [
        (["--against", tmp_path / "none"], "none: no such directory"),
        (["--against", tmp_path], "not a result of mr-dedup dedup: no summary.json"),
        (["--against", "s4://b/kept"], "s4://b/kept/summary.json: not a URI of a known store"),
        (
            ["--against", kept, "--features", "words:1"],
            "made from words:2, log-tf, normalize nfkc, symbols auto, those of this",
        ),
        (["--against", kept, "--max-record-size", 99], "99 is less than the 9,999 of"),
        (["--follow"], "--follow: needs --against"),
    ]:
        for dry in ([], ["--dry-run"]):
            assert said in mistake(capfd, path, "-o", out, *arguments, *dry), arguments
            assert sorted(p.name for p in tmp_path.iterdir()) == ["1.jsonl", "2.jsonl", "kept"]
    again = ["-o", kept, "--overwrite", "--against", kept]
    assert "is read as well; choose another name" in mistake(capfd, path, *again)
    old = json.loads((kept / "summary.json").read_text())
    for changes, said in [
        ({"fingerprint_version": 0}, "its fingerprints are of version 0"),
        ({"fingerprints_checksum": ""}, "fingerprints: contains other files than those that"),
        ({"fingerprints_checksum": None}, "Expected `str`, got `null`"),
        ({"reading": {}}, "summary.json: lacks what later runs need"),
        ({"reading": {**old["reading"], "html": "none"}}, "summary.json: lacks what"),
        ({"reading": {**old["reading"], "format": "pdf"}}, "summary.json: lacks what"),
        (
            {"against": [{"folder": 1, "documents": 1, "fingerprints_checksum": ""}]},
            "Expected `str`, got `int`",
        ),
        ({"against": [{"folder": "x"}]}, "summary.json: lacks what later runs need"),
    ]:
        (kept / "summary.json").write_text(json.dumps(old | changes))
        assert said in mistake(capfd, path, "-o", out, "--against", kept), changes
    table = pq.read_table(kept / "fingerprints")
    for name in ("../../secret.jsonl", "/etc/secret.jsonl"):
        names = pa.array([name] * len(table), pa.large_string())
        pq.write_table(
            table.set_column(3, "file", names), kept / "fingerprints" / "part-00000.parquet"
        )
        updated = {"fingerprints_checksum": dataset_checksum(kept / "fingerprints")}
        (kept / "summary.json").write_text(json.dumps(old | updated))
        said = mistake(capfd, path, "-o", out, "--against", kept)
        assert "names a file that is not below documents" in said
    (kept / "summary.json").write_bytes(json.dumps(old).encode()[:-9])
    assert "summary.json: lacks" in mistake(capfd, path, "-o", out, "--against", kept)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("drop the table", "fingerprints: no such directory"),
        ("flip the table", "fingerprints: contains other files than those that"),
        ("drop the documents", "documents/1.jsonl: cannot be read: No such file or directory"),
        ("drop a line", "documents/1.jsonl: has changed since it was kept"),
        ("break a line", "documents/1.jsonl, line 1"),
        ("change a text", "has changed since it was kept"),
        ("lengthen a text", "has changed since it was kept"),
    ],
)
def test_damage_to_an_earlier_result_is_one_line(tmp_path, capfd, damage, said):
    texts = [" ".join(f"{kind}{n}" for n in range(50)) for kind in "pqr"]
    documents = [{"id": str(n), "text": text} for n, text in enumerate(texts)]
    path = write_jsonl(tmp_path / "1.jsonl", documents)
    kept = tmp_path / "kept"
    done(capfd, path, "-o", kept)
    table, file = kept / "fingerprints" / "part-00000.parquet", kept / "documents" / "1.jsonl"
    content, lines = bytearray(table.read_bytes()), file.read_text().splitlines(keepends=True)
    if damage == "drop the table":
        shutil.rmtree(table.parent)
    elif damage == "flip the table":
        content[len(content) // 2] ^= 1
        table.write_bytes(content)
    elif damage == "drop the documents":
        file.unlink()
    else:
        changed = {
            "drop a line": "",
            "break a line": "{" + lines[0],
            "change a text": lines[0].replace("p1 p2 p3", "x1 x2 x3"),
            "lengthen a text": lines[0].replace("p1", "p1 p1"),
        }[damage]
        file.write_text("".join([changed, *lines[1:]]))
    out = tmp_path / "out"
    assert said in mistake(capfd, path, "-o", out, "--against", kept)
    assert not out.exists()


def test_a_chain_that_is_broken_is_one_line(tmp_path, capfd):
    weeks = enumerate(weeks_of(5))
    paths = [write_jsonl(tmp_path / f"{number}.jsonl", week) for number, week in weeks]
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    done(capfd, paths[0], "-o", one)
    done(capfd, paths[1], "-o", two, "--against", one)
    against = ["--against", two, "--follow"]
    # both are found where they are together
    (tmp_path / "elsewhere").mkdir()
    for folder in (one, two):
        shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    shutil.rmtree(one)
    assert "one: no such directory, and" in mistake(capfd, paths[2], "-o", out, *against)
    done(capfd, paths[2], "-o", one)
    said = mistake(capfd, paths[2], "-o", out, *against)
    assert "not the result that" in said
    done(capfd, paths[2], "-o", out, "--against", tmp_path / "elsewhere" / "two", "--follow")


def test_a_changed_earlier_result_is_noticed(tmp_path, capfd, monkeypatch):
    first, second, _ = weeks_of(6)
    kept, out = tmp_path / "kept", tmp_path / "out"
    done(capfd, write_jsonl(tmp_path / "1.jsonl", first), "-o", kept)
    path = write_jsonl(tmp_path / "2.jsonl", second)
    done(capfd, path, "-o", tmp_path / "undisturbed", "--against", kept)
    for stage in ("cluster", "resolve"):
        stopped_after(stage, path, out, monkeypatch, capfd, "--against", kept)
        assert "--resume: --against was" in mistake(capfd, path, "-o", out, "--resume")
        done(capfd, path, "-o", out, "--resume", "--against", kept)
        assert files_of(out) == files_of(tmp_path / "undisturbed")
        shutil.rmtree(out)
    stopped_after("cluster", path, out, monkeypatch, capfd, "--against", kept)
    # the rows of earlier documents are intermediates like others
    earlier = min((tmp_path / ".out.unfinished" / "rows").iterdir())
    content = bytearray(earlier.read_bytes())
    content[len(content) // 2] ^= 1
    earlier.write_bytes(content)
    done(capfd, path, "-o", out, "--resume", "--against", kept)
    assert files_of(out) == files_of(tmp_path / "undisturbed")
    shutil.rmtree(out)
    stopped_after("fingerprint", path, out, monkeypatch, capfd, "--against", kept)
    file = kept / "documents" / "1.jsonl"
    file.write_text(file.read_text())
    said = mistake(capfd, path, "-o", out, "--resume", "--against", kept)
    assert "--resume: earlier files was" in said


def test_a_result_against_others_is_evaluated(tmp_path, capfd):
    from mr_dedup.cli.main import main

    text = " ".join(f"w{n}" for n in range(60))
    first = write_jsonl(tmp_path / "1.jsonl", [{"id": "old", "text": text}])
    done(capfd, first, "-o", tmp_path / "kept")
    new = [{"id": "a", "text": f"{text} more"}, {"id": "b", "text": "of another kind"}]
    path = write_jsonl(tmp_path / "2.jsonl", new)
    done(capfd, path, "-o", tmp_path / "out", "--against", tmp_path / "kept")
    truth = tmp_path / "truth.tsv"
    truth.write_text("id_a\tid_b\tjaccard\na\told\t0.98\n")
    assert main(["evaluate", str(tmp_path / "out"), "--truth", str(truth), "--json"]) == 0
    (band, *_) = json.loads(capfd.readouterr().out)["bands"]
    assert (band["true_positives"], band["false_negatives"]) == (1, 0)


def test_nothing_new_and_nothing_earlier(tmp_path, capfd):
    nothing = write_jsonl(tmp_path / "nothing.jsonl", [])
    some = write_jsonl(tmp_path / "some.jsonl", made_up_documents(3))
    done(capfd, nothing, "-o", tmp_path / "empty")
    done(capfd, some, "-o", tmp_path / "kept", "--against", tmp_path / "empty")
    done(capfd, nothing, "-o", tmp_path / "out", "--against", tmp_path / "kept")
    assert len(pq.read_table(tmp_path / "out" / "decisions")) == 0
    done(capfd, some, "-o", tmp_path / "alone")
    plain = [pq.read_table(tmp_path / name / "decisions") for name in ("kept", "alone")]
    assert plain[0].equals(plain[1])
    assert dedup(capfd, some, "-o", tmp_path / "again", "--against", tmp_path / "kept")[0] == 0
    rows = pq.read_table(tmp_path / "again" / "decisions").to_pylist()
    assert {row["reason"] for row in rows} <= {"exact_duplicate", "near_duplicate"}
