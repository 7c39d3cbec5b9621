"""mr-dedup compare from outside: its figures against sets of pairs, and usage errors."""

import csv
import functools
import gzip
import itertools
import json
import os
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from mr_dedup.cli import compare as command
from mr_dedup.features.options import FeatureOptions
from tests.cli.documents import files_of, made_up_documents, similarity, write_jsonl
from tests.cli.running import Command
from tests.cli.test_dedup_methods import bands
from tests.features import frequency_oracle
from tests.fingerprints.test_simhash import oracle
from tests.signatures import signature_oracle
from tests.signatures.test_minwise import expected as min_hashes

FILES = [
    ".files.json",
    "cost-f1.svg",
    "cost-verified-f1.svg",
    "precision-recall.svg",
    "results.csv",
]


@functools.cache
def made_up():
    texts = [each["text"] for each in made_up_documents(3)]
    documents = [{"id": f"p{n}", "text": text} for n, text in enumerate([*texts, *contested()])]
    return documents, truth_of(documents)


def contested():
    """Texts that some methods match and others do not."""
    rng = random.Random(6)
    words = [f"x{rng.getrandbits(40):x}" for _ in range(400)]
    # in their last word, behind 512 bytes
    text = " ".join(words[:90])
    found = [text, f"{text} other"]
    # in one of eight lines, the first
    lines = [" ".join(words[i : i + 9]) for i in range(100, 172, 9)]
    found += ["\n".join(lines), "\n".join(["in other words", *lines[1:]])]
    # in case
    text = " ".join(words[200:230])
    found += [text, text.upper()]
    # in the order of their keywords by weight; in their weights, by the same order
    for counts in [(20, 21), (21, 20)], [(4, 5), (8, 10)]:
        common = [words.pop() for _ in range(10)]
        for fewer, more in counts:
            repeated = [*common[:5] * fewer, *common[5:] * more]
            found.append(" ".join([*repeated, *(words.pop() for _ in range(5))]))
    return found


def all_pairs(documents):
    return list(itertools.combinations(range(len(documents)), 2))


def truth_of(documents, min_similarity=0.6):
    """All pairs with at least this similarity."""
    found = {}
    for n, m in all_pairs(documents):
        texts = [documents[i]["text"] for i in (n, m)]
        if similarity(*texts) >= min_similarity:
            found[n, m] = similarity(*texts)
    return found


def write_truth(path, documents, truth):
    lines = [f"{documents[m]['id']}\t{documents[n]['id']}\t{j!r}\n" for (n, m), j in truth.items()]
    path.write_text("id_a\tid_b\tjaccard\n" + "".join(lines))
    return path


@pytest.fixture
def corpus(tmp_path):
    """Documents, their files and the true pairs, with OUT as the last argument."""
    documents, truth = made_up()
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    pairs = write_truth(tmp_path / "truth.tsv", documents, truth)
    return documents, truth, [path, "--truth", pairs, "-o", tmp_path / "out"]


compare = Command("compare")
done = compare.done


def usage_error(capfd, *arguments):
    code, out, err = compare(capfd, *arguments)
    assert (code, out) == (2, "")
    # nothing was read and reported before
    (said,) = err.splitlines()
    assert said.startswith("mr-dedup: error: ")
    return said.removeprefix("mr-dedup: error: ")


def results(out):
    with (out / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# the oracles


def sharing(keys_of, min_shared=1):
    def found(documents):
        keys = [Counter(keys_of(document["text"])) for document in documents]
        return {
            (n, m) for n, m in all_pairs(documents) if (keys[n] & keys[m]).total() >= min_shared
        }

    return found


def near(k, features):
    def found(documents):
        options = FeatureOptions.parse(features, "log-tf")
        values = [oracle(document["text"], options) for document in documents]
        return {
            (n, m)
            for n, m in all_pairs(documents)
            if None not in (values[n], values[m]) and (values[n] ^ values[m]).bit_count() <= k
        }

    return found


def estimated(documents):
    """One of 20 bands of 5 is shared, and the similarity of the low bytes is large enough."""
    texts = [document["text"] for document in documents]
    bytes_of = [[value & 255 for value in min_hashes(text, 100)] for text in texts]
    found = set()
    for n, m in sharing(bands)(documents):
        share = sum(a == b for a, b in zip(bytes_of[n], bytes_of[m], strict=True)) / 100
        if (share - 1 / 256) / (1 - 1 / 256) >= 0.8:
            found.add((n, m))
    return found


def same_keywords(order, sim=None):
    def found(documents):
        texts = [document["text"] for document in documents]
        counts = frequency_oracle.frequencies(texts, "words", 1)
        chosen = [
            signature_oracle.keywords(
                text, 10, order, weighting="tf-idf", counts=counts, documents=len(texts)
            )
            for text in texts
        ]
        return {
            (n, m)
            for n, m in all_pairs(documents)
            if chosen[n]
            and list(chosen[n]) == list(chosen[m])
            and (sim is None or signature_oracle.sim(chosen[n], chosen[m]) <= sim)
        }

    return found


RULES = {
    "simhash:k=3,features=words:1": near(3, "words:1"),
    "simhash:k=10,features=words:1": near(10, "words:1"),
    "simhash:k=10,features=words:2": near(10, "words:2"),
    "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto": sharing(bands),
    "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto,estimate=0.8": estimated,
    "super-shingles:bands=6,rows=14,min_shared_keys=2,shingles=auto": sharing(
        lambda text: bands(text, 6, 14), 2
    ),
    "segments:by=content,count=8,min_shared_keys=4": sharing(signature_oracle.segments, 4),
    "segments:by=lines,count=8,min_shared_keys=4": sharing(
        lambda text: signature_oracle.segments(text, by="lines"), 4
    ),
    "exact": sharing(signature_oracle.exact),
    "abstract:size_bytes=512": sharing(signature_oracle.abstract),
    "keywords:n=10,order=weight,weighting=tf-idf": same_keywords("weight"),
    "keywords:n=10,order=alphabet,sim=0.01,weighting=tf-idf": same_keywords("alphabet", 0.01),
    "text-profile:over=2,rate=0.01": sharing(
        lambda text: signature_oracle.md5_keys(signature_oracle.profile(text))
    ),
}


def shares(found, true):
    positives = len(found & true)
    return {
        "predicted": len(found),
        "true_positives": positives,
        "false_negatives": len(true) - positives,
        "precision": positives / len(found) if found else None,
        "recall": positives / len(true) if true else None,
        "f1": 2 * positives / (len(found) + len(true)) if found | true else None,
    }


def test_figures_equal_sets_of_pairs(capfd, corpus):
    documents, truth, arguments = corpus
    printed, said = done(capfd, *arguments, "--bands", "0.7,1", "--threshold", 0.6)
    out = arguments[-1]
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert f"true pairs: {len(truth):,}; shingles: auto" in said
    rows = {(row["method"], row["similarity"]): row for row in results(out)}
    assert len({name for name, _ in rows}) > 30
    verified = {(n, m) for (n, m), j in truth.items() if j >= 0.8}
    found = {name: rule(documents) for name, rule in RULES.items()}
    # no two are equal
    assert len(set(map(frozenset, found.values()))) == len(RULES)
    for name, pairs in found.items():
        for band in (0.6, 0.7, 1):
            true = {pair for pair, j in truth.items() if j >= band}
            row = rows[name, f"{band:g}"]
            wanted = {
                **shares(pairs, true),
                **{
                    f"verified_{key}": value
                    for key, value in shares(pairs & verified, true).items()
                },
            }
            got = {key: float(row[key]) if row[key] else None for key in wanted}
            assert got == pytest.approx(wanted), name
            f1 = "-" if wanted["f1"] is None else f"{wanted['f1']:.4f}"
            assert re.search(rf"^\| {re.escape(name)} \| {len(pairs):,} \|.*{f1}", printed, re.M)
        assert row["cut"] == ""
        candidates = sharing(bands)(documents) if "estimate" in name else pairs
        if "sim=" not in name:
            assert int(row["candidates"]) == len(candidates)
    assert len(found["minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto"]) > 100


def test_methods_shingles_and_bands(capfd, corpus):
    _, _, arguments = corpus
    options = [
        "--method",
        "minhash:bands=4,rows=2",
        "--method",
        "minhash:bands=4,rows=2,min_shared_keys=1",
    ]
    options += ["--method", "simhash", "--simhash-features", "characters:4", "--method", "exact"]
    done(capfd, *arguments, *options, "--shingles", "words:5", "--bands", 1)
    rows = results(arguments[-1])
    stored = {row["method"]: float(row["bytes_per_document"]) for row in rows}
    # each once, simhash first
    assert list(stored) == [
        "simhash:k=10,features=characters:4",
        "minhash:bands=4,rows=2,min_shared_keys=1,shingles=auto",
        "exact",
    ]
    assert list(stored.values()) == pytest.approx([8, 32, 8], abs=1e-3)
    assert [row["similarity"] for row in rows] == ["0.8", "1"] * 3
    assert all(float(row["sign_seconds"]) > 0 for row in rows)


def test_by_default_shingles_are_by_script(capfd, tmp_path):
    texts = ["我们的文档说明了如何安装这个软件" * 3, "我们的文档说明了如何安装那个软件" * 3]
    # whatever their ids take
    documents = [{"id": f"{n}{'-' * 500}", "text": text} for n, text in enumerate(texts)]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    pairs = write_truth(tmp_path / "truth.tsv", documents, {(0, 1): 0.9})
    _, said = done(capfd, path, "--truth", pairs, "-o", tmp_path / "out")
    assert "shingles: auto" in said
    names = {row["method"] for row in results(tmp_path / "out")}
    assert "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto" in names


def test_files_of_many_kinds_and_a_truth_that_is_packed(capfd, tmp_path, corpus):
    documents, _, arguments = corpus
    done(capfd, *arguments)
    packed = tmp_path / "packed"
    packed.mkdir()
    with gzip.open(packed / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(each) + "\n" for each in documents[:30])
    write_jsonl(packed / "b.jsonl", documents[30:])
    truth = tmp_path / "truth.tsv.gz"
    truth.write_bytes(gzip.compress(arguments[2].read_bytes()))
    done(capfd, packed, "--truth", truth, "-o", tmp_path / "again")

    def figures(out):
        return [
            {key: row[key] for key in row if not re.search("seconds|mb_per", key)}
            for row in results(out)
        ]

    assert figures(tmp_path / "again") == figures(arguments[-1])


def test_hostile_ids_and_texts_leave_no_trace(capfd, tmp_path):
    ids = ["<script>alert(1)</script>", "a\x1b[31m", '=cmd|"x"', "é\u202e"]
    text = " ".join(f"w{n}" for n in range(30))
    documents = [{"id": id, "text": f"{text} <b>&\x00\x1b[2J"} for id in ids]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    truth = write_truth(tmp_path / "truth.tsv", documents, {(0, 1): 1.0, (2, 3): 1.0})
    out = tmp_path / "out"
    printed, said = done(capfd, path, "--truth", truth, "-o", out)
    for content in [printed, said, *(file.read_text() for file in out.iterdir())]:
        assert all(each.isprintable() or each == "\n" for each in content)
        assert "script" not in content
        assert "cmd" not in content
    for name in FILES[1:4]:
        root = ET.fromstring((out / name).read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {
            "svg", "g", "rect", "text", "line", "path", "circle",
        }  # fmt: skip


def test_documents_without_pairs(capfd, tmp_path):
    documents = [{"id": "a", "text": "one text"}, {"id": "b", "text": "of another kind"}]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    truth = tmp_path / "truth.tsv"
    truth.write_text("")
    out = tmp_path / "out"
    printed, _ = done(capfd, path, "--truth", truth, "-o", out, "--method", "exact")
    assert "| exact | 0 | - | - | - | 0 | - | - | - |" in printed
    assert {row["precision"] for row in results(out)} == {""}
    # and without documents
    write_jsonl(path, [])
    done(capfd, path, "--truth", truth, "-o", out, "--overwrite")


def test_pairs_of_other_documents_do_not_count(capfd, tmp_path, corpus):
    documents, truth, arguments = corpus
    more = tmp_path / "more.tsv"
    more.write_text(arguments[2].read_text() + "p1\telsewhere\t0.9\nx\ty\t1\n")
    _, said = done(capfd, arguments[0], "--truth", more, *arguments[3:], "--method", "exact")
    assert "mr-dedup: ignored: 2 true pairs of other documents" in said
    assert f"true pairs: {len(truth)};" in said
    more.write_text("x\ty\t1\n")
    said = usage_error(capfd, arguments[0], "--truth", more, "-o", tmp_path / "no")
    assert said == "none of the true pairs is of these documents; are the ids the same?"
    # an id that two documents have
    more.write_text("p1\x1b\tp2\t1\n")
    write_jsonl(arguments[0], [*documents, *({"id": "p1\x1b", "text": "x"} for _ in range(2))])
    said = usage_error(capfd, arguments[0], "--truth", more, "-o", tmp_path / "no")
    assert said == "several documents have the id 'p1\\x1b', which is in the true pairs"
    assert not (tmp_path / "no").exists()


def test_usage_errors_are_one_line(capfd, tmp_path, corpus, monkeypatch):
    _, _, arguments = corpus
    bad = tmp_path / "bad.tsv"
    bad.write_text("p1\tp2\tvery\n")
    for more, said in [
        (["--truth", tmp_path / "none.tsv"], f"{tmp_path / 'none.tsv'}: "),
        (["--truth", bad], f"{bad}, line 1: 'very' is not a similarity from 0 to 1"),
        (["--method", "magic"], "--method: method 'magic' is not one of simhash, exact, "),
        (["--method", "minhash:rows=0"], "rows must be from 1 to "),
        (["--method", "simhash:k=65"], "--method: "),
        (["--method", "keywords:stop_words=en"], "words:1"),
        (["--simhash-features", "lines:2"], "--simhash-features: "),
        (["--shingles", "words:0"], "--shingles: "),
        (["--bands", "0.5"], "--bands: 0.5 is below --threshold 0.8"),
        (["-o", tmp_path / "no" / "out"], "does not exist"),
    ]:
        assert said in usage_error(capfd, *arguments, *more)
    said = usage_error(capfd, *arguments[:-1], tmp_path)
    assert said == f"{tmp_path}: exists; give --overwrite to replace it"
    assert not arguments[-1].exists()
    monkeypatch.setattr(
        command, "read_texts", functools.partial(command.read_texts, max_bytes=1000)
    )
    said = usage_error(capfd, *arguments)
    assert said.startswith("documents: more than 1,000 bytes of text, too many for the memory")
    assert not arguments[-1].exists()


@pytest.fixture
def one_method(corpus):
    """The arguments of a fast command, and its OUT."""
    _, _, arguments = corpus
    return [*arguments, "--method", "exact"], arguments[-1]


def killed(*_):
    yield "precision-recall.svg", b"<svg/>"
    raise KeyboardInterrupt


def failing(*_):
    raise OSError(28, "No space left on device")


def test_the_result_is_whole_or_not_at_all(capfd, tmp_path, one_method, monkeypatch):
    given, out = one_method
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(command, "plots", killed)
        assert compare(capfd, *given)[0] == 130
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", failing)
        code, _, err = compare(capfd, *given)
    assert code == 2
    assert "No space left" in err.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before
    done(capfd, *given)
    assert usage_error(capfd, *given) == f"{out}: exists; give --overwrite to replace it"
    old = files_of(out)
    with monkeypatch.context() as patched:
        patched.setattr(command, "plots", killed)
        assert compare(capfd, *given, "--overwrite")[0] == 130
    assert files_of(out) == old
    done(capfd, *given[:-2], "--method", "abstract", "--overwrite")
    assert {row["method"] for row in results(out)} == {"abstract:size_bytes=512"}
    assert sorted(tmp_path.iterdir()) == sorted([*before, out])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("moment", range(2))
def test_the_old_result_stays_until_the_new_one_is_there(
    capfd, tmp_path, one_method, monkeypatch, moment, after, error
):
    given, out = one_method
    done(capfd, *given)
    before, old = sorted(tmp_path.iterdir()), files_of(out)
    calls = []
    rename = os.rename

    def stopped(*paths):
        calls.append(paths)
        stops = len(calls) == moment + 1
        if after or not stops:
            rename(*paths)
        if stops:
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", stopped)
        code, _, _ = compare(capfd, *given, "--overwrite")
    assert code == (130 if error is KeyboardInterrupt else 2)
    is_new = (moment, after) == (1, True)
    assert (files_of(out) == old) is not is_new
    assert sorted(files_of(out)) == FILES
    done(capfd, *given, "--overwrite")
    assert sorted(tmp_path.iterdir()) == before


def test_other_folders_are_not_replaced(capfd, tmp_path, one_method):
    given, out = one_method
    given.append("--overwrite")
    out.mkdir()
    # an empty folder
    done(capfd, *given)
    (out / "notes.txt").write_text("precious")
    before = files_of(out)
    assert usage_error(capfd, *given) == (
        f"{out}: contains 'notes.txt', which is not of its result, and is not replaced"
    )
    assert files_of(out) == before
    (out / "notes.txt").unlink()
    for content in ("", "method,seconds\nmine,1\n"):
        (out / "results.csv").write_text(content)
        assert usage_error(capfd, *given) == (
            f"{out}: its file 'results.csv' was changed since it was made, and is not replaced"
        )
    (out / ".files.json").unlink()
    assert "not a result of mr-dedup, and is not replaced" in usage_error(capfd, *given)
    assert sorted(files_of(out)) == FILES[1:]
    # a file, and a link to a folder
    link = tmp_path / "link"
    link.symlink_to(out)
    for path, reason in [
        (given[0], "not a directory"),
        (link, "is a link, and is not replaced; name what it leads to"),
    ]:
        assert usage_error(capfd, *given, "-o", path) == f"{path}: {reason}"
