"""mr-dedup urls bulk: against a dict, over engines and splits, and against a store."""

import gzip
import json
import os
import signal
import subprocess
import time

import pytest
import zstandard

from mr_dedup.cli import urls_bulk
from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS, engine
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents import chunks
from mr_dedup.urls.opening import open_filter
from mr_dedup.urls.rocks_store import RocksStore
from tests.cli.running import Command
from tests.engines.documents import rejects_of
from tests.urls.url_lists import distinct, spelled, visits, write_lists

BOTH = pytest.mark.parametrize("runner", RUNNERS)


run = Command("urls")
done, mistake = run.done, run.mistake


def write_visits(path, every):
    path.write_bytes(b"".join(line + b"\n" for _, line in every))
    return path


@pytest.fixture
def small(monkeypatch):
    """Let the small lists of the tests take several tasks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 5000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 5000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 100)


@BOTH
def test_distinct_urls_equal_the_oracle_and_the_filter(tmp_path, capfd, small, runner):
    paths, expected, bad = write_lists(tmp_path)
    out = tmp_path / "out.tsv"
    _, said = done(capfd, "bulk", *paths, "-o", out, "-r", runner)
    assert out.read_bytes() == expected
    count = expected.count(b"\n")
    assert f"files: 4, URLs: 4,000, distinct: {count:,}, rejected: {bad}\n" in said
    assert f"mr-dedup: {bad} lines could not be read as a URL; {out}.rejects.jsonl says why" in said
    rejects = [json.loads(line) for line in rejects_of(out).read_text().splitlines()]
    assert [(each["file"], each["reason"][:20]) for each in rejects] == [
        (str(paths[0]), "has no scheme and ho"),
        (str(paths[0]), "is longer than 65,53"),
        (str(paths[2]), "not a URL: its host "),
    ]
    content = paths[0].read_bytes()
    assert rejects[0]["position"] == f"byte {content.index(b'no URL')}"
    assert rejects[1]["position"] == f"byte {content.index(b'http://x.org/y')}"
    filtered = tmp_path / "filtered.txt"
    command = run.program("filter", "--store", tmp_path / "seen")
    with filtered.open("wb") as file:
        subprocess.run([*command, *paths], stdout=file, stderr=subprocess.PIPE, check=True)
    assert filtered.read_bytes() == b"".join(
        line.partition(b"\t")[2] + b"\n" for line in expected.splitlines()
    )


def test_splits_and_runners_give_the_same_bytes(tmp_path, capfd, monkeypatch, small):
    every = visits(1500, 2)
    (tmp_path / "lists").mkdir()
    for number in range(10):
        write_visits(tmp_path / "lists" / f"{number}.txt", every[number * 150 : (number + 1) * 150])
    whole = write_visits(tmp_path / "whole.txt", every)
    packed = tmp_path / "whole.gz"
    packed.write_bytes(gzip.compress(whole.read_bytes()))
    written = set()
    out = tmp_path / "out.tsv"
    for size in (2000, 10_000, 1 << 20):
        monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
        monkeypatch.setattr(chunks, "_MIN_BYTES", size)
        for runner, lists in [
            ("inline", tmp_path / "lists"), ("inline", whole), ("inline", packed), ("local", whole),
        ]:  # fmt: skip
            done(capfd, "bulk", lists, "-o", out, "-r", runner, "--overwrite")
            written.add(out.read_bytes())
    assert written == {distinct(every)}


def test_standard_input_and_compressed_results(tmp_path):
    every = visits(500, 3)
    text = b"".join(line + b"\n" for _, line in every)
    unpack = {"a.tsv": bytes, "a.gz": gzip.decompress, "a.zst": zstandard.decompress}
    for name, unpacked in unpack.items():
        out = tmp_path / name
        subprocess.run(
            run.program("bulk", "-", "-o", out),
            input=text, stderr=subprocess.PIPE, check=True,
        )  # fmt: skip
        content = out.read_bytes()
        if name == "a.zst":
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
            unpacked = bytes
        assert unpacked(content) == distinct(every)


def test_forms_are_those_of_the_filter(tmp_path, capfd):
    lists = tmp_path / "lists.txt"
    lists.write_text(
        "http://www.a.org/index.html?gclid=1\nhttp://a.org/\nhttp://a.org/#x\nhttp://a.org/\n"
    )
    mirrors = tmp_path / "mirrors.txt"
    mirrors.write_text("a.org www.a.org\n")
    out = tmp_path / "out.tsv"
    for options, wanted in (
        ([], "1\thttp://www.a.org/index.html?gclid=1\n3\thttp://a.org/\n"),
        (["--keep-fragments", "--drop-index"], None),
        (["--no-canonical"], None),
        (
            ["--drop-index", "--drop-tracking", "--mirrors", mirrors],
            "4\thttp://www.a.org/index.html?gclid=1\n",
        ),
    ):
        done(capfd, "bulk", lists, "-o", out, "--overwrite", *options)
        if wanted is None:
            wanted = (
                "1\thttp://www.a.org/index.html?gclid=1\n2\thttp://a.org/\n1\thttp://a.org/#x\n"
            )
        assert out.read_text() == wanted


@BOTH
def test_against_a_store(tmp_path, capfd, small, runner):
    """What is in it is left out; afterwards it is as if all had gone through the filter."""
    every = visits(3000, 4)
    first, second = write_visits(tmp_path / "1.txt", every[:2000]), tmp_path / "2.txt"
    write_visits(second, every[1500:])
    store, out = tmp_path / "bulk", tmp_path / "out.tsv"
    _, said = done(capfd, "bulk", first, "-o", out, "--store", store, "-r", runner)
    assert out.read_bytes() == distinct(every[:2000])
    known = {number for number, _ in every[:2000]}
    assert f"0 were in {store} already, {len(known):,} are new, {len(known):,} in it now" in said
    _, said = done(capfd, "bulk", second, "-o", out, "--store", store, "-r", runner, "--overwrite")
    assert out.read_bytes() == distinct([each for each in every[1500:] if each[0] not in known])
    total, both = len({n for n, _ in every}), len(known & {n for n, _ in every[1500:]})
    assert f"{both:,} were in {store} already, {total - len(known):,} are new, {total:,} in" in said
    for path in (first, second):
        done(capfd, "filter", "--store", tmp_path / "filter", path)
    urls = [spelled(number, 0) for number in {n for n, _ in every}]
    counts = []
    for folder in (store, tmp_path / "filter"):
        with open_filter(folder) as url_filter:
            counts.append([url_filter.count(url) for url in urls])
            assert len(url_filter) == total
            assert url_filter.rebuilt is None
    assert counts[0] == counts[1]


def test_a_store_has_its_own_form(tmp_path, capfd):
    lists, out, store = tmp_path / "a.txt", tmp_path / "out.tsv", tmp_path / "seen"
    lists.write_text("http://a.org/index.html\nhttp://a.org/\n")
    done(capfd, "bulk", lists, "-o", out, "--store", store, "--drop-index")
    assert out.read_text() == "2\thttp://a.org/index.html\n"
    lists.write_text("http://b.org/index.html\nhttp://b.org\n")
    done(capfd, "bulk", lists, "-o", out, "--store", store, "--overwrite")
    assert out.read_text() == "2\thttp://b.org/index.html\n"
    said = mistake(capfd, "bulk", lists, "-o", out, "--store", store, "--no-canonical")
    assert "was made with URLs of another form (canonical, drop index), not as given" in said


def test_a_store_takes_all_or_nothing(tmp_path, capfd, monkeypatch):
    """A failure before, or while, it is changed leaves it as it was."""
    lists, out, store = tmp_path / "a.txt", tmp_path / "out.tsv", tmp_path / "seen"
    lists.write_text("http://a.org/\n")
    done(capfd, "bulk", lists, "-o", out, "--store", store)
    write_visits(lists, visits(300, 5))
    out.unlink()
    # nowhere to write to
    gone = tmp_path / "gone" / "out.tsv"
    assert "gone does not exist" in mistake(capfd, "bulk", lists, "-o", gone, "--store", store)
    commits = []

    def failing(self, change, generation):
        commits.append(len(change.digests))
        raise MrDedupError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(RocksStore, "commit", failing)
        assert "the disk is full" in mistake(capfd, "bulk", lists, "-o", out, "--store", store)
    assert commits == [len({number for number, _ in visits(300, 5)})]
    with open_filter(store) as url_filter:
        assert len(url_filter) == 1
    assert out.read_bytes() == distinct(visits(300, 5))
    done(capfd, "bulk", lists, "-o", out, "--store", store, "--overwrite")
    assert out.read_bytes() == distinct(visits(300, 5))


def test_killed_while_it_runs_it_has_changed_nothing(tmp_path, capfd):
    lists, out, store = tmp_path / "a.txt", tmp_path / "out.tsv", tmp_path / "seen"
    lists.write_text("http://a.org/\n")
    done(capfd, "bulk", lists, "-o", out, "--store", store)
    out.unlink()
    write_visits(lists, visits(60_000, 6))
    command = run.program("bulk", lists, "-o", out)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    with subprocess.Popen([*command, "--store", store], env=environment) as process:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "temporary").rglob("*.chunk.json")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    with open_filter(store) as url_filter:
        assert len(url_filter) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.txt", "-o", "o"], "none.txt: no such file"),
        (["a.txt", "-o", "a.txt"], "a.txt: exists; give --overwrite"),
        (["a.txt", "-o", "a.txt", "--overwrite"], "a.txt: is read as well"),
        (["packed", "-o", "o"], "packed: contains gzip data; decompress it first, or let its name"),
        (["cut.gz", "-o", "o"], "cut.gz, decompressed byte 13: the gzip data is cut short"),
        (["a.txt", "-o", "o", "--store", "folder"], "folder: contains files, but no store of URLs"),
        (["a.txt", "-o", "o", "--mirrors", "bad"], "bad, line 1: names a.org a second time"),
        (["a.txt", "-", "-o", "o", "-r", "local"], "-r local: standard input is read by one"),
        (["s4://b/a.txt", "-o", "o"], "s4://b/a.txt: not a URI of a known store"),
    ],
)
def test_mistakes(tmp_path, capfd, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("http://a.org/\n")
    (tmp_path / "packed").write_bytes(gzip.compress(b"http://a.org/\n"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"http://d.org\n")[:-4])
    (tmp_path / "bad").write_text("a.org b.org a.org\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").touch()
    assert message in mistake(capfd, "bulk", *arguments)
    assert not (tmp_path / "o").exists()


def test_a_store_that_is_shared_is_refused(tmp_path, capfd):
    with pytest.raises(SystemExit) as ended:
        main(["urls", "bulk", "a", "-o", "o", "--store", "redis://127.0.0.1/0"])
    assert ended.value.code == 2
    assert "redis://127.0.0.1/0: not a directory" in capfd.readouterr().err


def test_long_lists_go_to_several_processes(tmp_path, capfd, monkeypatch):
    """Nobody says where: what one process would take seconds for is for all cores."""
    monkeypatch.setattr(urls_bulk, "_SMALL_BYTES", 100)
    processes = []
    monkeypatch.setattr(engine, "load_kernels", lambda: processes.append(1))
    out = tmp_path / "out.tsv"
    for count, wanted in ((2, []), (200, [1])):
        lists = write_visits(tmp_path / "a.txt", visits(count))
        done(capfd, "bulk", lists, "-o", out, "--overwrite")
        assert processes == wanted
        assert out.read_bytes() == distinct(visits(count))
