"""mr-dedup dedup that keeps several documents of a group: of every engine the same ones."""

import json
import random
from collections import Counter

import pytest
import xxhash

from mr_dedup.cli import dedup as command
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from tests.cli.documents import write_jsonl
from tests.cli.result_tables import tables_of
from tests.cli.running import Command

dedup = Command("dedup")

SIZES = [1, 2, 3, 5, 9, 17, 40]


@pytest.fixture
def groups(tmp_path):
    """Groups of near-duplicates of some sizes, with a score; their texts differ in a word."""
    rng = random.Random(5)
    documents = []
    for group, size in enumerate(SIZES):
        words = [f"g{group}w{n}" for n in range(60)]
        for number in range(size):
            text = " ".join([*words, f"only{group}x{number}"])
            id = f"{group}-{number}"
            documents.append({"id": id, "text": text, "score": str(rng.randrange(100))})
    rng.shuffle(documents)
    return documents


@pytest.fixture
def small_chunks(monkeypatch):
    for name in ("CHUNK_BYTES", "_MIN_BYTES"):
        monkeypatch.setattr(chunks, name, 4000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


def kept_by_group(out):
    """The kept ids by their group, and the reasons of all documents."""
    found = {}
    rows = read_parts(out / "decisions").to_pylist()
    for row in rows:
        if row["kept_position"] == row["position"] and row["earlier_result"] is None:
            found.setdefault(row["id"].split("-")[0], []).append(row["id"])
    return {group: sorted(ids) for group, ids in found.items()}, Counter(
        row["reason"] for row in rows
    )


def first_of(documents, group):
    """The documents of a group by score, the highest first, then by id."""
    members = [each for each in documents if each["id"].startswith(f"{group}-")]
    return [each["id"] for each in sorted(members, key=lambda d: (-int(d["score"]), d["id"]))]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("number", [1, 2, 10, 1000])
def test_the_first_of_each_group(capfd, tmp_path, groups, number):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    words = ["--keep", "highest:score", "--keep-per-cluster", number]
    said = dedup.messages(capfd, path, "-o", tmp_path / "out", *words)
    found, reasons = kept_by_group(tmp_path / "out")
    assert found == {
        str(group): sorted(first_of(groups, group)[:number]) for group in range(len(SIZES))
    }
    several = sum(min(number, size) - 1 for size in SIZES)
    assert reasons["among_first"] == several
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["reasons"]["among_first"] == several
    assert summary["documents_kept"] == several + len(SIZES)
    assert (f"kept {several:,} further documents of groups" in said) == (number > 1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("of these: <bdi>among the first of its group" in page) == (number > 1)
    counted = read_parts(tmp_path / "out" / "counts")["duplicates"].to_pylist()
    assert sum(counted) == summary["documents_dropped"]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("seed", [0, 3, (1 << 64) - 1])
def test_a_sample_of_each_group(capfd, tmp_path, groups, seed):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    words = ["--keep", "highest:score", "--sample", "weight:0.7", "--sample-seed", seed]
    dedup.done(capfd, path, "-o", tmp_path / "out", *words)
    found, reasons = kept_by_group(tmp_path / "out")
    for group, size in enumerate(SIZES):
        first, *others = first_of(groups, group)
        limit = (size**0.7 - 1) / max(size - 1, 1) * 2**64
        wanted = [id for id in others if xxhash.xxh3_64_intdigest(id.encode(), seed) < limit]
        assert found[str(group)] == sorted([first, *wanted])
    assert reasons["sampled"] > 10


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("words", [["--keep-per-cluster", "3"], ["--sample", "weight:1"]])
def test_what_duplicates_an_earlier_document_is_dropped(capfd, tmp_path, groups, words):
    before = [each for each in groups if int(each["id"].split("-")[0]) % 2]
    path = write_jsonl(tmp_path / "before.jsonl", before[:-5])
    dedup.done(capfd, path, "-o", tmp_path / "kept")
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    dedup.done(capfd, path, "-o", tmp_path / "out", "--against", tmp_path / "kept", *words)
    found, reasons = kept_by_group(tmp_path / "out")
    assert set(found) == {"0", "2", "4", "6"}
    assert [len(ids) for ids in found.values()] != [1] * 4
    assert reasons["near_duplicate"] + reasons["exact_duplicate"] >= sum(SIZES[1::2])
    # all that was kept stays, although it is similar to one another
    later = tmp_path / "later"
    dedup.done(capfd, path, "-o", later, "--against", tmp_path / "out", "--follow", *words)
    assert kept_by_group(later)[0] == {}


def test_engines_orders_and_parts_make_no_difference(capfd, tmp_path, monkeypatch, groups):
    words = ["--sample", "weight", "--keep", "highest:score"]
    found = []
    for number, (size, runner) in enumerate([
        (1 << 20, "memory"), (3000, "memory"), (3000, "inline"), (3000, "local"), (9000, "local"),
    ]):  # fmt: skip
        for name in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, name, size)
        path = write_jsonl(tmp_path / "pages.jsonl", groups)
        out = tmp_path / f"out{number}"
        dedup.done(capfd, path, "-o", out, "-r", runner, *words)
        found.append(tables_of(out)["decisions"])
    assert all(each == found[0] for each in found)
    path = write_jsonl(tmp_path / "pages.jsonl", groups[::-1])
    dedup.done(capfd, path, "-o", tmp_path / "turned", *words)
    assert kept_by_group(tmp_path / "turned") == kept_by_group(tmp_path / "out0")


def test_without_comparing_texts(capfd, tmp_path, groups):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    words = ["--verify", "off", "--keep-per-cluster", "2"]
    dedup.done(capfd, path, "-o", tmp_path / "out", *words)
    found, _ = kept_by_group(tmp_path / "out")
    assert [len(found[str(group)]) for group in range(len(SIZES))] == [min(n, 2) for n in SIZES]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--keep-per-cluster", str(1 << 80)], "--keep-per-cluster: per_cluster must be from 1 to"),
     (["--sample", "weight:2"], "--sample: expected weight or weight:POWER, a power from 0 to 1"),
     (["--sample", "weight", "--keep-per-cluster", "2"], "--sample: give one of them"),
     (["--sample-seed", "1"], "--sample-seed: needs --sample")],
)  # fmt: skip
def test_usage_errors(capfd, tmp_path, groups, words, said):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    assert said in dedup.mistake(capfd, path, "-o", tmp_path / "out", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--keep-per-cluster", "0"], "argument --keep-per-cluster: '0' is not an integer from 1 on"),
     (["--sample-seed", "-1"], "--sample-seed: expected a number from 0 to 2^64 - 1, got '-1'"),
     (["--sample-seed", str(1 << 64)], "--sample-seed: expected a number from 0 to 2^64 - 1")],
)  # fmt: skip
def test_words_that_are_no_numbers(capfd, words, said):
    with pytest.raises(SystemExit):
        dedup(capfd, "pages", "-o", "out", *words)
    assert said in capfd.readouterr().err


def test_another_sample_is_another_run(capfd, tmp_path, monkeypatch, groups):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)

    def ended(*_):
        raise KeyboardInterrupt

    words = [path, "-o", tmp_path / "out", "--sample", "weight"]
    with monkeypatch.context() as patch:
        patch.setattr(command, "write_summaries", ended)
        assert dedup(capfd, *words)[0] == 130
    said = dedup.mistake(capfd, *words, "--resume", "--sample-seed", "2")
    assert "--resume: --sample-seed was 0, is 2; start another run" in said
    dedup.done(capfd, *words, "--resume")


def test_why(capfd, tmp_path, groups):
    path = write_jsonl(tmp_path / "pages.jsonl", groups)
    words = ["--keep", "highest:score", "--keep-per-cluster", "2"]
    dedup.done(capfd, path, "-o", tmp_path / "out", *words)
    second = first_of(groups, 4)[1]
    out, _ = Command("why").done(capfd, tmp_path / "out", second)
    assert out.startswith(f"{second}: kept, among the first of its group of duplicates; 9 doc")
