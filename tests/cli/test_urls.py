"""mr-dedup urls: as a filter between pipes, on data whose truth is known, killed and mistaken."""

import gzip
import json
import signal
import subprocess
import time

import pytest
import zstandard

from data_gen.urls import UrlParameters, write
from tests.cli.running import Command
from tests.urls.redis_server import running

run = Command("urls")
done, mistake, piped = run.done, run.mistake, run.piped


def test_a_filter_between_pipes(tmp_path, capfd):
    store = tmp_path / "seen"
    text = b"http://a.org\nhttp://b.org\r\n\nHTTP://A.org/#x\nhttp://b.org/2"
    assert (
        piped(text, "filter", "--store", store) == b"http://a.org\nhttp://b.org\nhttp://b.org/2\n"
    )
    lines = tmp_path / "lines.txt"
    lines.write_bytes(text)
    one = tmp_path / "one.txt"
    one.write_text("http://a.org/")
    for action, file, out in (
        ("filter", lines, ""),
        ("remove", one, ""),
        ("filter", lines, "http://a.org\n"),
        ("remove", one, ""),
        ("add", one, ""),
        ("filter", lines, ""),
    ):
        assert done(capfd, action, "--store", store, file)[0] == out


def test_visits_with_aliases_are_as_many_as_the_truth_says(tmp_path, capfd):
    """The store forgets what is removed, and has the others still."""
    data, store = tmp_path / "data", tmp_path / "seen"
    write(UrlParameters(3000, 8000, 5, hosts=50, alias_share=0.5, removals=400), data)
    rows = [line.split("\t") for line in (data / "truth.tsv").read_text().splitlines()[1:]]
    form = ["--drop-index", "--drop-tracking", "--mirrors", data / "mirrors.txt"]
    out, err = done(capfd, "filter", "--store", store, *form, data / "visits-00000.txt")
    assert len(out.splitlines()) == len(rows)
    assert f"8,000 URLs, {len(rows):,} new, {len(rows):,} in the store" in err
    _, err = done(capfd, "remove", "--store", store, data / "removals.txt")
    assert f"400 URLs, 400 removed, {len(rows) - 400:,} in the store" in err
    truth = tmp_path / "truth.txt"
    truth.write_text("".join(f"{url}\n" for url, _, _ in rows))
    out, _ = done(capfd, "filter", "--store", store, truth)
    assert sorted(out.splitlines()) == sorted(url for url, _, removed in rows if removed == "1")


def test_compressed_files_are_unpacked(tmp_path, capfd):
    lines = b"http://a.org\nhttp://b.org\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "b.zst").write_bytes(zstandard.compress(b"http://b.org\nhttp://c.org\n"))
    store = tmp_path / "seen"
    out, err = done(capfd, "filter", "--store", store, tmp_path / "a.txt.gz", tmp_path / "b.zst")
    assert out == "http://a.org\nhttp://b.org\nhttp://c.org\n"
    assert "4 URLs, 3 new, 3 in the store" in err
    # whatever it is called
    (tmp_path / "packed").write_bytes(gzip.compress(b"http://d.org/1\n"))
    assert done(capfd, "filter", "--store", store, tmp_path / "packed")[0] == "http://d.org/1\n"
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"http://d.org\n")[:-4])
    code, out, err = run(capfd, "filter", "--store", store, tmp_path / "cut.gz")
    assert (code, out) == (2, "http://d.org\n")
    assert "cut.gz, decompressed byte 13: the gzip data is cut short" in err


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress, bytes])
@pytest.mark.parametrize("bytes_a_write", [1, 1 << 16])
def test_standard_input_is_unpacked_as_it_begins(tmp_path, packed, bytes_a_write):
    lines = [b"http://a.org/%d" % number for number in range(30 if bytes_a_write == 1 else 1000)]
    content = packed(b"\n".join(lines))
    with subprocess.Popen(
        run.program("filter", "--no-canonical", "--store", tmp_path / "seen"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        for start in range(0, len(content), bytes_a_write):
            process.stdin.write(content[start : start + bytes_a_write])
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines() == lines


def test_a_byte_order_mark_is_no_part_of_a_url(tmp_path):
    text = b"\xef\xbb\xbfhttp://a.org\n\xef\xbb\xbfhttp://b.org\nhttp://a.org\n"
    # also in the middle, as in files that were concatenated
    found = piped(text, "filter", "--store", tmp_path / "a")
    assert found == b"http://a.org\nhttp://b.org\n"
    assert piped(text[:3], "filter", "--store", tmp_path / "b") == b""


def test_lines_that_are_no_url_are_kept_with_the_reason(tmp_path, capfd):
    lines = tmp_path / "lines.txt"
    lines.write_bytes(
        b"http://a.org\nnonsense\n\n" + b"x" * 70_000 + b"\nhttp://[b\nhttp://c.org\n"
    )
    rejects = tmp_path / "rejects.jsonl"
    store = tmp_path / "seen"
    out, err = done(capfd, "filter", "--store", store, "--rejects", rejects, lines)
    assert out == "http://a.org\nhttp://c.org\n"
    found = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert sorted((each["position"], each["reason"][:12]) for each in found) == [
        ("line 2", "has no schem"),
        ("line 4", "is longer th"),
        ("line 5", "not a URL: i"),
    ]
    assert {each["file"] for each in found} == {str(lines)}
    assert "2 URLs, 2 new" in err
    assert (
        f"lines that are not a URL: 3, the first in {lines}, line 4: is longer than 65,536 bytes"
        in err
    )
    assert "rejects.jsonl says why" in err
    assert "exists; give --overwrite" in mistake(
        capfd, "filter", "--store", store, "--rejects", rejects, lines
    )
    lines.write_text("http://a.org\n")
    done(capfd, "filter", "--store", store, "--rejects", rejects, "--overwrite", lines)
    assert not rejects.exists()
    lines.write_text("nonsense\n")
    assert "give --rejects FILE" in done(capfd, "add", "--store", store, lines)[1]


def test_what_a_form_folds_is_told_in_a_table(tmp_path, capfd):
    lines = tmp_path / "lines.txt"
    lines.write_text(
        "http://a.org\nhttp://a.org/\nhttp://a.org/#x\nhttp://b.org/#y\nbad\nhttp://a.org/#x\n"
        "http://a.org/index.html\nhttp://a.org/#z\n"
    )
    out, err = done(capfd, "folds", lines)
    assert out.splitlines() == [
        "7 URLs, 6 distinct, 3 in the form (canonical)",
        "other spellings of the same URL, by their difference",
        "  a fragment  2",
        "  no path     1",
    ]
    assert "lines that are not a URL: 1" in err
    out, _ = done(capfd, "folds", lines, "--drop-index", "--rejects", tmp_path / "r.jsonl")
    assert out.splitlines()[0] == "7 URLs, 6 distinct, 2 in the form (canonical, drop index)"
    assert out.splitlines()[3:] == ["  a default page  1", "  no path         1"]
    assert done(capfd, "folds", lines, "--no-canonical")[0] == (
        "8 URLs, 7 distinct, 7 in the form (as given)\n"
    )


def test_stats_and_rebuild(tmp_path, capfd):
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"http://a.org/{number}\n" for number in range(3000)))
    store = tmp_path / "seen"
    options = ["--capacity", "2e3", "--drop-index", "--counter-bits", "2"]
    done(capfd, "add", "--store", store, *options, lines)
    out, _ = done(capfd, "stats", "--store", store)
    rows = dict(line.strip().split("  ", 1) for line in out.splitlines()[1:])
    assert out.splitlines()[0] == str(store)
    assert rows["URLs"].strip() == "3,000, of a capacity of 4,000"
    assert rows["form"].strip() == "canonical, drop index"
    assert rows["counters"].strip() == "80,000 of 2 bits, 8 a URL"
    assert rows["memory"].strip() == "20,000 bytes, 6.67 a URL"
    assert rows["in use"].strip().startswith("26.0")
    _, err = done(capfd, "rebuild", "--store", store, "--capacity", "1e5", "--fp-rate", "0.01")
    assert "3,000 URLs counted in" in err
    assert "bytes for 100,000" in err
    out, _ = done(capfd, "stats", "--store", store)
    assert "3,000, of a capacity of 100,000" in out
    (store / "counters.cbf").write_bytes(b"damaged")
    _, err = done(capfd, "stats", "--store", store)
    assert "counters.cbf, header: not a file of counters" in err
    assert "the counters were rebuilt" in err
    out, err = done(capfd, "filter", "--store", store, lines)
    assert (out, "rebuilt" in err) == ("", False)


def test_several_processes_share_redis(tmp_path):
    """Each URL comes out of one of them, once."""
    lists = []
    for number in range(3):
        lists.append(tmp_path / f"{number}.txt")
        urls = (f"http://a.org/{each}\n" for each in range(number * 500, number * 500 + 6000))
        lists[-1].write_text("".join(urls))
    with running() as address:
        command = run.program("filter", "--store", f"{address}#crawl")
        processes = [
            subprocess.Popen([*command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for path in lists
        ]
        outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    lines = [line for out, _ in outputs for line in out.splitlines()]
    assert sorted(lines) == sorted(b"http://a.org/%d" % each for each in range(7000))


def test_what_was_printed_before_a_kill_is_not_lost(tmp_path):
    """Killed in the midst, and run again: all come out, and few of them twice."""
    total = 400_000
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"http://a.org/{number}\n" for number in range(total)))
    command = run.program("filter", "--no-canonical", "--store", tmp_path / "seen", lines)
    out = tmp_path / "first.txt"
    with out.open("wb") as first, subprocess.Popen(command, stdout=first) as process:
        deadline = time.monotonic() + 60
        while out.stat().st_size < 500_000:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    again = subprocess.run(command, capture_output=True, check=True)
    printed = out.read_bytes().splitlines()
    second = again.stdout.splitlines()
    wanted = lines.read_bytes().splitlines()
    # the kill may have cut a line
    assert set(wanted) <= {*printed, *second}
    twice = len(printed) + len(second) - total
    assert 0 <= twice < 30_000
    assert len(set(second)) == len(second)


def test_an_interrupted_filter_has_kept_what_it_printed(tmp_path):
    store = tmp_path / "seen"
    with subprocess.Popen(
        run.program("filter", "--store", store),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(b"http://a.org\n")
        process.stdin.flush()
        # it does not wait for more
        assert process.stdout.readline() == b"http://a.org\n"
        with pytest.raises(AssertionError, match="one process writes at a time"):
            piped(b"", "stats", "--store", store)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"mr-dedup: error: interrupted\n")
    assert piped(b"http://a.org\nhttp://b.org\n", "filter", "--store", store) == b"http://b.org\n"


def test_a_reader_that_leaves_is_no_error(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"http://a.org/{number}\n" for number in range(100_000)))
    filtering = subprocess.Popen(
        run.program("filter", "--no-canonical", "--store", tmp_path / "seen", lines),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert filtering.stdout.readline() == b"http://a.org/0\n"
    filtering.stdout.close()
    err = filtering.stderr.read()
    filtering.stderr.close()
    assert (filtering.wait(), err) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats", "--store", "nowhere"], "nowhere: contains no store of URLs"),
        (["remove", "--store", "nowhere"], "nowhere: contains no store of URLs"),
        (["filter", "--store", "s", "--fp-rate", "2"], "fp_rate must be between 0 and 1, not 2.0"),
        (["filter", "--store", "s", "--counter-bits", "9"], "counter_bits must be from 1 to 8"),
        (["filter", "--store", "s", "--capacity", "0"], "capacity must be from 1 to"),
        (
            ["filter", "--store", "s", "--no-canonical", "--drop-index"],
            "--no-canonical leaves nothing to --drop-index",
        ),
        (["filter", "--store", "s", "--mirrors", "none.txt"], "none.txt: No such file"),
        (["filter", "--store", "s", "missing.txt"], "missing.txt: cannot be read: No such file"),
        (["filter", "--store", "redis://127.0.0.1:1/0"], "redis://127.0.0.1:1/0#urls: "),
    ],
)
def test_mistakes(tmp_path, capfd, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in mistake(capfd, *arguments)


def test_another_form_is_refused(tmp_path, capfd, monkeypatch):
    store = tmp_path / "seen"
    empty = tmp_path / "empty"
    empty.touch()
    done(capfd, "add", "--store", store, empty)
    assert "was made with URLs of another form (canonical), not as given" in mistake(
        capfd, "add", "--store", store, "--no-canonical", empty
    )
