"""mr-dedup dedup by its methods: decisions against brute force over their rules, and mistakes."""

import json
import random
import re

import pyarrow.parquet as pq
import pytest

from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.features.options import FeatureOptions
from mr_dedup.jobs.resolve import ResolveJob
from mr_dedup.pipeline import dedup_stages, sharded_run
from tests.cli.documents import KEPT, files_of, made_up_documents, write_jsonl
from tests.cli.running import by_turns
from tests.cli.test_dedup import DEFAULTS, check, dedup, done, expected, mistake
from tests.fingerprints.test_simhash import oracle
from tests.signatures import signature_oracle
from tests.signatures.test_minwise import expected as least_hashes

NODES = FeatureOptions("auto", weighting="tf")
LENGTHS = "3 words (5 characters in Chinese)"
"""What fingerprints are made of where they only name documents."""

BOTH = pytest.mark.parametrize("runner", RUNNERS)


def bands(text, count=20, rows=5):
    values = least_hashes(text, count * rows)
    return {(i, *values[i : i + rows]) for i in range(0, len(values), rows)}


def keyword_keys(text):
    return set(signature_oracle.md5_keys(" ".join(signature_oracle.keywords(text, 4, "alphabet"))))


def segment_keys(text):
    return set(signature_oracle.segments(text, count=6, least=3))


KEYS = {
    "minhash": (bands, 1),
    "minhash:bands=8,rows=3,min_shared_keys=2": (lambda text: bands(text, 8, 3), 2),
    "super-shingles": (lambda text: bands(text, 6, 14), 2),
    "exact": (lambda text: set(signature_oracle.exact(text)), 1),
    "keywords:n=4,order=alphabet": (keyword_keys, 1),
    "segments:count=6,min_shared_keys=3": (segment_keys, 3),
    "winnowing:window=3": (lambda text: set(signature_oracle.winnowing(text, 3)), 1),
}


def shares(documents, method):
    keys_of, least = KEYS[method]
    keys = [keys_of(document["text"]) for document in documents]
    return lambda n, m: len(keys[n] & keys[m]) >= least


def named(out):
    return pq.read_table(out / "decisions")["methods"].to_pylist()


@by_turns(("method",), KEYS)
def test_decisions_equal_brute_force(tmp_path, capfd, small_chunks, runner, method):
    documents = made_up_documents(3)
    similar = shares(documents, method)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out = tmp_path / "out"
    done(capfd, path, "-o", out, "--method", method, "-r", runner, "--cores", 3)
    decided = expected(documents, None, similar=similar, features=NODES)
    kept = check(out, documents, decided, NODES)
    assert len(kept) < 60
    name = json.loads((out / "summary.json").read_text())["methods"][0]
    assert named(out) == [
        name if reason not in KEPT and similar(n, original) else None
        for n, (original, reason) in enumerate(decided)
    ]


@BOTH
def test_methods_combine_and_each_is_named(tmp_path, capfd, small_chunks, runner):
    documents = made_up_documents(3)
    values = [oracle(document["text"], DEFAULTS) for document in documents]
    by_keys = shares(documents, "minhash")

    def near(n, m):
        return (values[n] ^ values[m]).bit_count() <= 4

    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out = tmp_path / "out"
    asked = ["--method", "minhash", "--method", "simhash:k=4"]
    done(capfd, path, "-o", out, *asked, "-r", runner, "--cores", 2)
    decided = expected(documents, None, similar=lambda n, m: near(n, m) or by_keys(n, m))
    check(out, documents, decided)
    minhash = "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto,symbols=auto"
    names = set()
    for n, ((original, reason), name) in enumerate(zip(decided, named(out), strict=True)):
        rules = [("simhash:k=4", near), (minhash, by_keys)]
        if reason in KEPT:
            rules = []
        assert name == ("; ".join(rule for rule, holds in rules if holds(n, original)) or None)
        names.add(name)
    assert len(names) > 2


def test_the_default_is_minhash(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(3))
    from mr_dedup.cli.main import main

    assert main(["dedup", str(path), "-o", str(tmp_path / "default")]) == 0
    capfd.readouterr()
    done(capfd, path, "-o", tmp_path / "asked", "--method", "minhash")
    assert files_of(tmp_path / "default") == files_of(tmp_path / "asked")


def warned_of_methods(said):
    """Whether there is a warning other than of the empty and short documents that there are."""
    others = ("empty text", "have fewer than")
    warnings = [line for line in said.splitlines() if "warning: " in line]
    return any(not any(other in line for other in others) for line in warnings)


@pytest.mark.parametrize(
    ("verify", "bands", "recall"),
    [(0.5, "57,rows=3", "0.9995"), (0.8, "20,rows=5", "0.9996"), (0.95, "6,rows=6", "0.9997")],
)
def test_the_threshold_chooses_the_bands(tmp_path, capfd, verify, bands, recall):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(1))
    out = tmp_path / "out"
    arguments = [path, "-o", out, "--method", "minhash", "--verify", verify]
    name = f"minhash:bands={bands},min_shared_keys=1,shingles=auto,symbols=auto"
    line = f"{name}: finds pairs of similarity {verify} by shingles of {LENGTHS} with "
    line += f"probability {recall}\n"
    code, plan, _ = dedup(capfd, *arguments, "--dry-run")
    assert code == 0
    assert line in plan
    said = done(capfd, *arguments)
    assert f"mr-dedup: {line}" in said
    assert not warned_of_methods(said + plan)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["methods"] == [name]
    assert summary["expected_recalls"] == [
        {"method": name, "recall": pytest.approx(float(recall), abs=1e-4)}
    ]
    # the signatures of other bands say nothing of these
    other = 0.7 if verify == 0.8 else 0.8
    against = ["--method", "minhash", "--verify", other, "--against", out]
    said = mistake(capfd, path, "-o", tmp_path / "later", *against)
    assert f"--against {out}: has no signatures by minhash:bands=" in said
    assert said.endswith(f"; it has {name}: give --method {name}")
    # and this is an option to give
    suggested = ["--method", name, "--verify", other, "--against", out]
    done(capfd, path, "-o", tmp_path / "suggested", *suggested)
    done(capfd, path, "-o", tmp_path / "later", "--against", out, *arguments[3:])


def test_bands_that_miss_pairs_are_warned_of(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(1))

    def said(*asked):
        arguments = [path, "-o", tmp_path / "out", "--overwrite", *asked]
        code, plan, _ = dedup(capfd, *arguments, "--dry-run")
        assert code == 0
        lines = done(capfd, *arguments)
        assert warned_of_methods(plan) == warned_of_methods(lines)
        return lines

    few = ["--method", "minhash:bands=16,rows=5", "--verify", 0.6]
    warned = said(*few)
    assert (
        f"finds pairs of similarity 0.6 by shingles of {LENGTHS} with probability 0.7262\n"
        in warned
    )
    assert "warning: near-duplicates of similarity 0.6 may be missed; " in warned
    assert "minhash without parameters has 55 bands of 4 rows for it" in warned
    assert warned_of_methods(said("--method", "super-shingles"))
    below = said("--method", "minhash", "--verify", 0.3)
    assert (
        "bands=57,rows=3,min_shared_keys=1,shingles=auto,symbols=auto: finds pairs of similarity "
        f"0.3 by shingles of {LENGTHS} with probability 0.7899\n" in below
    )
    assert "no bands are chosen for less than 0.5" in below
    # what others find is not known, and one that finds enough is enough
    assert not warned_of_methods(said(*few, "--method", "simhash"))
    assert not warned_of_methods(said("--method", "exact"))
    assert not warned_of_methods(said(*few, "--method", "minhash"))
    assert "probability" not in said("--method", "minhash", "--verify", "off")


def test_clusters_too_large_are_split_by_more_keys(tmp_path, capfd, monkeypatch):
    """Of chains of pages in which neighbours are similar, what shares little is parted."""
    words = [f"w{n}" for n in range(400)]
    documents = [{"id": str(n), "text": " ".join(words[4 * n : 4 * n + 40])} for n in range(60)]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out = tmp_path / "out"
    done(capfd, path, "-o", out, "--method", "minhash")
    whole = json.loads((out / "summary.json").read_text())
    monkeypatch.setattr(dedup_stages, "VERIFIED", ClusterLimit(2000))
    said = done(capfd, path, "-o", tmp_path / "split", "--method", "minhash")
    split = json.loads((tmp_path / "split" / "summary.json").read_text())
    assert (whole["clusters_split"], whole["documents_in_split_clusters"]) == (0, 0)
    assert "in clusters that were split" not in (out / "report.html").read_text()
    assert split["clusters_split"] > 0
    count = split["documents_in_split_clusters"]
    assert count == sum(
        size
        for size in pq.read_table(out / "clusters")["documents"].to_pylist()
        if size > 2000 / len(documents[0]["text"])
    )
    assert f"clusters split: {split['clusters_split']}, of {count} documents" in said
    assert "near-duplicates among these may be kept" in said
    assert f"{count} documents are in clusters that were split" in " ".join(
        (tmp_path / "split" / "report.html").read_text().split()
    )
    sizes = pq.read_table(tmp_path / "split" / "clusters")["documents"].to_pylist()
    assert max(sizes) < max(pq.read_table(out / "clusters")["documents"].to_pylist())


def test_sets_of_shingles_in_a_temporary_file_change_nothing(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(4))
    done(capfd, path, "-o", tmp_path / "usual", "-r", "local")
    monkeypatch.setattr(ResolveJob, "stored_bytes", 1000)
    done(capfd, path, "-o", tmp_path / "stored", "-r", "local")
    assert files_of(tmp_path / "usual") == files_of(tmp_path / "stored")


def test_a_killed_run_goes_on_with_its_signatures(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(4))
    done(capfd, path, "-o", tmp_path / "whole", "--method", "minhash")

    def killed(*arguments):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(dedup_stages, "cluster", killed)
        from mr_dedup.cli.main import main

        assert main(["dedup", str(path), "-o", str(out), "--method", "minhash"]) == 130
    capfd.readouterr()
    (rows,) = (tmp_path / ".out.unfinished" / "rows").iterdir()
    content = bytearray(rows.read_bytes())
    content[len(content) // 2] ^= 1
    rows.write_bytes(content)
    # it is noticed, and made again
    done(capfd, path, "-o", out, "--method", "minhash", "--resume")
    assert files_of(out) == files_of(tmp_path / "whole")


def test_a_week_later_with_signatures(tmp_path, capfd):
    documents = made_up_documents(4)
    first = write_jsonl(tmp_path / "first.jsonl", documents[:30])
    second = write_jsonl(tmp_path / "second.jsonl", documents[30:])
    both = write_jsonl(tmp_path / "both.jsonl", documents)
    asked = ["--method", "minhash", "--method", "exact"]
    done(capfd, first, "-o", tmp_path / "old", *asked)
    done(capfd, both, "-o", tmp_path / "once", *asked)
    summary = tmp_path / "old" / "summary.json"
    content = summary.read_text()
    summary.write_text(re.sub(r'"signature_version": \d+', '"signature_version": 0', content))
    arguments = [second, "-o", tmp_path / "refused", *asked, "--against", tmp_path / "old"]
    assert "old: its signatures are of version 0" in mistake(capfd, *arguments)
    summary.write_text(content)
    # the methods of the earlier one in another order, or some of them
    for name, methods in [("new", asked[2:] + asked[:2]), ("one", asked[:2])]:
        done(capfd, second, "-o", tmp_path / name, *methods, "--against", tmp_path / "old")
        once = pq.read_table(tmp_path / "once" / "decisions")["kept_id"].to_pylist()
        later = pq.read_table(tmp_path / name / "decisions")["kept_id"].to_pylist()
        assert later == once[30:]
    # and again, with those of the second kept
    third = write_jsonl(tmp_path / "third.jsonl", [{**each, "id": "x"} for each in documents])
    against = ["--against", tmp_path / "new", "--follow"]
    said = done(capfd, third, "-o", tmp_path / "third", *asked, *against)
    summary = json.loads((tmp_path / "third" / "summary.json").read_text())
    assert summary["documents_kept"] == 0, said


def test_mistakes_are_one_line(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(4))
    out = tmp_path / "out"
    old = tmp_path / "old"
    done(capfd, path, "-o", old, "--method", "exact")
    for arguments, said in [
        (["--method", "magic"], "--method: method 'magic' is not one of simhash, exact, "),
        (["--method", "minhash:rows=0"], "rows must be from 1 to "),
        (["--method", "minhash:size=1"], "it has no parameter 'size', only stop_words"),
        (["--method", "simhash:rows=1"], "simhash has one parameter, as in simhash:k=3"),
        (["--method", "minhash", "-k", 3], "-k: not used by minhash; give --method simhash"),
        (["--method", "simhash:k=3", "-k", 4], "is given several k, [3, 4]"),
        (["--method", "keywords:weighting=tf-idf"], "needs document frequencies"),
        (["--method", "keywords", "--keyword-idf", path], f"{path}"),
        (["--method", "minhash", "--against", old], "has no signatures by minhash:bands=20"),
    ]:
        assert said in mistake(capfd, path, "-o", out, *arguments)
        assert not out.exists()


def test_keywords_weigh_by_frequencies(tmp_path, capfd):
    from mr_dedup.cli.main import main

    documents = made_up_documents(4)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    idf = tmp_path / "idf #1.parquet"
    assert main(["idf", str(path), "-o", str(idf)]) == 0
    capfd.readouterr()
    asked = ["--method", "keywords:n=4,order=alphabet", "--keyword-idf", idf]
    outs = [tmp_path / name for name in RUNNERS]
    for runner, out in zip(RUNNERS, outs, strict=True):
        done(capfd, path, "-o", out, *asked, "-r", runner)
    assert files_of(outs[0]) == files_of(outs[1])
    methods = json.loads((outs[0] / "summary.json").read_text())["methods"]
    assert methods[0].startswith("keywords:n=4,order=alphabet,weighting=tf-idf,frequencies=")


@BOTH
def test_a_text_is_decided_on_alike_in_any_company(tmp_path, capfd, small_chunks, runner):
    """Chinese among English, and before it, gets the decisions that it gets alone."""
    english = made_up_documents(2)
    rng = random.Random(3)
    chinese = []
    characters = "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出"
    for n in range(30):
        text = "".join(rng.choices(characters, k=120))
        changed = list(text)
        for place in rng.sample(range(120), n % 10):
            changed[place] = "龥"
        chinese += [{"id": f"z{n}", "text": text}, {"id": f"y{n}", "text": "".join(changed)}]
    mixed = [*chinese[:20], *english, *chinese[20:]]
    found = {}
    for name, documents in (("alone", chinese), ("mixed", mixed), ("english", english)):
        path = write_jsonl(tmp_path / f"{name}.jsonl", documents)
        done(capfd, path, "-o", tmp_path / name, "--method", "minhash", "-r", runner)
        columns = ["id", "cluster", "kept_id", "distance_bits", "similarity", "reason"]
        rows = pq.read_table(tmp_path / name / "decisions", columns=columns).to_pylist()
        found[name] = {row["id"]: row for row in rows}
    assert found["mixed"] == found["alone"] | found["english"]
    dropped = [row for row in found["alone"].values() if row["reason"] not in KEPT]
    assert 5 < len(dropped) < 30
    assert json.loads((tmp_path / "mixed" / "summary.json").read_text())["shingles"] == "auto"


@by_turns(
    ("methods",),
    [
        ["minhash"],
        ["super-shingles"],
        ["minhash:estimate=0.7"],
        ["minhash", "minhash:bands=8,rows=3,min_shared_keys=2"],
        ["winnowing:window=3"],
        *[["simhash"]] * 3,
    ],
    ["memory", "inline", "local"],
)
def test_the_result_is_the_same_however_many_tasks_find_pairs(
    tmp_path, capfd, monkeypatch, small_chunks, runner, methods
):
    asked = [argument for method in methods for argument in ("--method", method)]
    documents = [
        {**document, "id": f"{seed}-{document['id']}"}
        for seed in range(5)
        for document in made_up_documents(seed)
    ]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    found = []
    for name, engine in (("few", "memory"), ("many", runner)):
        done(capfd, path, "-o", tmp_path / name, *asked, "-r", engine)
        # each task reads a few KB, and a partition is of as many
        monkeypatch.setattr(sharded_run, "_MIN_TASK_BYTES", 3000)
        monkeypatch.setattr(sharded_run, "_MAX_TASK_BYTES", 3000)
        monkeypatch.setattr(dedup_stages, "_PARTITION_BYTES", 3000)
        files = files_of(tmp_path / name)
        del files[".files.json"]
        summary = json.loads(files.pop("summary.json"))
        # of two keys of different partitions the same two documents are counted twice
        links = summary.pop("shared_key_links")
        assert (summary["fingerprint_pairs"] if methods == ["simhash"] else links) > 0
        found.append((files, summary))
    assert found[0] == found[1]


def test_methods_go_by_the_shingles_that_texts_are_compared_by(capfd, tmp_path):
    """Pairs that are similar by characters, and not by words, are found."""
    rng = random.Random(4)
    documents = []
    for number in range(60):
        words = ["".join(rng.choices("abcdefghij", k=12)) for _ in range(60)]
        documents.append({"id": f"{number} a", "text": " ".join(words)})
        # every sixth word has another letter
        words[::6] = [word[:-1] + "z" for word in words[::6]]
        documents.append({"id": f"{number} b", "text": " ".join(words)})
    path = write_jsonl(tmp_path / "documents.jsonl", documents)
    said = done(
        capfd, path, "-o", tmp_path / "out", "--shingles", "characters:5", "--method", "minhash"
    )
    name = "minhash:bands=20,rows=5,min_shared_keys=1,shingles=characters:5,symbols=auto"
    found = "finds pairs of similarity 0.8 by shingles of 5 characters with probability 0.9996"
    assert f"{name}: {found}" in said
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["documents_dropped"] == 60
    said = done(
        capfd, path, "-o", tmp_path / "other", "--shingles", "characters:5",
        "--method", "minhash:shingles=words:3",
    )  # fmt: skip
    assert "with probability" not in said
    name = "minhash:bands=20,rows=5,min_shared_keys=1,shingles=words:3,symbols=auto"
    assert f"warning: the recall of {name} is unknown" in said
