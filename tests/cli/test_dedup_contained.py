"""mr-dedup dedup --verify contained: against brute force, by every engine."""

import json
import random

import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.features import shingle_sets
from mr_dedup.formats.documents import chunks
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import KEPT, read_jsonl, write_jsonl
from tests.cli.result_tables import tables_of
from tests.cli.running import Command, by_turns
from tests.cli.test_dedup import stopped_after
from tests.features import text_oracle

dedup = Command("dedup")
done, mistake = dedup.messages, dedup.mistake

WORDS = ["--verify", "contained:0.9"]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 6000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 6000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


def pages_with_parts(seed, count=60):
    """Pages, and parts of them: from the beginning, the end or the middle; some of them changed."""
    rng = random.Random(seed)

    def new(size):
        return [f"w{rng.randrange(10**6)}" for _ in range(size)]

    texts = []
    for number in range(count):
        page = new(rng.choice([60, 150, 300]))
        texts.append(page)
        for share in rng.sample([0.2, 0.3, 0.5, 0.7, 0.9, 1], 3):
            size = max(30, int(share * len(page)))
            begin = rng.choice([0, len(page) - size, rng.randrange(len(page) - size + 1)])
            part = page[begin : begin + size]
            kind = rng.randrange(5)
            if kind == 0:
                part[size // 2 : size // 2 + 1] = new(1)
            if kind == 1:
                part = new(size // 2) + part  # contained by less
            if kind == 2:
                part = [*part, "one", "more"]
            texts.append(part)
        if number % 10 == 0:
            texts += [page[:90], page[:40], new(3), [], new(1)]
    rng.shuffle(texts)
    return [
        {"id": f"d{n}", "text": " ".join(text), "score": str(rng.randrange(4))}
        for n, text in enumerate(texts)
    ]


def shingles(document):
    return frozenset(text_oracle.shingles(document["text"], "words", 3))


def by_hand(documents, threshold, key=lambda n: n, earlier=()):
    """The number of the kept document of each, by comparing all with all; of earlier ones below 0.

    Those with more shingles come first, of as many the best by ``key``.
    """
    sets = {n: shingles(document) for n, document in enumerate(documents)}
    sets |= {n - len(earlier): shingles(document) for n, document in enumerate(earlier)}
    kept = sorted((n for n in sets if n < 0), key=lambda n: -len(sets[n]))
    found = {}
    first_of = {}
    for n in sorted(range(len(documents)), key=lambda n: (-len(sets[n]), key(n))):
        same = first_of.setdefault(documents[n]["text"], n)
        if same != n:
            found[n] = found[same]
            continue
        shares = [
            len(sets[n] & sets[k]) / len(sets[n]) if len(sets[k]) >= len(sets[n]) else 0
            for k in kept
        ]
        best = max(shares, default=0)
        found[n] = kept[shares.index(best)] if best >= threshold else n
        if best < threshold:
            kept.append(n)
    return found


def decisions_in(out):
    return pq.read_table(out / "decisions").to_pylist()


def assert_as_by_hand(out, documents, threshold, key=lambda n: n, earlier=()):
    expected = by_hand(documents, threshold, key, earlier)
    everyone = {document["id"]: document for document in [*earlier, *documents]}
    rows = decisions_in(out)
    assert [row["id"] for row in rows] == [document["id"] for document in documents]
    for n, (row, document) in enumerate(zip(rows, documents, strict=True)):
        kept = expected[n]
        name = (documents if kept >= 0 else earlier)[kept]["id"]
        assert row["kept_id"] == name, row
        assert (row["reason"] in KEPT) == (kept == n)
        if kept != n:
            one, other = shingles(document), shingles(everyone[name])
            equal = document["text"] == everyone[name]["text"]
            assert row["reason"] == ("exact_duplicate" if equal else "contained")
            assert row["similarity"] == len(one & other) / len(one) >= threshold
            assert len(other) >= len(one)
    return rows


@by_turns(("threshold",), [0.9, 1, 0.8, 0.9], ["memory", "inline", "local", "memory"])
def test_results_are_those_of_comparing_all(capfd, tmp_path, small_chunks, threshold, runner):
    documents = pages_with_parts(threshold * 10)
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    words = ["--verify", f"contained:{threshold}", "-r", runner]
    err = done(capfd, path, "-o", tmp_path / "out", *words)
    assert err.count("warning: ") == err.count(" have an empty text")
    rows = assert_as_by_hand(tmp_path / "out", documents, threshold)
    assert sum(row["reason"] == "contained" for row in rows) > 60
    assert {row["methods"] for row in rows if row["reason"] == "contained"} == {
        f"winnowing:window={4 if threshold == 0.8 else 6},shingles=auto,symbols=auto"
    }
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["verify"] == f"contained:{float(threshold)}"
    counts = dict.fromkeys(summary["reasons"], 0)
    for row in rows:
        counts[row["reason"]] += 1
    assert summary["reasons"] == counts
    assert summary["documents_dropped"] == counts["contained"] + counts["exact_duplicate"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert "contained in a kept document" in report
    assert f"texts of which at least {float(threshold)} is in a kept one" in report


@pytest.mark.parametrize("keep", [["shortest"], ["highest:score", "longest"]])
def test_of_texts_with_as_many_shingles_the_policy_decides(capfd, tmp_path, keep):
    documents = pages_with_parts(5)
    # copies with another last word: as many shingles
    documents += [
        {"id": f"e{n}", "text": f"{document['text']} x{n}", "score": str(n % 4)}
        for n in range(2)
        for document in documents[:40]
        if len(document["text"].split()) > 100
    ]
    documents = list({document["id"]: document for document in documents}.values())
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    words = [word for policy in keep for word in ("--keep", policy)]
    done(capfd, path, "-o", tmp_path / "out", *WORDS, *words)

    def key(n):
        text = len(documents[n]["text"])
        if keep == ["shortest"]:
            return text, documents[n]["id"], n
        return -int(documents[n]["score"]), -text, documents[n]["id"], n

    assert_as_by_hand(tmp_path / "out", documents, 0.9, key)


def test_earlier_documents_stay_and_what_is_in_them_is_dropped(capfd, tmp_path, small_chunks):
    documents = pages_with_parts(6, 90)
    weeks = [documents[:150], documents[150:300], documents[300:]]
    paths = [write_jsonl(tmp_path / f"week{n}.jsonl", week) for n, week in enumerate(weeks)]
    done(capfd, paths[0], "-o", tmp_path / "kept0", *WORDS)
    earlier = read_jsonl(tmp_path / "kept0" / "documents" / "week0.jsonl")
    against = ["--against", tmp_path / "kept0"]
    done(capfd, paths[1], "-o", tmp_path / "kept1", *WORDS, *against)
    rows = assert_as_by_hand(tmp_path / "kept1", weeks[1], 0.9, earlier=earlier)
    assert sum(row["earlier_result"] is not None for row in rows) > 20
    earlier += read_jsonl(tmp_path / "kept1" / "documents" / "week1.jsonl")
    against = ["--against", tmp_path / "kept1", "--follow"]
    done(capfd, paths[2], "-o", tmp_path / "kept2", *WORDS, *against)
    assert_as_by_hand(tmp_path / "kept2", weeks[2], 0.9, earlier=earlier)


def test_an_earlier_result_by_another_method_is_refused(capfd, tmp_path):
    path = write_jsonl(tmp_path / "pages.jsonl", pages_with_parts(7, 2))
    done(capfd, path, "-o", tmp_path / "kept")
    message = mistake(capfd, path, "-o", tmp_path / "out", *WORDS, "--against", tmp_path / "kept")
    assert "give --method minhash" in message


@pytest.mark.parametrize("stage", ["fingerprint", "cluster", "resolve"])
def test_an_interrupted_run_is_resumed(capfd, tmp_path, monkeypatch, stage):
    documents = pages_with_parts(8, 20)
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    words = [*WORDS, "--method", "winnowing"]
    stopped_after(stage, path, tmp_path / "out", monkeypatch, capfd, *words)
    other = mistake(capfd, path, "-o", tmp_path / "out", "--verify", "contained:0.8", "--resume")
    assert "--verify" in other
    done(capfd, path, "-o", tmp_path / "out", *WORDS, "--resume")
    assert_as_by_hand(tmp_path / "out", documents, 0.9)


@pytest.mark.parametrize("limit", [None, 2000])
def test_engines_and_parts_make_no_difference(capfd, tmp_path, monkeypatch, limit):
    """Also where clusters are split, and each dropped document is in the kept one even so."""
    if limit:
        monkeypatch.setattr(dedup_stages, "VERIFIED", ClusterLimit(limit))
    documents = pages_with_parts(9)
    boilerplate = " ".join(f"b{n}" for n in range(30))
    for document in documents[::2]:
        document["text"] += f" {boilerplate}"
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    for name, size, runner in (("one", 1 << 20, "memory"), ("parts", 6000, "local")):
        for constant in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, constant, size)
        done(capfd, path, "-o", tmp_path / name, *WORDS, "-r", runner)
    one, parts = (len(list((tmp_path / name / "decisions").iterdir())) for name in ("one", "parts"))
    assert one < 3
    assert parts > 9
    assert tables_of(tmp_path / "one") == tables_of(tmp_path / "parts")
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert bool(summary["clusters_split"]) == bool(limit)
    sets = {document["id"]: shingles(document) for document in documents}
    rows = decisions_in(tmp_path / "one")
    kept = {row["id"] for row in rows if row["reason"] in KEPT}
    for row in rows:
        if row["reason"] == "contained":
            assert row["kept_id"] in kept
            one, other = sets[row["id"]], sets[row["kept_id"]]
            assert row["similarity"] == len(one & other) / len(one) >= 0.9
            assert len(other) >= len(one)
    if not limit:
        assert_as_by_hand(tmp_path / "one", documents, 0.9)
    else:
        # boilerplate no longer joins pages; their parts stay with them
        assert sum(row["reason"] == "contained" for row in rows) > 50


def test_a_prefix_of_ten_thousand_pages(capfd, tmp_path):
    rng = random.Random(4)
    prefix = " ".join(f"p{n}" for n in range(60))
    texts = [
        f"{prefix} {' '.join(f'w{rng.randrange(10**6)}' for _ in range(20))}" for _ in range(10_000)
    ]
    texts += [prefix, " ".join(texts[77].split()[30:])]
    documents = [{"id": str(n), "text": text} for n, text in enumerate(texts)]
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", *WORDS)
    dropped = [row for row in decisions_in(tmp_path / "out") if row["reason"] not in KEPT]
    assert [(row["id"], row["kept_id"]) for row in dropped] == [("10000", "0"), ("10001", "77")]


def test_a_part_of_a_text_of_more_shingles_than_are_stored_of_others(capfd, tmp_path):
    """Whole sets are compared: a sample of a book says nothing of a page."""
    rng = random.Random(5)
    book = [f"w{rng.randrange(10**7)}" for _ in range(3 * shingle_sets.MAX_SHINGLES)]
    page = book[40_000:40_050]
    other = [*book[40_000:40_030], *(f"x{n}" for n in range(20))]
    documents = [
        {"id": name, "text": " ".join(text)}
        for name, text in (("page", page), ("other", other), ("book", book))
    ]
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", *WORDS, "-r", "memory")
    done(capfd, path, "-o", tmp_path / "local", *WORDS, "-r", "local")
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "local")
    rows = assert_as_by_hand(tmp_path / "out", documents, 0.9)
    assert [row["reason"] for row in rows] == ["contained", "dissimilar", "first_of_cluster"]


def test_the_python_face_and_sentences(tmp_path):
    words = [f"w{n}" for n in range(100)]
    pages = [" ".join(words), " ".join(words[:40]), " ".join([*words[:30], *"abcdefghij"])]
    result = mr_dedup.dedup(pages, tmp_path / "out", verify="contained:0.9")
    assert result.decisions["reason"].to_pylist() == [
        "first_of_cluster", "contained", "dissimilar"
    ]  # fmt: skip
    assert str(result.why("1")) == (
        "1: dropped, contained in 0 (share 1.00); 3 documents in its cluster"
    )
    assert str(result.why("2")) == (
        "2: kept, not contained in a kept document of its cluster; largest share in kept document "
        "0 (0.73, below 0.9); 3 documents in its cluster"
    )
    assert result.why("2").measure == "contained"


@pytest.mark.parametrize(
    "value", ["contained", "contained:", "contained:0", "contained:1.1", "contained:x", "in:0.9"]
)
def test_what_is_no_criterion_is_refused(capfd, tmp_path, value):
    path = write_jsonl(tmp_path / "pages.jsonl", [])
    with pytest.raises(SystemExit, match="2"):
        dedup(capfd, path, "-o", tmp_path / "out", "--verify", value)
    assert f"argument --verify: '{value}'" in capfd.readouterr().err


def test_methods_that_find_similar_documents_are_warned_of(capfd, tmp_path):
    path = write_jsonl(tmp_path / "pages.jsonl", pages_with_parts(3, 3))
    err = done(capfd, path, "-o", tmp_path / "out", *WORDS, "--method", "minhash")
    assert "may miss documents that are contained in much longer ones" in err
    both = ["--method", "minhash", "--method", "winnowing"]
    err = done(capfd, path, "-o", tmp_path / "both", *WORDS, *both)
    assert err.count("warning: ") == err.count(" have an empty text")
